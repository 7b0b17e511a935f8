//! Nothing is lost: random requests to every layer on random arrays, against a set of the pages that are held.
//!
//! A [`Ledger`](flashlab_sim::flash::Ledger) checks that each read returns the last write, the flash that blocks are
//! programmed in order and erased before, `verify` the layer's own invariants. The same requests without times
//! must leave the same layer and the same array. A failure prints the array, the options and the requests.

mod array;

use std::collections::HashSet;

use flashlab_base::{Nanos, Prng, Seed};
use flashlab_sim::flash::{Cause, Flash, FlashGeometry, LogicalPage, Reliability, Timing, Untimed};
use flashlab_sim::layer::{
    Exhausted, Layer, LogBlocks, LogBlocksOptions, LogOrder, PageMap, PageMapOptions, Pages, Replacement,
    SharedLogs, SharedLogsOptions, Striping, VictimPolicy,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use array::{Array, any_array};

/// A request of the host. Offsets and sizes are taken modulo the number of pages.
#[derive(Clone, Copy, Debug)]
enum Request {
    Write {
        first: u32,
        count: u32,
        stream: u16,
    },
    /// Behind the last write.
    Continue {
        count: u32,
    },
    Read {
        first: u32,
        count: u32,
    },
    Trim {
        first: u32,
        count: u32,
    },
}

fn any_request() -> impl Strategy<Value = Request> {
    let count = || prop_oneof![6 => Just(1u32), 3 => 1..9u32, 1 => 1..60u32];
    prop_oneof![
        6 => (any::<u32>(), count(), 0..3u16)
            .prop_map(|(first, count, stream)| Request::Write { first, count, stream }),
        3 => count().prop_map(|count| Request::Continue { count }),
        2 => (any::<u32>(), 1..60u32).prop_map(|(first, count)| Request::Read { first, count }),
        1 => (any::<u32>(), count()).prop_map(|(first, count)| Request::Trim { first, count }),
    ]
}

fn any_requests() -> impl Strategy<Value = Vec<Request>> {
    prop::collection::vec(any_request(), 1..400)
}

/// A layer that knows its invariants.
trait Verified: Layer + Clone + Serialize {
    fn verified<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String>;
}

impl Verified for LogBlocks {
    fn verified<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        self.verify(flash)
    }
}

impl Verified for SharedLogs {
    fn verified<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        self.verify(flash)
    }
}

/// By what it saves: `map[l] = p` if and only if `p` is valid and `back[p] = l`, and the valid pages add up by block.
impl Verified for PageMap {
    fn verified<T: Timing>(&self, flash: &Flash<T>) -> Result<(), String> {
        let saved = serde_json::to_value(self).unwrap();
        let numbers = |key: &str| -> Vec<u64> { serde_json::from_value(saved[key].clone()).unwrap() };
        let (map, back, valid) = (numbers("map"), numbers("back"), numbers("valid"));
        let is_valid = |page: u64| valid[page as usize / 64] >> (page % 64) & 1 == 1;
        let mapped: Vec<u64> = map.iter().copied().filter(|&page| page != u64::from(u32::MAX)).collect();
        let wrong = |page: &&u64| !is_valid(**page) || map[back[**page as usize] as usize] != **page;
        if let Some(page) = mapped.iter().find(wrong) {
            return Err(format!("page {page} is mapped but not valid, or maps back to another page"));
        }
        let bits: u32 = valid.iter().map(|word| word.count_ones()).sum();
        if bits as usize != mapped.len() {
            return Err(format!("{bits} pages are valid, of {} mapped", mapped.len()));
        }
        for (block, state) in flash.blocks().iter().enumerate() {
            let pages = u64::from(flash.geometry().pages_per_block());
            let first = block as u64 * pages;
            let held = (first..first + pages).filter(|&page| is_valid(page)).count() as u64;
            let unwritten = first + u64::from(state.written)..first + pages;
            if saved["victims"]["entries"][block]["valid"] != held || unwritten.into_iter().any(is_valid) {
                return Err(format!("block {block} has {held} valid pages, and {state:?}"));
            }
        }
        Ok(())
    }
}

