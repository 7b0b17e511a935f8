//! The groups of parameters in a report, and what each group means for the use of the device.
//!
//! Invariant: every parameter belongs to exactly one group.

use flashlab_analysis::inference::{Finding, Inference, Parameter, Value};
use flashlab_base::{Bytes, Nanos};

use crate::advice::LEAST_CONFIDENCE;
use crate::units::digits;

/// A group of parameters that belong together for a reader.
pub struct ParameterGroup {
    /// Unique in the page.
    pub id: &'static str,
    /// Its name in the bar at the top.
    pub short: &'static str,
    /// Its heading.
    pub heading: &'static str,
    /// Its parameters. The picture of the first one that has a picture is the group's.
    pub parameters: &'static [Parameter],
    /// What follows from its findings; empty if too little was found.
    pub conclusions: fn(&Inference) -> Vec<String>,
    /// The sentence if there are no conclusions.
    pub nothing_found: &'static str,
}

/// All groups, in the order of the page.
pub const GROUPS: [ParameterGroup; 5] = [
    ParameterGroup {
        id: "geometry",
        short: "Geometry",
        heading: "Geometry",
        parameters: &[
            Parameter::ReadPageSize,
            Parameter::WritePageSize,
            Parameter::EraseBlockSize,
            Parameter::PlanesReadAtOnce,
            Parameter::ChunkSize,
            Parameter::StripeSize,
            Parameter::ParallelUnits,
            Parameter::Channels,
            Parameter::SegmentGroups,
            Parameter::SegmentGroupSpan,
            Parameter::PhysicalCapacity,
            Parameter::OverProvisioning,
        ],
        conclusions: geometry,
        nothing_found: "No layout of flash is known.",
    },
    ParameterGroup {
        id: "translation",
        short: "Translation",
        heading: "Translation layer",
        parameters: &[
            Parameter::TranslationFamily,
            Parameter::OpenBlocks,
            Parameter::MappingGranularity,
            Parameter::MisalignmentPenalty,
        ],
        conclusions: translation,
        nothing_found: "No translation layer is known.",
    },
    ParameterGroup {
        id: "buffers",
        short: "Buffers",
        heading: "Buffers and caches",
        parameters: &[
            Parameter::WriteBufferSize,
            Parameter::WriteBufferFlush,
            Parameter::SlcCacheSize,
            Parameter::SlcCacheRefill,
            Parameter::ReadBufferSize,
            Parameter::ReadAheadSize,
        ],
        conclusions: buffers,
        nothing_found: "Buffers and caches are not known.",
    },
    ParameterGroup {
        id: "costs",
        short: "Costs",
        heading: "Costs",
        parameters: &[
            Parameter::ReadSaturationSize,
            Parameter::WriteSaturationSize,
            Parameter::UsefulQueueDepth,
            Parameter::RateLimit,
            Parameter::ReadCostPerIo,
            Parameter::WriteCostPerIo,
            Parameter::ZerosProgramShare,
            Parameter::OnesProgramShare,
        ],
        conclusions: costs,
        nothing_found: "It is not known which request sizes pay.",
    },
    ParameterGroup {
        id: "time",
        short: "Over time",
        heading: "Behaviour over time",
        parameters: &[
            Parameter::StartupIos,
            Parameter::PeriodIos,
            Parameter::LingeringTime,
            Parameter::PauseBenefit,
            Parameter::RecoveryTime,
            Parameter::RecoveryEnds,
            Parameter::RewriteCures,
        ],
        conclusions: over_time,
        nothing_found: "It is not known how costs change over time.",
    },
];

/// Writes a sentence with a finding's value, and marks it if the confidence is low.
fn with<'a, T>(
    inference: &'a Inference,
    parameter: Parameter,
    value: impl Fn(&'a Finding) -> Option<T>,
    sentence: impl Fn(T) -> Option<String>,
) -> Option<String> {
    let finding = inference.get(parameter)?;
    let sentence = sentence(value(finding)?)?;
    Some(if finding.confidence < LEAST_CONFIDENCE {
        format!("{sentence} (Low confidence.)")
    } else {
        sentence
    })
}

fn word(finding: &Finding) -> Option<&str> {
    match &finding.value {
        Some(Value::Word(word)) => Some(word),
        _ => None,
    }
}

fn truth(finding: &Finding) -> Option<bool> {
    match finding.value {
        Some(Value::Truth(truth)) => Some(truth),
        _ => None,
    }
}

fn bytes(finding: &Finding) -> Option<Bytes> {
    finding.number().map(|number| Bytes(number.round() as u64))
}

fn nanos(finding: &Finding) -> Option<Nanos> {
    finding.number().map(|number| Nanos(number.round() as u64))
}

fn geometry(known: &Inference) -> Vec<String> {
    let dies = with(known, Parameter::ParallelUnits, Finding::number, |dies| {
        Some(match dies {
            1.0 => "One die serves all requests: more requests in flight gain little.".to_owned(),
            dies => format!("{dies:.0} dies serve reads at the same time: keep several requests in flight."),
        })
    });
    let stripe = with(known, Parameter::StripeSize, bytes, |stripe| {
        Some(format!("An aligned request of {stripe} uses all dies."))
    });
    let block = with(known, Parameter::EraseBlockSize, bytes, |block| {
        Some(format!("Allocate and discard space in aligned multiples of {block}."))
    });
    [dies, stripe, block].into_iter().flatten().collect()
}

