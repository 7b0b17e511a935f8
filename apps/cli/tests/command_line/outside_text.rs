//! Names and titles from outside reach no terminal as commands: every verb that prints them is run with files, folders, profiles and
//! plans whose names and titles have control characters.

use crate::support::{Directory, SHORT_RUNS, SMALL_PROFILE};

/// Changes the colour, rings the bell, clears the screen (in eight bits), turns the text around, and goes to the line's begin.
const COMMANDS: &str = "e\u{1b}[31m\u{7}\u{9b}2J\u{202e}\r";

/// Each verb with a file that it reads or makes; `@` stands for the begin of the file's name. Exit codes are those of ordinary names.
const PRINTING: &[(&str, i32)] = &[
    ("plan check @plan.toml", 0),
    ("sim show sim:./@profile.toml", 0),
    ("run @plan.toml sim:./@profile.toml --output @run", 0),
    ("run @plan.toml sim:./@profile.toml --seed 2 --output @other", 0),
    ("run @plan.toml sim:./@profile.toml --output @run", 2),
    ("report @run", 0),
    ("report @run --csv", 0),
    ("report @run --json", 0),
    ("report @run --output @page.html", 0),
    ("resume @run", 0),
    ("compare @run @other", 0),
    ("compare @run @other --csv", 0),
    ("compare @run @other --json", 0),
    ("compare @run @missing", 2),
    ("model fit sim:./@profile.toml --zones 1 --depth-max 2 --read-only --output @fit", 0),
    ("model predict @fit --io-size 4KiB", 0),
    ("model tune @fit --for postgresql", 0),
    ("model tune @fit --for postgresql --device @device --mountpoint @there", 0),
    ("model tune @fit --for fio-like-nothing@", 2),
    ("model check @fit sim:./@profile.toml --zones 1 --depth-max 2 --read-only --output @check", 0),
    ("model twin @run --output @twin.toml", 2),
    ("model twin-check @run @other --output @twin.html", 0),
    ("sim run sim:./@profile.toml --plan @plan.toml --output @recording", 0),
    ("report @recording", 0),
    ("report @recording --csv", 0),
    ("report @recording --json", 0),
    ("resume @recording", 2),
    ("sim run sim:./@profile.toml --trace @recording", 0),
    ("sim precondition sim:./@profile.toml --output @state", 2),
    ("sweep sim:./@profile.toml --set capacity=32MiB --plan @plan.toml --output @sweep", 0),
    ("infer sim:./@profile.toml --only read_cost_per_io --output @inference", 0),
    ("report @inference", 0),
    ("infer --replay @inference --output @replayed", 0),
    ("em run scan sim:./@profile.toml --elements 1000 --output @scanned", 0),
    ("report @scanned", 0),
    ("em predict scan sim:./@profile.toml --elements 1000", 0),
    ("em graph edges @graph --from @missing", 2),
    ("repair create @volume --size 64MiB --segment 1MiB", 0),
    ("repair status @volume", 0),
    ("repair check @volume", 0),
    ("repair dump @volume --output @dumped", 0),
    ("repair serve @volume --nbd @missing/socket --control @missing/control", 2),
    ("repair mount @volume @missing --control @missing/control", 2),
    ("repair run @volume --files @missing --control @missing/control -- true", 2),
    ("serve sim:./@profile.toml --fuse @missing --control @missing/control", 2),
    ("serve sim:./@profile.toml --fuse @missing --fault @fault", 2),
    ("live status @missing", 1),
];

#[test]
fn no_verb_prints_what_a_terminal_would_execute() {
    let directory = Directory::new();
    let escaped = r"Small\u001b[31m\u0007\u009b2J\u202e\r";
    let profile = SMALL_PROFILE.replace("\"Small\"", &format!("\"{escaped}\""));
    directory
        .write(&format!("{COMMANDS}profile.toml"), profile.replace("\"a test\"", &format!("\"{escaped}\"")));
    directory.write(
        &format!("{COMMANDS}plan.toml"),
        SHORT_RUNS.replace("\"Short runs\"", &format!("\"{escaped}\"")),
    );
    let mut wrong = String::new();
    for (command, code) in PRINTING {
        let words: Vec<String> = command.split(' ').map(|word| word.replace('@', COMMANDS)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = directory.flashlab(&words);
        let is_command = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || c == '\u{202e}';
        let printed = [&ran.out, &ran.err].iter().any(|text| text.contains(is_command));
        if printed || ran.code != Some(*code) {
            wrong += &format!("{command}: {:?} {:?} {:?}\n", ran.code, ran.out, ran.err);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
