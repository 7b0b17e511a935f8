//! A live disk: a device model decides when an IO is answered, and a data store contains the bytes.
//!
//! # Model
//! A transport (FUSE, ublk, NBD) passes each IO to the disk, waits until the answer is due, and sends it. The
//! due time is the arrival time plus the modelled response time minus the transport latency.
//!
//! # Method
//! 1. The transport calls [`LiveDisk::begin`] with the IO and its arrival time.
//! 2. Armed fault rules decide whether the IO fails, takes longer, or loses data.
//! 3. The device model computes the completion time, and the data is moved to or from the store at once.
//! 4. The transport waits until [`PendingAnswer::due`].
//! 5. It calls [`LiveDisk::finish`], which counts and records the IO, and sends the result that `finish` returns.
//!
//! # Invariants
//! - The data is moved before the answer is due.
//! - An IO that fails, in the model or by a fault rule, changes no data, except a torn write.
//! - A power loss happens between two IOs, never within one. No flush reports bytes as durable that the power
//!   loss undid.
//! - If an answer waits while the power fails, it becomes an error, as on a device that loses its power.
//! - A discard changes no byte outside its range: device blocks that it covers partly stay written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use flashlab_base::{Bytes, Identity, Mode, Nanos, Sample};
use flashlab_device::{Geometry, IoError, Operation};
use flashlab_host::Clock;
use flashlab_samples::Lane;
use flashlab_sim::Statistics;

use crate::awake::AwakeCpus;
use crate::concurrent::ConcurrentDevice;
use crate::fault_rules::{FaultEffect, FaultInjector, FaultRule};
use crate::io::{Data, Io, PendingAnswer};
use crate::locks::lock;
use crate::model::{Model, ServedDevice};
use crate::statistics::{Counters, IoOutcome, IoSummary};
use crate::store::DataStore;
use crate::transport_latency::TransportLatency;

/// A device that programs use as a disk.
pub struct LiveDisk {
    clock: Clock,
    geometry: Geometry,
    identity: Identity,
    backend: Backend,
    /// `None`: nothing stores the data, or the device does it itself.
    store: Option<DataStore>,
    device_keeps_data: bool,
    faults: Mutex<FaultInjector>,
    /// Whether `faults` can affect an IO, so that most IOs need not lock it.
    any_fault: AtomicBool,
    /// Locked for reading while an IO begins, and for writing while the power fails.
    power: RwLock<()>,
    power_losses: AtomicU64,
    counters: Mutex<Counters>,
    transport_latency: OnceLock<TransportLatency>,
    /// The response time of probe IOs while the transport latency is measured, otherwise [`NOT_PROBING`]. Every read is
    /// a probe then, and every write that carries [`PROBE_MARK`].
    probe_response_ns: AtomicU64,
    record: Mutex<Option<Record>>,
    awake: AwakeCpus,
}

/// What serves the IOs.
enum Backend {
    /// A device in virtual time decides when they are answered.
    Modelled(Mutex<Model>),
    /// They take as long as they take.
    Concurrent(Box<dyn ConcurrentDevice>),
}

impl Backend {
    fn model(&self) -> Option<MutexGuard<'_, Model>> {
        match self {
            Backend::Modelled(model) => Some(lock(model)),
            Backend::Concurrent(_) => None,
        }
    }
}

const NOT_PROBING: u64 = u64::MAX;

/// The first bytes of each sector of a probe write, which is answered and forgotten.
pub(crate) const PROBE_MARK: &[u8] = b"a write of flashlab that measures the transport latency: keep nothing";

/// The longest response time, whatever the fault rules add: one day. Sums with it never overflow a clock.
const RESPONSE_MAX: Nanos = Nanos::from_secs(86_400);

/// Where samples are recorded.
struct Record {
    lane: Lane,
    /// The number of samples so far.
    position: u64,
}

impl LiveDisk {
    /// Serves `device` with its data in `store`. A device that stores data itself needs no store. Without either, reads
    /// return zeroes.
    pub fn new(device: Box<dyn ServedDevice>, store: Option<DataStore>) -> LiveDisk {
        let model = Model::new(device);
        let (geometry, identity) = (model.device.geometry(), model.device.identity());
        let keeps_data = model.keeps_data();
        LiveDisk::with(Backend::Modelled(Mutex::new(model)), geometry, identity, (keeps_data, store))
    }

