//! The IOs of a row group, as the panels need them.

use flashlab_samples::{Column, Columns, SamplesError, SegmentReader};

/// The columns of samples that the panels need.
const PANEL_COLUMNS: [Column; 9] = [
    Column::Run,
    Column::Position,
    Column::Process,
    Column::Mode,
    Column::Offset,
    Column::Size,
    Column::Intended,
    Column::Response,
    Column::Errno,
];

/// What the filters distinguish, in one byte: whether the IO wrote, whether it failed, and its size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IoKind(pub u8);

/// The number of kinds.
pub const KIND_COUNT: usize = 256;

impl IoKind {
    /// The kind of an IO.
    pub fn new(is_write: bool, is_failed: bool, size_bytes: u64) -> IoKind {
        IoKind(u8::from(is_write) << 7 | u8::from(is_failed) << 6 | size_class(size_bytes))
    }

    /// Whether it wrote.
    pub fn is_write(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// Whether it failed.
    pub fn is_failed(self) -> bool {
        self.0 & 0x40 != 0
    }

    /// The binary logarithm of its size in bytes, rounded up.
    pub fn size_class(self) -> u8 {
        self.0 & 0x3f
    }
}

fn size_class(size_bytes: u64) -> u8 {
    // 2^63 bytes and more do not occur; they would share the last class.
    (64 - size_bytes.saturating_sub(1).leading_zeros()).min(63) as u8
}

/// IOs by column. All times count from the recording's first IO.
#[derive(Clone, Debug, Default)]
pub struct IoColumns {
    /// Intended start, nanoseconds.
    pub time_ns: Vec<u64>,
    /// Response time, nanoseconds; 0 if the clock went backwards.
    pub response_ns: Vec<u64>,
    /// Offset, bytes.
    pub offset_bytes: Vec<u64>,
    /// Size, bytes.
    pub size_bytes: Vec<u64>,
    /// Kind.
    pub kind: Vec<IoKind>,
    /// Process.
    pub process: Vec<u32>,
    /// Run.
    pub run: Vec<u32>,
    /// Position in the pattern of its process.
    pub position: Vec<u64>,
    /// How many of them completed before they began, by their clock.
    pub backward: u64,
}

impl IoColumns {
    /// Reads a row group. `columns` is a buffer.
    ///
    /// # Errors
    /// If the segment is damaged or cannot be read.
    pub fn read(
        segment: &SegmentReader,
        row_group: usize,
        origin_ns: i64,
        columns: &mut Columns,
    ) -> Result<IoColumns, SamplesError> {
        segment.read(row_group, &PANEL_COLUMNS, columns)?;
        let positive = |values: &[i64]| values.iter().map(|&value| value.max(0) as u64).collect();
        let kinds = columns.write.iter().zip(&columns.errno).zip(&columns.size_bytes);
        Ok(IoColumns {
            time_ns: columns.intended_ns.iter().map(|&time| time.wrapping_sub(origin_ns) as u64).collect(),
            response_ns: positive(&columns.response_ns),
            offset_bytes: positive(&columns.offset_bytes),
            size_bytes: positive(&columns.size_bytes),
            kind: kinds
                .map(|((&write, &errno), &size)| IoKind::new(write, errno != 0, size.max(0) as u64))
                .collect(),
            process: columns.process.iter().map(|&process| process as u32).collect(),
            run: columns.run.iter().map(|&run| run as u32).collect(),
            position: positive(&columns.position),
            backward: columns.response_ns.iter().filter(|&&response| response < 0).count() as u64,
        })
    }

    /// Adds the IO `index` of others.
    pub fn push(&mut self, other: &IoColumns, index: usize) {
        self.time_ns.push(other.time_ns[index]);
        self.response_ns.push(other.response_ns[index]);
        self.offset_bytes.push(other.offset_bytes[index]);
        self.size_bytes.push(other.size_bytes[index]);
        self.kind.push(other.kind[index]);
        self.process.push(other.process[index]);
        self.run.push(other.run[index]);
        self.position.push(other.position[index]);
    }

    /// How many IOs there are.
    pub fn len(&self) -> usize {
        self.time_ns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.time_ns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_class_ends_at_its_power_of_two() {
        let class = |size| IoKind::new(false, false, size).size_class();
        assert_eq!([0, 1, 2, 3, 4, 512, 513, 4096, 4097].map(class), [0, 0, 1, 2, 2, 9, 10, 12, 13]);
        assert_eq!(class(u64::MAX), 63);
    }

    #[test]
    fn a_kind_keeps_mode_failure_and_size() {
        for (is_write, is_failed) in [(false, false), (false, true), (true, false), (true, true)] {
            let kind = IoKind::new(is_write, is_failed, 65536);
            assert_eq!((kind.is_write(), kind.is_failed(), kind.size_class()), (is_write, is_failed, 16));
        }
    }
}
