//! What a writer does to its files, as it is recorded, and the bytes that it writes.

use flashlab_base::Prng;
use serde::{Deserialize, Serialize};

use crate::system::ALIGNMENT;

/// How a write is given to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum How {
    Plain,
    Direct,
    /// O_DSYNC.
    Dsync,
    /// O_SYNC.
    Sync,
    /// RWF_DSYNC of pwritev2.
    RwfDsync,
    /// RWF_SYNC of pwritev2.
    RwfSync,
    /// O_DIRECT and O_DSYNC.
    DirectDsync,
}

impl How {
    pub fn is_direct(self) -> bool {
        matches!(self, How::Direct | How::DirectDsync)
    }

    /// What its return promises, if it promises durability.
    pub fn promise(self) -> Option<&'static str> {
        match self {
            How::Plain | How::Direct => None,
            How::Dsync => Some("O_DSYNC"),
            How::Sync => Some("O_SYNC"),
            How::RwfDsync => Some("RWF_DSYNC"),
            How::RwfSync => Some("RWF_SYNC"),
            How::DirectDsync => Some("O_DIRECT|O_DSYNC"),
        }
    }
}

/// One operation on the files of a writer. `file` is a name; offsets and lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    Create {
        file: char,
    },
    Write {
        file: char,
        offset: u64,
        length: u64,
        how: How,
    },
    /// With O_APPEND, and O_DSYNC if `dsync`.
    Append {
        file: char,
        length: u64,
        dsync: bool,
    },
    /// Through a mapping, then msync(MS_SYNC).
    Map {
        file: char,
        offset: u64,
        length: u64,
    },
    Truncate {
        file: char,
        size: u64,
    },
    Punch {
        file: char,
        offset: u64,
        length: u64,
    },
    Allocate {
        file: char,
        offset: u64,
        length: u64,
    },
    Copy {
        from: char,
        to: char,
        offset: u64,
        at: u64,
        length: u64,
    },
    Rename {
        from: char,
        to: char,
    },
    Unlink {
        file: char,
    },
    Fsync {
        file: char,
    },
    Fdatasync {
        file: char,
    },
    /// fsync of the directory.
    SyncDirectory,
}

impl Operation {
    /// What its return promises, if it promises durability.
    pub fn promise(&self) -> Option<&'static str> {
        match self {
            Operation::Write { how, .. } => how.promise(),
            Operation::Append { dsync, .. } => dsync.then_some("O_APPEND|O_DSYNC"),
            Operation::Map { .. } => Some("msync"),
            Operation::Fsync { .. } => Some("fsync"),
            Operation::Fdatasync { .. } => Some("fdatasync"),
            Operation::SyncDirectory => Some("fsync of the directory"),
            _ => None,
        }
    }

    /// Whether its return promises durability of what was done before it, too, and not only of its own bytes.
    pub fn syncs_all(&self) -> bool {
        matches!(self, Operation::Fsync { .. } | Operation::Fdatasync { .. } | Operation::SyncDirectory)
    }
}

/// The bytes that an operation writes: each word names the session, the writer, the operation and its own place, and none is zero.
pub fn content(session: u64, writer: usize, number: u64, length: u64) -> Vec<u8> {
    let origin =
        1 << 63 | (session & 0x7FFF) << 48 | (writer as u64 & 0xF) << 44 | (number & 0xFF_FFFF) << 20;
    let words = (0..length.div_ceil(8)).flat_map(|word| (origin | word & 0xF_FFFF).to_be_bytes());
    words.take(length as usize).collect()
}

/// How a writer works: what it does often, and how it makes that durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Habit {
    /// Plain and direct writes, then fsync.
    Fsync,
    /// Plain and direct writes, then fdatasync.
    Fdatasync,
    /// Each write is durable by itself: O_DSYNC, O_SYNC, RWF_DSYNC, RWF_SYNC, O_DIRECT with O_DSYNC.
    SyncedWrites,
    /// Mappings and msync.
    Msync,
    /// New files that replace old ones by rename, and fsync of the directory.
    Rename,
    /// Nothing is ever synced.
    Unsynced,
}

pub const HABITS: [Habit; 6] =
    [Habit::Fsync, Habit::Fdatasync, Habit::SyncedWrites, Habit::Msync, Habit::Rename, Habit::Unsynced];

/// What the writers' files lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ground {
    /// A directory for each writer. All operations are used.
    Files,
    /// A block device, or a file that stands for one; each writer has a part of it. `direct`: all IO passes the page cache.
    Disk { direct: bool },
}

/// The largest size of a file of a directory.
pub const FILE_MAX: u64 = 1 << 20;

/// The names that files of a writer have.
const NAMES: [char; 4] = ['a', 'b', 'c', 'd'];

/// The name of a file that is written to replace another one.
const NEW: char = 'n';

/// Chooses operations, one after the other. `sizes` has the files that there are.
pub struct Generator {
    pub prng: Prng,
    pub habit: Habit,
    pub ground: Ground,
    /// What comes next, the last one first.
    planned: Vec<Operation>,
    /// How many operations are left until the next sync.
    until_sync: u64,
}

impl Generator {
    pub fn new(prng: Prng, habit: Habit, ground: Ground) -> Generator {
        Generator { prng, habit, ground, planned: Vec::new(), until_sync: 0 }
    }

    /// After an operation for which there was no space: its file is removed, so that what it has is known again.
    pub fn make_space(&mut self, failed: &Operation) {
        self.planned.clear();
        if let Some((file, _)) = super::model::written_file(failed) {
            self.planned.push(Operation::Unlink { file });
        }
    }

