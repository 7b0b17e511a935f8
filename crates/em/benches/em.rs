//! How the algorithms compare with their bounds, as ratios: `cargo bench -p flashlab-em`.
//!
//! Simulated devices in virtual time, so that every figure is the same in each run. Sorting files against other programs is
//! `cargo bench -p flashlab --bench em_sort`.

use std::error::Error;

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_device::{Device, StoringDevice};
use flashlab_em::bfs::{SearchMethod, SearchPlacement, SearchTask, sequence_block};
use flashlab_em::experiment::{
    Algorithm, BfsOptions, ExperimentOutcome, ScanOptions, SearchGraph, SearchKind, SearchOptions,
    SequencePlacement, SortOptions,
};
use flashlab_em::graph::LevelTree;
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
            let outcome = sort.run(&mut machine(name, MEMORY)?)?;
            println!(
                "  {name}, {memories} memories of {MEMORY}: {:.3}; {}",
                outcome.bandwidth_bound_ratio(),
                summary(&outcome)
            );
        }
    }
    println!("scan");
    let placement = SequencePlacement::ONE;
    let scan =
        ScanOptions { elements: elements(8, MEMORY), format: format.clone(), placement, seed: Seed(1) };
    for name in ["tlc-sata", "nvme-consumer", "hama", "barracuda"] {
        let outcome = scan.run(&mut machine(name, MEMORY)?)?;
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
            let outcome = search.run(&mut machine(name, MEMORY)?)?;
            let chosen = outcome.choices.iter().map(|(name, value)| format!("{name} {value}"));
            println!("  {name}: {}; {}", chosen.collect::<Vec<_>>().join(", "), summary(&outcome));
        }
    }
    println!("bfs of a level tree");
    for method in [SearchMethod::MehlhornMeyer, SearchMethod::MunagalaRanade] {
        for devices in [
            "tlc-sata",
            "nvme-consumer",
            "barracuda",
            "tlc-sata + tlc-sata",
            "nvme-consumer, nvme-consumer",
            "tlc-sata, barracuda",
            "barracuda, tlc-sata",
        ] {
            println!("  {method:?}, {devices}: {}", bfs(method, devices)?);
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
            let outcome = sort.run(&mut machine("nvme-consumer", memory)?)?;
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

/// A machine on devices of the zoo: one, or two between which + or a comma stands.
fn machine(names: &str, memory: Bytes) -> Result<Machine<'static>, Box<dyn Error>> {
    let no_file = |_: &str| -> Result<String, ProfileError> { unreachable!("the zoo has it") };
    let device = |name: &str| -> Result<Box<dyn Device>, Box<dyn Error>> {
        Ok(Box::new(StoringDevice::new(Profile::named(&name.trim().parse()?, no_file)?.device()?)))
    };
    let devices = names.split(['+', ',']).map(device).collect::<Result<Vec<_>, _>>()?;
    Ok(Machine::new(devices, memory, HostTime::Declared(Nanos(2)))?)
}

/// Searches a level tree of 300,000 nodes: with + striped, with a comma the structure on the first device and the pool on the second.
fn bfs(method: SearchMethod, devices: &str) -> Result<String, Box<dyn Error>> {
    let block = Bytes::kib(4);
    let sequence_block = sequence_block(MEMORY, block);
    let striped = Spread::Striped(sequence_block);
    let placement = match devices.contains('+') {
        true => SearchPlacement { structure: striped, pool: striped },
        false => {
            SearchPlacement { structure: Spread::On(0), pool: Spread::On(usize::from(devices.contains(','))) }
        }
    };
    let (cluster, host_cost, seed) = (None, Nanos(2), Seed(1));
    let task = SearchTask { method, placement, block, sequence_block, cluster, host_cost, seed };
    let tree = LevelTree::new(300_000, 512, seed).ok_or("a tree has legs")?;
    let outcome =
        BfsOptions { graph: SearchGraph::LevelTree(tree), task }.run(&mut machine(devices, MEMORY)?)?;
    let off = outcome.planned.total() as f64 / outcome.issued.total() as f64 - 1.0;
    Ok(format!("{}, IOs of the formula {:+.1} %; {}", outcome.time, off * 100.0, best(&outcome)))
}

/// Whether the IOs are those of the formula, and how far the best model is off.
fn summary(outcome: &ExperimentOutcome) -> String {
    let ios = if outcome.planned == outcome.issued { "IOs as planned" } else { "IOs NOT AS PLANNED" };
    format!("{ios} ({}), {}", outcome.issued.total(), best(outcome))
}

/// The model that predicts best.
fn best(outcome: &ExperimentOutcome) -> String {
    let predictions = outcome.predictions();
    let errors = predictions.iter().map(|one| (one.model.name(), one.error(outcome.time)));
    let (model, error) = errors.min_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).unwrap_or(("none", 0.0));
    format!("best model {model} {:+.1} %", error * 100.0)
}
