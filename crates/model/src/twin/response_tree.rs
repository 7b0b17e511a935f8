//! The twin without a mechanism: a regression tree over the history of requests, whose leaves have the response times measured.
//!
//! # Model
//! A black box is predicted from its requests and their recent past (Wang and others, "Storage Device Performance Prediction with
//! CART Models", MASCOTS 2004). They split by the variance of response times; here a split has to change their distribution, so
//! that a leaf has the device's quantiles, too.
//!
//! # Method
//! 1. Each IO of the run gets its features, from the code that the simulated device uses ([`RequestHistory`]).
//! 2. The leaf and the split with the largest gain come next (best first). The gain is the log-likelihood ratio of two
//!    distributions against one: of the response times, over the quantiles of the leaf as classes, and of the points of the
//!    benchmark that the IOs belong to.
//!    A split by what the request itself is comes before one by its past: the past of a twin's request is not quite that of
//!    the device's. The time since the last write and the scattered writes before it say which point it is only where the order of the
//!    points stays the same; they gain by response times alone.
//!    The backlog comes last, where no other feature gains: it says when a stall is due within a pattern, and not which pattern it is. It
//!    splits only where more backlog is slower. Otherwise a stall that the twin draws would lead to a leaf in which stalls follow each other.
//! 3. It ends where no split gains enough, or with [`LEAVES_MOST`] leaves.
//!
//! Points count because the response times of a device have heavy tails: a merge of 300 ms in every 200 writes decides their mean,
//! and is so seldom that response times alone do not show in which pattern it happens.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use flashlab_base::{Bytes, Nanos, Sample, Seed};
use flashlab_sim::Profile;
use flashlab_sim::profile::{ResponseTree, TreeLeaf, TreeSplit};
use flashlab_sim::response_tree::{RequestFeature, RequestFeatures, RequestHistory};

use crate::performance_model::range_of;

use super::measured::{MeasuredRun, MeasuredRuns};
use crate::ModelError;

/// IOs of a leaf at least: ten have a 90th percentile. With fewer, a leaf is a single stall; with far more, the first IOs of runs, which differ,
/// are in one leaf with the others.
const LEAF_LEAST: usize = 12;
/// A split has to gain this (natural logarithm), and [`GAIN_OF_POINT`] for each point in the leaf but the first. Twice the gain of a
/// split by chance is distributed as chi squared, with a degree of freedom for each class and each point but the first: with the 17 of
/// the classes, 48 comes up with a probability of 1e-4, and hundreds of thresholds are tried. Below, splits fit the noise.
const GAIN_LEAST: f64 = 24.0;
const GAIN_OF_POINT: f64 = 2.0;
/// Leaves at most: a bound for the profile's size. The largest tree of `cargo xtask twin-score --devices 4 --seed 2400001` has 1300.
const LEAVES_MOST: usize = 2048;
/// Thresholds of a feature that are looked at in a leaf: its values there, or where they are more, its quantiles.
const THRESHOLDS: usize = 128;
/// Values of a leaf from which these quantiles are taken at most: 32 for each.
const THRESHOLD_VALUES: usize = 32 * THRESHOLDS;
/// The classes of response times within a leaf: between these quantiles.
const CLASSES: [f64; 17] = [
    0.0625, 0.125, 0.1875, 0.25, 0.3125, 0.375, 0.4375, 0.5, 0.5625, 0.625, 0.6875, 0.75, 0.8125, 0.875,
    0.9375, 0.98, 0.995,
];
/// Response times within this factor are one in a leaf. The quantiles of a twin are off by half of it at most.
const ALIKE: f64 = 1.03;

/// Examples at most: a bound for memory, of which each takes [`Ground`] 190 bytes. A benchmark of 500 runs has as many. Where a run has more
/// than its share, every second or every nth of its IOs is an example; points count alike, however many IOs they have.
const EXAMPLES_MOST: u64 = 2 << 20;

