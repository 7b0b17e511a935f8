//! What an algorithm did between two moments: its time, and its IOs by device.

use flashlab_base::Nanos;

use crate::ledger::IoCounts;
use crate::machine::Machine;

/// What an algorithm did between its begin and its end.
#[derive(Default)]
pub struct AlgorithmRun {
    /// The IOs that its formula plans.
    pub planned: IoCounts,
    /// The issued IOs.
    pub issued: IoCounts,
    /// The issued IOs of each device.
    pub issued_on: Vec<IoCounts>,
    /// How long it took.
    pub time: Nanos,
    /// How long the host computed meanwhile.
    pub host: Nanos,
    /// The same in each phase of the ledger.
    pub host_by_phase: Vec<Nanos>,
}

impl AlgorithmRun {
    /// Goes on with another part of the algorithm.
    pub fn add(&mut self, part: AlgorithmRun) {
        self.planned.merge(&part.planned);
        self.issued.merge(&part.issued);
        self.issued_on.resize(part.issued_on.len(), IoCounts::default());
        self.issued_on.iter_mut().zip(&part.issued_on).for_each(|(all, one)| all.merge(one));
        self.time += part.time;
        self.host += part.host;
        self.host_by_phase.extend(part.host_by_phase);
    }
}

/// The begin of an algorithm, before its first phase.
pub struct Stopwatch {
    first_phase: usize,
    begin: Nanos,
    host: Nanos,
}

impl Stopwatch {
    pub fn start(machine: &mut Machine<'_>) -> Stopwatch {
        let first_phase = machine.ledger().phases().len();
        Stopwatch { first_phase, begin: machine.now(), host: machine.host_time() }
    }

    /// What was done since the start.
    pub fn stop(self, machine: &mut Machine<'_>) -> AlgorithmRun {
        let (time, host_end) = (machine.now().since(self.begin), machine.host_time());
        let (mut planned, mut issued) = (IoCounts::default(), IoCounts::default());
        let mut issued_on = vec![IoCounts::default(); machine.device_count()];
        let phases = &machine.ledger().phases()[self.first_phase..];
        for phase in phases {
            planned.merge(&phase.planned);
            issued.merge(&phase.issued);
            issued_on.iter_mut().zip(&phase.issued_on).for_each(|(all, one)| all.merge(one));
        }
        let ends = phases.iter().skip(1).map(|phase| phase.host_before).chain([host_end]);
        let host_by_phase = phases.iter().zip(ends).map(|(phase, end)| end.since(phase.host_before));
        let host_by_phase = host_by_phase.collect();
        AlgorithmRun { planned, issued, issued_on, time, host: host_end.since(self.host), host_by_phase }
    }
}
