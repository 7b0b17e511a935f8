//! The sections of a profile that describe flash, its controller and its translation layer.

use std::fmt;
use std::str::FromStr;

use flashlab_base::{Bytes, Nanos};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Illegal, pause, time};
use crate::flash::{CellTimes, Geometry, Reliability, RowTimes};
use crate::flash_device::{FlushPolicy, Limit};

/// Bytes a second, written as `40MB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth(pub Bytes);

impl Bandwidth {
    /// How long `size` takes.
    pub fn time(self, size: Bytes) -> Nanos {
        Nanos((size.0 as f64 * self.ns_per_byte()).round() as u64)
    }

    /// Nanoseconds for each byte.
    pub fn ns_per_byte(self) -> f64 {
        1e9 / self.0.0.max(1) as f64
    }
}

impl FromStr for Bandwidth {
    type Err = String;
    fn from_str(text: &str) -> Result<Bandwidth, String> {
        let wrong = || format!("`{text}` is not a bandwidth: write bytes a second with a unit, as in 40MB/s");
        let bytes: Bytes = text.trim().strip_suffix("/s").ok_or_else(wrong)?.parse().map_err(|_| wrong())?;
        if bytes < Bytes(1000) {
            return Err(format!("`{text}` is too slow: a bandwidth is at least 1KB/s"));
        }
        Ok(Bandwidth(bytes))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000)] {
            if self.0.0.is_multiple_of(size) {
                return write!(f, "{}{unit}/s", self.0.0 / size);
            }
        }
        write!(f, "{}/s", self.0.exact())
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bandwidth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bandwidth, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Bandwidth;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a bandwidth with its unit such as \"40MB/s\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Bandwidth, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// One time, or one for each kind of row: `"200us"` or `["200us", "900us"]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a duration with its unit such as \"200us\", or a list of one to four"
)]
pub enum PerRow {
    /// Every row takes the same.
    All(Nanos),
    /// Fast and slow pages: the rows of a block take these times in turn.
    InTurn(Vec<Nanos>),
}

impl PerRow {
    /// As the flash takes it.
    pub fn times(&self) -> RowTimes {
        match self {
            PerRow::All(time) => RowTimes::new(&[*time]),
            PerRow::InTurn(times) => RowTimes::new(times),
        }
    }

    /// The longest of the times.
    pub fn longest(&self) -> Nanos {
        match self {
            PerRow::All(time) => *time,
            PerRow::InTurn(times) => times.iter().copied().max().unwrap_or_default(),
        }
    }

    /// How many different times there are.
    pub fn count(&self) -> usize {
        match self {
            PerRow::All(_) => 1,
            PerRow::InTurn(times) => times.len(),
        }
    }
}

/// `[flash]`: the array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlashSection {
    /// The unit that the translation layer maps and the flash is read by.
    pub page: Bytes,
    /// The pages of a block in one plane.
    pub pages_per_block: u32,
    /// How many planes of a die work together. The pages of a row, one of each, are programmed at once.
    pub planes: u32,
    /// How many dies there are.
    pub dies: u32,
    /// How many channels the dies share.
    pub channels: u32,
    /// The blocks beyond those that hold the capacity, as a share of them.
    pub over_provisioning: f64,
    /// From the array into the register.
    pub read: PerRow,
    /// From the register into the array.
    pub program: PerRow,
    /// Erasing a block.
    pub erase: Nanos,
    /// Issuing a command to a die.
    pub command: Nanos,
    /// A channel's bandwidth.
    pub channel_bandwidth: Bandwidth,
    /// Between the data and the cache register, in cache mode.
    pub register_move: Nanos,
    /// Whether consecutive pages are read and programmed in cache mode.
    pub cache_mode: bool,
    /// Whether pages that come one by one wait in the die's register until their row is complete, as where the controller
    /// gathers them; otherwise each is programmed when it comes.
    pub rows_wait: bool,
    /// Whether a die still has the row that it read last, so that reading it again takes the transfer only.
    pub keeps_row: bool,
    /// Whether pages are copied within a die without passing the channel.
    pub copy_back: bool,
    /// What the controller takes for each page that is copied, as when it corrects errors one page after the other.
    pub copy: Nanos,
    /// The share of the program time that a page of zeros takes.
    pub zeros_program_share: f64,
    /// The share of the program time that a page of ones takes.
    pub ones_program_share: f64,
    /// Blocks of fast cells (SLC) in front of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast: Option<FastCells>,
    /// How blocks age. By default they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reliability: Option<Reliability>,
    /// What the operations take of energy.
    pub energy: Energy,
}

