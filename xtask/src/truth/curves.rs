//! Truths from curves: response times and throughput over size and depth.

use flashlab_base::{Bytes, Prng, Seed};
use flashlab_device::Operation;
use flashlab_sim::Profile;

use super::lab::{Lab, WrittenContent, median};
use super::{NEAR, Truth};

/// The growth of throughput that counts is 2.5 %. If it is between the other two, either answer is right.
const GROWTH: [f64; 3] = [1.025, 1.021, 1.029];
/// The sizes of a curve, as powers of two: 4 KiB to 16 MiB.
const SIZES: [u32; 13] = [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24];
/// The index of 64 KiB in SIZES. A cost per IO is fitted to the sizes from there to 1 MiB.
const FITTED_FROM: usize = 4;
const FITTED_TO: usize = 8;
const TWO_KINDS: &str = "the median lies between two kinds of costs";
/// The number of standard errors around an estimate that contain the truth 19 times in 20.
const INTERVAL: f64 = 1.96;
/// IOs of one size.
const IOS: u64 = 256;
/// Turns of two contents.
const TURNS: u64 = 4;
/// What overwrites a device in order.
const OVERWRITE: Bytes = Bytes::kib(32);
/// Random reads for each depth.
const READS: u64 = 100_000;

/// Cost per IO and saturation of sequential IOs: (A, size). A device may work while the host is late, for
/// example read ahead, and noise makes the host late. So both are also measured on the noisy device, often
/// enough that its medians are exact. If the two costs differ, all values between them are right, because a
/// host may be less late.
pub fn sequential(quiet: &Profile, noisy: &Profile, operation: Operation, settle: Bytes) -> (Truth, Truth) {
    let unjudged = |why: &str| (Truth::unjudged(why), Truth::unjudged(why));
    let Some(first) = curve(quiet, (operation, 1), settle, IOS) else { return unjudged(TWO_KINDS) };
    if operation == Operation::Read && quiet.translation.structure().cached_map_entries.is_some() {
        let again = curve(quiet, (operation, 8), settle, IOS);
        if again.is_none_or(|again| first.iter().zip(again).any(|(a, b)| (a.1 - b.1).abs() > 0.01 * a.1)) {
            return unjudged("it depends on what of the map is in memory");
        }
    }
    let Some(second) = curve(noisy, (operation, 1), settle, 16 * IOS) else { return unjudged(TWO_KINDS) };
    let cost = match [&first, &second].map(|curve| relative_line(curve)) {
        [one, _] if one <= 0.01 * first[FITTED_FROM].1 => {
            Truth::unjudged("response times are no line with a cost for each IO")
        }
        both if operation == Operation::Write && !is_measurable(both, &first, noisy) => {
            Truth::unjudged("it is less than all writes that fill the device can tell")
        }
        [one, other] if (one - other).abs() <= 0.01 * one => one.into(),
        both => Truth::Between(both),
    };
    let throughput = |curve: &[(f64, f64)]| -> Vec<(f64, f64)> {
        curve.iter().map(|&(size, time)| (size, size / time)).collect()
    };
    (cost, either(saturation_size(&throughput(&first)), saturation_size(&throughput(&second))))
}

/// Whether the writes that fill the device can determine a cost between these two, within 3 %, 19 times in
/// 20.
fn is_measurable([one, other]: [f64; 2], curve: &[(f64, f64)], noisy: &Profile) -> bool {
    let allowed = (one - other).abs() / 2.0 + NEAR * (one + other) / 2.0;
    let sigma = noisy.noise.map_or(0.0, |noise| noise.sigma);
    INTERVAL * least_error(curve, sigma, noisy.capacity) <= allowed
}

/// The smallest possible standard error of A in T = A + n B (Cramér-Rao), for `bytes` in IOs of sizes on the
/// line. The best division uses only the smallest and the largest size. With n1 and n2 IOs of these the
/// variance is a^2 / n1 + b^2 / n2. With n1 s1 + n2 s2 = bytes its minimum is (a sqrt(s1) + b sqrt(s2))^2 /
/// bytes.
fn least_error(curve: &[(f64, f64)], sigma: f64, bytes: Bytes) -> f64 {
    let cost = relative_line(curve);
    let (s2, t2) = curve[FITTED_TO];
    let lies_on = |&&(n, t): &&(f64, f64)| (cost + n * (t2 - cost) / s2 - t).abs() <= NEAR * cost;
    let smaller = curve[..FITTED_FROM].iter().rev().take_while(lies_on).last();
    let &(s1, t1) = smaller.unwrap_or(&curve[FITTED_FROM]);
    let (a, b) = (s2 * t1 * sigma / (s2 - s1), s1 * t2 * sigma / (s2 - s1));
    (a * s1.sqrt() + b * s2.sqrt()) / (bytes.0 as f64).sqrt()
}

