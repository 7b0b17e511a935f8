//! Runs patterns on devices in virtual time, and checks every IO against the pattern, the device and hand
//! computation.

use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

use flashlab_base::{Bytes, Mode, Nanos, Sample, Seed};
use flashlab_device::{
    Completion, Device, FaultyDevice, Geometry, Identity, InjectedFault, IoError, MemoryDevice, Parallel,
    Request, VirtualQueue, VirtualTime,
};
use flashlab_engine::{Control, EngineError, Observer, RunOutcome, StopReason, check, run, verify};
use flashlab_plan::{Arrival, Content, Location, Mix, Pattern, Space, Time};

const RESPONSE: Nanos = Nanos(1000);

fn device() -> MemoryDevice {
    MemoryDevice::new(Bytes::mib(4), RESPONSE)
}

fn baseline(name: &str, count: u64) -> Pattern {
    let mut pattern = Pattern::baseline(name).unwrap();
    pattern.io_count = Some(count);
    pattern
}

fn run_with(device: &mut dyn Device, pattern: &Pattern, control: &Control) -> (RunOutcome, Vec<Vec<Sample>>) {
    let geometry = device.geometry();
    let space = Space { capacity: geometry.capacity, block: geometry.block };
    let placed = pattern.place(space, Seed(1)).unwrap();
    let mut samples = vec![Vec::new(); placed.processes() as usize];
    let outcome = run(device, &placed, &mut samples, control).unwrap();
    (outcome, samples)
}

fn run_all(device: &mut dyn Device, pattern: &Pattern) -> (RunOutcome, Vec<Vec<Sample>>) {
    let interrupt = AtomicBool::new(false);
    run_with(device, pattern, &Control { interrupt: &interrupt, time_limit: None, failures_allowed: 0 })
}

fn submissions(samples: &[Sample]) -> Vec<u64> {
    samples.iter().map(|sample| sample.submitted.0).collect()
}

#[test]
fn a_consecutive_pattern_submits_each_io_when_the_last_one_is_done() {
    let (outcome, samples) = run_all(&mut device(), &baseline("SR", 4));
    assert_eq!(submissions(&samples[0]), [0, 1000, 2000, 3000]);
    let offsets: Vec<u64> = samples[0].iter().map(|sample| sample.offset.0 / 32768).collect();
    assert_eq!(offsets, [0, 1, 2, 3]);
    assert!(samples[0].iter().all(|sample| sample.intended == sample.submitted));
    assert_eq!((outcome.ended, outcome.ios, outcome.read), (StopReason::PatternDone, 4, Bytes::kib(128)));
    assert_eq!(outcome.end, Nanos(4000));
}

#[test]
fn a_write_that_is_written_through_takes_its_flush_as_well() {
    let mut pattern = baseline("SW", 8);
    pattern.write_through = true;
    pattern.mix = Some(Mix { second: Pattern::baseline("SR").unwrap().first, ratio: 1 });
    let (outcome, samples) = run_all(&mut device(), &pattern);
    let responses: Vec<u64> = samples[0].iter().map(|sample| sample.response().0).collect();
    assert_eq!(responses, [2000, 1000, 2000, 1000, 2000, 1000, 2000, 1000]);
    assert_eq!((outcome.ios, outcome.written, outcome.read), (8, Bytes::kib(128), Bytes::kib(128)));
    // Processes share the device, which does one IO after the other.
    pattern.parallel_degree = 2;
    assert_eq!(run_all(&mut device(), &pattern).0.end, Nanos(24_000));
}

#[test]
fn pauses_and_bursts_count_from_the_completion() {
    let mut pattern = baseline("SR", 5);
    pattern.first.time = Time::Pause { pause: Nanos(500) };
    let (_, samples) = run_all(&mut device(), &pattern);
    assert_eq!(submissions(&samples[0]), [0, 1500, 3000, 4500, 6000]);

    pattern.first.time = Time::Burst { burst: 2, pause: Nanos(500) };
    let (_, samples) = run_all(&mut device(), &pattern);
    assert_eq!(submissions(&samples[0]), [0, 1000, 2500, 3500, 5000]);
}

