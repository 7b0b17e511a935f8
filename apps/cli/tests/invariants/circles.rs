//! The files of a crate use each other in one direction: there is no circle of files.
//!
//! 1. The modules of a crate are found by their files. A file uses another if a path in its code leads there:
//!    a path that begins with `crate`, `super`, `self` or one of its own modules.
//! 2. A path is followed through re-exports to the file that defines its target. So `crate::Error` is a use
//!    of `error.rs` if `lib.rs` only re-exports it. A parent does not use its modules by `mod` and `pub use`.
//! 3. Files that can be reached from each other form a circle. The shortest circle is printed, with the lines
//!    that make it.
//!
//! Tests do not count: they may use everything. Methods that are called without a path are not detected.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use crate::sources::{code_of, crates, without_texts};

#[test]
fn no_files_use_each_other_in_a_circle() {
    let mut circles: Vec<String> = Vec::new();
    let mut uses = 0;
    let folders = crates().into_iter().map(|name| format!("crates/{name}"));
    for folder in folders.chain(["apps/cli".to_owned(), "apps/nbdkit-plugin".to_owned()]) {
        let graph = Graph::of(&modules(&folder));
        uses += graph.uses.len();
        circles.extend(graph.circles().iter().map(describe));
    }
    assert!(uses > 300, "only {uses} uses were found: the test is broken");
    assert!(
        circles.is_empty(),
        "files use each other in a circle; move what both need to where it belongs, or to a file of its own:\n\n{}",
        circles.join("\n")
    );
}

/// A probe is a file of `infer` that defines `PROBE`; its parts are in the folder of its name.
#[test]
fn no_probe_uses_another_probe() {
    const PROBES: &str = "crates/infer/src/probes/";
    let modules = modules("crates/infer");
    let is_probe = |module: &Module| module.code.iter().any(|(_, line)| line.contains("const PROBE: Probe"));
    let probes: BTreeSet<&str> = modules
        .values()
        .filter(|module| is_probe(module))
        .filter_map(|module| module.file.strip_prefix(PROBES)?.strip_suffix(".rs"))
        .collect();
    assert!(probes.len() >= 20, "only {} probes were found: the test is broken", probes.len());
    let probe_of = |file: &str| -> Option<String> {
        let name = file.strip_prefix(PROBES)?.split(['/', '.']).next()?;
        probes.contains(name).then(|| name.to_owned())
    };
    let graph = Graph::of(&modules);
    let wrong: Vec<String> = graph
        .uses
        .iter()
        .filter_map(|((from, to), line)| {
            let (one, other) = (probe_of(from)?, probe_of(to)?);
            (one != other).then(|| format!("{from}:{line} uses {to}"))
        })
        .collect();
    assert!(wrong.is_empty(), "move what both probes need to a file of its own:\n{}", wrong.join("\n"));
}

/// What an inference computes from times alone is pure: signals, the model of dies and channels, the beliefs about flash, and
/// the thresholds. Their files use each other, crates without devices, and nothing else of `infer`.
#[test]
fn signals_know_no_device_and_no_probe() {
    const PURE: [&str; 4] = ["signals", "flash_layout", "priors", "thresholds"];
    const CRATES: [&str; 2] = ["flashlab_base", "flashlab_analysis"];
    let is_pure = |file: &str| {
        let module = file.strip_prefix("crates/infer/src/").and_then(|name| name.split(['/', '.']).next());
        module.is_some_and(|module| PURE.contains(&module))
    };
    let modules = modules("crates/infer");
    let uses = Graph::of(&modules).uses;
    let inside = uses.iter().filter(|((from, to), _)| is_pure(from) && !is_pure(to));
    let mut wrong: Vec<String> =
        inside.map(|((from, to), line)| format!("{from}:{line} uses {to}")).collect();
    let pure: Vec<&Module> = modules.values().filter(|module| is_pure(&module.file)).collect();
    assert!(pure.len() > 30, "only {} files were found: the test is broken", pure.len());
    for module in pure {
        let names = module.code.iter().flat_map(|(line, code)| {
            let names = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            names.filter(|name| name.starts_with("flashlab_")).map(move |name| (line, name))
        });
        let others = names.filter(|(_, name)| !CRATES.contains(name));
        wrong.extend(others.map(|(line, name)| format!("{}:{line} uses {name}", module.file)));
    }
    assert!(
        wrong.is_empty(),
        "a signal is a function of times; what needs a device is a pattern or a probe:\n{}",
        wrong.join("\n")
    );
}

/// A circle: the files in order, each with the line in which it uses the next one.
type Circle = Vec<(String, usize)>;

fn describe(circle: &Circle) -> String {
    let next = circle.iter().cycle().skip(1);
    circle.iter().zip(next).map(|((from, line), (to, _))| format!("    {from}:{line} uses {to}\n")).collect()
}

