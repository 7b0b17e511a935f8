//! Gets the data out of a volume that cannot be opened.
//!
//! # Method
//! 1. The geometry is taken from any copy of the superblock, also where the device has lost its end.
//! 2. The map is recovered, if that is possible; or what the checkpoints say that can still be reached.
//! 3. All segments are searched for record headers of the volume.
//! 4. Of each logical page the version that the map names is taken, if it is right. Without one, the newest version whose checksum is right
//!    is taken, in the order of epochs and sequences, unless a newer discard covers it.
//! 5. A page that the map has and that is not found, or only in an older version, is missing.
//!
//! # Limits
//! Without the newest map nobody knows what is missing. What is found can be older than what was flushed, where newer versions are
//! damaged; and data that was discarded can come back, when the segment with the record of the discard was reused.

use std::collections::BTreeMap;
use std::ops::Range;

use flashlab_base::Bytes;
use flashlab_device::Device;

use crate::device_io::{DeviceIo, ReadRange};
use crate::error::RepairError;
use crate::format::record::{Entry, RecordHeader, page_checksum};
use crate::format::superblock::Superblock;
use crate::layout::VolumeLayout;
use crate::location::Location;
use crate::recovery::{Recovered, reachable_state, recover};
use crate::superblock_io::newest_superblock;

/// What a dump knows of the pages that there have to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpMap {
    /// All of them.
    Newest,
    /// Those at an older checkpoint.
    Older {
        /// Its number.
        checkpoint: u64,
        /// Why the newest state is not known.
        why: String,
    },
    /// Nothing.
    None {
        /// Why.
        why: String,
    },
}

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

/// The order of versions: epoch and sequence of the record.
type Rank = (u64, u64);

/// A version of a page: where it lies, and its checksum. `None`: it was discarded.
struct Version {
    rank: Rank,
    place: Option<(u64, u32)>,
}

/// The records on the device.
#[derive(Default)]
struct FoundRecords {
    /// By logical page; the oldest version comes first.
    versions: BTreeMap<u64, Vec<Version>>,
    discards: Vec<(Rank, Range<u64>)>,
    /// By the position of the header: the rank, and the use of the segment.
    headers: BTreeMap<u32, (Rank, u64)>,
}

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
    let (map, state) = known_state(&mut io, &superblock);
    let headers = find_headers(&mut io, &layout, &superblock);
    let mut report = DumpReport {
        size: Bytes(layout.options.logical_pages * layout.options.page.0),
        records: headers.len() as u64,
        pages: 0,
        damaged: 0,
        map,
        missing: Vec::new(),
        older: Vec::new(),
    };
    let mut found = FoundRecords::default();
    headers.values().for_each(|header| found.add(header, &layout));
    let mut versions = std::mem::take(&mut found.versions).into_iter().peekable();
    let mut data = [ReadRange::new(0, layout.options.page)];
    for logical in 0..layout.options.logical_pages {
        let here = versions.next_if(|(page, _)| *page == logical).map_or(Vec::new(), |(_, here)| here);
        let wanted = match &state {
            Some(state) => match state.map.get(logical) {
                Some(location) => Some(Wanted::of(state, location, &found)),
                // The newest map says that it holds nothing.
                None if report.map == DumpMap::Newest => continue,
                None => None,
            },
            None => None,
        };
        let is_newest_map = report.map == DumpMap::Newest;
        let mut is_discarded = false;
        let mut taken = None;
        for version in in_order(&here, wanted.as_ref(), is_newest_map) {
            let Some((offset, checksum)) = version.place else {
                is_discarded = true;
                break;
            };
            data[0].offset = offset;
            let is_right = io.read(&mut data).is_ok()
                && page_checksum(superblock.uuid.seed(), logical, version.rank.1, data[0].bytes())
                    == checksum;
            if is_right {
                page(logical * layout.options.page.0, data[0].bytes())?;
                report.pages += 1;
                taken = Some(version.rank);
                break;
            }
            report.damaged += 1;
        }
        let Some(wanted) = wanted else { continue };
        match taken {
            Some(rank) if wanted.is_newer_than(rank) => add(&mut report.older, logical),
            Some(_) => {}
            None if is_discarded || (!is_newest_map && found.discards_later(logical, &wanted)) => {}
            None => add(&mut report.missing, logical),
        }
    }
    Ok(report)
}