    /// The next operation.
    pub fn next(&mut self, size_of: &dyn Fn(char) -> Option<u64>) -> Operation {
        if let Some(operation) = self.planned.pop() {
            return operation;
        }
        if let Ground::Disk { direct } = self.ground {
            return self.on_disk(direct, size_of('a').unwrap_or(0));
        }
        let file = NAMES[self.prng.below(4) as usize];
        let Some(size) = size_of(file) else { return Operation::Create { file } };
        if self.habit == Habit::Rename && self.prng.below(3) == 0 {
            return self.replacement(file, size_of(NEW).is_some());
        }
        if self.is_sync_due() {
            return match (self.habit, self.prng.below(12)) {
                (_, 0) | (Habit::Rename, _) => Operation::SyncDirectory,
                (Habit::Fdatasync, _) => Operation::Fdatasync { file },
                _ => Operation::Fsync { file },
            };
        }
        self.on_file(file, size, size_of)
    }

    /// Whether a sync comes next, as it does after a few operations.
    fn is_sync_due(&mut self) -> bool {
        if self.habit == Habit::Unsynced {
            return false;
        }
        let is_due = self.until_sync == 0;
        self.until_sync = if is_due { 1 + self.prng.below(12) } else { self.until_sync - 1 };
        is_due
    }

    fn on_file(&mut self, file: char, size: u64, size_of: &dyn Fn(char) -> Option<u64>) -> Operation {
        let length = self.length();
        let offset = self.prng.below(size.min(FILE_MAX - length) + 1);
        let aligned = offset / ALIGNMENT * ALIGNMENT;
        match self.prng.below(20) {
            0 => Operation::Truncate { file, size: self.prng.below(FILE_MAX / 2) },
            1 => Operation::Punch { file, offset, length },
            2 => Operation::Allocate { file, offset, length },
            3 => {
                let to = NAMES[self.prng.below(4) as usize];
                let possible = to != file && size_of(to).is_some() && size > 0;
                let offset = offset.min(size.saturating_sub(1));
                let length = length.min(size - offset.min(size));
                if possible {
                    Operation::Copy { from: file, to, offset, at: aligned, length }
                } else {
                    Operation::Unlink { file }
                }
            }
            4 => {
                let to = NAMES[self.prng.below(4) as usize];
                if to == file { Operation::Unlink { file } } else { Operation::Rename { from: file, to } }
            }
            5..8 if size + length <= FILE_MAX => {
                Operation::Append { file, length, dsync: self.habit == Habit::SyncedWrites }
            }
            8..15 if self.habit == Habit::Msync && offset < size => {
                Operation::Map { file, offset, length: length.min(size - offset) }
            }
            _ => {
                let how = self.how();
                let length = if how.is_direct() { length.next_multiple_of(ALIGNMENT) } else { length };
                let offset = if how.is_direct() { aligned.min(FILE_MAX - length) } else { offset };
                Operation::Write { file, offset, length, how }
            }
        }
    }

    fn on_disk(&mut self, direct: bool, size: u64) -> Operation {
        if self.is_sync_due() {
            return match self.habit {
                Habit::Fdatasync => Operation::Fdatasync { file: 'a' },
                _ => Operation::Fsync { file: 'a' },
            };
        }
        let length = self.length().next_multiple_of(ALIGNMENT);
        let offset = self.prng.below((size - length) / ALIGNMENT + 1) * ALIGNMENT;
        match (self.prng.below(10), self.habit) {
            (0, _) if direct => Operation::Punch { file: 'a', offset, length },
            (1..6, Habit::Msync) if !direct => Operation::Map { file: 'a', offset, length },
            _ if direct && self.habit == Habit::SyncedWrites => {
                Operation::Write { file: 'a', offset, length, how: How::DirectDsync }
            }
            _ if direct => Operation::Write { file: 'a', offset, length, how: How::Direct },
            _ => {
                let how = match self.how() {
                    How::Direct => How::Plain,
                    How::DirectDsync => How::Dsync,
                    how => how,
                };
                // The page cache takes any range of bytes.
                let cut = if how == How::Plain { self.prng.below(ALIGNMENT) } else { 0 };
                Operation::Write { file: 'a', offset: offset + cut, length: length - cut, how }
            }
        }
    }

    /// Writes a new file, makes it durable and renames it over the old one.
    fn replacement(&mut self, file: char, new_exists: bool) -> Operation {
        let length = self.length();
        self.planned = vec![
            Operation::SyncDirectory,
            Operation::Rename { from: NEW, to: file },
            Operation::Write { file: NEW, offset: 0, length, how: How::Plain },
        ];
        match self.prng.below(3) {
            0 => self.planned.insert(2, Operation::Fsync { file: NEW }),
            // Without it the rename must not be durable before the data.
            1 => {
                self.planned.remove(0);
            }
            _ => {}
        }
        if new_exists { Operation::Truncate { file: NEW, size: 0 } } else { Operation::Create { file: NEW } }
    }

    fn how(&mut self) -> How {
        match self.habit {
            Habit::SyncedWrites => {
                let all = [How::Dsync, How::Sync, How::RwfDsync, How::RwfSync, How::DirectDsync];
                all[self.prng.below(5) as usize]
            }
            _ if self.prng.below(3) == 0 => How::Direct,
            _ => How::Plain,
        }
    }

    fn length(&mut self) -> u64 {
        match self.prng.below(12) {
            0 => 1 + self.prng.below(300_000),
            1..4 => 1 + self.prng.below(40_000),
            4..8 => ALIGNMENT,
            _ => 1 + self.prng.below(9_000),
        }
    }
}