    /// Serves a device in wall time.
    pub fn concurrent(device: Box<dyn ConcurrentDevice>) -> LiveDisk {
        let (geometry, identity) = (device.geometry(), device.identity());
        LiveDisk::with(Backend::Concurrent(device), geometry, identity, (true, None))
    }

    fn with(
        backend: Backend,
        geometry: Geometry,
        identity: Identity,
        (device_keeps_data, store): (bool, Option<DataStore>),
    ) -> LiveDisk {
        LiveDisk {
            clock: Clock::start(),
            geometry,
            identity,
            device_keeps_data,
            backend,
            store,
            faults: Mutex::default(),
            any_fault: AtomicBool::new(false),
            power: RwLock::default(),
            power_losses: AtomicU64::new(0),
            counters: Mutex::default(),
            transport_latency: OnceLock::new(),
            probe_response_ns: AtomicU64::new(NOT_PROBING),
            record: Mutex::default(),
            awake: AwakeCpus::start(),
        }
    }

    /// Whether IOs take the time that they take, so that several threads have to begin them.
    pub fn is_in_wall_time(&self) -> bool {
        matches!(self.backend, Backend::Concurrent(_))
    }

    /// The clock of arrival and due times.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The disk's capacity, block size and queue depth.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The device's name and description.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Performs an IO that arrived at `arrived`, and returns the answer with its due time.
    pub fn begin(&self, arrived: Nanos, io: Io<'_>) -> PendingAnswer {
        self.begin_acknowledging(arrived, io, &mut || {})
    }

    /// As [`LiveDisk::begin`]. A write that need not be durable, and that no fault rule concerns, may call `acknowledge` when its answer
    /// may be sent; the rest of the write is done after that.
    pub fn begin_acknowledging(
        &self,
        arrived: Nanos,
        io: Io<'_>,
        acknowledge: &mut dyn FnMut(),
    ) -> PendingAnswer {
        self.awake.used();
        let Io { operation, offset, size, durable, mut data } = io;
        let probe_response = self.probe_response_ns.load(Ordering::Relaxed);
        if probe_response != NOT_PROBING && (operation == Operation::Read || is_probe_write(&data)) {
            return self.answer_probe(arrived, Nanos(probe_response), (operation, offset, size), data);
        }
        lock(&self.counters).enter();
        let no_power_loss = self.power.read().unwrap_or_else(PoisonError::into_inner);
        let power_losses = self.power_losses.load(Ordering::Acquire);
        let any_fault = self.any_fault.load(Ordering::Acquire);
        let effect = match any_fault {
            true => self.with_faults(|faults| faults.effect_on(arrived, operation, offset, size)),
            false => FaultEffect::NONE,
        };
        let (done, result) = match effect.error {
            Some(error) => (arrived, Err(error)),
            None => {
                let mut waits = || {};
                let acknowledge = if any_fault || durable { &mut waits } else { acknowledge };
                self.serve(arrived, (operation, offset, size), durable, &mut data, &effect, acknowledge)
            }
        };
        drop(no_power_loss);
        if effect.power_loss {
            // If the store cannot undo everything, more data survives than should. The IOs fail either way.
            let _ = self.lose_power();
        }
        if let (Ok(()), Some(bit), Data::Read(buffer)) = (&result, effect.flipped_bit, &mut data)
            && let Some(byte) = buffer.get_mut((bit / 8) as usize)
        {
            *byte ^= 1 << (bit % 8);
        }
        let response = done.since(arrived);
        // A float does not represent every nanosecond, so a response that no rule changes is not converted.
        let response = if effect.slow_down == 1.0 {
            response
        } else {
            Nanos((response.0 as f64 * effect.slow_down) as u64)
        };
        let asked = response.saturating_add(effect.extra_time).min(RESPONSE_MAX);
        let transport_latency =
            self.transport_latency.get().map_or(Nanos::ZERO, |latency| latency.of(operation, size));
        let is_too_fast = !self.is_in_wall_time() && asked <= transport_latency;
        let due = arrived + Nanos(asked.0.saturating_sub(transport_latency.0));
        PendingAnswer {
            due,
            result,
            power_losses,
            operation,
            offset,
            size,
            arrived,
            asked,
            transport_latency,
            is_too_fast,
            is_counted: true,
        }
    }