/// The profile with a tree of these runs.
///
/// # Errors
/// When the runs have no IOs, or their samples are damaged.
pub(super) fn tree_profile(
    measured: &MeasuredRuns,
    plain: &Profile,
    takes: impl Fn(&MeasuredRun) -> bool,
) -> Result<Profile, ModelError> {
    let runs: Vec<&MeasuredRun> = measured.runs.iter().filter(|run| takes(run)).collect();
    profile_of(&runs, plain, |run| measured.served(run))
}

/// The same of runs whose IOs `served` gives: those that did not fail, in the order of their submission. A run is read twice, so that one at
/// a time is in memory.
fn profile_of(
    runs: &[&MeasuredRun],
    plain: &Profile,
    served: impl Fn(&MeasuredRun) -> Result<Vec<Sample>, ModelError>,
) -> Result<Profile, ModelError> {
    let no_ios = || ModelError::Input("the run has no IOs".to_owned());
    let model = plain.throughput.as_ref().ok_or_else(no_ios)?;
    let share = share_of(runs.iter().map(|run| run.ios.iter().sum()), EXAMPLES_MOST);
    let step = |ios: &[Sample]| (ios.len() as u64).div_ceil(share).max(1) as usize;

    let mut writes: Vec<(f64, f64)> = Vec::new();
    for run in runs.iter().filter(|run| run.pattern.writes()) {
        let ios = served(run)?;
        let examples = ios.iter().step_by(step(&ios)).filter(|sample| sample.mode.is_write());
        writes.extend(examples.map(|sample| {
            (model.slowness(sample.size, sample.response()).max(1e-3).ln(), sample.response().0 as f64)
        }));
    }
    let slow_write = slow_write(writes);

    let (mut history, mut latest) = (RequestHistory::new(slow_write), Nanos::ZERO);
    let mut points: Vec<String> = Vec::new();
    let mut ground = Ground::new();
    for run in runs {
        let name = run.point_name();
        let point = points.iter().position(|known| *known == name).unwrap_or_else(|| {
            points.push(name);
            points.len() - 1
        }) as u32;
        let ios = served(run)?;
        let step = step(&ios);
        for (at, sample) in ios.iter().enumerate() {
            if sample.submitted < latest {
                // A resumed run on a device whose clock began anew.
                history = RequestHistory::new(slow_write);
            }
            latest = sample.submitted;
            let writes = sample.mode.is_write();
            let features = history.features(sample.submitted, writes, sample.offset, sample.size);
            let slowness = model.slowness(sample.size, sample.response());
            history.completes(writes, sample.completed, slowness);
            if at.is_multiple_of(step) {
                ground.add(features, sample.size, sample.response().0.max(1), point);
            }
        }
    }
    let tree = ground.grown(slow_write).ok_or_else(no_ios)?;
    Ok(Profile { response_tree: Some(tree), noise: None, ..plain.clone() })
}

/// The most that each may have, so that all have at most `most` together and no more is taken from any than has to be.
fn share_of(counts: impl Iterator<Item = u64>, most: u64) -> u64 {
    let mut counts: Vec<u64> = counts.collect();
    counts.sort_unstable();
    let (mut left, all) = (most, counts.len() as u64);
    for (&count, others) in counts.iter().zip((1..=all).rev()) {
        let share = (left / others).max(1);
        if count > share {
            return share;
        }
        left -= count.min(left);
    }
    u64::MAX
}

/// The slowness from which writes are slow, of their slownesses as logarithms and the times that they took: the two classes of writes that
/// differ most, each write with its time as its weight (Otsu 1979).
fn slow_write(mut times: Vec<(f64, f64)>) -> f64 {
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sum = |part: &[(f64, f64)]| {
        part.iter().fold((0.0, 0.0), |(w, x), &(log, weight)| (w + weight, x + weight * log))
    };
    let all = sum(&times);
    let (mut low, mut best) = ((0.0, 0.0), (0.0, 0.0));
    for pair in times.windows(2) {
        let (log, weight) = pair[0];
        low = (low.0 + weight, low.1 + weight * log);
        let high = (all.0 - low.0, all.1 - low.1);
        let between = low.0 * high.0 * (high.1 / high.0 - low.1 / low.0).powi(2);
        if pair[1].0 > log && between > best.0 {
            best = (between, 0.5 * (log + pair[1].0));
        }
    }
    if best.0 > 0.0 { best.1.exp() } else { 0.0 }
}

