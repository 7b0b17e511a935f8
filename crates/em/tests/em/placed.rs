//! Several devices: what is striped lies on all of them in equal parts, and what has a role lies on its device alone.

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_em::experiment::{
    Algorithm, ExperimentOutcome, RankMethod, RankOptions, ScanOptions, SearchKind, SearchOptions,
    SequencePlacement, SortOptions,
};
use flashlab_em::{EmError, HostTime, IoCounts, Machine, RecordFormat, SortMethod};

use crate::support::device;

const ELEMENTS: u64 = 200_000;

fn two() -> Machine<'static> {
    let devices = ["nvme-consumer", "tlc-sata"].map(|name| device(name, Bytes::gib(1)));
    Machine::new(devices.into(), Bytes::mib(1), HostTime::Declared(Nanos(2))).unwrap()
}

/// The bytes of a direction that the phases of these names moved on each device.
fn bytes(machine: &Machine<'_>, is_counted: impl Fn(&str) -> bool, mode: Mode) -> [u64; 2] {
    let mut all = [0, 0];
    for phase in machine.ledger().phases().iter().filter(|phase| is_counted(&phase.name)) {
        let on = |device: usize| phase.issued_on.get(device).map_or(0, |ios: &IoCounts| ios.bytes_of(mode).0);
        all = [all[0] + on(0), all[1] + on(1)];
    }
    all
}

fn format() -> RecordFormat {
    RecordFormat::new(Bytes(16), 0..8).unwrap()
}

fn sort(placement: SequencePlacement) -> SortOptions {
    let (method, seed) = (SortMethod::Sorting, Seed(1));
    SortOptions { elements: ELEMENTS, format: format(), method, threads: 2, placement, seed }
}

fn is_sorting(name: &str) -> bool {
    name == "form runs" || name.starts_with("merge")
}

#[test]
fn a_striped_sequence_lies_on_all_devices_in_equal_parts() {
    let run =
        |experiment: &dyn Fn(&mut Machine<'_>, SequencePlacement) -> Result<ExperimentOutcome, EmError>| {
            let mut machine = two();
            let placement = SequencePlacement::striped(&machine, Bytes(16));
            let outcome = experiment(&mut machine, placement).unwrap();
            assert_eq!(outcome.planned, outcome.issued, "{}", outcome.algorithm);
            assert!(machine.budget().peak() <= Bytes::mib(1));
            machine
        };
    let machine = run(&|machine, on| {
        ScanOptions { elements: ELEMENTS, format: format(), placement: on, seed: Seed(1) }.run(machine)
    });
    let [first, second] = bytes(&machine, |name| name == "scan", Mode::Read);
    assert!(first.abs_diff(second) <= 64 << 10 && first + second >= 16 * ELEMENTS, "{first} {second}");
    let machine = run(&|machine, on| sort(on).run(machine));
    for mode in [Mode::Read, Mode::Write] {
        let [first, second] = bytes(&machine, is_sorting, mode);
        assert!(first.abs_diff(second) * 20 < first, "{mode}: {first} {second}");
    }
}

#[test]
fn roles_have_their_devices() {
    let mut machine = two();
    sort(SequencePlacement::BY_ROLE).run(&mut machine).unwrap();
    let length = 16 * ELEMENTS;
    // One merge pass: the input is read and the output written on the first device, the runs on the second.
    for mode in [Mode::Read, Mode::Write] {
        let moved = bytes(&machine, is_sorting, mode);
        assert!(moved.iter().all(|&bytes| bytes.abs_diff(length) < 64 << 10), "{mode}: {moved:?}");
    }
    let (form, merge) = (|name: &str| name == "form runs", |name: &str| name.starts_with("merge"));
    assert_eq!(bytes(&machine, form, Mode::Read)[1], 0);
    assert_eq!(bytes(&machine, form, Mode::Write)[0], 0);
    assert_eq!(bytes(&machine, merge, Mode::Read)[0], 0);
    assert_eq!(bytes(&machine, merge, Mode::Write)[1], 0);

    let mut machine = two();
    let options = RankOptions {
        elements: 60_000,
        method: RankMethod::Contraction,
        block: Bytes::kib(4),
        host_cost: Nanos(2),
        placement: SequencePlacement::BY_ROLE,
        seed: Seed(1),
    };
    options.run(&mut machine).unwrap();
    assert_eq!(bytes(&machine, |name| name == "rank", Mode::Write)[0], 0, "sets lie on the second device");

    let mut machine = two();
    let options = SearchOptions {
        elements: ELEMENTS,
        record: Bytes(16),
        kind: SearchKind::Tree,
        queries: 1000,
        in_flight: Some(8),
        block: Some(Bytes::kib(4)),
        placement: SequencePlacement::BY_ROLE,
        seed: Seed(1),
    };
    options.run(&mut machine).unwrap();
    assert_eq!(
        bytes(&machine, |name| name == "build", Mode::Write)[0],
        0,
        "the tree lies on the second device"
    );
    assert!(bytes(&machine, |name| name == "build", Mode::Write)[1] > 0);
}
