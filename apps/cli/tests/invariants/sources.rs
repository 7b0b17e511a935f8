//! The files of the workspace, as the invariants read them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub fn crates() -> Vec<String> {
    let folder = fs::read_dir(workspace().join("crates")).unwrap();
    let mut names: Vec<String> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn manifest(folder: &Path) -> toml::Table {
    fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap()
}

/// The code in a folder's `src`, file by file: numbered lines without comments and tests.
pub fn code_of(folder: &str) -> Vec<(PathBuf, Vec<(usize, String)>)> {
    let mut files = Vec::new();
    collect(&workspace().join(folder).join("src"), &mut files);
    files.sort();
    let texts: Vec<(PathBuf, String)> =
        files.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect();
    let tests: BTreeSet<String> = texts.iter().flat_map(|(_, text)| test_modules(text)).collect();
    let is_test = |path: &Path| tests.contains(path.file_stem().unwrap().to_str().unwrap());
    texts
        .into_iter()
        .filter(|(path, _)| !is_test(path))
        .map(|(path, text)| (path.strip_prefix(workspace()).unwrap().to_owned(), code(&text)))
        .collect()
}

pub fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The files that a file declares for tests only.
pub fn test_modules(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    declared.filter_map(|pair| Some(pair[1].split("mod ").nth(1)?.strip_suffix(';')?.to_owned())).collect()
}

pub fn code(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    // Tests are at the end of a file.
    let is_start_of_tests = |at: &usize| {
        lines[*at] == "#[cfg(test)]" && lines.get(at + 1).is_some_and(|next| next.ends_with('{'))
    };
    let end = (0..lines.len()).find(is_start_of_tests).unwrap_or(lines.len());
    let without_comment = |line: &str| match line.split_once("//") {
        // `https://` in a text is no comment.
        Some((before, _)) if !before.ends_with(':') => before.to_owned(),
        _ => line.to_owned(),
    };
    lines[..end].iter().enumerate().map(|(at, line)| (at + 1, without_comment(line))).collect()
}

/// The text files of the workspace, except this test, by their paths in the workspace.
pub fn text_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect_texts(&workspace(), &mut files);
    let mut files: Vec<PathBuf> =
        files.into_iter().map(|path| path.strip_prefix(workspace()).unwrap().to_owned()).collect();
    files.retain(|path| !path.starts_with("apps/cli/tests/invariants"));
    files.sort();
    files
}

fn collect_texts(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !name.starts_with('.') && !matches!(name, "target" | "vendor" | "reference") {
                collect_texts(&path, files);
            }
        } else if ["rs", "md", "toml", "js", "css", "html", "sh", "py"]
            .iter()
            .any(|end| name.ends_with(&format!(".{end}")))
        {
            files.push(path);
        }
    }
}

/// Rust code in which everything except string literals is blank; the lines stay.
pub fn string_literals(code: &str) -> String {
    pieces(code, |piece| piece == Piece::Text)
}

/// Rust code in which comments and the content of string literals are blank; the lines stay.
pub fn without_texts(code: &str) -> String {
    pieces(code, |piece| piece == Piece::Code)
}

#[derive(Clone, Copy, PartialEq)]
enum Piece {
    Code,
    Comment,
    Text,
}

fn pieces(code: &str, keep: impl Fn(Piece) -> bool) -> String {
    let mut out = String::with_capacity(code.len());
    let mut at = 0;
    while at < code.len() {
        let (piece, length) =
            next_piece(&code[at..], code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        let text = &code[at..at + length];
        out.extend(text.chars().map(|c| if c == '\n' || keep(piece) { c } else { ' ' }));
        at += length;
    }
    out
}

/// The first piece of the code, and its length.
fn next_piece(code: &str, in_word: bool) -> (Piece, usize) {
    let until = |text: &str, end: &str| text.find(end).map_or(text.len(), |at| at + end.len());
    if code.starts_with("//") {
        return (Piece::Comment, code.find('\n').unwrap_or(code.len()));
    }
    if code.starts_with("/*") {
        return (Piece::Comment, until(code, "*/"));
    }
    let hashes = code.strip_prefix('r').map_or(0, |rest| rest.len() - rest.trim_start_matches('#').len());
    if !in_word && code.starts_with('r') && code[1 + hashes..].starts_with('"') {
        let start = 2 + hashes;
        return (Piece::Text, start + until(&code[start..], &format!("\"{}", "#".repeat(hashes))));
    }
    if let Some(text) = code.strip_prefix('"') {
        let mut escaped = false;
        for (at, c) in text.char_indices() {
            match c {
                '"' if !escaped => return (Piece::Text, at + 2),
                _ => escaped = c == '\\' && !escaped,
            }
        }
        return (Piece::Text, code.len());
    }
    if let Some(text) = code.strip_prefix('\'') {
        // A character, and not a lifetime.
        let length = text.chars().next().map_or(0, char::len_utf8);
        if text.starts_with('\\') {
            return (Piece::Code, 1 + 2 + until(&text[2..], "'"));
        }
        if text[length..].starts_with('\'') {
            return (Piece::Code, 2 + length);
        }
    }
    (Piece::Code, code.chars().next().map_or(0, char::len_utf8))
}
