//! Checks the values in a document of an inference.
//!
//! # Model
//! A document comes from a file, which may be damaged. The values that flashlab writes have bounds, which
//! follow from the size of the device or from what devices exist. A document with a value beyond them is
//! damaged.
//!
//! # Invariants
//! - Every accepted number is finite, not negative, and below 2^53, so that whole numbers are exact.
//! - Products of sizes and counts are far below 2^64: pages times planes times dies, erase blocks times logs,
//!   the span of a segment group times the number of groups.

use std::ops::RangeInclusive;

use flashlab_base::Bytes;

use super::{Finding, INFERENCE_VERSION, Inference, Parameter, Unit, Value, Verdict};

/// The largest number.
const LARGEST: f64 = ((1_u64 << 53) - 1) as f64;
/// The largest page, erase block or stripe, and the largest number of each.
const PAGE_MOST: f64 = (1_u64 << 30) as f64;
const UNIT_MOST: f64 = (1_u64 << 40) as f64;
const COUNT_MOST: f64 = (1_u64 << 20) as f64;
const DIES_MOST: f64 = 65536.0;
const GROUPS_MOST: f64 = 512.0;
const PLANES_MOST: f64 = 64.0;
/// The largest size of anything on the device, as a multiple of its capacity; tiny devices have a fixed
/// bound. It also bounds the amount of flash.
const SIZE_TIMES: f64 = 2.0;
const TINY: f64 = (64_u64 << 20) as f64;
const FLASH_TIMES: f64 = 64.0;

impl Inference {
    /// Refuses values that flashlab never writes.
    ///
    /// # Errors
    /// What is wrong, and where, in a clause.
    pub fn check(&self) -> Result<(), String> {
        if self.version != INFERENCE_VERSION {
            let version = self.version;
            return Err(format!("has version {version}, and this program reads version {INFERENCE_VERSION}"));
        }
        size("capacity", self.capacity, LARGEST)?;
        size("written", self.written, LARGEST)?;
        size("filled", self.filled, self.capacity.0 as f64)?;
        check_findings(&self.findings, self.capacity)
    }
}

/// Refuses findings that no document has: impossible values, or two of one parameter.
///
/// # Errors
/// What is wrong, and where, in a clause.
pub fn check_findings(findings: &[Finding], capacity: Bytes) -> Result<(), String> {
    for (index, finding) in findings.iter().enumerate() {
        let parameter = finding.parameter;
        if findings[..index].iter().any(|earlier| earlier.parameter == parameter) {
            return Err(format!("{parameter} stands twice: the file is damaged"));
        }
        check_finding(finding, capacity)?;
    }
    Ok(())
}

fn check_finding(finding: &Finding, capacity: Bytes) -> Result<(), String> {
    let parameter = finding.parameter;
    if finding.value.is_some() != (finding.verdict == Verdict::Found) {
        return Err(format!("{parameter} is {} and its value does not fit that", finding.verdict));
    }
    if !(0.0..=1.0).contains(&finding.confidence) {
        return Err(format!("the confidence of {parameter} is {}: it is 0 to 1", finding.confidence));
    }
    size(&format!("bytes_written of {parameter}"), finding.bytes_written, LARGEST)?;
    let kind = match (parameter.unit(), parameter.words()) {
        (Unit::Bytes | Unit::Count, _) => "a whole number",
        (Unit::Nanos | Unit::Ratio, _) => "a number",
        (Unit::None, []) => "true or false",
        (Unit::None, words) => &format!("one of: {}", words.join(", ")),
    };
    let is_of_kind = match (&finding.value, parameter.unit()) {
        (None, _) => true,
        (Some(Value::Number(number)), Unit::Bytes | Unit::Count) => number.fract() == 0.0,
        (Some(Value::Number(_)), Unit::Nanos | Unit::Ratio) => true,
        (Some(Value::Word(word)), Unit::None) => parameter.words().contains(&word.as_str()),
        (Some(Value::Truth(_)), Unit::None) => parameter.words().is_empty(),
        _ => false,
    };
    if let Some(value) = finding.value.as_ref().filter(|_| !is_of_kind) {
        let value = match value {
            Value::Number(number) => number.to_string(),
            Value::Word(word) => format!("`{}`", word.escape_debug()),
            Value::Truth(truth) => truth.to_string(),
        };
        return Err(format!("the value of {parameter} is {value}, and it is {kind}: the file is damaged"));
    }
    match finding.number() {
        Some(value) => number(&format!("the value of {parameter}"), value, range(parameter, capacity)),
        None => Ok(()),
    }
}

