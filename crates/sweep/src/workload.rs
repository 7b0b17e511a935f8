//! The texts that name a profile and a workload.

use std::path::Path;

use flashlab_base::ProfileName;
use flashlab_input::{FileContent, InputKind};
use flashlab_plan::Plan;
use flashlab_samples::seal::PROFILE;
use flashlab_sim::Profile;

use crate::SweepError;

/// The profile that a text names: one of the zoo, with or without `sim:`; a profile's file; or the profile itself, as TOML.
///
/// # Errors
/// When there is none, or it is wrong.
pub fn profile_of(text: &str) -> Result<Profile, SweepError> {
    if text.contains('\n') {
        return Ok(Profile::parse(text, "(as text)")?);
    }
    let name: ProfileName = text.parse().map_err(|_| {
        SweepError::Input("no profile is named: give one of the zoo, a file, or its text".to_owned())
    })?;
    Profile::named(&name, |file| {
        let text = file_text(Path::new(file), InputKind::PROFILE)?;
        PROFILE.verify_editable(&text, file).map_err(SweepError::Input)?;
        Ok(text)
    })
}

/// The plan that a text names: a shipped one; a plan's file; or the plan itself, as TOML. `NAME/EXPERIMENT` is one experiment of a
/// shipped plan, as `baselines/RW`.
///
/// # Errors
/// When there is none, or it is wrong.
pub fn workload_of(text: &str) -> Result<Plan, SweepError> {
    if text.contains('\n') {
        return Ok(Plan::parse(text, "(as text)")?);
    }
    if names_a_file(text) {
        return Ok(Plan::parse(&file_text(Path::new(text), InputKind::PLAN)?, text)?);
    }
    let (name, experiment) = match text.split_once('/') {
        Some((name, experiment)) => (name, Some(experiment)),
        None => (text, None),
    };
    let mut plan = Plan::builtin(name).ok_or_else(|| {
        let names: Vec<&str> = Plan::builtins().iter().map(|builtin| builtin.name).collect();
        SweepError::Input(format!(
            "there is no plan `{text}`; there are: {}; or give a file, or the plan as text",
            names.join(", ")
        ))
    })?;
    if let Some(experiment) = experiment {
        let names: Vec<String> = plan.experiments.iter().map(|experiment| experiment.name.clone()).collect();
        plan.experiments.retain(|one| one.name == experiment);
        if plan.experiments.is_empty() {
            return Err(SweepError::Input(format!(
                "the plan {name} has no experiment `{experiment}`; it has: {}",
                names.join(", ")
            )));
        }
    }
    Ok(plan)
}

/// Whether a text that has one line names a file, and not what comes with flashlab.
pub fn names_a_file(text: &str) -> bool {
    text.ends_with(".toml") || Path::new(text).exists()
}

fn file_text(file: &Path, kind: InputKind) -> Result<String, SweepError> {
    let name = file.display();
    let text = flashlab_input::read_text(file, kind)
        .map_err(|error| SweepError::Input(format!("cannot read the {} {name}: {error}", kind.name)))?;
    let content = FileContent::of(text.as_bytes());
    let is_own = matches!(content, FileContent::Plan | FileContent::Profile);
    if content.is_foreign() && !is_own {
        return Err(SweepError::Input(format!("{name} holds {content}, and no {}", kind.name)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_a_plan_or_one_experiment_of_it() {
        assert_eq!(workload_of("baselines").unwrap().experiments.len(), 4);
        let one = workload_of("baselines/RW").unwrap();
        assert_eq!(one.experiments.len(), 1);
        assert_eq!(workload_of(&one.to_toml()).unwrap(), one);
        let wrong = |text: &str| workload_of(text).unwrap_err().to_string();
        assert!(wrong("baselines/XX").contains("it has: SR, RR, SW, RW"), "{}", wrong("baselines/XX"));
        assert!(wrong("nothing").starts_with("there is no plan `nothing`; there are: baselines"));
        assert!(wrong("no.toml").starts_with("cannot read the plan no.toml"));
    }

    #[test]
    fn a_profile_is_a_name_or_its_text() {
        let named = profile_of("sim:tlc-sata").unwrap();
        assert_eq!(profile_of(&named.to_toml()).unwrap(), named);
        assert!(profile_of("no-such").unwrap_err().is_wrong_input());
        assert!(profile_of("").is_err());
    }
}