/// Sizes and median response times of sequential IOs. Reads: `ios` of each size, each size in a range of its
/// own, repeated several times. Writes: the same number, on new devices. `None` if a median has no meaning.
fn curve(
    profile: &Profile,
    (operation, times): (Operation, u64),
    settle: Bytes,
    ios: u64,
) -> Option<Vec<(f64, f64)>> {
    let mut lab = Lab::filled(profile);
    let mut at = Bytes::ZERO;
    let mut reads = |size: Bytes, before: u64, count: u64| {
        lab.sequential(Operation::Read, at, size, before);
        let from = at + size * before;
        let all = (0..times).flat_map(|_| lab.sequential(Operation::Read, from, size, count)).collect();
        at += size * (before + count);
        median(all)
    };
    let time = |power: u32| {
        let size = Bytes(1 << power);
        // Skips the IOs that are fast only because the device was idle.
        let before = settle.0.div_ceil(size.0);
        let count = ios.min((Bytes::gib(2).0 / size.0).max(24)) / times;
        let time = match operation {
            Operation::Read => reads(size, before, count),
            _ => median(first_writes(profile, size, before, count)?),
        };
        Some((f64::from(1 << power), time?))
    };
    SIZES.into_iter().map(time).collect()
}

/// Response times of the sequential writes that fill new devices, after the first `before`, on as many
/// devices as needed. `None` if a device is too small for them.
fn first_writes(profile: &Profile, size: Bytes, before: u64, count: u64) -> Option<Vec<f64>> {
    let room = (profile.capacity.0 / size.0).checked_sub(before).filter(|&room| room > 0)?;
    let mut all = Vec::new();
    while (all.len() as u64) < count {
        let mut lab = Lab::empty(profile);
        let writes = room.min(count - all.len() as u64);
        all.extend(
            lab.sequential(Operation::Write, Bytes::ZERO, size, before + writes).split_off(before as usize),
        );
    }
    Some(all)
}

/// What each of two truths allows.
fn either(one: Truth, other: Truth) -> Truth {
    let values = |truth: Truth| match truth {
        Truth::Is(value) => Some(vec![value]),
        Truth::OneOf(values) => Some(values),
        Truth::Between(_) | Truth::NotIdentifiable(_) | Truth::Unjudged(_) => None,
    };
    if one == other {
        return one;
    }
    match (values(one), values(other)) {
        (Some(mut all), Some(more)) => {
            all.extend(more.into_iter().filter(|value| !all.contains(value)).collect::<Vec<_>>());
            Truth::OneOf(all)
        }
        _ => Truth::unjudged("it saturates with noise only, or without only"),
    }
}

/// The value from which on doubling adds too little; `otherwise` if it always adds enough.
fn saturation(throughput: &[(f64, f64)], otherwise: Option<f64>) -> Truth {
    near_limits(|growth| {
        let flat = throughput.windows(2).find(|two| two[1].1 < growth * two[0].1);
        flat.map(|two| two[0].0).or(otherwise)
    })
}

/// The size from which on neither doubling nor any larger size adds enough, relative to the number of
/// doublings: throughput may grow in steps.
fn saturation_size(throughput: &[(f64, f64)]) -> Truth {
    near_limits(|growth| {
        let pays = |two: &[(f64, f64)]| two[1].1 >= growth * two[0].1;
        let last = |at: &usize| {
            let leads_above = |two: &[(f64, f64)]| pays(two) && two[1].1 >= growth * throughput[*at].1;
            !throughput[*at..].windows(2).any(leads_above)
        };
        (0..throughput.len() - 1).find(last).map(|at| throughput[at].0)
    })
}

