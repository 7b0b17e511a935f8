//! Chapters 2 and 4: basic algorithms, list ranking, and breadth-first search on flash together with a hard disk.
//!
//! # Model
//! The paper gives no N, M and B. Chosen here:
//! - N is 2^23 doubles of 8 bytes and M 16 MiB, so that a sort has two passes of reading and two of writing, as in the paper.
//! - B of a random read is 12 KiB: at 28 MB/s and 0.145 ms for a command, the paper's 0.56 ms are 11.7 KB.
//! - The binary search has its first 7 levels in memory, so that 6 are left: the paper's search takes 6 random reads on flash.
//! - An element costs the host 0.2 us: the paper's hard disk writes a generated double in that time, of which the disk at
//!   88 MB/s needs 0.09 us. So the host bounds the paper's hard-disk rows of writing, scanning and sorting.
//!
//! Table 4.1 is scaled down from 2^28 nodes to 2^20. The tree has 512 levels below its root, which is the root of B for 2^18
//! elements (2 MiB). The four ratios depend on cluster reads and pool scans, which both grow with the number of nodes; fewer
//! levels would cut clusters off. A record costs the host 50 ns: that is the paper's share of host time in striping. The
//! clusters of the first three placements balance random reads and sequential IOs on two hard disks, as in the paper: the
//! closed form's size is run, and corrected by the ratio of the two measured times. The smaller clusters are the closed form's
//! for the placement.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Device, Operation, StoringDevice};
use flashlab_em::bfs::{
    Search, SearchMethod, SearchPlacement, SearchRun, SearchTask, run_search, sequence_block,
    verify_level_tree,
};
use flashlab_em::graph::LevelTree;
use flashlab_em::rank::{ListOrder, StoredList, rank_by_contraction, rank_by_hopping};
use flashlab_em::records::Workspace;
use flashlab_em::{
    BinarySearch, EmError, ExtentAllocator, HostTime, Machine, RecordFormat, Region, SequenceWriter,
    SortMethod, SortTask, SortedSequence, Spread, TemporarySpace, Tuning, scan, search, sort, verify_sorted,
};

use crate::lab::{ReproduceError, Result, device, on_all_processors};
use crate::papers::Measurement;
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
use crate::reproduction::{Measured, Reproduction};

/// Tables 2.1 and 4.1, and the list ranking of chapter 2.
pub(crate) const ALGORITHMS: Reproduction = Reproduction {
    name: "ajwani-algorithms",
    title: "Basic algorithms, list ranking and breadth-first search on flash and on a hard disk",
    source: "Ajwani et al., Characterizing the performance of flash memory storage devices, Tables 2.1 and 4.1",
    measure,
};

const DOUBLES: u64 = 1 << 23;
const DOUBLE: Bytes = Bytes(8);
const MEMORY: Bytes = Bytes::mib(16);
const RANDOM_READ: Bytes = Bytes::kib(12);
const CACHED_LEVELS: u32 = 7;
const HOST: Nanos = Nanos(200);
/// The block of sequences: large enough that a hard disk streams.
const SEQUENCE: Bytes = Bytes::kib(512);
const QUERIES: u64 = 500;

/// Of the list that hopping follows: 128 MiB, more than a disk's cache, and hops enough for a mean within 1 %.
const LIST: u64 = 1 << 24;
const HOPS: u64 = 10_000;
/// Of the list that is ranked by sorting, 8 MiB with 2 MiB of memory: the paper's 8 GiB with 2 GiB.
const SHORT_LIST: u64 = 1 << 20;
const SHORT_MEMORY: Bytes = Bytes::mib(2);
/// The paper's list.
const PAPER_LIST: f64 = (1u64 << 30) as f64;
/// A dependent access to memory that no cache holds, on the machines of 2009: 100 ns (Drepper, "What every programmer
/// should know about memory", 2007, section 3.3.2).
const MEMORY_ACCESS_S: f64 = 100e-9;

