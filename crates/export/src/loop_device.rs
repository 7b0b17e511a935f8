//! A loop block device over a file, through `losetup`.
//!
//! # Model
//! Direct IO is on: what is written to the block device goes to the file beneath at once, in the sizes in which the
//! block layer has it. util-linux knows the kernel's ways to set one up, old and new; flashlab asks it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use flashlab_base::Bytes;

/// A loop device; it is detached when this is dropped.
pub struct LoopDevice {
    path: PathBuf,
    /// The file beneath, as the kernel names it.
    beneath: String,
}

impl LoopDevice {
    /// Puts a block device with sectors of `block` over `file`.
    ///
    /// # Errors
    /// When `losetup` is not there or fails; its words are in the error.
    pub fn attach(file: &Path, block: Bytes) -> io::Result<LoopDevice> {
        let sector = block.0.clamp(512, 4096).to_string();
        let arguments = ["--find", "--show", "--direct-io=on", "--sector-size", &sector];
        let output = losetup(Command::new("losetup").args(arguments).arg(file))?;
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let beneath = beneath(&path).unwrap_or_default();
        Ok(LoopDevice { path, beneath })
    }

    /// Those that stand over this file, whoever put them there: they are detached when they are dropped.
    pub fn all_over(file: &Path) -> Vec<LoopDevice> {
        let names = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let over = names.filter_map(|name| {
            let path = Path::new("/dev").join(name.file_name());
            let beneath = beneath(&path)?;
            // To make one is to detach it in the end: only of those that are meant.
            (Path::new(beneath.trim_end()) == file).then(|| LoopDevice { path, beneath })
        });
        over.collect()
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Detaches the device, and says whether it is: one that is in use stays until its last user lets go of it, and is
    /// then detached by the kernel.
    ///
    /// # Errors
    /// As [`LoopDevice::attach`].
    pub fn try_detach(&self) -> io::Result<bool> {
        // While it is open its name is given to nobody else, between looking whose it is and detaching it.
        let open = File::open(&self.path);
        if !self.is_attached() {
            return Ok(true);
        }
        let asked = losetup(Command::new("losetup").arg("--detach").arg(&self.path));
        drop(open);
        // The kernel lets go of the file beneath a moment later.
        for _ in 0..100 {
            if !self.is_attached() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        asked.map(|_| false)
    }

    /// Whether it is there, and still ours: once detached its name may be given to somebody else's file.
    pub fn is_attached(&self) -> bool {
        beneath(&self.path).is_some_and(|beneath| beneath == self.beneath)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = self.try_detach();
    }
}

/// The file beneath a loop device; `None` if it is detached.
fn beneath(path: &Path) -> Option<String> {
    let name = path.file_name()?;
    std::fs::read_to_string(Path::new("/sys/block").join(name).join("loop/backing_file")).ok()
}

fn losetup(command: &mut Command) -> io::Result<Output> {
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(io::ErrorKind::NotFound, "there is no program losetup: it comes with util-linux")
        }
        _ => error,
    })?;
    match output.status.success() {
        true => Ok(output),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
