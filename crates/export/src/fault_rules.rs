//! Injects faults into IOs by rules.
//!
//! # Model
//! A [`FaultRule`] says what happens ([`FaultKind`]) and to which IOs. A [`FaultInjector`] has the armed
//! rules, and returns the combined effect of all of them on each IO. Module `fault_grammar` parses rules from
//! text.
//!
//! # Invariants
//! - The same rules, seed and order of IOs affect the same IOs.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{IoError, Operation};
use serde::Serialize;

/// What happens, and to which IOs. Without any condition it happens to all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultRule {
    /// What happens.
    pub kind: FaultKind,
    /// Only to IOs of this operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<FaultOperation>,
    /// Only to the IO with this number, counted from 0 when the rule is armed, among those that `on` selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Only to this share of the IOs, chosen at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// At most to this number of IOs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Only to IOs that touch bytes from this offset on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_bytes: Option<u64>,
    /// Only to IOs that touch bytes before this offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_bytes: Option<u64>,
    /// Only to IOs that arrive this long after the disk started, or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_ns: Option<u64>,
    /// Only to IOs that arrive earlier than this after the disk started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<u64>,
    /// The seed of the random choice; the injector's if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// What happens to an affected IO.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It fails and changes nothing.
    Error {
        /// The error number.
        errno: i32,
    },
    /// A write stores only its first sectors, and reports success.
    Torn,
    /// A flush makes nothing durable, and reports success.
    LostFlush,
    /// It takes longer.
    Stall {
        /// The additional response time.
        for_ns: u64,
    },
    /// It takes this many times as long.
    Slow {
        /// The factor, 0 or more.
        by: f64,
    },
    /// A read returns one flipped bit, and reports success.
    Corrupt,
    /// The IO and all later ones fail with ENXIO.
    Dead,
    /// Writes to a share of the blocks fail, always to the same blocks.
    Worn {
        /// The size of a block.
        block_bytes: u64,
    },
    /// The power fails: data that was not flushed is lost, the IO and all later ones fail.
    PowerLoss,
}

/// An operation, as a fault rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultOperation {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Discards and writes of zeroes.
    Discard,
}

impl FaultRule {
    /// Why no IO to a disk of this capacity can be affected any more, `now` after the disk started; `None` if one can.
    pub fn never_fires(&self, capacity: Bytes, now: Nanos) -> Option<String> {
        let beyond = self.from_bytes.filter(|&from| from >= capacity.0).map(|from| {
            format!("from={}: the disk has {capacity}, so that no IO can reach the rule's place", Bytes(from))
        });
        let over = self.until_ns.filter(|&until| until <= now.0).map(|until| {
            format!("until={}: the disk started {now} ago, so that the rule's time is over", Nanos(until))
        });
        beyond.or(over)
    }

    /// Whether an IO touches the bytes of the rule. A flush touches none.
    fn is_there(&self, offset: Bytes, size: Bytes) -> bool {
        let (from, to) = (self.from_bytes.unwrap_or(0), self.to_bytes.unwrap_or(u64::MAX));
        let is_bounded = self.from_bytes.is_some() || self.to_bytes.is_some();
        !is_bounded || (size.0 > 0 && offset.0 < to && offset.0.saturating_add(size.0) > from)
    }

    fn is_then(&self, arrived: Nanos) -> bool {
        self.after_ns.is_none_or(|after| arrived.0 >= after)
            && self.until_ns.is_none_or(|until| arrived.0 < until)
    }
}

impl FaultOperation {
    fn matches(self, operation: Operation) -> bool {
        matches!(
            (self, operation),
            (FaultOperation::Read, Operation::Read)
                | (FaultOperation::Write, Operation::Write)
                | (FaultOperation::Flush, Operation::Flush)
                | (FaultOperation::Discard, Operation::Discard)
        )
    }
}

/// The effect of all armed rules on one IO.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultEffect {
    /// It fails with this error.
    pub error: Option<IoError>,
    /// Its response takes this many times as long.
    pub slow_down: f64,
    /// And longer by this time.
    pub extra_time: Nanos,
    /// Which bit of a read is flipped.
    pub flipped_bit: Option<u64>,
    /// Only this number of bytes of a write is stored.
    pub torn_bytes: Option<u64>,
    /// A flush makes nothing durable.
    pub lost_flush: bool,
    /// The power fails with it.
    pub power_loss: bool,
}

impl FaultEffect {
    /// The effect on an IO that no rule affects.
    pub const NONE: FaultEffect = FaultEffect {
        error: None,
        slow_down: 1.0,
        extra_time: Nanos::ZERO,
        flipped_bit: None,
        torn_bytes: None,
        lost_flush: false,
        power_loss: false,
    };
}

/// The armed fault rules of a live disk.
#[derive(Debug, Default)]
pub struct FaultInjector {
    seed: Seed,
    armed: Vec<ArmedRule>,
    /// Why every IO fails, if every IO does.
    off: Option<Off>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    Dead,
    NoPower,
}

