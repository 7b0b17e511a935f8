//! How long the operations of an array take: dies and channels that are busy until a time.
//!
//! # Model
//! An operation begins when the layer asked for it and its die is free. A transfer also needs the channel. A multi-plane
//! page is one page of each plane, and a die reads and programs it at once. Times follow El Maghraoui et al., equations 1
//! to 3:
//! - one multi-plane page takes command + array + transfer;
//! - in cache mode the array works on one multi-plane page while the next one is transferred. So p of them take
//!   command + array + p move + (p - 1) max(transfer, array) + transfer.
//!
//! A layer may defer work ([`Flash::defer`](super::Flash::defer)). What the flash holds changes at once, and the time goes to the die's
//! backlog. The die works on its backlog
//! 1. while it is idle;
//! 2. in slices, before each operation, except for those that rewrite the map after a collection ([`Timing::set_urgent`]);
//! 3. in the foreground, when the backlog has more merges than the array has spare blocks for.
//!
//! Collections may give way to reads ([`CollectionPauses`]), and so may all work of a die ([`Times::read_interrupts`]).

use std::collections::VecDeque;

use flashlab_base::Nanos;

use super::collection_pauses::CollectionPauses;
use super::{Die, EraseBlock, FlashGeometry};

/// A run of consecutive pages of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The die it lies on.
    pub die: Die,
    /// Its block.
    pub block: EraseBlock,
    /// The first page in its block.
    pub first: u32,
    /// How many pages.
    pub pages: u32,
    /// Whether it lies in the SLC cache.
    pub slc: bool,
}

/// Says how long operations take.
pub trait Timing {
    /// Reads a run, not before `at`; returns when its data has left the channel.
    fn read(&mut self, run: PageRun, at: Nanos) -> Nanos;

    /// Programs a run, not before `at`; returns when it is programmed. `scale` is the share of the usual program
    /// time that its content takes.
    fn program(&mut self, run: PageRun, scale: f32, at: Nanos) -> Nanos;

    /// Reads the pages of `source`, and programs them as `target`, which has the same number of pages.
    fn relocate(&mut self, source: PageRun, target: PageRun, scale: f32, at: Nanos) -> Nanos;

    /// Erases a block of a die; `slc` as in [`PageRun`].
    fn erase(&mut self, die: Die, slc: bool, at: Nanos) -> Nanos;

    /// From now on operations come before their dies' backlogs and take no slices of them, or do so no more.
    fn set_urgent(&mut self, urgent: bool);

    /// Whether a die may have a backlog.
    fn allows_backlog(&self) -> bool;

    /// Begins deferred work on `die`. Until [`Timing::end_deferral`] the die gets no other work.
    fn begin_deferral(&mut self, die: Die) -> Deferral;

    /// Adds what `die` did since [`Timing::begin_deferral`] to its backlog.
    fn end_deferral(&mut self, die: Die, deferral: Deferral);

    /// No die works on its backlog from `from` to `until`.
    fn sleep(&mut self, from: Nanos, until: Nanos);
}

/// Until when a die and its channel were busy before deferred work began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deferral {
    die: Nanos,
    channel: Nanos,
}

/// Nothing takes time: for bringing a device into a state at speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untimed;

impl Timing for Untimed {
    #[inline]
    fn read(&mut self, _: PageRun, at: Nanos) -> Nanos {
        at
    }
    #[inline]
    fn program(&mut self, _: PageRun, _: f32, at: Nanos) -> Nanos {
        at
    }
    #[inline]
    fn relocate(&mut self, _: PageRun, _: PageRun, _: f32, at: Nanos) -> Nanos {
        at
    }
    #[inline]
    fn erase(&mut self, _: Die, _: bool, at: Nanos) -> Nanos {
        at
    }
    #[inline]
    fn set_urgent(&mut self, _: bool) {}
    #[inline]
    fn allows_backlog(&self) -> bool {
        false
    }
    #[inline]
    fn begin_deferral(&mut self, _: Die) -> Deferral {
        Deferral::default()
    }
    #[inline]
    fn end_deferral(&mut self, _: Die, _: Deferral) {}
    #[inline]
    fn sleep(&mut self, _: Nanos, _: Nanos) {}
}

/// The times of the multi-plane pages of a block. They repeat after up to four of them, because cells of several bits
/// have fast and slow pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTimes {
    times: [Nanos; 4],
    count: u32,
}