/// A layer, its flash, and the pages that it must hold.
struct Subject<L, T> {
    layer: L,
    flash: Flash<T>,
    held: HashSet<u32>,
    last: u32,
    now: Nanos,
}

impl<L: Verified, T: Timing> Subject<L, T> {
    fn new(layer: L, geometry: FlashGeometry, timing: T) -> Subject<L, T> {
        let flash = Flash::new(geometry, timing).with_ledger(layer.pages());
        Subject { layer, flash, held: HashSet::new(), last: 0, now: Nanos::ZERO }
    }

    fn pages(&self, first: u32, count: u32) -> Pages {
        let first = first % self.layer.pages();
        Pages { first: LogicalPage(first), count: count.min(self.layer.pages() - first) }
    }

    fn serve(&mut self, request: Request) {
        let (pages, stream) = match request {
            Request::Write { first, count, stream } => (self.pages(first, count), stream),
            Request::Continue { count } => (self.pages(self.last, count), 0),
            Request::Read { first, count } => return self.read(self.pages(first, count)),
            Request::Trim { first, count } => {
                let pages = self.pages(first, count);
                self.layer.trim(&mut self.flash, pages);
                return self.held.retain(|&page| pages.each().all(|trimmed| trimmed.0 != page));
            }
        };
        self.write(pages, stream).unwrap();
    }

    /// Writes pages; some of them may be on the flash when it is exhausted.
    fn write(&mut self, pages: Pages, stream: u16) -> Result<(), Exhausted> {
        let written = self.layer.write(&mut self.flash, pages, stream, self.now);
        self.held.extend(pages.each().filter(|&page| self.layer.holds(page)).map(|page| page.0));
        let end = written?;
        assert!(end >= self.now, "a write ended before it began");
        self.now = end;
        self.last = pages.first.0 + pages.count;
        assert!(pages.each().all(|page| self.layer.holds(page)), "{pages:?} were written");
        Ok(())
    }

    /// The ledger checks what is read; that nothing is left out is checked here.
    fn read(&mut self, pages: Pages) {
        let before = self.flash.counts().pages_read(Cause::Host);
        self.now = self.now.max(self.layer.read(&mut self.flash, pages, self.now));
        let read = self.flash.counts().pages_read(Cause::Host) - before;
        let expected = pages.each().filter(|page| self.held.contains(&page.0)).count();
        assert_eq!(read, expected as u64, "pages read of {pages:?}");
    }

    fn verify(&self) {
        for page in 0..self.layer.pages() {
            assert_eq!(self.layer.holds(LogicalPage(page)), self.held.contains(&page), "page {page} is held");
        }
        self.layer.verified(&self.flash).unwrap();
    }
}

/// Serves the requests with and without times and checks everything.
fn conserves<L: Verified>(array: &Array, layer: L, requests: &[Request]) -> Subject<L, Untimed> {
    let geometry = array.geometry();
    let mut timed = Subject::new(layer.clone(), geometry, array.resources());
    let mut untimed = Subject::new(layer, geometry, Untimed);
    for (i, &request) in requests.iter().enumerate() {
        timed.serve(request);
        untimed.serve(request);
        if i % 8 == 0 {
            untimed.verify();
        }
    }
    let all = untimed.pages(0, u32::MAX);
    timed.read(all);
    untimed.read(all);
    untimed.verify();
    let state = |layer: &L| serde_json::to_string(layer).unwrap();
    assert_eq!(state(&timed.layer), state(&untimed.layer), "times changed the layer");
    assert_eq!(timed.flash.blocks(), untimed.flash.blocks(), "times changed the array");
    assert_eq!(timed.flash.counts(), untimed.flash.counts(), "times changed what was done");
    untimed
}

