//! An inference that is interrupted, and goes on with what is known and the device as it was left.

use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_analysis::inference::{Finding, Inference, Parameter};
use flashlab_base::{Nanos, Seed};
use flashlab_device::Device;
use flashlab_infer::{
    Ended, GROUPS, Group, Progress, Settings, forget_writes, infer, infer_groups, nothing_known,
};
use flashlab_plan::Plan;
use flashlab_sim::{Profile, SimulatedDevice};

/// Two dies behind a write buffer, which several groups in turn have to know of.
fn device() -> SimulatedDevice {
    let text = "version = 1\nname = \"test\"\ntitle = \"Test\"\nsource = \"a test\"\nfit = \"typical\"\ncapacity = \
         \"48MiB\"\n[noise]\nsigma = 0.05\noutlier_share = 0.01\noutlier = \"3ms\"\n[flash]\npage = \
         \"4KiB\"\npages_per_block = 64\ndies = 2\nover_provisioning = 0.2\nread = \"60us\"\nprogram = \
         \"600us\"\n[controller]\nwrite_command = \"8us\"\nread_command = \"8us\"\nwrite_bandwidth = \
         \"1GB/s\"\n[controller.write_buffer]\nsize = \"512KiB\"\n";
    Profile::parse(text, "test.toml").unwrap().device().unwrap()
}

/// Interrupts as each group ends, or as each begins, the first time.
struct Interrupts<'a> {
    interrupt: &'a AtomicBool,
    as_it_begins: bool,
    begun: Vec<&'static str>,
}

impl Progress for Interrupts<'_> {
    fn begin(&mut self, group: &'static Group, _: usize, _: usize) {
        let is_first = !self.begun.contains(&group.name);
        self.begun.push(group.name);
        self.interrupt.fetch_or(self.as_it_begins && is_first, Ordering::Relaxed);
    }

    fn ended(&mut self, _: &'static Group, _: &Inference, _: &Plan) {
        self.interrupt.fetch_or(!self.as_it_begins, Ordering::Relaxed);
    }
}

/// What is known in the end, and how often it was interrupted.
fn inferred(as_it_begins: Option<bool>) -> (Inference, u64) {
    let mut device = device();
    let budget = Settings::usual_budget(device.geometry().capacity);
    let interrupt = AtomicBool::new(false);
    let settings = Settings {
        seed: Seed(5),
        write_budget: Some(budget),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(3600),
        interrupt: &interrupt,
    };
    let mut known = nothing_known(&device, "test");
    let mut interrupts = Interrupts {
        interrupt: &interrupt,
        as_it_begins: as_it_begins.unwrap_or_default(),
        begun: Vec::new(),
    };
    let mut times = 0;
    loop {
        let progress: &mut dyn Progress = if as_it_begins.is_some() { &mut interrupts } else { &mut () };
        match infer(&mut device, &settings, &mut known, progress) {
            Ended::Done => break,
            ended => assert_eq!(ended, Ended::Interrupted),
        }
        times += 1;
        assert!(times <= GROUPS.len() as u64, "it begins again and again");
        interrupt.store(false, Ordering::Relaxed);
        // As a file keeps it.
        known = serde_json::from_str(&serde_json::to_string(&known).unwrap()).unwrap();
    }
    assert!(known.written <= budget, "{}", known.written);
    (known, times)
}

/// What was found, how surely and why. Not what was written for each: a group that answers nothing leaves its count to
/// the one behind it, if that is in the same session.
fn answers(known: &Inference) -> Vec<String> {
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
    assert_eq!((never, times), (0, GROUPS.len() as u64 - 1));
    assert_eq!(answers(&resumed), answers(&whole));
    assert_eq!(resumed.written, whole.written);
}

#[test]
fn who_is_interrupted_in_each_group_begins_it_again() {
    let (whole, _) = inferred(None);
    let (resumed, times) = inferred(Some(true));
    assert_eq!(times, GROUPS.len() as u64);
    let parameters = |known: &Inference| known.findings.iter().map(|one| one.parameter).collect::<Vec<_>>();
    assert_eq!(parameters(&resumed), parameters(&whole));
}

#[test]
fn what_a_replaced_scratch_file_got_is_not_taken_for_space() {
    let capacity = device().geometry().capacity;
    let interrupt = AtomicBool::new(false);
    let settings = Settings {
        seed: Seed(5),
        // The second file is filled, too.
        write_budget: Some(Settings::usual_budget(capacity) * 2),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(3600),
        interrupt: &interrupt,
    };
    let mut known = nothing_known(&device(), "test");
    let until_spare = GROUPS.iter().position(|group| group.name == "spare-space").unwrap();
    infer_groups(&mut device(), &settings, &mut known, &mut (), &GROUPS[..until_spare]);
    assert!(known.written >= capacity, "{}", known.written);
    forget_writes(&mut known, true);
    assert_eq!(infer(&mut device(), &settings, &mut known, &mut ()), Ended::Done);
    let physical = 1.2 * capacity.0 as f64;
    let of_second = known.get(Parameter::PhysicalCapacity).unwrap().number().unwrap();
    assert!((of_second / physical - 1.0).abs() < 0.03, "{of_second} for {physical}");
}