fn translation(known: &Inference) -> Vec<String> {
    let family = with(known, Parameter::TranslationFamily, word, |family| {
        let meaning = match family {
            "page" => "Any page can go to any flash page: random writes cost no merges.",
            "demand-cached page" => {
                "Any page can go to any flash page, but only a part of the map is in memory: random IO is fastest \
                 within a small region."
            }
            "block" => "Only writes that continue a block are fast: write sequentially.",
            "log-block" => {
                "Each log block serves one data block: random writes are fast while they stay in a few blocks."
            }
            "shared log-block" => {
                "All addresses share the log blocks: random writes are fast until the log is full."
            }
            _ => return None,
        };
        Some(meaning.to_owned())
    });
    let open = with(known, Parameter::OpenBlocks, Finding::number, |open| {
        Some(match open {
            1.0 => "Write to one block at a time.".to_owned(),
            open => format!(
                "Write to at most {open:.0} blocks at a time: one more makes each write cost a merge."
            ),
        })
    });
    [family, open].into_iter().flatten().collect()
}

fn buffers(known: &Inference) -> Vec<String> {
    let buffer = with(known, Parameter::WriteBufferSize, bytes, |size| {
        Some(match size {
            Bytes::ZERO => "No write buffer: every write waits for the flash.".to_owned(),
            size => format!("A write buffer answers bursts of up to {size} before they reach the flash."),
        })
    });
    let cache = with(known, Parameter::SlcCacheSize, bytes, |size| {
        Some(match size {
            Bytes::ZERO => "No SLC cache: the write speed does not drop after a first part.".to_owned(),
            size => format!("The first {size} of writes go to an SLC cache; writes after them are slower."),
        })
    });
    let ahead = with(known, Parameter::ReadAheadSize, bytes, |size| {
        (size > Bytes::ZERO).then(|| format!("Sequential reads find the next {size} in memory."))
    });
    [buffer, cache, ahead].into_iter().flatten().collect()
}

fn costs(known: &Inference) -> Vec<String> {
    let reads = with(known, Parameter::ReadSaturationSize, bytes, |size| {
        Some(format!("Sequential reads gain little from requests above {size}."))
    });
    let writes = with(known, Parameter::WriteSaturationSize, bytes, |size| {
        Some(format!("Sequential writes gain little from requests above {size}."))
    });
    let depth = with(known, Parameter::UsefulQueueDepth, Finding::number, |depth| {
        Some(format!("Random reads gain little from more than {depth:.0} in flight."))
    });
    let limit = with(known, Parameter::RateLimit, word, |limit| {
        (limit == "ios").then(|| {
            "A limit counts requests, whatever their size: fewer and larger ones move more bytes.".to_owned()
        })
    });
    [reads, writes, depth, limit].into_iter().flatten().collect()
}

fn over_time(known: &Inference) -> Vec<String> {
    let startup = with(known, Parameter::StartupIos, Finding::number, |ios| {
        Some(match ios {
            0.0 => "Random writes cost the same from the first one on.".to_owned(),
            ios => format!(
                "After a minute of idle time the first {ios:.0} random writes are faster than the rest."
            ),
        })
    });
    let lingering = with(known, Parameter::LingeringTime, nanos, |time| {
        Some(match time {
            Nanos::ZERO => "Random writes do not slow down the reads that follow.".to_owned(),
            time => format!("Random writes slow down the reads of the next {time}."),
        })
    });
    let pause = with(known, Parameter::PauseBenefit, Finding::number, |share| {
        (share < PAUSE_PAYS)
            .then(|| format!("Pauses between random writes cut their cost to {} of it.", percent(share)))
    });
    let recovery = with(known, Parameter::RecoveryEnds, truth, |ends| {
        (!ends).then(|| "Random writes slow down sequential writes for good.".to_owned())
    });
    [startup, lingering, pause, recovery].into_iter().flatten().collect()
}

/// Pauses are mentioned if random writes with them take less than this share of the time.
const PAUSE_PAYS: f64 = 0.9;

fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

#[cfg(test)]
mod tests {
    use flashlab_base::Identity;

    use super::*;

    #[test]
    fn every_parameter_is_in_one_group() {
        for parameter in Parameter::ALL {
            let count = GROUPS.iter().filter(|group| group.parameters.contains(parameter)).count();
            assert_eq!(count, 1, "{parameter}");
        }
    }

    #[test]
    fn conclusions_follow_from_findings_and_say_where_confidence_is_low() {
        let mut known = Inference::begun("sim:test", Identity::default(), Bytes::gib(1));
        assert!(GROUPS.iter().all(|group| (group.conclusions)(&known).is_empty()));
        known.findings = vec![
            Finding::found(Parameter::ParallelUnits, 4, 0.99, "measured"),
            Finding::found(Parameter::StripeSize, Bytes::kib(64), 0.5, "measured"),
            Finding::undetermined(Parameter::EraseBlockSize, "noise"),
            Finding::found(Parameter::TranslationFamily, "block", 0.95, "measured"),
            Finding::found(Parameter::PauseBenefit, 0.302, 0.95, "measured"),
        ];
        let conclusions: Vec<String> = GROUPS.iter().flat_map(|group| (group.conclusions)(&known)).collect();
        insta::assert_snapshot!(conclusions.join("\n"), @r"
        4 dies serve reads at the same time: keep several requests in flight.
        An aligned request of 64 KiB uses all dies. (Low confidence.)
        Only writes that continue a block are fast: write sequentially.
        Pauses between random writes cut their cost to 30.2 % of it.
        ");
    }
}
