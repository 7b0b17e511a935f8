//! The invariants of ARCHITECTURE.md about crates and about their sources.
//!
//! Invariants that Cargo, the type system or a private constructor enforces are not tested here. Each failure
//! names the line and the invariant that it breaks, with its reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::sources::{code, code_of, crates, manifest, test_modules, workspace};

/// Which crates of the workspace a crate may use; DESIGN.md's table, with the crate `bench`.
const MAY_USE: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("plan", &["base"]),
    ("device", &["base"]),
    ("host", &["base", "device", "input"]),
    ("sim", &["base", "device"]),
    ("em", &["base", "device"]),
    ("input", &["base", "trace"]),
    ("samples", &["base", "input"]),
    ("trace", &["base"]),
    ("engine", &["base", "plan", "device", "trace"]),
    ("analysis", &["base"]),
    ("bench", &["base", "plan", "device", "samples", "engine", "analysis"]),
    ("infer", &["base", "plan", "device", "samples", "engine", "analysis"]),
    (
        "model",
        &[
            "base", "input", "trace", "plan", "device", "sim", "samples", "engine", "analysis", "bench",
            "infer",
        ],
    ),
    ("report", &["base", "plan", "analysis"]),
    ("view", &["analysis", "base", "input", "trace", "samples"]),
    ("sweep", &["base", "input", "plan", "device", "sim", "trace", "samples", "engine", "analysis", "bench"]),
    ("export", &["base", "device", "host", "input", "sim", "repair", "samples"]),
    ("repair", &["base", "device"]),
    (
        "reproduce",
        &["base", "plan", "device", "em", "sim", "repair", "samples", "engine", "analysis", "bench", "model"],
    ),
];

/// Texts that only some crates may contain in their code.
struct Rule {
    forbidden: &'static [&'static str],
    in_crates: fn(&str) -> bool,
    reason: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        forbidden: &["Instant", "SystemTime", "clock_gettime", "UNIX_EPOCH", "thread::sleep"],
        in_crates: |name| {
            matches!(
                name,
                "base"
                    | "plan"
                    | "device"
                    | "sim"
                    | "em"
                    | "trace"
                    | "engine"
                    | "analysis"
                    | "infer"
                    | "model"
                    | "report"
                    | "repair"
            )
        },
        reason: "the Device owns the clock: only so can an hour on a disk be a second in a test, and figures be \
                 computed again from the files",
    },
    Rule {
        forbidden: &[
            "getrandom",
            "thread_rng",
            "RandomState",
            "HashMap",
            "HashSet",
            "rand::",
            "/dev/urandom",
        ],
        in_crates: |name| {
            matches!(
                name,
                "plan"
                    | "sim"
                    | "em"
                    | "trace"
                    | "engine"
                    | "analysis"
                    | "infer"
                    | "model"
                    | "report"
                    | "bench"
                    | "repair"
            )
        },
        reason: "the same seed and the same plan give the same samples, byte for byte: everything random comes \
                 from flashlab_base::Prng, and nothing is kept in an order that changes from run to run",
    },
    Rule {
        forbidden: &["println!", "print!", "eprintln!", "eprint!", "dbg!", "io::stdout", "io::stderr"],
        in_crates: |_| true,
        reason: "libraries print nothing: what there is to say is a value, and the app decides where it goes",
    },
    Rule {
        forbidden: &[
            "std::fs",
            "fs::",
            "File::",
            "std::io",
            "std::net",
            "std::process",
            "std::env::",
            "TcpStream",
        ],
        in_crates: |name| matches!(name, "plan" | "sim" | "em" | "analysis" | "infer" | "model" | "report"),
        reason: "these crates are pure functions from values to values: reading and writing is for samples, host \
                 and the app",
    },
    Rule {
        forbidden: &["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait"],
        in_crates: |name| !matches!(name, "device" | "host"),
        reason: "memory that the kernel writes to is device's, system calls are host's; all else is safe code",
    },
    Rule {
        forbidden: &[
            "O_DIRECT",
            "O_EXCL",
            "ioctl",
            "BLKDISCARD",
            "BLKGETSIZE",
            "io_uring::",
            "libc::open",
            "/dev/",
        ],
        in_crates: |name| name != "host",
        reason: "only host opens a block device: it has the guards against destroying data",
    },
    Rule {
        forbidden: &["libc::"],
        in_crates: |name| !matches!(name, "device" | "host"),
        reason: "system calls are host's; device only advises the kernel how to map its memory",
    },
];

