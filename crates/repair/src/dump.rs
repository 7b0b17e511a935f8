//! Gets the data out of a volume that cannot be opened: all pages of it that are left, as `salvaged` finds them.

use flashlab_base::Bytes;
use flashlab_device::Device;

use crate::error::RepairError;
use crate::salvaged::{DumpMap, SalvagedPage, SalvagedVolume};

/// Logical pages that lie behind each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// The first page.
    pub first: u64,
    /// Their number.
    pub count: u64,
}

/// What a dump found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpReport {
    /// The bytes that the volume offers.
    pub size: Bytes,
    /// Records of the volume on the device.
    pub records: u64,
    /// Pages that were copied out.
    pub pages: u64,
    /// Versions of pages whose checksum was wrong.
    pub damaged: u64,
    /// What is known of the pages that there have to be.
    pub map: DumpMap,
    /// Pages of the map that were not found.
    pub missing: Vec<PageRange>,
    /// Pages of the map that were found in a version that is, or may be, older than the one that the map names.
    pub older: Vec<PageRange>,
}

impl DumpReport {
    /// Whether all that the volume held was copied out.
    pub fn is_whole(&self) -> bool {
        self.map == DumpMap::Newest && self.missing.is_empty() && self.older.is_empty()
    }
}

/// Hands each page that can be found to `page`, with its offset in the volume, in ascending order.
///
/// # Errors
/// When no superblock is left, and those of `page`.
pub fn dump<D: Device, E: From<RepairError>>(
    device: D,
    mut page: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<DumpReport, E> {
    let mut volume = SalvagedVolume::open(device)?;
    let options = volume.superblock.layout.options;
    let mut report = DumpReport {
        size: Bytes(options.logical_pages * options.page.0),
        records: volume.records(),
        pages: 0,
        damaged: 0,
        map: volume.map.clone(),
        missing: Vec::new(),
        older: Vec::new(),
    };
    for logical in 0..options.logical_pages {
        let found = volume.find(logical);
        match found {
            SalvagedPage::Absent => {}
            SalvagedPage::Missing => add(&mut report.missing, logical),
            SalvagedPage::Right | SalvagedPage::Older => {
                page(logical * options.page.0, volume.data())?;
                report.pages += 1;
            }
        }
        if found == SalvagedPage::Older {
            add(&mut report.older, logical);
        }
    }
    report.damaged = volume.damaged;
    Ok(report)
}

/// Adds a page to ranges in ascending order.
pub(crate) fn add(ranges: &mut Vec<PageRange>, page: u64) {
    match ranges.last_mut() {
        Some(last) if last.first + last.count == page => last.count += 1,
        _ => ranges.push(PageRange { first: page, count: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::Nanos;
    use flashlab_device::MemoryDevice;

    use super::*;
    use crate::device_io::{DeviceIo, ReadRange};
    use crate::format::VolumeUuid;
    use crate::layout::{LayoutOptions, VolumeLayout};
    use crate::single_log::SingleLog;
    use crate::volume::{MountOptions, Volume};

    const PAGE: usize = 4096;

    /// A volume with these versions of pages, each of them flushed.
    fn written(pages: &[(u64, u8)]) -> Volume<MemoryDevice> {
        let capacity = Bytes::mib(4);
        let (page, segment, checkpoint_interval) = (Bytes::kib(4), Bytes::kib(64), Bytes::kib(256));
        let options = LayoutOptions { capacity, page, segment, logical_pages: 300, checkpoint_interval };
        let mut device = MemoryDevice::new(capacity, Nanos(100));
        Volume::create(&mut device, VolumeUuid([3; 16]), options).unwrap();
        let policy = |_: &VolumeLayout| Box::new(SingleLog::Greedy) as Box<dyn crate::policy::Policy>;
        let mut volume = Volume::open(device, MountOptions::default(), policy).unwrap();
        for &(page, byte) in pages {
            volume.write(page * PAGE as u64, &[byte; PAGE]).unwrap();
            volume.flush().unwrap();
        }
        volume
    }

    /// Overwrites the place of the page that consists of this byte.
    fn damage(device: &mut MemoryDevice, byte: u8) {
        let mut io = DeviceIo::new(&mut *device, Bytes::ZERO, 0);
        let capacity = io.device().geometry().capacity;
        let mut page = [ReadRange::new(0, Bytes::kib(4))];
        for offset in (0..capacity.0).step_by(PAGE) {
            page[0].offset = offset;
            io.read(&mut page).unwrap();
            if page[0].bytes().iter().all(|&found| found == byte) {
                io.write_bytes(offset, &[0x5a; PAGE]).unwrap();
            }
        }
        io.flush().unwrap();
    }

    fn dumped(device: &mut MemoryDevice) -> (DumpReport, Vec<(u64, u8)>) {
        let mut pages = Vec::new();
        let report = dump(device, |offset, data| -> Result<(), RepairError> {
            pages.push((offset / PAGE as u64, data[0]));
            Ok(())
        });
        (report.unwrap(), pages)
    }

    #[test]
    fn a_page_that_is_damaged_is_older_or_missing_and_a_discarded_one_stays_away() {
        let mut volume = written(&[(7, 1), (7, 2), (8, 3), (9, 4), (9, 5)]);
        volume.discard(9 * PAGE as u64, PAGE as u64).unwrap();
        let mut device = volume.close().unwrap();
        let (report, pages) = dumped(&mut device);
        assert!(report.is_whole() && pages == [(7, 2), (8, 3)], "{report:?} {pages:?}");
        damage(&mut device, 2);
        damage(&mut device, 3);
        let (report, pages) = dumped(&mut device);
        assert_eq!(pages, [(7, 1)]);
        assert_eq!(report.older, [PageRange { first: 7, count: 1 }]);
        assert_eq!(report.missing, [PageRange { first: 8, count: 1 }]);
        assert!(report.map == DumpMap::Newest && !report.is_whole());
    }

    #[test]
    fn a_dump_without_the_newest_map_is_not_whole() {
        let mut device = written(&[(7, 1), (8, 2)]).close().unwrap();
        let ring = crate::superblock_io::superblock(&mut device).unwrap().layout.ring.0;
        let mut io = DeviceIo::new(&mut device, Bytes::ZERO, 0);
        io.write_bytes(ring, &[0; PAGE]).unwrap();
        io.flush().unwrap();
        drop(io);
        let (report, pages) = dumped(&mut device);
        assert_eq!(pages, [(7, 1), (8, 2)]);
        assert!(matches!(report.map, DumpMap::None { .. }) && !report.is_whole(), "{report:?}");
    }
}
