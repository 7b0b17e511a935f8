//! The parameters that are inferred: names, units and definitions.
//!
//! Whoever scores an answer and whoever gives one mean the same by a name: the definition here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Family;

/// What a parameter's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanos,
    /// A whole number.
    Count,
    /// A number relative to another.
    Ratio,
    /// A word, or yes or no.
    None,
}

impl Unit {
    /// As in files: `bytes`, `ns`, `ratio`, or empty.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Nanos => "ns",
            Unit::Ratio => "ratio",
            Unit::Count | Unit::None => "",
        }
    }
}

macro_rules! parameters {
    ($($variant:ident $name:literal $unit:ident $title:literal $definition:literal)*) => {
        /// A hidden parameter of a device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Parameter {
            $(#[doc = $definition] #[serde(rename = $name)] $variant,)*
        }

        impl Parameter {
            /// All of them.
            pub const ALL: &'static [Parameter] = &[$(Parameter::$variant),*];

            /// Its name in files, as `erase_block_size`.
            pub fn name(self) -> &'static str {
                match self { $(Parameter::$variant => $name,)* }
            }

            /// Its name among people.
            pub fn title(self) -> &'static str {
                match self { $(Parameter::$variant => $title,)* }
            }

            /// What it is, in a clause.
            pub fn definition(self) -> &'static str {
                match self { $(Parameter::$variant => $definition,)* }
            }

            /// What its value is.
            pub fn unit(self) -> Unit {
                match self { $(Parameter::$variant => Unit::$unit,)* }
            }
        }
    };
}

impl Parameter {
    /// The words that are its value; none where it is a number, or yes or no.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Parameter::TranslationFamily => &Family::NAMES,
            Parameter::WriteBufferFlush => &["immediately", "when-full"],
            _ => &[],
        }
    }
}