const NODES: u64 = 1 << 20;
const SWEEP_NODES: u64 = 1 << 18;
const LEVELS: u32 = 512;
const SEARCH_BLOCK: Bytes = Bytes::kib(32);
const SEARCH_HOST: Nanos = Nanos(50);
/// The cluster sizes of the sweep, as multiples of the closed form's, a factor of 1.4 apart.
const SWEEP: [f64; 7] = [0.36, 0.51, 0.71, 1.0, 1.4, 1.96, 2.74];

const FLASH: &str = "hama";
const DISK: &str = "barracuda";

fn measure(seed: Seed) -> Result<Measured> {
    type Part = fn(Seed) -> Result<(Vec<Measurement>, Vec<FigureSeries>)>;
    let parts: [Part; 6] = [
        |seed| Ok((table_4_1(seed)?, Vec::new())),
        |seed| sweep(TWO_DISKS, seed),
        |seed| sweep(APART, seed),
        |seed| Ok((table_2_1(FLASH, seed)?, Vec::new())),
        |seed| Ok((table_2_1(DISK, seed)?, Vec::new())),
        |seed| Ok((list_ranking(seed)?, Vec::new())),
    ];
    let (values, series): (Vec<_>, Vec<_>) =
        on_all_processors(&parts, |part| part(seed))?.into_iter().unzip();
    let title = "Search of a level tree over the cluster size; dashed: the closed form's";
    let x = FigureAxis::new("nodes of a cluster, on average", Scale::Binary);
    let y = FigureAxis::new("time of the search (s)", Scale::Linear);
    let picture = FigurePicture::new("ajwani-cluster-sweep", title, x, y, series.concat());
    Ok(Measured { values: values.concat(), pictures: vec![picture] })
}

fn machine(devices: &[&str], memory: Bytes, host: Nanos) -> Result<Machine<'static>> {
    let stored = devices
        .iter()
        .map(|name| -> Result<Box<dyn Device>> { Ok(Box::new(StoringDevice::new(device(name)?))) });
    Machine::new(stored.collect::<Result<_>>()?, memory, HostTime::Declared(host)).map_err(wrong(devices[0]))
}

fn wrong(device: &str) -> impl Fn(EmError) -> ReproduceError {
    move |error| ReproduceError::new(device, error)
}

/// Table 2.1 on one device.
fn table_2_1(name: &'static str, seed: Seed) -> Result<Vec<Measurement>> {
    let mut machine = machine(&[name], MEMORY, HOST)?;
    basic_algorithms(&mut machine, name, seed).map_err(wrong(name))
}

fn basic_algorithms(
    machine: &mut Machine<'_>,
    name: &'static str,
    seed: Seed,
) -> std::result::Result<Vec<Measurement>, EmError> {
    let per_double = |time: Nanos| time.as_secs_f64() * 1e6 / DOUBLES as f64;
    let format = RecordFormat::new(DOUBLE, 0..8)?;
    let length = DOUBLE * DOUBLES;
    let mut free = ExtentAllocator::new(machine);
    let input = free.allocate(length, Spread::On(0))?;
    let (output, second) = (free.allocate(length, Spread::On(0))?, free.allocate(length, Spread::On(0))?);
    // Blocks of the output's tail are written once, so that a flash layer has nothing to reclaim in the measured writes.
    let tuning = Tuning::measure(machine, &second, Some(&second))?;
    let (begin, mut prng) = (machine.now(), Prng::new(seed.derive("doubles", 0)));
    write(machine, &input, tuning, |_| prng.unit().to_bits())?;
    let written = machine.now().since(begin);

    let begin = machine.now();
    scan(machine, &format, &input, length, SEQUENCE, tuning.ahead(SEQUENCE))?;
    let scanned = machine.now().since(begin);

    let (unit, memory) = (machine.unit(), machine.budget().left());
    let task = SortTask {
        format: format.clone(),
        length,
        method: SortMethod::Sorting,
        threads: 1,
        unit,
        memory,
        tuning,
        stripe: None,
        temporary: Bytes(u64::MAX),
    };
    let plan = task.plan(None)?;
    let mut temporary = TemporarySpace { free: &mut free, spread: Spread::On(0) };
    let begin = machine.now();
    let outcome = sort(machine, &task, &plan, &input, &output, &mut temporary)?;
    let sorted = machine.now().since(begin);
    verify_sorted(machine, &task, &plan, &output, outcome.input)?;

    let random = random_reads(machine, &input, length, seed)?;
    let searched = binary_search(machine, format, output, seed)?;
    Ok(vec![
        Measurement::new(name, "generate a random double and write it", "us", per_double(written)),
        Measurement::new(name, "scan per double", "us", per_double(scanned)),
        Measurement::new(name, "external merge sort per double", "us", per_double(sorted)),
        Measurement::new(name, "random read", "us", random),
        Measurement::new(name, "binary search", "us", searched),
    ])
}

