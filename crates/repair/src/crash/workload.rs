//! A random workload on a small volume, and what the host may expect after each recorded IO.

use std::sync::Arc;

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::Device;

use super::file_histories::FileHistories;
use super::history::{Content, History, PAGE, PAGES_MAX, read_pages};
use super::media::{CrashMedia, LoggedIo};
use super::scatter::Scatter;
use crate::append_and_pack::AppendAndPackPolicy;
use crate::error::RepairError;
use crate::format::VolumeUuid;
use crate::layout::{LayoutOptions, VolumeLayout};
use crate::policies::default_policy;
use crate::policy::Policy;
use crate::seeded_bug::SeededBug;
use crate::single_log::SingleLog;
use crate::volume::{MountOptions, Volume};

/// The volume of each scenario.
pub(crate) const UUID: VolumeUuid = VolumeUuid(*b"crash harness 01");
/// Another one, with the same history.
pub(crate) const OTHER_UUID: VolumeUuid = VolumeUuid(*b"crash harness 02");
const SEGMENT: Bytes = Bytes::kib(32);
const INTERVAL: Bytes = Bytes::kib(64);
/// The host's operations in a scenario: enough to write the volume several times.
const OPERATIONS: u64 = 220;
/// The same for a volume with the slack of several logs, which is twice as large.
const OPERATIONS_SEVERAL_LOGS: u64 = 440;
/// The host flushes at the latest after this number of updates, so that few states are possible.
const UNFLUSHED_MAX: usize = 40;

/// What the host may expect when the power fails behind a recorded IO.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub history: usize,
    pub flushed: usize,
    pub issued: usize,
}

/// A scenario that was run.
pub(crate) struct Run {
    pub seed: Seed,
    pub uuid: VolumeUuid,
    pub layout: VolumeLayout,
    pub log: Vec<LoggedIo>,
    /// For each recorded IO.
    pub marks: Vec<Mark>,
    /// IOs behind which the volume was closed in order, with what the host may expect then.
    pub closed: Vec<(usize, Mark)>,
    /// A history is continued from a shorter one where the server was killed.
    pub histories: Vec<History>,
    pub packed_segments: u64,
    pub images: u64,
    pub resizes: u64,
    pub errors: u64,
    /// A promise that was broken without a crash.
    pub broken: Option<String>,
    /// What is expected of files, in a scenario with files.
    pub files: Option<FileHistories>,
}

impl Run {
    /// A run in which nothing has happened.
    pub fn new(seed: Seed, uuid: VolumeUuid, layout: VolumeLayout) -> Run {
        Run {
            seed,
            uuid,
            layout,
            log: Vec::new(),
            marks: Vec::new(),
            closed: Vec::new(),
            histories: vec![History::default()],
            packed_segments: 0,
            images: 0,
            resizes: 0,
            errors: 0,
            broken: None,
            files: None,
        }
    }

    /// The volume's device as it was made.
    pub fn new_media(&self) -> Vec<u8> {
        new_media(self.uuid, &self.layout)
    }

    /// Mounts what a crash left.
    pub fn mount<D: Device>(&self, media: D, bug: Option<SeededBug>) -> Result<Volume<D>, RepairError> {
        mount(media, self.seed, bug)
    }
}

/// Mounts a volume with the policy of a scenario.
pub(crate) fn mount<D: Device>(
    media: D,
    seed: Seed,
    bug: Option<SeededBug>,
) -> Result<Volume<D>, RepairError> {
    let options = MountOptions { bug, discard_rate: Bytes::mib(64), ..MountOptions::default() };
    Volume::open(media, options, |layout| policy(seed, layout))
}

/// The policy of a scenario.
pub(crate) fn policy(seed: Seed, layout: &VolumeLayout) -> Box<dyn Policy> {
    match seed.0 % 5 {
        0 => Box::new(SingleLog::Greedy),
        1 => Box::new(Scatter::default()),
        2 => Box::new(SingleLog::Fifo),
        3 => Box::new(AppendAndPackPolicy::new(layout.segment_count)),
        _ => default_policy(layout),
    }
}

/// Whether a scenario has the default policy, on a volume that is large enough for several logs.
fn has_several_logs(seed: Seed) -> bool {
    seed.0 % 5 == 4
}

