//! Reads the catalogue from its log. It writes nothing, and can go on behind damage.
//!
//! # Method
//! 1. Page 0 says which log is the newest. Where it is damaged, the log with the highest generation is looked for.
//! 2. The pages of that log are read in their order, and their changes are applied. A page that is damaged is a fault. So is one that is not
//!    there although the log was begun with it.
//! 3. What is wrong with the catalogue as a whole is found afterwards: pages that two files have, and names that no file may have.
//!
//! # Invariants
//! - Without a fault the catalogue is that of the newest change. With one nobody may go on with it.

use std::collections::BTreeSet;

use super::catalogue::Catalogue;
use super::change::Change;
use super::file::{FileId, FileKind};
use super::places::{FilesLayout, HEADER_MAGIC, LOG_PAGES_MAX, LOG_PAGES_MIN, PAGE_HEADER, PAGE_MAGIC};
use super::space::Space;
use crate::error::RepairError;
use crate::format::{Decoder, FILES_VERSION};

const HEADER: &str = "the header of the catalogue";
const CATALOGUE: &str = "the catalogue of files";

/// Reads a page of the volume, as a whole or its beginning.
pub(crate) type ReadPage<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> Result<(), RepairError>;

/// What page 0 says.
pub(crate) struct HeaderOfLog {
    pub version: u32,
    /// Of the newest log.
    pub generation: u64,
    /// The pages with which it was begun.
    pub complete: u64,
    /// The pages that each log has.
    pub log_pages: u64,
}

/// Where the log ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadTo {
    /// At the first page that it does not have.
    TheEnd,
    /// At its last page that is found. The map is not known, so pages before it may be missing.
    TheLastPage,
}

/// What the log of a catalogue has.
pub(crate) struct ReadCatalogue {
    pub layout: FilesLayout,
    /// The last page of the log, and its changes.
    pub index: u64,
    pub changes: Vec<u8>,
    pub catalogue: Catalogue,
    /// What is wrong, in the order of the log.
    pub faults: Vec<RepairError>,
}

/// Reads page 0. `None`: it is empty.
///
/// # Errors
/// When it cannot be read, is damaged, or is none of a catalogue.
pub(crate) fn header(
    read: ReadPage<'_>,
    layout: FilesLayout,
    seed: u32,
) -> Result<Option<HeaderOfLog>, RepairError> {
    let mut page = vec![0; layout.page as usize];
    read(0, &mut page)?;
    if page.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let header = decode_header(&page, seed)?;
    let own = FilesLayout { log_pages: header.log_pages, ..layout };
    if !(LOG_PAGES_MIN..=LOG_PAGES_MAX).contains(&header.log_pages) || layout.pages <= own.data() {
        return Err(damaged(HEADER, 0, "its log does not fit the volume"));
    }
    Ok(Some(header))
}

/// Looks for the newest log where page 0 does not name it. Whether that log was begun completely is not known.
pub(crate) fn searched_header(read: ReadPage<'_>, layout: FilesLayout, seed: u32) -> Option<HeaderOfLog> {
    let mut page = vec![0; layout.page as usize];
    let mut newest: Option<(u64, u64)> = None;
    let mut second_log = None;
    for at in 1..layout.pages.min(1 + 2 * LOG_PAGES_MAX) {
        let Ok(()) = read(at, &mut page) else { continue };
        let Some((generation, index)) = place_of(&page, seed).filter(|(_, index)| *index < at) else {
            continue;
        };
        let begin = at - index;
        if begin > 1 {
            second_log = Some(begin);
        }
        newest = newest.max(Some((generation, begin)));
    }
    let (generation, _) = newest?;
    // The second log lies behind the first one.
    let log_pages = second_log.map_or(layout.log_pages, |begin| begin - 1);
    Some(HeaderOfLog { version: FILES_VERSION, generation, complete: 0, log_pages })
}

/// Reads the log that a header names.
pub(crate) fn catalogue(
    read: ReadPage<'_>,
    layout: FilesLayout,
    seed: u32,
    header: &HeaderOfLog,
    to: ReadTo,
) -> ReadCatalogue {
    // It stays when the volume is resized.
    let layout = FilesLayout { log_pages: header.log_pages, ..layout };
    let catalogue = Catalogue::new(layout.page);
    let mut found = ReadCatalogue { layout, index: 0, changes: Vec::new(), catalogue, faults: Vec::new() };
    let mut page = vec![0; layout.page as usize];
    let mut gap: Option<u64> = None;
    for index in 0..layout.log_pages {
        let at = layout.log_page(header.generation, index);
        let offset = at * layout.page;
        if let Err(error) = read(at, &mut page) {
            found.faults.push(error);
            continue;
        }
        let changes = match decode_page(&page, seed, header.generation, index) {
            Ok(Some(changes)) => changes,
            Ok(None) if index < header.complete => {
                found.faults.push(damaged(CATALOGUE, offset, "a page of its log is missing"));
                continue;
            }
            Ok(None) if to == ReadTo::TheEnd => break,
            Ok(None) => {
                gap = gap.or(Some(offset));
                continue;
            }
            Err(why) => {
                found.faults.push(damaged(CATALOGUE, offset, why));
                continue;
            }
        };
        if let Some(gap) = gap.take() {
            found.faults.push(damaged(CATALOGUE, gap, "pages of its log are missing"));
        }
        let mut from = Decoder::new(changes);
        while from.at() < changes.len() {
            let Some(change) = Change::decode(&mut from) else {
                found.faults.push(damaged(CATALOGUE, offset, "it has an unknown change"));
                break;
            };
            if let Err(why) = found.catalogue.apply(&change) {
                found.faults.push(damaged(CATALOGUE, offset, why));
            }
        }
        (found.index, found.changes) = (index, changes.to_vec());
    }
    found
}

