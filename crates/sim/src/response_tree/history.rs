//! What a request is and what came before it: the features by which a [`ResponseTree`](crate::profile::ResponseTree) decides.
//!
//! # Model
//! A black box is predicted from features of its requests and of their recent past (Wang and others, "Storage Device Performance
//! Prediction with CART Models", MASCOTS 2004). A fit and a simulated device use this same code, so that a feature means the same
//! to both.
//!
//! # Invariants
//! - The features of a request depend on the requests before it alone, on when those were done, and on how slow they were.
//! - The memory is bounded: [`OFFSETS`] offsets and [`STREAMS`] ends of each operation.

use std::collections::{BTreeMap, VecDeque};

use flashlab_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Requests whose ends are remembered. uFLIP's partitioning has up to 256 streams; with fewer its largest points look random.
const STREAMS: usize = 512;
/// Requests whose offsets are remembered: 4096 of 32 KiB are 128 MiB. A smaller memory takes rewrites for first writes.
const OFFSETS: usize = 4096;
/// A region. The log blocks and superblocks of uFLIP's devices have 256 KiB to 4 MiB.
const REGION: u64 = 1 << 20;
/// Regions whose order is remembered: devices keep fewer blocks open.
const REGIONS: usize = 128;
/// Writes of which it is remembered whether they continued a stream. Random writes that uFLIP's Mtron defers take it 2100 sequential ones.
const SCATTERED: usize = 4096;
/// Requests over which the span of offsets is taken. With 16, the range of uniformly random offsets is 0.88 of the area they are
/// in, give or take 0.08. A longer window knows more, but later.
const SPAN: usize = 16;
/// Requests over which shares of a mix are taken: the largest ratio of uFLIP's mixes is 64 to 1.
const SHARES: usize = 65;
/// An idle time from which the count of requests begins again. It lies between the longest pause within most of uFLIP's patterns
/// (3.2 ms) and the shortest between two runs (20 ms).
const LONG_IDLE: Nanos = Nanos::from_millis(5);

/// The longest idle time that differs from longer ones: uFLIP's longest pause within a run of no bursts is 25.6 ms, and the pause between
/// runs, up to 5 s, depends on the device.
const IDLE_MOST: Nanos = Nanos::from_millis(50);
/// Requests are counted up to this number: larger counts only say when in a benchmark a run was.
const COUNT_MOST: u64 = 1024;
const OTHER_MOST: u64 = 256;
/// A write is long ago after the longest lingering effect that uFLIP met, 2.5 s, four times over.
const WRITE_AGE_MOST: Nanos = Nanos::from_secs(10);

/// A property of a request, or of its past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestFeature {
    /// 1 for a write, 0 for a read.
    Write,
    /// Bytes.
    Size,
    /// Bytes: the largest power of two that divides the offset from a multiple of the size; the size itself where the request is
    /// aligned to it.
    Alignment,
    /// Requests in flight before it.
    InFlight,
    /// Bytes: the largest power of two that divides the offset.
    OffsetAlignment,
    /// Requests of the same operation since the one whose end it begins at: 1 is sequential, and 4 one of four streams.
    StreamLag,
    /// The distance from the end of the request of the same operation before it, in sizes: -1 is in place, -2 in reverse; 0 where it
    /// continues one of the streams, wherever those are.
    StreamJump,
    /// Requests of the same operation that came before it in a row with the same jump.
    SteadyJumps,
    /// Regions of 1 MiB to which the same operation went since it went to this one: 0 in the same region, 3 in one of four.
    RegionLag,
    /// Of the last writes, those that continued no stream: work that the device may still have to do.
    Scattered,
    /// Bytes between the smallest and the largest offset of the last requests of the same operation; the size alone where streams go on
    /// with the same lag as before: how far they are from each other says in which run they were measured, and nothing of their times.
    /// Random writes in a small area continue one another, too, but with another lag each.
    Span,
    /// Requests of the same operation since the same offset.
    Reuse,
    /// Nanoseconds for which the device had nothing to do before it, up to 50 ms.
    Idle,
    /// Requests since the last long idle time, up to 1024.
    SinceIdle,
    /// Nanoseconds of that idle time, up to 50 ms.
    LongIdle,
    /// Requests since the last one of the other operation, up to 256.
    SinceOther,
    /// The share of writes among the last requests.
    WriteShare,
    /// The share of sequential requests among the last.
    SequentialShare,
    /// The share of requests after a long idle time among the last.
    IdleShare,
    /// Nanoseconds since the last write was done, up to 10 s.
    SinceWrite,
    /// Bytes that writes which continued no stream have written since the last slow write: work that the device has deferred.
    Backlog,
}