/// The crates of the workspace in one of a manifest's tables of dependencies.
fn own_dependencies(manifest: &toml::Table, table: &str) -> BTreeSet<String> {
    let Some(table) = manifest.get(table).and_then(toml::Value::as_table) else { return BTreeSet::new() };
    let named = table.keys().filter(|name| name.starts_with("flashlab"));
    named.map(|name| name.trim_start_matches("flashlab-").to_owned()).collect()
}

#[test]
fn crates_use_those_before_them_and_nothing_else() {
    let known: BTreeSet<String> = MAY_USE.iter().map(|(name, _)| (*name).to_owned()).collect();
    let found: BTreeSet<String> = crates().into_iter().collect();
    assert_eq!(found, known, "a crate is missing in MAY_USE, and in ARCHITECTURE.md's table");
    for (name, allowed) in MAY_USE {
        let manifest = manifest(&workspace().join("crates").join(name));
        let allowed: BTreeSet<String> = allowed.iter().map(|&name| name.to_owned()).collect();
        for table in ["dependencies", "build-dependencies"] {
            let used = own_dependencies(&manifest, table);
            let more: Vec<&String> = used.difference(&allowed).collect();
            assert!(
                more.is_empty(),
                "crates/{name} uses {more:?}: data flows one way, from plan to report (ARCHITECTURE.md); move what is \
                 needed to where both may use it"
            );
        }
    }
}

#[test]
fn nothing_depends_on_an_app() {
    let apps: Vec<String> = fs::read_dir(workspace().join("apps"))
        .unwrap()
        .map(|entry| manifest(&entry.unwrap().path())["package"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(apps.contains(&"flashlab".to_owned()), "{apps:?}");
    let folders = ["crates", "apps"].map(|folder| fs::read_dir(workspace().join(folder)).unwrap());
    for folder in folders.into_iter().flatten() {
        let folder = folder.unwrap().path();
        let manifest = manifest(&folder);
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(table) = manifest.get(table).and_then(toml::Value::as_table) else { continue };
            let app = table.keys().find(|name| apps.contains(name));
            assert!(app.is_none(), "{} depends on the app {app:?}: apps are leaves", folder.display());
        }
    }
}

#[test]
fn a_plan_is_written_without_knowing_any_device() {
    // Not even in tests: the pattern language knows no device.
    let manifest = manifest(&workspace().join("crates/plan"));
    for table in ["dependencies", "dev-dependencies"] {
        let used = own_dependencies(&manifest, table);
        assert!(
            used.is_subset(&BTreeSet::from(["base".to_owned()])),
            "plan knows no Device, but uses {used:?}"
        );
    }
}

#[test]
fn the_sources_keep_the_rules() {
    let mut breaches = Vec::new();
    let mut lines_seen = 0;
    for name in crates() {
        for (path, code) in code_of(&format!("crates/{name}")) {
            lines_seen += code.len();
            for rule in RULES.iter().filter(|rule| (rule.in_crates)(&name)) {
                breaches.extend(breaches_of(rule, &path, &code));
            }
        }
    }
    assert!(lines_seen > 5_000, "only {lines_seen} lines of code were looked at: the test is broken");
    assert!(breaches.is_empty(), "\n{}", breaches.join("\n"));
}

fn breaches_of(rule: &Rule, path: &Path, code: &[(usize, String)]) -> Vec<String> {
    let found = code.iter().filter_map(|(number, line)| {
        let text = rule.forbidden.iter().find(|text| contains_word(line, text))?;
        Some(format!("{}:{number}: `{text}`: {}", path.display(), rule.reason))
    });
    found.collect()
}

/// Whether the line contains `text`, and not as the end of a longer name.
fn contains_word(line: &str, text: &str) -> bool {
    let is_in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(text).any(|(at, _)| !line[..at].ends_with(is_in_word))
}

#[test]
fn the_rules_see_what_they_forbid() {
    let text = "fn now() { Instant::now() }\n// Instant\nlet constant_Instant = 1;\n#[cfg(test)]\nmod tests {\n Instant\n}\n";
    let code = code(text);
    assert_eq!(code.len(), 3);
    let found = breaches_of(&RULES[0], Path::new("a.rs"), &code);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("a.rs:1: `Instant`: the Device owns the clock"), "{found:?}");
    assert_eq!(
        test_modules("#[cfg(test)]\nmod tests;\nmod code;\n#[cfg(test)]\npub(crate) mod fake;\n"),
        ["tests", "fake"]
    );
}