parameters! {
    ReadPageSize "read_page_size" Bytes "Read page"
        "the smallest unit that is read from the flash"
    PlanesReadAtOnce "planes_read_at_once" Count "Planes read at once"
        "pages that one read operation of the flash brings"
    SegmentGroups "segment_groups" Count "Segment groups"
        "parts of the address space between which going costs time; 1: going anywhere costs the same (Sun and Zhang, section 4.1)"
    SegmentGroupSpan "segment_group_span" Bytes "Span of a segment group"
        "how much of the addresses lies together in one segment group; not identifiable where there is one"
    ReadBufferSize "read_buffer_size" Bytes "Read buffer"
        "what was read last and is answered without the flash; 0: nothing"
    ReadAheadSize "read_ahead_size" Bytes "Read-ahead"
        "what is read beyond a sequential read; 0: nothing"
    ChunkSize "chunk_size" Bytes "Chunk"
        "consecutive bytes on one die of a device that was filled sequentially; not identifiable with one die (Chen, Lee and Zhang, HPCA 2011)"
    ParallelUnits "parallel_units" Count "Parallel units"
        "dies that serve reads at the same time"
    StripeSize "stripe_size" Bytes "Stripe"
        "the period in which addresses come back to the same die; not identifiable with one die"
    Channels "channels" Count "Channels"
        "paths to the dies that transfer at the same time; 1 with one die"
    UsefulQueueDepth "useful_queue_depth" Count "Useful queue depth"
        "the smallest power of two of IOs in flight from which doubling brings less than 2.5 % of the throughput of random reads of one read page, or else the largest that the device takes"
    ReadCostPerIo "read_cost_per_io" Nanos "Cost of a read"
        "what a read takes beyond its bytes: A of T = A + nB, fitted to the median response times of sequential reads of 64, 128, 256, 512 and 1024 KiB by least squares of the relative deviations"
    ReadSaturationSize "read_saturation_size" Bytes "Read saturation"
        "the smallest IOSize, a power of two from 4 KiB on, from which doubling brings less than 2.5 % of throughput, and no larger one more than that by some further doubling, by the median response times of sequential reads (Ajwani et al., appendix A)"
    WriteCostPerIo "write_cost_per_io" Nanos "Cost of a write"
        "what a write takes beyond its bytes: A of T = A + nB, fitted to the median response times of sequential writes of 64, 128, 256, 512 and 1024 KiB that fill the device for the first time, by least squares of the relative deviations"
    WriteSaturationSize "write_saturation_size" Bytes "Write saturation"
        "the smallest IOSize, a power of two from 4 KiB on, from which doubling brings less than 2.5 % of throughput, and no larger one more than that by some further doubling, by the median response times of sequential writes that fill the device for the first time (Ajwani et al., appendix A)"
    WritePageSize "write_page_size" Bytes "Write page"
        "the smallest aligned write for which nothing has to be read"
    EraseBlockSize "erase_block_size" Bytes "Erase block"
        "the unit in which space is allocated or merged: log block, erase block or allocation unit; where sequential writes fill those of several dies at the same time, all of these together"
    OpenBlocks "open_blocks" Count "Open blocks"
        "units of erase_block_size that can be written to in turns without a merge for each write, which is how many log blocks a die has; with shared logs how many blocks single pages fill before the first of them makes room, which is the same"
    ZerosProgramShare "zeros_program_share" Ratio "Cost of zeros"
        "what writing zeros costs, relative to random content: median response times of aligned sequential writes of one write page (Sun and Zhang, section 4.2)"
    OnesProgramShare "ones_program_share" Ratio "Cost of ones"
        "what writing ones costs, relative to random content, in the same way"
    MappingGranularity "mapping_granularity" Bytes "Mapping granularity"
        "the smallest aligned write that costs the same at random places as in sequence: the write page where every page may lie anywhere, else erase_block_size"
    TranslationFamily "translation_family" None "Translation layer"
        "'page', 'demand-cached page', 'block' (only writes that continue a block are cheap), 'log-block' (rewriting pages of a few blocks in any order is cheap) or 'shared log-block' (of any blocks, until the logs are full)"
    MisalignmentPenalty "misalignment_penalty" Nanos "Misalignment penalty"
        "the median response time of writes of one write page at random places in the first MiB, shifted by half a page, less that without the shift (Ajwani et al., section 3.3.4)"
    WriteBufferSize "write_buffer_size" Bytes "Write buffer"
        "the memory that takes writes of a rested device before they wait for the flash; 0: every write waits for it"
    WriteBufferFlush "write_buffer_flush" None "Flush policy"
        "when whole pages leave the write buffer: immediately or when-full; not identifiable without a buffer"
    StartupIos "startup_ios" Count "Start-up phase"
        "random writes of 4 KiB on the whole device, one after the other, that are cheaper than those after them when the device was filled, then written randomly until costs were steady, and rested for a minute; 0: none (uFLIP section 4.2)"
    PeriodIos "period_ios" Count "Period"
        "of the same random writes after the start-up phase, those in one oscillation; 0: they do not oscillate regularly (uFLIP section 4.2)"
    LingeringTime "lingering_time" Nanos "Lingering effect"
        "from the end of as many random writes of 4 KiB as make a difference, how long random reads of 4 KiB, one after the other, are slower than before; 0: not at all (uFLIP section 4.3)"
    PauseBenefit "pause_benefit" Ratio "What a pause buys"
        "the mean response time of random writes of 4 KiB with pauses between them that are as long as they take without, relative to without; both after their start-up phase"
    RecoveryTime "recovery_time" Nanos "Recovery"
        "how long sequential writes of 32 KiB are slowed down by a tenth or more, from the end of random writes of 2 KiB in the first eighth of the device for 5 s; 0: not at all; not identifiable where it does not end (Ajwani et al., appendix C)"
    RecoveryEnds "recovery_ends" None "Recovery ends"
        "whether sequential writes elsewhere come back to their speed by themselves, also where nothing was written since, or never lost it; after random writes for 5 s, and for 30 and 60 s where the write budget allows them"
    RewriteCures "rewrite_cures" None "Rewriting cures"
        "whether they have their speed again where everything was rewritten sequentially, what is written to and what was written randomly; not identifiable where they come back by themselves"
    PhysicalCapacity "physical_capacity" Bytes "Physical capacity"
        "the capacity, and what can be written at random places of the filled device before anything has to be collected or merged: shared log blocks count; not identifiable where log blocks belong to one data block each"
    OverProvisioning "over_provisioning" Ratio "Over-provisioning"
        "physical capacity beyond the capacity, relative to the capacity"
    FastRegionSize "fast_region_size" Bytes "Fast region"
        "what is written at speed before the cache of fast cells is full; 0: there is none"
    FastRegionRefill "fast_region_refill" Bytes "Refill of the fast region"
        "how much of the fast region a pause of a minute makes free again; not identifiable without one"
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no parameter has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownParameter(String);

impl fmt::Display for UnknownParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Parameter::ALL.iter().map(|parameter| parameter.name()).collect();
        write!(f, "there is no parameter `{}`; there are: {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownParameter {}

impl FromStr for Parameter {
    type Err = UnknownParameter;

    /// The one of this name.
    fn from_str(name: &str) -> Result<Parameter, UnknownParameter> {
        let found = Parameter::ALL.iter().copied().find(|parameter| parameter.name() == name.trim());
        found.ok_or_else(|| UnknownParameter(name.to_owned()))
    }
}
