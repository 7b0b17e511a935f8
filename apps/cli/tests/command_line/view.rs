//! `view`: the marks of runs, links between a run's report and its IOs, the page in a file and as a picture.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use flashlab_skip::chromium;
use serde_json::Value;

use crate::support::{COLLECTING_PROFILE, Directory, Started};

/// The answer of the page's server to a request for what follows its address.
fn ask(url: &str, path: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap().split('#').next().unwrap();
    let (host, token) = rest.split_at(rest.find('/').unwrap());
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {token}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

fn heads(url: &str) -> Value {
    serde_json::from_str(body(&ask(url, "api/recordings"))).unwrap()
}

/// The texts of the marks of this kind.
fn marks<'a>(head: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let all = head["marks"].as_array().unwrap().iter();
    all.filter(move |mark| mark["kind"] == kind).map(|mark| mark["text"].as_str().unwrap())
}

/// The page's server, and its address.
fn view<'a>(directory: &'a Directory, arguments: &[&str]) -> (Started<'a>, String) {
    let mut started = directory.start(&[&["view"], arguments].concat());
    let url = started.line();
    (started, url)
}

#[test]
fn a_run_of_bench_has_marks_and_a_report_that_links_to_its_ios() {
    let directory = Directory::new();
    directory.write("profile.toml", COLLECTING_PROFILE);
    let options = ["--quick", "--only", "granularity", "--repetitions", "1", "--output", "run"];
    directory.succeeds(&[&["bench", "sim:./profile.toml"], &options[..]].concat());
    let (started, url) = view(&directory, &["run", "--state", "run=3"]);
    assert!(url.ends_with("/#run=3"), "{url}");
    let heads = heads(&url);
    let head = &heads["recordings"][0];
    let collected: Vec<&str> = marks(head, "collection").collect();
    assert!(!collected.is_empty(), "{head:#}");
    assert!(collected.iter().all(|text| text.starts_with("garbage collection: ")), "{collected:?}");
    // A quick run is too short for the start-up phase of some patterns, or for what lasts, and says so.
    let doubted =
        fs::read_to_string(directory.path("run/summary.json")).unwrap().contains("startup_shortened");
    assert_eq!(
        marks(head, "finding").any(|text| text.contains("start-up phase of the device is longer")),
        doubted
    );
    assert_eq!(head["has_report"], true);
    let report = ask(&url, "report/0/");
    assert!(report.starts_with("HTTP/1.1 200 OK\r\n"), "{report}");
    assert!(report.contains("content-security-policy: sandbox allow-scripts;"));
    assert!(report.contains("data-view=\"run="));
    assert!(ask(&url, "report/1/").starts_with("HTTP/1.1 404 "));
    assert_eq!(started.signal("INT").code, Some(0));
}

#[test]
fn a_trace_on_a_simulated_device_has_marks_of_collection() {
    let directory = Directory::new();
    directory.write("profile.toml", COLLECTING_PROFILE);
    directory.succeeds(&["sim", "precondition", "./profile.toml", "--state", "random", "-o", "random"]);
    directory.succeeds(&["sim", "run", "./profile.toml@random", "--plan", "baselines", "--output", "run"]);
    let (started, url) = view(&directory, &["run"]);
    let heads = heads(&url);
    assert!(marks(&heads["recordings"][0], "collection").next().is_some(), "{heads:#}");
    started.signal("INT");
}

#[test]
fn an_inference_marks_what_its_probes_found() {
    let directory = Directory::new();
    directory.write("profile.toml", COLLECTING_PROFILE);
    directory.succeeds(&[
        "infer",
        "sim:./profile.toml",
        "--only",
        "erase_block_size",
        "--output",
        "inference",
    ]);
    let (started, url) = view(&directory, &["inference"]);
    let heads = heads(&url);
    assert!(marks(&heads["recordings"][0], "finding").any(|text| text.contains("confidence")), "{heads:#}");
    started.signal("INT");
}

#[test]
fn a_page_in_a_file_and_a_picture_are_written() {
    if chromium().is_none() {
        return;
    }
    let directory = Directory::new();
    directory.write("profile.toml", COLLECTING_PROFILE);
    directory.succeeds(&["sim", "precondition", "./profile.toml", "--state", "random", "-o", "random"]);
    directory.succeeds(&["sim", "run", "./profile.toml@random", "--plan", "baselines", "--output", "run"]);
    let written = directory.succeeds(&[
        "view",
        "run",
        "--html",
        "page.html",
        "--png",
        "page.png",
        "--state",
        "modes=write",
    ]);
    assert!(written.out.is_empty(), "{written}");
    let page = fs::read(directory.path("page.html")).unwrap();
    assert!(page.len() < 5_000_000);
    assert!(fs::read(directory.path("page.png")).unwrap().starts_with(b"\x89PNG"));
    // A page replaces a page; a picture replaces nothing.
    directory.succeeds(&["view", "run", "--html", "page.html"]);
    let again = directory.flashlab(&["view", "run", "--png", "page.png"]);
    assert!(again.code == Some(2) && again.err.contains("page.png exists"), "{again}");
}
