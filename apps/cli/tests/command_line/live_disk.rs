//! A server with its live disk, for tests.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Directory;

/// A running server.
pub struct Server {
    pub child: Child,
    pub path: PathBuf,
    pub control: String,
}

/// The first line that a server prints. `None`: it ended for one of these reasons, which are of the machine and not of the test.
pub fn first_line(child: &mut Child, reasons: &[&str]) -> Option<String> {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if !line.is_empty() {
        return Some(line);
    }
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
    flashlab_skip::skip(flashlab_skip::Need::Fuse, &said);
    None
}

impl Drop for Server {
    /// Ends a server that a failed test leaves behind, so that its disk and mount are not left either.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            send(&self.child, "TERM");
            let _ = self.child.wait();
        }
    }
}

impl Server {
    /// Serves a device of 64 MiB. If that is not possible here: `None`, with the reason on standard output.
    pub fn start(directory: &Directory, options: &[&str]) -> Option<Server> {
        Server::of(directory, "sim:tlc-sata", &[&["--size", "64MiB"], options].concat())
    }

    /// Serves this device.
    pub fn of(directory: &Directory, target: &str, options: &[&str]) -> Option<Server> {
        Server::begin(directory, &[&["serve", target, "--json"], options].concat())
    }

    /// Starts a server with this command, which has `--json`.
    pub fn begin(directory: &Directory, arguments: &[&str]) -> Option<Server> {
        let mut command = directory.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let line = first_line(&mut child, &["it needs root", "FUSE needs"])?;
        let ready: Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| ready[name].as_str().unwrap().to_owned();
        Some(Server { child, path: text("path").into(), control: text("control") })
    }

    pub fn change(&self, directory: &Directory, action: &str, faults: &[&str]) {
        directory.succeeds(&[&["live", action, &self.control], faults].concat());
    }

    pub fn status(&self, directory: &Directory) -> Value {
        let ran = directory.succeeds(&["live", "status", &self.control, "--json"]);
        serde_json::from_str(&ran.out).unwrap()
    }

    pub fn end(mut self) {
        send(&self.child, "TERM");
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{said}");
        assert!(!self.path.exists() || self.path.starts_with("/dev"), "it is still mounted: {said}");
    }

    /// Kills it.
    pub fn kill(mut self) {
        send(&self.child, "KILL");
        self.child.wait().unwrap();
        self.is_cleared();
    }

    /// Waits for the end of a server that was killed.
    pub fn reap(mut self) {
        self.child.wait().unwrap();
        self.is_cleared();
    }

    /// Waits until nothing is left of the server.
    pub fn is_cleared(&self) {
        let place = Path::new(&self.control).parent().unwrap();
        let file = self.path.display().to_string();
        let begin = Instant::now();
        let is_left = || {
            let mounts = fs::read_to_string("/proc/mounts").unwrap();
            let own =
                [format!(" {}/mount ", place.display()), format!(" {} ", file.trim_end_matches("/disk"))];
            place.exists() || own.iter().any(|own| mounts.contains(own))
        };
        while is_left() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{} or {file} is left", place.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(&self.path).unwrap()
    }
}

pub fn send(child: &Child, signal: &str) {
    let command = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
}

/// A directory to mount on.
pub fn mount_point(directory: &Directory) -> String {
    let path = directory.path("mount");
    fs::create_dir(&path).unwrap();
    path.to_str().unwrap().to_owned()
}

pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    flashlab_base::Prng::new(flashlab_base::Seed(seed)).fill(&mut bytes);
    bytes
}
