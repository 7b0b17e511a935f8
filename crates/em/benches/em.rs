//! How the algorithms compare with their bounds, as ratios: `cargo bench -p flashlab-em`.
//!
//! Simulated devices in virtual time, so that every figure is the same in each run. Sorting files against other programs is
//! `cargo bench -p flashlab --bench em_sort`.

use std::error::Error;

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_device::StoringDevice;
use flashlab_em::experiment::{
    ExperimentOutcome, SearchKind, SearchOptions, SequencePlacement, SortOptions, run_scan, run_search,
    run_sort,
};
use flashlab_em::{HostTime, Machine, RecordFormat, SortMethod, Spread};
use flashlab_sim::{Profile, ProfileError};

const MEMORY: Bytes = Bytes::mib(16);

fn main() -> Result<(), Box<dyn Error>> {
    let format = RecordFormat::new(Bytes(16), 0..8)?;
    let elements = |memories: u64, memory: Bytes| memory.0 * memories / 16;
    println!("sort of 16-byte records: time of two reads and two writes in order / time taken");
    // The simulated ioDrive has 2.5 GB, too few for an input of 64 memories with its runs.
    let devices = [
        ("tlc-sata", [8, 64]),
        ("nvme-consumer", [8, 64]),
        ("nvme-enterprise", [8, 64]),
        ("iodrive", [8, 32]),
        ("barracuda", [8, 64]),
    ];
    for (name, inputs) in devices {
        for memories in inputs {
            let sort = SortOptions {
                elements: elements(memories, MEMORY),
                format: format.clone(),
                method: SortMethod::Sorting,
                threads: 2,
                placement: SequencePlacement::ONE,
                seed: Seed(1),
            };
            let outcome = run_sort(&mut machine(name, MEMORY)?, &sort)?;
            println!(
                "  {name}, {memories} memories of {MEMORY}: {:.3}; {}",
                outcome.bandwidth_bound_ratio(),
                summary(&outcome)
            );
        }
    }
    println!("scan");
    for name in ["tlc-sata", "nvme-consumer", "hama", "barracuda"] {
        let outcome =
            run_scan(&mut machine(name, MEMORY)?, elements(8, MEMORY), &format, Spread::On(0), Seed(1))?;
        println!("  {name}: {:.3}; {}", outcome.bandwidth_bound_ratio(), summary(&outcome));
    }
    println!("search");
    for name in ["nvme-enterprise", "nvme-consumer", "tlc-sata"] {
        for kind in [SearchKind::Binary, SearchKind::Cached, SearchKind::Tree] {
            let search = SearchOptions {
                elements: elements(16, MEMORY),
                record: Bytes(16),
                kind,
                queries: 30_000,
                in_flight: None,
                block: None,
                placement: SequencePlacement::ONE,
                seed: Seed(1),
            };
            let outcome = run_search(&mut machine(name, MEMORY)?, &search)?;
            let chosen = outcome.choices.iter().map(|(name, value)| format!("{name} {value}"));
            println!("  {name}: {}; {}", chosen.collect::<Vec<_>>().join(", "), summary(&outcome));
        }
    }
    println!("sort where a write costs 5 reads: x + 5 y of the plain sort, and of the one that saves writes");
    for (memory, memories) in [(MEMORY, 2), (MEMORY, 3), (MEMORY, 4), (MEMORY, 8), (Bytes::mib(1), 170)] {
        let mut costs = Vec::new();
        for method in [SortMethod::Sorting, SortMethod::WriteSaving { write_cost: 5.0 }] {
            let sort = SortOptions {
                elements: elements(memories, memory),
                format: format.clone(),
                method,
                threads: 2,
                placement: SequencePlacement::ONE,
                seed: Seed(1),
            };
            let outcome = run_sort(&mut machine("nvme-consumer", memory)?, &sort)?;
            let length = (memory.0 * memories) as f64;
            let bytes = |mode| outcome.issued.bytes_of(mode).0 as f64 / length;
            costs.push(bytes(Mode::Read) + 5.0 * bytes(Mode::Write));
        }
        println!(
            "  {memories} memories of {memory}: {:.2} and {:.2}, ratio {:.3}",
            costs[0],
            costs[1],
            costs[1] / costs[0]
        );
    }
    Ok(())
}

/// A machine on a device of the zoo.
fn machine(name: &str, memory: Bytes) -> Result<Machine<'static>, Box<dyn Error>> {
    let no_file = |_: &str| -> Result<String, ProfileError> { unreachable!("the zoo has it") };
    let device = StoringDevice::new(Profile::named(&name.parse()?, no_file)?.device()?);
    Ok(Machine::new(vec![Box::new(device)], memory, HostTime::Declared(Nanos(2)))?)
}

/// Whether the IOs are those of the formula, and how far the best model is off.
fn summary(outcome: &ExperimentOutcome) -> String {
    let ios = if outcome.planned == outcome.issued { "IOs as planned" } else { "IOs NOT AS PLANNED" };
    let predictions = outcome.predictions();
    let errors = predictions.iter().map(|one| (one.model.name(), one.error(outcome.time)));
    let (model, error) = errors.min_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).unwrap_or(("none", 0.0));
    format!("{ios} ({}), best model {model} {:+.1} %", outcome.issued.total(), error * 100.0)
}
