//! One random operation on the files.

use flashlab_base::Prng;

use crate::system::ALIGNMENT;

/// The largest size of a file, in bytes: larger than a request of FUSE (1 MiB), so that requests are split.
pub const SIZE_MAX: u64 = 3 << 19;

/// How many files there are at a time.
pub const FILES: usize = 4;

/// What is done. Offsets and lengths are in bytes; what a file is too small for is cut when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read {
        file: usize,
        offset: u64,
        length: u64,
    },
    ReadDirect {
        file: usize,
        offset: u64,
        length: u64,
    },
    Write {
        file: usize,
        offset: u64,
        length: u64,
    },
    WriteDirect {
        file: usize,
        offset: u64,
        length: u64,
    },
    /// With RWF_DSYNC.
    WriteSynced {
        file: usize,
        offset: u64,
        length: u64,
    },
    /// By one of two descriptors that have O_APPEND.
    Append {
        file: usize,
        descriptor: usize,
        length: u64,
    },
    Truncate {
        file: usize,
        size: u64,
    },
    ReadMapping {
        file: usize,
        offset: u64,
        length: u64,
    },
    WriteMapping {
        file: usize,
        offset: u64,
        length: u64,
        then_msync: bool,
    },
    Punch {
        file: usize,
        offset: u64,
        length: u64,
    },
    Zero {
        file: usize,
        offset: u64,
        length: u64,
        keep_size: bool,
    },
    Allocate {
        file: usize,
        offset: u64,
        length: u64,
        keep_size: bool,
    },
    Copy {
        from: usize,
        offset: u64,
        to: usize,
        at: u64,
        length: u64,
    },
    Fsync {
        file: usize,
        only_data: bool,
    },
    Reopen {
        file: usize,
    },
    /// `from` gets the name of `to`, whose file has no name any more.
    RenameOver {
        from: usize,
        to: usize,
    },
    Unlink {
        file: usize,
    },
    DropCaches {
        file: usize,
    },
    /// By SEEK_DATA and SEEK_HOLE.
    FindHoles {
        file: usize,
    },
    /// All files by new descriptors, and the names in the directory.
    CheckAll,
}

impl Operation {
    /// A random one.
    pub fn random(prng: &mut Prng) -> Operation {
        let file = prng.below(FILES as u64) as usize;
        let (offset, length) = range(prng);
        let is = |prng: &mut Prng| prng.below(2) == 0;
        match prng.below(200) {
            0..30 => Operation::Read { file, offset, length },
            30..40 => Operation::ReadDirect { file, offset: down(offset), length: up(length) },
            40..72 => Operation::Write { file, offset, length },
            72..82 => Operation::WriteDirect { file, offset: down(offset), length: up(length) },
            82..84 => Operation::WriteSynced { file, offset, length },
            84..96 => {
                Operation::Append { file, descriptor: prng.below(2) as usize, length: length.min(20_000) }
            }
            96..108 => Operation::Truncate { file, size: offset },
            108..122 => Operation::ReadMapping { file, offset, length },
            122..138 => Operation::WriteMapping { file, offset, length, then_msync: prng.below(6) == 0 },
            138..146 => Operation::Punch { file, offset, length },
            146..152 => Operation::Zero { file, offset, length, keep_size: is(prng) },
            152..158 => Operation::Allocate { file, offset, length, keep_size: is(prng) },
            158..166 => {
                let to = prng.below(FILES as u64) as usize;
                Operation::Copy { from: file, offset, to, at: range(prng).0, length }
            }
            166..170 => Operation::Fsync { file, only_data: is(prng) },
            170..178 => Operation::Reopen { file },
            178..181 => Operation::RenameOver {
                from: file,
                to: (file + 1 + prng.below(FILES as u64 - 1) as usize) % FILES,
            },
            181..184 => Operation::Unlink { file },
            184..192 => Operation::DropCaches { file },
            192..199 => Operation::FindHoles { file },
            _ => Operation::CheckAll,
        }
    }
}

/// A random range within the largest file. Most are short, and files are mostly a tenth of the largest.
fn range(prng: &mut Prng) -> (u64, u64) {
    let limit = if prng.below(16) == 0 { SIZE_MAX } else { SIZE_MAX / 10 };
    let offset = match prng.below(3) {
        // On the boundary of a page.
        0 => down(prng.below(limit)),
        _ => prng.below(limit),
    };
    let longest = match prng.below(40) {
        0 => SIZE_MAX,
        1..8 => 100_000,
        _ => 13_000,
    };
    let length = 1 + prng.below(longest);
    let length = if prng.below(4) == 0 { up(length) } else { length };
    (offset, length.min(SIZE_MAX - offset))
}

fn down(bytes: u64) -> u64 {
    bytes / ALIGNMENT * ALIGNMENT
}

fn up(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}
