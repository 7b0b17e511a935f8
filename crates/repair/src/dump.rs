//! Gets the data out of a volume that cannot be opened.
//!
//! # Method
//! 1. The geometry is taken from any copy of the superblock, also where the device has lost its end. The map, its image and the
//!    checkpoints are not needed.
//! 2. All segments are searched for record headers of the volume.
//! 3. The records are applied in the order of their epochs and sequences: of each logical page the newest version whose
//!    checksum is right remains, unless a newer discard covers it.
//!
//! # Limits
//! What is found can be older than what was flushed, where newer versions are damaged; and data that was discarded can come
//! back, when the segment with the record of the discard was reused. So it is for a volume that has no better way.

use std::collections::BTreeMap;

use flashlab_base::Bytes;
use flashlab_device::Device;

use crate::device_io::{DeviceIo, ReadRange};
use crate::error::RepairError;
use crate::format::record::{Entry, RecordHeader, page_checksum};
use crate::layout::VolumeLayout;
use crate::superblock_io::newest_superblock;

/// What a dump found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpReport {
    /// The bytes that the volume offers.
    pub size: Bytes,
    /// Records of the volume on the device.
    pub records: u64,
    /// Pages that were copied out.
    pub pages: u64,
    /// Versions of pages whose checksum was wrong.
    pub damaged: u64,
}

/// A version of a page: its epoch and sequence, where it lies, and its checksum.
type Version = ((u64, u64), u64, u32);

/// Hands each page that can be found to `page`, with its offset in the volume, in ascending order.
///
/// # Errors
/// When no superblock is left, and those of `page`.
pub fn dump<D: Device, E: From<RepairError>>(
    device: D,
    mut page: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<DumpReport, E> {
    let mut io = DeviceIo::new(device, Bytes::ZERO, 0);
    let superblock = newest_superblock(&mut io)?;
    let layout = superblock.layout.clone();
    let page_size = layout.options.page;
    let mut report =
        DumpReport { size: Bytes(layout.options.logical_pages * page_size.0), ..DumpReport::default() };
    let headers = find_headers(&mut io, &layout, &superblock)?;
    report.records = headers.len() as u64;
    let mut versions: BTreeMap<u64, Vec<Version>> = BTreeMap::new();
    for header in headers.values() {
        collect(header, &layout, &mut versions);
    }
    let seed = superblock.uuid.seed();
    let mut data = [ReadRange::new(0, page_size)];
    for (logical, mut found) in versions {
        found.sort_unstable();
        while let Some(((_, sequence), offset, checksum)) = found.pop() {
            data[0].offset = offset;
            let is_right = io.read(&mut data).is_ok()
                && page_checksum(seed, logical, sequence, data[0].bytes()) == checksum;
            if is_right {
                page(logical * page_size.0, data[0].bytes())?;
                report.pages += 1;
                break;
            }
            report.damaged += 1;
        }
    }
    Ok(report)
}

/// All record headers of the volume, by epoch and sequence.
fn find_headers<D: Device>(
    io: &mut DeviceIo<D>,
    layout: &VolumeLayout,
    superblock: &crate::format::superblock::Superblock,
) -> Result<BTreeMap<(u64, u64), RecordHeader>, RepairError> {
    let mut headers = BTreeMap::new();
    let positions = layout.pages_per_segment();
    let capacity = io.device().geometry().capacity;
    let mut range = [ReadRange::new(0, layout.options.page)];
    for segment in 0..layout.segment_count {
        let mut at = 0;
        while at < positions {
            let position = segment * positions + at;
            range[0].offset = layout.offset(position);
            if range[0].offset + layout.options.page.0 > capacity.0 {
                return Ok(headers);
            }
            let header = match io.read(&mut range) {
                Ok(()) => RecordHeader::decode(superblock.uuid, range[0].bytes()),
                Err(_) => None,
            };
            // Behind a damaged header the next one is looked for page by page.
            at += 1;
            if let Some(header) = header.filter(|header| header.position == position) {
                at += header.page_count();
                headers.insert((header.epoch, header.sequence), header);
            }
        }
    }
    Ok(headers)
}

/// Adds the versions in a record. Records come in the order in which they were written.
fn collect(header: &RecordHeader, layout: &VolumeLayout, versions: &mut BTreeMap<u64, Vec<Version>>) {
    let mut position = header.position;
    for entry in &header.entries {
        position += u32::from(entry.has_data());
        match *entry {
            Entry::Write { page, checksum } | Entry::Copy { page, checksum }
                if page < layout.options.logical_pages =>
            {
                let version = ((header.epoch, header.sequence), layout.offset(position), checksum);
                versions.entry(page).or_default().push(version);
            }
            Entry::Discard { page, count } => {
                let range = page..page.saturating_add(count.into());
                let covered: Vec<u64> = versions.range(range).map(|(&page, _)| page).collect();
                covered.iter().for_each(|page| drop(versions.remove(page)));
            }
            _ => {}
        }
    }
}
