//! Finds the read-ahead, from reads after a sequential run.
//!
//! # Model
//! After a few sequential reads, a device reads further ones before they are requested.
//!
//! # Method
//! 1. Some sequential reads and idle time come before each read that is timed.
//! 2. It is compared with the same read after a single read: the distance is equal, but nothing is sequential.
//! 3. The distance doubles until the read is slow, and bisection finds the size.
//!
//! # Invariants
//! - Each sequential run begins at another offset.

use crate::priors;
use crate::signals::pictures::ranked;
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};

use crate::answers::no_cache::{is_faster, nothing};
use crate::halt::Halt;
use crate::patterns::reads::{Walk, how_many_times, in_order};
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;

/// What reading again showed.
pub(super) struct Repeated {
    /// The fastest reads known to come from the flash.
    pub flash: Vec<f64>,
    pub kept: Option<Kept>,
}

/// What is answered without the flash.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// What is kept at once.
    pub granule: Option<Bytes>,
    /// What a read of it takes, in nanoseconds.
    pub time: f64,
    /// The rule that it is kept.
    pub rule: Rule,
}

/// The sequential reads before the read that is timed. Unit: reads. Source: choice: doublings. Too many: the
/// probe takes longer; too few: read-ahead that starts late is not seen.
const STARTS: [u64; 4] = [1, 2, 4, START_MAX];
const NAMES: [&str; 4] = ["after one read", "after two", "after four", "after eight"];
/// The most of them. Unit: reads. Source: choice. Too many: the probe takes longer; too few: read-ahead that
/// starts late is not seen.
const START_MAX: u64 = 8;
/// The largest read-ahead that is looked for. Source: choice. Too large: few offsets fit; too small: larger
/// ones stay undetermined.
const DISTANCE_MOST: Bytes = Bytes::mib(64);
/// The same as a part of the device. Unit: part. Source: choice. Too small: few offsets fit; too large:
/// larger ones stay undetermined.
const DISTANCE_PART: u64 = 16;
/// The fewest offsets for sequential reads. Unit: offsets. Source: choice. Too many: small devices stay
/// undetermined; too few: earlier reads are cached.
const OFFSETS_LEAST: u64 = 8;
/// The rule at most that nothing is read ahead where something is kept.
const STRONGEST: Rule = Rule::strong("slower than cached");
/// The reads that decide whether there is read-ahead. Unit: reads. Source: choice. Too many: the probe takes
/// longer; too few: rank tests show nothing.
const READS_DECIDING: u64 = 20;
/// The reads at each distance of the search. Unit: reads. Source: choice. Too many: the probe takes longer;
/// too few: an outlier ends the search.
const READS_SEARCHING: u64 = 7;

struct CacheProbe {
    piece: Bytes,
    rest: Nanos,
    /// The next place for a start of sequential reads.
    next: u64,
}

/// Concludes the read-ahead.
pub(super) fn probe(session: &mut Session<'_, '_>, repeated: &Repeated) -> Result<(), Halt> {
    let parameter = Parameter::ReadAheadSize;
    let page = session.known().bytes(Parameter::ReadPageSize);
    let kept = repeated.kept;
    let flash = upper_median(&repeated.flash);
    let granule = kept.and_then(|kept| kept.granule).or(page);
    let piece = granule.unwrap_or(priors::WHOLE_PAGES).max(session.block());
    let rest = Nanos((flash * 300.0) as u64).min(Nanos::from_millis(25));
    let mut probe = CacheProbe { piece, rest, next: 0 };
    let [alone, behind @ ..] =
        probe.behind(session, STARTS.map(|start| (start, Bytes::ZERO)), READS_DECIDING)?;
    let slow = upper_median(&alone);
    let picture = ranked(
        "One read after a short sequential run and a pause: data that was read ahead is read faster.",
        "reads",
        NAMES.into_iter().zip([&alone].into_iter().chain(&behind).map(Vec::as_slice)),
    );
    let limit = kept.map_or(flash / 2.0, |kept| (kept.time * flash).sqrt());
    if slow < limit {
        let evidence = format!(
            "A read that follows a single read takes {}, other reads {}: even one read may start read-ahead.",
            duration(slow),
            duration(flash)
        );
        session.conclude(Finding::undetermined(parameter, evidence).with(picture));
        return Ok(());
    }
    let fast = behind.iter().position(|figures| is_faster(figures, &alone));
    let Some(fast) = fast else {
        let behind = behind.concat();
        let evidence = format!(
            "A read after 2 to {START_MAX} sequential reads takes {}, after a single read {}, and elsewhere {}.",
            duration(upper_median(&behind)),
            duration(slow),
            duration(flash)
        );
        // A read that comes from the flash may be faster than one alone where its part of the map is at hand.
        let finding = nothing(session, parameter, [&alone, &repeated.flash], &behind, evidence);
        // Had anything been read ahead, it would have been answered as what was read before.
        let as_slow = how_many_times(&alone, &behind).low * slow > limit;
        let finding = match kept.filter(|_| as_slow) {
            Some(kept) => Rule::found(parameter, Bytes::ZERO, STRONGEST.min(kept.rule), finding.evidence),
            None => finding,
        };
        session.conclude(finding.with(picture));
        return Ok(());
    };
    let (start, fast) = (STARTS[fast + 1], upper_median(&behind[fast]));
    // What is kept takes longer away from the sequence where going there does.
    let limit = (slow * kept.map_or(fast, |kept| kept.time.max(fast))).sqrt();
    let finding = probe.size(session, start, (fast, limit), granule)?;
    session.conclude(finding);
    Ok(())
}

