//! A device whose response times were measured: a regression tree over the history of its requests.
//!
//! # Model
//! Features of a request and of what came before it ([`RequestHistory`]) lead through the [`ResponseTree`] to a leaf, which has the
//! response times that were measured in such a situation (Wang and others, "Storage Device Performance Prediction with CART
//! Models", MASCOTS 2004). A leaf's times are dealt like cards: each comes once before one comes twice, so that a run of the length of
//! the measured one has its mean and its quantiles.
//!
//! A request larger or smaller than any that the leaf was measured with takes longer or shorter by the ratio that the throughput
//! model has between the two sizes.
//!
//! # Invariants
//! - What was in flight together does not wait: the wait is in the measured response times.
//! - The device reproduces what was measured, and claims no cause: it has no flash, and no state but its history.

mod history;

use flashlab_base::{Bytes, Identity, Nanos, Prng};
use flashlab_device::{
    Completion, Conditioning, Device, Geometry, IoError, Operation, Request, VirtualQueue, VirtualTime,
};
pub use history::{RequestFeature, RequestFeatures, RequestHistory};

use crate::noise::NoiseSource;
use crate::profile::{Profile, ResponseTree, Throughput, ThroughputClass, TreeLeaf};

/// The most IOs in flight.
const DEPTH: u32 = 1024;
/// The cards of a leaf at most: a leaf of more response times is dealt as parts of its distribution. With fewer parts its rarest times
/// come too seldom in a run, or too often.
const CARDS_MOST: u64 = 1 << 14;

/// A device of measured response times.
#[derive(Debug)]
pub struct ResponseTreeDevice {
    profile: Profile,
    model: Throughput,
    tree: ResponseTree,
    /// By leaf: the cards that are still to be dealt.
    decks: Vec<Vec<u16>>,
    history: RequestHistory,
    random: Prng,
    noise: NoiseSource,
    queue: VirtualQueue,
}

impl ResponseTreeDevice {
    /// The device that `profile` describes.
    pub(crate) fn new(profile: &Profile, model: Throughput, tree: &ResponseTree) -> ResponseTreeDevice {
        ResponseTreeDevice {
            model,
            decks: vec![Vec::new(); tree.leaves.len()],
            history: RequestHistory::new(tree.slow_write),
            random: Prng::new(tree.seed),
            noise: NoiseSource::new(profile.noise.unwrap_or_default()),
            queue: VirtualQueue::new(DEPTH),
            tree: tree.clone(),
            // The device's copy needs no second tree.
            profile: Profile { response_tree: None, ..profile.clone() },
        }
    }

    fn serve(&mut self, request: &Request) -> Result<Nanos, IoError> {
        let now = self.queue.now();
        let Some(mode) = request.operation.mode() else {
            let checked = self.geometry().check(request.offset, request.size);
            return if request.operation == Operation::Flush { Ok(now) } else { checked.map(|()| now) };
        };
        self.geometry().check(request.offset, request.size)?;
        let writes = mode.is_write();
        let features = self.history.features(now, writes, request.offset, request.size);
        let index = self.tree.leaf(&features);
        let within = self.dealt(index);
        let leaf = &self.tree.leaves[index];
        let ns = leaf.quantile(within) * self.size_factor(leaf, writes, &features, request.size);
        let response = self.noise.disturbed(ns).max(Nanos(1));
        let done = now.saturating_add(response);
        self.history.completes(writes, done, self.model.slowness(request.size, response));
        Ok(done)
    }

    /// The next share of a leaf's distribution, from 0 to 1.
    fn dealt(&mut self, leaf: usize) -> f64 {
        let all = self.tree.leaves[leaf].count();
        let cards = all.min(CARDS_MOST);
        let deck = &mut self.decks[leaf];
        if deck.is_empty() {
            deck.extend(0..cards as u16);
            for at in (1..deck.len()).rev() {
                deck.swap(at, self.random.below(at as u64 + 1) as usize);
            }
        }
        let card = f64::from(deck.pop().unwrap_or(0));
        let within = if all > cards { self.random.unit() } else { 0.5 };
        (card + within) / cards as f64
    }

    /// How much longer this size takes than the nearest that the leaf was measured with.
    fn size_factor(&self, leaf: &TreeLeaf, writes: bool, features: &RequestFeatures, size: Bytes) -> f64 {
        let nearest = size.clamp(leaf.smallest, leaf.largest);
        if nearest == size {
            return 1.0;
        }
        let is_sequential = features[RequestFeature::StreamLag as usize] == 1.0;
        let line = self.model.line(ThroughputClass::of(writes, is_sequential));
        line.time_ns(size).max(1.0) / line.time_ns(nearest).max(1.0)
    }
}

impl Device for ResponseTreeDevice {
    fn geometry(&self) -> Geometry {
        self.profile.geometry(DEPTH)
    }