/// The layout of a scenario's volume. With the default policy it has the slack that several logs need.
fn layout(seed: Seed, random: &mut Prng) -> VolumeLayout {
    let segments = if has_several_logs(seed) { 32 } else { 17 } + random.below(4) as u32;
    layout_of(20 + random.below(25), segments)
}

/// The layout of a small volume with these pages and at least these segments.
pub(crate) fn layout_of(logical_pages: u64, segments: u32) -> VolumeLayout {
    let mut capacity = Bytes::mib(1);
    loop {
        let page = Bytes(PAGE as u64);
        let options =
            LayoutOptions { capacity, page, segment: SEGMENT, logical_pages, checkpoint_interval: INTERVAL };
        match VolumeLayout::new(options) {
            Ok(layout) if layout.segment_count >= segments => return layout,
            _ => capacity += SEGMENT,
        }
    }
}

fn new_media(uuid: VolumeUuid, layout: &VolumeLayout) -> Vec<u8> {
    // The device is larger than the volume, which grows when it is resized.
    let capacity = (layout.options.capacity + Bytes(3 * SEGMENT.0)).0 as usize;
    let mut media = CrashMedia::new(Arc::new(vec![0; capacity]), Vec::new());
    Volume::create(&mut media, uuid, layout.options).expect("the harness makes possible volumes");
    media.into_content()
}

/// Runs the scenario of a seed.
pub(crate) fn run(seed: Seed, uuid: VolumeUuid, bug: Option<SeededBug>) -> Run {
    let mut random = Prng::new(seed.derive("crash workload", 0));
    let layout = layout(seed, &mut random);
    let media = CrashMedia::new(Arc::new(new_media(uuid, &layout)), Vec::new());
    // In a third of the scenarios writes and flushes of the device fail.
    let has_errors = random.below(3) == 0;
    if has_errors {
        media.fail_after(20 + random.below(150));
    }
    let mut run = Run::new(seed, uuid, layout);
    let opened = mount(media, seed, bug);
    let Ok(volume) = opened else {
        run.broken = opened.err().map(|error| format!("a new volume is not mounted: {error}"));
        return run;
    };
    let mut host =
        Host { run, volume: Some(volume), random, flushed: 0, acknowledged: 0, version: 0, bug, has_errors };
    host.mark();
    let operations = if has_several_logs(seed) { OPERATIONS_SEVERAL_LOGS } else { OPERATIONS };
    for _ in 0..operations {
        if host.run.broken.is_some() || !host.step() {
            break;
        }
    }
    if let Some(volume) = host.volume {
        host.run.packed_segments = volume.counters().packed_segments;
        host.run.images = volume.superblock().image;
        host.run.log = volume.abandon().log;
    }
    host.run
}

/// How a server ends.
enum End {
    Closed,
    Killed,
    /// Resizing closes the volume.
    Resized,
}

/// The host, its volume and its expectations.
struct Host {
    run: Run,
    volume: Option<Volume<CrashMedia>>,
    random: Prng,
    flushed: usize,
    /// Updates that were acknowledged: all but those of the last operation, if it failed.
    acknowledged: usize,
    version: u64,
    bug: Option<SeededBug>,
    has_errors: bool,
}

impl Host {
    fn history(&mut self) -> &mut History {
        self.run.histories.last_mut().expect("there is always one")
    }

    /// Notes for the IOs since the last call what the host may expect.
    fn mark(&mut self) {
        let ios = self.volume.as_ref().map_or(0, |volume| volume.device().log.len());
        let mark = Mark {
            history: self.run.histories.len() - 1,
            flushed: self.flushed,
            issued: self.history().len(),
        };
        self.run.marks.resize(ios, mark);
    }

    /// One operation of the host. False: the device has failed, and the scenario ends.
    fn step(&mut self) -> bool {
        let must_flush = self.history().len() - self.flushed >= UNFLUSHED_MAX;
        let done = match self.random.below(100) {
            _ if must_flush => self.flush(),
            0..57 => self.write(),
            57..61 => self.write_part(),
            61..66 => self.pack_and_flush(),
            66..84 => self.flush(),
            84..92 => self.discard(),
            92..94 => self.idle(),
            94 => self.read_with_error(),
            95 => self.idle_with_error(),
            96 => self.resize(),
            97 => self.restart(End::Closed),
            _ => self.restart(End::Killed),
        };
        self.mark();
        match done {
            Ok(()) => {
                self.acknowledged = self.history().len();
                true
            }
            Err(error) => self.failed(&error),
        }
    }