/// The newest state, or what is known of an older one.
fn known_state<D: Device>(io: &mut DeviceIo<D>, superblock: &Superblock) -> (DumpMap, Option<Recovered>) {
    let why = match recover(io, superblock.clone(), None) {
        Ok(state) => return (DumpMap::Newest, Some(state)),
        Err(error) => error.to_string(),
    };
    match reachable_state(io, superblock.clone()) {
        // A volume that was closed in order has all of its map, also if the device has lost its end.
        Ok(state) if state.is_closed() && superblock.checkpoint == Some(state.checkpoint.name()) => {
            (DumpMap::Newest, Some(state))
        }
        Ok(state) if state.checkpoint.number > 0 => {
            (DumpMap::Older { checkpoint: state.checkpoint.number, why }, Some(state))
        }
        Ok(_) | Err(_) => (DumpMap::None { why }, None),
    }
}

/// The version of a page that the map names.
struct Wanted {
    /// `None`: its header is damaged.
    rank: Option<Rank>,
    /// Up to here each version of the page is older, or the one that the map names.
    checkpoint: Rank,
}

impl Wanted {
    fn of(state: &Recovered, location: Location, found: &FoundRecords) -> Wanted {
        let segment = location.position / state.superblock.layout.pages_per_segment();
        let use_of_segment = state.segments.get(segment as usize).map(|segment| segment.sequence);
        let header = found.headers.get(&location.header());
        let rank = header.filter(|(_, sequence)| Some(*sequence) == use_of_segment).map(|(rank, _)| *rank);
        Wanted { rank, checkpoint: (state.checkpoint.epoch, state.checkpoint.sequence) }
    }

    /// Whether the version with this rank is, or may be, an older one.
    fn is_newer_than(&self, rank: Rank) -> bool {
        match self.rank {
            Some(wanted) => rank < wanted,
            None => rank <= self.checkpoint,
        }
    }
}

/// The versions of a page in the order in which they are tried. The newest map decides; records that it does not have were cut.
fn in_order<'a>(
    versions: &'a [Version],
    wanted: Option<&Wanted>,
    is_newest_map: bool,
) -> impl Iterator<Item = &'a Version> {
    let rank = wanted.and_then(|wanted| wanted.rank).filter(|_| is_newest_map);
    let named = versions.iter().find(move |version| Some(version.rank) == rank && version.place.is_some());
    let others = versions.iter().rev();
    named.into_iter().chain(others.filter(move |version| {
        let is_named = named.is_some_and(|named| std::ptr::eq(named, *version));
        !is_named && (version.place.is_some() || !is_newest_map)
    }))
}

/// Adds a page to ranges in ascending order.
fn add(ranges: &mut Vec<PageRange>, page: u64) {
    match ranges.last_mut() {
        Some(last) if last.first + last.count == page => last.count += 1,
        _ => ranges.push(PageRange { first: page, count: 1 }),
    }
}

/// All record headers of the volume, by epoch and sequence.
fn find_headers<D: Device>(
    io: &mut DeviceIo<D>,
    layout: &VolumeLayout,
    superblock: &Superblock,
) -> BTreeMap<Rank, RecordHeader> {
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
                return headers;
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
    headers
}

impl FoundRecords {
    /// Adds the versions in a record. Records come in the order in which they were written.
    fn add(&mut self, header: &RecordHeader, layout: &VolumeLayout) {
        let rank = (header.epoch, header.sequence);
        self.headers.insert(header.position, (rank, header.segment_sequence));
        let mut position = header.position;
        for entry in &header.entries {
            position += u32::from(entry.has_data());
            match *entry {
                Entry::Write { page, checksum } | Entry::Copy { page, checksum }
                    if page < layout.options.logical_pages =>
                {
                    let place = Some((layout.offset(position), checksum));
                    self.versions.entry(page).or_default().push(Version { rank, place });
                }
                Entry::Discard { page, count } => {
                    let range = page..page.saturating_add(count.into());
                    for versions in self.versions.range_mut(range.clone()).map(|(_, versions)| versions) {
                        versions.push(Version { rank, place: None });
                    }
                    self.discards.push((rank, range));
                }
                _ => {}
            }
        }
    }

    /// Whether the page was discarded behind the version that an older map names.
    fn discards_later(&self, page: u64, wanted: &Wanted) -> bool {
        let covers = |(rank, range): &(Rank, Range<u64>)| {
            range.contains(&page) && *rank > wanted.rank.unwrap_or(wanted.checkpoint)
        };
        self.discards.iter().any(covers)
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::Nanos;
    use flashlab_device::MemoryDevice;

    use super::*;
    use crate::format::VolumeUuid;
    use crate::layout::LayoutOptions;
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
