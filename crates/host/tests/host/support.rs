//! Block devices for the tests: loop devices over files, in a directory that is removed.
//!
//! Every guard undoes its change when it is dropped, also when its test fails. All tests share the machine's
//! devices: a test that lists them opens those of others, and the name of a detached device is reused. So
//! tests that use them run one at a time.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flashlab_base::Bytes;
use flashlab_host::{Consent, Inspection, Reason, consent_by_flag, inspect};

static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// A test's thread holds it from its first directory to its end.
    static MY_TURN: MutexGuard<'static, ()> = TURN.lock().unwrap_or_else(PoisonError::into_inner);
}

/// A directory for one test, on the file system of the build.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(test: &str) -> Directory {
        MY_TURN.with(|_| ());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    /// A new file of this size without content.
    pub fn file(&self, name: &str, size: Bytes) -> PathBuf {
        let path = self.0.join(name);
        File::create(&path).unwrap().set_len(size.0).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a program; its output if it succeeds.
pub fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// A loop device that is detached when this is dropped.
pub struct LoopDevice {
    pub path: PathBuf,
    _directory: Option<Directory>,
}

impl LoopDevice {
    /// A loop device over a new file, or `None` and a printed reason where there can be none.
    pub fn new(test: &str, size: Bytes) -> Option<LoopDevice> {
        let directory = Directory::new(test);
        let file = directory.file("image", size);
        let mut device = LoopDevice::over(&file, &[])?;
        device._directory = Some(directory);
        Some(device)
    }

    /// A loop device over this file, or `None` and a printed reason.
    pub fn over(file: &Path, options: &[&str]) -> Option<LoopDevice> {
        let arguments = [options, &["--find", "--show", file.to_str().unwrap()]].concat();
        match run("losetup", &arguments) {
            Ok(path) => Some(LoopDevice { path: PathBuf::from(path), _directory: None }),
            Err(reason) => {
                flashlab_skip::skip(
                    flashlab_skip::Need::Root,
                    format_args!("no loop device here ({reason})"),
                );
                None
            }
        }
    }

    pub fn file(&self) -> PathBuf {
        self._directory.as_ref().unwrap().0.join("image")
    }

    pub fn directory(&self) -> &Path {
        &self._directory.as_ref().unwrap().0
    }

    pub fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Writes these bytes to the device.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let device = fs::OpenOptions::new().write(true).open(&self.path).unwrap();
        device.write_all_at(bytes, offset).unwrap();
        device.sync_all().unwrap();
    }

    pub fn inspect(&self) -> Inspection {
        inspect(&self.path).unwrap()
    }

    /// Consent to overwriting it.
    pub fn consent(&self) -> Consent {
        consent_by_flag(&self.inspect(), &self.path).unwrap()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Err(reason) = run("losetup", &["--detach", self.name()]) {
            println!("{reason}");
        }
    }
}

/// Undoes something when it is dropped, by running a program.
pub struct Undo(pub &'static str, pub Vec<String>);

impl Drop for Undo {
    fn drop(&mut self) {
        let arguments: Vec<&str> = self.1.iter().map(String::as_str).collect();
        if let Err(reason) = run(self.0, &arguments) {
            println!("{reason}");
        }
    }
}

/// The kinds of danger that were found, without duplicates.
pub fn reasons(inspection: &Inspection) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = inspection.refusals.iter().map(|refusal| refusal.reason).collect();
    reasons.dedup();
    reasons
}
