//! What the simulation of policies says, compared with two other sources: a second simulator of SepBIT, which shares no code with the
//! placer and its policies, and volumes with data.

use std::sync::atomic::AtomicBool;

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::MemoryDevice;
use flashlab_repair::{
    HostLoad, LayoutOptions, MountOptions, PolicyRunSetup, SimulatedGeometry, Volume, VolumeLayout,
    VolumeUuid, WorkloadKind, WriteWorkload, policy_named,
};

/// Volumes written before the measurement, and while it lasts.
const SETTLE: u32 = 4;
const MEASURE: u32 = 3;

fn simulated(geometry: SimulatedGeometry, workload: WorkloadKind, policy: &str, seed: Seed) -> f64 {
    let policy = policy_named(policy).unwrap()(geometry.segments());
    let (settle_volumes, measured_volumes) = (SETTLE, MEASURE);
    let setup = PolicyRunSetup { workload, geometry, settle_volumes, measured_volumes, moves: false, seed };
    setup.run(policy, &AtomicBool::new(false)).unwrap().status.write_amplification.unwrap()
}

/// SepBIT as the paper's algorithm 1 has it, with the time of each write, and without queues of victims.
struct Reference {
    pages_per_segment: usize,
    /// Where each page lies, and when the host wrote it.
    places: Vec<(usize, u64)>,
    segments: Vec<Class>,
    open: [usize; 6],
    /// Empty segments.
    empty: Vec<usize>,
    /// The threshold, and the lifetimes that become the next one.
    threshold: f64,
    lifetimes: Vec<f64>,
    clock: u64,
    copies: u64,
}

/// A segment of a class.
#[derive(Clone, Default)]
struct Class {
    class: usize,
    pages: Vec<usize>,
    valid: usize,
    created: u64,
    sealed: Option<u64>,
}

impl Reference {
    fn new(segments: usize, pages_per_segment: usize, pages: usize) -> Reference {
        let mut all = vec![Class::default(); segments];
        (0..6).for_each(|class| all[class].class = class);
        Reference {
            pages_per_segment,
            places: vec![(usize::MAX, 0); pages],
            segments: all,
            open: [0, 1, 2, 3, 4, 5],
            empty: (6..segments).collect(),
            threshold: f64::INFINITY,
            lifetimes: Vec::new(),
            clock: 0,
            copies: 0,
        }
    }

    fn write(&mut self, page: usize) {
        // As few empty segments as the simulation keeps: one for each class.
        while self.empty.len() < 7 {
            self.collect();
        }
        let (place, written) = self.places[page];
        let lived = (self.clock - written) as f64;
        let class = usize::from(place == usize::MAX || lived >= self.threshold);
        if place != usize::MAX {
            self.segments[place].valid -= 1;
        }
        self.places[page].1 = self.clock;
        self.put(page, class);
        self.clock += 1;
    }

    fn put(&mut self, page: usize, class: usize) {
        let into = self.open[class];
        let segment = &mut self.segments[into];
        segment.pages.push(page);
        segment.valid += 1;
        self.places[page].0 = into;
        if segment.pages.len() == self.pages_per_segment {
            segment.sealed = Some(self.clock);
            let next = self.empty.remove(0);
            self.segments[next] = Class { class, created: self.clock, ..Class::default() };
            self.open[class] = next;
        }
    }

    fn collect(&mut self) {
        let score = |segment: &Class| {
            let garbage = 1.0 - segment.valid as f64 / self.pages_per_segment as f64;
            let age = segment.sealed.map_or(-1.0, |sealed| (self.clock - sealed) as f64);
            garbage * age / (1.0 - garbage).max(1e-9)
        };
        let scores = self.segments.iter().map(score).enumerate();
        let (victim, _) = scores.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
        let Class { class, pages, created, .. } = std::mem::take(&mut self.segments[victim]);
        if class == 0 {
            self.lifetimes.push((self.clock - created) as f64);
            if self.lifetimes.len() == 16 {
                self.threshold = self.lifetimes.drain(..).sum::<f64>() / 16.0;
            }
        }
        // A page that was written twice into the segment is there twice.
        let mut copied = std::collections::BTreeSet::new();
        for page in pages {
            let (place, written) = self.places[page];
            if place != victim || !copied.insert(page) {
                continue;
            }
            let age = (self.clock - written) as f64;
            let to = match class {
                0 => 2,
                _ if age < 4.0 * self.threshold => 3,
                _ if age < 16.0 * self.threshold => 4,
                _ => 5,
            };
            self.put(page, to);
            self.copies += 1;
        }
        self.empty.push(victim);
    }
}