/// A leaf of the growing tree, and its best split.
struct Growing {
    gain: f64,
    /// Its number among the leaves.
    leaf: usize,
    /// The examples of the leaf are `order[from..to]`.
    from: usize,
    to: usize,
    feature: usize,
    /// What is less goes to the low side.
    below: f64,
}

impl PartialEq for Growing {
    fn eq(&self, other: &Growing) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Growing {}

impl PartialOrd for Growing {
    fn partial_cmp(&self, other: &Growing) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Growing {
    fn cmp(&self, other: &Growing) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.leaf.cmp(&self.leaf))
    }
}

/// What the tree grows from: IOs to learn from, by column.
struct Ground {
    sizes: Vec<Bytes>,
    responses: Vec<u64>,
    /// The numbers of the points that they belong to.
    points: Vec<u32>,
    /// By feature and example.
    values: Vec<Vec<f64>>,
}

/// Where a branch of the tree leads.
#[derive(Clone, Copy)]
enum Branch {
    Split(usize),
    Leaf(usize),
}

impl Ground {
    fn new() -> Ground {
        let values = vec![Vec::new(); RequestFeature::ALL.len()];
        Ground { sizes: Vec::new(), responses: Vec::new(), points: Vec::new(), values }
    }

    fn add(&mut self, features: RequestFeatures, size: Bytes, response: u64, point: u32) {
        self.sizes.push(size);
        self.responses.push(response);
        self.points.push(point);
        self.values.iter_mut().zip(features).for_each(|(values, value)| values.push(value));
    }

    /// `None` without an example.
    fn grown(&self, slow_write: f64) -> Option<ResponseTree> {
        let examples = self.responses.len();
        if examples == 0 {
            return None;
        }
        let mut order: Vec<u32> = (0..examples as u32).collect();
        let mut ranges = vec![(0, examples)];
        let mut splits: Vec<(usize, f64, [Branch; 2])> = Vec::new();
        // By leaf: the split that leads to it, and on which side.
        let mut parents: Vec<Option<(usize, usize)>> = vec![None];
        let mut candidates: BinaryHeap<Growing> =
            self.best_split(&order, 0, (0, examples)).into_iter().collect();
        while let Some(best) = candidates.pop().filter(|_| ranges.len() < LEAVES_MOST) {
            let Growing { leaf, from, to, feature, below, .. } = best;
            let part = &mut order[from..to];
            let is_low = |&example: &u32| self.values[feature][example as usize] < below;
            part.sort_by_key(|example| !is_low(example));
            let middle = from + part.partition_point(is_low);
            let (split, high) = (splits.len(), ranges.len());
            if let Some((parent, side)) = parents[leaf] {
                splits[parent].2[side] = Branch::Split(split);
            }
            splits.push((feature, below, [Branch::Leaf(leaf), Branch::Leaf(high)]));
            parents[leaf] = Some((split, 0));
            parents.push(Some((split, 1)));
            ranges[leaf] = (from, middle);
            ranges.push((middle, to));
            for leaf in [leaf, high] {
                candidates.extend(self.best_split(&order, leaf, ranges[leaf]));
            }
        }
        let number = |branch: Branch| match branch {
            Branch::Split(split) => split as i64,
            Branch::Leaf(leaf) => -1 - leaf as i64,
        };
        let splits = splits.into_iter().map(|(feature, below, [low, high])| TreeSplit {
            feature: RequestFeature::ALL[feature],
            below,
            low: number(low),
            high: number(high),
        });
        let leaves = ranges.iter().map(|&(from, to)| self.leaf_of(&order[from..to]));
        Some(ResponseTree { seed: Seed(1), slow_write, splits: splits.collect(), leaves: leaves.collect() })
    }