/// The legal numbers of a parameter on a device of this size.
fn range(parameter: Parameter, capacity: Bytes) -> RangeInclusive<f64> {
    let largest = largest(capacity);
    match parameter {
        Parameter::ReadPageSize | Parameter::WritePageSize => 1.0..=PAGE_MOST.min(largest),
        Parameter::ChunkSize
        | Parameter::StripeSize
        | Parameter::EraseBlockSize
        | Parameter::MappingGranularity => 1.0..=UNIT_MOST.min(largest),
        Parameter::SegmentGroupSpan | Parameter::ReadSaturationSize | Parameter::WriteSaturationSize => {
            1.0..=largest
        }
        Parameter::PhysicalCapacity => 1.0..=(FLASH_TIMES * capacity.0 as f64).min(LARGEST),
        Parameter::PlanesReadAtOnce => 1.0..=PLANES_MOST,
        Parameter::SegmentGroups => 1.0..=GROUPS_MOST,
        Parameter::ParallelUnits | Parameter::Channels => 1.0..=DIES_MOST,
        Parameter::UsefulQueueDepth => 1.0..=COUNT_MOST,
        Parameter::OpenBlocks => 0.0..=COUNT_MOST,
        _ if parameter.unit() == Unit::Bytes => 0.0..=largest,
        _ => 0.0..=LARGEST,
    }
}

/// The largest legal size on a device of this size.
fn largest(capacity: Bytes) -> f64 {
    (SIZE_TIMES * capacity.0 as f64).clamp(TINY, LARGEST)
}

fn size(what: &str, size: Bytes, most: f64) -> Result<(), String> {
    number(what, size.0 as f64, 0.0..=most)
}

fn number(what: &str, number: f64, range: RangeInclusive<f64>) -> Result<(), String> {
    match range.contains(&number) {
        true => Ok(()),
        false => {
            let (least, most) = range.into_inner();
            Err(format!(
                "{what} is {number}, and can be {least} to {most} on this device: the file is damaged"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::Identity;

    use super::*;

    fn document(findings: Vec<Finding>) -> Inference {
        Inference {
            findings,
            written: Bytes::gib(1),
            filled: Bytes::gib(1),
            ..Inference::begun("test", Identity::default(), Bytes::gib(1))
        }
    }

    fn refused(change: impl FnOnce(&mut Inference)) -> String {
        let mut inference = document(Vec::new());
        change(&mut inference);
        inference.check().unwrap_err()
    }

    #[test]
    fn products_of_what_passes_are_far_from_overflowing() {
        let most = |parameter| *range(parameter, Bytes(LARGEST as u64)).end();
        let largest = [
            most(Parameter::ReadPageSize)
                * most(Parameter::PlanesReadAtOnce)
                * most(Parameter::ParallelUnits),
            most(Parameter::ChunkSize) * most(Parameter::ParallelUnits),
            most(Parameter::EraseBlockSize) * most(Parameter::OpenBlocks),
            most(Parameter::SegmentGroupSpan) * most(Parameter::SegmentGroups),
        ];
        assert!(largest.iter().all(|&product| product <= 2f64.powi(62)), "{largest:?}");
    }

    #[test]
    fn values_are_of_the_kind_and_the_size_that_their_parameters_have() {
        let value =
            |parameter, value: Value| document(vec![Finding::found(parameter, value, 0.5, "")]).check();
        let refused = |parameter, wrong: Value| value(parameter, wrong).unwrap_err();
        for word in Parameter::TranslationFamily.words() {
            assert_eq!(value(Parameter::TranslationFamily, (*word).into()), Ok(()));
        }
        assert_eq!(value(Parameter::RecoveryEnds, true.into()), Ok(()));
        assert_eq!(value(Parameter::SegmentGroupSpan, Bytes::gib(1).into()), Ok(()));
        assert_eq!(
            refused(Parameter::WriteBufferFlush, "never".into()),
            "the value of write_buffer_flush is `never`, and it is one of: immediately, when-full: the file is damaged"
        );
        assert!(refused(Parameter::WriteBufferFlush, true.into()).contains("is true, and it is one of"));
        assert!(refused(Parameter::RecoveryEnds, "page".into()).contains("it is true or false"));
        assert!(refused(Parameter::SegmentGroupSpan, 0.0.into()).contains("is 0, and can be 1 to"));
        assert!(refused(Parameter::ParallelUnits, 1.5.into()).contains("it is a whole number"));
        assert!(refused(Parameter::ZerosProgramShare, (-0.5).into()).contains("is -0.5, and can be 0 to"));
        for &parameter in Parameter::ALL.iter().filter(|parameter| parameter.unit() != Unit::None) {
            for number in [-1.0, 2f64.powi(53), 1e300] {
                refused(parameter, number.into());
            }
        }
    }

    #[test]
    fn the_fill_is_within_the_device() {
        assert_eq!(document(Vec::new()).check(), Ok(()));
        let beyond = refused(|inference| inference.filled = Bytes::gib(1) + Bytes(1));
        assert!(beyond.starts_with("filled is 1073741825, and can be 0 to 1073741824"), "{beyond}");
        let huge = Bytes(1 << 53);
        assert!(refused(|inference| inference.written = huge).contains("written"));
        assert!(refused(|inference| inference.capacity = huge).contains("capacity"));
    }
}
