//! The pages of a volume that cannot be opened.
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
    records: u64,
}

/// What is left of a logical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SalvagedPage {
    /// The version that the map names; without a map, the newest one.
    Right,
    /// A version that is, or may be, older than the one that the map names.
    Older,
    /// The map has it, and no version of it was found.
    Missing,
    /// It holds nothing, as far as is known.
    Absent,
}

/// A volume that is only read, page by page.
pub(crate) struct SalvagedVolume<D> {
    io: DeviceIo<D>,
    pub superblock: Superblock,
    pub map: DumpMap,
    /// Versions of pages whose checksum was wrong.
    pub damaged: u64,
    state: Option<Recovered>,
    found: FoundRecords,
    data: [ReadRange; 1],
}

impl<D: Device> SalvagedVolume<D> {
    /// Finds what the device has of the volume.
    ///
    /// # Errors
    /// When no superblock is left.
    pub fn open(device: D) -> Result<SalvagedVolume<D>, RepairError> {
        let mut io = DeviceIo::new(device, Bytes::ZERO, 0);
        let superblock = newest_superblock(&mut io)?;
        let layout = superblock.layout.clone();
        let (map, state) = known_state(&mut io, &superblock);
        let mut found = FoundRecords::default();
        find_headers(&mut io, &layout, &superblock).values().for_each(|header| found.add(header, &layout));
        let data = [ReadRange::new(0, layout.options.page)];
        Ok(SalvagedVolume { io, superblock, map, damaged: 0, state, found, data })
    }

    /// The number of records.
    pub fn records(&self) -> u64 {
        self.found.records
    }

    /// What the last page that was found holds.
    pub fn data(&self) -> &[u8] {
        self.data[0].bytes()
    }

    /// Looks for a page of the volume. If it is right or older, `data` has it afterwards.
    pub fn find(&mut self, logical: u64) -> SalvagedPage {
        let is_newest_map = self.map == DumpMap::Newest;
        let wanted = match &self.state {
            Some(state) => match state.map.get(logical) {
                Some(location) => Some(Wanted::of(state, location, &self.found)),
                // The newest map says that it holds nothing.
                None if is_newest_map => return SalvagedPage::Absent,
                None => None,
            },
            None => None,
        };
        let here = self.found.versions.get(&logical).map_or(&[][..], Vec::as_slice);
        for version in in_order(here, wanted.as_ref(), is_newest_map) {
            let Some((offset, checksum)) = version.place else {
                return SalvagedPage::Absent;
            };
            self.data[0].offset = offset;
            let is_right = self.io.read(&mut self.data).is_ok()
                && page_checksum(self.superblock.uuid.seed(), logical, version.rank.1, self.data[0].bytes())
                    == checksum;
            if is_right {
                return match &wanted {
                    Some(wanted) if wanted.is_newer_than(version.rank) => SalvagedPage::Older,
                    _ => SalvagedPage::Right,
                };
            }
            self.damaged += 1;
        }
        match &wanted {
            Some(wanted) if is_newest_map || !self.found.discards_later(logical, wanted) => {
                SalvagedPage::Missing
            }
            _ => SalvagedPage::Absent,
        }
    }
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
        self.records += 1;
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