impl RequestFeature {
    /// All of them.
    pub const ALL: [RequestFeature; 21] = [
        RequestFeature::Write,
        RequestFeature::Size,
        RequestFeature::Alignment,
        RequestFeature::InFlight,
        RequestFeature::OffsetAlignment,
        RequestFeature::StreamLag,
        RequestFeature::StreamJump,
        RequestFeature::SteadyJumps,
        RequestFeature::RegionLag,
        RequestFeature::Scattered,
        RequestFeature::Span,
        RequestFeature::Reuse,
        RequestFeature::Idle,
        RequestFeature::SinceIdle,
        RequestFeature::LongIdle,
        RequestFeature::SinceOther,
        RequestFeature::WriteShare,
        RequestFeature::SequentialShare,
        RequestFeature::IdleShare,
        RequestFeature::SinceWrite,
        RequestFeature::Backlog,
    ];

    /// Whether it is of the request itself, and not of what came before it.
    pub fn is_of_the_request(self) -> bool {
        matches!(
            self,
            RequestFeature::Write
                | RequestFeature::Size
                | RequestFeature::Alignment
                | RequestFeature::InFlight
        )
    }
}

/// The features of one request, in the order of [`RequestFeature::ALL`].
pub type RequestFeatures = [f64; RequestFeature::ALL.len()];

/// The requests so far.
#[derive(Clone, Debug, Default)]
pub struct RequestHistory {
    count: u64,
    /// Reads, writes.
    operations: [OperationHistory; 2],
    /// Whether each of the last requests wrote, was sequential, and came after a long idle time.
    recent: VecDeque<[bool; 3]>,
    /// When the requests in flight will be done.
    in_flight: Vec<Nanos>,
    /// When the last of the others was done.
    idle_since: Nanos,
    long_idle: Nanos,
    count_at_long_idle: u64,
    write_done: Option<Nanos>,
    /// Whether each of the last writes continued no stream, and how many of them.
    scattered: (VecDeque<bool>, u64),
    /// The slowness from which a write is slow; 0 where none is.
    slow_write: f64,
    /// Bytes of scattered writes since the last slow one.
    backlog: u64,
}

#[derive(Clone, Debug, Default)]
struct OperationHistory {
    count: u64,
    /// Of all requests, when the last one of this operation came.
    last: u64,
    end: Option<Bytes>,
    jump: Option<i128>,
    steady: u64,
    stream_lag: Option<u64>,
    ends: RecentKeys,
    offsets: RecentKeys,
    window: VecDeque<Bytes>,
    /// The regions of the last requests, each once, the latest first.
    regions: VecDeque<u64>,
}

/// When each of the most recent keys came last.
#[derive(Clone, Debug, Default)]
struct RecentKeys {
    latest: BTreeMap<u64, u64>,
    order: VecDeque<(u64, u64)>,
}

impl RecentKeys {
    /// How long ago the key came last.
    fn age(&self, key: u64, now: u64) -> Option<u64> {
        self.latest.get(&key).map(|then| now - then)
    }

