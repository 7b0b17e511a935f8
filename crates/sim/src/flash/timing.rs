//! How long the operations of an array take: dies and channels that are busy until a time.
//!
//! # Model
//! An operation begins when it was asked for, its die is free and, for a transfer, its channel. Reads and programs
//! of consecutive pages go row by row, a row being one page of each plane (multi-plane operation). Times follow
//! El Maghraoui et al., equations 1 to 3: one row takes command + array + transfer; in cache mode the array
//! works on a row while the one before or after is transferred, so that p rows take
//! command + array + p move + (p - 1) max(transfer, array) + transfer.
//!
//! Work may be deferred ([`Flash::defer`](super::Flash::defer)): the books are kept at once, the time is owed. It is worked off while
//! the die rests, in slices before each operation of the host, and in the foreground when more is owed than the
//! array has spare blocks for.

use std::collections::VecDeque;

use flashlab_base::Nanos;

use super::FlashGeometry;

/// A run of consecutive pages of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The die it lies on.
    pub die: u32,
    /// Its block.
    pub block: u32,
    /// The first page in its block.
    pub first: u32,
    /// How many pages.
    pub pages: u32,
    /// Whether it lies in the slc region.
    pub slc: bool,
}

/// Says how long operations take.
pub trait Timing {
    /// Reads a run, not before `at`; returns when its data has left the channel.
    fn read(&mut self, run: PageRun, at: Nanos) -> Nanos;

    /// Programs a run, not before `at`; returns when it is programmed. `scale` is the share of the usual program
    /// time that its content takes.
    fn program(&mut self, run: PageRun, scale: f32, at: Nanos) -> Nanos;

    /// Reads as many pages of the die `source` as the run has, and programs them as the run.
    fn relocate(&mut self, source: PageRun, target: PageRun, scale: f32, at: Nanos) -> Nanos;

    /// Erases a block of a die; `fast` as in [`PageRun`].
    fn erase(&mut self, die: u32, slc: bool, at: Nanos) -> Nanos;

    /// Begins deferred work on `die`. Until [`Timing::end_deferral`] the die gets no other work.
    fn begin_deferral(&mut self, die: u32) -> Deferral;

    /// Adds what `die` did since [`Timing::begin_deferral`] to its backlog.
    fn end_deferral(&mut self, die: u32, deferral: Deferral);

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
    fn erase(&mut self, _: u32, _: bool, at: Nanos) -> Nanos {
        at
    }
    #[inline]
    fn begin_deferral(&mut self, _: u32) -> Deferral {
        Deferral::default()
    }
    #[inline]
    fn end_deferral(&mut self, _: u32, _: Deferral) {}
    #[inline]
    fn sleep(&mut self, _: Nanos, _: Nanos) {}
}

/// The time of one row after the other in a block, which repeats after up to four rows: cells of several
/// bits have slc and slow pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTimes {
    times: [Nanos; 4],
    count: u32,
}

impl PageTimes {
    /// `times` repeated for ever; the first four count. An empty list takes no time.
    pub fn new(times: &[Nanos]) -> PageTimes {
        let mut all = [Nanos::ZERO; 4];
        let count = times.len().clamp(1, 4);
        all[..times.len().min(4)].copy_from_slice(&times[..times.len().min(4)]);
        PageTimes { times: all, count: count as u32 }
    }

    /// The time of `rows` rows from row `first` on.
    #[inline]
    pub fn sum(&self, first: u32, rows: u32) -> Nanos {
        if self.count == 1 {
            return self.times[0] * u64::from(rows);
        }
        let cycle: u64 = self.times[..self.count as usize].iter().map(|time| time.0).sum();
        let rest = rows % self.count;
        let tail: u64 = (0..rest).map(|i| self.times[((first + i) % self.count) as usize].0).sum();
        Nanos(cycle * u64::from(rows / self.count) + tail)
    }

    /// The mean time of a row.
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum(0, self.count).0 / u64::from(self.count))
    }
}

/// The times of one kind of cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellTimes {
    /// From the array into the register, by row.
    pub read: PageTimes,
    /// From the register into the array, by row.
    pub program: PageTimes,
    /// A block.
    pub erase: Nanos,
}

/// What the operations of an array take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// T_cmd: issuing a command to a die.
    pub command: Nanos,
    /// T_trsfr: a page over the channel.
    pub transfer: Nanos,
    /// T_move: between the data and the cache register.
    pub register_move: Nanos,
    /// Whether consecutive rows go in cache mode.
    pub cache_mode: bool,
    /// Whether a row is programmed only when its last page has come, however the pages came.
    pub gathers_multi_plane_pages: bool,
    /// Whether a die still has the row that it read last, while it does nothing else.
    pub reuses_page_register: bool,
    /// Whether pages can be copied within a die without passing the channel.
    pub copy_back: bool,
    /// What the controller takes for each page that is copied, while the die waits.
    pub copy: Nanos,
    /// The cells.
    pub cells: CellTimes,
    /// The cells of the slc region.
    pub slc_cells: CellTimes,
}

