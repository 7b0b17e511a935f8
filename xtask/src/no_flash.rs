//! Disks without flash: what `infer` says of their inside is wrong, whatever it is.
//!
//! # Model
//! Four kinds alternate with the seed. None of them tells by its name what it is, so that only its behaviour can.
//! - [`HardDisk`]: a head, a revolution, read-ahead, and in half of them a write cache.
//! - [`Memory`]: a disk in memory, with a copy for each request.
//! - [`Thin`]: a volume of a pool that allocates an extent with the first write to it, and reads of others without the pool.
//! - [`Network`]: a disk behind a network, whose server limits bytes and requests a second by token buckets.

mod hard_disk;
mod hosts;

use flashlab_analysis::inference::Parameter;
use flashlab_base::{Prng, Seed};

use crate::foreign::Model;
use crate::truth::Truth;

use hard_disk::HardDisk;
use hosts::{Memory, Network, Thin};

/// The disk of a seed.
pub fn model(seed: u64) -> Box<dyn Model> {
    let random = &mut Prng::new(Seed(seed).derive("no flash", 0));
    match seed % 4 {
        0 => Box::new(HardDisk::random(random)),
        1 => Box::new(Memory::random(random)),
        2 => Box::new(Thin::random(random)),
        _ => Box::new(Network::random(random)),
    }
}

/// There is nothing inside that a parameter of flash could describe. How the disk behaves is not judged.
fn truth(parameter: Parameter) -> Truth {
    match parameter {
        Parameter::ReadPageSize
        | Parameter::WritePageSize
        | Parameter::PlanesReadAtOnce
        | Parameter::ChunkSize
        | Parameter::StripeSize
        | Parameter::ParallelUnits
        | Parameter::Channels
        | Parameter::EraseBlockSize
        | Parameter::MappingGranularity
        | Parameter::OpenBlocks
        | Parameter::TranslationFamily
        | Parameter::PhysicalCapacity
        | Parameter::OverProvisioning
        | Parameter::SlcCacheRefill => Truth::NotIdentifiable("there is no flash"),
        Parameter::SlcCacheSize => 0.into(),
        _ => Truth::unjudged("it is behaviour, and every disk has one"),
    }
}