/// `[flash.fast]`: the region of fast cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FastCells {
    /// How much it holds.
    pub size: Bytes,
    /// As in `[flash]`.
    pub read: PerRow,
    /// As in `[flash]`.
    pub program: PerRow,
    /// As in `[flash]`.
    pub erase: Nanos,
    /// From how much on writes that continue one another go past the region. By default they never do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bypass_from: Option<Bytes>,
    /// How much of it is emptied while the host rests. By default all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill: Option<Bytes>,
}

/// `[flash.energy]`: microjoules for an operation, and the power at rest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Energy {
    /// Reading a page.
    pub read_uj: f64,
    /// Programming a page.
    pub program_uj: f64,
    /// Erasing a block.
    pub erase_uj: f64,
    /// What the device takes all the time, in milliwatts.
    pub idle_mw: f64,
}

impl Default for Energy {
    /// A large-page SLC chip of 2009 (3.3 V; 25 us at 15 mA, 200 us at 15 mA, 1.5 ms at 15 mA).
    fn default() -> Energy {
        Energy { read_uj: 1.2, program_uj: 9.9, erase_uj: 74.0, idle_mw: 0.0 }
    }
}

impl Default for FlashSection {
    /// One SLC chip of 2009.
    fn default() -> FlashSection {
        FlashSection {
            page: Bytes::kib(4),
            pages_per_block: 64,
            planes: 1,
            dies: 1,
            channels: 1,
            over_provisioning: 0.07,
            read: PerRow::All(Nanos::from_micros(25)),
            program: PerRow::All(Nanos::from_micros(200)),
            erase: Nanos::from_micros(1500),
            command: Nanos::ZERO,
            channel_bandwidth: Bandwidth(Bytes(40_000_000)),
            register_move: Nanos::from_micros(3),
            cache_mode: false,
            rows_wait: false,
            keeps_row: false,
            copy_back: false,
            copy: Nanos::ZERO,
            zeros_program_share: 1.0,
            ones_program_share: 1.0,
            fast: None,
            reliability: None,
            energy: Energy::default(),
        }
    }
}

impl FlashSection {
    pub(crate) fn cells(&self) -> CellTimes {
        CellTimes { read: self.read.times(), program: self.program.times(), erase: self.erase }
    }

    pub(crate) fn fast_cells(&self) -> CellTimes {
        self.fast.as_ref().map_or(self.cells(), |fast| CellTimes {
            read: fast.read.times(),
            program: fast.program.times(),
            erase: fast.erase,
        })
    }

    /// The pages of a block, in all planes.
    pub(crate) fn block_pages(&self) -> u32 {
        self.pages_per_block.saturating_mul(self.planes)
    }

    /// The logical pages that a capacity takes.
    pub(crate) fn logical_pages(&self, capacity: Bytes) -> Result<u32, Illegal> {
        let pages = capacity.0.div_ceil(self.page.0);
        u32::try_from(pages)
            .map_err(|_| Illegal::new("flash.page", self.page, "larger: there are too many pages"))
    }

    /// The layout of the array that holds `capacity` and what is provisioned beyond it, at least `spare` blocks on
    /// each die.
    pub(crate) fn geometry(&self, capacity: Bytes, spare: u32) -> Result<Geometry, Illegal> {
        let block = self.page.0 * u64::from(self.block_pages().max(1));
        let dies = u64::from(self.dies.max(1));
        let per_die = |size: u64| size.div_ceil(block).div_ceil(dies) * dies;
        let fast = self.fast.as_ref().map_or(0, |fast| per_die(fast.size.0));
        let least = per_die(capacity.0).saturating_add(u64::from(spare) * dies);
        let usual = per_die((capacity.0 as f64 * (1.0 + self.over_provisioning)).ceil() as u64).max(least);
        let too_many = || {
            let pages = (usual + fast) as f64 * f64::from(self.block_pages());
            let legal =
                "and its translation layer's spare blocks such that there are fewer than 4294967295 pages";
            let legal = format!("less, {legal}, which are {pages:e}; or `flash.page` larger");
            if fast > usual {
                Illegal::new(
                    "flash.fast.size",
                    self.fast.as_ref().map_or(Bytes::ZERO, |fast| fast.size),
                    legal,
                )
            } else {
                Illegal::new("capacity", capacity, legal)
            }
        };
        let blocks = u32::try_from(usual + fast).map_err(|_| too_many())?;
        let illegal = |error: crate::flash::GeometryError| match error.what {
            "blocks" => too_many(),
            what => Illegal::new(format!("flash.{what}"), error.value, error.legal),
        };
        Geometry::new(self.page, self.block_pages(), self.planes, blocks, self.dies, self.channels)
            .and_then(|geometry| geometry.with_fast_blocks(fast as u32))
            .map_err(illegal)
    }