#[test]
fn an_open_loop_counts_response_from_the_intended_start() {
    // Twice as many IOs as the device can serve: each one waits 500 ns longer than the one before.
    let mut pattern = baseline("SR", 6);
    pattern.first.time = Time::Rate { per_second: 2e6, arrival: Arrival::Fixed };
    let (_, samples) = run_all(&mut device(), &pattern);
    let intended: Vec<u64> = samples[0].iter().map(|sample| sample.intended.0).collect();
    let responses: Vec<u64> = samples[0].iter().map(|sample| sample.response().0).collect();
    assert_eq!(intended, [0, 500, 1000, 1500, 2000, 2500]);
    assert_eq!(responses, [1000, 1500, 2000, 2500, 3000, 3500]);
    assert_eq!(submissions(&samples[0]), [0, 1000, 2000, 3000, 4000, 5000]);

    // At depth 4 the first four IOs are submitted on time.
    pattern.queue_depth = 4;
    let (_, samples) = run_all(&mut device(), &pattern);
    assert_eq!(submissions(&samples[0])[..4], [0, 500, 1000, 1500]);
    let responses: Vec<u64> = samples[0].iter().map(|sample| sample.response().0).collect();
    assert_eq!(responses, [1000, 1500, 2000, 2500, 3000, 3500]);
}

#[test]
fn a_queue_is_kept_full() {
    let mut pattern = baseline("RR", 6);
    pattern.queue_depth = 3;
    let (outcome, samples) = run_all(&mut device(), &pattern);
    assert_eq!(submissions(&samples[0]), [0, 0, 0, 1000, 2000, 3000]);
    assert_eq!(outcome.end, Nanos(6000));
}

#[test]
fn parallel_processes_share_the_clock_of_a_simulated_device() {
    let mut pattern = baseline("SR", 3);
    pattern.parallel_degree = 2;
    let (outcome, samples) = run_all(&mut device(), &pattern);
    // One server: the processes alternate, and each IO waits for that of the other process.
    assert_eq!(submissions(&samples[0]), [0, 1000, 3000]);
    assert_eq!(submissions(&samples[1]), [0, 2000, 4000]);
    assert_eq!(samples[1][0].offset, Bytes::mib(2));
    assert_eq!((outcome.ios, outcome.end), (6, Nanos(6000)));
}

#[test]
fn a_mix_alternates_by_its_ratio() {
    let mut pattern = baseline("SR", 6);
    let second = Pattern::baseline("RW").unwrap().first;
    pattern.mix = Some(Mix { second, ratio: 2 });
    let (outcome, samples) = run_all(&mut device(), &pattern);
    let modes: Vec<bool> = samples[0].iter().map(|sample| sample.mode.is_write()).collect();
    assert_eq!(modes, [false, false, true, false, false, true]);
    assert_eq!((outcome.read, outcome.written), (Bytes::kib(128), Bytes::kib(64)));
}

#[test]
fn a_time_limit_ends_an_endless_pattern_and_io_in_flight_is_observed() {
    let mut pattern = baseline("RR", 0);
    pattern.io_count = None;
    pattern.duration = Some(Nanos(10_000));
    pattern.queue_depth = 4;
    let (outcome, samples) = run_all(&mut device(), &pattern);
    assert_eq!(outcome.ended, StopReason::TimeUsed);
    // Submissions stop at 10 us; the four in flight then are still seen.
    assert_eq!(samples[0].len() as u64, outcome.ios);
    assert_eq!(outcome.ios, 13);
    assert!(submissions(&samples[0]).iter().all(|&at| at < 10_000));
}

struct StopAt(u64);

