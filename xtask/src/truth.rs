//! Determines the truth about a device, with which answers are compared. The code under test never sees it.
//!
//! # Model
//! - Structural parameters are taken from the profile, by the definitions of
//!   `flashlab_analysis::inference::Parameter`.
//! - Parameters of behaviour are measured by their definitions, on a twin of the device without noise.
//! - A parameter without a visible effect has no value.
//!
//! # Invariants
//! - The truth of a device depends only on its seed.
//! - If the harness cannot decide, the answer is not judged, with a reason.

mod curves;
mod lab;
mod recovery;
mod states;
mod structure;
mod twin;

use flashlab_analysis::inference::{Parameter, Unit, Value, Verdict};

pub use twin::Twin;

/// The truth about one parameter of one device.
#[derive(Clone, Debug, PartialEq)]
pub enum Truth {
    /// It has this value.
    Is(Value),
    /// The measured figure is so close to a limit of the definition that each of these values is right.
    OneOf(Vec<Value>),
    /// It depends on something that the definition leaves open, such as the delay of the host. Both values
    /// are right, and all values between them.
    Between([f64; 2]),
    /// Nothing that is visible from outside depends on it; with the reason.
    NotIdentifiable(&'static str),
    /// The harness does not know it, with the reason. The answer is not judged.
    Unjudged(String),
}

impl Truth {
    /// Not judged, and why.
    pub fn unjudged(why: impl Into<String>) -> Truth {
        Truth::Unjudged(why.into())
    }
}

impl<T: Into<Value>> From<T> for Truth {
    fn from(value: T) -> Truth {
        Truth::Is(value.into())
    }
}

/// The rule by which an answer is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Counts, powers of two, words, yes and no: they have to be equal.
    Exact,
    /// Sizes, times and ratios: they have to be within 3 %.
    Near,
}

/// What "within 3 %" is.
pub const NEAR: f64 = 0.03;

/// The rule for a parameter.
pub fn rule(parameter: Parameter) -> Rule {
    match parameter {
        // Powers of two, by definition or because flash is built that way.
        Parameter::ReadPageSize
        | Parameter::WritePageSize
        | Parameter::ReadSaturationSize
        | Parameter::WriteSaturationSize => Rule::Exact,
        // The IOs of a phase are counted, but one of thousands of IOs cannot be distinguished from its
        // neighbour.
        Parameter::StartupIos | Parameter::PeriodIos => Rule::Near,
        other => match other.unit() {
            Unit::Count | Unit::None => Rule::Exact,
            Unit::Bytes | Unit::Nanos | Unit::Ratio => Rule::Near,
        },
    }
}

/// The mark of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Found, and equal to the truth.
    Exact,
    /// Found, and within 3 % of the truth, where that is enough.
    Near,
    /// Found, and neither; also found where there is no value.
    Wrong,
    /// Undetermined.
    Undetermined,
    /// Not identifiable, which is the truth.
    NotIdentifiable,
    /// Not identifiable, and it is.
    NotIdentifiableWrong,
}

/// Judges an answer; `None` if the truth is not known.
pub fn judge(parameter: Parameter, verdict: Verdict, value: Option<&Value>, truth: &Truth) -> Option<Mark> {
    if matches!(truth, Truth::Unjudged(_)) {
        return None;
    }
    Some(match (verdict, truth) {
        (Verdict::Undetermined, _) => Mark::Undetermined,
        (Verdict::NotIdentifiable, Truth::NotIdentifiable(_)) => Mark::NotIdentifiable,
        (Verdict::NotIdentifiable, _) => Mark::NotIdentifiableWrong,
        (Verdict::Found, Truth::Is(right)) => compare(parameter, value, right),
        (Verdict::Found, Truth::OneOf(right)) => {
            right.iter().map(|right| compare(parameter, value, right)).min().unwrap_or(Mark::Wrong)
        }
        (Verdict::Found, Truth::Between(ends)) => {
            let is_between = |value: f64| ends[0].min(ends[1]) < value && value < ends[0].max(ends[1]);
            match value {
                Some(&Value::Number(number)) if is_between(number) => Mark::Near,
                _ => ends
                    .iter()
                    .map(|&end| compare(parameter, value, &end.into()))
                    .min()
                    .unwrap_or(Mark::Wrong),
            }
        }
        (Verdict::Found, _) => Mark::Wrong,
    })
}

