//! The provisional findings of the over-provisioned space.

use flashlab_analysis::inference::{Finding, Parameter, Picture};
use flashlab_base::Bytes;

use crate::rule::Rule;
use crate::session::Session;
use crate::thresholds::RIGHT;

/// The parameters of the over-provisioned space.
pub(crate) const SPACE: [Parameter; 2] = [Parameter::PhysicalCapacity, Parameter::OverProvisioning];
/// The relative error up to which the over-provisioning is reported. The physical capacity is reported up to [`RIGHT`].
pub(crate) const SPARE_ERROR: f64 = 0.1;

/// Makes provisional findings of the physical capacity and the over-provisioning, `spare` bytes, by these rules; `None` where
/// one is not reported.
pub(crate) fn hand_in_space(
    session: &mut Session<'_, '_>,
    spare: f64,
    rules: [Option<Rule>; 2],
    evidence: &str,
    picture: &Picture,
) {
    let capacity = session.capacity().0 as f64;
    for (&parameter, rule) in SPACE.iter().zip(rules) {
        let finding = match rule {
            Some(rule) => Rule::found(parameter, value(parameter, capacity, spare), rule, evidence),
            None => Finding::undetermined(parameter, evidence),
        };
        session.hand_in(finding.with(picture.clone()));
    }
}

/// The rule for each of both that is known well enough: within `error` of `spare`.
pub(crate) fn known_within(capacity: Bytes, spare: f64, error: f64, rule: Rule) -> [Option<Rule>; 2] {
    let physical = error / (capacity.0 as f64 + spare) <= RIGHT;
    [physical, error / spare <= SPARE_ERROR].map(|is_known| is_known.then_some(rule))
}

/// The over-provisioning of `spare` bytes as one of these parameters, in its unit.
pub(crate) fn value(parameter: Parameter, capacity: f64, spare: f64) -> f64 {
    match parameter {
        Parameter::OverProvisioning => spare / capacity,
        _ => capacity + spare,
    }
}
