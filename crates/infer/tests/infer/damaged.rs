//! Documents that hold what no device has: whatever is not refused is used, and nothing panics.

use std::sync::atomic::AtomicBool;

use flashlab_analysis::inference::{Finding, Parameter, TimedIo, Unit};
use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::Device;
use flashlab_infer::{
    Fill, InferenceEnd, InferenceSettings, Known, PROBES, ReclaimUnit, infer, nothing_known,
};
use flashlab_sim::{Profile, SimulatedDevice};

const CAPACITY: Bytes = Bytes::mib(24);

fn device() -> SimulatedDevice {
    let text = "version = 2\nname = \"test\"\ntitle = \"Test\"\nsource = \"a test\"\nfit = \"typical\"\ncapacity = \
         \"24MiB\"\n[noise]\nsigma = 0.05\n[flash]\npage = \"4KiB\"\npages_per_block = 64\ndies = \
         2\nover_provisioning = 0.2\nread = \"60us\"\nprogram = \"600us\"\n[controller]\nwrite_command = \
         \"8us\"\nread_command = \"8us\"\nwrite_bandwidth = \"1GB/s\"\n";
    Profile::parse(text, "test.toml").unwrap().device().unwrap()
}

/// Goes on with what is known to the end; nothing where it is refused.
fn resumed(mut known: Known) {
    if known.check().is_err() {
        return;
    }
    let mut device = device();
    let settings = InferenceSettings {
        seed: Seed(5),
        write_budget: Some(InferenceSettings::usual_budget(device.geometry().capacity)),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(3600),
        interrupt: &AtomicBool::new(false),
    };
    assert_eq!(infer(&mut device, &settings, &mut known, &mut ()), InferenceEnd::Done);
}

/// All that was found, known to be filled.
fn whole() -> Known {
    let mut known = nothing_known(&device(), "test");
    let settings = InferenceSettings {
        seed: Seed(5),
        write_budget: Some(InferenceSettings::usual_budget(CAPACITY)),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(3600),
        interrupt: &AtomicBool::new(false),
    };
    assert_eq!(infer(&mut device(), &settings, &mut known, &mut ()), InferenceEnd::Done);
    known
}

/// What the first probes found of it.
fn until(whole: &Known, probes: usize) -> Known {
    let mut known = whole.clone();
    let is_of_them = |parameter| PROBES[..probes].iter().any(|probe| probe.parameters.contains(&parameter));
    known.findings.retain(|finding| is_of_them(finding.parameter));
    known.written = CAPACITY;
    known.checkpoint.fill.whole_at = Some(CAPACITY);
    known
}

const ABSURD: [f64; 9] =
    [0.0, 1.0, 3.0, 511.0, 65536.0, (1 << 20) as f64, CAPACITY.0 as f64, (2 * CAPACITY.0) as f64, 2e15];

fn numbers() -> impl Iterator<Item = Parameter> {
    Parameter::ALL.iter().copied().filter(|parameter| parameter.unit() != Unit::None)
}

fn with(mut known: Known, parameter: Parameter, value: f64) -> Known {
    known.findings.retain(|finding| finding.parameter != parameter);
    known.findings.push(Finding::found(parameter, value, 0.95, "absurd"));
    known
}

#[test]
fn no_number_that_passes_makes_a_group_panic() {
    let whole = whole();
    for parameter in numbers() {
        let probe = PROBES.iter().position(|probe| probe.parameters.contains(&parameter)).unwrap();
        for value in ABSURD {
            eprintln!("{parameter} = {value}");
            resumed(with(until(&whole, probe + 1), parameter, value));
        }
    }
}

#[test]
fn absurd_numbers_together_make_no_group_panic() {
    let whole = whole();
    for value in ABSURD {
        for probes in [2, 5, 9, 13] {
            let known = until(&whole, probes);
            let parameters = known.findings.iter().filter(|finding| finding.number().is_some());
            let parameters: Vec<Parameter> = parameters.map(|finding| finding.parameter).collect();
            resumed(parameters.into_iter().fold(known, |known, parameter| {
                let changed = with(known.clone(), parameter, value);
                if changed.check().is_ok() { changed } else { known }
            }));
        }
    }
}

#[test]
fn no_fill_that_passes_makes_a_group_panic() {
    let whole = whole();
    let largest = Bytes((1 << 53) - 1);
    let sizes = [Bytes(0), Bytes(1), Bytes(511), Bytes::kib(68), CAPACITY, largest];
    for size in sizes {
        let unit = ReclaimUnit { size, onset: Some(size), predictions: 9, correct: 9, logs: Some(1 << 20) };
        let good = until(&whole, 7).checkpoint.fill;
        let fills = [
            Fill { until: size, whole_at: None, ..good },
            Fill { until: size, was_begun: true, ..Fill::default() },
            Fill { begun_at: size, whole_at: Some(size), ..good },
            Fill { in_place: size, ..good },
            Fill { unit: Some(unit), ..good },
            Fill { nanos_per_byte: (size.0 as f64).min(1e9), ..good },
        ];
        for fill in fills {
            for probes in [1, 2, 8] {
                let mut known = until(&whole, probes);
                known.checkpoint.fill = fill;
                resumed(known);
            }
        }
        let write = |index: u64| TimedIo::new(0.0, size.0 as f64, index, size.0.max(1));
        let row_writes = vec![(0..20).map(write).collect(), Vec::new(), vec![write(4096); 13]];
        let changed = |change: &dyn Fn(&mut Known)| {
            let mut known = until(&whole, 3);
            change(&mut known);
            resumed(known);
        };
        changed(&|known| known.checkpoint.row_writes.clone_from(&row_writes));
        changed(&|known| known.written = size);
        changed(&|known| known.checkpoint.reading_used = Nanos(size.0));
    }
}
