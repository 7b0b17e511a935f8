//! The parameters that are inferred: names, units and definitions.
//!
//! The estimators (crate `infer`) and the judge that scores them (`xtask`) both use these definitions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

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
    /// Its name in files: `bytes`, `ns`, `ratio`, or empty.
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

            /// Its name in reports.
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
    /// The words that its value can be; none for a number, or for yes or no.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Parameter::TranslationFamily => &Family::NAMES,
            Parameter::RateLimit => &["none", "ios", "bytes"],
            Parameter::WriteBufferFlush => &["immediately", "when-full"],
            _ => &[],
        }
    }
}

parameters! {
    ReadPageSize "read_page_size" Bytes "Read page"
        "the smallest unit that the flash reads"
    PlanesReadAtOnce "planes_read_at_once" Count "Planes read at once"
        "the number of pages that one read operation of a die brings, one from each plane"
    SegmentGroups "segment_groups" Count "Segment groups"
        "the number of parts of the address space between which a seek costs time; 1: a seek costs nothing (Sun and Zhang, section 4.1)"
    SegmentGroupSpan "segment_group_span" Bytes "Span of a segment group"
        "the number of consecutive bytes in one segment group; not identifiable where there is one group"
    ReadBufferSize "read_buffer_size" Bytes "Read cache"
        "how much of the most recently read data the device answers without the flash; 0: none"
    ReadAheadSize "read_ahead_size" Bytes "Read-ahead"
        "how far ahead of a sequential read the device reads; 0: it does not read ahead"
    ChunkSize "chunk_size" Bytes "Chunk"
        "the number of consecutive bytes on one die after a sequential fill; not identifiable with one die (Chen, Lee and Zhang, HPCA 2011)"
    ParallelUnits "parallel_units" Count "Parallel units"
        "the number of dies that serve reads at the same time"
    StripeSize "stripe_size" Bytes "Stripe"
        "the distance after which addresses come back to the same die; not identifiable with one die"
    Channels "channels" Count "Channels"
        "the number of buses to the dies that transfer data at the same time; 1 with one die"
    UsefulQueueDepth "useful_queue_depth" Count "Useful queue depth"
        "the smallest power of two of IOs in flight from which doubling adds less than 2.5 % to the throughput of random reads of one read page; the device's largest depth if doubling always adds more"
    RateLimit "rate_limit" None "Rate limit"
        "what a limit counts behind which small random reads pass at one rate, whatever their size and place, and only after idle time faster: 'ios', 'bytes' or 'none'"
    ReadCostPerIo "read_cost_per_io" Nanos "Fixed cost of a read"
        "the part of a read's time that does not depend on its size: A of T = A + nB, fitted to the median response times of sequential reads of 64, 128, 256, 512 and 1024 KiB by least squares of the relative deviations"
    ReadSaturationSize "read_saturation_size" Bytes "Read saturation"
        "the smallest IOSize (a power of two, 4 KiB or more) from which neither one doubling nor several add 2.5 % or more to the throughput of sequential reads, by their median response times (Ajwani et al., appendix A)"
    WriteCostPerIo "write_cost_per_io" Nanos "Fixed cost of a write"
        "the part of a write's time that does not depend on its size: A of T = A + nB, fitted to the median response times of sequential writes of 64, 128, 256, 512 and 1024 KiB that fill the device for the first time, by least squares of the relative deviations"
    WriteSaturationSize "write_saturation_size" Bytes "Write saturation"
        "the smallest IOSize (a power of two, 4 KiB or more) from which neither one doubling nor several add 2.5 % or more to the throughput of sequential writes that fill the device for the first time, by their median response times (Ajwani et al., appendix A)"
    WritePageSize "write_page_size" Bytes "Write page"
        "the smallest aligned write for which the device does not have to read first"
    EraseBlockSize "erase_block_size" Bytes "Erase block"
        "the unit in which the device allocates or merges: log block, erase block or allocation unit; where sequential writes fill the blocks of several dies at the same time, all of these together"
    OpenBlocks "open_blocks" Count "Open blocks"
        "the number of erase blocks that can be written to alternately without a merge for each write, which is the number of log blocks of a die; with shared logs the number of blocks that single pages fill before the first merge, which is the same"
    ZerosProgramShare "zeros_program_share" Ratio "Cost of zeros"
        "the time of writing zeros relative to random content, by the median response times of aligned sequential writes of one write page (Sun and Zhang, section 4.2)"
    OnesProgramShare "ones_program_share" Ratio "Cost of ones"
        "the time of writing ones (bytes 0xFF) relative to random content, measured like the cost of zeros"
    MappingGranularity "mapping_granularity" Bytes "Mapping granularity"
        "the smallest aligned write that costs the same at random offsets as in sequence: the write page if the device can put every page anywhere, else erase_block_size"
    TranslationFamily "translation_family" None "Translation layer"
        "'page'; 'demand-cached page'; 'block' (only writes that continue a block are fast); 'log-block' (rewriting pages of a few blocks in any order is fast); 'shared log-block' (rewriting pages of any blocks is fast until the logs are full)"
    MisalignmentPenalty "misalignment_penalty" Nanos "Misalignment penalty"
        "how much longer a write of one write page at a random offset in the first MiB takes when it is shifted by half a page, by the medians (Ajwani et al., section 3.3.4)"
    WriteBufferSize "write_buffer_size" Bytes "Write buffer"
        "how much an idle device takes into memory before a write has to wait for the flash; 0: every write waits"
    WriteBufferFlush "write_buffer_flush" None "Flush policy"
        "when whole pages leave the write buffer: immediately or when-full; not identifiable without a buffer"
    StartupIos "startup_ios" Count "Start-up phase"
        "the number of random 4 KiB writes, one after the other on the whole device, that are faster than those that follow; the device was filled, written randomly until the cost was steady, and then idle for a minute; 0: none (uFLIP section 4.2)"
    PeriodIos "period_ios" Count "Period"
        "the number of such random writes in one oscillation after the start-up phase; 0: they do not oscillate regularly (uFLIP section 4.2)"
    LingeringTime "lingering_time" Nanos "Lingering effect"
        "how long random 4 KiB reads, one after the other, stay slower after random 4 KiB writes have ended; 0: they are never slower (uFLIP section 4.3)"
    PauseBenefit "pause_benefit" Ratio "Benefit of pauses"
        "the mean response time of random 4 KiB writes with pauses as long as such a write takes, relative to writes without pauses; both after the start-up phase"
    RecoveryTime "recovery_time" Nanos "Recovery"
        "how long sequential 32 KiB writes stay slower by a tenth or more after random 2 KiB writes in the first eighth of the device for 5 s; 0: they are not slower; not identifiable if the slowdown does not end (Ajwani et al., appendix C)"
    RecoveryEnds "recovery_ends" None "Recovers by itself"
        "whether sequential writes in another region get back to their speed by themselves, or never lose it, also in a region that was not written to since; after random writes for 5 s, and for 30 and 60 s if the write budget allows them"
    RewriteCures "rewrite_cures" None "Rewriting restores speed"
        "whether sequential writes get back to their speed after their region and the randomly written one were both rewritten sequentially; not identifiable if they recover by themselves"
    PhysicalCapacity "physical_capacity" Bytes "Physical capacity"
        "the capacity plus what can be written at random offsets of the filled device before the first garbage collection or merge; shared log blocks count; not identifiable if each log block belongs to one data block"
    OverProvisioning "over_provisioning" Ratio "Over-provisioning"
        "the physical capacity above the capacity, relative to the capacity"
    SlcCacheSize "slc_cache_size" Bytes "SLC cache"
        "how much can be written at full speed before the SLC cache is full; 0: there is no SLC cache"
    SlcCacheRefill "slc_cache_refill" Bytes "SLC cache refill"
        "how much of the SLC cache is free again after a minute of idle time; not identifiable without an SLC cache"
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that is not the name of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no parameter `{0}`; there are: {names}", names = all_names())]
pub struct UnknownParameter(pub String);

fn all_names() -> String {
    let names: Vec<&str> = Parameter::ALL.iter().map(|parameter| parameter.name()).collect();
    names.join(", ")
}

impl FromStr for Parameter {
    type Err = UnknownParameter;

    /// The parameter of this name.
    fn from_str(name: &str) -> Result<Parameter, UnknownParameter> {
        let named = Parameter::ALL.iter().find(|parameter| parameter.name() == name.trim());
        named.copied().ok_or_else(|| UnknownParameter(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_those_that_there_are() {
        let message = "no_such".parse::<Parameter>().unwrap_err().to_string();
        assert!(
            message.starts_with("there is no parameter `no_such`; there are: read_page_size, "),
            "{message}"
        );
        for &parameter in Parameter::ALL {
            assert_eq!(parameter.name().parse(), Ok(parameter));
        }
    }
}
