//! A random workload of files on a small volume.

use std::sync::Arc;

use flashlab_base::{Bytes, Prng, Seed};

use super::file_histories::{FileHistories, newest};
use super::file_model::FileModel;
use super::history::PAGE;
use super::media::CrashMedia;
use super::workload::{self, Mark, Run};
use crate::error::RepairError;
use crate::files::{FileAttributes, FileId, FileKind, Files, LINK_PERMISSIONS, SetExtended};
use crate::format::VolumeUuid;
use crate::layout::VolumeLayout;
use crate::seeded_bug::SeededBug;

/// The host's operations in a scenario.
const OPERATIONS: u64 = 260;
/// The host syncs at the latest after this number of steps, so that few states are possible.
const UNSYNCED_MAX: usize = 40;
/// Files stay below this size, so that several fit.
const SIZE_MAX: u64 = 9 * PAGE as u64;
const NAMES: [&[u8]; 6] =
    [b"a", b"b", b"c", b"db", b"db-wal", b"a rather long name of a file, so that names take space"];
/// Catalogues of few pages, which are rewritten often, and enough slack for the logs of any policy.
const LOGICAL_PAGES: u64 = 60;
const SEGMENTS: u32 = 21;

/// Runs the scenario of a seed.
pub(crate) fn run(seed: Seed, uuid: VolumeUuid, bug: Option<SeededBug>) -> Run {
    let mut random = Prng::new(seed.derive("crash of files", 0));
    let layout = workload::layout_of(LOGICAL_PAGES + random.below(12), SEGMENTS + random.below(3) as u32);
    let has_error = random.below(4) == 0;
    let mut run = Run::new(seed, uuid, layout);
    let media = CrashMedia::new(Arc::new(run.new_media()), Vec::new());
    if has_error {
        media.fail_after(20 + random.below(200));
    }
    let opened = run.mount(media, bug).and_then(Files::open);
    let mut host = match opened.and_then(|mut files| Ok((FileModel::read(&mut files, Vec::new())?, files))) {
        Ok((model, files)) => FileHost::new(files, model, random, bug, run.layout.clone(), seed),
        Err(RepairError::Io { .. }) => return run,
        Err(error) => {
            run.broken = Some(format!("the files of a new volume cannot be opened: {error}"));
            return run;
        }
    };
    host.model.step();
    host.mark();
    for _ in 0..OPERATIONS {
        if host.broken.is_some() || !host.step() {
            break;
        }
    }
    run.broken = host.broken;
    (run.marks, run.closed) = (host.marks, host.closed);
    host.histories.push(host.model.digests);
    run.files = Some(FileHistories(host.histories));
    if let Some(files) = host.files {
        run.packed_segments = files.volume().counters().packed_segments;
        run.images = files.volume().superblock().image;
        run.log = files.abandon().log;
    }
    run
}

struct FileHost {
    files: Option<Files<CrashMedia>>,
    model: FileModel,
    random: Prng,
    bug: Option<SeededBug>,
    layout: VolumeLayout,
    seed: Seed,
    /// Digests up to the last sync.
    flushed: usize,
    marks: Vec<Mark>,
    closed: Vec<(usize, Mark)>,
    histories: Vec<Vec<u64>>,
    held: Vec<FileId>,
    /// The time, in steps of the host.
    now_ns: i64,
    broken: Option<String>,
}

impl FileHost {
    fn new(
        files: Files<CrashMedia>,
        model: FileModel,
        random: Prng,
        bug: Option<SeededBug>,
        layout: VolumeLayout,
        seed: Seed,
    ) -> FileHost {
        FileHost {
            files: Some(files),
            model,
            random,
            bug,
            layout,
            seed,
            flushed: 0,
            marks: Vec::new(),
            closed: Vec::new(),
            histories: Vec::new(),
            held: Vec::new(),
            now_ns: 0,
            broken: None,
        }
    }

