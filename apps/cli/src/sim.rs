//! `flashlab sim`.

use anyhow::Result;
use flashlab_sim::{Profile, zoo};

use crate::args::{SimAction, SimVerb};
use crate::output;
use crate::target::profile_named;

/// `flashlab sim`.
pub fn sim(arguments: SimVerb) -> Result<()> {
    match arguments.verb {
        SimAction::List(json) if json.json => output::json(&zoo()),
        SimAction::List(_) => output::text(&list(&zoo())),
        SimAction::Show { name, json } => {
            let profile = profile_named(name.strip_prefix("sim:").unwrap_or(&name))?;
            if json.json { output::json(&profile) } else { output::text(&profile.to_toml()) }
        }
    }
}

fn list(profiles: &[Profile]) -> String {
    let longest = profiles.iter().map(|profile| profile.name.len()).max().unwrap_or_default();
    let line = |profile: &Profile| {
        format!("sim:{:<longest$} {:>10}  {}\n", profile.name, profile.capacity.to_string(), profile.title)
    };
    profiles.iter().map(line).collect()
}
