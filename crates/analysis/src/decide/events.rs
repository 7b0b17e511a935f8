//! The period of rare expensive events, from their places alone.
//!
//! Model: of `cells` places, counted from 0, some are events: those at phase, phase + period,
//! phase + 2 period..., of which some are missing, and some others at random places. (Where the
//! whole series of response times is periodic, not a few of them, the crate's autocorrelation of
//! uFLIP's oscillations is the tool.)
//!
//! Without a period the events are drawn from all places alike. How many of the k events are among
//! the K places of one period and phase is hypergeometric then, and the probability of h or more
//! at most exp(-k KL(h / k, K / cells)) (Hoeffding, JASA 58(301), 1963). It is corrected
//! for all periods and phases that are possible. A multiple of the period has fewer of the events,
//! a part of it more places without one: both are less surprising, so that the most surprising
//! period is the true one; by how much says how sure that is. With half of the events missing they
//! may all lie on a multiple by chance: 20 times less likely than the best is wrong in up to 5 %.
//!
//! Random places are places that know nothing of each other: a burst of events is to be given as
//! one event.

use super::divergence;

/// Fewer events than this show no period.
const EVENTS_MIN: usize = 3;
/// An event's distance is taken to so many events after it,
const NEIGHBOURS: usize = 6;
/// and may be so many periods.
const MISSING_MAX: u64 = 6;
/// So many of the most frequent distances are examined.
const CANDIDATES_MAX: usize = 400;

/// A period of events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Periodic {
    /// The distance between two events, in cells.
    pub period: u64,
    /// The place of the first of them, below the period.
    pub phase: u64,
    /// How many of the events it explains.
    pub hits: usize,
    /// How many there would be if none were missing.
    pub expected: u64,
    /// How many events there are.
    pub events: usize,
    /// p that the places are random.
    pub p: f64,
    /// The second most surprising period, and how many times as likely it is without any period.
    pub runner_up: Option<(u64, f64)>,
}

/// Finds the period that explains events in the given cells (any order, repeated ones count once)
/// out of `cells`. None for fewer than 3 events or where no two distances agree.
///
/// Places in bytes are to be divided by the size of the IOs, or of the unit that all periods in
/// question are multiples of: a period must be a whole number of cells.
pub fn periodic(places: &[u64], cells: u64) -> Option<Periodic> {
    let mut places: Vec<u64> = places.iter().copied().filter(|&place| place < cells).collect();
    places.sort_unstable();
    places.dedup();
    if places.len() < EVENTS_MIN {
        return None;
    }
    // A period longer than half of the places is not seen three times.
    let longest = cells / 2;
    let mut found: Vec<Fold> =
        candidates(&places, longest).into_iter().filter_map(|period| fold(&places, cells, period)).collect();
    found.sort_by(|a, b| a.ln_p.total_cmp(&b.ln_p).then(a.period.cmp(&b.period)));
    let best = found.first()?;
    let pairs = longest as f64 * (longest as f64 + 1.0) / 2.0;
    Some(Periodic {
        period: best.period,
        phase: best.phase,
        hits: best.hits,
        expected: best.expected,
        events: places.len(),
        p: (best.ln_p + pairs.ln()).exp().min(1.0),
        runner_up: found.get(1).map(|second| (second.period, (second.ln_p - best.ln_p).exp())),
    })
}

/// The distances between events close to each other, and whole parts of them, the most frequent
/// ones first: the period is among them unless most events are false.
fn candidates(places: &[u64], longest: u64) -> Vec<u64> {
    let mut distances = Vec::new();
    for (i, first) in places.iter().enumerate() {
        for second in places[i + 1..].iter().take(NEIGHBOURS) {
            let distance = second - first;
            let parts = (1..=MISSING_MAX).filter(|part| distance % part == 0).map(|part| distance / part);
            distances.extend(parts.filter(|period| (2..=longest).contains(period)));
        }
    }
    distances.sort_unstable();
    let mut frequent: Vec<(usize, u64)> =
        distances.chunk_by(|a, b| a == b).map(|equal| (equal.len(), equal[0])).collect();
    frequent.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.cmp(&a.1)));
    frequent.into_iter().take(CANDIDATES_MAX).map(|(_, period)| period).collect()
}

/// What a period explains at its best phase.
struct Fold {
    period: u64,
    phase: u64,
    hits: usize,
    expected: u64,
    ln_p: f64,
}