    fn add(&mut self, key: u64, now: u64, most: usize) {
        self.latest.insert(key, now);
        self.order.push_back((key, now));
        while self.order.len() > most {
            if let Some((key, then)) = self.order.pop_front()
                && self.latest.get(&key) == Some(&then)
            {
                self.latest.remove(&key);
            }
        }
    }
}

impl RequestHistory {
    /// A history in which writes are slow from this slowness on; with 0 none is.
    pub fn new(slow_write: f64) -> RequestHistory {
        RequestHistory { slow_write, ..RequestHistory::default() }
    }

    /// The features of a request that comes at `now`. [`RequestHistory::completes`] has to follow.
    pub fn features(&mut self, now: Nanos, writes: bool, offset: Bytes, size: Bytes) -> RequestFeatures {
        self.count += 1;
        let done = self.in_flight.iter().filter(|&&done| done <= now).max().copied();
        self.idle_since = self.idle_since.max(done.unwrap_or(Nanos::ZERO));
        self.in_flight.retain(|&done| done > now);
        let idle = if self.in_flight.is_empty() { now.since(self.idle_since) } else { Nanos::ZERO };
        if idle >= LONG_IDLE {
            (self.long_idle, self.count_at_long_idle) = (idle.min(IDLE_MOST), self.count);
        }
        let other = self.operations[usize::from(!writes)].last;
        let of = self.operations[usize::from(writes)].next(self.count, offset, size);
        let backlog = self.backlog;
        if writes {
            self.add_write(size, of.jump != 0.0);
        }
        self.recent.push_back([writes, of.stream_lag == 1, idle >= LONG_IDLE]);
        if self.recent.len() > SHARES {
            self.recent.pop_front();
        }
        let share = |which: usize| {
            self.recent.iter().filter(|flags| flags[which]).count() as f64 / self.recent.len() as f64
        };
        [
            f64::from(u8::from(writes)),
            size.0 as f64,
            alignment(offset, size) as f64,
            self.in_flight.len() as f64,
            power_of_two(offset.0) as f64,
            of.stream_lag as f64,
            of.jump,
            of.steady as f64,
            of.region_lag as f64,
            self.scattered.1 as f64,
            of.span.0 as f64,
            of.reuse as f64,
            idle.min(IDLE_MOST).0 as f64,
            (self.count - self.count_at_long_idle).min(COUNT_MOST) as f64,
            self.long_idle.0 as f64,
            (self.count - other).min(OTHER_MOST) as f64,
            share(0),
            share(1),
            share(2),
            self.write_done.map_or(WRITE_AGE_MOST, |done| now.since(done).min(WRITE_AGE_MOST)).0 as f64,
            backlog as f64,
        ]
    }

    fn add_write(&mut self, size: Bytes, is_scattered: bool) {
        self.backlog += if is_scattered { size.0 } else { 0 };
        let (writes, count) = &mut self.scattered;
        writes.push_back(is_scattered);
        *count += u64::from(is_scattered);
        if writes.len() > SCATTERED {
            *count -= u64::from(writes.pop_front() == Some(true));
        }
    }

    /// Says when the request will be done whose features were taken last, and its [`slowness`](crate::profile::Throughput::slowness).
    pub fn completes(&mut self, writes: bool, at: Nanos, slowness: f64) {
        self.in_flight.push(at);
        if writes {
            self.write_done = Some(self.write_done.map_or(at, |before| before.max(at)));
            if self.slow_write > 0.0 && slowness >= self.slow_write {
                self.backlog = 0;
            }
        }
    }
}

/// What is known of a request from those of its operation.
struct OfOperation {
    jump: f64,
    steady: u64,
    stream_lag: u64,
    region_lag: u64,
    span: Bytes,
    reuse: u64,
}

