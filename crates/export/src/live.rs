//! A device as a live disk: the model says when, the store keeps what, and the transport waits.
//!
//! # Model
//! A transport stamps an IO when it takes it out of its queue and hands it to [`LiveDisk::begin`], which moves the data
//! and asks the model when the IO is done. The transport holds the answer until [`Answer::due`], sends it, and tells
//! [`LiveDisk::finish`]. What the way to the program and back costs is measured at start ([`LiveDisk::set_overhead`])
//! and taken off. [`LiveDisk::finish`] tells what the answer says: it may have become an error while it was held.
//!
//! # Invariants
//! - data is moved before the answer is due, whatever the model says;
//! - an IO that the model or a fault fails changes no data, but for a torn write;
//! - an IO is begun wholly before a power loss or wholly after it: no flush says that what the loss took back is durable;
//! - an answer that is held while the power fails is an error, as a program that waits for a device without power gets one;
//! - a discard reaches no byte beyond its range: blocks of the device that it covers in part stay written there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

use flashlab_base::{Bytes, Identity, Mode, Nanos};
use flashlab_device::{Geometry, IoError, Operation};
use flashlab_host::Clock;
use flashlab_samples::{Lane, Sample};
use flashlab_sim::Statistics;

use crate::awake::Awake;
use crate::faults::{Fault, Faults, Verdict};
use crate::model::{Data, Model, Served};
use crate::overhead::{MARK, Overhead};
use crate::statistics::{Counters, Outcome, Summary};
use crate::store::{Store, lock};

/// An IO, as a transport takes it.
pub struct Io<'a> {
    /// What to do; writing zeroes is a discard.
    pub operation: Operation,
    /// Where the range starts.
    pub offset: Bytes,
    /// How long it is.
    pub size: Bytes,
    /// Whether it has to be durable when it is answered.
    pub durable: bool,
    /// The data, as long as the size where there is one.
    pub data: Data<'a>,
}

/// What to answer, and when.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// When the answer is to be sent, by the clock of the disk.
    pub due: Nanos,
    /// What it says, unless the power fails before it is sent.
    pub result: Result<(), IoError>,
    /// How often the power had failed when it was begun.
    power_losses: u64,
    operation: Operation,
    offset: Bytes,
    size: Bytes,
    arrived: Nanos,
    asked: Nanos,
    /// What the way to the program and back costs, which was taken off.
    way: Nanos,
    too_fast: bool,
    /// Not while the way to the program is measured.
    counted: bool,
}

/// A device that is served as a disk.
pub struct LiveDisk {
    clock: Clock,
    geometry: Geometry,
    identity: Identity,
    model: Mutex<Model>,
    /// `None`: there is no data, or the device keeps it itself.
    store: Option<Store>,
    device_keeps_data: bool,
    faults: Mutex<Faults>,
    any_fault: AtomicBool,
    /// Held for reading while an IO is begun, and for writing while the power fails.
    power: RwLock<()>,
    power_losses: AtomicU64,
    counters: Mutex<Counters>,
    overhead: OnceLock<Overhead>,
    /// While the way to the program is measured, every read takes this long and does not reach the model, nor does a
    /// write that measures;
    /// [`NOT_MEASURING`] otherwise.
    measuring_ns: AtomicU64,
    record: Mutex<Option<Record>>,
    awake: Awake,
}

const NOT_MEASURING: u64 = u64::MAX;

/// No IO takes longer, whatever the faults say: a day, so that no clock overflows.
const LONGEST: Nanos = Nanos::from_secs(86_400);

/// Where samples go.
struct Record {
    lane: Lane,
    position: u64,
}

impl LiveDisk {
    /// `device`, with the data in `store`. A device that keeps data itself needs none; without either, reads give
    /// zeroes.
    pub fn new(device: Box<dyn Served>, store: Option<Store>) -> LiveDisk {
        let model = Model::new(device);
        LiveDisk {
            clock: Clock::start(),
            geometry: model.device.geometry(),
            identity: model.device.identity(),
            device_keeps_data: model.keeps_data(),
            model: Mutex::new(model),
            store,
            faults: Mutex::default(),
            any_fault: AtomicBool::new(false),
            power: RwLock::default(),
            power_losses: AtomicU64::new(0),
            counters: Mutex::default(),
            overhead: OnceLock::new(),
            measuring_ns: AtomicU64::new(NOT_MEASURING),
            record: Mutex::default(),
            awake: Awake::start(),
        }
    }