    /// After an error nothing may be acknowledged until the volume is opened anew. False: the scenario ends.
    fn failed(&mut self, error: &RepairError) -> bool {
        // A mount that fails takes the device with it.
        let Some(volume) = &mut self.volume else { return false };
        if !volume.device().has_failed() {
            self.run.broken = Some(format!("an operation failed on a device without faults: {error}"));
            return false;
        }
        if volume.flush().is_ok() {
            self.run.broken = Some(format!("a flush succeeds after this error: {error}"));
            return false;
        }
        let pages = read_pages(volume);
        let range = (self.acknowledged, self.history().len());
        if let Err(what) = self.history().check(&pages, range, true) {
            self.run.broken = Some(format!("after this error: {error}: {what}"));
            return false;
        }
        self.run.errors += 1;
        self.mark();
        self.volume().device().heal();
        let reopened = self.restart(End::Killed);
        if let Err(error) = &reopened {
            self.run.broken = Some(format!("after an error and without a fault it is not mounted: {error}"));
            return false;
        }
        if self.has_errors && self.random.below(2) == 0 {
            let after = 10 + self.random.below(150);
            self.volume().device().fail_after(after);
        }
        true
    }

    fn volume(&mut self) -> &mut Volume<CrashMedia> {
        self.volume.as_mut().expect("the volume is open")
    }

    fn pages(&self) -> u64 {
        self.volume.as_ref().map_or(0, |volume| volume.layout().options.logical_pages)
    }

    fn page(&mut self) -> u64 {
        let pages = self.pages();
        // Most writes go to a quarter of the pages, so that segments differ in their live pages.
        let hot = (pages / 4).max(1);
        if self.random.below(10) < 7 { self.random.below(hot) } else { self.random.below(pages) }
    }

    fn new_content(&mut self) -> Arc<[u8]> {
        self.version += 1;
        let word = self.version.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        word.repeat(PAGE / word.len()).into()
    }

    fn write(&mut self) -> Result<(), RepairError> {
        let first = self.page();
        let pages = self.pages();
        let count = (1 + self.random.below(4)).min(pages - first);
        let mut data = Vec::new();
        for page in first..first + count {
            let content = self.new_content();
            data.extend_from_slice(&content);
            self.history().push(page, Some(content));
        }
        let offset = first * PAGE as u64;
        // If one that is acknowledged early fails, the next operation reports it.
        match self.version.is_multiple_of(2) {
            true => self.volume().write_acknowledging(offset, &data, || ()),
            false => self.volume().write(offset, &data),
        }
    }

    fn write_part(&mut self) -> Result<(), RepairError> {
        let page = self.page();
        let (start, length) = (self.random.below(3000), 1 + self.random.below(1000));
        let mut whole = self.content(page);
        let patch = self.new_content();
        let (from, to) = (start as usize, (start + length) as usize);
        whole[from..to].copy_from_slice(&patch[..to - from]);
        self.history().push(page, Some(whole.into()));
        self.volume().write(page * PAGE as u64 + start, &patch[..to - from])
    }

    fn content(&mut self, page: u64) -> Vec<u8> {
        let content: Content = self.history().content(page);
        content.map_or_else(|| vec![0; PAGE], |content| content.to_vec())
    }

    fn discard(&mut self) -> Result<(), RepairError> {
        let first = self.page();
        let pages = self.pages();
        let count = (1 + self.random.below(6)).min(pages - first);
        (first..first + count).for_each(|page| self.history().push(page, None));
        self.volume().discard(first * PAGE as u64, count * PAGE as u64)
    }

    fn flush(&mut self) -> Result<(), RepairError> {
        let issued = self.history().len();
        self.volume().flush()?;
        // The IOs of the flush itself may still find the state before it.
        self.mark();
        self.flushed = issued;
        Ok(())
    }

