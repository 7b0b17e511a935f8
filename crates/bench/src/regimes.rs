//! The two regimes of writes on a device that buffers them: a burst after an idle time, and what lasts.
//!
//! # Model
//! - A **burst** fits into the bytes that the pause between runs brings back. It ignores nothing.
//! - A **sustained** run follows a lead-in without a pause. The lead-in writes randomly until a window is as slow as what lasts, and then as
//!   many bytes as the stages have, because deferred collection fills up later than the buffer: so
//!   each run begins in the regime that it is named after, whatever the run before left. The mean of its last windows is the control: it has to
//!   be that of the baseline. If it is not, the state is enforced again, once ([`RESTORES_MOST`] times at most). The run then ignores what the
//!   buffer holds of the lead-in, and goes on until it has settled in its own pattern ([`flashlab_analysis::transient`]), over whole
//!   windows, because the sustained rate alternates within one.
//!
//! # Invariant
//! A run is either a burst or sustained. What fits neither is left out with the reason.

use flashlab_analysis::findings::{Baseline, PatternStages, WriteStages};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::Pattern;

use crate::area::writes_sequentially;
use crate::settings::{IO_SIZE, Lengths, Settings, Thoroughness};
use crate::shares::bytes_written_each;

/// The least IOs of a burst: the batches of [`Precision`](flashlab_analysis::Precision).
const BURST_IOS_MIN: u64 = 32;
/// The part of the returned bytes that a burst uses. What comes back is known to within a tenth of it.
const BURST_SHARE: f64 = 0.9;
/// ... if the idle time brings nearly all of it back. After a shorter one, a collection under way decides how much it is: on a drive of 16
/// dies with 16 MiB, 20 ms brought back 0.8 to 2 MiB.
const BURST_SHARE_OF_A_PART: f64 = 0.4;
/// This part of the stages counts as all. If an idle time brings back more than the shorter ones by more than this, a longer one may bring back more still.
const NEARLY_ALL: f64 = 0.9;
/// Differences up to this part are usual (uFLIP section 5.1).
const USUAL: f64 = 0.05;
/// The mean of a control scatters by at most this part (standard deviation) ...
const CONTROL_SCATTER: f64 = 0.07;
/// ... so that it is within this part of what lasts with 97 % confidence, and a stage is not ([`flashlab_analysis::pattern_stages`]: faster by a
/// factor of 0.8 or less).
const CONTROL_WITHIN: f64 = 0.15;
/// A sustained run measures at least this number of windows.
const WINDOWS_MIN: f64 = 2.0;
/// ... and at most this number, whatever the scatter of windows is.
const WINDOWS_MOST: f64 = 64.0;

/// How often the state is enforced again at most, because a control shows that the regime changed. A device that is throttled would not be
/// brought back by any number.
pub(crate) const RESTORES_MOST: u32 = 16;

/// In how many regimes a device writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum WriteRegimes {
    /// In one: the start-up phase that runs ignore is enough.
    #[default]
    One,
    /// In one, whose cycle is known: each run settles in its own pattern, over whole cycles.
    Settling(Box<Regimes>),
    /// In bursts, and in what lasts.
    Two(Box<Regimes>),
    /// There are stages, and the baselines ended before what lasts was known. So no run that writes would be known to be in a
    /// regime.
    Unknown,
}

impl WriteRegimes {
    pub fn of(found: &WriteStages, baselines: &[Baseline], settings: &Settings) -> WriteRegimes {
        // Sequential writes that did not settle decide nothing. Both regimes are then measured: stages that are a start-up phase are known as well.
        let undecided =
            found.withholds("SW") && found.of("RW").is_some_and(|stages| !stages.stages.is_empty());
        let has_two = has_two_regimes(found, baselines) || undecided;
        // The short runs of a quick bench do not settle.
        let is_full = settings.thoroughness == Thoroughness::Full;
        match Regimes::new(found, settings).map(Box::new) {
            _ if settings.one_regime => WriteRegimes::One,
            Some(regimes) if has_two => WriteRegimes::Two(regimes),
            _ if found.patterns.iter().any(PatternStages::is_withheld) => WriteRegimes::Unknown,
            Some(regimes) if is_full => WriteRegimes::Settling(regimes),
            _ => WriteRegimes::One,
        }
    }

    /// What lasts, if runs settle in it.
    pub fn lasting(&self) -> Option<&Regimes> {
        match self {
            WriteRegimes::Two(regimes) | WriteRegimes::Settling(regimes) => Some(regimes),
            WriteRegimes::One | WriteRegimes::Unknown => None,
        }
    }

