//! An inference that is interrupted, and goes on with what is known and the device as it was left.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_base::{Nanos, Seed};
use flashlab_device::{Device, Request};
use flashlab_infer::{
    InferenceEnd, InferenceProgress, InferenceSettings, Known, PROBES, Probe, forget_writes, infer,
    infer_probes, nothing_known, probes_for,
};
use flashlab_plan::Plan;
use flashlab_sim::{Profile, SimulatedDevice};

/// Two dies behind a write buffer, which several probes in turn have to know of.
fn device() -> SimulatedDevice {
    let text = "version = 2\nname = \"test\"\ntitle = \"Test\"\nsource = \"a test\"\nfit = \"typical\"\ncapacity = \
         \"48MiB\"\n[noise]\nsigma = 0.05\noutlier_share = 0.01\noutlier = \"3ms\"\n[flash]\npage = \
         \"4KiB\"\npages_per_block = 64\ndies = 2\nover_provisioning = 0.2\nread = \"60us\"\nprogram = \
         \"600us\"\n[controller]\nwrite_command = \"8us\"\nread_command = \"8us\"\nwrite_bandwidth = \
         \"1GB/s\"\n[controller.write_buffer]\nsize = \"512KiB\"\n";
    Profile::parse(text, "test.toml").unwrap().device().unwrap()
}

/// Interrupts as each probe ends, or as each begins, the first time.
struct Interrupts<'a> {
    interrupt: &'a AtomicBool,
    as_it_begins: bool,
    begun: Vec<&'static str>,
}

impl InferenceProgress for Interrupts<'_> {
    fn begin(&mut self, probe: &'static Probe, _: usize, _: usize) {
        let is_first = !self.begun.contains(&probe.name);
        self.begun.push(probe.name);
        self.interrupt.fetch_or(self.as_it_begins && is_first, Ordering::Relaxed);
    }

    fn ended(&mut self, _: &'static Probe, _: &Known, _: &Plan) {
        self.interrupt.fetch_or(!self.as_it_begins, Ordering::Relaxed);
    }
}

/// What is known in the end, and how often it was interrupted.
fn inferred(as_it_begins: Option<bool>) -> (Known, u64) {
    inferred_of(&mut device(), as_it_begins, Nanos::from_secs(60), PROBES)
}

/// The same of this device, by these probes, with so much time for reading.
fn inferred_of(
    device: &mut dyn Device,
    as_it_begins: Option<bool>,
    reading_time: Nanos,
    probes: &'static [Probe],
) -> (Known, u64) {
    let budget = InferenceSettings::usual_budget(device.geometry().capacity);
    let interrupt = AtomicBool::new(false);
    let settings = InferenceSettings {
        seed: Seed(5),
        write_budget: Some(budget),
        reading_time: Some(reading_time),
        writing_time: Nanos::from_secs(3600),
        interrupt: &interrupt,
    };
    let mut known = nothing_known(device, "test");
    let mut interrupts = Interrupts {
        interrupt: &interrupt,
        as_it_begins: as_it_begins.unwrap_or_default(),
        begun: Vec::new(),
    };
    let mut times = 0;
    loop {
        let progress: &mut dyn InferenceProgress =
            if as_it_begins.is_some() { &mut interrupts } else { &mut () };
        match infer_probes(device, &settings, &mut known, progress, probes) {
            InferenceEnd::Done => break,
            ended => assert_eq!(ended, InferenceEnd::Interrupted),
        }
        times += 1;
        assert!(times <= PROBES.len() as u64, "it never ends");
        interrupt.store(false, Ordering::Relaxed);
        known = as_a_file_keeps_it(&known);
    }
    assert!(known.written <= budget, "{}", known.written);
    (known, times)
}

fn as_a_file_keeps_it(known: &Known) -> Known {
    let document = serde_json::to_string(&known.document).unwrap();
    let checkpoint = serde_json::to_string(&known.checkpoint).unwrap();
    Known {
        document: serde_json::from_str(&document).unwrap(),
        checkpoint: serde_json::from_str(&checkpoint).unwrap(),
    }
}

/// What was found, with which confidence and why. Not what was written for each: a probe that answers nothing leaves its count to
/// the one behind it, if that is in the same session.
fn answers(known: &Known) -> Vec<String> {
    let told = |finding: &Finding| {
        let Finding { parameter, confidence, evidence, .. } = finding;
        format!("{parameter}: {} ({confidence}): {evidence}", finding.value_in_words())
    };
    known.findings.iter().map(told).collect()
}

#[test]
fn who_is_interrupted_after_each_group_finds_the_same() {
    let (whole, never) = inferred(None);
    let (resumed, times) = inferred(Some(false));
    // After the last one there is nothing to interrupt.
    assert_eq!((never, times), (0, PROBES.len() as u64 - 1));
    assert_eq!(answers(&resumed), answers(&whole));
    assert_eq!(resumed.written, whole.written);
}

/// Planes behind a slow link and a write buffer, where reads are not enough.
#[test]
fn what_writes_told_of_planes_while_the_device_was_filled_is_known_after_an_interruption() {
    let text = "version = 2\nname = \"test\"\ntitle = \"Test\"\nsource = \"a test\"\nfit = \"typical\"\ncapacity = \
         \"64MiB\"\n[noise]\nsigma = 0.05\n[flash]\npage = \"4KiB\"\npages_per_block = 64\nplanes = \
         2\nover_provisioning = 0.2\nread = \"45us\"\nprogram = \"800us\"\nchannel_bandwidth = \
         \"27MB/s\"\n[controller]\nwrite_command = \"80us\"\nread_command = \"80us\"\nread_bandwidth = \
         \"21MB/s\"\nwrite_bandwidth = \"26MB/s\"\n[controller.write_buffer]\nsize = \"256KiB\"\n";
    let device = || Profile::parse(text, "test.toml").unwrap().device().unwrap();
    let probes = probes_for(&[Parameter::PlanesReadAtOnce]);
    let time = Nanos::from_secs(60);
    let (whole, _) = inferred_of(&mut device(), None, time, probes);
    let (resumed, _) = inferred_of(&mut device(), Some(false), time, probes);
    let planes = whole.get(Parameter::PlanesReadAtOnce).unwrap();
    assert!(planes.evidence.contains("Writes were used as well"), "{planes:?}");
    assert_eq!(answers(&resumed), answers(&whole));
}