impl Default for PageTimes {
    /// No time.
    fn default() -> PageTimes {
        PageTimes::new(&[])
    }
}

impl PageTimes {
    /// `times` repeated for ever; the first four count. An empty list takes no time.
    pub fn new(times: &[Nanos]) -> PageTimes {
        let mut all = [Nanos::ZERO; 4];
        let count = times.len().clamp(1, 4);
        all[..times.len().min(4)].copy_from_slice(&times[..times.len().min(4)]);
        PageTimes { times: all, count: count as u32 }
    }

    /// The time of `count` multi-plane pages from the one with the number `first` on.
    #[inline]
    pub fn sum(&self, first: u32, count: u32) -> Nanos {
        if self.count == 1 {
            return self.times[0] * u64::from(count);
        }
        let cycle: u64 = self.times[..self.count as usize].iter().map(|time| time.0).sum();
        let remainder = count % self.count;
        let tail: u64 = (0..remainder).map(|i| self.times[((first + i) % self.count) as usize].0).sum();
        Nanos(cycle * u64::from(count / self.count) + tail)
    }

    /// The mean time of a multi-plane page.
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum(0, self.count).0 / u64::from(self.count))
    }
}

/// The times of one kind of cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellTimes {
    /// From the array into the register, by multi-plane page.
    pub read: PageTimes,
    /// From the register into the array, by multi-plane page.
    pub program: PageTimes,
    /// A block.
    pub erase: Nanos,
}

/// The times of the operations of an array. By default nothing takes time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// T_cmd: issuing a command to a die.
    pub command: Nanos,
    /// T_trsfr: a page over the channel.
    pub transfer: Nanos,
    /// T_move: between the data and the cache register.
    pub register_move: Nanos,
    /// Whether consecutive multi-plane pages go in cache mode.
    pub cache_mode: bool,
    /// Whether a die programs a multi-plane page only when its last page has come, in one run or in several.
    pub gathers_multi_plane_pages: bool,
    /// Whether a die's register keeps the multi-plane page that it read last, until the die's next operation.
    pub reuses_page_register: bool,
    /// Whether pages can be copied within a die without passing the channel.
    pub copy_back: bool,
    /// The controller's time for each page that is copied, while the die waits.
    pub copy: Nanos,
    /// How long collections pause after a read. `None`: a read waits while its die collects.
    pub collection_pause: Option<Nanos>,
    /// The longest step of a die's work that a read waits for (program suspend). `None`: a read waits for all work before it.
    pub read_interrupts: Option<Nanos>,
    /// The cells.
    pub cells: CellTimes,
    /// The cells of the SLC cache.
    pub slc_cells: CellTimes,
}

/// How much work a die may defer, and when it does that work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// The idle time after which a die begins to work on its backlog.
    pub idle_after: Nanos,
    /// The part of the backlog that a die does before each read of the host.
    pub read_slice: Nanos,
    /// The part that it does before each other operation.
    pub slice: Nanos,
    /// The most merges in a backlog. A die does further ones in the foreground.
    pub max_backlog: usize,
}

#[derive(Clone, Debug, Default)]
struct DieState {
    free: Nanos,
    /// Since when it works without a break.
    busy_from: Nanos,
    /// When the last read that interrupted it has left the array.
    interrupted_until: Nanos,
    /// The block and the number of the multi-plane page that its register has since it was read.
    in_register: Option<(EraseBlock, u32)>,
    /// From when on the register can take the next page in cache mode.
    register_free: Nanos,
    worked: Nanos,
    /// The times of its deferred work, the oldest first.
    backlog: VecDeque<Nanos>,
    pauses: CollectionPauses,
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    free: Nanos,
    worked: Nanos,
}

/// Dies and channels, each busy until a time.
#[derive(Clone, Debug)]
pub struct Resources {
    times: Times,
    background: Option<Background>,
    /// Whether the operations that come now are deferred work.
    defers: bool,
    /// Whether the operations that come now take no slices of backlogs.
    urgent: bool,
    /// When deferred work began, and how long its die had worked before.
    deferred_from: Option<(Nanos, Nanos)>,
    planes: u32,
    dies: Vec<DieState>,
    channels: Vec<Channel>,
    /// The channel of each die.
    attached: Vec<u32>,
}

