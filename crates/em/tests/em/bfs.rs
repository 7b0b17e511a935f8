//! Breadth-first search on small graphs: a graph is generated, written to devices, searched by each algorithm with little
//! memory, and the levels are compared with the textbook's search.

use flashlab_base::{Bytes, Mode, Nanos, Prng, Seed};
use flashlab_device::{Device, MemoryDevice};
use flashlab_em::bfs::{
    Search, SearchPlacement, SearchSizes, StoredGraph, cluster, level_tree_shape, mehlhorn_meyer,
    munagala_ranade, search_ios, semi_external, verify_levels,
};
use flashlab_em::graph::{AdjacencyArrays, GraphSource, LevelTree, random_graph};
use flashlab_em::records::Workspace;
use flashlab_em::{EmError, ExtentAllocator, HostTime, Machine, Spread};

const APART: SearchPlacement = SearchPlacement { structure: Spread::On(0), pool: Spread::On(1) };
const STRIPED: SearchPlacement =
    SearchPlacement { structure: Spread::Striped(Bytes::kib(4)), pool: Spread::Striped(Bytes::kib(4)) };

/// Runs a test on two devices in memory.
fn on_two_devices<T>(memory: Bytes, test: impl FnOnce(&mut Workspace<'_, '_>) -> T) -> T {
    let devices: Vec<Box<dyn Device>> = (1..=2)
        .map(|index| Box::new(MemoryDevice::new(Bytes::mib(16), Nanos(1000 * index))) as Box<dyn Device>)
        .collect();
    let mut machine = Machine::new(devices, memory, HostTime::Declared(Nanos(2))).unwrap();
    let space = ExtentAllocator::new(&machine);
    test(&mut Workspace { machine: &mut machine, space, block: Bytes::kib(4), ahead: 1 })
}

type SearchAlgorithm<'a> =
    &'a dyn Fn(&mut Workspace<'_, '_>, &StoredGraph, u32, SearchPlacement) -> Result<Search, EmError>;

fn by_cluster(
    size: u64,
) -> impl Fn(&mut Workspace<'_, '_>, &StoredGraph, u32, SearchPlacement) -> Result<Search, EmError> {
    move |workspace, graph, source, placement| {
        let clustering = cluster(workspace, graph, source, size, placement, Seed(size))?;
        mehlhorn_meyer(workspace, &clustering, placement, Bytes::kib(4))
    }
}

fn search(
    graph: &AdjacencyArrays,
    source: u32,
    placement: SearchPlacement,
    memory: Bytes,
    algorithm: SearchAlgorithm<'_>,
) -> u32 {
    on_two_devices(memory, |workspace| {
        let stored = StoredGraph::write(workspace, graph, placement.structure).unwrap();
        let found = algorithm(workspace, &stored, source, placement).unwrap();
        verify_levels(workspace, &found, graph, source).unwrap();
        let (budget, depth) = (workspace.machine.budget(), found.depth);
        assert!(budget.left() == budget.limit() && budget.peak() <= memory);
        depth
    })
}

#[test]
fn all_algorithms_find_the_levels_of_random_graphs() {
    let first_seed = std::env::var("FLASHLAB_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first_seed..first_seed + 12 {
        let mut prng = Prng::new(Seed(seed));
        let nodes = 1 + prng.below(3000) as u32;
        let graph = random_graph(nodes, prng.below(3 * u64::from(nodes)), Seed(seed));
        let source = prng.below(u64::from(nodes)) as u32;
        let size = 1 + prng.below(40);
        let placement = if prng.below(2) == 0 { APART } else { STRIPED };
        println!("replay with FLASHLAB_SEED={seed}: {nodes} nodes, clusters of {size}, {placement:?}");
        let direct = |algorithm: fn(
            &mut Workspace<'_, '_>,
            &StoredGraph,
            u32,
            SearchPlacement,
            Bytes,
        ) -> Result<Search, EmError>| {
            search(&graph, source, placement, Bytes::kib(256), &move |w, g, s, p| {
                algorithm(w, g, s, p, Bytes::kib(4))
            })
        };
        let depths = [
            direct(munagala_ranade),
            direct(semi_external),
            search(&graph, source, placement, Bytes::kib(512), &by_cluster(size)),
        ];
        let expected = graph.levels(source).into_iter().flatten().max().unwrap() + 1;
        assert_eq!(depths, [expected; 3]);
    }
}