impl Observer for StopAt {
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        if sample.position == self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn an_observer_ends_the_run_for_all_processes() {
    let mut device = device();
    let mut pattern = baseline("RR", 1000);
    pattern.parallel_degree = 4;
    let space = Space { capacity: Bytes::mib(4), block: Bytes(512) };
    let placed = pattern.place(space, Seed(1)).unwrap();
    let mut observers: Vec<StopAt> = (0..4).map(|_| StopAt(9)).collect();
    let interrupt = AtomicBool::new(false);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 0 };
    let outcome = run(&mut device, &placed, &mut observers, &control).unwrap();
    assert_eq!(outcome.ended, StopReason::ObserverSatisfied);
    assert!((37..=44).contains(&outcome.ios), "{}", outcome.ios);
}

#[test]
fn an_interrupt_ends_the_run_with_what_was_measured() {
    let interrupt = AtomicBool::new(true);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 0 };
    let (outcome, samples) = run_with(&mut device(), &baseline("RR", 1000), &control);
    assert_eq!((outcome.ended, outcome.ios, samples[0].len()), (StopReason::Interrupted, 0, 0));
    assert!(interrupt.load(Ordering::Relaxed));
}

struct InterruptAfterFirst<'a>(&'a AtomicBool);

impl Observer for InterruptAfterFirst<'_> {
    fn observe(&mut self, _sample: &Sample) -> ControlFlow<()> {
        self.0.store(true, Ordering::Relaxed);
        ControlFlow::Continue(())
    }
}

#[test]
fn an_interrupt_is_heard_in_the_middle_of_a_long_pause() {
    let mut pattern = baseline("RR", 10);
    pattern.first.time = Time::Pause { pause: Nanos::from_secs(3600) };
    let placed = pattern.place(Space { capacity: Bytes::mib(4), block: Bytes(512) }, Seed(1)).unwrap();
    let interrupt = AtomicBool::new(false);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 0 };
    let mut observers = [InterruptAfterFirst(&interrupt)];
    let outcome = run(&mut device(), &placed, &mut observers, &control).unwrap();
    assert_eq!((outcome.ended, outcome.ios), (StopReason::Interrupted, 1));
    assert!(outcome.end < Nanos::from_secs(1), "{}", outcome.end);
}

#[test]
fn failed_ios_are_recorded_and_too_many_end_the_run() {
    let mut one = FaultyDevice::new(device(), InjectedFault::Nth(2, IoError::IO));
    let interrupt = AtomicBool::new(false);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 1 };
    let (outcome, samples) = run_with(&mut one, &baseline("SR", 5), &control);
    assert_eq!((outcome.ended, outcome.ios, outcome.failed), (StopReason::PatternDone, 5, 1));
    let errnos: Vec<i32> = samples[0].iter().map(|sample| sample.errno).collect();
    assert_eq!(errnos, [0, 0, 5, 0, 0]);

    let mut gone = FaultyDevice::new(device(), InjectedFault::GoneFrom(3));
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 1000 };
    let (outcome, samples) = run_with(&mut gone, &baseline("SW", 50), &control);
    assert_eq!((outcome.ended, samples[0].len()), (StopReason::DeviceFailed, 4));
    let failure = outcome.first_failure.unwrap();
    insta::assert_snapshot!(failure, @"a write of 32KiB at offset 96KiB failed: No such device or address (os error 6)");
}

#[test]
fn stamped_writes_are_verified_and_strayed_ones_found() {
    let mut device = device();
    let mut pattern = baseline("SW", 64);
    pattern.first.location = Location::Permutation;
    pattern.first.content = Content::Stamped;
    pattern.queue_depth = 4;
    let (_, samples) = run_all(&mut device, &pattern);
    for sample in &samples[0] {
        let (start, length) = (sample.offset.0 as usize, sample.size.0 as usize);
        let positions = verify(&device.data()[start..start + length], sample.offset).unwrap();
        assert!(positions.iter().all(|&position| position == sample.position));
    }
    let first = samples[0][0];
    let strayed = &device.data()[first.offset.0 as usize..][..512];
    let elsewhere = verify(strayed, first.offset + Bytes(512)).unwrap_err();
    assert_eq!(elsewhere.found, Some(first.offset));
    assert!(verify(&[0; 512], Bytes::ZERO).unwrap_err().to_string().contains("no stamp"));
}

