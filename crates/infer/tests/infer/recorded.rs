//! An inference is recorded step by step, and replayed from what was recorded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use flashlab_base::{Nanos, Sample, Seed};
use flashlab_device::Device;
use flashlab_infer::{
    InferenceEnd, InferenceProgress, InferenceSettings, Known, Limits, Probe, RecordedDevice,
    RecordedProbeRun, RecordedStep, RecordedSteps, infer, nothing_known, replay_probes,
};
use flashlab_plan::{Pattern, Plan};
use flashlab_samples::ProbeStep;
use flashlab_sim::{Profile, SimulatedDevice};

fn device() -> SimulatedDevice {
    let text = "version = 2\nname = \"test\"\ntitle = \"Test\"\nsource = \"a test\"\nfit = \"typical\"\ncapacity = \
         \"16MiB\"\n[noise]\nsigma = 0.1\noutlier_share = 0.01\noutlier = \"3ms\"\n[flash]\npage = \
         \"4KiB\"\npages_per_block = 64\ndies = 2\nover_provisioning = 0.2\nread = \"60us\"\nprogram = \
         \"600us\"\n[controller]\nwrite_command = \"8us\"\nread_command = \"8us\"\n";
    Profile::parse(text, "test.toml").unwrap().device().unwrap()
}

/// Keeps everything in memory.
#[derive(Clone, Default)]
struct Memory {
    steps: BTreeMap<String, Vec<RecordedStep>>,
    current: Vec<(ProbeStep, Vec<Sample>)>,
    /// Set at this step of each probe that writes, the first time.
    interrupt: Option<(Arc<AtomicBool>, usize)>,
    may_end: bool,
    abandoned: Vec<&'static str>,
}

impl InferenceProgress for Memory {
    fn step(&mut self, step: ProbeStep, samples: &[Vec<Sample>]) {
        self.current.push((step, samples.concat()));
        if let Some((interrupt, at)) = &self.interrupt {
            interrupt.fetch_or(self.may_end && self.current.len() == *at, Ordering::Relaxed);
        }
    }

    fn begin(&mut self, probe: &'static Probe, _: usize, _: usize) {
        self.may_end = probe.writes() && !self.abandoned.contains(&probe.name);
    }

    fn abandoned(&mut self, probe: &'static Probe, _: &Known, _: &Plan) {
        self.current.clear();
        self.abandoned.push(probe.name);
    }

    fn ended(&mut self, probe: &'static Probe, _: &Known, probes: &Plan) {
        let pattern = |name: &str| -> Pattern {
            probes.experiments.iter().find(|kept| kept.name == name).unwrap().pattern.clone()
        };
        let steps = std::mem::take(&mut self.current).into_iter().map(|(step, samples)| match step {
            ProbeStep::Run(run) => {
                RecordedStep::Run(RecordedProbeRun { pattern: pattern(&run.experiment), run, samples })
            }
            other => RecordedStep::Other(other),
        });
        let is_of_probe = |step: &RecordedStep| {
            !matches!(step, RecordedStep::Other(ProbeStep::Device { .. } | ProbeStep::End { .. }))
        };
        self.steps.insert(probe.name.to_owned(), steps.filter(is_of_probe).collect());
    }
}

impl RecordedSteps for Memory {
    fn steps(&mut self, probe: &str) -> Result<Option<Vec<RecordedStep>>, String> {
        Ok(self.steps.get(probe).cloned())
    }
}

fn settings(seed: u64, interrupt: &AtomicBool, capacity: flashlab_base::Bytes) -> InferenceSettings<'_> {
    InferenceSettings {
        seed: Seed(seed),
        write_budget: Some(InferenceSettings::usual_budget(capacity)),
        reading_time: None,
        writing_time: Nanos::from_secs(3600),
        interrupt,
    }
}

/// What was recorded, and what was found: once for all tests.
fn recorded() -> (Memory, Known, Limits) {
    static RECORDED: OnceLock<(Memory, Known, Limits)> = OnceLock::new();
    RECORDED.get_or_init(record).clone()
}