/// Writes until blocks that fail leave no spare one; what is held must be there still. Each die has one block more than
/// it needs.
fn wears_out<L: Verified>(array: &Array, layer: L, reliability: Reliability) {
    let mut subject = Subject::new(layer, array.geometry(), Untimed);
    subject.flash = subject.flash.with_reliability(reliability);
    let mut random = Prng::new(reliability.seed);
    let exhausted = loop {
        let pages = subject.pages(random.next_u64() as u32, 1 + random.below(8) as u32);
        if let Err(exhausted) = subject.write(pages, 0) {
            break exhausted;
        }
    };
    assert!(exhausted.reason.contains("spare block"), "{exhausted}");
    subject.verify();
    subject.read(subject.pages(0, u32::MAX));
    let mut failed = vec![0; array.dies as usize];
    for block in array.geometry().main_blocks().filter(|&block| subject.flash.failed(block)) {
        failed[array.geometry().die(block).index()] += 1;
    }
    assert!(failed.iter().any(|&failed| failed > 1), "exhausted with {failed:?} failed blocks by die");
}

/// The state survives being saved, and a damaged one is looked at without a panic.
fn is_saved<L: Verified + PartialEq + DeserializeOwned>(
    subject: &Subject<L, Untimed>,
    damage: (u32, u32),
    check: impl Fn(&L, &Flash<Untimed>) -> Result<(), String>,
) {
    let saved = serde_json::to_value(&subject.layer).unwrap();
    let loaded: L = serde_json::from_value(saved.clone()).unwrap();
    assert!(loaded == subject.layer, "the state that was saved");
    assert_eq!(check(&loaded, &subject.flash), Ok(()));
    let mut damaged = saved;
    let mut numbers = Vec::new();
    collect_numbers(&mut damaged, &mut numbers);
    let index = damage.0 as usize % numbers.len();
    *numbers[index] = damage.1.into();
    if let Ok(loaded) = serde_json::from_value::<L>(damaged) {
        let _ = check(&loaded, &subject.flash);
    }
}

fn collect_numbers<'a>(value: &'a mut serde_json::Value, numbers: &mut Vec<&'a mut serde_json::Value>) {
    match value {
        serde_json::Value::Number(_) => numbers.push(value),
        serde_json::Value::Array(values) => {
            values.iter_mut().for_each(|value| collect_numbers(value, numbers))
        }
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(|value| collect_numbers(value, numbers));
        }
        _ => {}
    }
}

/// How many logical pages fit when each die keeps `spare` blocks, less a few so that stripes may end unevenly.
fn logical_pages(array: &Array, spare: u32, stripe_pages: u32, less: u32) -> u32 {
    let room = (array.blocks_per_die - spare) * array.planes * array.multi_plane_pages;
    let most = room / stripe_pages * stripe_pages * array.dies;
    most - less % (most / 2)
}

prop_compose! {
    fn any_log_blocks()(
        logs in 0u32..4,
        stripe_pages in 1u32..20,
        order in prop::sample::select(vec![
            LogOrder::Any,
            LogOrder::Adjoining,
            LogOrder::Forward,
            LogOrder::Next,
        ]),
        replacement in prop::sample::select(vec![Replacement::RoundRobin, Replacement::LeastRecentlyUsed]),
        switch_merges: bool,
    ) -> LogBlocksOptions {
        LogBlocksOptions { stripe_pages, logs, order, replacement, switch_merges, ..LogBlocksOptions::default() }
    }
}

prop_compose! {
    fn any_page_map()(
        policy in prop_oneof![
            Just(VictimPolicy::Greedy),
            Just(VictimPolicy::Fifo),
            Just(VictimPolicy::CostBenefit),
            (1u32..5).prop_map(VictimPolicy::Choices),
        ],
        striping in prop::sample::select(vec![Striping::WriteOrder, Striping::Static]),
        streams in 1u16..4,
        hot_within in prop::option::of(1u32..200),
        collect_apart: bool,
        low_watermark in 1u32..3,
        level_free_blocks: bool,
        wear_spread in prop::option::of(2u32..10),
        seed: u64,
    ) -> PageMapOptions {
        PageMapOptions {
            policy,
            striping,
            streams: if hot_within.is_some() { streams.max(2) } else { streams },
            hot_within,
            collect_apart,
            low_watermark,
            level_free_blocks,
            wear_spread,
            seed: Seed(seed),
            ..PageMapOptions::default()
        }
    }
}