impl OperationHistory {
    fn next(&mut self, count: u64, offset: Bytes, size: Bytes) -> OfOperation {
        self.count += 1;
        self.last = count;
        let lag = self.ends.age(offset.0, self.count);
        let from_end = self.end.map(|end| i128::from(offset.0) - i128::from(end.0));
        let jump = if lag.is_some() { Some(0) } else { from_end };
        self.steady = if jump.is_some() && jump == self.jump { self.steady + 1 } else { 0 };
        self.jump = jump;
        let end = offset + size;
        let reuse = self.offsets.age(offset.0, self.count).unwrap_or(2 * OFFSETS as u64);
        self.ends.add(end.0, self.count, STREAMS);
        self.offsets.add(offset.0, self.count, OFFSETS);
        self.end = Some(end);
        self.window.push_back(offset);
        if self.window.len() > SPAN {
            self.window.pop_front();
        }
        let is_steady_stream = lag.is_some() && lag == self.stream_lag;
        self.stream_lag = lag;
        let [least, most] = [self.window.iter().min(), self.window.iter().max()].map(|at| at.copied());
        OfOperation {
            jump: jump.map_or(0.0, |jump| jump as f64 / size.0.max(1) as f64),
            steady: self.steady,
            stream_lag: lag.unwrap_or(2 * STREAMS as u64),
            region_lag: self.region_lag(offset.0 / REGION),
            span: match is_steady_stream {
                true => size,
                false => most.unwrap_or(offset) - least.unwrap_or(offset) + size,
            },
            reuse,
        }
    }

    /// How many other regions came since this one, which becomes the latest.
    fn region_lag(&mut self, region: u64) -> u64 {
        let at = self.regions.iter().position(|&known| known == region);
        if let Some(at) = at {
            self.regions.remove(at);
        }
        self.regions.push_front(region);
        self.regions.truncate(REGIONS);
        at.unwrap_or(2 * REGIONS) as u64
    }
}

fn alignment(offset: Bytes, size: Bytes) -> u64 {
    match offset.0.checked_rem(size.0) {
        None | Some(0) => size.0,
        Some(rest) => power_of_two(rest),
    }
}

