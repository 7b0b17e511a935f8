//! The calls by which a program's preload library uses the files of a volume that another process has open.
//!
//! # Format
//! A call is a [`CallHeader`] and `length` bytes; an answer is an [`AnswerHeader`] and `length` bytes. Both ends run on one machine and are
//! of one build, so the numbers are in the machine's order, and the version is in the name of the socket's variable.

/// The variable of the environment that names the server's socket, with the version of the calls.
pub const CALLS_SOCKET: &str = "FLASHLAB_FILES_SOCKET_1";
/// The variable with the patterns of the managed paths, one a line.
pub const CALLS_PATTERNS: &str = "FLASHLAB_FILES_PATTERNS";
/// The most data of a call. Longer reads and writes are split.
pub const CALL_BYTES_MAX: usize = 1 << 20;
/// How the descriptors of managed files are called, before the file's number.
pub const DESCRIPTOR_NAME: &str = "flashlab-file-";

/// What a call asks for. Paths are absolute; where there are two, a zero byte is between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FileCall {
    /// Opens the file with this path. `flags` are those of Linux's `open`, `offset` the mode, `file` user and group. The answer's
    /// status is the file's number, and a descriptor comes with it.
    Open = 1,
    /// The process has the file open once more.
    Hold,
    /// The process has the file open once less.
    Close,
    /// Reads at `offset`; `flags` is how much.
    Read,
    /// Writes at `offset`. The status is where the data ends.
    Write,
    /// Writes at the end of the file.
    Append,
    /// Makes everything durable; `flags` 1: data only.
    Sync,
    /// Changes the size to `offset`.
    Truncate,
    /// Linux's `fallocate`: `flags` is the mode, then 8 bytes with the length.
    Allocate,
    /// A [`CallStatus`] of `file`.
    Status,
    /// A [`CallStatus`] of a path.
    StatusAt,
    /// Removes a name.
    Unlink,
    /// Renames; `flags` 1: nothing is replaced.
    Rename,
    /// Gives the first path's file the second path as another name.
    Link,
    /// Changes what the [`CallStatus`] says of mode, user, group and time of a `file`.
    SetAttributes,
    /// Makes a directory; `offset` is its mode, `file` user and group.
    MakeDirectory,
    /// Removes a directory.
    RemoveDirectory,
}

impl FileCall {
    const ALL: [FileCall; 17] = [
        FileCall::Open,
        FileCall::Hold,
        FileCall::Close,
        FileCall::Read,
        FileCall::Write,
        FileCall::Append,
        FileCall::Sync,
        FileCall::Truncate,
        FileCall::Allocate,
        FileCall::Status,
        FileCall::StatusAt,
        FileCall::Unlink,
        FileCall::Rename,
        FileCall::Link,
        FileCall::SetAttributes,
        FileCall::MakeDirectory,
        FileCall::RemoveDirectory,
    ];
}

/// What a call begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader {
    /// What is asked for.
    pub call: FileCall,
    /// Depends on the call.
    pub flags: u32,
    /// The file's number.
    pub file: u64,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// Bytes that follow.
    pub length: u32,
}

impl CallHeader {
    /// Its length, in bytes.
    pub const BYTES: usize = 28;

    /// Its bytes.
    pub fn encode(&self) -> [u8; CallHeader::BYTES] {
        let mut bytes = [0; CallHeader::BYTES];
        bytes[..4].copy_from_slice(&(self.call as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.file.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_ne_bytes());
        bytes[24..].copy_from_slice(&self.length.to_ne_bytes());
        bytes
    }

    /// What these bytes ask for. `None`: nothing that is known, or too much.
    pub fn decode(bytes: &[u8; CallHeader::BYTES]) -> Option<CallHeader> {
        let number = u32_at(bytes, 0);
        let header = CallHeader {
            call: FileCall::ALL.into_iter().find(|call| *call as u32 == number)?,
            flags: u32_at(bytes, 4),
            file: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            length: u32_at(bytes, 24),
        };
        let is_bounded = header.length as usize <= CALL_BYTES_MAX
            && (header.call != FileCall::Read || header.flags as usize <= CALL_BYTES_MAX);
        is_bounded.then_some(header)
    }
}

/// What an answer begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHeader {
    /// Below zero: the error's number, negative.
    pub status: i64,
    /// Bytes that follow.
    pub length: u32,
}

impl AnswerHeader {
    /// Its length, in bytes.
    pub const BYTES: usize = 12;

    /// Its bytes.
    pub fn encode(&self) -> [u8; AnswerHeader::BYTES] {
        let mut bytes = [0; AnswerHeader::BYTES];
        bytes[..8].copy_from_slice(&self.status.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.length.to_ne_bytes());
        bytes
    }

    /// What these bytes say.
    pub fn decode(bytes: &[u8; AnswerHeader::BYTES]) -> AnswerHeader {
        AnswerHeader { status: u64_at(bytes, 0) as i64, length: u32_at(bytes, 8) }
    }
}

