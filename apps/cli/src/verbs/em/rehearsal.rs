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

use super::machine::check_memory;
use super::options::{Algorithm, AlgorithmOptions, Layout};

/// How often it runs.
const ROUNDS: usize = 3;
/// The elements of a smaller input: a fraction of a second of the CPU for each algorithm.
const ELEMENTS: u64 = 1 << 22;
/// The same for graphs and lists, whose elements take some sorts each.
const NODES: u64 = 1 << 19;
/// The queries of a smaller search.
const QUERIES: u64 = 1 << 16;
/// The least memory of an algorithm.
const MEMORY_MIN: Bytes = Bytes::mib(1);
/// What an IO to memory takes in virtual time: nearly nothing, so that blocks are as large as on a fast device.
const RESPONSE: Nanos = Nanos(1);

/// An algorithm whose computation is measured.
pub struct Rehearsal<'o> {
    pub options: &'o AlgorithmOptions,
    pub algorithm: Algorithm,
    pub interrupt: &'o AtomicBool,
}

impl Rehearsal<'_> {
    /// Puts in place how long the host will compute for the whole input, phase by phase. Where that cannot be measured, the models keep
    /// what was declared, and a message has the reason: nothing is lost.
    pub fn add_host_time(&self, ios: &mut AlgorithmIos, block: Bytes, machine: (usize, Layout)) {
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
        (devices, layout): (usize, Layout),
    ) -> Result<Vec<Nanos>> {
        let Some((options, times)) = self.smaller(ios, block) else {
            bail!("a graph file has no smaller input; --host-cost is added for each record");
        };
        let input = options.prepare(self.algorithm)?;
        check_memory(Bytes(input.space.0.saturating_mul(devices as u64)), "--elements")?;
        let mut measured = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let device = || Box::new(MemoryDevice::new(input.space, RESPONSE)) as Box<dyn Device>;
            let devices = std::iter::repeat_with(device).take(devices).collect();
            let machine = Machine::new(devices, options.machine.memory, options.machine.host_time())?;
            let mut machine = machine.with_interrupt(self.interrupt);
            measured.push(options.experiment(self.algorithm, &mut machine, &input, layout)?.host);
        }
        measured.sort_by_key(|host: &Vec<Nanos>| host.iter().copied().sum::<Nanos>());
        Ok(measured[ROUNDS / 2].iter().map(|host| Nanos((host.0 as f64 * times) as u64)).collect())
    }

    /// A smaller input, and how many times more work the whole one is.
    fn smaller(&self, ios: &AlgorithmIos, block: Bytes) -> Option<(AlgorithmOptions, f64)> {
        let AlgorithmOptions { input, machine, graph, .. } = self.options;
        let least = match self.algorithm {
            Algorithm::Rank | Algorithm::Bfs => NODES,
            Algorithm::Scan | Algorithm::Sort | Algorithm::Search => ELEMENTS,
        };
        let (elements, memory) = (input.elements.unwrap_or(least), machine.memory);
        let times = (elements / least).max(1);
        let times = match self.algorithm {
            Algorithm::Search => times,
            _ => times.min(memory.0 / MEMORY_MIN.0).max(1),
        };
        let mut options = self.options.clone();
        options.input.elements = Some(elements / times);
        let mut work = elements as f64 / (elements / times) as f64;
        match self.algorithm {
            Algorithm::Search => {
                // What was chosen for the device.
                options.block = Some(block);
                options.in_flight = ios.ios().map(|class| class.in_flight).max();
                let (all, fewer) = (self.options.queries(), self.options.queries().min(QUERIES));
                options.queries = Some(fewer);
                work = all as f64 / fewer as f64;
                options.machine = machine.measuring_host(memory);
            }
            _ => options.machine = machine.measuring_host(Bytes(memory.0 / times)),
        }
        if self.algorithm == Algorithm::Bfs {
            options.graph = graph.smaller(times)?;
        }
        Some((options, work))
    }
}
