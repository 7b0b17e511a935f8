//! Verifies a volume offline: every structure and every page.
//!
//! # Method
//! 1. Recovery reads superblocks, the image of the map, checkpoints and the newest records, and finds what is damaged there.
//! 2. Each page of the map is read and verified against its record's header, segment by segment.
//! 3. Two logical pages in one place are found by their positions.
//! 4. If the volume has files, the changes in the pages of their catalogue are applied, as a mount does it.

use std::collections::BTreeMap;

use flashlab_base::Bytes;
use flashlab_device::Device;

use crate::counters::VolumeCounters;
use crate::device_io::{DeviceIo, ReadRange};
use crate::error::RepairError;
use crate::files::{FilesCheck, FilesLayout, check_files};
use crate::format::record::page_checksum;
use crate::format::superblock::Superblock;
use crate::header_cache::KnownHeader;
use crate::map::Location;
use crate::recovery::{Recovered, recover};
use crate::segment_table::SegmentState;
use crate::superblock_io::{damaged_copies, read_superblock};

/// A page that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPage {
    /// The logical page.
    pub page: u64,
    /// Where it should lie on the device.
    pub offset: u64,
    /// What is wrong.
    pub why: String,
}

/// A volume that is not open, as the device has it.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeSummary {
    /// The superblock.
    pub superblock: Superblock,
    /// Pages that hold data.
    pub mapped_pages: u64,
    /// Segments without live pages.
    pub free_segments: u32,
    /// For each log: segments, and live pages in them.
    pub logs: Vec<(u32, u64)>,
    /// Records behind the last checkpoint, which the next mount replays.
    pub records_to_replay: u64,
    /// What the volume did over its life, up to the last checkpoint.
    pub counters: VolumeCounters,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckReport {
    /// The volume.
    pub summary: VolumeSummary,
    /// Pages that were read and are right.
    pub right_pages: u64,
    /// Pages that are not.
    pub damaged: Vec<DamagedPage>,
    /// What the catalogue of files says; `None`: there are no files.
    pub files: Option<FilesCheck>,
    /// Where copies of the superblock are damaged. A crash can leave two so, which the next mounts write again.
    pub damaged_superblocks: Vec<u64>,
}

/// Describes a volume without opening it for writing.
///
/// # Errors
/// As for opening it.
pub fn summarize<D: Device>(device: D) -> Result<VolumeSummary, RepairError> {
    let mut io = DeviceIo::new(device, Bytes::ZERO, 0);
    let superblock = read_superblock(&mut io)?;
    Ok(summary(&recover(&mut io, superblock, None)?))
}

/// Verifies every page of a volume. `progress` gets the number of logical pages that were looked at.
///
/// # Errors
/// When the volume cannot be recovered: what would be needed to open it is damaged.
pub fn check<D: Device>(device: D, progress: &mut dyn FnMut(u64)) -> Result<CheckReport, RepairError> {
    let mut io = DeviceIo::new(device, Bytes::ZERO, 0);
    let superblock = read_superblock(&mut io)?;
    let recovered = recover(&mut io, superblock, None)?;
    let mut report = CheckReport {
        summary: summary(&recovered),
        right_pages: 0,
        damaged: Vec::new(),
        files: None,
        damaged_superblocks: damaged_copies(&mut io, &recovered.superblock),
    };
    // In the order of the device: each header is read once, and reads are sequential.
    let mut places: Vec<(Location, u64)> = (0..recovered.map.pages())
        .filter_map(|page| recovered.map.get(page).map(|location| (location, page)))
        .collect();
    places.sort_unstable_by_key(|(location, _)| location.position);
    let mut owners: BTreeMap<u32, u64> = BTreeMap::new();
    let mut header: Option<KnownHeader> = None;
    let page_size = recovered.superblock.layout.options.page;
    let mut data = [ReadRange::new(0, page_size)];
    for (looked_at, &(location, page)) in places.iter().enumerate() {
        if header.as_ref().is_none_or(|header| header.position() != location.header()) {
            header = read_header(&mut io, &recovered, location);
            owners.clear();
        }
        data[0].offset = recovered.superblock.layout.offset(location.position);
        let why = match (&header, owners.insert(location.position, page)) {
            (_, Some(other)) => Some(format!("page {other} of the volume lies in the same place")),
            (None, _) => Some("the header of its record is damaged".to_owned()),
            (Some(header), None) => match io.read(&mut data) {
                Err(error) => Some(error.to_string()),
                Ok(()) => {
                    let seed = recovered.superblock.uuid.seed();
                    let found = page_checksum(seed, page, header.sequence(), data[0].bytes());
                    (header.checksum(location.distance, page) != Some(found))
                        .then(|| "its checksum is not that of this page".to_owned())
                }
            },
        };
        match why {
            None => report.right_pages += 1,
            Some(why) => report.damaged.push(DamagedPage { page, offset: data[0].offset, why }),
        }
        progress(looked_at as u64 + 1);
    }
    let options = &recovered.superblock.layout.options;
    let layout = FilesLayout::of(options.page.0, options.logical_pages);
    let seed = recovered.superblock.uuid.seed();
    let mut read = |page, bytes: &mut [u8]| read_page(&mut io, &recovered, page, bytes);
    report.files = check_files(&mut read, layout, seed);
    Ok(report)
}