prop_compose! {
    fn any_reliability()(endurance in 2u32..12, seed: u64) -> Reliability {
        let seed = Seed(seed);
        Reliability { endurance, endurance_spread_percent: 50, seed, ..Reliability::default() }
    }
}

fn any_damage() -> impl Strategy<Value = (u32, u32)> {
    (any::<u32>(), prop_oneof![Just(0), Just(u32::MAX), 0..100u32, any::<u32>()])
}

proptest! {
    #[test]
    fn log_blocks_conserve(
        array in any_array(),
        options in any_log_blocks(),
        less: u32,
        requests in any_requests(),
        damage in any_damage(),
    ) {
        let stripe_pages = options.stripe_pages.min(array.planes * array.multi_plane_pages);
        let logical_pages = logical_pages(&array, options.extra_blocks(), stripe_pages, less);
        let options = LogBlocksOptions { logical_pages, stripe_pages, ..options };
        let fresh = LogBlocks::new(&array.geometry(), &options).unwrap();
        let subject = conserves(&array, fresh.clone(), &requests);
        is_saved(&subject, damage, |layer, flash| layer.check(&options, flash));
    }

    #[test]
    fn shared_logs_conserve(
        array in any_array(),
        logs in 1u32..4,
        stripe_pages in 1u32..20,
        less: u32,
        requests in any_requests(),
        damage in any_damage(),
    ) {
        let stripe_pages = stripe_pages.min(array.planes * array.multi_plane_pages);
        let options = SharedLogsOptions { stripe_pages, logs, ..SharedLogsOptions::default() };
        let logical_pages = logical_pages(&array, options.extra_blocks(), stripe_pages, less);
        let options = SharedLogsOptions { logical_pages, ..options };
        let fresh = SharedLogs::new(&array.geometry(), &options).unwrap();
        let subject = conserves(&array, fresh.clone(), &requests);
        is_saved(&subject, damage, |layer, flash| layer.check(&options, flash));
    }

    #[test]
    fn page_maps_conserve(
        array in any_array(),
        options in any_page_map(),
        less: u32,
        requests in any_requests(),
    ) {
        let open = u32::from(options.streams) * if options.collect_apart { 2 } else { 1 };
        let spare = open + options.low_watermark + 1;
        let array = Array { blocks_per_die: array.blocks_per_die + spare, ..array };
        let options = PageMapOptions { logical_pages: logical_pages(&array, spare, 1, less), ..options };
        conserves(&array, PageMap::new(&array.geometry(), &options).unwrap(), &requests);
    }

    #[test]
    fn a_worn_array_with_log_blocks_can_be_read(
        array in any_array(),
        options in any_log_blocks(),
        reliability in any_reliability(),
    ) {
        let array = Array { blocks_per_die: array.blocks_per_die + 1, ..array };
        let logical_pages = logical_pages(&array, options.extra_blocks() + 1, 1, 0);
        let options = LogBlocksOptions { logical_pages, stripe_pages: 1, reliability: Some(reliability), ..options };
        wears_out(&array, LogBlocks::new(&array.geometry(), &options).unwrap(), reliability);
    }

    #[test]
    fn a_worn_array_with_shared_logs_can_be_read(
        array in any_array(),
        logs in 1u32..4,
        reliability in any_reliability(),
    ) {
        let array = Array { blocks_per_die: array.blocks_per_die + 1, ..array };
        let options = SharedLogsOptions { logs, stripe_pages: 1, ..SharedLogsOptions::default() };
        let logical_pages = logical_pages(&array, options.extra_blocks() + 1, 1, 0);
        let options = SharedLogsOptions { logical_pages, reliability: Some(reliability), ..options };
        wears_out(&array, SharedLogs::new(&array.geometry(), &options).unwrap(), reliability);
    }
}
