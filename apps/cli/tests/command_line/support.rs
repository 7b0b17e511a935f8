//! A test directory, the program run in it, and devices for the tests.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use flashlab_samples::{FolderKind, RunFolder};

/// The directory of a test, on the file system of the build, which supports direct IO.
pub struct Directory(tempfile::TempDir);

/// How a run of the binary ended. Paths of the test's directory are written as `DIR`.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Directory {
    pub fn new() -> Directory {
        Directory(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a folder as a kill leaves it: all its files, and a manifest that is not finished.
    pub fn unfinish(&self, folder: &str) {
        let path = self.path(folder);
        let (mut folder, mut manifest) =
            RunFolder::open::<serde_json::Value>(&path, FolderKind::ALL).unwrap();
        folder.lock().unwrap();
        manifest.finished = None;
        folder.write_manifest(&manifest).unwrap();
    }

    /// Writes the list of runs of a finished folder, and notes it in the manifest: as if it had been written so.
    pub fn write_runs(&self, folder: &str, lines: &str) {
        const KEY: &str = "\"runs_crc32\": \"";
        self.write(&format!("{folder}/runs.jsonl"), lines);
        let manifest = format!("{folder}/manifest.json");
        let mut text = unsealed(fs::read_to_string(self.path(&manifest)).unwrap());
        let digits = text.find(KEY).unwrap() + KEY.len();
        text.replace_range(digits..digits + 8, &format!("{:08x}", crc32fast::hash(lines.as_bytes())));
        self.write(&manifest, text);
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// A file of this size without content.
    pub fn file(&self, name: &str, size: u64) -> PathBuf {
        File::create(self.path(name)).unwrap().set_len(size).unwrap();
        self.path(name)
    }

    /// What is in it, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command.env_remove("COLUMNS").env("RUST_BACKTRACE", "0");
        command
    }

    /// Runs the binary to its end.
    pub fn flashlab(&self, arguments: &[&str]) -> Ran {
        self.ran(self.command(arguments).output().unwrap())
    }

    /// As [`Directory::flashlab`], and it must succeed.
    pub fn succeeds(&self, arguments: &[&str]) -> Ran {
        let ran = self.flashlab(arguments);
        assert_eq!(ran.code, Some(0), "flashlab {arguments:?}\n{ran}");
        ran
    }

    pub fn ran(&self, output: Output) -> Ran {
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("what is printed is UTF-8");
            text.replace(self.0.path().canonicalize().unwrap().to_str().unwrap(), "DIR")
        };
        let ran = Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
        assert!(!ran.err.contains("panicked"), "{ran}");
        ran
    }

    /// Starts the binary.
    pub fn start(&self, arguments: &[&str]) -> Started<'_> {
        let mut command = self.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Started { directory: self, child, lines, seen: String::new() }
    }
}

impl fmt::Display for Ran {
    /// The exit code and standard error, and standard output if there is any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.map_or("by a signal".to_owned(), |code| code.to_string());
        write!(f, "exit {code}\n{}", self.err)?;
        if !self.out.is_empty() {
            write!(f, "standard output:\n{}", self.out)?;
        }
        Ok(())
    }
}

/// The binary while it runs.
pub struct Started<'a> {
    directory: &'a Directory,
    child: Child,
    lines: BufReader<ChildStderr>,
    seen: String,
}

