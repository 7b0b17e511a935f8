//! Parses fault rules.
//!
//! # Grammar
//! `KIND[,KEY=VALUE]...`, such as `error,on=write,share=0.01` or `power-loss,nth=1000`.
//!
//! | kind | what happens to an affected IO |
//! | --- | --- |
//! | `error` | it fails with `errno` (EIO if not given) and changes nothing |
//! | `torn` | a write stores only its first sectors of 512 bytes, and reports success |
//! | `lost-flush` | a flush makes nothing durable, and reports success |
//! | `stall` | it takes longer by `for` (1 s if not given) |
//! | `slow` | it takes `by` times as long (10 if not given) |
//! | `corrupt` | a read returns one flipped bit, and reports success |
//! | `dead` | it and all later ones fail with ENXIO |
//! | `worn` | a write to a worn block fails with EIO; `share` of the blocks of `block` bytes are worn |
//! | `power-loss` | it fails, data that was not flushed is lost, and all later ones fail until `power-on` |
//!
//! | key | which IOs are affected; all if none is given |
//! | --- | --- |
//! | `on` | only `read`, `write`, `flush` or `discard`; `any` is all |
//! | `nth` | only the IO with this number, from 0 |
//! | `share` | this share, chosen at random with `seed` |
//! | `count` | at most this number |
//! | `from`, `to` | only those that touch bytes from this offset on, and before that one |
//! | `after`, `until` | only those that arrive at least this long after the disk started, and earlier than
//! that |

use std::str::FromStr;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::IoError;
use rustix::io::Errno;

use crate::fault_rules::{FaultKind, FaultOperation, FaultRule};

/// Why a text is no fault rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseFaultRuleError(String);

/// The error numbers that block devices return, by their Linux names.
const ERRNOS: [(&str, i32); 9] = [
    ("EIO", Errno::IO.raw_os_error()),
    ("ENXIO", Errno::NXIO.raw_os_error()),
    ("ENOMEM", Errno::NOMEM.raw_os_error()),
    ("EINVAL", Errno::INVAL.raw_os_error()),
    ("ENOSPC", Errno::NOSPC.raw_os_error()),
    ("EROFS", Errno::ROFS.raw_os_error()),
    ("ENODATA", Errno::NODATA.raw_os_error()),
    ("ETIMEDOUT", Errno::TIMEDOUT.raw_os_error()),
    ("EREMOTEIO", Errno::REMOTEIO.raw_os_error()),
];

impl FromStr for FaultRule {
    type Err = ParseFaultRuleError;