/// What is known of a file, as calls carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStatus {
    /// The file's number.
    pub file: u64,
    /// Its size in bytes.
    pub size: u64,
    /// What it takes on the volume, in bytes.
    pub allocated: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// The permissions.
    pub mode: u32,
    /// The user that it belongs to.
    pub user: u32,
    /// The group that it belongs to.
    pub group: u32,
    /// The number of its names.
    pub links: u32,
}

impl CallStatus {
    /// Its length, in bytes.
    pub const BYTES: usize = 48;
    /// In [`FileCall::SetAttributes`]: stays as it is.
    pub const SAME: u32 = u32::MAX;

    /// Its bytes.
    pub fn encode(&self) -> [u8; CallStatus::BYTES] {
        let mut bytes = [0; CallStatus::BYTES];
        for (index, value) in [self.file, self.size, self.allocated, self.modified_ns].iter().enumerate() {
            bytes[index * 8..][..8].copy_from_slice(&value.to_ne_bytes());
        }
        for (index, value) in [self.mode, self.user, self.group, self.links].iter().enumerate() {
            bytes[32 + index * 4..][..4].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    /// What these bytes say.
    pub fn decode(bytes: &[u8; CallStatus::BYTES]) -> CallStatus {
        CallStatus {
            file: u64_at(bytes, 0),
            size: u64_at(bytes, 8),
            allocated: u64_at(bytes, 16),
            modified_ns: u64_at(bytes, 24),
            mode: u32_at(bytes, 32),
            user: u32_at(bytes, 36),
            group: u32_at(bytes, 40),
            links: u32_at(bytes, 44),
        }
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]))
}

/// Whether a path matches a pattern, byte for byte: `*` is anything, also with `/`; `?` is one byte; `[abc]`, `[a-z]` and `[!a]` are one
/// of those bytes, or none of them; a backslash makes the byte behind it ordinary.
pub fn path_matches(pattern: &[u8], path: &[u8]) -> bool {
    let (mut pattern_at, mut path_at) = (0, 0);
    // Behind the last star, and how much of the path it takes.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = &pattern[pattern_at..];
        if rest.first() == Some(&b'*') {
            pattern_at += 1;
            star = Some((pattern_at, path_at));
            continue;
        }
        match path.get(path_at).map(|&byte| one_matches(rest, byte)) {
            None if rest.is_empty() => return true,
            Some(Some(length)) => {
                pattern_at += length;
                path_at += 1;
            }
            _ => match &mut star {
                Some((behind, taken)) if *taken < path.len() => {
                    *taken += 1;
                    (pattern_at, path_at) = (*behind, *taken);
                }
                _ => return false,
            },
        }
    }
}

/// The length of the pattern's first element, if the byte matches it.
fn one_matches(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', set @ ..] => {
            let is_negated = matches!(set.first(), Some(b'!' | b'^'));
            let set = if is_negated { &set[1..] } else { set };
            // A bracket that is the first of its set is in the set.
            let end = set.iter().skip(1).position(|&end| end == b']')? + 1;
            let mut is_in = false;
            let mut at = 0;
            while at < end {
                let range = at + 2 < end && set[at + 1] == b'-';
                is_in |= if range { (set[at]..=set[at + 2]).contains(&byte) } else { set[at] == byte };
                at += if range { 3 } else { 1 };
            }
            (is_in != is_negated).then_some(end + 2 + usize::from(is_negated))
        }
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_answers_are_read_as_they_were_written() {
        let call =
            CallHeader { call: FileCall::Rename, flags: 1, file: 1 << 40, offset: u64::MAX, length: 7 };
        assert_eq!(CallHeader::decode(&call.encode()), Some(call));
        let mut unknown = call.encode();
        unknown[0] = 99;
        assert_eq!(CallHeader::decode(&unknown), None);
        let long = CallHeader { length: CALL_BYTES_MAX as u32 + 1, ..call };
        assert_eq!(CallHeader::decode(&long.encode()), None);
        let answer = AnswerHeader { status: -28, length: 5 };
        assert_eq!(AnswerHeader::decode(&answer.encode()), answer);
        let status = CallStatus {
            file: 2,
            size: 3,
            allocated: 4,
            modified_ns: 5,
            mode: 6,
            user: 7,
            group: 8,
            links: 9,
        };
        assert_eq!(CallStatus::decode(&status.encode()), status);
    }

    #[test]
    fn patterns_match_as_documented() {
        let matches = |pattern: &str, path: &str| path_matches(pattern.as_bytes(), path.as_bytes());
        for (pattern, path) in [
            ("/data/*", "/data/base/5/1259"),
            ("/data/*.db", "/data/a.db"),
            ("/data/db?wal", "/data/db-wal"),
            ("/*/[a-c]x*[!0-9]", "/d/e/bx12y"),
            ("/a\\*", "/a*"),
            ("*", ""),
            ("/[]a]", "/]"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/data/*", "/data"),
            ("/data/*.db", "/data/a.db-wal"),
            ("/a\\*", "/ab"),
            ("/[a", "/a"),
            ("/[!a]", "/a"),
            ("", "a"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }
}