#[test]
fn contents_are_what_they_are_called() {
    let written = |content| {
        let mut device = device();
        let mut pattern = baseline("SW", 2);
        pattern.first.content = content;
        run_all(&mut device, &pattern);
        device.data()[..65536].to_vec()
    };
    assert!(written(Content::Zeros).iter().all(|&byte| byte == 0));
    assert!(written(Content::Ones).iter().all(|&byte| byte == 0xFF));
    let half = written(Content::Half);
    assert!(half.chunks(4096).all(|unit| unit[2048..].iter().all(|&byte| byte == 0)));
    assert!(half.chunks(4096).all(|unit| unit[..2048].iter().filter(|&&byte| byte == 0).count() < 40));
    // No 4 KiB unit of incompressible content is written twice.
    let random = written(Content::Incompressible);
    let units: std::collections::HashSet<&[u8]> = random.chunks(4096).collect();
    assert_eq!(units.len(), 16);
}

#[test]
fn the_same_seed_gives_the_same_samples() {
    let mut pattern = baseline("RW", 200);
    pattern.parallel_degree = 3;
    pattern.queue_depth = 2;
    assert_eq!(run_all(&mut device(), &pattern), run_all(&mut device(), &pattern));
}

#[test]
fn what_cannot_be_run_is_refused_before_the_first_io() {
    let mut device = device();
    let mut pattern = baseline("RR", 10);
    pattern.queue_depth = 4000;
    let space = Space { capacity: Bytes::mib(4), block: Bytes(512) };
    let placed = pattern.place(space, Seed(1)).unwrap();
    let interrupt = AtomicBool::new(false);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 0 };
    let error = run(&mut device, &placed, &mut [Vec::new()], &control).unwrap_err();
    insta::assert_snapshot!(error, @"queue_depth = 4000: must be from 1 to 1024: the device accepts no more IOs at the same time");
    let error = run::<Vec<Sample>>(&mut device, &placed, &mut [], &control).unwrap_err();
    assert_eq!(error, EngineError::Observers { processes: 1, observers: 0 });

    // Processes without lanes share the device: what it does not accept waits in the host's queue.
    (pattern.parallel_degree, pattern.queue_depth) = (4, 1024);
    assert_eq!(check(&mut device, &pattern), Ok(()));
}

/// A device in virtual time that serves one request of 100 us at a time, and accepts no second one.
struct OneAtATime(VirtualQueue);

impl Device for OneAtATime {
    fn geometry(&self) -> Geometry {
        Geometry { depth: 1, ..device().geometry() }
    }
    fn identity(&self) -> Identity {
        device().identity()
    }
    fn now(&mut self) -> Nanos {
        self.0.now()
    }
    fn submit(&mut self, request: Request) {
        let completed = self.0.now() + Nanos(100_000);
        self.0.push(request, completed, Ok(()));
    }
    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.0.wait(until)
    }
}

#[test]
fn processes_wait_for_a_device_that_accepts_fewer_ios() {
    let mut pattern = baseline("RW", 50);
    pattern.parallel_degree = 4;
    let (outcome, samples) = run_all(&mut OneAtATime(VirtualQueue::new(1)), &pattern);
    assert_eq!(samples.len(), 4);
    let all: Vec<&Sample> = samples.iter().flatten().collect();
    assert_eq!(all.len(), 200);
    // The first IOs of all processes are issued at once; from then on three others are always served before.
    let mut first: Vec<Nanos> = samples.iter().map(|samples| samples[0].response()).collect();
    first.sort();
    assert_eq!(first, [1, 2, 3, 4].map(|rank| Nanos(100_000 * rank)));
    assert!(
        samples.iter().all(|samples| samples[1..].iter().all(|sample| sample.response() == Nanos(400_000)))
    );
    assert!(all.iter().all(|sample| sample.submitted == sample.intended));
    assert_eq!(outcome.end, Nanos(20_000_000));
}

/// A device whose lanes come from the function.
struct WithLanes<F>(F);

