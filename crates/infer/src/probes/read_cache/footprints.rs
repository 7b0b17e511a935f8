//! The size of a read cache, from reads of footprints of several sizes.

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;

use crate::rule::Rule;
use crate::words::duration;

/// Reads of footprints, each after it was read once.
pub(super) struct Footprints {
    /// What is kept at once.
    pub(super) granule: Bytes,
    /// What a read takes that is kept.
    pub(super) fast: f64,
    /// The granules of the largest footprint that is kept.
    pub(super) fits: u64,
    /// The median response time over the size.
    pub(super) curve: Vec<(f64, f64)>,
    /// What is not kept any more; `None` if all sizes that were tried are.
    pub(super) end: Option<FootprintEnd>,
}

/// The footprint of one granule more.
pub(super) struct FootprintEnd {
    /// What its reads take.
    pub(super) slow: f64,
    /// Whether elsewhere exactly as much is kept, and whether about as much is.
    pub(super) is_exact: bool,
    pub(super) is_rough: bool,
}

impl Footprints {
    /// The granules that are kept for certain, 0 if none are; and the size.
    pub(super) fn size(self) -> (u64, Finding) {
        let parameter = Parameter::ReadBufferSize;
        let Footprints { granule, fast, fits, curve, end } = self;
        let picture = Picture::new(
            "Response time of repeated reads, over the size of what is read repeatedly: it rises where the cache is too small.",
            Axis::logarithmic("footprint", "bytes"),
            Axis::linear("median response time", "ns"),
        )
        .draw("repeated reads", Style::Dots, curve);
        let size = granule * fits;
        let Some(FootprintEnd { slow, is_exact, is_rough }) = end else {
            let evidence = format!(
                "Repeated reads stay fast for every size that was tried, up to {size}: the cache is at least as large."
            );
            return (0, Finding::undetermined(parameter, evidence).with(picture));
        };
        let evidence = format!(
            "Repeated reads of {} take {} each, and {} with one offset more. The device keeps {granule} of each, {size} in all.",
            if fits == 1 { "1 offset".to_owned() } else { format!("{fits} offsets") },
            duration(fast),
            duration(slow),
        );
        let finding = match (is_exact, is_rough) {
            (true, _) => Rule::found(parameter, size, Rule::strong("exact capacity"), evidence),
            (false, true) => Rule::found(parameter, size, Rule::likely("rough capacity"), evidence),
            _ => Finding::undetermined(parameter, evidence),
        };
        (if is_rough { fits } else { 0 }, finding.with(picture.mark(size.0 as f64, "read cache")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprints(end: Option<FootprintEnd>) -> Footprints {
        Footprints { granule: Bytes::kib(4), fast: 20e3, fits: 32, curve: vec![(131072.0, 20e3)], end }
    }

    #[test]
    fn the_largest_footprint_that_is_kept_is_the_cache() {
        let end = |is_exact, is_rough| Some(FootprintEnd { slow: 100e3, is_exact, is_rough });
        let (kept, found) = footprints(end(true, true)).size();
        assert_eq!((kept, found.number()), (32, Some(131072.0)), "{}", found.evidence);
        assert_eq!(found.rule.as_deref(), Some("read_buffer_size/exact capacity"));
        assert_eq!(footprints(end(false, true)).size().0, 32);
        // Elsewhere another size is kept.
        let (kept, found) = footprints(end(false, false)).size();
        assert_eq!((kept, found.number()), (0, None));
        assert_eq!(footprints(None).size().1.number(), None);
    }
}