    pub(super) fn check(&self, block: Bytes) -> Result<(), Illegal> {
        if !self.page.0.is_power_of_two() || !(512..=1 << 20).contains(&self.page.0) {
            return Err(Illegal::new("flash.page", self.page, "a power of two from 512B to 1MiB"));
        }
        if block > self.page {
            return Err(Illegal::new("block", block, "at most `flash.page`"));
        }
        if !(0.0..=100.0).contains(&self.over_provisioning) {
            return Err(Illegal::number(
                "flash.over_provisioning",
                self.over_provisioning,
                "0 to 100, as a share",
            ));
        }
        if self.planes == 0 {
            return Err(Illegal::new("flash.planes", 0, "from 1 on"));
        }
        if self.pages_per_block == 0 || self.block_pages() > 1 << 16 {
            let legal = "1 to 65536 with all planes together";
            return Err(Illegal::new("flash.pages_per_block", self.pages_per_block, legal));
        }
        let rows = |cells: &str, read: &PerRow, program: &PerRow| {
            for (key, times) in [("read", read), ("program", program)] {
                if !(1..=4).contains(&times.count()) {
                    return Err(Illegal::new(format!("{cells}.{key}"), times.count(), "one to four times"));
                }
                time(&format!("{cells}.{key}"), times.longest())?;
            }
            Ok(())
        };
        rows("flash", &self.read, &self.program)?;
        if let Some(fast) = &self.fast {
            rows("flash.fast", &fast.read, &fast.program)?;
            time("flash.fast.erase", fast.erase)?;
            if fast.size == Bytes::ZERO {
                return Err(Illegal::new("flash.fast.size", fast.size, "from one page on"));
            }
        }
        time("flash.erase", self.erase)?;
        time("flash.command", self.command)?;
        time("flash.register_move", self.register_move)?;
        time("flash.copy", self.copy)?;
        let Energy { read_uj, program_uj, erase_uj, idle_mw } = self.energy;
        for (key, energy) in
            [("read_uj", read_uj), ("program_uj", program_uj), ("erase_uj", erase_uj), ("idle_mw", idle_mw)]
        {
            if !(0.0..=1e9).contains(&energy) {
                return Err(Illegal::number(format!("flash.energy.{key}"), energy, "0 to 1000000000"));
            }
        }
        if let Some(reliability) = self.reliability {
            let illegal = |error: crate::flash::GeometryError| {
                Illegal::new(format!("flash.reliability.{}", error.what), error.value, error.legal)
            };
            reliability.checked().map_err(illegal)?;
        }
        for (key, share) in [
            ("flash.zeros_program_share", self.zeros_program_share),
            ("flash.ones_program_share", self.ones_program_share),
        ] {
            if !(0.0..=10.0).contains(&share) {
                return Err(Illegal::number(key, share, "0 to 10"));
            }
        }
        Ok(())
    }
}

/// `[controller]`: what stands between the host and the flash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControllerSection {
    /// What each read costs the controller.
    pub read_command: Nanos,
    /// What each write costs the controller.
    pub write_command: Nanos,
    /// What a write costs more that does not begin where the one before it ended: the controller turns to another part
    /// of its map.
    pub write_jump: Nanos,
    /// The same for a read and the read before it: another part of the map is looked up.
    pub read_jump: Nanos,
    /// How far from the end of the one before it a request may begin without such costs.
    pub jump_reach: Bytes,
    /// The link to the host, for reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bandwidth: Option<Bandwidth>,
    /// The link to the host, for writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<Bandwidth>,
    /// How many requests may be in flight.
    pub depth: u32,
    /// Larger requests come as several commands of this size, as the host's driver cuts them up (120 KiB for USB
    /// storage under Linux).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_command: Option<Bytes>,
    /// What a provider lets a volume do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Memory for what is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_buffer: Option<WriteBufferSection>,
    /// Memory for what is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_buffer: Option<ReadBufferSection>,
    /// Parts of the address space between which switching takes time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_groups: Option<SegmentGroups>,
    /// Work that may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundSection>,
    /// Which stream the host's writes go to, by their address, as a host does that gives placement hints (NVMe
    /// flexible data placement). Elsewhere it is stream 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<Placement>,
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
        }
    }
}