    /// The two regimes, if there are two.
    pub fn two(&self) -> Option<&Regimes> {
        match self {
            WriteRegimes::Two(regimes) => Some(regimes),
            WriteRegimes::One | WriteRegimes::Settling(_) | WriteRegimes::Unknown => None,
        }
    }
}

/// Whether the device buffers bytes. The start-up phase of uFLIP is one of IOs, which runs ignore (section 4.2): free log blocks take random
/// writes, and sequential writes have none. A buffer takes both. So there are two regimes if the stages are longer than the start-up
/// phase, or if sequential writes have stages as well.
fn has_two_regimes(found: &WriteStages, baselines: &[Baseline]) -> bool {
    let has_stages = |pattern: &str| found.of(pattern).is_some_and(|stages| !stages.stages.is_empty());
    let rw = baselines.iter().find(|baseline| baseline.pattern == "RW");
    let startup = rw.map_or(0, |rw| rw.phases.startup_ios);
    found.of("RW").is_some_and(|stages| outlasts(stages, startup)) || (has_stages("RW") && has_stages("SW"))
}

/// Whether the stages are longer than a start-up phase of this number of IOs.
pub(crate) fn outlasts(stages: &PatternStages, startup_ios: u64) -> bool {
    let ignored = IO_SIZE.0 * startup_ios;
    // The start-up phase is known to within a few per cent (IOIgnore is 2 % more).
    stages.volatile_bytes as f64 > 1.1 * ignored as f64
}

/// What an idle time brings back for a burst: bytes, and how fast they were at the slowest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ReturnedAfter {
    idle: Nanos,
    bytes: Bytes,
    slowest_ns: f64,
}

/// What the schedule has to know about the regimes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Regimes {
    /// The stages of random writes, with which a lead-in is done.
    pub stages: PatternStages,
    /// The bytes that random writes find buffered, sequential writes, or any idle time brings back, whichever is more: a cache takes more sequential
    /// writes, because they leave whole blocks to collect.
    buffered: Bytes,
    /// The mean response time of what lasts.
    pub sustained_ns: f64,
    /// What each idle time brings back for a burst at least, in the order of the times: no more than a longer one brought back. A collection under
    /// way makes a single figure larger: 20 ms brought back 2 MiB once, and 0.8 MiB the next time.
    returned: Vec<ReturnedAfter>,
    /// The relative half width that the mean of all repetitions should have.
    goal: f64,
    repetitions: f64,
}

impl Regimes {
    /// `None` if what lasts of random writes is not known.
    pub fn new(found: &WriteStages, settings: &Settings) -> Option<Regimes> {
        let mut returned: Vec<ReturnedAfter> = found
            .recovery
            .iter()
            .map(|recovery| ReturnedAfter {
                idle: recovery.idle,
                bytes: Bytes(recovery.burst_bytes),
                slowest_ns: recovery.burst_ns_mean.unwrap_or(0.0),
            })
            .collect();
        returned.sort_unstable_by_key(|returned| returned.idle);
        let mut least = Bytes(u64::MAX);
        for after in returned.iter_mut().rev() {
            least = least.min(after.bytes);
            after.bytes = least;
        }
        let stages = found.of("RW").filter(|stages| stages.is_settled)?.clone();
        let sequential = found.of("SW").map_or(0, |stages| stages.volatile_bytes);
        let most_returned = found.recovery.iter().map(|recovery| recovery.bytes).max().unwrap_or(0);
        let buffered = sequential.max(most_returned);
        Some(Regimes {
            sustained_ns: stages.sustained_ns_mean?,
            buffered: Bytes(buffered.max(stages.volatile_bytes)),
            stages,
            returned,
            goal: settings.precision_goal,
            repetitions: f64::from(settings.repetitions),
        })
    }

    /// The IOs of each process of a burst after this pause, at most. `None` if the pause brings back too little for this pattern.
    pub fn burst_ios(&self, pattern: &Pattern, pause: Nanos) -> Option<u64> {
        let within = self.returned.iter().filter(|after| after.idle <= pause);
        let returned = within.map(|after| after.bytes.0).max()?;
        // A buffer may keep whole pages. Its bytes were counted with writes of this size.
        let each = written_by_all(pattern).max(IO_SIZE.0 as f64 * f64::from(pattern.parallel_degree));
        let is_nearly_all = returned as f64 >= NEARLY_ALL * self.most_returned().0 as f64;
        let is_all = is_nearly_all && !self.still_returns_more();
        let share = if is_all { BURST_SHARE } else { BURST_SHARE_OF_A_PART };
        let ios = (share * returned as f64 / each) as u64;
        (ios >= BURST_IOS_MIN).then_some(ios)
    }

    fn most_returned(&self) -> Bytes {
        self.returned.iter().map(|after| after.bytes).max().unwrap_or_default()
    }

