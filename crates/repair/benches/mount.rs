//! How long a mount after a crash takes: `cargo bench -p flashlab-repair --bench mount -- [GIB [GIB]]`.
//!
//! Two volumes, with 4 and 32 GiB if not given, are written once in random order, so that the map has no order; then almost as much
//! is written as recovery may have to replay, and flushed, and the server dies. The time of the mount has a part for what was written
//! since the last checkpoint, which does not depend on the size, and a part for the map, which grows with it. The two volumes give both.
//! The device is memory, so all time is the CPU's; what a mount reads is printed, too, by area. It is the CPU time of the mounting
//! thread, because others may use the CPU. Other threads help it to count live pages, and their time is not in it.

mod cpu_time;

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use flashlab_base::{Bytes, Identity, Nanos, Operation, Prng, Seed};
use flashlab_device::{Completion, DataHandling, Device, Geometry, IoError, Request, VirtualQueue};
use flashlab_repair::{LayoutOptions, MountOptions, Volume, VolumeLayout, VolumeUuid, default_policy};

use cpu_time::cpu_time;

const PAGE: u64 = 4096;
/// Written data is kept for this much of it; what was written before reads as zeroes. Mounts read only the newest data.
const KEPT: usize = 256 << 20;
const CHUNK: u64 = 64 << 10;
const MOUNTS: usize = 7;

/// A large device in memory that keeps the metadata of a volume and its newest data.
struct NewestData {
    capacity: Bytes,
    /// Where the segments begin, and end.
    data: std::ops::Range<u64>,
    chunks: HashMap<u64, Box<[u8]>>,
    order: VecDeque<u64>,
    queue: VirtualQueue,
    /// Bytes read before the segments and in them.
    read: [u64; 2],
}

impl NewestData {
    fn new(capacity: Bytes) -> NewestData {
        let (chunks, order) = (HashMap::new(), VecDeque::new());
        NewestData { capacity, data: 0..0, chunks, order, queue: VirtualQueue::new(64), read: [0; 2] }
    }

    fn chunk(&mut self, chunk: u64) -> &mut [u8] {
        let mut is_new = false;
        self.chunks.entry(chunk).or_insert_with(|| {
            is_new = true;
            vec![0; CHUNK as usize].into()
        });
        if is_new {
            if self.data.contains(&(chunk * CHUNK)) {
                self.order.push_back(chunk);
            }
            if self.order.len() > KEPT / CHUNK as usize
                && let Some(oldest) = self.order.pop_front()
            {
                self.chunks.remove(&oldest);
            }
        }
        self.chunks.get_mut(&chunk).expect("it is there")
    }

    fn serve(&mut self, request: &mut Request) -> Result<(), IoError> {
        let (mut at, end) = (request.offset.0, request.offset.0 + request.size.0);
        if request.operation == Operation::Read {
            self.read[usize::from(self.data.contains(&at))] += request.size.0;
        }
        while at < end {
            let (chunk, within) = (at / CHUNK, (at % CHUNK) as usize);
            let length = (end - at).min(CHUNK - at % CHUNK) as usize;
            let start = (at - request.offset.0) as usize;
            let buffer = start..start + length;
            match request.operation {
                Operation::Read => match self.chunks.get(&chunk) {
                    Some(stored) => request.buffer[buffer].copy_from_slice(&stored[within..within + length]),
                    None => request.buffer[buffer].fill(0),
                },
                Operation::Write => {
                    let stored = self.chunk(chunk);
                    stored[within..within + length].copy_from_slice(&request.buffer[buffer]);
                }
                Operation::Discard | Operation::Flush => {}
            }
            at += length as u64;
        }
        Ok(())
    }
}

impl Device for NewestData {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.capacity, block: Bytes(512), depth: 64, data: DataHandling::Stored }
    }

    fn identity(&self) -> Identity {
        Identity { target: "newest data".to_owned(), capacity: self.capacity, ..Identity::default() }
    }

    fn now(&mut self) -> Nanos {
        self.queue.now()
    }

    fn submit(&mut self, mut request: Request) {
        let result = self.serve(&mut request);
        let now = self.queue.now();
        self.queue.push(request, now, result);
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.wait(until)
    }
}

fn open(device: NewestData) -> Volume<NewestData> {
    Volume::open(device, MountOptions::default(), default_policy).expect("it is mounted")
}

/// Writes every page once in random order, and then what a crash leaves to replay.
fn crashed(capacity: Bytes) -> (NewestData, VolumeLayout) {
    let mut device = NewestData::new(capacity);
    let options = LayoutOptions {
        capacity,
        page: Bytes(PAGE),
        segment: Bytes::mib(4),
        logical_pages: (capacity.0 as f64 * 0.8) as u64 / PAGE,
        checkpoint_interval: Bytes::mib(64),
    };
    let layout = Volume::create(&mut device, VolumeUuid([1; 16]), options).expect("the options are possible");
    device.data = layout.segments.0..capacity.0 - (128 << 10);
    let mut volume = open(device);
    let data = vec![7; PAGE as usize];
    let mut order: Vec<u32> = (0..layout.options.logical_pages as u32).collect();
    let mut random = Prng::new(Seed(1));
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let write = |volume: &mut Volume<NewestData>, page: u64| {
        volume.write(page * PAGE, &data).expect("memory does not fail");
    };
    order.iter().for_each(|&page| write(&mut volume, page.into()));
    drop(order);
    // A mount begins with a checkpoint.
    let mut volume = open(volume.abandon());
    for _ in 0..15_500 {
        let page = random.below(layout.options.logical_pages);
        write(&mut volume, page);
    }
    volume.flush().expect("memory does not fail");
    (volume.abandon(), layout)
}

/// Mounts after a crash: seconds of CPU time for a volume of this size.
fn mount(capacity: Bytes, begin: Instant) -> f64 {
    let (mut device, layout) = crashed(capacity);
    let mut seconds = Vec::new();
    for round in 0..MOUNTS {
        device.read = [0; 2];
        let start = cpu_time(begin);
        let volume = open(device);
        let taken = (cpu_time(begin) - start).as_secs_f64();
        seconds.push(taken);
        if round == 0 {
            let [metadata, data] = volume.device().read.map(Bytes);
            println!(
                "{capacity}: {} records replayed; {metadata} of metadata and {data} of records were read; the map takes {:.2} bytes \
                 for each page",
                volume.replayed_records(),
                layout.memory().0 as f64 / layout.options.logical_pages as f64,
            );
        }
        device = volume.abandon();
    }
    seconds.sort_by(f64::total_cmp);
    println!("{capacity}: mounted in {:.3} s of CPU time", seconds[MOUNTS / 2]);
    seconds[MOUNTS / 2]
}

fn main() {
    let sizes: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let [small, large] = sizes[..].try_into().unwrap_or([4, 32]);
    let begin = Instant::now();
    let [small, large] = [small, large].map(|gib| (gib as f64 / 1024.0, mount(Bytes::gib(gib), begin)));
    let per_tib = (large.1 - small.1) / (large.0 - small.0);
    let fixed = (small.1 - per_tib * small.0).max(0.0);
    println!(
        "a mount after a crash takes {per_tib:.2} s for each TiB, and {fixed:.3} s for what was written last (goal: 1 s for each TiB)"
    );
}
