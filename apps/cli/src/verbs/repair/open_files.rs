//! What `repair mount` and `repair run` have in common: opening, idle work, and the control socket.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flashlab_device::Device;
use flashlab_export::{ControlCommand, ControlServer, Controlled, SharedFiles, Writeback};
use flashlab_repair::{FileAttributes, FileId, Files};
use serde_json::{Value, json};

use super::served_status::ServedVolumeStatus;
use super::volume_options::VolumeOptions;
use crate::served_paths::no_control_socket;

/// Opens the files of a volume. A new volume gets an empty directory, which belongs to this user.
pub fn open_files(volume: &Path, options: &VolumeOptions) -> Result<SharedFiles> {
    let opened = options.open(volume)?;
    let mut files =
        Files::open(opened).with_context(|| format!("the files of {} cannot be opened", volume.display()))?;
    give_root_to_user(&mut files)?;
    Ok(SharedFiles::new(files))
}

fn give_root_to_user(files: &mut Files<Box<dyn Device + Send>>) -> Result<()> {
    let old = files.status(FileId::ROOT)?.attributes;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let is_new = old.modified_ns == 0 && (old.user, old.group) == (0, 0);
    if is_new && (user, group) != (0, 0) {
        files.set_attributes(FileId::ROOT, FileAttributes { user, group, ..old })?;
    }
    Ok(())
}

/// A control socket for `repair status` and `live stop`. `None`: nobody wants one.
pub fn control(files: &SharedFiles, path: Option<&Path>) -> Result<Option<ControlServer>> {
    let Some(path) = path else { return Ok(None) };
    let listening = ControlServer::listen(path, Arc::new(ControlledFiles(files.clone())));
    Ok(listening.map(Some).map_err(|error| no_control_socket(path, &error))?)
}

/// Files as what a control socket controls.
struct ControlledFiles(SharedFiles);

impl Controlled for ControlledFiles {
    fn status(&self) -> Result<Value, String> {
        let status = self.0.with(|files, _| ServedVolumeStatus::of(files.volume()));
        // The volume is in the details, as a served disk's is.
        serde_json::to_value(status)
            .map(|details| json!({ "details": details }))
            .map_err(|error| error.to_string())
    }

    fn perform(&self, _: ControlCommand) -> Result<Value, String> {
        Err("a server of files takes status and stop; faults and power losses are for served disks"
            .to_owned())
    }
}

/// Packs and discards between the programs' IOs, and makes durable what no program syncs.
pub fn work_while_idle(volume: &Path, files: &SharedFiles, ends: &AtomicBool) {
    const PAUSE: Duration = Duration::from_millis(20);
    let mut writeback = Some(Writeback::new(Instant::now()));
    while !ends.load(Ordering::Relaxed) {
        if let Some(due) = &mut writeback
            && due.is_due(files.is_dirty(), files.calls(), Instant::now())
            && let Err(error) = files.write_back()
        {
            tell!(
                "the files cannot be written to the volume {}, and each sync fails from now on: {error}",
                volume.display()
            );
            writeback = None;
        }
        if !files.work_while_idle() {
            std::thread::sleep(PAUSE);
        }
    }
}
