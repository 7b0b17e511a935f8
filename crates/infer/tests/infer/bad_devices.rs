//! Devices that fail, vanish, wear out, are tiny, or answer at random: each parameter says so, and the others go on.

use std::sync::atomic::AtomicBool;

use crate::made_up::MadeUp;
use flashlab_analysis::inference::{Finding, Parameter, Verdict};
use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{
    Completion, Device, FaultyDevice, InjectedFault, IoError, MemoryDevice, Operation, Request,
};
use flashlab_infer::{InferenceEnd, InferenceSettings, Known, PROBES, Probe, infer, nothing_known};
use flashlab_sim::{Profile, SimulatedDevice};

const SMALL: Bytes = Bytes::mib(16);

/// All findings; checks what has to hold of every device: each parameter is answered once, and the budget is kept.
fn inferred(device: &mut dyn Device) -> Known {
    let (known, ended) = inferred_until_the_end(device);
    assert_eq!(ended, InferenceEnd::Done);
    let answered: Vec<_> = known.findings.iter().map(|finding| finding.parameter).collect();
    for probe in PROBES {
        for parameter in probe.parameters {
            assert_eq!(answered.iter().filter(|one| *one == parameter).count(), 1, "{parameter}");
        }
    }
    known
}

fn inferred_until_the_end(device: &mut dyn Device) -> (Known, InferenceEnd) {
    let budget = InferenceSettings::usual_budget(device.geometry().capacity);
    let settings = InferenceSettings {
        seed: Seed(3),
        write_budget: Some(budget),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(3600),
        interrupt: &AtomicBool::new(false),
    };
    let mut known = nothing_known(device, "bad");
    let ended = infer(device, &settings, &mut known, &mut ());
    assert!(known.written <= budget, "{}", known.written);
    (known, ended)
}

fn of<'a>(known: &'a Known, probe: &Probe) -> Vec<&'a Finding> {
    probe.parameters.iter().map(|&parameter| known.get(parameter).unwrap()).collect()
}

/// The device, with IOs that fail.
fn failing<F>(device: MadeUp<F>, fails: fn(u64, &Request) -> bool) -> MadeUp<F> {
    let mut device = device;
    device.fails = fails;
    device
}

/// A device that takes as long for everything.
fn even() -> MadeUp<impl FnMut(&Request, Nanos) -> f64> {
    MadeUp::new(SMALL, |_, _| 100e3)
}

#[test]
fn an_io_that_fails_here_and_there_costs_no_answer() {
    let memory = || MemoryDevice::new(SMALL, Nanos(100_000));
    let once = inferred(&mut FaultyDevice::new(memory(), InjectedFault::Nth(5, IoError::IO)));
    let often = inferred(&mut failing(even(), |io, _| io % 100 == 7));
    for (whole, known) in [(inferred(&mut memory()), once), (inferred(&mut even()), often)] {
        let found = |known: &Known| {
            known.findings.iter().filter(|finding| finding.verdict != Verdict::Undetermined).count()
        };
        assert!(found(&known) >= found(&whole), "{} of {}", found(&known), found(&whole));
        assert!(known.findings.iter().all(|finding| !finding.evidence.contains("Input/output error")));
        let told = known.findings.iter().find(|finding| finding.evidence.contains(" IOs failed")).unwrap();
        assert!(told.confidence <= 0.9, "{told:?}");
    }
}

#[test]
fn many_ios_that_fail_cost_their_group_and_no_other() {
    // The first megabyte takes no writes.
    let known = inferred(&mut failing(even(), |_, request| {
        request.operation == Operation::Write && request.offset < Bytes::mib(1)
    }));
    let failed = |finding: &&Finding| finding.evidence.contains("Input/output error");
    assert!(known.findings.iter().filter(failed).all(|finding| finding.verdict == Verdict::Undetermined));
    assert!(known.findings.iter().any(|finding| failed(&finding)));
    for probe in PROBES.iter().filter(|probe| !probe.writes()) {
        assert!(of(&known, probe).iter().all(|finding| !failed(finding)));
    }
}

#[test]
fn a_device_of_which_nothing_is_read_any_more_is_gone() {
    let silent = |io, _: &Request| io > 3000;
    let (_, ended) = inferred_until_the_end(&mut failing(even(), silent));
    assert!(
        matches!(&ended, InferenceEnd::Gone(reason) if reason.contains("Input/output error")),
        "{ended:?}"
    );
}

/// A device with a write buffer that answers so many flushes, and no other.
struct Hanging {
    inner: SimulatedDevice,
    flushes: u32,
    hangs: bool,
    /// The writes since the last flush, and how many flushes came before the first one behind a single large write.
    writes: Vec<Bytes>,
    behind_large: Option<u32>,
    answered: u32,
}

impl flashlab_device::Wrapper for Hanging {
    type Inner = SimulatedDevice;