    /// The answer to an IO that measures the transport latency. It is not counted, and the model does not see it.
    fn answer_probe(
        &self,
        arrived: Nanos,
        response: Nanos,
        (operation, offset, size): (Operation, Bytes, Bytes),
        mut data: Data<'_>,
    ) -> PendingAnswer {
        // A read returns the stored bytes: other programs, such as udev, also look at a new block device.
        let result = match self.device_keeps_data || operation == Operation::Write {
            true => Ok(()),
            false => self.move_data(operation, (offset, size), false, &mut data, &FaultEffect::NONE),
        };
        PendingAnswer {
            due: arrived + response,
            result,
            power_losses: self.power_losses.load(Ordering::Acquire),
            operation,
            offset,
            size,
            arrived,
            asked: response,
            transport_latency: Nanos::ZERO,
            is_too_fast: false,
            is_counted: false,
        }
    }

    /// Counts and records an IO whose answer is sent at `sent`, and returns what the answer says.
    ///
    /// # Errors
    /// Those of the IO, and EIO when the power failed since the IO began.
    pub fn finish(&self, answer: &PendingAnswer, sent: Nanos) -> Result<(), IoError> {
        let result = match self.power_losses.load(Ordering::Acquire) == answer.power_losses {
            true => answer.result,
            false => answer.result.and(Err(IoError::IO)),
        };
        if !answer.is_counted {
            return result;
        }
        let delivered = sent.since(answer.arrived) + answer.transport_latency;
        lock(&self.counters).leave(&IoOutcome {
            operation: answer.operation,
            bytes: answer.size.0,
            failed: result.is_err(),
            asked: answer.asked,
            delivered,
            lateness: sent.since(answer.due),
            is_too_fast: answer.is_too_fast,
        });
        if let Some(mode) = mode_of(answer.operation)
            && let Some(record) = lock(&self.record).as_mut()
        {
            let sample = Sample {
                position: record.position,
                process: 0,
                mode,
                offset: answer.offset,
                size: answer.size,
                intended: answer.arrived,
                submitted: answer.arrived,
                completed: answer.arrived + delivered,
                errno: result.err().map_or(0, |error| error.errno),
            };
            record.position += 1;
            // A full file system ends the recording and not the server. The end of the recording reports it.
            let _ = record.lane.record(&sample);
        }
        result
    }

    /// When the device model completes the IO, and the result of moving its data.
    fn serve(
        &self,
        arrived: Nanos,
        (operation, offset, size): (Operation, Bytes, Bytes),
        durable: bool,
        data: &mut Data<'_>,
        effect: &FaultEffect,
        acknowledge: &mut dyn FnMut(),
    ) -> (Nanos, Result<(), IoError>) {
        let model = match &self.backend {
            Backend::Modelled(model) => model,
            Backend::Concurrent(device) => {
                let mut result = device.serve(operation, (offset, size), data, acknowledge);
                if durable && result.is_ok() && operation != Operation::Flush {
                    let everything = (Bytes::ZERO, Bytes::ZERO);
                    result = device.serve(Operation::Flush, everything, &mut Data::Nothing, &mut || {});
                }
                return (self.clock.now(), result);
            }
        };
        let range = match operation {
            Operation::Flush => (Bytes::ZERO, Bytes::ZERO),
            _ if self.device_keeps_data => (offset, size),
            // Transports allow any range, and the model serves whole blocks: all blocks that the IO touches.
            // A discard frees only the blocks that it covers completely.
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
            // It covers no complete block of the device, so the device does nothing.
            let result = self.move_data(operation, (offset, size), durable, data, effect);
            return (arrived, result);
        }
        let mut model = lock(model);
        let (mut done, mut result) = model.serve(arrived, operation, range, data);
        if durable && result.is_ok() && operation != Operation::Flush {
            let flushed =
                model.serve(arrived, Operation::Flush, (Bytes::ZERO, Bytes::ZERO), &mut Data::Nothing);
            (done, result) = (done.max(flushed.0), flushed.1);
        }
        drop(model);
        if result.is_ok() && !self.device_keeps_data {
            result = self.move_data(operation, (offset, size), durable, data, effect);
        }
        (done, result)
    }