#[derive(Debug)]
struct ArmedRule {
    rule: FaultRule,
    /// The number of IOs that the operation and the kind select.
    seen: u64,
    struck: u64,
    seed: Seed,
    prng: Prng,
}

impl FaultInjector {
    /// An injector without rules. Rules without a seed of their own use `seed`.
    pub fn with_seed(seed: Seed) -> FaultInjector {
        FaultInjector { seed, ..FaultInjector::default() }
    }

    /// Arms a rule.
    pub fn arm(&mut self, rule: FaultRule) {
        let seed = rule.seed.map_or(self.seed, Seed);
        self.armed.push(ArmedRule { rule, seen: 0, struck: 0, seed, prng: Prng::new(seed) });
    }

    /// Disarms all rules, revives a dead device and restores the power.
    pub fn clear(&mut self) {
        *self = FaultInjector::with_seed(self.seed);
    }

    /// Restores the power and revives a dead device; the rules stay armed.
    pub fn power_on(&mut self) {
        self.off = None;
    }

    /// Cuts the power: every IO fails from now on.
    pub fn power_off(&mut self) {
        self.off = Some(Off::NoPower);
    }

    /// The armed rules, each with the number of IOs that it affected.
    pub fn armed(&self) -> impl Iterator<Item = (&FaultRule, u64)> {
        self.armed.iter().map(|armed| (&armed.rule, armed.struck))
    }

    /// Whether no IO can be affected.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.armed.is_empty() && self.off.is_none()
    }

    /// The effect on the next IO, which arrives this long after the disk started. Counts it against the rules.
    pub fn effect_on(
        &mut self,
        arrived: Nanos,
        operation: Operation,
        offset: Bytes,
        size: Bytes,
    ) -> FaultEffect {
        let mut effect = FaultEffect::NONE;
        match self.off {
            Some(Off::Dead) => return FaultEffect { error: Some(IoError::GONE), ..effect },
            Some(Off::NoPower) => return FaultEffect { error: Some(IoError::IO), ..effect },
            None => {}
        }
        for armed in &mut self.armed {
            if !armed.strikes(arrived, operation, offset, size) {
                continue;
            }
            match armed.rule.kind {
                FaultKind::Error { errno } => effect.error = Some(IoError { errno }),
                FaultKind::Worn { .. } => effect.error = Some(IoError::IO),
                FaultKind::Stall { for_ns } => {
                    effect.extra_time = effect.extra_time.saturating_add(Nanos(for_ns))
                }
                FaultKind::Slow { by } => effect.slow_down *= by,
                FaultKind::Corrupt => effect.flipped_bit = Some(armed.prng.below(size.0.max(1) * 8)),
                FaultKind::Torn => effect.torn_bytes = Some(armed.prng.below(size.0.div_ceil(512)) * 512),
                FaultKind::LostFlush => effect.lost_flush = true,
                FaultKind::Dead => {
                    self.off = Some(Off::Dead);
                    effect.error = Some(IoError::GONE);
                }
                FaultKind::PowerLoss => {
                    self.off = Some(Off::NoPower);
                    effect.power_loss = true;
                    effect.error = Some(IoError::IO);
                }
            }
        }
        self.armed.retain(|armed| !armed.is_over(arrived));
        effect
    }
}

impl ArmedRule {
    fn strikes(&mut self, arrived: Nanos, operation: Operation, offset: Bytes, size: Bytes) -> bool {
        let FaultRule { kind, on, nth, share, count, .. } = self.rule;
        let is_selected = match kind {
            FaultKind::Torn | FaultKind::Worn { .. } => operation == Operation::Write,
            FaultKind::LostFlush => operation == Operation::Flush,
            FaultKind::Corrupt => operation == Operation::Read,
            _ => on.is_none_or(|on| on.matches(operation)),
        };
        let is_selected = is_selected && self.rule.is_there(offset, size) && self.rule.is_then(arrived);
        if !is_selected || count.is_some_and(|count| self.struck >= count) {
            return false;
        }
        let number = self.seen;
        self.seen += 1;
        let strikes = match (kind, nth, share) {
            (FaultKind::Worn { block_bytes }, _, share) => {
                let blocks = offset.0 / block_bytes..=(offset.0 + size.0.max(1) - 1) / block_bytes;
                let share = share.unwrap_or(1.0);
                blocks.into_iter().any(|block| Prng::new(self.seed.derive("worn", block)).unit() < share)
            }
            (_, Some(nth), _) => number == nth,
            (_, None, Some(share)) => self.prng.unit() < share,
            (_, None, None) => true,
        };
        self.struck += u64::from(strikes);
        strikes
    }

