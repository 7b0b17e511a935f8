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

use super::{
    Fill, Finding, INFERENCE_VERSION, Inference, Parameter, ReclaimUnit, TimedIo, Unit, Value, Verdict,
    reads_inference_version,
};

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
/// The slowest write of a byte, in nanoseconds.
const BYTE_SLOWEST: f64 = 1e9;
/// The largest sum of the rises of the logarithms of write times.
const LOGS_MOST: f64 = 1e6;
/// The most writes that are kept from filling the device.
const WRITES_MOST: usize = 1 << 16;

impl Inference {
    /// Refuses values that flashlab never writes.
    ///
    /// # Errors
    /// What is wrong, and where, in a clause.
    pub fn check(&self) -> Result<(), String> {
        if !reads_inference_version(self.version) {
            let version = self.version;
            return Err(format!("has version {version}, and this program reads version {INFERENCE_VERSION}"));
        }
        size("capacity", self.capacity, LARGEST)?;
        size("written", self.written, LARGEST)?;
        number("reading_used", self.reading_used.0 as f64, 0.0..=LARGEST)?;
        for list in [&self.findings, &self.provisional] {
            for (index, finding) in list.iter().enumerate() {
                let parameter = finding.parameter;
                if list[..index].iter().any(|earlier| earlier.parameter == parameter) {
                    return Err(format!("{parameter} stands twice: the file is damaged"));
                }
                check_finding(finding, self.capacity)?;
            }
        }
        check_fill(&self.fill, self.capacity)?;
        if self.row_writes.iter().map(Vec::len).sum::<usize>() > WRITES_MOST {
            return Err(format!("row_writes holds more than {WRITES_MOST} writes: the file is damaged"));
        }
        self.row_writes.iter().flatten().try_for_each(|write| check_write(write, self.capacity))
    }
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

fn check_fill(fill: &Fill, capacity: Bytes) -> Result<(), String> {
    let Fill {
        begun_at,
        until,
        whole_at,
        nanos_per_byte,
        in_place,
        was_begun: _,
        unit,
        full_after,
        moving_logs,
        flushed_nanos,
    } = *fill;
    size("fill.until", until, capacity.0 as f64)?;
    size("fill.begun_at", begun_at, LARGEST)?;
    size("fill.whole_at", whole_at.unwrap_or_default(), LARGEST)?;
    size("fill.in_place", in_place, LARGEST)?;
    size("fill.full_after", full_after.unwrap_or_default(), LARGEST)?;
    number("fill.nanos_per_byte", nanos_per_byte, 0.0..=BYTE_SLOWEST)?;
    number("fill.flushed_nanos", flushed_nanos.unwrap_or_default(), 0.0..=LARGEST)?;
    number("fill.moving_logs", moving_logs.unwrap_or_default(), 0.0..=LOGS_MOST)?;
    let Some(ReclaimUnit { size: unit, onset, predictions: _, correct: _, logs }) = unit else {
        return Ok(());
    };
    number("fill.unit.size", unit.0 as f64, 1.0..=UNIT_MOST.min(largest(capacity)))?;
    size("fill.unit.onset", onset.unwrap_or_default(), LARGEST)?;
    number("fill.unit.logs", f64::from(logs.unwrap_or_default()), 0.0..=COUNT_MOST)
}

fn check_write(write: &TimedIo, capacity: Bytes) -> Result<(), String> {
    number("at of a write in row_writes", write.at, 0.0..=LARGEST)?;
    number("nanos of a write in row_writes", write.nanos, 0.0..=LARGEST)?;
    let end = write.offset.saturating_add(write.size);
    number("size of a write in row_writes", write.size as f64, 1.0..=capacity.0 as f64)?;
    number("end of a write in row_writes", end as f64, 0.0..=capacity.0 as f64)
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
            fill: Fill { until: Bytes::gib(1), ..Fill::default() },
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
        let beyond = refused(|inference| inference.fill.until = Bytes::gib(1) + Bytes(1));
        assert!(beyond.starts_with("fill.until is 1073741825, and can be 0 to 1073741824"), "{beyond}");
        let huge = Bytes(1 << 53);
        assert!(refused(|inference| inference.written = huge).contains("written"));
        assert!(refused(|inference| inference.capacity = huge).contains("capacity"));
        assert!(refused(|inference| inference.fill.begun_at = huge).contains("begun_at"));
        assert!(refused(|inference| inference.fill.full_after = Some(huge)).contains("full_after"));
        assert!(refused(|inference| inference.fill.nanos_per_byte = -1.0).contains("nanos_per_byte"));
        assert!(refused(|inference| inference.fill.moving_logs = Some(-1.0)).contains("moving_logs"));
        let unit =
            |size, logs| ReclaimUnit { size, onset: None, predictions: 0, correct: 0, logs: Some(logs) };
        assert!(refused(|inference| inference.fill.unit = Some(unit(Bytes::ZERO, 1))).contains("unit.size"));
        assert!(
            refused(|inference| inference.fill.unit = Some(unit(Bytes::mib(1), u32::MAX))).contains("logs")
        );
        let write = TimedIo { at: 0.0, nanos: 1.0, offset: 1 << 30, size: 4096 };
        assert!(refused(|inference| inference.row_writes = vec![vec![write]]).contains("end of a write"));
    }
}
