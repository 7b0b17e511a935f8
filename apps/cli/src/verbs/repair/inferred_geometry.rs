//! The geometry and the policy of a volume from what `flashlab infer` found of its device.
//!
//! # Rules
//! (docs/repair.md, "Choosing the geometry")
//! - The page is the flash's written page, so that no record begins within one.
//! - The segment is the first multiple of the erase block that is a multiple of the page, too, and at least 4 MiB.
//! - The policy has no more logs than the device has open blocks: otherwise the device closes one block for another.

use std::path::Path;

use anyhow::{Context, Result, bail};
use flashlab_analysis::inference::{Parameter, Value};
use flashlab_base::Bytes;
use flashlab_report::confidence;
use serde::Serialize;

use crate::exit::Usage;
use crate::inference::folder;

/// Long enough for sequential speed on every device of the zoo.
pub const SEGMENT: Bytes = Bytes::mib(4);
/// The page if nothing is known.
pub const PAGE: Bytes = Bytes::kib(4);
const SEGMENT_MAX: Bytes = Bytes::mib(64);
const PAGE_MAX: Bytes = Bytes::kib(64);

/// A number that an inference found.
#[derive(Clone, Copy, Debug)]
struct Found {
    value: f64,
    confidence: f64,
}

/// What was taken from an inference, or why it was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The option that it stands for.
    pub option: &'static str,
    /// What the option has.
    pub value: String,
    /// Where that comes from.
    pub reason: String,
}

/// What an inference found that a volume follows from.
pub struct InferredGeometry {
    run: String,
    erase_block: Option<Found>,
    write_page: Option<Found>,
    open_blocks: Option<Found>,
}

impl InferredGeometry {
    /// Of this run of `flashlab infer`.
    pub fn open(run: &Path) -> Result<InferredGeometry> {
        let known = folder::open(run)?.2;
        let found = |parameter: Parameter| {
            let finding = known.get(parameter)?;
            match finding.value {
                Some(Value::Number(value)) => Some(Found { value, confidence: finding.confidence }),
                _ => None,
            }
        };
        Ok(InferredGeometry {
            run: run.display().to_string(),
            erase_block: found(Parameter::EraseBlockSize),
            write_page: found(Parameter::WritePageSize),
            open_blocks: found(Parameter::OpenBlocks),
        })
    }

    /// The page of a volume.
    pub fn page(&self) -> (Bytes, Choice) {
        let inferred = self.write_page.map(|found| (Bytes(found.value as u64), found.confidence));
        let (page, reason) = match inferred {
            None => {
                (PAGE, "the run does not know the written page; larger pages suit a larger one".to_owned())
            }
            Some((page, _)) if page > PAGE_MAX || !page.0.is_power_of_two() => {
                (PAGE, format!("the device's written page of {page} cannot be a page of a volume"))
            }
            Some((page, confidence)) => {
                (page.max(PAGE), format!("the device's written page is {page} ({})", in_words(confidence)))
            }
        };
        (page, Choice { option: "--page", value: page.to_string(), reason })
    }

    /// The segment of a volume with this page.
    pub fn segment(&self, page: Bytes) -> Result<(Bytes, Choice)> {
        let Some(found) = self.erase_block.filter(|found| found.value >= 1.0) else {
            bail!(Usage(format!(
                "{} does not know the erase block: give --segment, or infer with --write",
                self.run
            )));
        };
        let erase_block = Bytes(found.value as u64);
        let segment = segment_of(erase_block, page)?;
        let reason = format!("the device's erase block is {erase_block} ({})", in_words(found.confidence));
        Ok((segment, Choice { option: "--segment", value: segment.to_string(), reason }))
    }

    /// The policy to serve a volume with, if the default one has this number of logs.
    pub fn policy(&self, (default, logs): (&'static str, u8)) -> Choice {
        let (policy, reason) = match self.open_blocks {
            None => (default, "the run does not know the number of open blocks".to_owned()),
            Some(Found { value, confidence }) => {
                let policy = match value {
                    enough if enough >= f64::from(logs) => default,
                    few if few >= 2.0 => "append-and-pack",
                    _ => "greedy",
                };
                let confidence = in_words(confidence);
                let reason = format!(
                    "open blocks of the device: {value:.0} ({confidence}); logs of `{default}`: {logs}"
                );
                (policy, reason)
            }
        };
        Choice { option: "--policy", value: policy.to_owned(), reason }
    }
}

fn in_words(share: f64) -> String {
    format!("confidence {}", confidence(share))
}

/// The first multiple of the erase block that is a multiple of the page, too, and at least [`SEGMENT`].
fn segment_of(erase_block: Bytes, page: Bytes) -> Result<Bytes> {
    let multiples =
        (SEGMENT.0.div_ceil(erase_block.0)..).map(|count| Bytes(count.saturating_mul(erase_block.0)));
    let mut possible = multiples.take_while(|segment| *segment <= SEGMENT_MAX);
    let found = possible.find(|segment| segment.is_multiple_of(page));
    found.with_context(|| {
        Usage(format!(
            "no multiple of the erase block of {erase_block} up to {SEGMENT_MAX} is a multiple of the page of {page}: give \
             --segment"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_the_first_suitable_multiple_of_the_erase_block() {
        let segment = |erase_block, page| segment_of(Bytes(erase_block), Bytes(page)).ok();
        assert_eq!(segment(4 << 20, 4096), Some(Bytes::mib(4)));
        assert_eq!(segment(16 << 20, 4096), Some(Bytes::mib(16)));
        assert_eq!(segment(1 << 20, 4096), Some(Bytes::mib(4)));
        // 480 KiB: nine of them are 4320 KiB, a multiple of 4 KiB but not of 64 KiB.
        assert_eq!(segment(480 << 10, 4096), Some(Bytes::kib(4320)));
        assert_eq!(segment(480 << 10, 65536), Some(Bytes::kib(4800)));
        assert_eq!(segment(128 << 20, 4096), None);
        assert_eq!(segment((4 << 20) + 512, 65536), None);
    }

    #[test]
    fn page_and_policy_follow_the_device_as_far_as_it_is_known() {
        let found = |value: f64| Some(Found { value, confidence: 0.97 });
        let known = |write_page, open_blocks| InferredGeometry {
            run: "run".to_owned(),
            erase_block: None,
            write_page,
            open_blocks,
        };
        let page = |size: Option<f64>| known(size.and_then(found), None).page();
        assert_eq!(page(Some(8192.0)).0, Bytes::kib(8));
        assert_eq!(page(Some(8192.0)).1.reason, "the device's written page is 8 KiB (confidence 97.0 %)");
        assert_eq!(page(Some(2048.0)).0, PAGE);
        assert_eq!(page(Some(12288.0)).0, PAGE);
        assert_eq!(page(None).0, PAGE);
        let policy = |count: Option<f64>| known(None, count.and_then(found)).policy(("multi-log", 3)).value;
        let named = [None, Some(1.0), Some(2.0), Some(3.0)].map(policy);
        assert_eq!(named, ["multi-log", "greedy", "append-and-pack", "multi-log"]);
        let reason = known(None, found(1.0)).policy(("multi-log", 3)).reason;
        assert_eq!(reason, "open blocks of the device: 1 (confidence 97.0 %); logs of `multi-log`: 3");
        assert!(known(None, None).segment(PAGE).is_err());
    }
}