/// Reads a page as a mounted volume does.
fn read_page<D: Device>(
    io: &mut DeviceIo<D>,
    recovered: &Recovered,
    page: u64,
    bytes: &mut [u8],
) -> Result<(), RepairError> {
    let Some(location) = recovered.map.get(page) else {
        bytes.fill(0);
        return Ok(());
    };
    let layout = &recovered.superblock.layout;
    let offset = layout.offset(location.position);
    let wrong = |why: &str| RepairError::Damaged { what: "a page", offset, why: why.to_owned() };
    let Some(header) = read_header(io, recovered, location) else {
        return Err(wrong(&format!("page {page} of the volume: the header of its record is damaged")));
    };
    let mut data = [ReadRange::new(offset, layout.options.page)];
    io.read(&mut data)?;
    let found = page_checksum(recovered.superblock.uuid.seed(), page, header.sequence(), data[0].bytes());
    if header.checksum(location.distance, page) != Some(found) {
        return Err(wrong(&format!("page {page} of the volume: its checksum is not that of this page")));
    }
    bytes.copy_from_slice(&data[0].bytes()[..bytes.len()]);
    Ok(())
}

fn read_header<D: Device>(
    io: &mut DeviceIo<D>,
    recovered: &Recovered,
    location: Location,
) -> Option<KnownHeader> {
    let layout = &recovered.superblock.layout;
    let mut range = [ReadRange::new(layout.offset(location.header()), layout.options.page)];
    io.read(&mut range).ok()?;
    let header = KnownHeader::read(recovered.superblock.uuid.seed(), range[0].bytes())?;
    let segment = &recovered.segments[(location.position / layout.pages_per_segment()) as usize];
    let is_right = header.position() == location.header() && header.segment_sequence() == segment.sequence;
    is_right.then_some(header)
}

fn summary(recovered: &Recovered) -> VolumeSummary {
    let mut logs: Vec<(u32, u64)> = Vec::new();
    let mut free_segments = 0;
    for segment in &recovered.segments {
        if segment.state == SegmentState::Free {
            free_segments += 1;
            continue;
        }
        let log = usize::from(segment.log.0);
        if logs.len() <= log {
            logs.resize(log + 1, (0, 0));
        }
        logs[log].0 += 1;
        logs[log].1 += u64::from(segment.live_pages);
    }
    VolumeSummary {
        superblock: recovered.superblock.clone(),
        mapped_pages: recovered.map.mapped(),
        free_segments,
        logs,
        records_to_replay: recovered.replayed,
        counters: VolumeCounters::from_array(recovered.checkpoint.counters),
    }
}
