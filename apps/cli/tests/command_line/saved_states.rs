//! A saved state can be measured any number of times.

use crate::support::Directory;

const PLAN: &str = "version = 1\nname = \"short\"\ntitle = \"Short\"\ndescription = \"Random writes.\"\n\
    mode = \"write\"\nlocation = \"random\"\nio_size = \"4KiB\"\nio_count = 300\n";

const PROFILE: &str = "version = 2\nname = \"small\"\ntitle = \"Small\"\nsource = \"none\"\nfit = \"none\"\n\
    capacity = \"32MiB\"\n[flash]\nover_provisioning = 0.1\n";

#[test]
fn a_saved_state_is_where_a_run_begins() {
    let directory = Directory::new();
    directory.write("small.toml", PROFILE);
    directory.write("short.toml", PLAN);
    let saved = directory.succeeds(&[
        "sim",
        "precondition",
        "./small.toml",
        "--times",
        "4",
        "--output",
        "aged",
        "--json",
    ]);
    let saved: serde_json::Value = serde_json::from_str(&saved.out).unwrap();
    assert_eq!(saved["target"], "sim:./small.toml@aged");
    // The last IO may end beyond the fourth capacity.
    let written = saved["written_bytes"].as_u64().unwrap();
    assert!(((4 * 32) << 20..(4 * 32 + 1) << 20).contains(&written), "{written}");
    let mean_ns = |target: &str, folder: &str| {
        let arguments = ["run", "short.toml", target, "--state", "none", "--output", folder, "--json"];
        let found: serde_json::Value = serde_json::from_str(&directory.succeeds(&arguments).out).unwrap();
        found["micro_benchmarks"][0]["experiments"][0]["points"][0]["response_ns_mean"].as_f64().unwrap()
    };
    // New flash has no garbage to collect, and the same state gives the same times.
    let new = mean_ns("sim:./small.toml", "new");
    let aged = mean_ns("sim:./small.toml@aged", "aged-1");
    assert!(aged > 1.5 * new, "{aged} ns and {new} ns");
    assert_eq!(mean_ns("sim:./small.toml@aged", "aged-2"), aged);
}

#[test]
fn a_device_is_written_until_it_is_steady() {
    let directory = Directory::new();
    directory.write("small.toml", PROFILE);
    let save = |more: &[&str]| {
        let arguments =
            [&["sim", "precondition", "./small.toml", "--output", "state", "--json"], more].concat();
        serde_json::from_str::<serde_json::Value>(&directory.succeeds(&arguments).out).unwrap()
    };
    let once = save(&["--state", "random"]);
    let steady = save(&[]);
    assert_eq!(once["steady"], serde_json::Value::Null);
    assert_eq!(steady["steady"]["is_steady"], true, "{steady}");
    let rounds = steady["steady"]["rounds"].as_array().unwrap();
    let amplification = |round: &serde_json::Value| round["write_amplification"].as_f64().unwrap();
    let last: Vec<f64> = rounds[rounds.len() - 5..].iter().map(amplification).collect();
    let (least, most) =
        (last.iter().copied().fold(f64::MAX, f64::min), last.iter().copied().fold(0.0, f64::max));
    assert!(most - least <= 0.2 * most, "{last:?}");
    assert!(least > once["device"]["write_amplification"].as_f64().unwrap(), "{last:?} {once}");
    directory.write("short.toml", PLAN);
    directory.succeeds(&["run", "short.toml", "sim:./small.toml@state", "--output", "run"]);
    let findings: serde_json::Value =
        serde_json::from_str(&directory.succeeds(&["report", "run", "--json"]).out).unwrap();
    assert_eq!(findings["method"]["state"], "steady", "{}", findings["method"]);
    assert_eq!(findings["method"]["saved"]["evidence"], steady["steady"]["evidence"]);
    let shown = directory.succeeds(&["report", "run"]).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("The device began in a saved state, steady with a confidence of"), "{shown}");
    assert!(!shown.contains("not known whether"), "{shown}");
    directory.succeeds(&[
        "run",
        "short.toml",
        "sim:./small.toml@state",
        "--state",
        "random",
        "--output",
        "aged",
    ]);
    let aged: serde_json::Value =
        serde_json::from_str(&directory.succeeds(&["report", "aged", "--json"]).out).unwrap();
    assert_eq!(aged["method"]["saved"], serde_json::Value::Null, "the run made another state");
    let refused = directory.flashlab(&[
        "sim",
        "precondition",
        "./small.toml",
        "--state",
        "steady",
        "--times",
        "2",
        "--output",
        "s",
    ]);
    assert_eq!(refused.code, Some(2), "{refused}");
}

#[test]
fn files_that_are_no_state_of_the_device_are_refused() {
    let directory = Directory::new();
    directory.write("small.toml", PROFILE);
    directory.write("short.toml", PLAN);
    directory.write("text", "hello");
    directory.succeeds(&[
        "sim",
        "precondition",
        "./small.toml",
        "--state",
        "sequential",
        "--output",
        "filled",
    ]);
    directory.write("other.toml", PROFILE.replace("0.1", "0.2"));
    let wrong = |target: &str| {
        let ran = directory.flashlab(&["run", "short.toml", target, "--output", "run"]);
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.err.lines().last().unwrap_or_default().to_owned()
    };
    insta::assert_snapshot!(wrong("sim:./small.toml@nowhere"), @"flashlab: cannot read the state nowhere: No such file or directory (os error 2)");
    insta::assert_snapshot!(wrong("sim:./small.toml@text"), @"flashlab: text: this is no state of a simulated device; flashlab sim precondition small makes another one");
    insta::assert_snapshot!(wrong("sim:./other.toml@filled"), @"flashlab: filled: the state belongs to another profile, or the profile was changed since it was saved; flashlab sim precondition small makes another one");
    let ran = directory.flashlab(&["sim", "precondition", "zeus", "--output", "state"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    insta::assert_snapshot!(ran.err, @"flashlab: sim:zeus is a throughput model, which has no state to save");
}
