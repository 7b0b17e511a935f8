//! The crash states behind each recorded IO, and what is checked of each.

pub(crate) mod every_fault;

use std::ops::Range;
use std::sync::Arc;

use flashlab_base::{Prng, Seed};

use super::damage::{Damage, Damager, Fault};
use super::history::{History, PAGE, read_pages};
use super::media::{CrashMedia, Layer, LoggedIo};
use super::report::{CrashReport, CrashViolation, VIOLATIONS_MAX};
use super::workload::{Mark, Run};

use crate::seeded_bug::SeededBug;

/// With at most this number of unflushed writes all their subsets are tried.
const ALL_SUBSETS_MAX: usize = 4;
/// Random subsets behind each IO with more.
const RANDOM_SUBSETS: usize = 8;
/// Faults of what was durable that are tried behind each IO, alone and in pairs.
const SINGLE_FAULTS: usize = 2;
const PAIRS_OF_FAULTS: usize = 2;
/// The same where the volume was closed in order.
const FAULTS_OF_CLOSED: usize = 40;
/// One in this number of states is recovered a second time, and used after.
const TWICE: u64 = 8;

/// A state and how it came about.
struct CrashState {
    layers: Vec<Layer>,
    /// Damage in addition to the power failure: then errors are allowed, and this is what the host is promised.
    damaged_promise: Option<usize>,
    how: String,
}

/// Tries the states of a run.
pub(crate) fn explore(run: &Run, other: &Run, bug: Option<SeededBug>, report: &mut CrashReport) {
    let mut explorer = Explorer::new(run, other, bug, report);
    let mut unflushed: Vec<usize> = Vec::new();
    for (at, &mark) in run.marks.iter().enumerate().take(run.log.len()) {
        let is_flush = matches!(run.log[at], LoggedIo::Flush);
        // A flush changes nothing of what is there.
        let present: Vec<usize> = unflushed.iter().copied().chain((!is_flush).then_some(at)).collect();
        explorer.damager.wrote(at);
        let states = explorer.states(&present, is_flush);
        for state in states.into_iter().chain(explorer.misdirected(at, &present)) {
            if explorer.is_done() {
                return;
            }
            explorer.try_state(at, mark, state);
        }
        explorer.advance(at, &mut unflushed);
        explorer.try_damage((at, mark), &unflushed, SINGLE_FAULTS, PAIRS_OF_FAULTS);
        for &(_, mark) in run.closed.iter().filter(|closed| closed.0 == at && unflushed.is_empty()) {
            explorer.try_damage((at, mark), &[], FAULTS_OF_CLOSED, FAULTS_OF_CLOSED);
        }
    }
}

struct Explorer<'a> {
    run: &'a Run,
    bug: Option<SeededBug>,
    random: Prng,
    /// The device at the last flush.
    base: Arc<Vec<u8>>,
    damager: Damager<'a>,
    report: &'a mut CrashReport,
}