/// Writes doubles in order, each made from its index.
fn write(
    machine: &mut Machine<'_>,
    region: &Region,
    tuning: Tuning,
    mut make: impl FnMut(u64) -> u64,
) -> std::result::Result<(), EmError> {
    let mut writer =
        SequenceWriter::new(machine, region.clone(), Bytes::ZERO, SEQUENCE, tuning.behind(SEQUENCE))?;
    let chunk = 1024;
    let mut bytes = Vec::with_capacity(8 * chunk as usize);
    for first in (0..DOUBLES).step_by(chunk as usize) {
        bytes.clear();
        (first..first + chunk).for_each(|index| bytes.extend(make(index).to_be_bytes()));
        machine.compute(chunk);
        writer.write(machine, &bytes)?;
    }
    writer.finish(machine).map(drop)
}

/// The mean time of a random read of a block, in microseconds.
fn random_reads(
    machine: &mut Machine<'_>,
    region: &Region,
    length: Bytes,
    seed: Seed,
) -> std::result::Result<f64, EmError> {
    let mut prng = Prng::new(seed.derive("random reads", 0));
    let (mut buffers, _lease) = machine.budget().buffers(1, RANDOM_READ, "a random read")?;
    let mut buffer = buffers.remove(0);
    let begin = machine.now();
    for _ in 0..QUERIES {
        let slot = prng.below(length.0 / RANDOM_READ.0);
        let (device, offset) = region.locate(RANDOM_READ * slot);
        let read = machine.submit(device, Operation::Read, offset, RANDOM_READ, buffer);
        buffer = machine.wait(read)?;
    }
    Ok(machine.now().since(begin).as_secs_f64() * 1e6 / QUERIES as f64)
}

/// The mean time of a binary search, one query after the other, in microseconds.
fn binary_search(
    machine: &mut Machine<'_>,
    format: RecordFormat,
    sorted: Region,
    seed: Seed,
) -> std::result::Result<f64, EmError> {
    let sequence = SortedSequence::new(format, sorted, DOUBLES, RANDOM_READ)?;
    let structure = BinarySearch::new(machine, sequence, CACHED_LEVELS)?;
    let mut prng = Prng::new(seed.derive("queries", 0));
    let keys: Vec<u64> = (0..QUERIES).map(|_| prng.unit().to_bits()).collect();
    let begin = machine.now();
    let mut ranks = vec![(0, 0); keys.len()];
    search(machine, &structure, keys.iter().copied(), 1, |query, rank| {
        ranks[query as usize] = (keys[query as usize], rank);
    })?;
    let time = machine.now().since(begin);
    // Positive doubles are ordered as their bits are, and so must their ranks be.
    ranks.sort_unstable();
    match ranks.is_sorted_by_key(|&(_, rank)| rank) {
        true => Ok(time.as_secs_f64() * 1e6 / QUERIES as f64),
        false => Err(EmError::Wrong("the ranks of the searched keys are not in their order".to_owned())),
    }
}

