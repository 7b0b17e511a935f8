//! A loop block device over a file, through `losetup`.
//!
//! # Model
//! With direct IO a write to the block device reaches the file at once, in the sizes that the block layer makes. The tool
//! `losetup` of util-linux knows the old and new kernel interfaces for loop devices, so flashlab runs it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use flashlab_base::Bytes;

/// A loop device; dropping it detaches it.
pub struct LoopDevice {
    path: PathBuf,
    /// The backing file, as the kernel names it.
    backing_file: String,
}

impl LoopDevice {
    /// Makes a block device with sectors of `block` over `file`.
    ///
    /// # Errors
    /// When `losetup` is missing or fails; its message is in the error.
    pub fn attach(file: &Path, block: Bytes) -> io::Result<LoopDevice> {
        let sector = block.0.clamp(512, 4096).to_string();
        let arguments = ["--find", "--show", "--direct-io=on", "--sector-size", &sector];
        let output = losetup(Command::new("losetup").args(arguments).arg(file))?;
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let backing_file = backing_file(&path).unwrap_or_default();
        Ok(LoopDevice { path, backing_file })
    }

    /// All loop devices over this file, also those of other programs. Dropping them detaches them.
    pub fn all_over(file: &Path) -> Vec<LoopDevice> {
        let names = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let over = names.filter_map(|name| {
            let path = Path::new("/dev").join(name.file_name());
            let backing_file = backing_file(&path)?;
            // Lazily: a LoopDevice of another file would be detached when it is dropped.
            (Path::new(backing_file.trim_end()) == file).then(|| LoopDevice { path, backing_file })
        });
        over.collect()
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Detaches the device; false if it is in use. Then the kernel detaches it when its last user closes it.
    ///
    /// # Errors
    /// As [`LoopDevice::attach`].
    pub fn try_detach(&self) -> io::Result<bool> {
        // The kernel gives the name of an open device to nobody else: it stays ours from the check to the detaching.
        let open = File::open(&self.path);
        if !self.is_attached() {
            return Ok(true);
        }
        let detached = losetup(Command::new("losetup").arg("--detach").arg(&self.path));
        drop(open);
        // The kernel releases the backing file a moment later.
        for _ in 0..100 {
            if !self.is_attached() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        detached.map(|_| false)
    }

    /// Whether it is still attached to our file: after detaching, its name may belong to another file.
    pub fn is_attached(&self) -> bool {
        backing_file(&self.path).is_some_and(|file| file == self.backing_file)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = self.try_detach();
    }
}

/// The backing file of a loop device; `None` if it is detached.
fn backing_file(path: &Path) -> Option<String> {
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
