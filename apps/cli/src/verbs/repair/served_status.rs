//! What a served volume reports of itself: its logs as they are now, which a closed volume does not know.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use flashlab_base::Bytes;
use flashlab_device::Device;
use flashlab_export::{ControlClient, ControlReply};
use flashlab_repair::{LogReport, Volume};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::counters_status::CountersStatus;
use super::log_table::log_table;
use crate::exit::Usage;

/// The state of a volume that is being served.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ServedVolumeStatus {
    uuid: String,
    policy: String,
    /// Live pages for each page that all segments have.
    fill: f64,
    free_segments: u32,
    damaged_segments: u32,
    discard_backlog_bytes: u64,
    /// Something was written and is not durable yet.
    is_dirty: bool,
    /// Why nothing is written any more.
    poisoned: Option<String>,
    /// Host writes that the logs, their `p` and the next two figures are of: the last half to whole volume.
    span_host_pages: u64,
    /// Pages appended for each page of the host, headers included.
    write_amplification: Option<f64>,
    /// By the model, headers excluded.
    write_amplification_predicted: Option<f64>,
    logs: Vec<LogReport>,
    page_bytes: u64,
    /// Since the volume was made.
    counters: CountersStatus,
}

impl ServedVolumeStatus {
    /// Of a volume that is open.
    pub fn of<D: Device>(volume: &Volume<D>) -> ServedVolumeStatus {
        let layout = volume.layout();
        let placement = volume.placer().status();
        let positions = u64::from(layout.segment_count) * u64::from(layout.data_pages_per_segment());
        ServedVolumeStatus {
            uuid: volume.superblock().uuid.to_string(),
            policy: volume.placer().policy().name().to_owned(),
            fill: volume.mapped_pages() as f64 / positions as f64,
            free_segments: volume.placer().table().free_count(),
            damaged_segments: volume.damaged_segments(),
            discard_backlog_bytes: volume.discard_backlog().0,
            is_dirty: volume.is_dirty(),
            poisoned: volume.poison().map(ToString::to_string),
            span_host_pages: placement.host_writes,
            write_amplification: placement.write_amplification,
            write_amplification_predicted: placement.write_amplification_predicted,
            logs: placement.logs.iter().map(LogReport::of).collect(),
            page_bytes: layout.options.page.0,
            counters: CountersStatus::of(&volume.counters()),
        }
    }

    /// Asks the server whose control socket this is.
    pub fn ask(socket: &Path) -> Result<ServedVolumeStatus> {
        let name = socket.display();
        let unreachable = || Usage(format!("no server of a volume listens on {name}"));
        let mut server = ControlClient::connect(socket).with_context(unreachable)?;
        match server.ask("status").context("the server does not answer")? {
            ControlReply::Done(mut status) => match status.get_mut("details").map(Value::take) {
                Some(details) => {
                    serde_json::from_value(details).context("the server is of another flashlab's version")
                }
                None => bail!(Usage(format!("{name} belongs to a server of something other than a volume"))),
            },
            ControlReply::Refused(reason) => bail!(Usage(reason)),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "volume {}, policy {}: {:.1} % full, {} free segments, {} are still to be discarded\n",
            self.uuid,
            self.policy,
            self.fill * 100.0,
            self.free_segments,
            Bytes(self.discard_backlog_bytes)
        );
        if let Some(why) = &self.poisoned {
            let _ = writeln!(text, "it accepts no more writes: {why}");
        }
        if self.damaged_segments > 0 {
            let _ = writeln!(text, "{} segments have pages that cannot be read", self.damaged_segments);
        }
        let value = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let _ = writeln!(
            text,
            "the last {} of host writes: write amplification {} measured, {} predicted\n\n{}\n{}",
            Bytes(self.span_host_pages * self.page_bytes),
            value(self.write_amplification),
            value(self.write_amplification_predicted),
            log_table(&self.logs),
            self.counters.text(self.page_bytes)
        );
        text
    }
}