/// The value for the growth limit, and those for the limits next to it.
fn near_limits(from: impl Fn(f64) -> Option<f64>) -> Truth {
    let mut values: Vec<f64> = GROWTH.iter().filter_map(|&growth| from(growth)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    match (from(GROWTH[0]), &values[..]) {
        (None, _) => Truth::NotIdentifiable("the largest IOs bring more yet"),
        (Some(value), [_]) => value.into(),
        _ => Truth::OneOf(values.into_iter().map(Into::into).collect()),
    }
}

/// A of T = A + n B, by least squares of the relative deviations of a curve.
fn relative_line(curve: &[(f64, f64)]) -> f64 {
    let points = &curve[FITTED_FROM..=FITTED_TO];
    // Weights 1 / T^2: the normal equations for two unknowns.
    let sum = |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(n, t)| f(n, t) / (t * t)).sum::<f64>();
    let (one, n, nn, t, nt) =
        (sum(&|_, _| 1.0), sum(&|n, _| n), sum(&|n, _| n * n), sum(&|_, t| t), sum(&|n, t| n * t));
    (t * nn - nt * n) / (one * nn - n * n)
}

/// The useful queue depth, without and with noise: late IOs need more IOs in flight.
pub fn useful_depth(quiet: &Profile, noisy: &Profile, page: Bytes) -> Truth {
    let [one, other] = [quiet, noisy].map(|profile| {
        let mut lab = Lab::filled(profile);
        let depths: Vec<u64> =
            (0..).map(|power| 1 << power).take_while(|&depth| depth <= u64::from(lab.depth())).collect();
        let throughput: Vec<(f64, f64)> = depths
            .iter()
            .map(|&depth| {
                let mut random = Prng::new(Seed(depth));
                (depth as f64, 1.0 / lab.random_read_interval(page, depth, READS, &mut random))
            })
            .collect();
        saturation(&throughput, depths.last().map(|&depth| depth as f64))
    });
    either(one, other)
}

/// The cost of aligned sequential writes of one page with this content, relative to random content. Three
/// situations differ, and each of their values is right. Without noise. With noise, because a write buffer is
/// written to the flash while the host waits for an outlier. And after a part of the device was overwritten,
/// because a device with deferred work does a part of it before each write.
pub fn content_share(
    quiet: &Profile,
    noisy: &Profile,
    page: Bytes,
    settle: Bytes,
    content: WrittenContent,
) -> Truth {
    let flash = quiet.flash.as_ref();
    if flash.is_none_or(|flash| flash.zeros_program_share == 1.0 && flash.ones_program_share == 1.0) {
        return 1.0.into();
    }
    let share = |profile, overwritten: Bytes, writes| {
        let mut lab = Lab::filled(profile);
        lab.sequential(Operation::Write, Bytes::ZERO, OVERWRITE, overwritten.0 / OVERWRITE.0);
        let mut at = overwritten.round_up(page);
        let (mut random, mut other) = (Vec::new(), Vec::new());
        // Alternating, because the backlog changes over time.
        for turn in 0..2 * TURNS {
            let (costs, written) =
                if turn % 2 == 0 { (&mut random, WrittenContent::Random) } else { (&mut other, content) };
            lab.write_content(written);
            let before = settle.0.div_ceil(page.0);
            lab.sequential(Operation::Write, at, page, before);
            costs.extend(lab.sequential(Operation::Write, at + page * before, page, writes));
            at += page * (before + writes);
        }
        match (median(random), median(other)) {
            (Some(random), Some(cost)) => Truth::from(cost / random),
            _ => Truth::unjudged(TWO_KINDS),
        }
    };
    let mut all = Vec::new();
    for truth in [share(quiet, Bytes::ZERO, 251), share(noisy, Bytes::ZERO, 2002)] {
        match truth {
            Truth::Is(value) => all.push(value),
            unjudged => return unjudged,
        }
    }
    if quiet.controller.background.is_some()
        && let Truth::Is(value) = share(quiet, Bytes(quiet.capacity.0 / 2), 251)
    {
        all.push(value);
    }
    Truth::OneOf(all)
}

/// Writes of one page in the first MiB, shifted by half a page, relative to aligned ones. If the writes are
/// of two kinds with similar times, noise or a late host changes the median. So the penalty is also measured
/// with noise, often enough. Both values are right, and all values between them.
pub fn misalignment(quiet: &Profile, noisy: &Profile, page: Bytes) -> Truth {
    if Lab::empty(quiet).block() == page {
        return Truth::NotIdentifiable("no write can be shifted by less than a page");
    }
    let [one, other] = [(quiet, 10, 0.01), (noisy, 100, 0.03)]
        .map(|(profile, turns, same)| penalty(profile, page, turns, same));
    match (one, other) {
        (Ok(one), Ok(other)) => Truth::Between([one, other]),
        // With noise, the two kinds may be indistinguishable.
        (Ok(one), Err(_)) => one.into(),
        (Err(why), _) => Truth::unjudged(why),
    }
}

