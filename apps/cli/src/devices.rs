//! `flashlab devices`.

use anyhow::Result;
use flashlab_base::Identity;
use flashlab_host::{Inspection, Refusal};
use serde::Serialize;

use crate::args::Devices;

#[derive(Serialize)]
struct Listed<'a> {
    path: String,
    identity: &'a Identity,
    would_refuse: bool,
    refusals: &'a [Refusal],
}

/// `flashlab devices`.
pub fn devices(arguments: Devices) -> Result<()> {
    let found = flashlab_host::devices();
    if arguments.json.json {
        let listed: Vec<Listed> = found.iter().map(listed).collect();
        println!("{}", serde_json::to_string_pretty(&listed)?);
        return Ok(());
    }
    if found.is_empty() {
        println!("no block device has a capacity");
    }
    for inspection in &found {
        print_one(inspection);
    }
    Ok(())
}

fn listed(inspection: &Inspection) -> Listed<'_> {
    Listed {
        path: inspection.path.display().to_string(),
        identity: &inspection.identity,
        would_refuse: !inspection.refusals.is_empty(),
        refusals: &inspection.refusals,
    }
}

fn print_one(inspection: &Inspection) {
    let identity = &inspection.identity;
    let model = identity.model.as_deref().unwrap_or("model not known");
    println!("{:<16} {:>10}  {model}", inspection.path.display(), identity.capacity.to_string());
    if inspection.refusals.is_empty() {
        println!("    would be measured after you consent to losing its data");
    }
    for refusal in &inspection.refusals {
        println!("    refused: {}", refusal.finding);
        println!("             {}", refusal.remedy);
    }
}