    /// Whether the longest idle time brought back more than those of half its length did, so that a longer one may bring back more still.
    pub fn still_returns_more(&self) -> bool {
        let Some(longest) = self.returned.last() else { return false };
        let earlier = self.returned.iter().filter(|after| after.idle.0 <= longest.idle.0 / 2);
        let earlier = earlier.map(|after| after.bytes.0).max().unwrap_or(0);
        NEARLY_ALL * longest.bytes.0 as f64 > earlier as f64
    }

    /// The shortest idle time that brings back nearly all that any does, and after which no write waits for what the device does while it is idle: a
    /// longer one makes bursts no faster.
    pub fn full_recovery(&self) -> Nanos {
        let nearly_all = NEARLY_ALL * self.most_returned().0 as f64;
        let is_fastest = |after: &ReturnedAfter| {
            let mut known =
                self.returned.iter().filter(|longer| longer.idle > after.idle && longer.slowest_ns > 0.0);
            known.all(|longer| after.slowest_ns <= (1.0 + USUAL) * longer.slowest_ns)
        };
        let enough = |after: &&ReturnedAfter| after.bytes.0 as f64 >= nearly_all && is_fastest(after);
        self.returned.iter().find(enough).map_or(Nanos::ZERO, |after| after.idle)
    }

    /// The time of a window of what lasts.
    fn window_ns(&self) -> f64 {
        self.sustained_ns * self.stages.window_bytes as f64 / IO_SIZE.0 as f64
    }

    /// The IOs at the begin of a sustained run that may still see what the lead-in left in the buffers, which drain at the sustained
    /// rate.
    pub fn ignored_ios(&self, pattern: &Pattern, per_io_ns: f64) -> u64 {
        let volatile = match writes_sequentially(&pattern.first) {
            true => self.buffered.0 as f64,
            false => self.stages.volatile_bytes as f64,
        };
        let part = (volatile / self.stages.window_bytes.max(1) as f64).min(1.0);
        let in_time = part * self.window_ns() / per_io_ns;
        // Small writes may be faster than estimated, as long as the buffer takes them: only their bytes fill it.
        let in_bytes = volatile / written_by_all(pattern);
        in_time.max(in_bytes).ceil() as u64
    }

    /// The IOs of each process that a sustained run measures at least. The scatter of windows decides how many windows: the mean
    /// over all repetitions should be as precise as the goal.
    pub fn measured_ios(&self, pattern: &Pattern) -> u64 {
        let scatter = self.stages.window_scatter.unwrap_or(1.0);
        let windows =
            ((scatter / self.goal).powi(2) / self.repetitions).clamp(WINDOWS_MIN, WINDOWS_MOST).ceil();
        windows as u64 * self.window_ios(pattern)
    }

    /// The IOs of each process in a window of what lasts. Its bytes decide, and not its time: small writes may be faster than estimated, and a window
    /// without a stall of collection is no whole cycle.
    pub fn window_ios(&self, pattern: &Pattern) -> u64 {
        let in_bytes = self.stages.window_bytes as f64 / written_by_all(pattern);
        (in_bytes.ceil() as u64).max(1)
    }

    /// The IOs of the control with which a lead-in ends, of the baseline's size: whole windows, of which so many that their mean scatters by
    /// at most [`CONTROL_SCATTER`].
    pub fn control_ios(&self) -> u64 {
        let scatter = self.stages.window_scatter.unwrap_or(1.0);
        let windows = (scatter / CONTROL_SCATTER).powi(2).ceil().clamp(1.0, WINDOWS_MOST);
        (windows * self.stages.window_bytes as f64 / IO_SIZE.0 as f64) as u64
    }

    /// The least and the largest mean of the control in the regime of what lasts.
    pub fn control_bounds_ns(&self) -> [f64; 2] {
        [1.0 - CONTROL_WITHIN, 1.0 + CONTROL_WITHIN].map(|part| part * self.sustained_ns)
    }

    /// A lead-in between two sustained runs, usually: the control, in which the buffer fills if the run before had left it empty, and as
    /// many bytes as the stages have.
    pub fn lead_in(&self) -> (Nanos, Bytes) {
        let PatternStages { volatile_bytes, .. } = self.stages;
        let control = IO_SIZE * self.control_ios();
        let stages_ns = self.sustained_ns * volatile_bytes as f64 / IO_SIZE.0 as f64;
        let control_ns = self.sustained_ns * self.control_ios() as f64;
        (Nanos((control_ns + stages_ns) as u64), control + Bytes(volatile_bytes))
    }
}

/// Bytes that an average IO of each process writes, of all processes together.
fn written_by_all(pattern: &Pattern) -> f64 {
    bytes_written_each(pattern) * f64::from(pattern.parallel_degree)
}