    /// Notes for the IOs since the last call what the host may expect.
    fn mark(&mut self) {
        let ios = self.files.as_ref().map_or(0, |files| files.volume().device().log.len());
        let issued = self.model.digests.len();
        let mark = Mark { history: self.histories.len(), flushed: self.flushed, issued };
        self.marks.resize(ios, mark);
    }

    /// One operation. False: the device has failed, and the scenario ends.
    fn step(&mut self) -> bool {
        self.now_ns += 1;
        let must_sync = self.model.digests.len() - self.flushed >= UNSYNCED_MAX;
        let done = match self.random.below(100) {
            _ if must_sync => self.sync(),
            0..11 => self.create(),
            11..13 => self.symlink(),
            13..15 => self.exchange(),
            15..18 => self.set_extended(),
            18..20 => self.read(),
            20..42 => self.write(),
            42..48 => self.truncate(),
            48..52 => self.punch(),
            52..55 => self.allocate(),
            55..63 => self.rename(),
            63..65 => self.link(),
            65..72 => self.remove(),
            72..75 => self.set_attributes(),
            75..78 => self.release(),
            78..92 => self.sync(),
            92..94 => self.idle(),
            94..96 => self.move_files(),
            96..98 => self.restart(true),
            _ => self.restart(false),
        };
        self.mark();
        match done {
            Ok(()) | Err(RepairError::File(_)) => true,
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &RepairError) -> bool {
        let Some(files) = &mut self.files else { return false };
        if !files.volume().device().has_failed() {
            self.broken = Some(format!("an operation failed on a device without faults: {error}"));
        } else if files.sync(false).is_ok() {
            self.broken = Some(format!("a sync succeeds after this error: {error}"));
        }
        self.mark();
        false
    }

    fn files(&mut self) -> &mut Files<CrashMedia> {
        self.files.as_mut().expect("the volume is open")
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.random.below(from.len() as u64) as usize].clone())
    }

    fn name(&mut self) -> (FileId, &'static [u8]) {
        let directory = self.pick(&self.model.directories()).unwrap_or(FileId::ROOT);
        (directory, NAMES[self.random.below(NAMES.len() as u64) as usize])
    }

    /// Changes the model as the operation changed the files, unless that was refused.
    fn done<T>(
        &mut self,
        result: Result<T, RepairError>,
        change: impl FnOnce(&mut FileModel, Option<T>),
    ) -> Result<(), RepairError> {
        let (value, result) = match result {
            Ok(value) => (Some(value), Ok(())),
            Err(error @ RepairError::File(_)) => return Err(error),
            // Some of its steps may have been done.
            Err(error) => (None, Err(error)),
        };
        change(&mut self.model, value);
        result
    }

    fn create(&mut self) -> Result<(), RepairError> {
        let (parent, name) = self.name();
        let kind = if self.random.below(4) == 0 { FileKind::Directory } else { FileKind::Regular };
        let mode = 0o600 + self.random.below(8) as u32;
        let attributes = FileAttributes::new(mode, 1, 2, self.now_ns);
        let made = self.files().create(parent, name, kind, attributes);
        self.done(made, |model, id| {
            model.create((parent, name), id.unwrap_or(FileId(u64::MAX)), kind, attributes);
        })
    }

    fn symlink(&mut self) -> Result<(), RepairError> {
        let (parent, name) = self.name();
        let target = vec![b'x'; 1 + self.random.below(4095) as usize];
        let attributes = FileAttributes::new(LINK_PERMISSIONS, 1, 2, self.now_ns);
        let made = self.files().symlink(parent, name, &target, attributes);
        self.done(made, |model, id| {
            model.symlink((parent, name), id.unwrap_or(FileId(u64::MAX)), &target, attributes);
        })
    }

    fn range(&mut self) -> Option<(FileId, u64, u64)> {
        let id = self.pick(&self.model.regular())?;
        let (offset, length) = (self.random.below(SIZE_MAX), 1 + self.random.below(3 * PAGE as u64));
        // Half of the writes are of whole pages, as a database's are.
        let whole = self.random.below(2) == 0;
        let aligned = |value: u64| if whole { value.next_multiple_of(PAGE as u64) } else { value };
        Some((id, aligned(offset), aligned(length)))
    }

    fn write(&mut self) -> Result<(), RepairError> {
        let Some((id, mut offset, length)) = self.range() else { return Ok(()) };
        let mut data = vec![0; length as usize];
        self.random.fill(&mut data);
        let at_end = self.random.below(4) == 0 && self.model.size(id) < SIZE_MAX as usize;
        if at_end {
            offset = self.model.size(id) as u64;
        }
        let now_ns = self.now_ns;
        let written = self.files().write(id, (!at_end).then_some(offset), &data, now_ns);
        self.done(written, |model, _| model.write(id, offset as usize, &data, now_ns))
    }

    fn truncate(&mut self) -> Result<(), RepairError> {
        let Some((id, size, _)) = self.range() else { return Ok(()) };
        let now_ns = self.now_ns;
        let done = self.files().truncate(id, Bytes(size), now_ns);
        self.done(done, |model, _| model.truncate(id, size as usize, now_ns))
    }

    fn punch(&mut self) -> Result<(), RepairError> {
        let Some((id, offset, length)) = self.range() else { return Ok(()) };
        let now_ns = self.now_ns;
        let done = self.files().punch(id, offset, length, now_ns);
        self.done(done, |model, _| model.punch(id, offset as usize, length as usize, now_ns))
    }

    fn allocate(&mut self) -> Result<(), RepairError> {
        let Some((id, offset, length)) = self.range() else { return Ok(()) };
        let keeps_size = self.random.below(2) == 0;
        let now_ns = self.now_ns;
        let done = self.files().allocate(id, offset, length, keeps_size, now_ns);
        self.done(done, |model, _| model.allocate(id, offset as usize, length as usize, keeps_size, now_ns))
    }

    fn rename(&mut self) -> Result<(), RepairError> {
        let (from, to) = (self.name(), self.name());
        let replaces = self.random.below(4) > 0;
        let now_ns = self.now_ns;
        let done = self.files().rename(from, to, replaces, now_ns);
        self.done(done, |model, _| model.rename(from, to, now_ns))
    }

    fn exchange(&mut self) -> Result<(), RepairError> {
        let (one, other, now_ns) = (self.name(), self.name(), self.now_ns);
        let done = self.files().exchange(one, other, now_ns);
        self.done(done, |model, _| model.exchange(one, other, now_ns))
    }

    fn set_extended(&mut self) -> Result<(), RepairError> {
        let Some((id, size, _)) = self.range() else { return Ok(()) };
        let name = NAMES[self.random.below(3) as usize];
        let now_ns = self.now_ns;
        if self.random.below(3) == 0 {
            let done = self.files().remove_extended(id, name, now_ns);
            return self.done(done, |model, _| model.set_extended(id, name, None, now_ns));
        }
        let value = vec![b'v'; (size % 100) as usize];
        let done = self.files().set_extended(id, name, &value, SetExtended::Any, now_ns);
        self.done(done, |model, _| model.set_extended(id, name, Some(&value), now_ns))
    }

    fn read(&mut self) -> Result<(), RepairError> {
        let Some((id, ..)) = self.range() else { return Ok(()) };
        let now_ns = self.now_ns;
        self.files().accessed(id, now_ns);
        self.model.read_at(id, now_ns);
        Ok(())
    }

    fn link(&mut self) -> Result<(), RepairError> {
        let Some((id, ..)) = self.range() else { return Ok(()) };
        let (parent, name) = self.name();
        let now_ns = self.now_ns;
        let done = self.files().link(id, parent, name, now_ns);
        self.done(done, |model, _| model.link(parent, name, id, now_ns))
    }

    /// Removes a file, sometimes one that is open, or a directory.
    fn remove(&mut self) -> Result<(), RepairError> {
        let directory = self.pick(&self.model.directories()).unwrap_or(FileId::ROOT);
        let Some(name) = self.pick(&self.model.names(directory)) else { return Ok(()) };
        let id = self.files().lookup(directory, &name)?;
        let now_ns = self.now_ns;
        let done = match self.files().status(id)?.kind {
            FileKind::Directory => self.files().remove_directory(directory, &name, now_ns),
            FileKind::Regular | FileKind::SymbolicLink => {
                if self.random.below(2) == 0 {
                    self.files().hold(id)?;
                    self.held.push(id);
                }
                self.files().unlink(directory, &name, now_ns)
            }
        };
        self.done(done, |model, _| model.unlink(directory, &name, now_ns))
    }

    fn release(&mut self) -> Result<(), RepairError> {
        match self.held.pop() {
            Some(id) => self.files().release(id),
            None => Ok(()),
        }
    }

    fn set_attributes(&mut self) -> Result<(), RepairError> {
        let Some((id, ..)) = self.range() else { return Ok(()) };
        let mut attributes =
            FileAttributes { changed_ns: self.now_ns, ..self.files().status(id)?.attributes };
        match self.random.below(2) {
            0 => attributes.mode = 0o600 + self.random.below(64) as u32,
            // Also before 1970.
            _ => attributes.modified_ns = self.random.next_u64() as i64,
        }
        let done = self.files().set_attributes(id, attributes);
        self.done(done, |model, _| model.set_attributes(id, attributes))
    }

    fn sync(&mut self) -> Result<(), RepairError> {
        let data_only = self.random.below(2) == 0;
        let done = self.files().sync(data_only);
        if !data_only {
            self.model.record_times();
        }
        // The IOs of the sync itself may still find the state before it.
        self.mark();
        done?;
        self.flushed = self.model.digests.len();
        Ok(())
    }

    fn idle(&mut self) -> Result<(), RepairError> {
        for _ in 0..self.random.below(20) {
            self.files().work_while_idle();
        }
        self.files().volume().poison().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Moves files away from the end, as before the volume is made smaller. What the host sees stays; the space behind the end is free
    /// again when the files are opened anew.
    fn move_files(&mut self) -> Result<(), RepairError> {
        let pages = self.layout.options.logical_pages;
        let end = Bytes((pages / 4 + self.random.below(pages)) * PAGE as u64);
        match self.files().move_before(end) {
            Err(RepairError::File(_) | RepairError::Options(_)) => self.restart(false),
            Err(error) => {
                self.model.record_times();
                Err(error)
            }
            Ok(_) => {
                self.model.record_times();
                self.restart(false)
            }
        }
    }

    /// Ends the server, in order or not, and opens the files anew.
    fn restart(&mut self, in_order: bool) -> Result<(), RepairError> {
        if in_order {
            let done = self.files().finish();
            self.model.record_times();
            self.mark();
            done?;
            let issued = self.model.digests.len();
            let mark = Mark { history: self.histories.len(), flushed: issued, issued };
            let ios = self.files().volume().device().log.len();
            self.closed.extend(ios.checked_sub(1).map(|last| (last, mark)));
        }
        let Some(files) = self.files.take() else { return Ok(()) };
        self.held.clear();
        let volume = workload::mount(files.abandon(), self.seed, self.bug)?;
        debug_assert_eq!(*volume.layout(), self.layout);
        let mut files = Files::open(volume)?;
        let mut read = FileModel::read(&mut files, Vec::new())?;
        self.files = Some(files);
        self.mark();
        let issued = self.model.digests.len();
        let low = if in_order { issued } else { self.flushed };
        match newest(&self.model.digests, (low, issued), read.digest()) {
            Some(found) => {
                read.digests = self.model.digests[..found].to_vec();
                let old = std::mem::replace(&mut self.model, read);
                self.histories.push(old.digests);
                self.flushed = found;
            }
            None => {
                self.broken =
                    Some("after a restart without a power failure: a state that never was".to_owned())
            }
        }
        Ok(())
    }
}
