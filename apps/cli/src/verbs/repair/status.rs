//! `flashlab repair status`.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use flashlab_base::Bytes;
use flashlab_repair::{VolumeSummary, summarize, surviving_share};
use serde::Serialize;

use super::counters_status::CountersStatus;
use super::opened;
use super::served_status::ServedVolumeStatus;
use crate::output;

/// Describe a volume
///
/// While a volume is being served, its server is asked: give its control socket. The logs' measured figures are the server's.
#[derive(Args)]
pub struct Status {
    /// A block device or a regular file that is not being served, or the control socket of a server
    volume: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// A volume's state, as `--json` prints it.
#[derive(Serialize)]
pub struct VolumeStatus {
    uuid: String,
    epoch: u64,
    is_clean: bool,
    records_to_replay: u64,
    size_bytes: u64,
    page_bytes: u64,
    segment_bytes: u64,
    segments: u32,
    free_segments: u32,
    /// Live pages for each page that all segments have.
    fill: f64,
    logs: Vec<LogStatus>,
    write_amplification: Option<f64>,
    /// The share of pages that were live when they were packed, since the volume was made.
    p: Option<f64>,
    counters: CountersStatus,
}

#[derive(Serialize)]
struct LogStatus {
    log: usize,
    segments: u32,
    live_pages: u64,
    /// Physical for each live page.
    alpha: Option<f64>,
    /// The share of pages that will be live when they are packed, predicted from `alpha`.
    p_predicted: Option<f64>,
}

impl VolumeStatus {
    /// Of a summary.
    pub fn of(summary: &VolumeSummary) -> VolumeStatus {
        let layout = &summary.superblock.layout;
        let page = layout.options.page.0;
        let positions = u64::from(layout.data_pages_per_segment());
        let logs = summary.logs.iter().enumerate().map(|(log, &(segments, live_pages))| {
            let alpha =
                (live_pages > 0).then(|| (u64::from(segments) * positions) as f64 / live_pages as f64);
            LogStatus { log, segments, live_pages, alpha, p_predicted: alpha.map(surviving_share) }
        });
        let counters = &summary.counters;
        VolumeStatus {
            uuid: summary.superblock.uuid.to_string(),
            epoch: summary.superblock.epoch,
            is_clean: summary.superblock.is_clean,
            records_to_replay: summary.records_to_replay,
            size_bytes: layout.options.logical_pages * page,
            page_bytes: page,
            segment_bytes: layout.options.segment.0,
            segments: layout.segment_count,
            free_segments: summary.free_segments,
            fill: summary.mapped_pages as f64 / (u64::from(layout.segment_count) * positions) as f64,
            logs: logs.collect(),
            write_amplification: counters.write_amplification(page),
            p: counters.packed_share(layout.pages_per_segment()),
            counters: CountersStatus::of(counters),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let counters = &self.counters;
        let mut text = format!(
            "volume {}: {}, {}\n{:.1} % full; {} of {} segments of {} are free\n",
            self.uuid,
            Bytes(self.size_bytes),
            match (self.is_clean, self.records_to_replay) {
                (true, _) => "closed in order".to_owned(),
                (false, records) => format!("not closed in order: the next mount replays {records} records"),
            },
            self.fill * 100.0,
            self.free_segments,
            self.segments,
            Bytes(self.segment_bytes),
        );
        for LogStatus { log, segments, live_pages, alpha, p_predicted } in &self.logs {
            let _ = write!(text, "log {log}: {segments} segments, {live_pages} live pages");
            if let (Some(alpha), Some(p)) = (alpha, p_predicted) {
                let _ = write!(text, ", alpha {alpha:.2}, p {p:.3} predicted");
            }
            text.push('\n');
        }
        if let Some(amplification) = self.write_amplification {
            let p = self.p.map_or(String::new(), |p| format!("; p {p:.3} of all packed pages"));
            let _ = writeln!(text, "write amplification {amplification:.2}, the map included{p}");
            text += &counters.text(self.page_bytes);
        }
        text
    }
}

impl Status {
    /// Prints it.
    pub fn run(self) -> Result<()> {
        if fs::metadata(&self.volume).is_ok_and(|file| file.file_type().is_socket()) {
            let status = ServedVolumeStatus::ask(&self.volume)?;
            return if self.json { output::json(&status) } else { output::text(&status.text()) };
        }
        let status = VolumeStatus::of(&summarize(opened::for_reading(&self.volume)?)?);
        if self.json { output::json(&status) } else { output::text(&status.text()) }
    }
}