    fn identity(&self) -> Identity {
        self.profile.identity()
    }

    fn now(&mut self) -> Nanos {
        self.queue.now()
    }

    fn submit(&mut self, request: Request) {
        let served = self.serve(&request);
        let done = *served.as_ref().unwrap_or(&self.queue.now());
        self.queue.push(request, done, served.map(drop));
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.wait(until)
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        Some(&mut self.queue)
    }

    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        Some(self)
    }
}

impl Conditioning for ResponseTreeDevice {
    /// The measured device was in its state already: there is nothing to bring about.
    fn condition(&mut self, ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>) -> Result<(), IoError> {
        self.geometry().check_all(ios)
    }
}

#[cfg(test)]
mod tests {
    use flashlab_device::Buffer;

    use super::*;

    /// Small writes take 100 us, and one in four 1 ms; large ones 2 ms; reads 50 us.
    const TREE: &str = "
[response_tree]
[[response_tree.splits]]
feature = \"write\"
below = 0.5
low = -1
high = 1
[[response_tree.splits]]
feature = \"size\"
below = 20000.0
low = -2
high = -3
[[response_tree.leaves]]
smallest = \"4KiB\"
largest = \"64KiB\"
times = [[1, 50000]]
[[response_tree.leaves]]
smallest = \"4KiB\"
largest = \"4KiB\"
times = [[48, 100000], [16, 1000000]]
[[response_tree.leaves]]
smallest = \"64KiB\"
largest = \"64KiB\"
times = [[1, 2000000]]
";

    fn profile(from: &str, to: &str) -> Result<Profile, crate::ProfileError> {
        Profile::parse(&format!("{}{}", include_str!("../profiles/zeus.toml"), TREE.replace(from, to)), "t")
    }

    fn timed(device: &mut dyn Device, operation: Operation, at: u64, size: Bytes) -> f64 {
        let request = Request { tag: 0, operation, offset: Bytes(at), size, buffer: Buffer::empty() };
        device.submit(request);
        let done = device.wait(Nanos::MAX).unwrap();
        done.result.unwrap();
        done.completed.since(done.submitted).0 as f64 / 1e3
    }

    #[test]
    fn each_situation_has_its_times_and_each_comes_once() {
        let mut device = profile("", "").unwrap().device().unwrap();
        let mut times: Vec<f64> = (0..64)
            .map(|at| timed(&mut device, Operation::Write, (at * 7919 % 500) << 20, Bytes::kib(4)))
            .collect();
        times.sort_by(f64::total_cmp);
        assert_eq!((times[47], times[48]), (100.0, 1000.0));
        assert_eq!(timed(&mut device, Operation::Write, 0, Bytes::kib(64)), 2000.0);
        assert_eq!(timed(&mut device, Operation::Read, 0, Bytes::kib(8)), 50.0);
        // A size that was not measured: by the ratio of T(8 KiB) to T(4 KiB) of the Zeus, at most 1 ms times that.
        let larger = timed(&mut device, Operation::Write, 9 << 20, Bytes::kib(8));
        assert!((100.0..=1000.0 * 1.2).contains(&larger) && larger != 100.0 && larger != 1000.0, "{larger}");
    }

    #[test]
    fn requests_in_flight_together_do_not_wait_for_each_other() {
        let mut device = profile("", "").unwrap().device().unwrap();
        for tag in 0..3 {
            let (offset, size) = (Bytes::mib(tag * 9), Bytes::kib(4));
            device.submit(Request { tag, operation: Operation::Read, offset, size, buffer: Buffer::empty() });
        }
        let done: Vec<u64> = std::iter::from_fn(|| device.wait(Nanos::MAX)).map(|c| c.completed.0).collect();
        assert_eq!(done, [50_000; 3]);
    }

    #[test]
    fn a_tree_is_printed_and_read_back_and_a_broken_one_is_refused() {
        let good = profile("", "").unwrap();
        assert_eq!(Profile::parse(&good.to_toml(), "printed"), Ok(good.clone()));
        assert_eq!(good.kind(), "response tree");
        let error = |from: &str, to: &str| profile(from, to).unwrap_err().to_string();
        insta::assert_snapshot!(error("high = 1", "high = 2"), @"profile t: `response_tree.splits[0].high` is 2; it may be a later split, below 2, or a leaf, -3 to -1");
        for (from, to) in [("high = 1", "high = 0"), ("low = -2", "low = -9"), ("below = 0.5", "below = nan")]
        {
            let refused = error(from, to);
            assert!(refused.starts_with("profile t: `response_tree.splits["), "{refused}");
        }
        let refused = error("[[1, 50000]]", "[]");
        assert!(
            refused.starts_with("profile t: `response_tree.leaves[0].times` is []; it may be"),
            "{refused}"
        );
    }
}