/// A file of a crate.
struct Module {
    file: String,
    /// Its code without comments and texts, by lines.
    code: Vec<(usize, String)>,
}

/// The modules of a crate by their paths; the root's is empty.
type Modules = BTreeMap<Vec<String>, Module>;

fn modules(folder: &str) -> Modules {
    let source = Path::new(folder).join("src");
    let parsed = code_of(folder).into_iter().map(|(file, code)| {
        // `code` has no comments, but it has strings; its lines are numbered.
        let text: Vec<&str> = code.iter().map(|(_, line)| line.as_str()).collect();
        let text = without_texts(&text.join("\n"));
        let code = code.iter().map(|(number, _)| *number).zip(text.lines().map(str::to_owned)).collect();
        let inside = file.strip_prefix(&source).unwrap().with_extension("");
        let mut path: Vec<String> = inside.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if matches!(path.last().unwrap().as_str(), "lib" | "main" | "mod") {
            path.pop();
        }
        (path, Module { file: file.to_str().unwrap().to_owned(), code })
    });
    parsed.collect()
}

/// A path in the code of a module.
#[derive(Debug)]
struct Named {
    line: usize,
    path: Vec<String>,
    /// Its name in this module, if a `use` imports it; "*" for everything in it.
    alias: Option<String>,
    is_public: bool,
}

struct Graph {
    /// Which file uses which, and one line in which it does.
    uses: BTreeMap<(String, String), usize>,
}

impl Graph {
    fn of(modules: &Modules) -> Graph {
        let named: BTreeMap<&Vec<String>, Vec<Named>> =
            modules.iter().map(|(path, module)| (path, paths_in(&module.code))).collect();
        let mut uses = BTreeMap::new();
        for (at, module) in modules {
            for name in &named[at] {
                let Some(to) = resolve(modules, &named, at, &name.path, 0) else { continue };
                let is_own = to.starts_with(at);
                let is_reexport = name.is_public && is_own;
                if to != *at && !is_reexport {
                    let edge = (module.file.clone(), modules[&to].file.clone());
                    uses.entry(edge).or_insert(name.line);
                }
            }
        }
        Graph { uses }
    }

    /// For every file in a circle, its shortest circle; each circle is returned once.
    fn circles(&self) -> Vec<Circle> {
        let files: BTreeSet<&String> = self.uses.keys().map(|(from, _)| from).collect();
        let mut covered: BTreeSet<String> = BTreeSet::new();
        let mut circles = Vec::new();
        for file in files {
            if covered.contains(file) {
                continue;
            }
            if let Some(circle) = self.shortest(file) {
                covered.extend(circle.iter().map(|(from, _)| from.clone()));
                circles.push(circle);
            }
        }
        circles
    }

    fn shortest(&self, start: &String) -> Option<Circle> {
        let mut before: BTreeMap<&String, &String> = BTreeMap::new();
        let mut waiting = VecDeque::from([start]);
        while let Some(from) = waiting.pop_front() {
            for (_, to) in self.uses.keys().filter(|(file, _)| file == from) {
                if to == start {
                    let mut way = vec![from];
                    while *way.last().unwrap() != start {
                        way.push(before[way.last().unwrap()]);
                    }
                    way.reverse();
                    let next = way.iter().cycle().skip(1);
                    let line = |from: &String, to: &String| self.uses[&(from.clone(), to.clone())];
                    return Some(
                        way.iter().zip(next).map(|(from, to)| ((*from).clone(), line(from, to))).collect(),
                    );
                }
                if to != from && !before.contains_key(to) {
                    before.insert(to, from);
                    waiting.push_back(to);
                }
            }
        }
        None
    }
}

/// The module that defines the target of a path in the module `at`; `None` if it is not a file of this crate.
fn resolve(
    modules: &Modules,
    named: &BTreeMap<&Vec<String>, Vec<Named>>,
    at: &[String],
    path: &[String],
    depth: usize,
) -> Option<Vec<String>> {
    if depth > 8 {
        return None;
    }
    let mut module = at.to_vec();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => {
            module.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                module.pop();
                rest = &rest[1..];
            }
        }
        first => {
            module.push(first.to_owned());
            modules.get(&module)?;
            rest = &rest[1..];
        }
    }
    while let Some(part) = rest.first() {
        let child = [&module[..], std::slice::from_ref(part)].concat();
        if modules.contains_key(&child) {
            module = child;
            rest = &rest[1..];
            continue;
        }
        let reexports = named[&module].iter().filter(|name| name.path.len() > 1 || name.alias.is_some());
        let mut sources = reexports
            .filter(|name| name.alias.as_deref() == Some(part) || name.alias.as_deref() == Some("*"));
        if let Some(defined) = sources.find_map(|name| {
            let more: &[String] = if name.alias.as_deref() == Some("*") { rest } else { &rest[1..] };
            let whole = [&name.path[..], more].concat();
            let found = resolve(modules, named, &module, &whole, depth + 1)?;
            let is_there = name.alias.as_deref() != Some("*") || defines(&modules[&found], part);
            is_there.then_some(found)
        }) {
            return Some(defined);
        }
        break;
    }
    Some(module)
}