    /// The split of a leaf that gains most; `None` where none gains enough.
    fn best_split(&self, order: &[u32], leaf: usize, (from, to): (usize, usize)) -> Option<Growing> {
        let part = &order[from..to];
        if part.len() < 2 * LEAF_LEAST {
            return None;
        }
        let (classes, point_count) = self.classes(part);
        let least = GAIN_LEAST + GAIN_OF_POINT * (point_count - 1) as f64;
        let width = CLASSES.len() + 1 + point_count;
        let mut all = vec![0; width];
        classes.iter().flatten().for_each(|&class| all[usize::from(class)] += 1);
        let mut best: Option<Growing> = None;
        for (feature, values) in self.values.iter().enumerate() {
            let known = RequestFeature::ALL[feature];
            if best
                .as_ref()
                .is_some_and(|best| precedence(RequestFeature::ALL[best.feature]) < precedence(known))
            {
                break;
            }
            let is_backlog = known == RequestFeature::Backlog;
            let by_point =
                !matches!(known, RequestFeature::SinceWrite | RequestFeature::Scattered) && !is_backlog;
            let likelihood = |counts: &[u32]| log_likelihood(counts, by_point);
            let whole = likelihood(&all);
            let some = part.iter().step_by(part.len().div_ceil(THRESHOLD_VALUES));
            let thresholds = thresholds_of(some.map(|&example| values[example as usize]).collect());
            let mut counts = vec![0_u32; (thresholds.len() + 1) * width];
            let mut sums = vec![0.0_f64; thresholds.len() + 1];
            for (&example, classes) in part.iter().zip(&classes) {
                let value = values[example as usize];
                let bin = thresholds.partition_point(|&threshold| threshold <= value);
                sums[bin] += self.responses[example as usize] as f64;
                classes.iter().for_each(|&class| counts[bin * width + usize::from(class)] += 1);
            }
            let (mut low, mut low_sum) = (vec![0; width], 0.0);
            let sum: f64 = sums.iter().sum();
            for ((&below, count), bin_sum) in thresholds.iter().zip(counts.chunks(width)).zip(&sums) {
                low_sum += bin_sum;
                if count.iter().all(|&count| count == 0) {
                    continue;
                }
                low.iter_mut().zip(count).for_each(|(low, count)| *low += count);
                let low_count = low[..=CLASSES.len()].iter().sum::<u32>() as usize;
                if low_count < LEAF_LEAST || part.len() - low_count < LEAF_LEAST {
                    continue;
                }
                if is_backlog && low_sum * part.len() as f64 > sum * low_count as f64 {
                    continue;
                }
                let high: Vec<u32> = all.iter().zip(&low).map(|(all, low)| all - low).collect();
                let gain = likelihood(&low) + likelihood(&high) - whole;
                if gain > best.as_ref().map_or(least, |best| best.gain) {
                    best = Some(Growing { gain, leaf, from, to, feature, below });
                }
            }
        }
        best
    }

    /// The classes of each example: between which quantiles of the leaf its response time is, and which of the leaf's points it
    /// belongs to; and the number of these points.
    fn classes(&self, part: &[u32]) -> (Vec<[u16; 2]>, usize) {
        let mut sorted: Vec<u64> = part.iter().map(|&example| self.responses[example as usize]).collect();
        sorted.sort_unstable();
        let limits = CLASSES.map(|quantile| sorted[(quantile * (sorted.len() - 1) as f64) as usize]);
        let mut points: Vec<u32> = part.iter().map(|&example| self.points[example as usize]).collect();
        points.sort_unstable();
        points.dedup();
        let class = |&example: &u32| {
            let response = self.responses[example as usize];
            let point = points.partition_point(|&point| point < self.points[example as usize]);
            [limits.partition_point(|&limit| limit < response) as u16, (CLASSES.len() + 1 + point) as u16]
        };
        (part.iter().map(class).collect(), points.len())
    }