    /// Background work: packing and discards of the device.
    fn idle(&mut self) -> Result<(), RepairError> {
        let time = Nanos::from_micros(50 + self.random.below(1000));
        let volume = self.volume();
        let until = volume.now() + time;
        while volume.wait(until).is_some() {}
        volume.poison().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// One step of packing, also when it is not due, then writes and a flush: the copies stay in memory while segments for later
    /// writes are opened and flushed.
    fn pack_and_flush(&mut self) -> Result<(), RepairError> {
        let volume = self.volume();
        if volume.poison().is_none() && volume.placer().can_write() {
            volume.pack_step()?;
        }
        for _ in 0..self.random.below(4) {
            self.write()?;
        }
        self.flush()
    }

    /// Makes the volume larger or smaller, and mounts it anew. Pages behind the new end are discarded before.
    fn resize(&mut self) -> Result<(), RepairError> {
        let (before, after) = (self.pages(), 15 + self.random.below(PAGES_MAX - 15));
        if after < before {
            (after..before).for_each(|page| self.history().push(page, None));
            self.volume().discard(after * PAGE as u64, (before - after) * PAGE as u64)?;
        }
        match self.volume().resize(Bytes(after * PAGE as u64)) {
            Ok(()) => {
                self.mark();
                self.flushed = self.history().len();
                self.run.resizes += 1;
                self.restart(End::Resized)
            }
            // It has too little slack for that.
            Err(RepairError::Options(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A read of the device fails: the page is an error, or right; and right at the next read. It poisons nothing. If a write is in
    /// flight, the read waits for it; when that fails, the volume is poisoned as behind any write that fails.
    fn read_with_error(&mut self) -> Result<(), RepairError> {
        // A write of the background work may have failed. It poisons the volume, and the host sees it now.
        if let Some(error) = self.volume().poison() {
            return Err(error.clone());
        }
        let (page, after) = (self.page(), self.random.below(2));
        let expected = self.content(page);
        let mut data = vec![0; PAGE];
        let volume = self.volume();
        volume.device().fail_read_after(Some(after));
        let first = volume.read(page * PAGE as u64, &mut data);
        let is_right = first.is_err() || data == expected;
        volume.device().fail_read_after(None);
        let second = volume.read(page * PAGE as u64, &mut data);
        if let Some(error @ RepairError::Io { action: "write", .. }) = volume.poison()
            && is_right
        {
            return Err(error.clone());
        }
        if !is_right || second.is_err() || data != expected || volume.poison().is_some() {
            self.run.broken =
                Some(format!("page {page} around a read that fails: {first:?}, then {second:?}"));
        }
        self.run.errors += u64::from(first.is_err());
        Ok(())
    }

    /// A read of packing fails. The segment is not packed until the volume is opened anew.
    fn idle_with_error(&mut self) -> Result<(), RepairError> {
        let after = self.random.below(6);
        self.volume().device().fail_read_after(Some(after));
        let idle = self.idle();
        self.volume().device().fail_read_after(None);
        idle?;
        let is_damaged = self.volume().damaged_segments() > 0;
        self.run.errors += u64::from(is_damaged);
        if is_damaged { self.restart(End::Closed) } else { Ok(()) }
    }

    /// Ends the server and mounts the volume anew.
    fn restart(&mut self, end: End) -> Result<(), RepairError> {
        let Some(volume) = self.volume.take() else { return Ok(()) };
        let in_order = !matches!(end, End::Killed);
        let media = if matches!(end, End::Closed) { volume.close()? } else { volume.abandon() };
        if in_order && let Some(last) = media.log.len().checked_sub(1) {
            let issued = self.history().len();
            let mark = Mark { history: self.run.histories.len() - 1, flushed: issued, issued };
            self.run.closed.push((last, mark));
        }
        let mut volume = mount(media, self.run.seed, self.bug)?;
        let pages = read_pages(&mut volume);
        self.volume = Some(volume);
        // While it was mounted, the old state was what the host could expect.
        self.mark();
        let range = (if in_order { self.history().len() } else { self.flushed }, self.history().len());
        match self.history().check(&pages, range, false) {
            Ok(found) => {
                let mut continued = self.history().clone();
                continued.truncate(found);
                self.run.histories.push(continued);
                (self.flushed, self.acknowledged) = (found, found);
            }
            Err(what) => self.run.broken = Some(format!("after a restart without a power failure: {what}")),
        }
        Ok(())
    }
}
