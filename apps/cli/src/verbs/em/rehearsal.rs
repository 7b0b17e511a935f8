//! How long the host will compute on a real device.
//!
//! # Model
//! The CPU's work for an element does not depend on the device. So the same algorithm runs on a smaller input in memory, where its
//! computation is measured, and the time of an element is taken for the whole input. The memory of the algorithm is smaller by the same
//! factor: a sort then merges as many runs. That of `search` stays, because its queries in flight and its cache need it.
//!
//! # Method
//! It runs [`ROUNDS`] times, and the median counts.

use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Device, MemoryDevice};
use flashlab_em::Machine;
use flashlab_em::cost::AlgorithmIos;
use flashlab_em::experiment::{Algorithm, DataLayout, Smaller};

use super::machine::{check_memory, measured_host_time};

/// How often it runs.
const ROUNDS: usize = 3;
/// What an IO to memory takes in virtual time: nearly nothing, so that blocks are as large as on a fast device.
const RESPONSE: Nanos = Nanos(1);

/// An algorithm whose computation is measured.
pub struct Rehearsal<'o> {
    pub algorithm: &'o dyn Algorithm,
    /// The memory of the algorithm.
    pub memory: Bytes,
    pub interrupt: &'o AtomicBool,
}

impl Rehearsal<'_> {
    /// Puts in place how long the host will compute for the whole input, phase by phase. Where that cannot be measured, the models keep
    /// what was declared, and a message has the reason: nothing is lost.
    pub fn add_host_time(&self, ios: &mut AlgorithmIos, block: Bytes, machine: (usize, DataLayout)) {
        match self.host_time(ios, block, machine) {
            Ok(host) => ios.host = host,
            Err(error) => {
                tell!(
                    "the host's computation could not be rehearsed, and the models leave it out: {error:#}"
                );
            }
        }
    }

    fn host_time(
        &self,
        ios: &AlgorithmIos,
        block: Bytes,
        (devices, layout): (usize, DataLayout),
    ) -> Result<Vec<Nanos>> {
        let Some(Smaller { mut algorithm, memory, work }) = self.algorithm.smaller(self.memory, (ios, block))
        else {
            bail!("a graph file has no smaller input; --host-cost is added for each record");
        };
        let space = algorithm.space(memory)?;
        check_memory(Bytes(space.0.saturating_mul(devices as u64)), "--elements")?;
        let mut measured = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let device = || Box::new(MemoryDevice::new(space, RESPONSE)) as Box<dyn Device>;
            let devices = std::iter::repeat_with(device).take(devices).collect();
            let machine = Machine::new(devices, memory, measured_host_time())?;
            let mut machine = machine.with_interrupt(self.interrupt);
            algorithm.place(&machine, layout);
            measured.push(algorithm.run(&mut machine)?.host);
        }
        measured.sort_by_key(|host: &Vec<Nanos>| host.iter().copied().sum::<Nanos>());
        Ok(measured[ROUNDS / 2].iter().map(|host| Nanos((host.0 as f64 * work) as u64)).collect())
    }
}
