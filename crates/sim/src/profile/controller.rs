//! `[controller]`: what stands between the host and the flash that a profile describes.

use flashlab_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::bandwidth::Bandwidth;
use crate::flash::Background;
use crate::illegal::{Illegal, check_duration, check_idle_time};

/// The section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControllerSection {
    /// The controller's time for each read.
    pub read_command: Nanos,
    /// The controller's time for each write.
    pub write_command: Nanos,
    /// The additional time of a write that does not begin where the write before it ended: the controller loads another
    /// part of its map.
    pub write_jump: Nanos,
    /// The same for a read and the read before it.
    pub read_jump: Nanos,
    /// The distance from the end of the request before it up to which a request has no jump.
    pub jump_reach: Bytes,
    /// What a request takes in addition, while the controller and the link already serve others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineSection>,
    /// Whether reads wait until the write buffer has taken the writes before them, as in a controller that takes commands in order.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reads_behind_writes: bool,
    /// The link to the host, for reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bandwidth: Option<Bandwidth>,
    /// The link to the host, for writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<Bandwidth>,
    /// The most requests in flight.
    pub depth: u32,
    /// The largest command. The host's driver divides a larger request into several commands (120 KiB for USB storage
    /// under Linux).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_command: Option<Bytes>,
    /// The limits of a cloud volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The write buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_buffer: Option<WriteBufferSection>,
    /// The read buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_buffer: Option<ReadBufferSection>,
    /// Parts of the address space between which switching takes time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_groups: Option<SegmentGroups>,
    /// Deferred work of the dies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundSection>,
    /// The stream of the host's writes, by their offset, as from a host with placement hints (NVMe flexible data
    /// placement). Writes to other offsets go to stream 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<Placement>,
    /// Whether the device reports the bytes that it wrote to its flash, as datacenter drives do (OCP's Datacenter NVMe SSD
    /// specification: physical media units written).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counts_media_writes: bool,
}

fn yes() -> bool {
    true
}

impl Default for ControllerSection {
    fn default() -> ControllerSection {
        ControllerSection {
            read_command: Nanos::from_micros(20),
            write_command: Nanos::from_micros(20),
            write_jump: Nanos::ZERO,
            read_jump: Nanos::ZERO,
            jump_reach: Bytes::ZERO,
            pipeline: None,
            reads_behind_writes: false,
            read_bandwidth: None,
            write_bandwidth: None,
            depth: 32,
            largest_command: None,
            limit: None,
            write_buffer: None,
            read_buffer: None,
            segment_groups: None,
            background: None,
            placement: Vec::new(),
            counts_media_writes: false,
        }
    }
}

impl ControllerSection {
    pub(super) fn check(&self, page: Bytes) -> Result<(), Illegal> {
        check_duration("controller.read_command", self.read_command)?;
        check_duration("controller.write_command", self.write_command)?;
        check_duration("controller.write_jump", self.write_jump)?;
        check_duration("controller.read_jump", self.read_jump)?;
        if let Some(pipeline) = &self.pipeline {
            check_duration("controller.pipeline.read", pipeline.read)?;
            check_duration("controller.pipeline.write", pipeline.write)?;
        }
        let pages = |key: &str, size: Bytes, least: u64| {
            if size.is_multiple_of(page) && (least..=1 << 24).contains(&(size.0 / page.0)) {
                return Ok(());
            }
            Err(Illegal::new(
                format!("controller.{key}"),
                size,
                format!("a multiple of `flash.page` ({page}), {least} pages to 16777216"),
            ))
        };
        if !(1..=1 << 16).contains(&self.depth) {
            return Err(Illegal::new("controller.depth", self.depth, "1 to 65536"));
        }
        self.largest_command.map_or(Ok(()), |size| pages("largest_command", size, 1))?;
        if let Some(limit) = &self.limit {
            check_duration("controller.limit.burst", limit.burst)?;
            check_duration("controller.limit.latency", limit.latency)?;
            for (key, iops) in [("read_iops", limit.read_iops), ("write_iops", limit.write_iops)] {
                if iops == Some(0) {
                    return Err(Illegal::new(format!("controller.limit.{key}"), 0, "at least 1, or absent"));
                }
            }
        }
        if let Some(buffer) = &self.write_buffer {
            pages("write_buffer.size", buffer.size, 1)?;
            buffer.flush_group.map_or(Ok(()), |group| pages("write_buffer.flush_group", group, 1))?;
            let in_flight = |size: Bytes| match buffer.flush {
                FlushPolicy::WhenFull if size >= buffer.size => Err(Illegal::new(
                    "controller.write_buffer.in_flight",
                    size,
                    "less than `controller.write_buffer.size`",
                )),
                _ => pages("write_buffer.in_flight", size, 0),
            };
            buffer.in_flight.map_or(Ok(()), in_flight)?;
        }
        if let Some(buffer) = &self.read_buffer {
            pages("read_buffer.size", buffer.size, 1)?;
            pages("read_buffer.read_ahead", buffer.read_ahead, 0)?;
        }
        if let Some(groups) = &self.segment_groups {
            if groups.count == 0 {
                return Err(Illegal::new("controller.segment_groups.count", groups.count, "1 to 4294967295"));
            }
            check_duration("controller.segment_groups.switch", groups.switch)?;
            check_duration(
                "controller.segment_groups.write_switch",
                groups.write_switch.unwrap_or_default(),
            )?;
            if groups.span == Bytes::ZERO {
                return Err(Illegal::new("controller.segment_groups.span", groups.span, "at least 1B"));
            }
        }
        if let Some(hint) = self.placement.iter().find(|hint| hint.from >= hint.to) {
            return Err(Illegal::new("controller.placement.to", hint.to, "greater than its `from`"));
        }
        if let Some(background) = &self.background {
            if background.max_backlog > 1 << 20 {
                return Err(Illegal::new(
                    "controller.background.max_backlog",
                    background.max_backlog,
                    "0 to 1048576",
                ));
            }
            check_idle_time("controller.background.idle_after", background.idle_after)?;
            check_duration("controller.background.slice", background.slice)?;
            check_duration("controller.background.read_slice", background.read_slice.unwrap_or_default())?;
        }
        Ok(())
    }
}