impl ControllerSection {
    pub(super) fn check(&self, page: Bytes) -> Result<(), Illegal> {
        time("controller.read_command", self.read_command)?;
        time("controller.write_command", self.write_command)?;
        time("controller.write_jump", self.write_jump)?;
        time("controller.read_jump", self.read_jump)?;
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
            time("controller.limit.burst", limit.burst)?;
            time("controller.limit.latency", limit.latency)?;
            for (key, iops) in [("read_iops", limit.read_iops), ("write_iops", limit.write_iops)] {
                if iops == Some(0) {
                    return Err(Illegal::new(format!("controller.limit.{key}"), 0, "at least 1, or absent"));
                }
            }
        }
        if let Some(buffer) = &self.write_buffer {
            pages("write_buffer.size", buffer.size, 1)?;
            buffer.together.map_or(Ok(()), |together| pages("write_buffer.together", together, 1))?;
            let on_the_way = |size: Bytes| match buffer.flush {
                FlushPolicy::WhenFull if size >= buffer.size => Err(Illegal::new(
                    "controller.write_buffer.on_the_way",
                    size,
                    "less than `controller.write_buffer.size`",
                )),
                _ => pages("write_buffer.on_the_way", size, 0),
            };
            buffer.on_the_way.map_or(Ok(()), on_the_way)?;
        }
        if let Some(buffer) = &self.read_buffer {
            pages("read_buffer.size", buffer.size, 1)?;
            pages("read_buffer.read_ahead", buffer.read_ahead, 0)?;
        }
        if let Some(groups) = &self.segment_groups {
            if groups.count == 0 {
                return Err(Illegal::new("controller.segment_groups.count", groups.count, "1 to 4294967295"));
            }
            time("controller.segment_groups.switch", groups.switch)?;
            time("controller.segment_groups.write_switch", groups.write_switch.unwrap_or_default())?;
            if groups.span == Bytes::ZERO {
                return Err(Illegal::new("controller.segment_groups.span", groups.span, "at least 1B"));
            }
        }
        if let Some(hint) = self.placement.iter().find(|hint| hint.from >= hint.to) {
            return Err(Illegal::new("controller.placement.to", hint.to, "greater than its `from`"));
        }
        if let Some(background) = &self.background {
            if background.pieces > 1 << 20 {
                return Err(Illegal::new("controller.background.pieces", background.pieces, "0 to 1048576"));
            }
            pause("controller.background.idle_after", background.idle_after)?;
            time("controller.background.slice", background.slice)?;
            time("controller.background.read_slice", background.read_slice.unwrap_or_default())?;
        }
        Ok(())
    }
}

/// `[[controller.placement]]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The first address.
    pub from: Bytes,
    /// The first address behind it.
    pub to: Bytes,
    /// The stream; a layer with fewer takes its last one.
    pub stream: u16,
}

/// `[controller.write_buffer]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBufferSection {
    /// How much it holds.
    pub size: Bytes,
    /// When whole pages leave it.
    #[serde(default)]
    pub flush: FlushPolicy,
    /// Held pages within the same part of this size leave together. One block by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Bytes>,
    /// How much may be on its way to the flash while the host goes on; with none the host waits for it. By default
    /// all of `size`, or half of it when pages leave when it is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_the_way: Option<Bytes>,
}

/// `[controller.read_buffer]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadBufferSection {
    /// How much it holds.
    pub size: Bytes,
    /// How much is read ahead of a sequential reader.
    #[serde(default)]
    pub read_ahead: Bytes,
}

/// `[controller.segment_groups]` (Sun and Zhang, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentGroups {
    /// How many groups there are.
    pub count: u32,
    /// How much of the address space lies together in one group.
    pub span: Bytes,
    /// What it costs to go to another group.
    pub switch: Nanos,
    /// What it costs a write, where that is not the same: what was changed in the map of a group is stored first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_switch: Option<Nanos>,
}

/// `[controller.background]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundSection {
    /// How long the host rests before the work begins.
    #[serde(default)]
    pub idle_after: Nanos,
    /// What is done of it before each operation of the host on the same die.
    #[serde(default)]
    pub slice: Nanos,
    /// The same for reads, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_slice: Option<Nanos>,
    /// Whether it is done while the host asks for nothing; otherwise only while the host waits for another die.
    #[serde(default = "yes")]
    pub while_idle: bool,
    /// How many merges a die may owe, having that many blocks to spare. More are done in the foreground.
    pub pieces: u32,
}