#[test]
fn the_time_for_reading_is_for_all_groups_together_in_however_many_parts() {
    let little = Nanos::from_secs(3);
    let (whole, _) = inferred_of(&mut device(), None, little, PROBES);
    assert!(
        whole.findings.iter().any(|finding| finding.evidence.contains("time for this")),
        "{:?}",
        answers(&whole)
    );
    let (resumed, _) = inferred_of(&mut device(), Some(false), little, PROBES);
    assert_eq!(answers(&resumed), answers(&whole));
}

/// A device that counts what it is asked for, and interrupts when it is so much.
struct Counting<'a> {
    inner: SimulatedDevice,
    interrupt: &'a AtomicBool,
    at: Option<u64>,
    count: &'a Cell<u64>,
}

impl flashlab_device::Wrapper for Counting<'_> {
    type Inner = SimulatedDevice;

    fn inner(&self) -> &SimulatedDevice {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut SimulatedDevice {
        &mut self.inner
    }

    fn submit(&mut self, request: Request) {
        self.count.set(self.count.get() + 1);
        self.interrupt.fetch_or(self.at == Some(self.count.get()), Ordering::Relaxed);
        self.inner.submit(request);
    }
}

/// Notes how often a probe begins, what was known before the first time, and how many IOs there were when it ended.
struct Notes<'a> {
    of: &'static str,
    count: &'a Cell<u64>,
    begun: u64,
    before: Option<Known>,
    last: Known,
    ios: u64,
}

impl InferenceProgress for Notes<'_> {
    fn begin(&mut self, probe: &'static Probe, _: usize, _: usize) {
        if probe.name == self.of {
            self.begun += 1;
            self.before.get_or_insert(self.last.clone());
        }
    }

    fn ended(&mut self, probe: &'static Probe, known: &Known, _: &Plan) {
        self.last = known.clone();
        if probe.name == self.of {
            self.ios = self.count.get();
        }
    }
}

#[test]
fn who_is_interrupted_when_a_group_has_told_what_it_hands_in_begins_it_again() {
    let run = |interrupt_at: Option<u64>| {
        let (interrupt, count) = (AtomicBool::new(false), Cell::new(0));
        let mut device = Counting { inner: device(), interrupt: &interrupt, at: interrupt_at, count: &count };
        let settings = InferenceSettings {
            seed: Seed(5),
            write_budget: Some(InferenceSettings::usual_budget(device.geometry().capacity) * 2),
            reading_time: Some(Nanos::from_secs(60)),
            writing_time: Nanos::from_secs(3600),
            interrupt: &interrupt,
        };
        let mut known = nothing_known(&device, "test");
        let last = known.clone();
        let of = "over-provisioning";
        let mut notes = Notes { of, count: &count, begun: 0, before: None, last, ios: 0 };
        if infer(&mut device, &settings, &mut known, &mut notes) == InferenceEnd::Interrupted {
            let before = notes.before.clone().unwrap();
            assert_eq!(
                (&known.findings, &known.checkpoint.provisional),
                (&before.findings, &before.checkpoint.provisional)
            );
            interrupt.store(false, Ordering::Relaxed);
            known = as_a_file_keeps_it(&known);
            assert_eq!(infer(&mut device, &settings, &mut known, &mut notes), InferenceEnd::Done);
        }
        (notes.begun, notes.ios)
    };
    let (once, ios) = run(None);
    let (again, _) = run(Some(ios));
    assert_eq!((once, again), (1, 2));
}

#[test]
fn who_is_interrupted_in_each_group_begins_it_again() {
    let (whole, _) = inferred(None);
    let (resumed, times) = inferred(Some(true));
    assert_eq!(times, PROBES.len() as u64);
    let parameters = |known: &Known| known.findings.iter().map(|one| one.parameter).collect::<Vec<_>>();
    assert_eq!(parameters(&resumed), parameters(&whole));
}

#[test]
fn what_a_replaced_scratch_file_got_is_not_taken_for_space() {
    let capacity = device().geometry().capacity;
    let interrupt = AtomicBool::new(false);
    let settings = InferenceSettings {
        seed: Seed(5),
        // The second file is filled, too.
        write_budget: Some(InferenceSettings::usual_budget(capacity) * 2),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(3600),
        interrupt: &interrupt,
    };
    let mut known = nothing_known(&device(), "test");
    let until_spare = PROBES.iter().position(|probe| probe.name == "over-provisioning").unwrap();
    infer_probes(&mut device(), &settings, &mut known, &mut (), &PROBES[..until_spare]);
    assert!(known.written >= capacity, "{}", known.written);
    forget_writes(&mut known, true);
    assert_eq!(infer(&mut device(), &settings, &mut known, &mut ()), InferenceEnd::Done);
    let physical = 1.2 * capacity.0 as f64;
    let of_second = known.get(Parameter::PhysicalCapacity).unwrap().number().unwrap();
    assert!((of_second / physical - 1.0).abs() < 0.03, "{of_second} for {physical}");
}