/// Work that may wait, and when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// How long a die rests before it begins.
    pub idle_after: Nanos,
    /// What is done of it before each read of the host.
    pub read_slice: Nanos,
    /// What is done of it before each other operation.
    pub slice: Nanos,
    /// How many pieces of work a die may owe; what is more is done in the foreground.
    pub max_backlog: usize,
}

#[derive(Clone, Debug, Default)]
struct Die {
    free: Nanos,
    /// The block and row that its register holds since it was read.
    row: Option<(u32, u32)>,
    /// From when on the register can take the next page in cache mode.
    register_free: Nanos,
    worked: Nanos,
    owed: VecDeque<Nanos>,
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
    /// Whether what is done now may wait.
    set_aside: bool,
    /// When it was asked for, and how long its die had worked before.
    asked: Option<(Nanos, Nanos)>,
    planes: u32,
    dies: Vec<Die>,
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
            set_aside: false,
            asked: None,
            planes: geometry.planes(),
            dies: vec![Die::default(); geometry.dies() as usize],
            channels: vec![Channel::default(); geometry.channels() as usize],
            attached: (0..geometry.dies()).map(|die| geometry.channel(die)).collect(),
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

    /// When everything is done that was asked for, but for what is owed.
    pub fn all_free(&self) -> Nanos {
        self.dies.iter().map(|die| die.free).max().unwrap_or_default()
    }

    /// How long a die has yet to work on what was put off.
    pub fn owed(&self, die: u32) -> Nanos {
        Nanos(self.dies[die as usize].owed.iter().map(|time| time.0).sum())
    }

    fn cells(&self, slc: bool) -> &CellTimes {
        if slc { &self.times.slc_cells } else { &self.times.cells }
    }

    /// The first row of a run, and how many rows it touches.
    #[inline]
    fn rows(&self, run: PageRun) -> (u32, u32) {
        if self.planes == 1 {
            return (run.first, run.pages);
        }
        let first = run.first / self.planes;
        (first, (run.first + run.pages).div_ceil(self.planes) - first)
    }

    /// When `die` can begin an operation that was asked for at `at`.
    #[inline]
    fn begin(&mut self, die: u32, reads: bool, at: Nanos) -> Nanos {
        let state = &mut self.dies[die as usize];
        let Some(background) = &self.background else { return at.max(state.free) };
        if self.set_aside {
            // What is put off now cannot be done in the rest before it was asked for.
            if self.asked.is_none() {
                state.rest_until(at, background);
                self.asked = Some((at, state.worked));
            }
            return at.max(state.free);
        }
        if state.owed.is_empty() || state.rest_until(at, background) {
            return at.max(state.free);
        }
        let slice = state.work_off(if reads { background.read_slice } else { background.slice });
        state.free = at.max(state.free) + slice;
        state.free
    }

    #[inline]
    fn occupy_channel(&mut self, die: u32, from: Nanos, time: Nanos) {
        let channel = &mut self.channels[self.attached[die as usize] as usize];
        channel.free = from + time;
        channel.worked += time;
    }

    /// The controller's part in copying a run, which is programmed at `end`.
    #[inline]
    fn check_copied(&mut self, target: PageRun, end: Nanos) -> Nanos {
        if self.times.copy == Nanos::ZERO {
            return end;
        }
        let checked = end + self.times.copy * u64::from(target.pages);
        self.occupy_die(target.die, end, checked);
        checked
    }

    #[inline]
    fn channel_free(&self, die: u32) -> Nanos {
        self.channels[self.attached[die as usize] as usize].free
    }

    #[inline]
    fn occupy_die(&mut self, die: u32, from: Nanos, until: Nanos) {
        let state = &mut self.dies[die as usize];
        state.free = until;
        state.row = None;
        state.worked += until.since(from);
    }
}

impl Die {
    /// Works on what is owed while it rests before `at`. Returns whether all is done.
    fn rest_until(&mut self, at: Nanos, background: &Background) -> bool {
        let rested = at.since(self.free).since(background.idle_after);
        self.work_off(rested);
        self.owed.is_empty()
    }

    /// Does up to `time` of what is owed; returns how much that was.
    fn work_off(&mut self, time: Nanos) -> Nanos {
        let mut left = time;
        while let Some(piece) = self.owed.front_mut() {
            let done = left.min(*piece);
            *piece = *piece - done;
            left = left - done;
            if piece.0 > 0 {
                break;
            }
            self.owed.pop_front();
        }
        let done = time - left;
        self.worked += done;
        done
    }
}

