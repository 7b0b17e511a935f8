//! The heap of the process, counted by its allocator: a sort takes the memory that it was given, and no more.
//!
//! A test binary of its own, because the allocator counts for all tests of a process.

use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::MemoryDevice;
use flashlab_em::{
    ExtentAllocator, HostTime, Machine, RecordFormat, RecordGenerator, SequenceWriter, SortMethod, SortTask,
    Spread, TemporarySpace, Tuning, sort, work_on_this_thread,
};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// What the budget does not cover, because it depends neither on the input nor on the memory: names, and the threads' queues.
const FIXED: usize = 8 << 10;

/// The most threads of a case.
const THREADS: usize = 8;

#[test]
fn a_sort_takes_the_memory_that_it_was_given_and_no_more() {
    work_on_this_thread(THREADS);
    // The threads are there already.
    rayon::join(|| 1, || 2);
    for method in [SortMethod::Sorting, SortMethod::Replacement, SortMethod::WriteSaving { write_cost: 5.0 }]
    {
        taken(method, 2, Bytes::mib(4), 16, None);
    }
    // The smallest blocks: some hundreds of sources, whose tables would be missed.
    for threads in [1, 2, THREADS] {
        taken(SortMethod::Sorting, threads, Bytes::mib(1), 16, Some(Bytes::kib(4)));
    }
    // Records that cross blocks.
    for record in [1000, 4099, 20_000] {
        taken(SortMethod::Sorting, 2, Bytes::mib(1), record, None);
    }
}

/// Sorts, in blocks that divide a stripe unit if one is given.
fn taken(method: SortMethod, threads: usize, memory: Bytes, record: u64, stripe: Option<Bytes>) {
    let device = MemoryDevice::new(Bytes::mib(128), Nanos(1000));
    let mut machine = Machine::new(vec![Box::new(device)], memory, HostTime::Declared(Nanos(2))).unwrap();
    let mut free = ExtentAllocator::new(&machine);
    let length = Bytes::mib(24).round_down(Bytes(record));
    let input = free.allocate(length, Spread::On(0)).unwrap();
    let output = free.allocate(length, Spread::On(0)).unwrap();
    let mut writer = SequenceWriter::new(&machine, input.clone(), Bytes(0), Bytes::kib(64), 1).unwrap();
    let (mut generator, mut data) = (RecordGenerator::new(Seed(1)), vec![0; record as usize]);
    for _ in 0..length.0 / record {
        generator.fill(&mut data);
        writer.write(&mut machine, &data).unwrap();
    }
    writer.finish(&mut machine).unwrap();
    let format = RecordFormat::new(Bytes(record), 0..8).unwrap();
    let tuning = Tuning { read_window: Bytes::kib(256), write_window: Bytes::kib(256), is_noisy: false };
    let unit = machine.unit();
    let temporary = Bytes(u64::MAX);
    let task = SortTask { format, length, method, threads, unit, memory, tuning, stripe, temporary };
    let plan = task.plan(None).unwrap();
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let mut temporary = TemporarySpace { free: &mut free, spread: Spread::On(0) };
    sort(&mut machine, &task, &plan, &input, &output, &mut temporary).unwrap();
    let taken = HEAP.peak_usage() - before;
    let case = format!("{method:?}, {threads} threads, records of {record} B, blocks of {}", plan.block);
    assert!(taken <= memory.0 as usize + FIXED, "{case}: {taken} bytes of {memory}");
    let leased = machine.budget().peak();
    assert!(leased <= memory && leased.0 * 10 > memory.0 * 8, "{case}: {leased} of {memory}");
}