    fn inner(&self) -> &SimulatedDevice {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut SimulatedDevice {
        &mut self.inner
    }

    fn submit(&mut self, request: Request) {
        assert!(!self.hangs, "nothing is submitted behind a flush that is in flight");
        match request.operation {
            Operation::Flush => {
                let writes = std::mem::take(&mut self.writes);
                if matches!(writes[..], [size] if size >= Bytes::kib(256)) {
                    self.behind_large.get_or_insert(self.answered);
                }
                self.hangs = self.answered == self.flushes;
                self.answered += 1;
            }
            Operation::Write => self.writes.push(request.size),
            _ => {}
        }
        if !self.hangs {
            self.inner.submit(request);
        }
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        assert!(!self.hangs || until < Nanos::MAX, "it waits for ever");
        self.inner.wait(until)
    }
}

#[test]
fn a_device_that_does_not_answer_a_flush_is_gone() {
    let text = "version = 2\nname = \"test\"\ntitle = \"Test\"\nsource = \"a test\"\nfit = \"typical\"\ncapacity = \
         \"64MiB\"\n[noise]\nsigma = 0.05\n[flash]\npage = \"4KiB\"\npages_per_block = 64\nread = \
         \"60us\"\nprogram = \"600us\"\n[controller.write_buffer]\nsize = \"256KiB\"\n";
    let answering = |flushes| {
        let inner = Profile::parse(text, "test.toml").unwrap().device().unwrap();
        let (hangs, writes, behind_large, answered) = (false, Vec::new(), None, 0);
        let mut device = Hanging { inner, flushes, hangs, writes, behind_large, answered };
        let (known, ended) = inferred_until_the_end(&mut device);
        (device, known, ended)
    };
    let hanging = |flushes| {
        let (device, known, ended) = answering(flushes);
        assert!(device.hangs);
        assert!(matches!(&ended, InferenceEnd::Gone(reason) if reason.contains("flush")), "{ended:?}");
        known
    };
    hanging(0);
    // Behind the fill, where larger writes are flushed one by one.
    let (whole, ..) = answering(u32::MAX);
    let known = hanging(whole.behind_large.expect("some are flushed"));
    let is_region = |supposed: &Finding| supposed.parameter == Parameter::SlcCacheSize;
    assert!(known.checkpoint.provisional.iter().any(is_region), "what the fill showed stays");
}

#[test]
fn a_device_that_disappears_leaves_what_was_known_and_nothing_else() {
    let whole = inferred(&mut MemoryDevice::new(SMALL, Nanos(100_000)));
    let memory = MemoryDevice::new(SMALL, Nanos(100_000));
    // In the middle of the probe behind the first one that answers something.
    let (ios, answered) = first_that_answers();
    let mut gone = FaultyDevice::new(memory, InjectedFault::GoneFrom(ios + 1));
    let (known, ended) = inferred_until_the_end(&mut gone);
    for finding in of(&known, answered) {
        assert_eq!(Some(finding), whole.get(finding.parameter));
    }
    assert_eq!(known.findings.len(), answered.parameters.len());
    assert!(matches!(ended, InferenceEnd::Gone(_)), "{ended:?}");
}

/// How many IOs are done on a small device in memory until the end of the first probe that answers something, and which
/// that is.
fn first_that_answers() -> (u64, &'static Probe) {
    use flashlab_infer::InferenceProgress;
    use std::cell::Cell;
    /// Notes how many IOs there were when it ended.
    struct First<'a>(&'a Cell<u64>, Option<(u64, &'static Probe)>);
    impl InferenceProgress for First<'_> {
        fn ended(&mut self, probe: &'static Probe, _: &Known, _: &flashlab_plan::Plan) {
            if self.1.is_none() && !probe.parameters.is_empty() {
                self.1 = Some((self.0.get(), probe));
            }
        }
    }
    let count = Cell::new(0);
    let mut device = MadeUp::new(SMALL, |_, _| {
        count.set(count.get() + 1);
        100e3
    });
    let settings = InferenceSettings {
        seed: Seed(3),
        write_budget: Some(InferenceSettings::usual_budget(SMALL)),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(3600),
        interrupt: &AtomicBool::new(false),
    };
    let mut known = nothing_known(&device, "odd");
    let mut first = First(&count, None);
    infer(&mut device, &settings, &mut known, &mut first);
    first.1.unwrap()
}

#[test]
fn a_device_that_wears_out_in_the_middle_says_so_for_what_is_written_later() {
    let by_size = MadeUp::new(SMALL, |request, _| 100e3 + request.size.0 as f64);
    let mut device = failing(by_size, |io, request| io > 3000 && request.operation == Operation::Write);
    device.error = IoError::READ_ONLY;
    let known = inferred(&mut device);
    let worn = known.findings.iter().filter(|finding| finding.evidence.contains("Read-only file system"));
    let worn: Vec<_> = worn.collect();
    assert!(!worn.is_empty());
    assert!(worn.iter().all(|finding| finding.verdict == Verdict::Undetermined));
    for probe in PROBES.iter().filter(|probe| !probe.writes()) {
        assert!(of(&known, probe).iter().all(|finding| !finding.evidence.contains("Read-only")));
    }
}

#[test]
fn a_simulated_device_that_wears_out_is_read_all_the_same() {
    for endurance in [1, 4] {
        let profile = format!(
            "version = 2\nname = \"t\"\ntitle = \"t\"\nsource = \"none\"\nfit = \"none\"\ncapacity = \"32MiB\"\n[flash]\n\
             page = \"4KiB\"\npages_per_block = 64\ndies = 2\nover_provisioning = 0.2\n\
             reliability = {{ endurance = {endurance} }}\n"
        );
        let known = inferred(&mut flashlab_sim::Profile::parse(&profile, "t").unwrap().device().unwrap());
        let worn =
            |finding: &&Finding| finding.evidence.contains("the device takes no writes any more, because");
        assert!(known.findings.iter().any(|finding| worn(&finding)), "{endurance}");
        let read_only = || PROBES.iter().filter(|probe| !probe.writes());
        assert!(read_only().all(|probe| !of(&known, probe).iter().any(worn)), "{endurance}");
        let is_found = |finding: &&Finding| finding.verdict == Verdict::Found;
        assert!(
            read_only().flat_map(|probe| of(&known, probe)).any(|finding| is_found(&finding)),
            "{endurance}"
        );
    }
}

#[test]
fn a_device_that_takes_no_writes_is_read_where_it_holds_nothing() {
    let known = inferred(&mut failing(even(), |_, request| request.operation == Operation::Write));
    assert!(known.findings.iter().all(|finding| !finding.evidence.contains("too few places")));
}

#[test]
fn what_was_not_done_for_want_of_budget_or_time_claims_no_figures() {
    for (budget, time) in [(Bytes(1), Nanos::from_secs(3600)), (SMALL, Nanos(1000))] {
        let settings = InferenceSettings {
            seed: Seed(3),
            write_budget: Some(budget),
            reading_time: Some(time),
            writing_time: time,
            interrupt: &AtomicBool::new(false),
        };
        let mut device = even();
        let mut known = nothing_known(&device, "bad");
        infer(&mut device, &settings, &mut known, &mut ());
        for finding in &known.findings {
            let claims = ["(0 writes", " 0 ns,", "IOCount", "too small", "no write depends"];
            let claimed = claims.iter().find(|&&claim| finding.evidence.contains(claim));
            assert_eq!(claimed, None, "{}: {}", finding.parameter, finding.evidence);
        }
    }
}

#[test]
fn a_device_may_be_too_small_for_anything() {
    for capacity in [512, 4096, 64 << 10, 1 << 20] {
        inferred(&mut MemoryDevice::new(Bytes(capacity), Nanos(100_000)));
    }
}

#[test]
fn noise_that_drowns_everything_is_not_taken_for_a_signal() {
    let mut random = Prng::new(Seed(11));
    // Each IO takes anything from 10 us to 100 ms, whatever it is.
    let known = inferred(&mut MadeUp::new(SMALL, move |_, _| 1e4 * 1e4f64.powf(random.unit())));
    for finding in &known.findings {
        // That there is nothing to see may be said; a size or a number that is not there may not.
        let is_something = finding.number().is_some_and(|number| number != 0.0 && number != 1.0);
        assert!(!is_something || finding.confidence < 0.95, "{}: {finding:?}", finding.parameter);
    }
}

/// Response times of a kind, whatever is asked.
fn any_response(kind: u64, random: &mut Prng, io: u64) -> f64 {
    match kind % 6 {
        0 => 0.0,
        1 => 1e6 * (1.0 + (io as f64 / 5000.0)),
        2 if random.unit() < 0.5 => 5e4,
        2 => 5e7,
        3 => 1e5 * (1.0 - random.unit()).powf(-1.5).min(1e6),
        // Periods that belong to no unit of addresses.
        4 if io.is_multiple_of(37) => 3e6,
        4 => 8e4,
        // A few levels, in long stretches.
        _ => [3e4, 9e4, 2e5, 1e6][(io / 700 % 4) as usize] * (1.0 + 0.05 * random.unit()),
    }
}

#[test]
fn no_figures_make_a_probe_panic() {
    for seed in 0..12 {
        let mut random = Prng::new(Seed(seed));
        let (mut io, capacity) = (0, Bytes::mib([3, 16, 64][(seed % 3) as usize]));
        inferred(&mut MadeUp::new(capacity, move |_, _| {
            io += 1;
            any_response(seed, &mut random, io)
        }));
    }
}
