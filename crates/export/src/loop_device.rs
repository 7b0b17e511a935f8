//! A loop block device over a file, through `losetup`.
//!
//! # Model
//! Direct IO is on: what is written to the block device goes to the file beneath at once, in the sizes in which the
//! block layer has it. util-linux knows the kernel's ways to set one up, old and new; flashlab asks it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use flashlab_base::Bytes;

/// A loop device; it is detached when this is dropped.
pub struct LoopDevice {
    path: PathBuf,
    attached: bool,
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
        Ok(LoopDevice { path, attached: true })
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Detaches the device. A mounted one stays until it is unmounted: then the kernel detaches it.
    ///
    /// # Errors
    /// As [`LoopDevice::attach`].
    pub fn detach(mut self) -> io::Result<()> {
        self.attached = false;
        detach(&self.path)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if self.attached {
            let _ = detach(&self.path);
        }
    }
}

fn detach(path: &Path) -> io::Result<()> {
    losetup(Command::new("losetup").arg("--detach").arg(path))?;
    // The kernel lets go of the file beneath a moment later.
    let name = path.file_name().unwrap_or_default();
    let beneath = Path::new("/sys/block").join(name).join("loop/backing_file");
    for _ in 0..200 {
        if !beneath.exists() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("{} is still in use", path.display())))
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