    fn leaf_of(&self, part: &[u32]) -> TreeLeaf {
        let mut responses: Vec<u64> = part.iter().map(|&example| self.responses[example as usize]).collect();
        responses.sort_unstable();
        let alike = responses.chunk_by({
            let mut first = responses.first().copied().unwrap_or(0);
            move |_, &next| {
                let is_alike = next as f64 <= first as f64 * ALIKE;
                if !is_alike {
                    first = next;
                }
                is_alike
            }
        });
        let times = alike.map(|group| {
            let sum: u128 = group.iter().map(|&ns| u128::from(ns)).sum();
            (group.len() as u64, (sum / group.len() as u128) as u64)
        });
        let [smallest, largest] =
            range_of(part.iter().map(|&example| self.sizes[example as usize])).unwrap_or_default();
        TreeLeaf { smallest, largest, times: times.collect() }
    }
}

/// A split by a feature of lower precedence comes before all others. [`RequestFeature::ALL`] is in this order.
fn precedence(feature: RequestFeature) -> u8 {
    match feature {
        RequestFeature::Backlog => 2,
        feature if feature.is_of_the_request() => 0,
        _ => 1,
    }
}

/// The sum of n ln (n / N), of the response times and, `by_point`, of the points.
fn log_likelihood(counts: &[u32], by_point: bool) -> f64 {
    let (responses, points) = counts.split_at(CLASSES.len() + 1);
    let all = f64::from(responses.iter().sum::<u32>());
    let sum = |counts: &[u32]| {
        let each = counts.iter().filter(|&&count| count > 0);
        each.map(|&count| f64::from(count) * (f64::from(count) / all).ln()).sum::<f64>()
    };
    sum(responses) + if by_point { sum(points) } else { 0.0 }
}