    /// The clock of arrivals and deadlines.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Size and block of the disk.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What the device says of itself.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Takes an IO that arrived at `arrived`.
    pub fn begin(&self, arrived: Nanos, io: Io<'_>) -> Answer {
        self.awake.used();
        let Io { operation, offset, size, durable, mut data } = io;
        let measuring = self.measuring_ns.load(Ordering::Relaxed);
        if measuring != NOT_MEASURING && (operation == Operation::Read || measures(&data)) {
            let (due, asked) = (arrived + Nanos(measuring), Nanos(measuring));
            // What is read is what is there: others look at a new block device as well, for what is on it.
            let result = match self.device_keeps_data || operation == Operation::Write {
                true => Ok(()),
                false => self.keep(operation, (offset, size), durable, &mut data, &Verdict::default()),
            };
            let power_losses = self.power_losses.load(Ordering::Acquire);
            return Answer {
                due,
                result,
                power_losses,
                operation,
                offset,
                size,
                arrived,
                asked,
                way: Nanos::ZERO,
                too_fast: false,
                counted: false,
            };
        }
        lock(&self.counters).enter();
        let begun = self.power.read().unwrap_or_else(PoisonError::into_inner);
        let power_losses = self.power_losses.load(Ordering::Acquire);
        let verdict = match self.any_fault.load(Ordering::Acquire) {
            true => self.judge(operation, offset, size),
            false => Verdict::default(),
        };
        let (done, result) = match verdict.error {
            Some(error) => (arrived, Err(error)),
            None => self.serve(arrived, (operation, offset, size), durable, &mut data, &verdict),
        };
        drop(begun);
        if verdict.power_loss {
            // An error of the store beneath leaves more than it should; the IOs fail either way.
            let _ = self.lose_power();
        }
        let asked = done.since(arrived).saturating_add(verdict.longer).min(LONGEST);
        let way = self.overhead.get().map_or(Nanos::ZERO, |overhead| overhead.of(operation, size));
        let (due, too_fast) = match asked > way {
            true => (arrived + Nanos(asked.0 - way.0), false),
            false => (arrived, true),
        };
        Answer {
            due,
            result,
            power_losses,
            operation,
            offset,
            size,
            arrived,
            asked,
            way,
            too_fast,
            counted: true,
        }
    }

    /// Tells that the answer is sent at `sent`, and returns what it says.
    ///
    /// # Errors
    /// Of the IO, and EIO when the power failed since it was begun.
    pub fn finish(&self, answer: &Answer, sent: Nanos) -> Result<(), IoError> {
        let Answer { due, operation, offset, size, arrived, asked, way, too_fast, counted, .. } = *answer;
        let result = match self.power_losses.load(Ordering::Acquire) == answer.power_losses {
            true => answer.result,
            false => answer.result.and(Err(IoError::IO)),
        };
        if !counted {
            return result;
        }
        let delivered = sent.since(arrived) + way;
        let lateness = sent.since(due);
        let failed = result.is_err();
        let outcome = Outcome { operation, bytes: size.0, failed, asked, delivered, lateness, too_fast };
        lock(&self.counters).leave(&outcome);
        if let Some(mode) = mode_of(operation)
            && let Some(record) = lock(&self.record).as_mut()
        {
            let position = record.position;
            record.position += 1;
            let errno = result.err().map_or(0, |error| error.errno);
            let completed = arrived + delivered;
            let sample = Sample {
                position,
                process: 0,
                mode,
                offset,
                size,
                intended: arrived,
                submitted: arrived,
                completed,
                errno,
            };
            // A full disk ends the recording and not the serving; whoever finishes the run is told.
            let _ = record.lane.record(&sample);
        }
        result
    }

    fn judge(&self, operation: Operation, offset: Bytes, size: Bytes) -> Verdict {
        let mut faults = lock(&self.faults);
        let verdict = faults.judge(operation, offset, size);
        self.any_fault.store(!faults.are_none(), Ordering::Release);
        verdict
    }

    fn serve(
        &self,
        arrived: Nanos,
        (operation, offset, size): (Operation, Bytes, Bytes),
        durable: bool,
        data: &mut Data<'_>,
        verdict: &Verdict,
    ) -> (Nanos, Result<(), IoError>) {
        let range = match operation {
            Operation::Flush => (Bytes::ZERO, Bytes::ZERO),
            _ if self.device_keeps_data => (offset, size),
            // The host's page cache and mapped files know no blocks: the model serves whole ones.
            _ => {
                let (block, end) = (self.geometry.block, Bytes(offset.0.saturating_add(size.0)));
                let (start, end) = match operation {
                    Operation::Discard => (offset.round_up(block), end.round_down(block)),
                    _ => (offset.round_down(block), end.round_up(block)),
                };
                (start, Bytes(end.0.saturating_sub(start.0)))
            }
        };
        if operation == Operation::Discard && range.1 == Bytes::ZERO {
            // No block of the device is discarded, and it has nothing to do.
            let result = self.keep(operation, (offset, size), durable, data, verdict);
            return (arrived, result);
        }
        let mut model = lock(&self.model);
        let (mut done, mut result) = model.serve(arrived, operation, range, data);
        if durable && result.is_ok() && operation != Operation::Flush {
            let flushed =
                model.serve(arrived, Operation::Flush, (Bytes::ZERO, Bytes::ZERO), &mut Data::Nothing);
            (done, result) = (done.max(flushed.0), flushed.1);
        }
        drop(model);
        if result.is_ok() && !self.device_keeps_data {
            result = self.keep(operation, (offset, size), durable, data, verdict);
        }
        (done, result)
    }

