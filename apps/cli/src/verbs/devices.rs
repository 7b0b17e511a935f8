//! `flashlab devices`.

use anyhow::Result;
use clap::Args;
use flashlab_base::Identity;
use flashlab_host::{Inspection, Refusal};
use flashlab_report::printable;
use serde::Serialize;

use crate::arguments::TableOptions;
use crate::{csv_table, output};

/// List the block devices, and what flashlab would refuse to write to, and why
#[derive(Args)]
pub struct Devices {
    #[command(flatten)]
    table: TableOptions,
}

#[derive(Serialize)]
struct Listed<'a> {
    path: String,
    identity: &'a Identity,
    would_refuse: bool,
    refusals: &'a [Refusal],
}

impl Devices {
    /// Prints the list.
    pub fn run(self) -> Result<()> {
        let found = flashlab_host::devices();
        let listed = || found.iter().map(listed).collect::<Vec<_>>();
        if self.table.json {
            return output::json(&listed());
        }
        if self.table.csv {
            return csv_table::print(&listed());
        }
        if found.is_empty() {
            return output::text("no block device here has a capacity\n");
        }
        output::text(&found.iter().map(lines).collect::<String>())
    }
}

fn listed(inspection: &Inspection) -> Listed<'_> {
    Listed {
        path: inspection.path.display().to_string(),
        identity: &inspection.identity,
        would_refuse: !inspection.refusals.is_empty(),
        refusals: &inspection.refusals,
    }
}

fn lines(inspection: &Inspection) -> String {
    let identity = &inspection.identity;
    let known = match (&identity.model, &identity.serial) {
        (Some(model), Some(serial)) => format!("{model}, serial number {serial}"),
        (Some(model), None) => model.clone(),
        (None, Some(serial)) => format!("model not known, serial number {serial}"),
        (None, None) => "model and serial number not known".to_owned(),
    };
    // The model name comes from the device.
    let known = printable(&known);
    let mut text =
        format!("{:<16} {:>10}  {known}\n", inspection.path.display(), identity.capacity.to_string());
    if inspection.refusals.is_empty() {
        text += "    would be measured after you consent to losing its data\n";
    }
    for refusal in &inspection.refusals {
        text += &format!("    refused: {}\n             {}\n", printable(&refusal.finding), refusal.remedy);
    }
    text
}