/// The space that a catalogue leaves, and what is wrong with it as a whole.
pub(crate) fn space_and_faults(catalogue: &Catalogue, layout: FilesLayout) -> (Space, Vec<RepairError>) {
    let mut faults = Vec::new();
    let mut space = Space::new(layout.data(), layout.pages - layout.data());
    for (id, node) in catalogue.nodes() {
        for (_, pages) in node.extents.iter() {
            if space.take(pages) {
                continue;
            }
            let at = pages.first.saturating_mul(layout.page);
            let why = format!("file {} has a page that another file has, or that no file can have", id.0);
            faults.push(damaged(CATALOGUE, at, &why));
        }
        if node.links == 0 && !node.names.is_empty() {
            faults.push(damaged(CATALOGUE, 0, &format!("directory {} has files and no name", id.0)));
        }
        for name in node.names.keys().filter(|name| !is_name(name)) {
            let name = String::from_utf8_lossy(name);
            let why = format!("directory {} has {name:?}, which cannot be the name of a file", id.0);
            faults.push(damaged(CATALOGUE, 0, &why));
        }
    }
    let reached = reached(catalogue);
    let nodes = catalogue.nodes().filter(|(id, node)| node.links > 0 && !reached.contains(id));
    for (id, _) in nodes {
        faults.push(damaged(CATALOGUE, 0, &format!("file {} lies in no directory that can be found", id.0)));
    }
    (space, faults)
}

/// Whether a file may have this name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// The files that the root directory leads to.
pub(crate) fn reached(catalogue: &Catalogue) -> BTreeSet<FileId> {
    let mut reached = BTreeSet::from([FileId::ROOT]);
    let mut left = vec![FileId::ROOT];
    while let Some(node) = left.pop().and_then(|id| catalogue.node(id)) {
        let found = node.names.iter().filter(|(name, id)| is_name(name) && reached.insert(**id));
        for (_, &id) in found {
            if catalogue.node(id).is_some_and(|node| node.kind == FileKind::Directory) {
                left.push(id);
            }
        }
    }
    reached
}

/// Whether page 0 is the header of a catalogue. Where it cannot be read, the first pages of the logs decide.
pub(crate) fn holds_files(read: ReadPage<'_>, layout: FilesLayout) -> bool {
    let mut page = vec![0; layout.page as usize];
    match read(0, &mut page) {
        Ok(()) => page.starts_with(HEADER_MAGIC),
        Err(_) => [0, 1].into_iter().any(|generation| {
            read(layout.log_page(generation, 0), &mut page).is_ok() && page.starts_with(PAGE_MAGIC)
        }),
    }
}

fn decode_header(page: &[u8], seed: u32) -> Result<HeaderOfLog, RepairError> {
    let mut from = Decoder::new(page);
    if from.array::<8>() != *HEADER_MAGIC {
        return Err(RepairError::NoFiles);
    }
    let (version, crc) = (from.u32(), from.u32());
    if !(1..=FILES_VERSION).contains(&version) {
        return Err(RepairError::OtherFilesVersion(version));
    }
    let mut checked = page.to_vec();
    checked[12..16].fill(0);
    if crc32c::crc32c_append(seed, &checked) != crc {
        return Err(damaged(HEADER, 0, "its checksum is wrong"));
    }
    let (generation, log_pages, complete) = (from.u64(), from.u64(), from.u64());
    Ok(HeaderOfLog { version, generation, complete, log_pages })
}

/// The generation and the index of a page of any log, if it is one.
fn place_of(page: &[u8], seed: u32) -> Option<(u64, u64)> {
    let mut from = Decoder::new(page);
    from.slice(16)?;
    let (generation, index) = (from.u64(), u64::from(from.u32()));
    decode_page(page, seed, generation, index).ok().flatten().map(|_| (generation, index))
}

/// The changes of a page. `None`: it is none of this log.
fn decode_page(page: &[u8], seed: u32, generation: u64, index: u64) -> Result<Option<&[u8]>, &'static str> {
    let mut from = Decoder::new(page);
    if from.array::<8>() != *PAGE_MAGIC {
        return Ok(None);
    }
    let (crc, length) = (from.u32(), from.u32() as usize);
    let Some(checked) = page.get(12..length) else { return Err("a page of it has an impossible length") };
    if crc32c::crc32c_append(seed, checked) != crc {
        return Err("a page of it has the wrong checksum");
    }
    if from.u64() != generation {
        return Ok(None);
    }
    if u64::from(from.u32()) != index || length < PAGE_HEADER {
        return Err("a page of it lies at another page's place");
    }
    Ok(Some(&page[PAGE_HEADER..length]))
}

pub(crate) fn damaged(what: &'static str, offset: u64, why: &str) -> RepairError {
    RepairError::DamagedFiles { what, offset, why: why.to_owned() }
}