/// The largest power of two that divides a number, up to 1 GiB.
fn power_of_two(number: u64) -> u64 {
    1 << number.trailing_zeros().min(30)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(features: &RequestFeatures, which: RequestFeature) -> f64 {
        let at = RequestFeature::ALL.iter().position(|&feature| feature == which).unwrap();
        features[at]
    }

    /// The features of the last of these requests, each an offset in sizes of 32 KiB.
    fn of_offsets(offsets: &[u64]) -> RequestFeatures {
        let mut history = RequestHistory::default();
        let mut features = RequestFeatures::default();
        for (at, offset) in offsets.iter().enumerate() {
            let now = Nanos::from_millis(at as u64);
            features = history.features(now, false, Bytes::kib(32) * *offset, Bytes::kib(32));
            history.completes(false, now + Nanos::from_micros(100), 1.0);
        }
        features
    }

    #[test]
    fn patterns_differ_in_their_features() {
        use RequestFeature::{Idle, RegionLag, Reuse, Span, SteadyJumps, StreamJump, StreamLag};
        let sequential = of_offsets(&[5, 6, 7, 8]);
        assert_eq!((feature(&sequential, StreamJump), feature(&sequential, StreamLag)), (0.0, 1.0));
        let reverse = of_offsets(&[8, 7, 6, 5]);
        assert_eq!((feature(&reverse, StreamJump), feature(&reverse, SteadyJumps)), (-2.0, 2.0));
        let in_place = of_offsets(&[3, 3, 3]);
        assert_eq!((feature(&in_place, StreamJump), feature(&in_place, Reuse)), (-1.0, 1.0));
        let partitioned = of_offsets(&[0, 100, 200, 1, 101, 201, 2]);
        assert_eq!((feature(&partitioned, StreamLag), feature(&partitioned, Reuse)), (3.0, 8192.0));
        assert_eq!((feature(&partitioned, StreamJump), feature(&partitioned, RegionLag)), (0.0, 2.0));
        assert_eq!(feature(&of_offsets(&[4, 9, 1]), Span), 9.0 * 32768.0);
        let first_back = of_offsets(&[0, 100, 200, 1]);
        assert_eq!((feature(&first_back, Span), feature(&partitioned, Span)), (201.0 * 32768.0, 32768.0));
        assert_eq!(feature(&sequential, Idle), 900e3);
    }

    #[test]
    fn scattered_writes_are_remembered_for_a_while() {
        let mut history = RequestHistory::default();
        let mut write = |page: u64| {
            let features = history.features(Nanos::ZERO, true, Bytes::kib(4) * page, Bytes::kib(4));
            feature(&features, RequestFeature::Scattered)
        };
        let random: Vec<f64> = [7, 90, 4].map(&mut write).to_vec();
        assert_eq!(random, [0.0, 1.0, 2.0]);
        let sequential: Vec<f64> = (5..5 + SCATTERED as u64).map(write).collect();
        assert_eq!((sequential[0], sequential[SCATTERED - 3], sequential[SCATTERED - 1]), (2.0, 2.0, 0.0));
    }

    #[test]
    fn scattered_writes_are_a_backlog_until_a_slow_one() {
        let mut history = RequestHistory::new(10.0);
        let mut write = |page: u64, slowness: f64| {
            let features = history.features(Nanos::ZERO, true, Bytes::kib(4) * page, Bytes::kib(4));
            history.completes(true, Nanos::ZERO, slowness);
            feature(&features, RequestFeature::Backlog) / 4096.0
        };
        // The first write has none before it that it could continue or not.
        let backlog = [(7, 1.0), (90, 1.0), (91, 1.0), (4, 10.0), (50, 9.0), (60, 1.0)];
        assert_eq!(backlog.map(|(page, slowness)| write(page, slowness)), [0.0, 0.0, 1.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn regions_are_counted_since_the_same_one() {
        let mut history = OperationHistory::default();
        let lags = [1, 2, 1, 3, 4, 2, 2].map(|region| history.region_lag(region));
        let new = 2 * REGIONS as u64;
        assert_eq!(lags, [new, new, 1, new, new, 3, 0]);
        (10..10 + REGIONS as u64).for_each(|region| assert_eq!(history.region_lag(region), new));
        assert_eq!((history.region_lag(2), history.region_lag(11)), (new, REGIONS as u64 - 1));
    }

    #[test]
    fn mixes_idle_times_and_requests_in_flight_are_seen() {
        use RequestFeature::{Alignment, InFlight, LongIdle, SinceIdle, SinceOther, SinceWrite, WriteShare};
        let mut history = RequestHistory::default();
        let size = Bytes::kib(4);
        history.features(Nanos::from_millis(50), true, Bytes(512), size);
        history.completes(true, Nanos::from_millis(60), 1.0);
        let second = history.features(Nanos::from_millis(55), false, Bytes(4096 + 1024), size);
        history.completes(false, Nanos::from_millis(57), 1.0);
        assert_eq!((feature(&second, InFlight), feature(&second, Alignment)), (1.0, 1024.0));
        assert_eq!((feature(&second, SinceIdle), feature(&second, LongIdle)), (1.0, 50e6));
        assert_eq!((feature(&second, SinceOther), feature(&second, WriteShare)), (1.0, 0.5));
        let third = history.features(Nanos::from_millis(100), false, Bytes(0), size);
        assert_eq!((feature(&third, SinceIdle), feature(&third, LongIdle)), (0.0, 40e6));
        assert_eq!(feature(&third, RequestFeature::IdleShare), 2.0 / 3.0);
        assert_eq!((feature(&third, SinceWrite), feature(&third, SinceOther)), (40e6, 2.0));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut keys = RecentKeys::default();
        (0..10).for_each(|at| keys.add(at % 6, at, 4));
        assert_eq!((keys.latest.len(), keys.age(1, 10), keys.age(5, 10)), (4, Some(3), None));
    }
}