impl<F: Fn(u32) -> io::Result<Lane>> Device for WithLanes<F> {
    fn geometry(&self) -> Geometry {
        device().geometry()
    }
    fn identity(&self) -> Identity {
        Identity::default()
    }
    fn now(&mut self) -> Nanos {
        unreachable!("its lanes are used")
    }
    fn submit(&mut self, _: Request) {
        unreachable!("its lanes are used")
    }
    fn wait(&mut self, _: Nanos) -> Option<Completion> {
        unreachable!("its lanes are used")
    }
    fn parallel(&mut self) -> Option<&mut dyn Parallel> {
        Some(self)
    }
}

impl<F: Fn(u32) -> io::Result<Lane>> Parallel for WithLanes<F> {
    fn lanes(&mut self, count: u32) -> io::Result<Vec<Box<dyn Device + Send>>> {
        (0..count).map(|n| Ok(Box::new((self.0)(n)?) as Box<dyn Device + Send>)).collect()
    }
}

/// A lane on which every IO fails, or that cannot be set up.
struct Lane {
    inner: MemoryDevice,
    fails: bool,
    panics: bool,
    opened_by: ThreadId,
}

impl flashlab_device::Wrapper for Lane {
    type Inner = MemoryDevice;

    fn inner(&self) -> &MemoryDevice {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut MemoryDevice {
        &mut self.inner
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        let done = self.inner.wait(until)?;
        Some(if self.fails { Completion { result: Err(IoError::IO), ..done } } else { done })
    }

    /// None: completions would bypass the failure.
    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        None
    }

    fn geometry(&self) -> Geometry {
        let in_its_thread = thread::current().id() != self.opened_by;
        assert!(!self.panics || !in_its_thread, "this lane cannot be set up");
        self.inner.geometry()
    }
}

fn in_four_lanes(
    make: impl Fn(u32) -> io::Result<Lane>,
    observers: &mut [Vec<Sample>; 4],
) -> Result<RunOutcome, EngineError> {
    let mut pattern = baseline("RR", 8);
    pattern.parallel_degree = 4;
    let placed = pattern.place(Space { capacity: Bytes::mib(4), block: Bytes(512) }, Seed(1)).unwrap();
    let interrupt = AtomicBool::new(false);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 10 };
    run(&mut WithLanes(make), &placed, observers, &control)
}

#[test]
fn failures_count_over_all_processes() {
    let make =
        |_| Ok(Lane { inner: device(), fails: true, panics: false, opened_by: thread::current().id() });
    // No process alone fails more than is allowed.
    let outcome = in_four_lanes(make, &mut Default::default()).unwrap();
    assert_eq!(outcome.ended, StopReason::DeviceFailed);
    // The eleventh ends the run; the other three may each be at one more.
    assert!((11..=14).contains(&outcome.failed), "{}", outcome.failed);
}

#[test]
fn a_lane_that_cannot_be_set_up_ends_the_run_before_the_first_io() {
    let mut samples: [Vec<Sample>; 4] = Default::default();
    let make = |number| {
        Ok(Lane { inner: device(), fails: false, panics: number == 2, opened_by: thread::current().id() })
    };
    let panic = catch_unwind(AssertUnwindSafe(|| in_four_lanes(make, &mut samples))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"this lane cannot be set up"));
    assert!(samples.iter().all(Vec::is_empty));

    let none = |_| Err(io::Error::other("there are no more queues"));
    let error = in_four_lanes(none, &mut samples).unwrap_err();
    insta::assert_snapshot!(error, @"parallel_degree = 4 with queue_depth = 1 is not possible here: there are no more queues; take fewer processes or a smaller queue depth");
}

#[test]
fn reads_and_writes_are_told_apart() {
    let mut pattern = baseline("RW", 400);
    pattern.first.mode = flashlab_plan::ModeRule::WriteProbability(0.25);
    let (outcome, samples) = run_all(&mut device(), &pattern);
    let writes = samples[0].iter().filter(|sample| sample.mode == Mode::Write).count();
    assert!((60..140).contains(&writes), "{writes}");
    assert_eq!(outcome.written, Bytes::kib(32) * writes as u64);
}
