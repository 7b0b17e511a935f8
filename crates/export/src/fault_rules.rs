//! What goes wrong on purpose.
//!
//! # Grammar
//! `KIND[,KEY=VALUE]...`, as `error,on=write,share=0.01` or `power-loss,nth=1000`:
//!
//! | kind | what happens to an IO that it strikes |
//! | --- | --- |
//! | `error` | it fails (`errno`, EIO if not given), and nothing is done |
//! | `torn` | a write puts only a first part down, in whole sectors of 512 bytes, and says that all is well |
//! | `lost-flush` | a flush says that all is well and makes nothing durable |
//! | `stall` | it takes longer, by `for` |
//! | `dead` | it and all that follow fail with ENXIO |
//! | `worn` | a write to a worn-out block fails with EIO; `share` of the blocks of `block` bytes are worn |
//! | `power-loss` | it fails, what was not flushed is gone, and all that follow fail until `power-on` |
//!
//! Which IOs: `on=read|write|flush|discard|any`; `nth=N` (the N-th from now, from 0, that `on` names), or `share=P` of
//! them, drawn with `seed` (the disk's if not given); `count=N` ends it after N strikes. With none of them every one is
//! struck.
//!
//! # Invariants
//! - the same faults, seed and order of IOs strike the same IOs.

use std::str::FromStr;

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{IoError, Operation};
use serde::Serialize;

/// A fault, as it is asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultRule {
    /// What happens.
    pub kind: FaultKind,
    /// To which IOs; all if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<FaultOperation>,
    /// To the one with this number alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// To this share of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// So many times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// What the share is drawn with; the disk's seed if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// What happens to an IO.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It fails.
    Error {
        /// With this number.
        errno: i32,
    },
    /// A part of a write is put down.
    Torn,
    /// A flush does nothing.
    LostFlush,
    /// It takes longer.
    Stall {
        /// By so much.
        for_ns: u64,
    },
    /// The device drops dead.
    Dead,
    /// A share of the blocks takes no writes.
    Worn {
        /// How large a block is.
        block_bytes: u64,
    },
    /// The power fails.
    PowerLoss,
}

/// Kinds of IOs.
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

impl FaultOperation {
    fn names(self, operation: Operation) -> bool {
        matches!(
            (self, operation),
            (FaultOperation::Read, Operation::Read)
                | (FaultOperation::Write, Operation::Write)
                | (FaultOperation::Flush, Operation::Flush)
                | (FaultOperation::Discard, Operation::Discard)
        )
    }
}

/// What an IO has to expect.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultEffect {
    /// It fails with this.
    pub error: Option<IoError>,
    /// It takes so much longer.
    pub extra_time: Nanos,
    /// So many bytes of a write are put down.
    pub torn_bytes: Option<u64>,
    /// A flush makes nothing durable.
    pub lost_flush: bool,
    /// The power fails with it.
    pub power_loss: bool,
}

/// The faults of a live disk.
#[derive(Debug, Default)]
pub struct FaultInjector {
    seed: Seed,
    armed: Vec<Armed>,
    /// Whether the device is dead or without power: nothing is served.
    off: Option<Off>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    Dead,
    NoPower,
}

#[derive(Debug)]
struct Armed {
    fault: FaultRule,
    seen: u64,
    struck: u64,
    seed: Seed,
    prng: Prng,
}

impl FaultInjector {
    /// None yet; those that bring no seed of their own are drawn with `seed`.
    pub fn with_seed(seed: Seed) -> FaultInjector {
        FaultInjector { seed, ..FaultInjector::default() }
    }

    /// Arms a fault.
    pub fn arm(&mut self, fault: FaultRule) {
        let seed = fault.seed.map_or(self.seed, Seed);
        self.armed.push(Armed { fault, seen: 0, struck: 0, seed, prng: Prng::new(seed) });
    }

    /// Disarms all, and gives a dead device its life and power back.
    pub fn clear(&mut self) {
        *self = FaultInjector::with_seed(self.seed);
    }

    /// The power is back, and a dead device as well; what is armed stays.
    pub fn power_on(&mut self) {
        self.off = None;
    }

    /// The power fails now.
    pub fn power_off(&mut self) {
        self.off = Some(Off::NoPower);
    }

    /// What is armed, with how often it struck.
    pub fn armed(&self) -> impl Iterator<Item = (&FaultRule, u64)> {
        self.armed.iter().map(|armed| (&armed.fault, armed.struck))
    }