    fn from_str(text: &str) -> Result<FaultRule, ParseFaultRuleError> {
        let wrong = |what: String| ParseFaultRuleError(format!("{text:?} is no fault: {what}"));
        let mut parts = text.split(',').map(str::trim);
        let kind = parts.next().unwrap_or("");
        let mut fault = FaultRule {
            kind: FaultKind::Torn,
            on: None,
            nth: None,
            share: None,
            count: None,
            from_bytes: None,
            to_bytes: None,
            after_ns: None,
            until_ns: None,
            seed: None,
        };
        let mut factor = 10.0;
        let (mut errno, mut longer, mut block) = (IoError::IO.errno, Nanos::from_secs(1), Bytes::mib(1));
        let mut given = Vec::new();
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(wrong(format!("{part:?} is not KEY=VALUE")));
            };
            let number =
                || value.parse().map_err(|_| wrong(format!("{key}={value}: {key} is a whole number from 0")));
            let place = || {
                value
                    .parse::<Bytes>()
                    .map_err(|_| wrong(format!("{key}={value}: {key} is an offset, as 1GiB")))
            };
            let time = || {
                value.parse::<Nanos>().map_err(|_| wrong(format!("{key}={value}: {key} is a time, as 90s")))
            };
            match key {
                "from" => fault.from_bytes = Some(place()?.0),
                "to" => fault.to_bytes = Some(place()?.0),
                "after" => fault.after_ns = Some(time()?.0),
                "until" => fault.until_ns = Some(time()?.0),
                "by" => {
                    let parsed = value.parse().ok().filter(|by| (0.0..=1e6).contains(by));
                    factor =
                        parsed.ok_or_else(|| wrong(format!("by={value}: a factor from 0 to 1000000")))?;
                }
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
                        "there is no key {key:?}; there are on, nth, share, count, from, to, after, until, seed, \
                         errno, for, by, block"
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
            "slow" => FaultKind::Slow { by: factor },
            "corrupt" => FaultKind::Corrupt,
            "dead" => FaultKind::Dead,
            "worn" => FaultKind::Worn { block_bytes: block.0 },
            "power-loss" => FaultKind::PowerLoss,
            _ => {
                return Err(wrong(format!(
                    "there is no kind {kind:?}; there are error, torn, lost-flush, stall, slow, corrupt, dead, \
                     worn, power-loss"
                )));
            }
        };
        for (key, kinds) in [("errno", "error"), ("for", "stall"), ("by", "slow"), ("block", "worn")] {
            if given.contains(&key) && kind != kinds {
                return Err(wrong(format!("{key} belongs to {kinds}")));
            }
        }
        if given.contains(&"on") && matches!(kind, "torn" | "worn" | "lost-flush" | "corrupt") {
            return Err(wrong(format!("{kind} affects one kind of IO only: leave out `on`")));
        }
        if fault.nth.is_some() && (fault.share.is_some() || kind == "worn") {
            return Err(wrong("nth names one IO: it goes neither with share nor with worn".to_owned()));
        }
        if fault.from_bytes.unwrap_or(0) >= fault.to_bytes.unwrap_or(u64::MAX) {
            return Err(wrong("from is before to, or nothing lies between them".to_owned()));
        }
        let has_place = fault.from_bytes.is_some() || fault.to_bytes.is_some();
        if has_place && (kind == "lost-flush" || fault.on == Some(FaultOperation::Flush)) {
            return Err(wrong("a flush touches no place: leave out from and to".to_owned()));
        }
        if fault.share == Some(0.0) || fault.count == Some(0) {
            return Err(wrong("with share=0 or count=0 it affects no IO".to_owned()));
        }
        if fault.after_ns.unwrap_or(0) >= fault.until_ns.unwrap_or(u64::MAX) {
            return Err(wrong("after is before until, or no time lies between them".to_owned()));
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
    use flashlab_device::Operation;

    use super::*;
    use crate::fault_rules::FaultInjector;

    proptest::proptest! {
        #[test]
        fn any_text_is_a_rule_or_an_error(
            text in "(error|torn|stall|slow|corrupt|worn|dead|.{0,8})(,(on|nth|share|count|from|to|after|until|by|seed|errno|for|block|.{0,3})=?.{0,12}){0,4}",
            range in (0..u64::MAX / 2, 0..1_u64 << 30),
        ) {
            if let Ok(fault) = text.parse::<FaultRule>() {
                let mut faults = FaultInjector::default();
                faults.arm(fault);
                faults.effect_on(Nanos(range.0), Operation::Write, Bytes(range.0), Bytes(range.1));
            }
        }
    }

    #[test]
    fn a_wrong_rule_is_refused_with_the_reason() {
        let message = |text: &str| text.parse::<FaultRule>().unwrap_err().to_string();
        insta::assert_snapshot!(message("explode"), @r#""explode" is no fault: there is no kind "explode"; there are error, torn, lost-flush, stall, slow, corrupt, dead, worn, power-loss"#);
        insta::assert_snapshot!(message("error,share=1.5"), @r#""error,share=1.5" is no fault: share=1.5: it is from 0 to 1"#);
        insta::assert_snapshot!(message("torn,on=read"), @r#""torn,on=read" is no fault: torn affects one kind of IO only: leave out `on`"#);
        insta::assert_snapshot!(message("error,errno=ESTRANGE"), @r#""error,errno=ESTRANGE" is no fault: errno=ESTRANGE: a number from 1 to 4095, or EIO, ENXIO, ENOMEM, EINVAL, ENOSPC, EROFS, ENODATA, ETIMEDOUT, EREMOTEIO"#);
        insta::assert_snapshot!(message("error,from=2MiB,to=1MiB"), @r#""error,from=2MiB,to=1MiB" is no fault: from is before to, or nothing lies between them"#);
        insta::assert_snapshot!(message("error,on=flush,from=1MiB"), @r#""error,on=flush,from=1MiB" is no fault: a flush touches no place: leave out from and to"#);
        insta::assert_snapshot!(message("error,count=0"), @r#""error,count=0" is no fault: with share=0 or count=0 it affects no IO"#);
        insta::assert_snapshot!(message("slow,by=-1"), @r#""slow,by=-1" is no fault: by=-1: a factor from 0 to 1000000"#);
        insta::assert_snapshot!(message("stall,5s"), @r#""stall,5s" is no fault: "5s" is not KEY=VALUE"#);
    }
}