/// What a lead-in writes at most, on any device: twice what a run may write. A cache may have more free space than before the
/// baselines. The lead-in ends as soon as it sees what lasts.
pub(crate) fn lead_in_bound(capacity: Bytes, lengths: Lengths) -> Bytes {
    let share = Bytes(2 * (capacity.0 / lengths.written_divisor));
    share.min(IO_SIZE * lengths.baseline_ios_most).max(IO_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::tests::any_baseline;
    use flashlab_analysis::findings::{BufferRecovery, WriteStage};
    use flashlab_base::{Prng, Seed};

    /// A device of which these idle times brought back these bytes (in MiB).
    fn regimes(returned: &[(Nanos, u64)]) -> Regimes {
        let stages = PatternStages {
            pattern: "RW".to_owned(),
            sustained_ns_mean: Some(1e6),
            is_settled: true,
            ..PatternStages::default()
        };
        let recovery = |&(idle, mib): &(Nanos, u64)| BufferRecovery {
            run: 1,
            idle,
            bytes: mib << 20,
            burst_bytes: mib << 20,
            ..BufferRecovery::default()
        };
        let recovery = returned.iter().map(recovery).collect();
        let found = WriteStages { patterns: vec![stages], recovery };
        Regimes::new(&found, &Settings::new(Thoroughness::Full)).unwrap()
    }

    #[test]
    fn a_burst_fits_into_what_each_longer_idle_time_brought_back() {
        let [short, second, long] = [Nanos::from_millis(100), Nanos::from_secs(1), Nanos::from_secs(10)];
        let pattern = Pattern::baseline("RW").unwrap();
        let partly = regimes(&[(short, 20), (second, 10), (long, 64), (long * 2, 64)]);
        // 40 % of 10 MiB, because 20 MiB came back by chance; and 90 % of all.
        assert_eq!(partly.burst_ios(&pattern, short), Some(128));
        assert_eq!(partly.burst_ios(&pattern, second), Some(128));
        assert_eq!(partly.burst_ios(&pattern, long), Some(1843));
        assert_eq!(partly.burst_ios(&pattern, Nanos::from_millis(99)), None);
        assert_eq!(partly.full_recovery(), long);
        let quick = regimes(&[(short, 80), (long, 64)]);
        assert_eq!((quick.full_recovery(), quick.burst_ios(&pattern, second)), (short, Some(1843)));
    }

    #[test]
    fn an_idle_time_is_too_short_while_a_longer_one_brings_back_more_or_makes_bursts_faster() {
        let [second, ten, twenty] = [1, 10, 20].map(Nanos::from_secs);
        let pattern = Pattern::baseline("RW").unwrap();
        let growing = regimes(&[(second, 2), (ten, 28)]);
        assert!(growing.still_returns_more());
        // 40 % of 28 MiB: nobody knows what a longer time brings back.
        assert_eq!(growing.burst_ios(&pattern, ten), Some(358));
        let all = regimes(&[(second, 2), (ten, 28), (twenty, 28)]);
        assert!(!all.still_returns_more());
        assert_eq!((all.full_recovery(), all.burst_ios(&pattern, ten)), (ten, Some(806)));
        let mut folding = all;
        folding.returned[1].slowest_ns = 91e3;
        folding.returned[2].slowest_ns = 84e3;
        assert_eq!(folding.full_recovery(), twenty);
    }

    #[test]
    fn sequential_writes_that_did_not_settle_do_not_keep_random_ones_from_being_measured() {
        let random = PatternStages {
            pattern: "RW".to_owned(),
            volatile_bytes: 64 << 20,
            stages: vec![WriteStage { bytes: 64 << 20, bytes_per_s: 1e9, response_ns_mean: 3e4 }],
            sustained_ns_mean: Some(1e6),
            is_settled: true,
            ..PatternStages::default()
        };
        let sequential = PatternStages { pattern: "SW".to_owned(), ..PatternStages::default() };
        let settings = Settings::new(Thoroughness::Full);
        let found = WriteStages { patterns: vec![random.clone(), sequential.clone()], recovery: Vec::new() };
        // By its length alone the stage may be a start-up phase.
        let mut baseline = any_baseline("RW", 1, &mut Prng::new(Seed(1)));
        baseline.phases.startup_ios = 2048;
        assert!(WriteRegimes::of(&found, &[baseline], &settings).two().is_some());
        // Without stages of random writes nobody knows how many regimes there are.
        let level = PatternStages { volatile_bytes: 0, stages: Vec::new(), ..random };
        let found = WriteStages { patterns: vec![level, sequential], recovery: Vec::new() };
        assert_eq!(WriteRegimes::of(&found, &[], &settings), WriteRegimes::Unknown);
    }
}
