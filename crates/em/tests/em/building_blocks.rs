//! Sequences come back as they were written, the budget holds, the ledger counts each IO, and computation overlaps IOs.

use std::sync::atomic::AtomicBool;

use flashlab_base::{Bytes, Mode, Nanos, Prng, Seed};
use flashlab_device::{FaultyDevice, InjectedFault, IoError, MemoryDevice, NoDevice};
use flashlab_em::{
    EmError, ExtentAllocator, HostTime, IoObserver, IoRecord, Machine, Region, SequenceReader,
    SequenceWriter, Spread, Tuning,
};

use crate::support::{device, machine};

fn write(machine: &mut Machine<'_>, region: &Region, block: Bytes, data: &[u8]) -> Result<Bytes, EmError> {
    let mut writer = SequenceWriter::new(machine, region.clone(), Bytes(0), block, 3)?;
    for part in data.chunks(777) {
        writer.write(machine, part)?;
    }
    writer.finish(machine)
}

fn read(machine: &mut Machine<'_>, region: &Region, block: Bytes, length: usize) -> Result<Vec<u8>, EmError> {
    let range = (Bytes(0), Bytes(length as u64));
    let mut reader = SequenceReader::new(machine, region.clone(), range, block, 5)?;
    let mut data = Vec::new();
    while let Some(block) = reader.next_block(machine)? {
        data.extend_from_slice(block);
    }
    Ok(data)
}

/// `FLASHLAB_SEED=N cargo test -p flashlab-em sequences` replays a case.
#[test]
fn sequences_come_back_as_they_were_written_on_any_number_of_devices() {
    for seed in 0..6 {
        let mut prng = Prng::new(Seed(seed));
        let count = 1 + prng.below(3) as usize;
        let names = ["nvme-consumer", "barracuda", "zeus"];
        let devices = (0..count).map(|index| device(names[index], Bytes::gib(1))).collect();
        let mut machine = Machine::new(devices, Bytes::mib(1), HostTime::Declared(Nanos(2))).unwrap();
        let mut free = ExtentAllocator::new(&machine);
        let block = Bytes::kib(4 << prng.below(3));
        let length = 1 + prng.below(700_000) as usize;
        let mut data = vec![0; length];
        prng.fill(&mut data);
        let spread = if prng.below(2) == 0 { Spread::Striped(block) } else { Spread::On(count - 1) };
        let region = free.allocate(Bytes(length as u64), spread).unwrap();
        machine.begin_phase("write");
        assert_eq!(write(&mut machine, &region, block, &data), Ok(Bytes(length as u64)));
        machine.begin_phase("read");
        assert!(read(&mut machine, &region, block, length).unwrap() == data, "seed {seed}");
        let unit = machine.unit();
        for (phase, mode) in machine.ledger_mut().phases().to_vec().iter().zip([Mode::Write, Mode::Read]) {
            let mut expected = flashlab_em::IoCounts::default();
            expected.add_blocks(mode, Bytes(length as u64), block, unit);
            assert_eq!(phase.issued, expected, "seed {seed}");
        }
        assert_eq!(machine.budget().left(), Bytes::mib(1));
        free.release(&region);
        (0..count).for_each(|device| assert_eq!(free.free_on(device), Bytes::gib(1)));
    }
}

#[test]
fn more_requests_than_the_queue_depth_wait_outside_and_enter_when_a_slot_is_free() {
    // The queue depth of hama is 1: eight reads of the same time each take eight of these times, although the host
    // computes meanwhile.
    let mut machine = machine("hama", Bytes::gib(1), Bytes::mib(1));
    let region = ExtentAllocator::new(&machine).allocate(Bytes::mib(1), Spread::On(0)).unwrap();
    write(&mut machine, &region, Bytes::kib(64), &vec![7; 1 << 20]).unwrap();
    let begin = machine.now();
    read(&mut machine, &region, Bytes::kib(64), 1 << 20).unwrap();
    let alone = machine.now().since(begin);
    let begin = machine.now();
    let range = (Bytes(0), Bytes::mib(1));
    let mut reader = SequenceReader::new(&machine, region.clone(), range, Bytes::kib(64), 8).unwrap();
    reader.prefetch(&mut machine);
    machine.compute(alone.0 / 2);
    while reader.next_block(&mut machine).unwrap().is_some() {}
    let overlapped = machine.now().since(begin).0 as f64 / alone.0 as f64;
    // While the host computed for the time of all reads, the device did the nine that were requested; seven are left.
    assert!((1.3..1.5).contains(&overlapped), "{overlapped}");
    assert_eq!(machine.host_time(), Nanos(alone.0 / 2 * 2));
}