impl CacheProbe {
    /// Reads at distances behind a number of sequential ones, alternating, each time elsewhere.
    fn behind<const N: usize>(
        &mut self,
        session: &mut Session<'_, '_>,
        kinds: [(u64, Bytes); N],
        repeats: u64,
    ) -> Result<[Vec<f64>; N], Halt> {
        let furthest = kinds.iter().map(|&(_, distance)| distance).max().unwrap_or_default();
        let step = (self.piece * (START_MAX + 1) + furthest).round_up(priors::ROW_MOST);
        // The end of the device was written last, and may be in a write buffer.
        let offsets = session.capacity().0 / 8 * 7 / step.0;
        if offsets < OFFSETS_LEAST {
            return Err(Halt::Misfit("it has no space for sequential runs at enough offsets".to_owned()));
        }
        let mut figures = [const { Vec::new() }; N];
        for _ in 0..repeats {
            for ((start, distance), figures) in kinds.into_iter().zip(&mut figures) {
                // Steps of about 0.618 of all offsets come close to an earlier one only late.
                self.next = (self.next + (offsets as f64 * 0.618) as u64 + 1) % offsets;
                let offset = step * self.next;
                let walk = Walk { offset, slot: self.piece, size: self.piece };
                session.run("sequential-start", &walk.pattern(self.piece * start, start, 1))?;
                session.idle(self.rest)?;
                let at = offset + self.piece * start + distance;
                let one =
                    Walk { offset: at, slot: self.piece, size: session.block() }.pattern(self.piece, 1, 1);
                figures.extend(in_order(&session.run("behind", &one)?, 0));
            }
        }
        Ok(figures)
    }

    /// How far behind the start reads are fast, in less than `limit` nanoseconds: its first read is, in `fast`.
    fn size(
        &mut self,
        session: &mut Session<'_, '_>,
        start: u64,
        (fast, limit): (f64, f64),
        granule: Option<Bytes>,
    ) -> Result<Finding, Halt> {
        let grain = granule.unwrap_or(session.block());
        let furthest = DISTANCE_MOST.min(Bytes(session.capacity().0 / DISTANCE_PART)).0 / grain.0;
        let (mut within, mut not) = (0, 1);
        let mut curve = vec![(0.0, fast)];
        let mut hit =
            |probe: &mut CacheProbe, session: &mut Session<'_, '_>, distance: u64| -> Result<bool, Halt> {
                let [times] = probe.behind(session, [(start, grain * distance)], READS_SEARCHING)?;
                let time = upper_median(&times);
                curve.push(((grain * distance).0 as f64, time));
                Ok(time < limit)
            };
        while not < furthest && hit(self, session, not)? {
            (within, not) = (not, not * 2);
        }
        while not - within > 1 {
            let middle = (within + not) / 2;
            if hit(self, session, middle)? { within = middle } else { not = middle }
        }
        let ends = [(start, grain * within), (start, grain * not), (1, grain * within)];
        let [last, beyond, alone] = self.behind(session, ends, READS_DECIDING)?;
        let agrees = is_faster(&last, &beyond) && is_faster(&last, &alone) && upper_median(&alone) > limit;
        let (last, beyond) = (upper_median(&last), upper_median(&beyond));
        let size = grain * not;
        let evidence = format!(
            "After {start} sequential reads and a pause, a read within the next {size} takes {}, and a read beyond takes {}. At the \
             end of the {size} it takes {}.",
            duration(fast),
            duration(beyond),
            duration(last)
        );
        let picture = Picture::new(
            "Response time of one read after a short sequential run and a pause, over its distance from the end of the run.",
            Axis::linear("distance", "bytes"),
            Axis::linear("median response time", "ns"),
        );
        let picture = picture.draw("one read", Style::Dots, curve).mark(size.0 as f64, "read-ahead");
        Ok(if agrees && last < limit && beyond > limit {
            Rule::found(Parameter::ReadAheadSize, size, Rule::strong("distance"), evidence).with(picture)
        } else {
            Finding::undetermined(Parameter::ReadAheadSize, evidence).with(picture)
        })
    }
}