impl<'a> Explorer<'a> {
    fn new(
        run: &'a Run,
        other: &'a Run,
        bug: Option<SeededBug>,
        report: &'a mut CrashReport,
    ) -> Explorer<'a> {
        Explorer {
            run,
            bug,
            random: Prng::new(run.seed.derive("crash states", 0)),
            base: Arc::new(run.new_media()),
            damager: Damager::new(run, other),
            report,
        }
    }

    /// Goes on behind an IO. `unflushed` has those that are not durable.
    fn advance(&mut self, at: usize, unflushed: &mut Vec<usize>) {
        self.damager.wrote(at);
        if matches!(self.run.log[at], LoggedIo::Flush) {
            self.make_durable(unflushed);
            unflushed.clear();
        } else {
            unflushed.push(at);
        }
    }

    fn is_done(&self) -> bool {
        self.report.violations.len() >= VIOLATIONS_MAX
    }

    fn make_durable(&mut self, ios: &[usize]) {
        let base = Arc::make_mut(&mut self.base);
        for &io in ios {
            if let Some(layer) = Layer::of(&self.run.log[io], u128::MAX) {
                layer.apply(0, base);
            }
        }
    }

    /// The states behind an IO; behind a flush everything is there.
    fn states(&mut self, unflushed: &[usize], is_flush: bool) -> Vec<CrashState> {
        let count = unflushed.len();
        let mut states = Vec::new();
        if is_flush {
            states.push(self.subset(unflushed, &vec![true; count], false));
        } else if count <= ALL_SUBSETS_MAX {
            // Those without the last IO were tried before it.
            for bits in 0..1_u32 << (count - 1) {
                let mut chosen: Vec<bool> = (0..count - 1).map(|at| bits >> at & 1 == 1).collect();
                chosen.push(true);
                states.push(self.subset(unflushed, &chosen, false));
            }
        } else {
            let all = vec![true; count];
            states.push(self.subset(unflushed, &all, false));
            for missing in 0..(count - 1).min(RANDOM_SUBSETS) {
                let mut chosen = all.clone();
                chosen[if count - 1 > RANDOM_SUBSETS {
                    self.random.below(count as u64 - 1) as usize
                } else {
                    missing
                }] = false;
                states.push(self.subset(unflushed, &chosen, false));
            }
            for _ in 0..RANDOM_SUBSETS {
                let chosen: Vec<bool> = (0..count).map(|_| self.random.below(2) == 1).collect();
                states.push(self.subset(unflushed, &chosen, false));
            }
        }
        if !is_flush {
            for _ in 0..3 {
                let chosen: Vec<bool> = (0..count).map(|_| self.random.below(4) > 0).collect();
                states.push(self.subset(unflushed, &chosen, true));
            }
        }
        states
    }

    /// The chosen ones of the unflushed writes; with `torn` one or more of them in part.
    fn subset(&mut self, unflushed: &[usize], chosen: &[bool], torn: bool) -> CrashState {
        let mut layers = Vec::new();
        let mut how = String::new();
        for (&io, &is_chosen) in unflushed.iter().zip(chosen) {
            let mut sectors = u128::MAX;
            if torn && self.random.below(2) == 0 {
                sectors = self.torn_sectors();
            }
            if is_chosen && let Some(layer) = Layer::of(&self.run.log[io], sectors) {
                how += &match sectors {
                    u128::MAX => format!(" {io}"),
                    _ => format!(" {io} with sectors {sectors:x}"),
                };
                layers.push(layer);
            }
        }
        CrashState { layers, damaged_promise: None, how: format!("of the unflushed writes it has{how}") }
    }

    /// Sectors of a torn write: a beginning, an end, all but one, or any.
    fn torn_sectors(&mut self) -> u128 {
        let at = self.random.below(64);
        match self.random.below(4) {
            0 => (1 << at) - 1,
            1 => u128::MAX << at,
            2 => !(1 << (at % 8)),
            _ => u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64()),
        }
    }

    /// A write that went to the place of another one.
    fn misdirected(&mut self, io: usize, unflushed: &[usize]) -> Option<CrashState> {
        let all = vec![true; unflushed.len()];
        let mut state = self.subset(unflushed, &all, false);
        let at = self.random.below(state.layers.len().max(1) as u64) as usize;
        let place = &self.run.log[self.random.below(self.run.log.len() as u64) as usize];
        let LoggedIo::Write { offset, .. } = place else { return None };
        if at >= state.layers.len() {
            return None;
        }
        let layer = state.layers.remove(at);
        let room = self.base.len() as u64 - layer.size() as u64;
        state.how = format!("a write for byte {} went to {offset}", layer.offset());
        let moved = layer.moved((*offset).min(room));
        let mut damaged = self.damager.owners_of(moved.offset(), moved.size());
        // It is not where it could show anything.
        damaged.insert(unflushed[at] + 1);
        state.layers.push(moved);
        state.damaged_promise = Some(self.damager.promised(io, *self.run.marks.get(io)?, &damaged));
        Some(state)
    }

    /// Tries faults of what the device has behind an IO: single ones and pairs.
    fn try_damage(&mut self, place: (usize, Mark), unflushed: &[usize], singles: usize, pairs: usize) {
        let all = vec![true; unflushed.len()];
        let layers = self.subset(unflushed, &all, false).layers;
        for count in std::iter::repeat_n(1, singles).chain(std::iter::repeat_n(2, pairs)) {
            if self.is_done() {
                return;
            }
            let faults = self.damager.random_faults(place.0, count, &mut self.random);
            self.try_faults(place, &layers, &faults);
        }
    }

    /// Tries these faults of what the device has behind an IO.
    fn try_faults(&mut self, (io, mark): (usize, Mark), unflushed: &[Layer], faults: &[(Range<u64>, Fault)]) {
        let damage = self.damager.apply((io, mark), unflushed, &self.base, faults);
        if let Some(Damage { layers, promised, how }) = damage {
            let layers = unflushed.iter().cloned().chain(layers).collect();
            self.try_state(io, mark, CrashState { layers, damaged_promise: Some(promised), how });
        }
    }

    fn try_state(&mut self, io: usize, mark: Mark, state: CrashState) {
        self.report.states += 1;
        self.report.damaged += u64::from(state.damaged_promise.is_some());
        if let Err(what) = self.check(&state, mark) {
            let CrashState { how, .. } = state;
            let seed = Seed(self.run.seed.0);
            self.report.violations.push(CrashViolation { seed, io, state: how, what });
        }
    }

    fn check(&mut self, state: &CrashState, mark: Mark) -> Result<(), String> {
        let run = self.run;
        let is_damaged = state.damaged_promise.is_some();
        let low = state.damaged_promise.unwrap_or(mark.flushed);
        let media = CrashMedia::new(Arc::clone(&self.base), state.layers.clone());
        if let Some(files) = &run.files {
            let expected = ((low, mark.issued), is_damaged);
            let mount = |media| run.mount(media, self.bug);
            let found = files.check(mark.history, media, expected, &mut self.random, mount)?;
            self.report.refused += u64::from(found.is_none());
            self.report.states += found.unwrap_or(0);
            return Ok(());
        }
        let history = &run.histories[mark.history];
        let mut volume = match run.mount(media, self.bug) {
            Ok(volume) => volume,
            Err(_) if is_damaged => {
                self.report.refused += 1;
                return Ok(());
            }
            Err(error) => return Err(format!("it is not mounted: {error}")),
        };
        let pages = read_pages(&mut volume);
        let found = history.check(&pages, (low, mark.issued), is_damaged)?;
        if is_damaged {
            return Ok(());
        }
        match self.random.below(TWICE) {
            0 => self.check_twice(volume, &pages),
            1 => self.check_crash_while_recovering(&state.layers, volume, history, (low, mark.issued)),
            2 => self.check_use(volume, history, found),
            3 | 4 => self.check_errors(&state.layers, history, (low, mark.issued)),
            _ => Ok(()),
        }
    }

    /// Recovering a second time gives the same.
    fn check_twice(
        &mut self,
        volume: crate::volume::Volume<CrashMedia>,
        pages: &[Result<Vec<u8>, String>],
    ) -> Result<(), String> {
        self.report.states += 1;
        let second = self.run.mount(volume.abandon(), self.bug);
        let mut second = second.map_err(|error| format!("it is not mounted a second time: {error}"))?;
        match read_pages(&mut second) == pages {
            true => Ok(()),
            false => Err("recovering a second time gives another state".to_owned()),
        }
    }

    /// The power fails while the volume recovers.
    fn check_crash_while_recovering(
        &mut self,
        layers: &[Layer],
        volume: crate::volume::Volume<CrashMedia>,
        history: &History,
        range: (usize, usize),
    ) -> Result<(), String> {
        self.report.states += 1;
        let log = volume.abandon().log;
        let end = self.random.below(log.len() as u64 + 1) as usize;
        let flushed = log[..end].iter().rposition(|io| matches!(io, LoggedIo::Flush)).unwrap_or(0);
        let mut layers = layers.to_vec();
        for (at, io) in log[..end].iter().enumerate() {
            let sectors = match self.random.below(3) {
                _ if at < flushed => u128::MAX,
                0 => 0,
                1 => u128::MAX,
                _ => self.torn_sectors(),
            };
            layers.extend(Layer::of(io, sectors));
        }
        let media = CrashMedia::new(Arc::clone(&self.base), layers);
        let mut volume = self
            .run
            .mount(media, self.bug)
            .map_err(|error| format!("after a crash at IO {end} of recovering it is not mounted: {error}"))?;
        let pages = read_pages(&mut volume);
        let checked = history.check(&pages, range, false);
        checked.map(drop).map_err(|what| format!("after a crash at IO {end} of recovering: {what}"))
    }

    /// A read, write or flush fails while the volume recovers, or soon after it. What can be read is right, and without the fault
    /// everything is.
    fn check_errors(
        &mut self,
        layers: &[Layer],
        history: &History,
        range: (usize, usize),
    ) -> Result<(), String> {
        self.report.states += 1;
        let mut media = CrashMedia::new(Arc::clone(&self.base), layers.to_vec());
        match self.random.below(2) {
            0 => media.fail_read_after(Some(self.random.below(60))),
            _ => media.fail_after(self.random.below(10)),
        }
        if let Ok(mut volume) = self.run.mount(&mut media, self.bug) {
            let pages = read_pages(&mut volume);
            let what = |what| format!("while an IO fails: {what}");
            history.check(&pages, range, true).map_err(what)?;
        }
        media.heal();
        let mut volume = self
            .run
            .mount(&mut media, self.bug)
            .map_err(|error| format!("after an error it is not mounted: {error}"))?;
        let pages = read_pages(&mut volume);
        history.check(&pages, range, false).map(drop).map_err(|what| format!("after an error: {what}"))
    }

    /// What is written and flushed after recovery survives the next power failure, which loses what was not flushed.
    fn check_use(
        &mut self,
        mut volume: crate::volume::Volume<CrashMedia>,
        history: &History,
        found: usize,
    ) -> Result<(), String> {
        self.report.states += 1;
        let mut history = history.clone();
        history.truncate(found);
        let pages = volume.layout().options.logical_pages;
        let mut flushed = found;
        for version in 0..1 + self.random.below(12) {
            let page = self.random.below(pages);
            let content: Arc<[u8]> = vec![0xa0 + version as u8; PAGE].into();
            history.push(page, Some(Arc::clone(&content)));
            volume.write(page * PAGE as u64, &content).map_err(|error| format!("after recovery: {error}"))?;
            if self.random.below(3) == 0 {
                volume.flush().map_err(|error| format!("after recovery: {error}"))?;
                flushed = history.len();
            }
        }
        let mut volume = self
            .run
            .mount(volume.abandon(), self.bug)
            .map_err(|error| format!("after recovery and writes it is not mounted: {error}"))?;
        let pages = read_pages(&mut volume);
        let checked = history.check(&pages, (flushed, history.len()), false);
        checked.map(drop).map_err(|what| format!("after recovery and writes: {what}"))
    }
}