/// `[[controller.placement]]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The first offset.
    pub from: Bytes,
    /// The first offset behind it.
    pub to: Bytes,
    /// The stream; a layer with fewer streams uses its last one.
    pub stream: u16,
}

/// `[controller.pipeline]`. It makes a single request slower and changes no rate with many requests in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PipelineSection {
    /// For each read.
    pub read: Nanos,
    /// For each write.
    pub write: Nanos,
    /// The bandwidth of one write's data through it. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<Bandwidth>,
}

/// `[controller.write_buffer]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBufferSection {
    /// Its capacity.
    pub size: Bytes,
    /// When whole pages leave it.
    #[serde(default)]
    pub flush: FlushPolicy,
    /// Buffered pages within the same aligned part of this size leave together. Default: one block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_group: Option<Bytes>,
    /// The most bytes in flight to the flash. With 0 the host waits until each page is programmed. Default: `size`, or half
    /// of it if pages leave when the buffer is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<Bytes>,
}

/// `[controller.read_buffer]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadBufferSection {
    /// Its capacity.
    pub size: Bytes,
    /// The read-ahead of a sequential reader.
    #[serde(default)]
    pub read_ahead: Bytes,
}

/// `[controller.segment_groups]` (Sun and Zhang, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentGroups {
    /// The number of groups.
    pub count: u32,
    /// The size of a segment: consecutive segments are in different groups.
    pub span: Bytes,
    /// The time to switch to another group.
    pub switch: Nanos,
    /// The time for a write, if it differs: the changed part of a group's map is stored first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_switch: Option<Nanos>,
}

/// `[controller.background]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundSection {
    /// The idle time of the host after which the work begins.
    #[serde(default)]
    pub idle_after: Nanos,
    /// The time of it that a die does before each operation of the host.
    #[serde(default)]
    pub slice: Nanos,
    /// The same before reads, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_slice: Option<Nanos>,
    /// Whether it is done while the host is idle; otherwise only while the host waits for another die.
    #[serde(default = "yes")]
    pub while_idle: bool,
    /// The most merges in a die's backlog, which has a spare block for each. A die does further merges in the foreground.
    pub max_backlog: u32,
}

impl BackgroundSection {
    /// The part of it that the dies use.
    pub(crate) fn for_dies(&self) -> Background {
        Background {
            idle_after: self.idle_after,
            read_slice: self.read_slice.unwrap_or(self.slice),
            slice: self.slice,
            max_backlog: self.max_backlog as usize,
        }
    }
}

/// When whole pages leave the write buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushPolicy {
    /// At once: the buffer hides the programming time as long as slots are free.
    #[default]
    Immediately,
    /// When the buffer is full: it collects several writes to the same page.
    WhenFull,
}

/// `[controller.limit]`. An absent key is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limit {
    /// Reads a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<u64>,
    /// Writes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<u64>,
    /// Bytes read a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bandwidth: Option<Bandwidth>,
    /// Bytes written a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<Bandwidth>,
    /// The unused time that is saved for bursts.
    pub burst: Nanos,
    /// The network latency, in both directions together.
    pub latency: Nanos,
}