    /// Moves the data.
    fn keep(
        &self,
        operation: Operation,
        (offset, size): (Bytes, Bytes),
        durable: bool,
        data: &mut Data<'_>,
        verdict: &Verdict,
    ) -> Result<(), IoError> {
        let Some(store) = &self.store else {
            if let Data::Read(wanted) = data {
                wanted.fill(0);
            }
            return Ok(());
        };
        let kept = match (operation, data) {
            (Operation::Read, Data::Read(wanted)) => store.read(offset, wanted),
            (Operation::Write, Data::Write(bytes)) => {
                let bytes = &bytes[..verdict.torn.map_or(bytes.len(), |torn| bytes.len().min(torn as usize))];
                store.write(offset, bytes, durable)
            }
            (Operation::Discard, _) => store.zero(offset, size, durable),
            (Operation::Flush, _) if !verdict.lost_flush => store.flush(),
            _ => Ok(()),
        };
        kept.map_err(|error| IoError { errno: error.raw_os_error().unwrap_or(IoError::IO.errno) })
    }

    /// What is taken off each response time.
    pub fn current_overhead(&self) -> Overhead {
        self.overhead.get().cloned().unwrap_or_default()
    }

    /// From now on this is taken off each response time. It is measured once: later calls change nothing.
    pub fn set_overhead(&self, overhead: Overhead) {
        let _ = self.overhead.set(overhead);
    }

    /// From now on every read and every write that measures takes `response`, so that the way to the program can be measured; as
    /// it should be with `None`.
    pub(crate) fn measure(&self, response: Option<Nanos>) {
        self.measuring_ns.store(response.map_or(NOT_MEASURING, |response| response.0), Ordering::Relaxed);
    }

    /// Arms a fault.
    pub fn arm(&self, fault: Fault) {
        lock(&self.faults).arm(fault);
        self.any_fault.store(true, Ordering::Release);
    }

    /// Shows or changes the faults.
    pub fn with_faults<R>(&self, change: impl FnOnce(&mut Faults) -> R) -> R {
        let mut faults = lock(&self.faults);
        let answer = change(&mut faults);
        self.any_fault.store(!faults.are_none(), Ordering::Release);
        answer
    }

    /// The power fails: what was not flushed is gone, and every IO fails until the power is back. Returns how many blocks
    /// of 4 KiB were taken back.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn lose_power(&self) -> std::io::Result<u64> {
        let _alone = self.power.write().unwrap_or_else(PoisonError::into_inner);
        self.power_losses.fetch_add(1, Ordering::AcqRel);
        self.with_faults(Faults::power_off);
        lock(&self.model).device.power_cut();
        self.store.as_ref().map_or(Ok(0), Store::power_loss)
    }

    /// What was served so far.
    pub fn summary(&self) -> Summary {
        lock(&self.counters).summary()
    }

    /// What the device counted.
    pub fn device_statistics(&self) -> Option<Statistics> {
        lock(&self.model).device.statistics()
    }

    /// The device's state as bytes, if it has one.
    pub fn state(&self) -> Option<Vec<u8>> {
        lock(&self.model).device.save()
    }

    /// Makes everything durable that was written, as at the end.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn flush(&self) -> std::io::Result<()> {
        self.store.as_ref().map_or(Ok(()), Store::flush)
    }

    /// From now on reads and writes are recorded; returns the lane that was recorded to.
    pub fn record(&self, lane: Option<Lane>) -> Option<Lane> {
        let next = lane.map(|lane| Record { lane, position: 0 });
        std::mem::replace(&mut *lock(&self.record), next).map(|record| record.lane)
    }
}

/// Whether it is a write that is to be forgotten.
fn measures(data: &Data<'_>) -> bool {
    matches!(data, Data::Write(bytes) if bytes.starts_with(MARK))
}

fn mode_of(operation: Operation) -> Option<Mode> {
    match operation {
        Operation::Read => Some(Mode::Read),
        Operation::Write => Some(Mode::Write),
        Operation::Flush | Operation::Discard => None,
    }
}