    /// Moves the data between the program's buffer and the store.
    fn move_data(
        &self,
        operation: Operation,
        (offset, size): (Bytes, Bytes),
        durable: bool,
        data: &mut Data<'_>,
        effect: &FaultEffect,
    ) -> Result<(), IoError> {
        let Some(store) = &self.store else {
            if let Data::Read(buffer) = data {
                buffer.fill(0);
            }
            return Ok(());
        };
        let moved = match (operation, data) {
            (Operation::Read, Data::Read(buffer)) => store.read(offset, buffer),
            (Operation::Write, Data::Write(bytes)) => {
                let bytes =
                    &bytes[..effect.torn_bytes.map_or(bytes.len(), |torn| bytes.len().min(torn as usize))];
                store.write(offset, bytes, durable)
            }
            (Operation::Discard, _) => store.zero(offset, size, durable),
            (Operation::Flush, _) if !effect.lost_flush => store.flush(),
            _ => Ok(()),
        };
        moved.map_err(|error| IoError { errno: error.raw_os_error().unwrap_or(IoError::IO.errno) })
    }

    /// The transport latency that is subtracted from each response time; zero before it was measured.
    pub fn transport_latency(&self) -> TransportLatency {
        self.transport_latency.get().copied().unwrap_or_default()
    }

    /// Sets the transport latency that is subtracted from now on. Only the first call has an effect.
    pub fn set_transport_latency(&self, latency: TransportLatency) {
        let _ = self.transport_latency.set(latency);
    }

    /// With a response time: from now on reads and marked writes measure the transport latency and are answered after
    /// this time. With `None`: the disk answers as the model says.
    pub(crate) fn answer_probes_after(&self, response: Option<Nanos>) {
        self.probe_response_ns.store(response.map_or(NOT_PROBING, |response| response.0), Ordering::Relaxed);
    }

    /// Arms a fault rule.
    pub fn arm(&self, rule: FaultRule) {
        self.with_faults(|faults| faults.arm(rule));
    }

    /// Reads or changes the armed fault rules.
    pub fn with_faults<R>(&self, change: impl FnOnce(&mut FaultInjector) -> R) -> R {
        let mut faults = lock(&self.faults);
        let answer = change(&mut faults);
        self.any_fault.store(!faults.are_none(), Ordering::Release);
        answer
    }

    /// Cuts the power: unflushed bytes are lost, and every IO fails until the power is back. Returns the
    /// number of 4 KiB blocks whose content was undone.
    ///
    /// # Errors
    /// Those of the backing file.
    pub fn lose_power(&self) -> std::io::Result<u64> {
        let _no_io_begins = self.power.write().unwrap_or_else(PoisonError::into_inner);
        self.power_losses.fetch_add(1, Ordering::AcqRel);
        self.with_faults(FaultInjector::power_off);
        if let Some(mut model) = self.backend.model() {
            model.device.power_cut();
        }
        self.store.as_ref().map_or(Ok(0), DataStore::power_loss)
    }

    /// The statistics of all IOs so far.
    pub fn summary(&self) -> IoSummary {
        lock(&self.counters).summary()
    }

    /// The counters of the device model, if it has any.
    pub fn device_statistics(&self) -> Option<Statistics> {
        self.backend.model()?.device.statistics()
    }

    /// What the device reports of itself in addition to counters.
    pub fn device_details(&self) -> Option<serde_json::Value> {
        match &self.backend {
            Backend::Modelled(_) => None,
            Backend::Concurrent(device) => device.details(),
        }
    }

    /// The device's state as bytes, if it has one.
    pub fn state(&self) -> Option<Vec<u8>> {
        self.backend.model()?.device.save()
    }

    /// Makes all written data durable.
    ///
    /// # Errors
    /// Those of the backing file.
    pub fn flush(&self) -> std::io::Result<()> {
        self.store.as_ref().map_or(Ok(()), DataStore::flush)
    }

    /// Records reads and writes into `lane` from now on; returns the lane before it.
    pub fn record(&self, lane: Option<Lane>) -> Option<Lane> {
        let next = lane.map(|lane| Record { lane, position: 0 });
        std::mem::replace(&mut *lock(&self.record), next).map(|record| record.lane)
    }
}

/// Whether it is a write of a measurement of the transport latency.
fn is_probe_write(data: &Data<'_>) -> bool {
    matches!(data, Data::Write(bytes) if bytes.starts_with(PROBE_MARK))
}

fn mode_of(operation: Operation) -> Option<Mode> {
    match operation {
        Operation::Read => Some(Mode::Read),
        Operation::Write => Some(Mode::Write),
        Operation::Flush | Operation::Discard => None,
    }
}