/// Between the values of a feature; of many values, between quantiles.
fn thresholds_of(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    let quantiles: Vec<f64> =
        (0..=THRESHOLDS).map(|at| values[at * (values.len() - 1) / THRESHOLDS]).collect();
    values.dedup();
    if values.len() > THRESHOLDS {
        values = quantiles;
        values.dedup();
    }
    let between = |pair: &[f64]| {
        let (low, high) = (pair[0], pair[1]);
        // Sizes and times differ by factors. A value that is not measured goes to the side it is nearer to.
        if low > 0.0 { (low * high).sqrt() } else { (low + high) / 2.0 }
    };
    values.windows(2).map(between).collect()
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Mode, Prng};
    use flashlab_bench::Purpose;
    use flashlab_plan::Pattern;

    use super::*;

    /// Reads take 100 us, and sequential writes too; random writes within 1 MiB take 200 us, and elsewhere every eighth takes 9 ms.
    fn samples(ios: u64) -> Vec<Sample> {
        let mut random = Prng::new(Seed(5));
        let mut now = Nanos::ZERO;
        let sample = |at: u64| {
            let (mode, page, us) = match at * 4 / ios {
                0 => (Mode::Read, random.below(4096), 100),
                1 => (Mode::Write, at, 100),
                2 => (Mode::Write, random.below(32), 200),
                _ => (Mode::Write, random.below(4096), if at.is_multiple_of(8) { 9000 } else { 300 }),
            };
            let (submitted, completed) = (now, now + Nanos::from_micros(us));
            now = completed;
            let (offset, size) = (Bytes::kib(32) * page, Bytes::kib(32));
            let intended = submitted;
            Sample { position: at, process: 0, mode, offset, size, intended, submitted, completed, errno: 0 }
        };
        (0..ios).map(sample).collect()
    }

    /// The profile of the same as four runs.
    fn tree_profile(samples: &[Sample]) -> Profile {
        let each = samples.len() / 4;
        let run = |(number, name): (u32, &str)| MeasuredRun {
            is_undecided: false,
            number,
            purpose: Purpose::Baseline { pattern: name.to_owned() },
            pattern: Pattern::baseline(if number == 0 { "SR" } else { "SW" }).unwrap(),
            seed: Seed(1),
            pause: Nanos::ZERO,
            io_ignore: 0,
            ios: vec![each as u64],
            written: Bytes::ZERO,
            responses: Vec::new(),
        };
        let runs: Vec<MeasuredRun> = (0..).zip(["RR", "SW", "local", "RW"]).map(run).collect();
        let served = |run: &MeasuredRun| Ok(samples[run.number as usize * each..][..each].to_vec());
        profile_of(&runs.iter().collect::<Vec<_>>(), &zeus(), served).unwrap()
    }

    fn zeus() -> Profile {
        flashlab_sim::zoo().into_iter().find(|profile| profile.name == "zeus").unwrap()
    }

    #[test]
    fn situations_are_separated_and_keep_their_distributions() {
        let tree = tree_profile(&samples(4000)).response_tree.unwrap();
        assert!((3..20).contains(&tree.leaves.len()), "{tree:?}");
        let all = |leaf: &TreeLeaf| leaf.times.iter().map(|&(count, _)| count).sum::<u64>();
        assert_eq!(tree.leaves.iter().map(all).sum::<u64>(), 4000);
        let slow: Vec<&TreeLeaf> =
            tree.leaves.iter().filter(|leaf| leaf.times.last().unwrap().1 == 9_000_000).collect();
        let share = |count: fn(&TreeLeaf) -> u64| slow.iter().map(|leaf| count(leaf)).sum::<u64>() as f64;
        let stalls = share(|leaf| leaf.times.last().unwrap().0)
            / share(|leaf| leaf.times.iter().map(|time| time.0).sum());
        assert!((stalls - 0.125).abs() < 0.02, "{stalls} {tree:?}");
        let local = |leaf: &&TreeLeaf| leaf.times.iter().any(|&(count, ns)| ns == 200_000 && count > 900);
        assert_eq!(tree.leaves.iter().filter(local).count(), 1, "{tree:?}");
    }

    #[test]
    fn a_device_of_the_tree_has_the_times_it_was_grown_from() {
        let samples = samples(4000);
        let profile = tree_profile(&samples);
        let again = Profile::parse(&profile.to_toml(), "printed").unwrap();
        let mut device = again.device().unwrap();
        let mut served: Vec<u64> = samples
            .iter()
            .map(|sample| {
                use flashlab_device::{Buffer, Device, Request};
                let Sample { mode, offset, size, .. } = *sample;
                device.submit(Request {
                    tag: 0,
                    operation: mode.into(),
                    offset,
                    size,
                    buffer: Buffer::empty(),
                });
                let done = device.wait(Nanos::MAX).unwrap();
                done.completed.since(done.submitted).0
            })
            .collect();
        let mut measured: Vec<u64> = samples.iter().map(|sample| sample.response().0).collect();
        for responses in [&mut served, &mut measured] {
            responses.sort_unstable();
        }
        let mean = |responses: &[u64]| responses.iter().sum::<u64>() as f64 / responses.len() as f64;
        assert!((mean(&served) / mean(&measured) - 1.0).abs() < 0.05);
        for rank in [1500, 2500, 3960] {
            assert_eq!(served[rank], measured[rank]);
        }
    }

    #[test]
    fn runs_of_many_ios_give_way_to_those_of_few() {
        assert_eq!(share_of([5, 1, 3].into_iter(), 9), u64::MAX);
        assert_eq!(share_of([5, 1, 3].into_iter(), 8), 4);
        assert_eq!(share_of([500, 1, 300].into_iter(), 8), 3);
        assert_eq!(share_of([5; 10].into_iter(), 2), 1);
    }

    #[test]
    fn response_times_that_are_alike_are_one() {
        let mut ground = Ground::new();
        for response in [100, 500, 102, 103] {
            ground.add(RequestFeatures::default(), Bytes(512), response, 0);
        }
        let leaf = ground.leaf_of(&[0, 1, 2, 3]);
        assert_eq!(leaf.times, [(3, 101), (1, 500)]);
    }
}