impl Started<'_> {
    /// Waits until the program prints a line with this beginning.
    pub fn until(mut self, beginning: &str) -> Self {
        loop {
            let mut line = String::new();
            let length = self.lines.read_line(&mut line).unwrap();
            assert_ne!(length, 0, "it ended before it said `{beginning}`:\n{}", self.seen);
            self.seen += &line;
            if line.starts_with(beginning) {
                return self;
            }
        }
    }

    /// The next line of its standard output.
    pub fn line(&mut self) -> String {
        let output = self.child.stdout.as_mut().unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        // Nothing of the next line may be lost in a buffer.
        while output.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// Waits until the run in this folder has finished this number of runs.
    pub fn until_runs(mut self, folder: &str, count: usize) -> Self {
        let runs = self.directory.path(folder).join("runs.jsonl");
        while fs::read_to_string(&runs).unwrap_or_default().lines().count() < count {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended before {count} runs:\n{}", self.seen);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self
    }

    /// Stops the program while the directory has a file whose name begins so; `None` if it ended without.
    pub fn stopped_at(mut self, beginning: &str) -> Option<Self> {
        let is_made = || self.directory.names().iter().any(|name| name.starts_with(beginning));
        loop {
            if self.child.try_wait().unwrap().is_some() {
                return None;
            }
            if is_made() {
                self.kill("STOP");
                if is_made() {
                    return Some(self);
                }
                self.kill("CONT");
            }
        }
    }

    /// The shell's own `kill`, because not every system has the program.
    fn kill(&self, signal: &str) {
        let command = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }

    /// Sends a signal, for example `INT`, and waits for the end.
    pub fn signal(self, name: &str) -> Ran {
        self.kill(name);
        // It may have been stopped.
        self.kill("CONT");
        self.end()
    }

    pub fn end(mut self) -> Ran {
        self.lines.read_to_string(&mut self.seen).unwrap();
        let output = self.child.wait_with_output().unwrap();
        self.directory.ran(Output { stderr: self.seen.into_bytes(), ..output })
    }
}

/// Runs a program; its output if it succeeds, else the reason.
pub fn program(name: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(name).args(arguments).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// The value, or `None` and a printed reason why the test does nothing here.
fn or_skip<T>(result: Result<T, String>) -> Option<T> {
    result.map_err(|reason| flashlab_skip::skip(flashlab_skip::Need::Root, &reason)).ok()
}

/// A loop device over a file; detached when this is dropped.
pub struct LoopDevice(pub String);

impl LoopDevice {
    pub fn over(file: &Path, options: &[&str]) -> Option<LoopDevice> {
        let arguments = [options, &["--find", "--show", file.to_str().unwrap()]].concat();
        or_skip(program("losetup", &arguments)).map(LoopDevice)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let name = self.0.trim_start_matches("/dev/");
        let attached = || fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok();
        let file = attached();
        if let Err(reason) = program("losetup", &["--detach", &self.0]) {
            println!("{reason}");
        }
        // While another process has the device open, as a flashlab of another test that looks at all loop devices, the kernel detaches
        // it later.
        for _ in 0..500 {
            if file.is_none() || attached() != file {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// A mounted file system; unmounted when this is dropped.
pub struct Mount(PathBuf);

impl Mount {
    pub fn new(arguments: &[&str], at: &Path) -> Option<Mount> {
        fs::create_dir_all(at).unwrap();
        or_skip(program("mount", &[arguments, &[at.to_str().unwrap()]].concat()))
            .map(|_| Mount(at.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(reason) = program("umount", &[self.0.to_str().unwrap()]) {
            println!("{reason}");
        }
    }
}

/// A text of a run without its checksums, as an earlier flashlab wrote it: for tests that change it and are not about damage.
pub fn unsealed(mut text: String) -> String {
    const KEY: &str = "\"crc32\":";
    while let Some(key) = text.find(KEY) {
        let begin = text[..key].rfind(',').expect("it is the last key");
        let end = key + text[key..].find(['}', '\n']).expect("the object ends");
        text.replace_range(begin..end, "");
    }
    text
}

/// A small drive whose random writes wait for garbage collection, the more of it is filled.
pub const COLLECTING_PROFILE: &str = r#"
version = 2
name = "collecting"
title = "Collecting"
source = "a test"
fit = "none"
capacity = "32MiB"

[flash]
page = "4KiB"
pages_per_block = 64
dies = 2
channels = 1
over_provisioning = 0.15
read = "60us"
program = "400us"
erase = "2ms"
channel_bandwidth = "200MB/s"

[controller]
read_command = "20us"
write_command = "20us"
depth = 32

[translation.page_map]
"#;

/// A plan of short runs that read and write, at four values.
pub const SHORT_RUNS: &str = r#"version = 1
name = "short"
title = "Short runs"
vary = "IOSize"
values = ["4KiB", "8KiB", "16KiB", "32KiB"]
quick_values = ["4KiB", "32KiB"]
location = "random"
write_probability = 0.5
io_count = 200
"#;

/// A plan of runs that take their time: four of 400 ms.
pub const LONG_RUNS: &str = r#"version = 1
name = "long"
title = "Runs that take their time"
vary = "IOSize"
values = ["4KiB", "8KiB", "16KiB", "32KiB"]
quick_values = ["4KiB", "32KiB"]
location = "random"
mode = "read"
duration = "400ms"
"#;

/// A small simulated device with 4 KiB blocks.
pub const SMALL_PROFILE: &str = r#"version = 2
name = "small"
title = "Small"
source = "a test"
fit = "none"
capacity = "64MiB"
block = "4KiB"

[throughput]
sequential_read = { a = "100us", b_us_per_kb = 1.0 }
random_read = { a = "200us", b_us_per_kb = 1.0 }
sequential_write = { a = "300us", b_us_per_kb = 2.0 }
random_write = { a = "900us", b_us_per_kb = 2.0 }
"#;

/// All files in this folder and in those within it.
pub fn files_within(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files_within(&path) } else { vec![path] }).collect();
    files.sort();
    files
}