#[test]
fn sepbit_costs_what_a_second_simulator_of_the_paper_says() {
    let (segments, pages_per_segment, fill) = (1024, 32, 0.8);
    let pages = (fill * f64::from(segments * pages_per_segment)) as u32;
    for (workload, seed) in [("zipf:0.99", Seed(1)), ("hot-cold:90/10", Seed(2))] {
        let workload: WorkloadKind = workload.parse().unwrap();
        let mut writes = WriteWorkload::new(workload, pages, seed);
        let mut reference = Reference::new(segments as usize, pages_per_segment as usize, pages as usize);
        (0..pages).for_each(|page| reference.write(page as usize));
        let mut write = |reference: &mut Reference, volumes: u32| {
            (0..volumes * pages).for_each(|_| reference.write(writes.next_page() as usize));
        };
        write(&mut reference, SETTLE);
        let before = reference.copies;
        write(&mut reference, MEASURE);
        let expected = 1.0 + (reference.copies - before) as f64 / f64::from(MEASURE * pages);
        let geometry = SimulatedGeometry::Plain { segments, pages_per_segment, fill };
        let found = simulated(geometry, workload, "sepbit", seed);
        assert!(
            (found / expected - 1.0).abs() < 0.03,
            "{workload}: {found:.3}, the second simulator {expected:.3}, {seed}"
        );
    }
}

/// Writes to a volume with data, and returns the write amplification that its status has.
fn measured(layout: &VolumeLayout, load: HostLoad, workload: WorkloadKind, policy: &str, seed: Seed) -> f64 {
    /// Steps of packing at once that are a pause.
    const PAUSE: u32 = 200;
    let mut device = MemoryDevice::new(layout.options.capacity, Nanos(100));
    Volume::create(&mut device, VolumeUuid(*b"simulated volume"), layout.options).unwrap();
    let make = |layout: &VolumeLayout| policy_named(policy).unwrap()(layout.segment_count);
    let mut volume = Volume::open(device, MountOptions::default(), make).unwrap();
    let (page, pages) = (layout.options.page.0, layout.options.logical_pages);
    let mut data = vec![0; page as usize];
    (0..pages).for_each(|at| volume.write(at * page, &data).unwrap());
    let mut writes = WriteWorkload::new(workload, pages as u32, seed);
    let mut random = Prng::new(seed.derive("data", 0));
    let mut mark = volume.placer().mark();
    for written in 0..u64::from(SETTLE + MEASURE) * pages {
        if written == u64::from(SETTLE) * pages {
            mark = volume.placer().mark();
        }
        data[0] = random.below(256) as u8;
        volume.write(u64::from(writes.next_page()) * page, &data).unwrap();
        if load.flush_every.is_some_and(|every| written.is_multiple_of(every.into())) {
            volume.flush().unwrap();
        }
        if load.has_pauses && written % 200 == 0 {
            (0..PAUSE).take_while(|_| volume.work_while_idle()).for_each(drop);
        }
    }
    volume.placer().status_since(&mark).write_amplification.unwrap()
}

#[test]
fn a_volume_with_data_writes_what_the_simulation_of_its_geometry_says() {
    let mut options = LayoutOptions {
        capacity: Bytes::mib(144),
        page: Bytes::kib(4),
        segment: Bytes::kib(512),
        logical_pages: 1,
        checkpoint_interval: Bytes::mib(16),
    };
    let empty = VolumeLayout::new(options).unwrap();
    let pages = u64::from(empty.segment_count) * u64::from(empty.data_pages_per_segment());
    options.logical_pages = pages * 4 / 5;
    let layout = VolumeLayout::new(options).unwrap();
    let seed = Seed(7);
    for (workload, policy, flush_every, has_pauses) in [
        ("uniform", "multi-log", None, false),
        ("uniform", "multi-log", Some(16), true),
        ("uniform", "greedy", None, true),
        ("zipf:0.99", "multi-log", Some(32), false),
        ("zipf:0.99", "sepbit", None, false),
    ] {
        let workload: WorkloadKind = workload.parse().unwrap();
        let load = HostLoad { flush_every, has_pauses };
        let expected = measured(&layout, load, workload, policy, seed);
        let geometry = SimulatedGeometry::Volume { layout: layout.clone(), load };
        let found = simulated(geometry, workload, policy, seed);
        assert!(
            (found / expected - 1.0).abs() < 0.05,
            "{workload}, {policy}, {load:?}: simulated {found:.3}, measured {expected:.3}, {seed}"
        );
    }
}
