//! `flashlab sim`.

use anyhow::Result;
use flashlab_sim::zoo;

use crate::args::{SimAction, SimVerb};
use crate::target::profile_named;

/// `flashlab sim`.
pub fn sim(arguments: SimVerb) -> Result<()> {
    match arguments.verb {
        SimAction::List(json) if json.json => {
            println!("{}", serde_json::to_string_pretty(&zoo())?);
        }
        SimAction::List(_) => {
            for profile in zoo() {
                println!("sim:{:<12} {:>10}  {}", profile.name, profile.capacity.to_string(), profile.title);
            }
        }
        SimAction::Show { name, json } => {
            let profile = profile_named(name.strip_prefix("sim:").unwrap_or(&name))?;
            if json.json {
                println!("{}", serde_json::to_string_pretty(&profile)?);
            } else {
                print!("{}", profile.to_toml());
            }
        }
    }
    Ok(())
}