impl Resources {
    /// The idle resources of an array.
    pub fn new(geometry: &FlashGeometry, times: Times, background: Option<Background>) -> Resources {
        Resources {
            times,
            background,
            defers: false,
            urgent: false,
            deferred_from: None,
            planes: geometry.planes(),
            dies: vec![DieState::default(); geometry.dies() as usize],
            channels: vec![Channel::default(); geometry.channels() as usize],
            attached: (0..geometry.dies()).map(|die| geometry.channel(Die(die))).collect(),
        }
    }

    /// How long each die has worked.
    pub fn dies_worked(&self) -> impl Iterator<Item = Nanos> {
        self.dies.iter().map(|die| die.worked)
    }

    /// How long each channel has worked.
    pub fn channels_worked(&self) -> impl Iterator<Item = Nanos> {
        self.channels.iter().map(|channel| channel.worked)
    }

    /// When all dies have done their operations, without their backlogs.
    pub fn all_free(&self) -> Nanos {
        self.dies.iter().map(|die| die.free).max().unwrap_or_default()
    }

    /// How long a die has still to work on its backlog.
    pub fn backlog(&self, die: Die) -> Nanos {
        self.dies[die.index()].backlog.iter().copied().sum()
    }

    fn cells(&self, slc: bool) -> &CellTimes {
        if slc { &self.times.slc_cells } else { &self.times.cells }
    }

    /// The first multi-plane page of a run, and how many the run lies in.
    #[inline]
    fn multi_plane_pages(&self, run: PageRun) -> (u32, u32) {
        if self.planes == 1 {
            return (run.first, run.pages);
        }
        let first = run.first / self.planes;
        (first, (run.first + run.pages).div_ceil(self.planes) - first)
    }

    /// When `die` can begin an operation that comes at `at`. It first works on its backlog.
    #[inline]
    fn begin(&mut self, die: Die, reads: bool, at: Nanos) -> Nanos {
        let state = &mut self.dies[die.index()];
        let Some(background) = &self.background else { return at.max(state.free) };
        if self.defers {
            // Work that is deferred now cannot be done in the idle time before the layer asked for it.
            if self.deferred_from.is_none() {
                state.idle_until(at, background);
                self.deferred_from = Some((at, state.worked));
            }
            return at.max(state.free);
        }
        if state.backlog.is_empty() || state.idle_until(at, background) || self.urgent {
            return at.max(state.free);
        }
        let slice = state.work_off(if reads { background.read_slice } else { background.slice });
        state.free = at.max(state.free) + slice;
        state.free
    }

    #[inline]
    fn read_in_order(&mut self, run: PageRun, at: Nanos) -> Nanos {
        let (first, count) = self.multi_plane_pages(run);
        let times = self.times;
        let array = self.cells(run.slc).read;
        let transfer = times.transfer * u64::from(run.pages);
        let start = self.begin(run.die, true, at);
        let state = &mut self.dies[run.die.index()];
        let is_in_register = times.reuses_page_register && state.in_register == Some((run.block, first));
        let sense = if is_in_register { Nanos::ZERO } else { array.sum(first, 1) };
        let sensed = start + times.command + sense;
        let leaves = sensed.max(self.channel_free(run.die));
        let others = array.sum(first + 1, count - 1);
        let end = if times.cache_mode && count > 1 {
            let one = transfer.0 / u64::from(count);
            leaves + times.register_move * u64::from(count) + Nanos(others.0.max(transfer.0 - one) + one)
        } else {
            leaves + others + transfer
        };
        self.occupy_channel(run.die, leaves, transfer);
        self.occupy_die(run.die, start, end);
        self.dies[run.die.index()].in_register = Some((run.block, first + count - 1));
        end
    }

    /// A read that does not wait while its die collects. Collections pause after it.
    fn read_before_collections(&mut self, run: PageRun, pause: Nanos, at: Nanos) -> Nanos {
        let end = if self.dies[run.die.index()].pauses.is_collecting(at) {
            let (first, count) = self.multi_plane_pages(run);
            let array = self.cells(run.slc).read.sum(first, count);
            let transfer = self.times.transfer * u64::from(run.pages);
            let length = self.times.command + array + transfer;
            self.channels[self.attached[run.die.index()] as usize].worked += transfer;
            let state = &mut self.dies[run.die.index()];
            let start = state.pauses.pass(at, length);
            state.free += length;
            state.worked += length;
            start + length
        } else {
            self.read_in_order(run, at)
        };
        for die in &mut self.dies {
            die.free += die.pauses.pause(at, pause);
        }
        end
    }