#[test]
fn a_graph_larger_than_the_memory_is_searched() {
    // 40,000 arcs of 16 bytes are 640 KiB, and levels of 2000 nodes are spilled, too.
    let tree = LevelTree::new(20_001, 10, Seed(2)).unwrap();
    let graph = AdjacencyArrays::collect(&tree);
    for placement in [APART, STRIPED] {
        assert_eq!(search(&graph, tree.root(), placement, Bytes::kib(256), &by_cluster(4)), 11);
    }
}

#[test]
fn a_source_without_neighbours_and_a_graph_in_two_parts_are_searched() {
    let graph = AdjacencyArrays::from_edges(6, [(1, 2), (2, 3), (4, 5)]);
    for (source, depth) in [(0, 1), (1, 3), (5, 2)] {
        assert_eq!(search(&graph, source, APART, Bytes::kib(512), &by_cluster(2)), depth);
    }
}

#[test]
fn the_issued_ios_are_those_of_the_formula() {
    let tree = LevelTree::new(60_000, 60, Seed(3)).unwrap();
    // With 1 MiB the clusters of the first level are spilled, with 8 MiB nothing is.
    for (size, memory) in [(5, 8), (20, 8), (60, 8), (20, 1), (60, 1)] {
        on_two_devices(Bytes::mib(memory), |workspace| {
            let stored = StoredGraph::write(workspace, &tree, APART.structure).unwrap();
            let clustering = cluster(workspace, &stored, tree.root(), size, APART, Seed(1)).unwrap();
            workspace.machine.begin_phase("search");
            let found = mehlhorn_meyer(workspace, &clustering, APART, Bytes::kib(4)).unwrap();
            let ledger = workspace.machine.ledger().clone();
            let issued = &ledger.phases().iter().find(|phase| phase.name == "search").unwrap().issued;
            let sizes = SearchSizes {
                block: Bytes::kib(4),
                sequence_block: Bytes::kib(4),
                memory: Bytes::mib(memory),
            };
            let exact = search_ios(&found.shape, tree.nodes().into(), sizes);
            let planned = search_ios(&level_tree_shape(&tree, size, sizes.block), tree.nodes().into(), sizes);
            for mode in [Mode::Read, Mode::Write] {
                let (issued, case) =
                    (issued.of(mode) as f64, format!("clusters of {size}, {memory} MiB, {mode}"));
                if memory == 8 {
                    assert_eq!(issued, exact.count(mode), "{case}: from what was moved");
                }
                for formula in [&exact, &planned] {
                    let error = formula.count(mode) / issued - 1.0;
                    assert!(error.abs() < 0.05, "{case}: {issued} issued, {formula:?}");
                }
            }
        });
    }
}

#[test]
fn too_little_memory_and_a_source_beyond_the_graph_are_errors() {
    let graph = random_graph(2000, 4000, Seed(1));
    on_two_devices(Bytes::kib(24), |workspace| {
        let stored = StoredGraph::write(workspace, &graph, APART.structure).unwrap();
        let Err(error) = by_cluster(10)(workspace, &stored, 0, APART) else { panic!("24 KiB are enough") };
        assert!(matches!(error, EmError::Memory { .. }), "{error}");
    });
    on_two_devices(Bytes::kib(512), |workspace| {
        let stored = StoredGraph::write(workspace, &graph, APART.structure).unwrap();
        let error = by_cluster(10)(workspace, &stored, 2000, APART).err().unwrap().to_string();
        assert!(error.starts_with("a search from node 2000 of 2000 nodes"), "{error}");
        let error =
            munagala_ranade(workspace, &stored, 2000, APART, Bytes::kib(4)).err().unwrap().to_string();
        assert_eq!(error, "the source 2000 is not below 2000 nodes");
    });
}
