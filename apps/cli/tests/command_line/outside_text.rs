//! Names and titles from outside reach no terminal as commands: every verb that prints them is run with files, folders, profiles and
//! plans whose names and titles have control characters.

use crate::support::{Directory, SHORT_RUNS, SMALL_PROFILE};

/// Changes the colour, rings the bell, clears the screen (in eight bits), turns the text around, and goes to the line's begin.
const COMMANDS: &str = "e\u{1b}[31m\u{7}\u{9b}2J\u{202e}\r";

/// Each verb with a file that it reads or makes, and whether it succeeds; `@` stands for the begin of the file's name.
const PRINTING: &[(&str, bool)] = &[
    ("plan check @plan.toml", true),
    ("sim show sim:./@profile.toml", true),
    ("run @plan.toml sim:./@profile.toml --output @run", true),
    ("run @plan.toml sim:./@profile.toml --seed 2 --output @other", true),
    ("run @plan.toml sim:./@profile.toml --output @run", false),
    ("report @run", true),
    ("report @run --csv", true),
    ("report @run --json", true),
    ("report @run --output @page.html", true),
    ("resume @run", true),
    ("compare @run @other", true),
    ("compare @run @other --csv", true),
    ("compare @run @other --json", true),
    ("compare @run @missing", false),
    ("model fit sim:./@profile.toml --zones 1 --depth-max 2 --read-only --output @fit", true),
    ("model predict @fit --io-size 4KiB", true),
    ("model tune @fit --for postgresql", true),
    ("model tune @fit --for postgresql --device @device --mountpoint @there", false),
    ("model tune @fit --for fio-like-nothing@", false),
    ("model check @fit sim:./@profile.toml --zones 1 --depth-max 2 --read-only --output @check", true),
    ("model twin @run --output @twin.toml", false),
    ("model twin-check @run @other --output @twin.html", true),
    ("sim run sim:./@profile.toml --plan @plan.toml --output @recording", true),
    ("report @recording", true),
    ("report @recording --csv", true),
    ("report @recording --json", true),
    ("resume @recording", false),
    ("sim run sim:./@profile.toml --trace @recording", true),
    ("sim precondition sim:./@profile.toml --output @state", false),
    ("sweep sim:./@profile.toml --set capacity=32MiB --plan @plan.toml --output @sweep", true),
    ("infer sim:./@profile.toml --only read_cost_per_io --output @inference", true),
    ("report @inference", true),
    ("infer --replay @inference --output @replayed", true),
    ("em run scan sim:./@profile.toml --elements 1000 --output @scanned", true),
    ("report @scanned", true),
    ("em predict scan sim:./@profile.toml --elements 1000", true),
    ("em graph edges @graph --from @missing", false),
    ("repair create @volume --size 64MiB --segment 1MiB", true),
    ("repair status @volume", true),
    ("repair check @volume", true),
    ("repair dump @volume --output @dumped", true),
    ("repair serve @volume --nbd @missing/socket --control @missing/control", false),
    ("repair mount @volume @missing --control @missing/control", false),
    ("repair run @volume --files @missing --control @missing/control -- true", false),
    ("serve sim:./@profile.toml --fuse @missing --control @missing/control", false),
    ("serve sim:./@profile.toml --fuse @missing --fault @fault", false),
    ("live status @missing", false),
];

/// Runs all verbs with names that begin with `begin` and titles that have `escaped`, and lists those that print what `is_wrong`, or that end in
/// another way than they should.
fn wrong(begin: &str, escaped: &str, is_wrong: impl Fn(&str, &str) -> bool) -> String {
    let directory = Directory::new();
    let profile = SMALL_PROFILE.replace("\"Small\"", &format!("\"{escaped}\""));
    directory
        .write(&format!("{begin}profile.toml"), profile.replace("\"a test\"", &format!("\"{escaped}\"")));
    directory
        .write(&format!("{begin}plan.toml"), SHORT_RUNS.replace("\"Short runs\"", &format!("\"{escaped}\"")));
    let mut wrong = String::new();
    for &(command, succeeds) in PRINTING {
        let words: Vec<String> = command.split(' ').map(|word| word.replace('@', begin)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = directory.flashlab(&words);
        let printed = [&ran.out, &ran.err].iter().any(|text| is_wrong(command, text));
        if printed || ran.code.is_none() || (ran.code == Some(0)) != succeeds {
            wrong += &format!("{command}: {:?} {:?} {:?}\n", ran.code, ran.out, ran.err);
        }
    }
    wrong
}

#[test]
fn no_verb_prints_what_a_terminal_would_execute() {
    let is_command = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || c == '\u{202e}';
    let wrong =
        wrong(COMMANDS, r"Small\u001b[31m\u0007\u009b2J\u202e\r", |_, text| text.contains(is_command));
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn no_title_has_a_line_of_its_own() {
    // A text of TOML and a cell of CSV have several lines by their formats.
    let is_document = |command: &str| command.starts_with("sim show") || command.ends_with("--csv");
    let wrong = wrong("f", r"Small\nFORGED\n\nFORGED", |command, text| {
        !is_document(command) && text.lines().any(|line| line.trim_start().starts_with("FORGED"))
    });
    assert!(wrong.is_empty(), "{wrong}");
}