/// The list of chapter 2, from shorter ones: each hop takes the same time.
fn list_ranking(seed: Seed) -> Result<Vec<Measurement>> {
    let days = |seconds_per_element: f64| PAPER_LIST * seconds_per_element / 86_400.0;
    let mut values = Vec::new();
    for name in [FLASH, DISK] {
        let seconds = hopping(name, seed).map_err(wrong(name))?;
        values.push(Measurement::new(name, "list ranking of 2^30 by hopping", "d", days(seconds)));
    }
    let seconds = contraction(FLASH, seed).map_err(wrong(FLASH))?;
    values.push(Measurement::new(FLASH, "list ranking of 2^30 by contraction", "d", days(seconds)));
    let minutes = PAPER_LIST * MEMORY_ACCESS_S / 60.0;
    values.push(Measurement::new(FLASH, "list ranking of 2^30 in RAM", "min", minutes));
    Ok(values)
}

fn with_list<R>(
    name: &str,
    (count, memory): (u64, Bytes),
    seed: Seed,
    run: impl FnOnce(&mut Workspace<'_, '_>, &ListOrder, &StoredList) -> std::result::Result<R, EmError>,
) -> std::result::Result<R, EmError> {
    let mut machine =
        machine(&[name], memory, SEARCH_HOST).map_err(|error| EmError::Parameter(error.to_string()))?;
    let space = ExtentAllocator::new(&machine);
    let block = sequence_block(memory, SEARCH_BLOCK);
    let mut workspace = Workspace { machine: &mut machine, space, block, ahead: 1 };
    let order = ListOrder::new(count, seed)?;
    let list = StoredList::write(&mut workspace, &order, Spread::On(0))?;
    run(&mut workspace, &order, &list)
}

/// The time of a hop, in seconds.
fn hopping(name: &str, seed: Seed) -> std::result::Result<f64, EmError> {
    with_list(name, (LIST, MEMORY), seed, |workspace, order, list| {
        let mut see = |element, rank| match order.element(rank) == element {
            true => Ok(()),
            false => Err(EmError::Wrong(format!("element {element} has not the rank {rank}"))),
        };
        let hops = rank_by_hopping(workspace, list, Bytes(512), HOPS, &mut see)?;
        Ok(hops.time.as_secs_f64() / HOPS as f64)
    })
}

/// The time of an element, in seconds, in a list that has the paper's ratio to the memory.
fn contraction(name: &str, seed: Seed) -> std::result::Result<f64, EmError> {
    with_list(name, (SHORT_LIST, SHORT_MEMORY), seed, |workspace, order, list| {
        let begin = workspace.machine.now();
        let ranking = rank_by_contraction(workspace, list, Spread::On(0), seed)?;
        let time = workspace.machine.now().since(begin);
        let mut ranks = workspace.read(&ranking.ranks)?;
        for element in 0..order.count() {
            let rank = ranks.next(workspace.machine)?.map(u64::from);
            if rank != Some(order.rank(element)) {
                return Err(EmError::Wrong(format!("element {element} has not the rank {rank:?}")));
            }
        }
        Ok(time.as_secs_f64() / order.count() as f64)
    })
}