    fn is_over(&self, arrived: Nanos) -> bool {
        let by_number = self.rule.nth.is_some_and(|nth| self.seen > nth);
        let by_time = self.rule.until_ns.is_some_and(|until| arrived.0 >= until);
        by_number || by_time || self.rule.count.is_some_and(|count| self.struck >= count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(texts: &[&str]) -> FaultInjector {
        let mut faults = FaultInjector::default();
        texts.iter().for_each(|text| faults.arm(text.parse().unwrap()));
        faults
    }

    #[test]
    fn a_rule_that_no_io_can_reach_is_found() {
        let never = |text: &str| {
            let rule: FaultRule = text.parse().unwrap();
            rule.never_fires(Bytes::gib(1), Nanos::from_secs(60))
        };
        assert_eq!(never("error,from=1023MiB,to=2GiB,until=61s"), None);
        assert!(never("error,from=1GiB").unwrap().contains("the disk has 1 GiB"));
        assert!(never("error,until=60s").unwrap().contains("the disk started 60 s ago"));
    }

    fn judge(faults: &mut FaultInjector, operation: Operation) -> FaultEffect {
        faults.effect_on(Nanos::ZERO, operation, Bytes::ZERO, Bytes::kib(4))
    }

    #[test]
    fn the_nth_is_struck_once() {
        let mut faults = faults(&["error,on=write,nth=1,errno=ENOSPC"]);
        let order = [Operation::Write, Operation::Read, Operation::Write, Operation::Write];
        let errors: Vec<_> = order.map(|operation| judge(&mut faults, operation).error).into();
        assert_eq!(errors, [None, None, Some(IoError { errno: 28 }), None]);
        assert!(faults.are_none());
    }

    #[test]
    fn a_share_is_struck_and_the_seed_says_which() {
        let strikes = |seed: u64| -> Vec<bool> {
            let mut faults = faults(&[&format!("error,share=0.1,seed={seed}")]);
            (0..10_000).map(|_| judge(&mut faults, Operation::Read).error.is_some()).collect()
        };
        let share = strikes(1).iter().filter(|struck| **struck).count();
        assert!((900..1100).contains(&share), "{share} of 10000");
        assert_eq!(strikes(1), strikes(1));
        assert_ne!(strikes(1), strikes(2));
        let mut of_the_disk = FaultInjector::with_seed(Seed(2));
        of_the_disk.arm("error,share=0.1".parse().unwrap());
        let struck: Vec<bool> =
            (0..10_000).map(|_| judge(&mut of_the_disk, Operation::Read).error.is_some()).collect();
        assert_eq!(struck, strikes(2));
    }

    #[test]
    fn a_dead_device_stays_dead_and_power_comes_back() {
        let mut faults = faults(&["dead,nth=1"]);
        let errors: Vec<_> = (0..3).map(|_| judge(&mut faults, Operation::Read).error).collect();
        assert_eq!(errors, [None, Some(IoError::GONE), Some(IoError::GONE)]);
        faults.power_on();
        assert_eq!(judge(&mut faults, Operation::Read).error, None);
    }

    #[test]
    fn a_place_and_a_time_bound_a_rule() {
        let mut faults =
            faults(&["error,from=1MiB,to=2MiB,after=10s,until=20s", "slow,by=3", "corrupt,after=30s"]);
        let mut at = |seconds, operation, mib: f64| {
            let offset = Bytes((mib * 1024.0 * 1024.0) as u64);
            faults.effect_on(Nanos::from_secs(seconds), operation, offset, Bytes::kib(4))
        };
        assert_eq!(at(5, Operation::Read, 1.5).error, None, "too early");
        assert_eq!(at(10, Operation::Read, 2.0).error, None, "behind the end");
        assert_eq!(at(10, Operation::Read, 0.999).error, Some(IoError::IO), "it reaches in");
        assert_eq!(at(10, Operation::Flush, 1.5).slow_down, 3.0);
        assert_eq!(at(20, Operation::Read, 1.5).error, None, "too late");
        assert_eq!(at(29, Operation::Read, 1.5).flipped_bit, None);
        assert!(at(30, Operation::Read, 1.5).flipped_bit.unwrap() < 4096 * 8);
        assert_eq!(at(30, Operation::Write, 1.5).flipped_bit, None, "what is written is right");
        assert_eq!(faults.armed().count(), 2, "the first is over");
    }

    #[test]
    fn worn_blocks_are_always_the_same_and_can_be_read() {
        let mut faults = faults(&["worn,share=0.25,block=64KiB"]);
        let mut worn = |operation| -> Vec<bool> {
            let at = |block: u64| {
                faults.effect_on(Nanos::ZERO, operation, Bytes(block << 16), Bytes::kib(4)).error.is_some()
            };
            (0..4000).map(at).collect()
        };
        let first = worn(Operation::Write);
        assert_eq!(first, worn(Operation::Write));
        assert!((900..1100).contains(&first.iter().filter(|worn| **worn).count()));
        assert!(worn(Operation::Read).iter().all(|worn| !worn));
    }
}