fn defines(module: &Module, name: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
    module.code.iter().any(|(_, line)| {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        words.windows(2).any(|pair| kinds.contains(&pair[0]) && pair[1] == name)
    })
}

/// The paths in a module's code: imported by `use`, and in the code itself.
fn paths_in(code: &[(usize, String)]) -> Vec<Named> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let (line, token) = &tokens[at];
        if token == "use" {
            let is_public = at > 0 && matches!(tokens[at - 1].1.as_str(), "pub" | ")");
            at = tree(&tokens, at + 1, &[], is_public, &mut found);
        } else if is_name(token) && (at == 0 || tokens[at - 1].1 != "::") {
            let mut path = vec![token.clone()];
            while tokens.get(at + 1).is_some_and(|(_, token)| token == "::")
                && tokens.get(at + 2).is_some_and(|(_, token)| is_name(token))
            {
                path.push(tokens[at + 2].1.clone());
                at += 2;
            }
            // `pub(crate)` and `self.field` are no paths.
            if path.len() > 1 {
                found.push(Named { line: *line, path, alias: None, is_public: false });
            }
            at += 1;
        } else {
            at += 1;
        }
    }
    found
}

/// Reads a tree of `use` that begins at a token. Returns the next token.
fn tree(
    tokens: &[(usize, String)],
    mut at: usize,
    before: &[String],
    is_public: bool,
    found: &mut Vec<Named>,
) -> usize {
    let mut path = before.to_vec();
    let mut alias = None;
    let mut is_group = false;
    while let Some((line, token)) = tokens.get(at) {
        match token.as_str() {
            "::" => at += 1,
            "{" => {
                is_group = true;
                at += 1;
                while tokens.get(at).is_some_and(|(_, token)| token != "}") {
                    at = tree(tokens, at, &path, is_public, found);
                    at += usize::from(tokens.get(at).is_some_and(|(_, token)| token == ","));
                }
                at += 1;
            }
            "as" => {
                alias = tokens.get(at + 1).map(|(_, token)| token.clone());
                at += 2;
            }
            "*" => {
                alias = Some("*".to_owned());
                at += 1;
            }
            "self" if !path.is_empty() => at += 1,
            name if is_name(name) => {
                path.push(name.to_owned());
                at += 1;
            }
            _ => {
                if !is_group && !path.is_empty() {
                    let alias = alias.or_else(|| path.last().cloned());
                    found.push(Named { line: *line, path, alias, is_public });
                }
                return at;
            }
        }
    }
    at
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn tokens(code: &[(usize, String)]) -> Vec<(usize, String)> {
    let mut tokens: Vec<(usize, String)> = Vec::new();
    for (number, line) in code {
        let mut rest = line.as_str();
        while let Some(c) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = match c {
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            if !c.is_whitespace() {
                tokens.push((*number, rest[..length].to_owned()));
            }
            rest = &rest[length..];
        }
    }
    tokens
}

#[test]
fn circles_are_seen_and_reexports_are_none() {
    let module = |file: &str, code: &str| Module {
        file: file.to_owned(),
        code: code.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned())).collect(),
    };
    let path = |text: &str| text.split_terminator('/').map(str::to_owned).collect::<Vec<_>>();
    let mut modules = Modules::from([
        (path(""), module("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::{B, c::*};\n")),
        (path("a"), module("a.rs", "use crate::{B, b::c};\nstruct A;\n")),
        (path("b"), module("b.rs", "pub mod c;\npub struct B;\nfn f() {}")),
        (path("b/c"), module("c.rs", "\nfn g() { super::f() }\npub struct C;")),
    ]);
    let graph = Graph::of(&modules);
    let uses: Vec<(&str, &str, usize)> =
        graph.uses.iter().map(|((from, to), &line)| (from.as_str(), to.as_str(), line)).collect();
    assert_eq!(uses, [("a.rs", "b.rs", 1), ("a.rs", "c.rs", 1), ("c.rs", "b.rs", 2)]);
    assert_eq!(graph.circles(), Vec::<Circle>::new());
    let closing = module("c.rs", "fn g() { super::f() }\nfn h(a: crate::A) {}\n");
    modules.insert(path("b/c"), closing);
    let circles = Graph::of(&modules).circles();
    assert_eq!(
        circles.iter().map(describe).collect::<String>(),
        "    a.rs:1 uses c.rs\n    c.rs:2 uses a.rs\n"
    );
}
