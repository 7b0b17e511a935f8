//! `flashlab repair simulate`: what the policies cost, in virtual time.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::Args;
use flashlab_base::Seed;
use flashlab_repair::{
    DEFAULT_POLICY, HostLoad, MakePolicy, POLICIES, PolicyReport, PolicyRunSetup, SimulatedGeometry,
    Superblock, WorkloadKind, default_policy, superblock,
};

use super::log_table::log_table;
use super::opened;
use crate::arguments;
use crate::exit::Usage;
use crate::output;

/// Compare policies by their write amplification, in virtual time and without data
#[derive(Args)]
pub struct Simulate {
    /// uniform, zipf:EXPONENT, or hot-cold:WRITES/PAGES in percent
    #[arg(long, default_value = "zipf:0.99")]
    workload: WorkloadKind,
    /// Logical pages for each physical page, between 0 and 1
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    fill: f64,
    /// The policy, or `all`; multi-log if not given, and with --volume the one that the volume would have
    #[arg(long)]
    policy: Option<String>,
    /// Simulate this volume: its segments, its size, the headers of its records and the segments that it keeps free
    #[arg(long, conflicts_with_all = ["fill", "segments", "pages_per_segment"])]
    volume: Option<PathBuf>,
    /// With --volume: the page writes between two flushes; no flushes if not given
    #[arg(long, value_name = "N", requires = "volume", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    flush_every: Option<u32>,
    /// With --volume: the host pauses often enough for the volume to pack up to its high mark
    #[arg(long, requires = "volume")]
    pauses: bool,
    /// Segments of the volume
    #[arg(long, default_value_t = 8192, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(64..=1 << 24))]
    segments: u32,
    /// Pages of a segment
    #[arg(long, default_value_t = 128, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pages_per_segment: u32,
    /// Volumes written before the measurement
    #[arg(long, default_value_t = 6, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=1000))]
    settle: u32,
    /// Volumes written while it lasts
    #[arg(long, default_value_t = 4, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    measure: u32,
    /// Move the hot set afterwards and see how fast the policy follows
    #[arg(long = "move")]
    moves: bool,
    /// The seed of the workload
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = arguments::seed)]
    seed: Seed,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Simulate {
    /// Simulates each policy and prints what it costs.
    pub fn run(self) -> Result<()> {
        let superblock = match &self.volume {
            Some(volume) => Some(superblock(opened::for_reading(volume)?)?),
            None => None,
        };
        let setup = self.setup(superblock.as_ref());
        let uuid = superblock.as_ref().map(|superblock| superblock.uuid.to_string());
        let usual = match &superblock {
            Some(superblock) => default_policy(&superblock.layout).name(),
            None => DEFAULT_POLICY,
        };
        let wanted = self.policy.as_deref().unwrap_or(usual);
        let is_wanted = |(name, _): &&(&str, MakePolicy)| wanted == "all" || wanted == *name;
        let policies: Vec<&(&str, MakePolicy)> = POLICIES.iter().filter(is_wanted).collect();
        if policies.is_empty() {
            let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            return Err(Usage(format!("there is no policy `{wanted}`; there are {names} and all")).into());
        }
        let mut rows = Vec::new();
        for (name, make) in &policies {
            if policies.len() > 1 {
                tell!("{name}: simulating");
            }
            let policy = make(setup.geometry.segments());
            rows.push(PolicyReport::of(&setup, policy, uuid.clone(), &AtomicBool::new(false))?);
        }
        match (self.json, &rows[..]) {
            (true, [row]) => output::json(row),
            (true, rows) => output::json(&rows),
            (false, rows) => output::text(&table(rows)),
        }
    }

    fn setup(&self, superblock: Option<&Superblock>) -> PolicyRunSetup {
        let geometry = match superblock {
            Some(superblock) => SimulatedGeometry::Volume {
                layout: superblock.layout.clone(),
                load: HostLoad { flush_every: self.flush_every, has_pauses: self.pauses },
            },
            None => SimulatedGeometry::Plain {
                segments: self.segments,
                pages_per_segment: self.pages_per_segment,
                fill: self.fill,
            },
        };
        PolicyRunSetup {
            workload: self.workload,
            geometry,
            settle_volumes: self.settle,
            measured_volumes: self.measure,
            moves: self.moves,
            seed: self.seed,
        }
    }
}

fn table(rows: &[PolicyReport]) -> String {
    let PolicyReport { workload, fill, seed, .. } = &rows[0];
    let mut text = match &rows[0].volume {
        None => format!("{workload} at fill {fill}, seed {seed}\n\n"),
        Some(uuid) => format!(
            "{workload} on volume {uuid}: {} segments of {} pages at fill {fill:.3}, seed {seed}\n\n",
            rows[0].segments, rows[0].pages_per_segment
        ),
    };
    text += "policy            write amplification   predicted   difference\n";
    for row in rows {
        let difference = 100.0 * (row.predicted / row.write_amplification - 1.0);
        text += &format!(
            "{:<16}  {:>19.3}   {:>9.3}   {difference:>+8.1} %\n",
            row.policy, row.write_amplification, row.predicted
        );
    }
    if let Some(theory) = rows[0].theory {
        text += &format!("\ntheory of one log packed in order (Desnoyers 2012): {theory:.3}\n");
    }
    if let [row] = rows {
        text += &format!("\n{}", log_table(&row.logs));
    }
    for row in rows {
        let Some(after) = &row.after_move else { continue };
        let windows: Vec<String> = after.half_volumes.iter().map(|one| format!("{one:.2}")).collect();
        let followed = match after.followed_after_volumes {
            Some(volumes) => format!("within 10 % after {volumes} volumes"),
            None => "not within 10 % in 4 volumes".to_owned(),
        };
        text += &format!(
            "\n{}: after the hot set moved, each half volume: {}; {followed}\n",
            row.policy,
            windows.join(" ")
        );
    }
    text
}