/// None where it explains fewer than 3 events, or no more than random places do.
fn fold(places: &[u64], cells: u64, period: u64) -> Option<Fold> {
    let mut phases: Vec<u64> = places.iter().map(|place| place % period).collect();
    phases.sort_unstable();
    let at_phase = |equal: &[u64]| (equal.len(), equal[0]);
    let (hits, phase) = phases.chunk_by(|a, b| a == b).map(at_phase).max_by_key(|&(hits, _)| hits)?;
    let expected = (cells - phase).div_ceil(period);
    let (share, random) = (hits as f64 / places.len() as f64, expected as f64 / cells as f64);
    let ln_p = -(places.len() as f64) * divergence(share, random);
    (hits >= EVENTS_MIN && share > random).then_some(Fold { period, phase, hits, expected, ln_p })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::noise::assert_honest;
    use crate::synthetic::Source;

    /// Events of a period with a share missing, and `others` at random places.
    fn events(source: &mut Source, cells: u64, period: u64, missing: f64, others: usize) -> Vec<u64> {
        let phase = source.place(period);
        let mut places: Vec<u64> = (phase..cells).step_by(period as usize).collect();
        places.retain(|_| source.unit() >= missing);
        places.extend((0..others).map(|_| source.place(cells)));
        places
    }

    #[test]
    fn false_alarms_are_no_more_than_p_says() {
        let mut source = Source::new(14);
        for (count, cells) in [(3, 50), (5, 64), (12, 300), (100, 1000), (60, 100_000)] {
            let random = |_| (0..count).map(|_| source.place(cells)).collect::<Vec<_>>();
            let ps: Vec<f64> = (0..200)
                .map(random)
                .map(|places| periodic(&places, cells).map_or(1.0, |found| found.p))
                .collect();
            assert_honest(&ps, "periodic");
        }
    }

    #[test]
    fn the_period_is_told_from_its_double_and_its_half() {
        let mut source = Source::new(15);
        for (cells, period, missing, others) in [
            (1024, 128, 0.0, 0),
            (4096, 128, 0.1, 4),
            (2000, 100, 0.3, 2),
            (9000, 96, 0.1, 90),
            (4096, 8, 0.2, 40),
            (40_000, 1000, 0.3, 40),
        ] {
            let right = (0..100)
                .filter(|_| {
                    let places = events(&mut source, cells, period, missing, others);
                    periodic(&places, cells).is_some_and(|found| {
                        found.period == period
                            && found.p < 1e-3
                            && found.runner_up.is_none_or(|(_, times)| times > 20.0)
                    })
                })
                .count();
            assert!(right >= 95, "{right} of 100 with {cells}, {period}, {missing}, {others}");
        }
    }

    #[test]
    fn a_sure_period_is_hardly_ever_wrong() {
        let mut source = Source::new(16);
        let (mut sure, mut wrong) = (0, 0);
        for _ in 0..1000 {
            let places = events(&mut source, 1000, 90, 0.5, 3);
            let Some(found) = periodic(&places, 1000) else { continue };
            if found.p < 0.01 && found.runner_up.is_none_or(|(_, times)| times > 20.0) {
                sure += 1;
                wrong += usize::from(found.period != 90);
            }
        }
        assert!(sure > 100 && wrong * 20 <= sure, "{wrong} of {sure}");
    }

    #[test]
    fn odd_places_do_no_harm() {
        assert_eq!(periodic(&[], 0), None);
        assert_eq!(periodic(&[5, 5, 5, 5], 10), None);
        assert_eq!(periodic(&[9, 90, 900], 5), None);
        let all: Vec<u64> = (0..200).collect();
        assert!(periodic(&all, 200).is_none_or(|found| found.p == 1.0));
        let far = periodic(&[1, u64::MAX / 2, u64::MAX - 2, u64::MAX - 1], u64::MAX);
        assert!(far.is_none_or(|found| found.p <= 1.0), "{far:?}");
    }

    proptest! {
        #[test]
        fn all_events_in_order_or_not_give_their_period(period in 2u64..500, phase in 0u64..500, count in 12u64..40) {
            let phase = phase % period;
            let mut places: Vec<u64> = (0..count).map(|i| phase + i * period).collect();
            places.reverse();
            let found = periodic(&places, period * count).unwrap();
            prop_assert_eq!((found.period, found.phase, found.hits as u64), (period, phase, count));
            prop_assert_eq!(found.expected, count);
        }
    }
}