    /// A read that interrupts its die's work: it waits until the current step ends, and what is left of the work takes place behind it.
    /// The answers to writes that wait for that work are known already, and do not move.
    fn read_between_steps(&mut self, run: PageRun, step: Nanos, at: Nanos) -> Nanos {
        let state = &self.dies[run.die.index()];
        if at >= state.free || self.defers {
            return self.read_in_order(run, at);
        }
        let left = Nanos(step.0 - at.since(state.busy_from).0 % step.0).min(state.free.since(at));
        let start = (at + left).max(state.interrupted_until);
        let (first, count) = self.multi_plane_pages(run);
        let sensed = self.times.command + self.cells(run.slc).read.sum(first, count);
        let transfer = self.times.transfer * u64::from(run.pages);
        self.channels[self.attached[run.die.index()] as usize].worked += transfer;
        let length = sensed + transfer;
        let state = &mut self.dies[run.die.index()];
        state.interrupted_until = start + sensed;
        state.free += length;
        state.worked += length;
        start + length
    }

    /// Notes that a die copied pages. What is deferred gives way anyway.
    #[inline]
    fn note_collection(&mut self, die: Die, from: Nanos, until: Nanos) {
        if self.times.collection_pause.is_some() && !self.defers {
            self.dies[die.index()].pauses.collect(from, until);
        }
    }

    #[inline]
    fn occupy_channel(&mut self, die: Die, from: Nanos, time: Nanos) {
        let channel = &mut self.channels[self.attached[die.index()] as usize];
        channel.free = from + time;
        channel.worked += time;
    }

    /// When the controller has handled a copied run, which the die has programmed at `end`.
    #[inline]
    fn handle_copied(&mut self, target: PageRun, end: Nanos) -> Nanos {
        if self.times.copy == Nanos::ZERO {
            return end;
        }
        let handled = end + self.times.copy * u64::from(target.pages);
        self.occupy_die(target.die, end, handled);
        handled
    }

    #[inline]
    fn channel_free(&self, die: Die) -> Nanos {
        self.channels[self.attached[die.index()] as usize].free
    }

    #[inline]
    fn occupy_die(&mut self, die: Die, from: Nanos, until: Nanos) {
        let state = &mut self.dies[die.index()];
        if from > state.free {
            state.busy_from = from;
        }
        state.free = until;
        state.in_register = None;
        state.worked += until.since(from);
    }
}

impl DieState {
    /// Works on the backlog in the idle time before `at`. Returns whether all of it is done.
    fn idle_until(&mut self, at: Nanos, background: &Background) -> bool {
        let idle = at.since(self.free).since(background.idle_after);
        self.work_off(idle);
        self.backlog.is_empty()
    }

    /// Does up to `time` of the backlog; returns how much that was.
    fn work_off(&mut self, time: Nanos) -> Nanos {
        let mut left = time;
        while let Some(oldest) = self.backlog.front_mut() {
            let done = left.min(*oldest);
            *oldest = *oldest - done;
            left = left - done;
            if oldest.0 > 0 {
                break;
            }
            self.backlog.pop_front();
        }
        let done = time - left;
        self.worked += done;
        done
    }
}

impl Timing for Resources {
    #[inline]
    fn read(&mut self, run: PageRun, at: Nanos) -> Nanos {
        match (self.times.read_interrupts, self.times.collection_pause) {
            (Some(step), _) => self.read_between_steps(run, step, at),
            (None, Some(pause)) => self.read_before_collections(run, pause, at),
            (None, None) => self.read_in_order(run, at),
        }
    }

