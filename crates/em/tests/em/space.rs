//! A sort runs on exactly the space that its formula asks for, whatever its input, its memory and its records: `em run sort` once ended
//! with "no free extent" where the data was large against the memory.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::MemoryDevice;
use flashlab_em::experiment::{Algorithm, SequencePlacement, SortOptions};
use flashlab_em::{EmError, HostTime, Machine, RecordFormat, SortMethod};

const METHODS: [SortMethod; 3] =
    [SortMethod::Sorting, SortMethod::Replacement, SortMethod::WriteSaving { write_cost: 5.0 }];

fn options(elements: u64, record: u64, method: SortMethod, seed: Seed) -> SortOptions {
    let format = RecordFormat::new(Bytes(record), 0..record.min(8) as usize).unwrap();
    SortOptions { elements, format, method, threads: 2, placement: SequencePlacement::ONE, seed }
}

fn run(options: &SortOptions, memory: Bytes, space: Bytes, response: Nanos) -> Result<u32, EmError> {
    let device = MemoryDevice::new(space, response);
    let mut machine = Machine::new(vec![Box::new(device)], memory, HostTime::Declared(Nanos(2)))?;
    let outcome = options.run(&mut machine)?;
    let passes = outcome.choices.iter().find(|choice| choice.0 == "merge passes").expect("it is printed");
    Ok(passes.1.parse().unwrap())
}

#[test]
fn a_sort_runs_on_the_space_of_its_formula() {
    let seed = Seed(50);
    let mut random = Prng::new(seed);
    let mut passes_seen = [0; 5];
    let known = [
        (1 << 19, 16, 128),
        (1 << 18, 16, 64),
        (200_000, 24, 192),
        (16_000, 1000, 1024),
        (3_000, 4096, 512),
        (100, 65_535, 2048),
        (3_000, 4099, 256),
    ];
    let random = (0..8).map(|_| {
        let record = [8, 12, 16, 24, 32, 100, 1000, 4096][random.below(8) as usize];
        let memory = 1024 << random.below(3);
        (1 + random.below(memory * 1024 * 12 / record), record, memory)
    });
    let cases: Vec<(u64, u64, u64)> = known.into_iter().chain(random).collect();
    for (index, (elements, record, memory)) in cases.into_iter().enumerate() {
        let (method, memory) = (METHODS[index % 3], Bytes::kib(memory));
        let what = format!("{elements} records of {record} B in {memory}, {method:?}, {seed}");
        let options = options(elements, record, method, seed);
        let space = match options.space(memory) {
            Ok(space) => space,
            Err(EmError::Memory { .. }) => continue,
            Err(error) => panic!("{what}: {error}"),
        };
        // The second response time makes small blocks as fast as large ones, so that other plans are chosen.
        for response in [Nanos(1), Nanos(20_000)] {
            let passes =
                run(&options, memory, space, response).unwrap_or_else(|error| panic!("{what}: {error}"));
            passes_seen[passes.min(4) as usize] += 1;
        }
    }
    assert!(
        passes_seen[1] > 3 && passes_seen[2] > 0 && passes_seen[3] + passes_seen[4] > 0,
        "{passes_seen:?}"
    );
}

/// A smaller device has other plans, or is refused before anything is sorted.
#[test]
fn a_sort_on_less_space_takes_a_plan_that_fits_or_is_refused() {
    let options = options(1 << 18, 16, SortMethod::Sorting, Seed(3));
    let (memory, length) = (Bytes::kib(128), Bytes::mib(4));
    let run = |copies: f64| {
        let space = Bytes((copies * length.0 as f64) as u64).round_up(Bytes::kib(4));
        run(&options, memory, space + Bytes::kib(512), Nanos(20_000))
    };
    assert!(run(5.0).is_ok());
    let tight = run(4.0).unwrap();
    assert!(tight <= 2, "{tight} passes");
    match run(2.2) {
        Err(EmError::RunsSpace { needed, left }) => assert!(needed > left, "{needed} {left}"),
        other => panic!("{other:?}"),
    }
}
