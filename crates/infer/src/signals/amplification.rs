//! Where the write amplification of random writes rises, because garbage collection begins.
//!
//! # Invariants
//! - a rise is one that stays: several readings one after the other;
//! - a rise is reported only behind enough readings that show the usual amplification.

use flashlab_base::Bytes;

use super::statistics::upper_median;

/// The readings in a row that have to be risen. Unit: readings. Source: choice. Too many: the rise is found
/// late, after more writes; too few: one late reading of the counter is a rise.
const READINGS_RISEN: usize = 3;
/// The readings before a rise that show the usual amplification. Unit: readings. Source: choice. Too many: an
/// early rise is missed; too few: their median is not the usual amplification.
const READINGS_USUAL: usize = 4;
/// The least ratio of the amplification behind a rise to the one before it. Unit: ratio. Source: tuned. Too
/// high: the collection of nearly empty blocks is not seen; too low: the rounding of the counter is a rise.
const RISE_LEAST: f64 = 1.2;

/// Where amplification rises.
#[derive(Clone, Debug, PartialEq)]
pub struct AmplificationRise {
    /// What the host had written until then.
    pub place: Bytes,
    /// How far off that may be.
    pub error: Bytes,
    /// Write amplification before it.
    pub before: f64,
    /// Write amplification behind it.
    pub after: f64,
    /// Write amplification over what the host had written.
    pub curve: Vec<(f64, f64)>,
}

/// What the device had written to its flash when the host had written this much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashReading {
    /// Bytes that the host wrote.
    pub host: Bytes,
    /// Bytes that the device wrote to its flash.
    pub flash: Bytes,
}

/// The rise that the last readings are, if they are one.
pub fn rise(readings: &[FlashReading]) -> Option<AmplificationRise> {
    let steps: Vec<(FlashReading, f64)> = readings
        .windows(2)
        .map(|pair| {
            let written = (pair[1].flash - pair[0].flash).0 as f64;
            (pair[0], written / (pair[1].host - pair[0].host).0 as f64)
        })
        .collect();
    let first = steps.len().checked_sub(READINGS_RISEN).filter(|&first| first >= READINGS_USUAL)?;
    let (usual, risen) = steps.split_at(first);
    let before = upper_median(&usual.iter().map(|step| step.1).collect::<Vec<_>>());
    let after = upper_median(&risen.iter().map(|step| step.1).collect::<Vec<_>>());
    if risen.iter().any(|step| step.1 < RISE_LEAST * before) {
        return None;
    }
    // In the first of them it rises at a place that its own amplification shows.
    let length = (risen[1].0.host - risen[0].0.host).0 as f64;
    let usual_part = 1.0 - ((risen[0].1 - before) / (after - before)).clamp(0.0, 1.0);
    let place = risen[0].0.host + Bytes((usual_part * length) as u64);
    let curve =
        steps.iter().map(|(reading, amplification)| (reading.host.0 as f64, *amplification)).collect();
    Some(AmplificationRise { place, error: Bytes(length as u64 / 2), before, after, curve })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(flash: impl Fn(u64) -> u64, step: usize) -> Vec<FlashReading> {
        (0..40)
            .step_by(step)
            .map(|i| FlashReading { host: Bytes::mib(i), flash: Bytes(flash(i << 20)) })
            .collect()
    }

    #[test]
    fn collection_begins_where_more_is_written_to_the_flash() {
        let onset = 20 << 20 | 300_000;
        let flash = |host: u64| (1 << 40) + host + host / 20 + 4 * host.saturating_sub(onset);
        let all = readings(flash, 1);
        let found = (1..all.len()).find_map(|count| rise(&all[..count])).unwrap();
        assert!(found.place.0.abs_diff(onset) < 20_000, "{found:?}");
        assert!((found.before - 1.05).abs() < 0.01 && (found.after - 5.05).abs() < 0.01, "{found:?}");
        // In coarse steps, too.
        let coarse = readings(flash, 4);
        let found = (1..coarse.len()).find_map(|count| rise(&coarse[..count])).unwrap();
        assert!(found.place.0.abs_diff(onset) < found.error.0, "{found:?}");
    }

    #[test]
    fn what_goes_on_as_before_is_no_rise() {
        let even = readings(|host| host + host / 8, 1);
        assert_eq!((1..even.len()).find_map(|count| rise(&even[..count])), None);
        let once = readings(|host| host + if host > 20 << 20 { 9 << 20 } else { 0 }, 1);
        assert_eq!((1..once.len()).find_map(|count| rise(&once[..count])), None);
        assert_eq!(rise(&[]), None);
    }
}