/// The penalty from this number of alternating runs, measured twice. If the two differ by more than `same` of
/// it, there is none, with the reason.
fn penalty(profile: &Profile, page: Bytes, turns: u64, same: f64) -> Result<f64, &'static str> {
    let mut lab = Lab::filled(profile);
    let mut random = Prng::new(Seed(2));
    // The second measurement shows whether the penalty depends on earlier writes.
    let [first, second] = [0, 1].map(|_| {
        let (mut aligned, mut shifted) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            let mut writes =
                |shift| lab.random(Operation::Write, (Bytes::mib(1), shift, page), 50, &mut random);
            aligned.extend(writes(Bytes::ZERO));
            shifted.extend(writes(Bytes(page.0 / 2)));
        }
        Some((median(shifted)? - median(aligned)?).max(0.0))
    });
    match (first, second) {
        (Some(first), Some(second)) if (first - second).abs() <= same * first => Ok((first + second) / 2.0),
        (Some(_), Some(_)) => Err("it depends on how much was written there before"),
        _ => Err(TWO_KINDS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_analysis::inference::Value;

    #[test]
    fn a_line_is_fitted_exactly() {
        let points = SIZES.map(|power| (f64::from(1 << power), 100.0 + 3.0 * f64::from(1 << power)));
        assert!((relative_line(&points) - 100.0).abs() < 1e-3);
    }

    #[test]
    fn what_a_line_tells_is_bounded() {
        // Writes of 64 KiB and 1 MiB: 100 us plus 100 us for each 64 KiB, so that the small ones take 200 us.
        let line = SIZES.map(|power| {
            let pages = f64::from(1 << power) / 65536.0;
            (f64::from(1 << power), if pages < 1.0 { 500.0 } else { 100.0 + 100.0 * pages })
        });
        let bytes = Bytes::mib(1024);
        // The best of all divisions of these bytes, by search.
        let variance = |share: f64| {
            let (small, large) = (share * 16384.0, (1.0 - share) * 1024.0);
            ((1024.0 * 200.0 / 960.0f64).powi(2) / small + (64.0 * 1700.0 / 960.0f64).powi(2) / large)
                * 0.05f64.powi(2)
        };
        let best = (1..1000).map(|part| variance(f64::from(part) / 1000.0)).fold(f64::INFINITY, f64::min);
        let bound = least_error(&line, 0.05, bytes);
        assert!((bound / best.sqrt() - 1.0).abs() < 1e-3, "{bound}, {}", best.sqrt());
        assert!((least_error(&line, 0.05, Bytes::mib(256)) / bound - 2.0).abs() < 1e-9);
    }

    #[test]
    fn saturation_is_where_doubling_brings_little_and_near_the_limit_either() {
        let curve = |growths: &[f64]| {
            let mut points = vec![(4096.0, 1.0)];
            for growth in growths {
                let &(size, rate) = points.last().unwrap();
                points.push((size * 2.0, rate * growth));
            }
            points
        };
        assert_eq!(saturation(&curve(&[1.5, 1.1, 1.001]), None), Truth::from(16384.0));
        let either = Truth::OneOf(vec![Value::from(8192.0), Value::from(16384.0)]);
        assert_eq!(saturation(&curve(&[1.5, 1.024, 1.001]), None), either);
        assert!(matches!(saturation(&curve(&[1.5, 1.4]), None), Truth::NotIdentifiable(_)));
        assert_eq!(saturation(&curve(&[1.5, 1.4]), Some(7.0)), Truth::from(7.0));
    }

    #[test]
    fn larger_sizes_bring_nothing_behind_the_last_stair() {
        let curve = |growths: &[f64]| {
            let grown = growths.iter().scan((4096.0, 1.0), |(size, rate), growth| {
                (*size, *rate) = (*size * 2.0, *rate * growth);
                Some((*size, *rate))
            });
            std::iter::once((4096.0, 1.0)).chain(grown).collect::<Vec<_>>()
        };
        assert_eq!(saturation_size(&curve(&[1.5, 1.1, 1.001])), Truth::from(16384.0));
        assert_eq!(saturation_size(&curve(&[1.001, 1.5, 1.0])), Truth::from(16384.0));
        // If a loss is only made up for, nothing is gained.
        assert_eq!(saturation_size(&curve(&[1.5, 1.001, 0.5, 2.0, 1.0])), Truth::from(8192.0));
        assert!(matches!(saturation_size(&curve(&[1.0, 1.4])), Truth::NotIdentifiable(_)));
    }
}
