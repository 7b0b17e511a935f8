//! `flashlab serve --nbd`: nbdkit runs as a child with flashlab's plugin, and never outlives the server. If
//! nbdkit is missing, or the plugin was not built (`cargo test --workspace` builds it), the tests report that
//! they were skipped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use flashlab_base::Bytes;
use flashlab_export::nbd::NbdClient;
use serde_json::Value;

use crate::support::Directory;

/// The plugin, where `cargo test --workspace` puts it: next to the tests, and not next to the program.
fn plugin() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libflashlab_nbdkit.so")
}

fn can_be_done() -> bool {
    let nbdkit = Command::new("nbdkit").arg("--version").stdout(Stdio::null()).status().is_ok();
    let plugin = plugin().exists();
    if !nbdkit || !plugin {
        flashlab_skip::skip(
            flashlab_skip::Need::Nbdkit,
            format_args!("nbdkit is there: {nbdkit}; the plugin was built: {plugin}"),
        );
    }
    nbdkit && plugin
}

/// Serves 16 MiB at the socket `s`, stored in `disk`. Returns the process when it is ready, and `None` if it
/// ends before that.
fn started(directory: &Directory) -> Option<(Child, Value)> {
    let arguments =
        ["serve", "sim:uflip-mtron", "--size", "16MiB", "--nbd", "s", "--backing", "disk", "--json"];
    let mut command = directory.command(&arguments);
    command.env("FLASHLAB_NBDKIT_PLUGIN", plugin());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.is_empty() {
        child.wait().unwrap();
        return None;
    }
    Some((child, serde_json::from_str(&line).expect("it is ready")))
}

fn send(child: &Child, signal: &str) {
    let command = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
}

fn reads(directory: &Directory) -> std::io::Result<()> {
    let mut client = NbdClient::connect(&directory.path("s"), "")?;
    assert_eq!(client.size(), Bytes::mib(16));
    client.read(Bytes::ZERO, &mut [0; 4096])
}

#[test]
fn a_signal_takes_everything_down() {
    if !can_be_done() {
        return;
    }
    let directory = Directory::new();
    let (mut child, ready) = started(&directory).unwrap();
    let path = directory.path("s").canonicalize().unwrap();
    assert_eq!(ready["path"], format!("nbd+unix:///?socket={}", path.display()));
    reads(&directory).unwrap();
    let control = ready["control"].as_str().unwrap();
    let status = directory.succeeds(&["live", "status", control, "--json"]);
    let status: Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(status["served"]["classes"][0]["ios"], 1);
    send(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!Path::new(control).parent().unwrap().exists(), "{control} is left");
    assert_eq!(directory.names(), ["disk", "disk.flashlab"]);
    assert!(fs::metadata(directory.path("disk.flashlab")).unwrap().len() > 0, "the state was not saved");
}

#[test]
fn a_killed_server_takes_nbdkit_with_it_and_can_be_started_again() {
    if !can_be_done() {
        return;
    }
    let directory = Directory::new();
    let (mut child, _) = started(&directory).unwrap();
    reads(&directory).unwrap();
    send(&child, "KILL");
    child.wait().unwrap();
    // No process waits for nbdkit; it ends a moment later.
    while reads(&directory).is_ok() {
        thread::sleep(Duration::from_millis(10));
    }
    // The backing file is locked until it has ended.
    let (mut child, _) = (0..1000)
        .find_map(|_| {
            thread::sleep(Duration::from_millis(10));
            started(&directory)
        })
        .expect("the disk can be served again");
    reads(&directory).unwrap();
    send(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_is_missing_is_told_with_what_to_do() {
    let directory = Directory::new();
    let plugin = directory.file("plugin.so", 0);
    let wrong = |path: &str, plugin: &Path, socket: &str| {
        let mut command = directory.command(&["serve", "sim:zeus", "--size", "1MiB", "--nbd", socket]);
        command.env("PATH", path).env("FLASHLAB_NBDKIT_PLUGIN", plugin);
        directory.ran(command.output().unwrap()).to_string()
    };
    insta::assert_snapshot!(wrong("/nowhere", &plugin, "s"), @r"
    exit 2
    flashlab: there is no program nbdkit, which serves NBD: install it (the package is nbdkit), or serve with --loop
    ");
    insta::assert_snapshot!(wrong("/nowhere", Path::new("/nowhere/plugin.so"), "s"), @r"
    exit 2
    flashlab: flashlab's plugin for nbdkit is not at /nowhere/plugin.so: build it with `cargo build --release --package flashlab-nbdkit-plugin`, or name its place in FLASHLAB_NBDKIT_PLUGIN
    ");
    insta::assert_snapshot!(wrong("/nowhere", &plugin, "plugin.so"), @r"
    exit 3
    flashlab: DIR/plugin.so exists and is no socket: give another path to --nbd
    ");
    let _listening = UnixListener::bind(directory.path("s")).unwrap();
    insta::assert_snapshot!(wrong("/nowhere", &plugin, "s"), @r"
    exit 3
    flashlab: a server listens on DIR/s already: end it first, or give another path to --nbd
    ");
}
