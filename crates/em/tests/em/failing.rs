//! A device fails an IO: in whichever phase that happens, each algorithm ends with an error that names the IO.

use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::{Device, FaultyDevice, InjectedFault, IoError, MemoryDevice};
use flashlab_em::bfs::{SearchMethod, SearchPlacement, SearchTask};
use flashlab_em::experiment::{
    Algorithm, BfsOptions, ExperimentOutcome, RankMethod, RankOptions, ScanOptions, SearchGraph, SearchKind,
    SearchOptions, SequencePlacement, SortOptions,
};
use flashlab_em::graph::random_graph;
use flashlab_em::{EmError, HostTime, Machine, RecordFormat, SortMethod, Spread};

type Experiment<'e> = &'e dyn Fn(&mut Machine<'_>) -> Result<ExperimentOutcome, EmError>;

fn machine(device: impl Device + 'static) -> Machine<'static> {
    Machine::new(vec![Box::new(device)], Bytes::kib(512), HostTime::Declared(Nanos(2))).unwrap()
}

fn on(memory: &str, experiment: Experiment<'_>) {
    let new = || MemoryDevice::new(Bytes::mib(48), Nanos(1000));
    let mut healthy = machine(new());
    experiment(&mut healthy).unwrap_or_else(|error| panic!("{memory}: {error}"));
    let issued = healthy.ledger().total().issued.total();
    for part in 1..8 {
        let fault = InjectedFault::Nth(issued * part / 8, IoError::IO);
        let mut failing = machine(FaultyDevice::new(new(), fault));
        let Err(error) = experiment(&mut failing) else { panic!("{memory}: IO {part}/8 of {issued}") };
        assert!(matches!(error, EmError::Io { .. }), "{memory}: {error}");
        assert!(error.to_string().contains(" failed: "), "{error}");
        drop(failing);
    }
}

#[test]
fn every_algorithm_ends_with_the_error_of_its_device() {
    let format = RecordFormat::new(Bytes(16), 0..8).unwrap();
    on("scan", &|machine| {
        ScanOptions {
            elements: 100_000,
            format: format.clone(),
            placement: SequencePlacement::ONE,
            seed: Seed(1),
        }
        .run(machine)
    });
    for method in [SortMethod::Sorting, SortMethod::Replacement] {
        let format = format.clone();
        let options = SortOptions {
            elements: 100_000,
            format,
            method,
            threads: 2,
            placement: SequencePlacement::ONE,
            seed: Seed(1),
        };
        on("sort", &|machine| options.run(machine));
    }
    for kind in [SearchKind::Binary, SearchKind::Tree] {
        let options = SearchOptions {
            elements: 100_000,
            record: Bytes(16),
            kind,
            queries: 2000,
            in_flight: None,
            block: None,
            placement: SequencePlacement::ONE,
            seed: Seed(1),
        };
        on("search", &|machine| options.run(machine));
    }
    for method in [RankMethod::Hopping, RankMethod::Contraction] {
        let (block, host_cost, seed) = (Bytes::kib(4), Nanos(2), Seed(1));
        let options = RankOptions {
            elements: 100_000,
            method,
            block,
            host_cost,
            placement: SequencePlacement::ONE,
            seed,
        };
        on("rank", &|machine| options.run(machine));
    }
    let graph = SearchGraph::random(random_graph(5000, 10_000, Seed(1)));
    for method in [SearchMethod::MunagalaRanade, SearchMethod::MehlhornMeyer, SearchMethod::SemiExternal] {
        let task = SearchTask {
            method,
            placement: SearchPlacement { structure: Spread::On(0), pool: Spread::On(0) },
            block: Bytes::kib(4),
            sequence_block: Bytes::kib(8),
            cluster: Some(8),
            host_cost: Nanos(2),
            seed: Seed(1),
        };
        let options = BfsOptions { graph: graph.clone(), task };
        on("bfs", &|machine| options.run(machine));
    }
}
