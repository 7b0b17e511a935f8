//! Whether anything was found that only flash has. A disk in memory, a thin volume and a network disk have layouts
//! that explain their reads, too, and merge nothing, as a page map does: what an inference says of their inside would
//! be wrong.

use flashlab_analysis::inference::{Family, Parameter, Verdict};

use crate::caps;
use crate::findings::Findings;
use crate::knowledge::Knowledge;
use crate::virtual_disk::undetermined;

/// What only flash has. That a disk has no buffer, no SLC cache and no segments holds of any disk.
const OF_FLASH: [Parameter; 13] = [
    Parameter::ReadPageSize,
    Parameter::PlanesReadAtOnce,
    Parameter::ChunkSize,
    Parameter::ParallelUnits,
    Parameter::StripeSize,
    Parameter::Channels,
    Parameter::WritePageSize,
    Parameter::EraseBlockSize,
    Parameter::OpenBlocks,
    Parameter::MappingGranularity,
    Parameter::TranslationFamily,
    Parameter::PhysicalCapacity,
    Parameter::OverProvisioning,
];

/// Whether something was found that only flash has: erase blocks, an SLC cache, log blocks, segment groups, or
/// page boundaries that cost time.
fn shows_flash(known: Knowledge<'_>) -> bool {
    const SIGNS: [Parameter; 3] =
        [Parameter::EraseBlockSize, Parameter::PhysicalCapacity, Parameter::OverProvisioning];
    let found = |parameter: Parameter| {
        known.finding(parameter).is_some_and(|finding| finding.verdict == Verdict::Found)
    };
    let merges = known.family().is_some_and(|family| family != Family::Page);
    let boundary = known.finding(Parameter::ReadPageSize).and_then(|finding| finding.rule.as_deref());
    SIGNS.into_iter().any(found)
        || merges
        || known.has_slc_cache()
        || known.count(Parameter::SegmentGroups).is_some_and(|groups| groups > 1)
        || boundary.is_some_and(|rule| rule.starts_with(PAGE_BOUNDARY))
}

/// The rule of page sizes whose boundaries cost time.
const PAGE_BOUNDARY: &str = "read_page_size/boundary";

/// What remains of the findings if nothing was found that only flash has. Where no probe looked for blocks, it may be flash all the same.
pub(crate) fn without_flash(findings: &mut Findings<'_>) {
    if shows_flash(findings.known()) {
        return;
    }
    let looked_for = findings.is_concluded(Parameter::EraseBlockSize) && findings.inference.written.0 > 0;
    for finding in &mut findings.inference.findings {
        if !OF_FLASH.contains(&finding.parameter) || finding.verdict == Verdict::Undetermined {
            continue;
        }
        let one = finding.clone();
        *finding = if looked_for {
            undetermined(one, |seen| {
                format!("Nothing was found that only flash has, such as blocks that are erased{seen}.")
            })
        } else {
            caps::cap(
                one,
                caps::NO_FLASH,
                " A disk without flash looks the same: no probe has looked for blocks that are erased.",
            )
        };
    }
}
