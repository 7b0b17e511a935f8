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
        SimAction::List(_) => output::text(&zoo().iter().map(line).collect::<String>()),
        SimAction::Show { name, json } => {
            let profile = profile_named(name.strip_prefix("sim:").unwrap_or(&name))?;
            if json.json { output::json(&profile) } else { output::text(&profile.to_toml()) }
        }
    }
}

fn line(profile: &Profile) -> String {
    format!("sim:{:<12} {:>10}  {}\n", profile.name, profile.capacity.to_string(), profile.title)
}