fn compare(parameter: Parameter, value: Option<&Value>, right: &Value) -> Mark {
    match (value, right) {
        (Some(Value::Number(value)), Value::Number(right)) => {
            // Times and ratios are equal if they print equally; whole numbers if they are equal.
            let exact = match parameter.unit() {
                Unit::Ratio => (value - right).abs() < 5e-4,
                _ => value.round() == right.round(),
            };
            // The reference of the benefit of pauses is 1: the cost without pauses.
            let reference = if parameter == Parameter::PauseBenefit { 1.0 } else { right.abs() };
            let near = rule(parameter) == Rule::Near && (value - right).abs() <= NEAR * reference;
            if exact {
                Mark::Exact
            } else if near {
                Mark::Near
            } else {
                Mark::Wrong
            }
        }
        (Some(value), right) if value == right => Mark::Exact,
        _ => Mark::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(parameter: Parameter, value: impl Into<Value>, truth: &Truth) -> Mark {
        judge(parameter, Verdict::Found, Some(&value.into()), truth).unwrap()
    }

    #[test]
    fn counts_have_to_be_exact_and_sizes_near() {
        assert_eq!(found(Parameter::Channels, 4, &Truth::from(4)), Mark::Exact);
        assert_eq!(found(Parameter::SegmentGroups, 101, &Truth::from(100)), Mark::Wrong);
        assert_eq!(found(Parameter::EraseBlockSize, 102, &Truth::from(100)), Mark::Near);
        assert_eq!(found(Parameter::EraseBlockSize, 104, &Truth::from(100)), Mark::Wrong);
        assert_eq!(found(Parameter::ReadPageSize, 8193, &Truth::from(8192)), Mark::Wrong);
        assert_eq!(found(Parameter::RecoveryEnds, true, &Truth::from(false)), Mark::Wrong);
        assert_eq!(found(Parameter::TranslationFamily, "page", &Truth::from("page")), Mark::Exact);
        assert_eq!(found(Parameter::ReadBufferSize, 0, &Truth::from(0)), Mark::Exact);
        let either = Truth::OneOf(vec![Value::from(8), Value::from(16)]);
        assert_eq!(found(Parameter::UsefulQueueDepth, 16, &either), Mark::Exact);
        assert_eq!(found(Parameter::UsefulQueueDepth, 32, &either), Mark::Wrong);
        let between = Truth::Between([200.0, 100.0]);
        assert_eq!(found(Parameter::ReadCostPerIo, 150, &between), Mark::Near);
        assert_eq!(found(Parameter::ReadCostPerIo, 205, &between), Mark::Near);
        assert_eq!(found(Parameter::ReadCostPerIo, 96, &between), Mark::Wrong);
    }

    #[test]
    fn what_is_not_identifiable_is_right_where_it_is_so() {
        let hidden = Truth::NotIdentifiable("one die");
        let judge = |verdict, value: Option<Value>, truth: &Truth| {
            judge(Parameter::ChunkSize, verdict, value.as_ref(), truth)
        };
        assert_eq!(judge(Verdict::NotIdentifiable, None, &hidden), Some(Mark::NotIdentifiable));
        assert_eq!(judge(Verdict::Found, Some(Value::from(1)), &hidden), Some(Mark::Wrong));
        assert_eq!(judge(Verdict::Undetermined, None, &hidden), Some(Mark::Undetermined));
        let is = Truth::from(1);
        assert_eq!(judge(Verdict::NotIdentifiable, None, &is), Some(Mark::NotIdentifiableWrong));
        assert_eq!(judge(Verdict::Found, Some(Value::from(1)), &Truth::unjudged("")), None);
    }
}