    #[inline]
    fn program(&mut self, run: PageRun, scale: f32, at: Nanos) -> Nanos {
        let (first, count) = self.multi_plane_pages(run);
        let times = self.times;
        let array = self.cells(run.slc).program;
        let transfer = times.transfer * u64::from(run.pages);
        // The last multi-plane page may lack pages: its pages take their transfer, and wait in the register.
        let complete = if times.gathers_multi_plane_pages {
            (run.first + run.pages) / self.planes - first
        } else {
            count
        };
        let mut work = array.sum(first, complete);
        let mut last = array.sum(first + complete.saturating_sub(1), complete.min(1));
        if scale != 1.0 {
            (work, last) = (scaled(work, scale), scaled(last, scale));
        }
        if !times.cache_mode {
            let start = self.begin(run.die, false, at).max(self.channel_free(run.die));
            let end = start + times.command + transfer + work;
            self.occupy_channel(run.die, start + times.command, transfer);
            self.occupy_die(run.die, start, end);
            return end;
        }
        // The register takes the next page while the array still programs the last one.
        let free = self.begin(run.die, false, at);
        let register_free = self.dies[run.die.index()].register_free;
        let start = at.max(register_free).max(self.channel_free(run.die));
        let one = transfer.0 / u64::from(count);
        let loaded = start + times.command + Nanos(one) + times.register_move;
        let programs = loaded.max(free);
        let moves = times.register_move * u64::from(count - 1);
        let end = programs + moves + Nanos((transfer.0 - one).max(work.0 - last.0)) + last;
        self.occupy_channel(run.die, start + times.command, transfer);
        self.occupy_die(run.die, free.max(start), end);
        self.dies[run.die.index()].register_free = end - last;
        end
    }

    #[inline]
    fn relocate(&mut self, source: PageRun, target: PageRun, scale: f32, at: Nanos) -> Nanos {
        if source.die != target.die || !self.times.copy_back || source.slc != target.slc {
            let from = at.max(self.dies[target.die.index()].free);
            let read = self.read_in_order(source, at);
            let end = self.program(target, scale, read);
            let end = self.handle_copied(target, end);
            self.note_collection(target.die, from, end);
            return end;
        }
        let times = self.times;
        let (first, count) = self.multi_plane_pages(target);
        let cells = self.cells(target.slc);
        let (reads, mut programs) = (cells.read.sum(0, count), cells.program.sum(first, count));
        if scale != 1.0 {
            programs = scaled(programs, scale);
        }
        let start = self.begin(target.die, false, at);
        let end = start + times.command * u64::from(count) + reads + programs;
        self.occupy_die(target.die, start, end);
        let end = self.handle_copied(target, end);
        self.note_collection(target.die, start, end);
        end
    }

    #[inline]
    fn erase(&mut self, die: Die, slc: bool, at: Nanos) -> Nanos {
        let time = self.times.command + self.cells(slc).erase;
        let start = self.begin(die, false, at);
        self.occupy_die(die, start, start + time);
        start + time
    }

    fn set_urgent(&mut self, urgent: bool) {
        self.urgent = urgent;
    }

    fn allows_backlog(&self) -> bool {
        self.background.is_some_and(|background| background.max_backlog > 0)
    }

    fn begin_deferral(&mut self, die: Die) -> Deferral {
        self.defers = self.background.is_some();
        let before = Deferral { die: self.dies[die.index()].free, channel: self.channel_free(die) };
        if self.defers {
            // The die will do this work while it is idle. It must not wait for transfers of other dies here, because the
            // wait would count as work.
            self.channels[self.attached[die.index()] as usize].free = Nanos::ZERO;
        }
        before
    }

    fn end_deferral(&mut self, die: Die, before: Deferral) {
        let Some(background) = self.background else { return };
        self.defers = false;
        let channel = self.attached[die.index()] as usize;
        self.channels[channel].free = before.channel;
        let state = &mut self.dies[die.index()];
        let Some((from, worked)) = self.deferred_from.take() else { return };
        // Not the time since `before`: the die may have been idle until the work came.
        let work = state.worked - worked;
        state.worked = worked;
        state.free = before.die.max(from);
        state.register_free = state.register_free.min(state.free);
        state.backlog.push_back(work);
        while state.backlog.len() > background.max_backlog {
            let oldest = state.backlog[0];
            let done = state.work_off(oldest);
            state.free += done;
        }
    }

    fn sleep(&mut self, from: Nanos, until: Nanos) {
        for die in &mut self.dies {
            if let Some(background) = &self.background {
                die.idle_until(from, background);
            }
            die.free = die.free.max(until);
        }
    }
}

#[inline]
fn scaled(time: Nanos, scale: f32) -> Nanos {
    Nanos((time.0 as f64 * f64::from(scale)) as u64)
}