fn record() -> (Memory, Known, Limits) {
    let (mut device, interrupt) = (device(), AtomicBool::new(false));
    let geometry = device.geometry();
    let limits = Limits { capacity: geometry.capacity, block: geometry.block, depth: geometry.depth };
    let (mut memory, mut known) = (Memory::default(), nothing_known(&device, "test"));
    let settings = settings(5, &interrupt, limits.capacity);
    assert_eq!(infer(&mut device, &settings, &mut known, &mut memory), InferenceEnd::Done);
    (memory, known, limits)
}

fn replayed(memory: &mut Memory, limits: Limits, seed: u64) -> (InferenceEnd, Known) {
    let interrupt = AtomicBool::new(false);
    let mut known = nothing_known(&device(), "test");
    let settings = settings(seed, &interrupt, limits.capacity);
    let mut recorded = RecordedDevice::new(limits, memory);
    let ended = replay_probes(&mut recorded, &settings, &mut known, &mut (), flashlab_infer::PROBES);
    (ended, known)
}

#[test]
fn the_same_estimators_find_the_same_byte_for_byte() {
    let (mut memory, found, limits) = recorded();
    let (ended, known) = replayed(&mut memory, limits, 5);
    assert_eq!(ended, InferenceEnd::Done);
    assert_eq!(
        serde_json::to_string(&known.document).unwrap(),
        serde_json::to_string(&found.document).unwrap()
    );
}

#[test]
fn an_inference_that_was_interrupted_is_replayed_with_what_its_attempts_wrote() {
    for at in [2, 6, 20] {
        let (mut device, interrupt) = (device(), Arc::new(AtomicBool::new(false)));
        let geometry = device.geometry();
        let limits = Limits { capacity: geometry.capacity, block: geometry.block, depth: geometry.depth };
        let (mut memory, mut known) = (Memory::default(), nothing_known(&device, "test"));
        loop {
            interrupt.store(false, Ordering::Relaxed);
            memory.interrupt = Some((interrupt.clone(), at));
            match infer(&mut device, &settings(5, &interrupt, limits.capacity), &mut known, &mut memory) {
                InferenceEnd::Done => break,
                ended => assert_eq!(ended, InferenceEnd::Interrupted),
            }
        }
        assert!(memory.abandoned.len() > 3, "{:?}", memory.abandoned);
        let (ended, replayed) = replayed(&mut memory, limits, 5);
        assert_eq!(ended, InferenceEnd::Done, "interrupted at step {at} of {:?}", memory.abandoned);
        let [replayed, known] =
            [replayed, known].map(|known| serde_json::to_value(known.document.findings).unwrap());
        assert_eq!(replayed, known, "interrupted at step {at}");
    }
}

#[test]
fn who_asks_for_an_io_that_was_never_done_is_named() {
    let (mut memory, _, limits) = recorded();
    // Another seed draws other random offsets.
    let (ended, _) = replayed(&mut memory, limits, 6);
    let InferenceEnd::Diverged(reason) = ended else { panic!("{ended:?}") };
    assert!(reason.starts_with("probe fill asks for the pattern reads with seed "), "{reason}");
    assert!(reason.contains("and the recording goes on with "), "{reason}");
}

#[test]
fn a_probe_that_was_never_recorded_is_named() {
    let (mut memory, found, limits) = recorded();
    memory.steps.remove("large-reads");
    let (ended, known) = replayed(&mut memory, limits, 5);
    assert_eq!(ended, InferenceEnd::Diverged("probe large-reads is not in the recording".to_owned()));
    // What the probes before it found stays.
    assert!(
        known.findings.len() > 5
            && known.findings.iter().zip(&found.findings).all(|(one, other)| one == other)
    );
}

#[test]
fn a_recorded_answer_that_was_changed_changes_what_is_found() {
    let (mut memory, found, limits) = recorded();
    for step in memory.steps.values_mut().flatten() {
        if let RecordedStep::Run(run) = step {
            for sample in &mut run.samples {
                sample.completed = sample.completed + (sample.completed.since(sample.intended));
            }
        }
    }
    let (_, known) = replayed(&mut memory, limits, 5);
    assert_ne!(known.findings, found.findings, "the findings do not come from the samples");
}