#[test]
fn the_window_follows_from_the_device() {
    let window = |name| {
        let mut machine = machine(name, Bytes::gib(1), Bytes::mib(64));
        let region = ExtentAllocator::new(&machine).allocate(Bytes::mib(64), Spread::On(0)).unwrap();
        write(&mut machine, &region, Bytes::kib(256), &vec![7; 64 << 20]).unwrap();
        Tuning::measure(&mut machine, &region, None).unwrap().read_window
    };
    // A device with one command at a time needs one IO; an enterprise drive has many dies to keep busy.
    assert_eq!(window("hama"), Bytes::kib(128));
    assert!(window("nvme-enterprise") >= Bytes::kib(512), "{}", window("nvme-enterprise"));
}

#[test]
fn a_failed_io_an_interrupt_and_unfit_devices_are_errors() {
    let memory = || MemoryDevice::new(Bytes::mib(2), Nanos(100));
    let faulty = FaultyDevice::new(memory(), InjectedFault::Nth(5, IoError::IO));
    let mut machine =
        Machine::new(vec![Box::new(faulty)], Bytes::mib(1), HostTime::Declared(Nanos(1))).unwrap();
    let region = ExtentAllocator::new(&machine).allocate(Bytes::mib(1), Spread::On(0)).unwrap();
    let error = write(&mut machine, &region, Bytes::kib(64), &vec![7; 1 << 20]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory: a write of 64 KiB at 320 KiB failed: Input/output error (os error 5)"
    );

    let flag = AtomicBool::new(true);
    let machine =
        Machine::new(vec![Box::new(memory())], Bytes::mib(1), HostTime::Declared(Nanos(1))).unwrap();
    let mut machine = machine.with_interrupt(&flag);
    let error = write(&mut machine, &region, Bytes::kib(64), &vec![7; 1 << 20]).unwrap_err();
    assert_eq!(error, EmError::Interrupted);

    let error = Machine::new(
        vec![Box::new(NoDevice::new(Bytes::mib(1)))],
        Bytes::mib(1),
        HostTime::Declared(Nanos(1)),
    );
    assert!(matches!(error.err(), Some(EmError::UnfitDevice { .. })));
    let free = ExtentAllocator::new(&machine).allocate(Bytes::mib(3), Spread::On(0)).unwrap_err();
    assert_eq!(
        free.to_string(),
        "memory has no free extent of 3 MiB: the largest is 2 MiB; take fewer elements or a larger device"
    );
}

#[test]
fn an_observer_sees_every_io_in_its_phase() {
    #[derive(Default)]
    struct Seen(Vec<String>, u64);
    impl IoObserver for Seen {
        fn phase(&mut self, name: &str) {
            self.0.push(name.to_owned());
        }
        fn io(&mut self, record: &IoRecord) {
            assert!(record.submitted <= record.completed && record.result.is_ok());
            self.1 += 1;
        }
    }
    let mut seen = Seen::default();
    let memory = MemoryDevice::new(Bytes::mib(2), Nanos(100));
    let machine = Machine::new(vec![Box::new(memory)], Bytes::mib(1), HostTime::Declared(Nanos(1))).unwrap();
    let mut machine = machine.with_observer(&mut seen);
    let region = ExtentAllocator::new(&machine).allocate(Bytes::mib(1), Spread::On(0)).unwrap();
    machine.begin_phase("write");
    write(&mut machine, &region, Bytes::kib(64), &vec![7; 1 << 20]).unwrap();
    machine.begin_phase("read");
    read(&mut machine, &region, Bytes::kib(32), 1 << 20).unwrap();
    drop(machine);
    assert_eq!((seen.0, seen.1), (vec!["write".to_owned(), "read".to_owned()], 16 + 32));
}