/// A row of Table 4.1: the devices, and where the parts lie.
#[derive(Clone, Copy)]
struct Setup {
    quantity: &'static str,
    devices: [&'static str; 2],
    is_striped: bool,
}

const STRIPED: Setup = Setup { quantity: "", devices: [FLASH, DISK], is_striped: true };
const TWO_DISKS: Setup =
    Setup { quantity: "two hard disks striped", devices: [DISK, DISK], is_striped: true };
const APART: Setup =
    Setup { quantity: "clusters on flash and pool on hard disk", devices: [FLASH, DISK], is_striped: false };
const SMALLER: Setup = Setup { quantity: "the same with smaller clusters", ..APART };

impl Setup {
    /// Searches a level tree, with the closed form's clusters unless a size is given. The levels are compared with the tree's.
    fn search(&self, nodes: u64, cluster: Option<u64>, seed: Seed) -> Result<SearchRun> {
        let mut machine = machine(&self.devices, MEMORY, SEARCH_HOST)?;
        let sequence_block = sequence_block(MEMORY, SEARCH_BLOCK);
        let placement = if self.is_striped {
            let striped = Spread::Striped(sequence_block);
            SearchPlacement { structure: striped, pool: striped }
        } else {
            SearchPlacement { structure: Spread::On(0), pool: Spread::On(1) }
        };
        let task = SearchTask {
            method: SearchMethod::MehlhornMeyer,
            placement,
            block: SEARCH_BLOCK,
            sequence_block,
            cluster,
            host_cost: SEARCH_HOST,
            seed,
        };
        let tree = LevelTree::new(nodes, LEVELS, seed).expect("the tree has legs");
        let verify =
            |workspace: &mut Workspace<'_, '_>, found: &Search| verify_level_tree(workspace, found, &tree);
        let run = run_search(&mut machine, &tree, tree.root(), &task, verify);
        run.map(|(run, ())| run).map_err(wrong(self.devices[0]))
    }
}

/// The four placements, as ratios of the first one's time.
fn table_4_1(seed: Seed) -> Result<Vec<Measurement>> {
    let disks = TWO_DISKS.search(NODES, None, seed)?;
    let balanced = balance(&disks);
    let striped = STRIPED.search(NODES, Some(balanced), seed)?;
    let wait = |run: &SearchRun| run.time.since(run.host).as_secs_f64();
    let mut values = vec![Measurement::new(
        DISK,
        format!("{}: cluster size of the balance", TWO_DISKS.quantity),
        "nodes",
        balanced as f64,
    )];
    let mut totals = vec![striped.time];
    for (setup, cluster) in [(TWO_DISKS, Some(balanced)), (APART, Some(balanced)), (SMALLER, None)] {
        let run = setup.search(NODES, cluster, seed)?;
        let zoo = setup.devices[0];
        let total = run.time.as_secs_f64() / striped.time.as_secs_f64();
        let named = |what| format!("{}: {what} over striping", setup.quantity);
        values.push(Measurement::new(zoo, named("I/O wait"), "", wait(&run) / wait(&striped)));
        values.push(Measurement::new(zoo, named("total"), "", total));
        totals.push(run.time);
    }
    // From the slowest to the fastest of the paper: striping, apart, two disks, smaller clusters.
    let order = [totals[0], totals[2], totals[1], totals[3]];
    let pairs = (0..4).flat_map(|first| (first + 1..4).map(move |second| (first, second)));
    let right = pairs.filter(|&(first, second)| order[first] > order[second]).count();
    values.push(Measurement::new(FLASH, "pairs of placements in the order of the paper", "", right as f64));
    Ok(values)
}

/// The cluster size at which a search's cluster reads take as long as the rest of its IOs: the first shrink as clusters
/// grow, the second grows.
fn balance(run: &SearchRun) -> u64 {
    let clusters = run.search.loading.as_secs_f64();
    let scans = run.time.since(run.host).as_secs_f64() - clusters;
    (run.closed_form.nodes * (clusters / scans.max(f64::MIN_POSITIVE)).sqrt()).round().max(1.0) as u64
}

/// The best of several cluster sizes, and the closed form's.
fn sweep(setup: Setup, seed: Seed) -> Result<(Vec<Measurement>, Vec<FigureSeries>)> {
    let form = setup.search(SWEEP_NODES, None, seed)?;
    let closed_form = form.closed_form.nodes;
    let mut times = Vec::new();
    for factor in SWEEP {
        let size = (closed_form * factor).round().max(1.0);
        let time = match factor == 1.0 {
            true => form.time,
            false => setup.search(SWEEP_NODES, Some(size as u64), seed)?.time,
        };
        times.push((size, time.as_secs_f64()));
    }
    let best = times.iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("the sweep has sizes").0;
    let zoo = setup.devices[0];
    let named = |what| format!("{}: cluster size of {what}", setup.quantity);
    let values = vec![
        Measurement::new(zoo, named("the closed form"), "nodes", closed_form),
        Measurement::new(zoo, named("the best of the sweep"), "nodes", best),
    ];
    let form = FigureSeries::place(format!("{}: closed form", setup.quantity), closed_form);
    Ok((values, vec![FigureSeries::new(setup.quantity, SeriesStyle::Curve, times), form]))
}