    /// Whether nothing can happen to an IO.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.armed.is_empty() && self.off.is_none()
    }

    /// What happens to the next IO.
    pub fn effect_on(&mut self, operation: Operation, offset: Bytes, size: Bytes) -> FaultEffect {
        let mut effect = FaultEffect::default();
        match self.off {
            Some(Off::Dead) => return FaultEffect { error: Some(IoError::GONE), ..effect },
            Some(Off::NoPower) => return FaultEffect { error: Some(IoError::IO), ..effect },
            None => {}
        }
        for armed in &mut self.armed {
            if !armed.strikes(operation, offset, size) {
                continue;
            }
            match armed.fault.kind {
                FaultKind::Error { errno } => effect.error = Some(IoError { errno }),
                FaultKind::Worn { .. } => effect.error = Some(IoError::IO),
                FaultKind::Stall { for_ns } => {
                    effect.extra_time = effect.extra_time.saturating_add(Nanos(for_ns))
                }
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
        self.armed.retain(|armed| !armed.is_over());
        effect
    }
}

impl Armed {
    fn strikes(&mut self, operation: Operation, offset: Bytes, size: Bytes) -> bool {
        let FaultRule { kind, on, nth, share, count, seed: _ } = self.fault;
        let meant = match kind {
            FaultKind::Torn | FaultKind::Worn { .. } => operation == Operation::Write,
            FaultKind::LostFlush => operation == Operation::Flush,
            _ => on.is_none_or(|on| on.names(operation)),
        };
        if !meant || count.is_some_and(|count| self.struck >= count) {
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

    fn is_over(&self) -> bool {
        let by_number = self.fault.nth.is_some_and(|nth| self.seen > nth);
        by_number || self.fault.count.is_some_and(|count| self.struck >= count)
    }
}

/// Why a text is no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseFaultRuleError(String);

/// The error numbers that storage gives.
const ERRNOS: [(&str, i32); 9] = [
    ("EIO", 5),
    ("ENXIO", 6),
    ("ENOMEM", 12),
    ("EINVAL", 22),
    ("ENOSPC", 28),
    ("EROFS", 30),
    ("ENODATA", 61),
    ("ETIMEDOUT", 110),
    ("EREMOTEIO", 121),
];

impl FromStr for FaultRule {
    type Err = ParseFaultRuleError;

    fn from_str(text: &str) -> Result<FaultRule, ParseFaultRuleError> {
        let wrong = |what: String| ParseFaultRuleError(format!("{text:?} is no fault: {what}"));
        let mut parts = text.split(',').map(str::trim);
        let kind = parts.next().unwrap_or("");
        let mut fault =
            FaultRule { kind: FaultKind::Torn, on: None, nth: None, share: None, count: None, seed: None };
        let (mut errno, mut longer, mut block) = (IoError::IO.errno, Nanos::from_secs(1), Bytes::mib(1));
        let mut given = Vec::new();
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(wrong(format!("{part:?} is not KEY=VALUE")));
            };
            let number =
                || value.parse().map_err(|_| wrong(format!("{key}={value}: {key} is a whole number from 0")));
            match key {
                "on" => fault.on = on(value).map_err(wrong)?,
                "nth" => fault.nth = Some(number()?),
                "count" => fault.count = Some(number()?),
                "seed" => fault.seed = Some(number()?),
                "share" => {
                    let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                    fault.share =
                        Some(share.ok_or_else(|| wrong(format!("share={value}: it is from 0 to 1")))?);
                }
                "errno" => errno = error_number(value).map_err(wrong)?,
                "for" => {
                    longer = value.parse().map_err(|_| wrong(format!("for={value}: a time, as 5s")))?;
                }
                "block" => {
                    let parsed = value.parse().ok().filter(|block| *block >= Bytes(512));
                    block = parsed
                        .ok_or_else(|| wrong(format!("block={value}: a size of 512B or more, as 1MiB")))?;
                }
                _ => {
                    return Err(wrong(format!(
                        "there is no key {key:?}; there are on, nth, share, count, seed, errno, for, block"
                    )));
                }
            }
            given.push(key);
        }
        fault.kind = match kind {
            "error" => FaultKind::Error { errno },
            "torn" => FaultKind::Torn,
            "lost-flush" => FaultKind::LostFlush,
            "stall" => FaultKind::Stall { for_ns: longer.0 },
            "dead" => FaultKind::Dead,
            "worn" => FaultKind::Worn { block_bytes: block.0 },
            "power-loss" => FaultKind::PowerLoss,
            _ => {
                return Err(wrong(format!(
                    "there is no kind {kind:?}; there are error, torn, lost-flush, stall, dead, worn, power-loss"
                )));
            }
        };
        for (key, kinds) in [("errno", "error"), ("for", "stall"), ("block", "worn")] {
            if given.contains(&key) && kind != kinds {
                return Err(wrong(format!("{key} belongs to {kinds}")));
            }
        }
        if given.contains(&"on") && matches!(kind, "torn" | "worn" | "lost-flush") {
            return Err(wrong(format!("{kind} strikes one kind of IO only: leave on out")));
        }
        if fault.nth.is_some() && (fault.share.is_some() || kind == "worn") {
            return Err(wrong("nth names one IO: it goes neither with share nor with worn".to_owned()));
        }
        Ok(fault)
    }
}

fn on(value: &str) -> Result<Option<FaultOperation>, String> {
    Ok(match value {
        "any" => None,
        "read" => Some(FaultOperation::Read),
        "write" => Some(FaultOperation::Write),
        "flush" => Some(FaultOperation::Flush),
        "discard" => Some(FaultOperation::Discard),
        _ => return Err(format!("on={value}: there are read, write, flush, discard and any")),
    })
}

fn error_number(value: &str) -> Result<i32, String> {
    let named = ERRNOS.iter().find(|(name, _)| *name == value).map(|(_, number)| *number);
    named.or_else(|| value.parse().ok().filter(|number| (1..4096).contains(number))).ok_or_else(|| {
        let names: Vec<&str> = ERRNOS.iter().map(|(name, _)| *name).collect();
        format!("errno={value}: a number from 1 to 4095, or {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(texts: &[&str]) -> FaultInjector {
        let mut faults = FaultInjector::default();
        texts.iter().for_each(|text| faults.arm(text.parse().unwrap()));
        faults
    }

    fn judge(faults: &mut FaultInjector, operation: Operation) -> FaultEffect {
        faults.effect_on(operation, Bytes::ZERO, Bytes::kib(4))
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
    fn worn_blocks_are_always_the_same_and_can_be_read() {
        let mut faults = faults(&["worn,share=0.25,block=64KiB"]);
        let mut worn = |operation| -> Vec<bool> {
            let at =
                |block: u64| faults.effect_on(operation, Bytes(block << 16), Bytes::kib(4)).error.is_some();
            (0..4000).map(at).collect()
        };
        let first = worn(Operation::Write);
        assert_eq!(first, worn(Operation::Write));
        assert!((900..1100).contains(&first.iter().filter(|worn| **worn).count()));
        assert!(worn(Operation::Read).iter().all(|worn| !worn));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_fault_or_an_error(
            text in "(error|torn|stall|worn|dead|.{0,8})(,(on|nth|share|count|seed|errno|for|block|.{0,3})=?.{0,12}){0,4}",
            range in (0..u64::MAX / 2, 0..1_u64 << 30),
        ) {
            if let Ok(fault) = text.parse::<FaultRule>() {
                let mut faults = FaultInjector::default();
                faults.arm(fault);
                faults.effect_on(Operation::Write, Bytes(range.0), Bytes(range.1));
            }
        }
    }

    #[test]
    fn what_is_no_fault_is_told() {
        let message = |text: &str| text.parse::<FaultRule>().unwrap_err().to_string();
        insta::assert_snapshot!(message("explode"), @r#""explode" is no fault: there is no kind "explode"; there are error, torn, lost-flush, stall, dead, worn, power-loss"#);
        insta::assert_snapshot!(message("error,share=1.5"), @r#""error,share=1.5" is no fault: share=1.5: it is from 0 to 1"#);
        insta::assert_snapshot!(message("torn,on=read"), @r#""torn,on=read" is no fault: torn strikes one kind of IO only: leave on out"#);
        insta::assert_snapshot!(message("error,errno=ESTRANGE"), @r#""error,errno=ESTRANGE" is no fault: errno=ESTRANGE: a number from 1 to 4095, or EIO, ENXIO, ENOMEM, EINVAL, ENOSPC, EROFS, ENODATA, ETIMEDOUT, EREMOTEIO"#);
        insta::assert_snapshot!(message("stall,5s"), @r#""stall,5s" is no fault: "5s" is not KEY=VALUE"#);
    }
}
