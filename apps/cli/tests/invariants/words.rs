//! Private words of flashlab, for which the field has names, occur nowhere: not in a message, a page, a name
//! or a comment.
//!
//! 1. Each file is read as a sequence of lower-case words. A name counts as its words, so that `fast_region`
//!    and `FastRegion` are "fast region". Punctuation ends a phrase.
//! 2. Every sequence that [`WORDS`] lists is a hit.
//!
//! To see the hits: `cargo test --workspace --test invariants words -- --nocapture`.

use std::fs;
use std::path::Path;

use crate::sources::{string_literals, text_files, workspace};

/// The private words, each with the field's.
const WORDS: &[(&str, &str)] = &[
    ("make room", "reclaim blocks, evict"),
    ("makes room", "reclaims blocks, evicts"),
    ("making room", "garbage collection, eviction"),
    ("made room", "reclaimed, evicted"),
    ("room is made", "garbage collection reclaims a block"),
    ("room was made", "garbage collection reclaimed a block"),
    ("room made", "blocks reclaimed"),
    ("is emptied", "is reclaimed, is evicted"),
    ("are emptied", "are reclaimed, are evicted"),
    ("was emptied", "was reclaimed, was evicted"),
    ("were emptied", "were reclaimed, were evicted"),
    ("be emptied", "be reclaimed, be evicted"),
    ("emptied together", "reclaimed in batches of N"),
    ("put off", "deferred"),
    ("puts off", "defers"),
    ("putting off", "deferring"),
    ("owe", "defer; backlog"),
    ("owes", "defers; backlog"),
    ("owed", "deferred; backlog"),
    ("owing", "deferring; backlog"),
    ("fast region", "SLC cache"),
    ("fast regions", "SLC caches"),
    ("fast cell", "SLC cache"),
    ("fast cells", "SLC cache"),
    ("spare space", "over-provisioning"),
    ("space beyond the capacity", "over-provisioning"),
    ("going cost", "switching groups, seek"),
    ("going costs", "switching groups costs, a seek costs"),
    ("again and again", "repeatedly"),
    ("way to the program", "transport latency"),
    ("on the way", "transport latency"),
    ("reread", "cached read"),
    ("rereads", "cached reads"),
    ("read again", "cached reads"),
    ("reads again", "cached reads"),
    ("absorb", "buffer"),
    ("absorbs", "buffers"),
    ("absorbed", "buffered"),
    ("stalls that come back", "periodic stalls"),
    ("sure", "confidence"),
    ("surer", "confidence"),
    ("surely", "confidence"),
    ("nat", "log-likelihood ratio"),
    ("nats", "log-likelihood ratio"),
    ("foresee", "next_completion"),
    ("foresees", "next_completion"),
    ("foreseen", "next_completion"),
    ("foresaw", "next_completion"),
    ("lump", "latency spike"),
    ("lumps", "latency spikes"),
    ("foretold", "predicted"),
    ("foretell", "predict"),
    ("foretells", "predicts"),
    ("be gone on with", "be resumed"),
    ("gone on with", "resumed"),
];

/// Where such words are necessary, and how many; the counts may only shrink.
const LEFT: &[(&str, usize)] = &[
    // Keys and parameters of earlier documents, which can still be read.
    ("crates/analysis", 6),
    ("crates/sim", 3),
    ("docs", 1),
    // Labels of patterns and groups, which seed the probes: another label would give other IOs.
    ("crates/infer", 7),
];

struct Hit {
    line: usize,
    phrase: &'static str,
    instead: &'static str,
}

#[test]
fn the_fields_words_are_used() {
    let mut read = 0;
    let mut complaints = Vec::new();
    let mut counts: Vec<(String, usize)> = Vec::new();
    for path in text_files() {
        let text = fs::read_to_string(workspace().join(&path)).unwrap();
        read += text.len();
        let hits = hits_in(&text);
        for Hit { line, phrase, instead } in &hits {
            println!("{}:{line}: `{phrase}`: {instead}", path.display());
        }
        let area = area(&path);
        match counts.iter_mut().find(|(name, _)| *name == area) {
            Some((_, count)) => *count += hits.len(),
            None => counts.push((area, hits.len())),
        }
    }
    assert!(read > 1_000_000, "only {read} bytes were read: the test is broken");
    for (area, count) in &counts {
        let allowed = LEFT.iter().find(|(name, _)| name == area).map_or(0, |&(_, count)| count);
        if *count > allowed {
            complaints.push(format!("{area}: {count} such words, and at most {allowed} may be left"));
        }
    }
    assert!(complaints.is_empty(), "the words are printed above\n{}", complaints.join("\n"));
}

/// The part of the workspace of a file: a crate, an app, `docs`, or the file itself.
fn area(path: &Path) -> String {
    let parts: Vec<&str> = path.iter().map(|part| part.to_str().unwrap()).collect();
    match parts[..] {
        [folder @ ("crates" | "apps"), name, _, ..] => format!("{folder}/{name}"),
        [first, ..] => first.to_owned(),
        [] => unreachable!("a file has a name"),
    }
}

fn hits_in(text: &str) -> Vec<Hit> {
    let words = words(text);
    let mut hits: Vec<Hit> = Vec::new();
    for &(phrase, instead) in WORDS {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        let found = words
            .windows(wanted.len())
            .filter(|window| window.iter().zip(&wanted).all(|((word, _), wanted)| word == wanted));
        hits.extend(found.map(|window| Hit { line: window[0].1, phrase, instead }));
    }
    hits.sort_by_key(|hit| hit.line);
    hits
}

/// The words of the text in lower case, each with its line. Punctuation is a word of its own.
fn words(text: &str) -> Vec<(String, usize)> {
    let mut words = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut word = String::new();
        let mut end = |word: &mut String| {
            if !word.is_empty() {
                words.push((std::mem::take(word).to_lowercase(), at + 1));
            }
        };
        let line = line.trim_start().trim_start_matches(['/', '!', '#']);
        let mut characters = line.chars().peekable();
        while let Some(c) = characters.next() {
            match c {
                '\\' if characters.peek().is_some_and(|c| matches!(c, 'n' | 't')) => {
                    characters.next();
                    end(&mut word);
                }
                'A'..='Z' if word.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) => {
                    end(&mut word);
                    word.push(c);
                }
                c if c.is_alphanumeric() => word.push(c),
                '.' | ',' | ';' | ':' | '!' | '?' | '(' | ')' | '|' | '=' => {
                    end(&mut word);
                    word.push(c);
                    end(&mut word);
                }
                _ => end(&mut word),
            }
        }
        end(&mut word);
    }
    words
}

#[test]
fn words_are_found_in_names_and_across_lines() {
    let lines = |text: &str| hits_in(text).iter().map(|hit| (hit.line, hit.phrase)).collect::<Vec<_>>();
    assert_eq!(lines("let fast_region = FastRegion::new();"), [(1, "fast region"), (1, "fast region")]);
    assert_eq!(lines("/// What is put\n/// off."), [(1, "put off")]);
    assert_eq!(lines("it is put. Off it goes; breakfast_regions; pressure, owner"), []);
    assert_eq!(
        lines(&string_literals("// owed\nlet owed = 'o'; f(\"is\\nowed\", r#\"a \" lump\"#);")),
        [(2, "owed"), (2, "lump")]
    );
}