impl Timing for Resources {
    #[inline]
    fn read(&mut self, run: PageRun, at: Nanos) -> Nanos {
        let (first, rows) = self.rows(run);
        let times = self.times;
        let array = self.cells(run.slc).read;
        let transfer = times.transfer * u64::from(run.pages);
        let start = self.begin(run.die, true, at);
        let state = &mut self.dies[run.die as usize];
        let kept = times.reuses_page_register && state.row == Some((run.block, first));
        let sense = if kept { Nanos::ZERO } else { array.sum(first, 1) };
        let sensed = start + times.command + sense;
        let leaves = sensed.max(self.channel_free(run.die));
        let rest = array.sum(first + 1, rows - 1);
        let end = if times.cache_mode && rows > 1 {
            let row = transfer.0 / u64::from(rows);
            leaves + times.register_move * u64::from(rows) + Nanos(rest.0.max(transfer.0 - row) + row)
        } else {
            leaves + rest + transfer
        };
        self.occupy_channel(run.die, leaves, transfer);
        self.occupy_die(run.die, start, end);
        self.dies[run.die as usize].row = Some((run.block, first + rows - 1));
        end
    }

    #[inline]
    fn program(&mut self, run: PageRun, scale: f32, at: Nanos) -> Nanos {
        let (first, rows) = self.rows(run);
        let times = self.times;
        let array = self.cells(run.slc).program;
        let transfer = times.transfer * u64::from(run.pages);
        // Of a row that waits in the register only the transfer takes time.
        let complete = if times.gathers_multi_plane_pages {
            (run.first + run.pages) / self.planes - first
        } else {
            rows
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
        let register_free = self.dies[run.die as usize].register_free;
        let start = at.max(register_free).max(self.channel_free(run.die));
        let row = transfer.0 / u64::from(rows);
        let loaded = start + times.command + Nanos(row) + times.register_move;
        let programs = loaded.max(free);
        let moves = times.register_move * u64::from(rows - 1);
        let end = programs + moves + Nanos((transfer.0 - row).max(work.0 - last.0)) + last;
        self.occupy_channel(run.die, start + times.command, transfer);
        self.occupy_die(run.die, free.max(start), end);
        self.dies[run.die as usize].register_free = end - last;
        end
    }

    #[inline]
    fn relocate(&mut self, source: PageRun, target: PageRun, scale: f32, at: Nanos) -> Nanos {
        if source.die != target.die || !self.times.copy_back || source.slc != target.slc {
            let read = self.read(source, at);
            let end = self.program(target, scale, read);
            return self.check_copied(target, end);
        }
        let times = self.times;
        let (first, rows) = self.rows(target);
        let cells = self.cells(target.slc);
        let (reads, mut programs) = (cells.read.sum(0, rows), cells.program.sum(first, rows));
        if scale != 1.0 {
            programs = scaled(programs, scale);
        }
        let start = self.begin(target.die, false, at);
        let end = start + times.command * u64::from(rows) + reads + programs;
        self.occupy_die(target.die, start, end);
        self.check_copied(target, end)
    }

    #[inline]
    fn erase(&mut self, die: u32, slc: bool, at: Nanos) -> Nanos {
        let time = self.times.command + self.cells(slc).erase;
        let start = self.begin(die, false, at);
        self.occupy_die(die, start, start + time);
        start + time
    }

    fn begin_deferral(&mut self, die: u32) -> Deferral {
        self.set_aside = self.background.is_some();
        let before = Deferral { die: self.dies[die as usize].free, channel: self.channel_free(die) };
        if self.set_aside {
            // It is done in rests, and has not to wait for what other dies transfer: that would count as its work.
            self.channels[self.attached[die as usize] as usize].free = Nanos::ZERO;
        }
        before
    }

    fn end_deferral(&mut self, die: u32, before: Deferral) {
        let Some(background) = self.background else { return };
        self.set_aside = false;
        let channel = self.attached[die as usize] as usize;
        self.channels[channel].free = before.channel;
        let state = &mut self.dies[die as usize];
        let Some((asked, worked)) = self.asked.take() else { return };
        // Not the time since `before`: the die may have been idle until the work was asked for.
        let work = state.worked - worked;
        state.worked = worked;
        state.free = before.die.max(asked);
        state.register_free = state.register_free.min(state.free);
        state.owed.push_back(work);
        while state.owed.len() > background.max_backlog {
            let piece = state.owed[0];
            let done = state.work_off(piece);
            state.free += done;
        }
    }

    fn sleep(&mut self, from: Nanos, until: Nanos) {
        for die in &mut self.dies {
            if let Some(background) = &self.background {
                die.rest_until(from, background);
            }
            die.free = die.free.max(until);
        }
    }
}

#[inline]
fn scaled(time: Nanos, scale: f32) -> Nanos {
    Nanos((time.0 as f64 * f64::from(scale)) as u64)
}
