//! Files of a volume that cannot be mounted, and the check of a catalogue: what its log says, and what is missing.
//!
//! # Method
//! 1. The catalogue is read from what is left of its log. What does not fit is left out and is a fault.
//! 2. The directory tree is followed from its root. With faults, files that no name leads to are found by their number.
//! 3. The data of a file is read page by page. Each page of which nothing, or only an older version, is left is listed.
//!
//! # Limits
//! - A fault in the catalogue may concern any file: pages that a file got in a change that is lost look like a hole of it.

use std::collections::BTreeSet;

use flashlab_base::Bytes;
use flashlab_device::Device;

use super::catalogue::{Catalogue, Node};
use super::extents::VolumePages;
use super::file::{FileId, FileKind, FileStatus};
use super::places::FilesLayout;
use super::reading::{self, HeaderOfLog, ReadPage, ReadTo, damaged, is_name};
use crate::dump::{PageRange, add};
use crate::error::RepairError;
use crate::salvaged::{DumpMap, SalvagedPage, SalvagedVolume};

/// The directory in which files are that no name leads to.
const NAMELESS: &str = "flashlab-nameless";
/// The longest target of a symbolic link, in bytes, as in Linux.
const TARGET_MAX: u64 = 4095;

/// What the catalogue of a volume says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesCheck {
    /// Files and directories, except for the root.
    pub files: u64,
    /// What is wrong.
    pub faults: Vec<String>,
}

/// Verifies the catalogue of a volume. `None`: it holds no files.
pub(crate) fn check_files(read: ReadPage<'_>, layout: FilesLayout, seed: u32) -> Option<FilesCheck> {
    if !reading::holds_files(read, layout) {
        return None;
    }
    let header = match reading::header(read, layout, seed) {
        Ok(header) => header?,
        Err(error) => return Some(FilesCheck { files: 0, faults: vec![error.to_string()] }),
    };
    let mut found = reading::catalogue(read, layout, seed, &header, ReadTo::TheEnd);
    found.faults.extend(reading::space_and_faults(&found.catalogue, found.layout).1);
    let faults = found.faults.iter().map(ToString::to_string).collect();
    Some(FilesCheck { files: found.catalogue.nodes().count() as u64 - 1, faults })
}

/// The files of a volume that is only read.
pub struct SalvagedFiles<D> {
    volume: SalvagedVolume<D>,
    layout: FilesLayout,
    catalogue: Catalogue,
    faults: Vec<RepairError>,
    /// Files of which a page is another file's, too.
    doubtful: BTreeSet<FileId>,
}

/// A name of a file, or of a directory.
#[derive(Clone, Debug, PartialEq)]
pub struct SalvagedEntry {
    /// From the root, without a `/` in front.
    pub path: Vec<u8>,
    /// What is known of it. An entry with the number of an earlier one is another name of that file.
    pub status: FileStatus,
    /// Whether a page of it is another file's, too, so that nobody knows whose data it is.
    pub is_doubtful: bool,
}

/// The pages of a file that could not be read, by their number in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvagedRanges {
    /// Nothing is left of them.
    pub missing: Vec<PageRange>,
    /// What is left is, or may be, older.
    pub older: Vec<PageRange>,
}

impl<D: Device> SalvagedFiles<D> {
    /// Reads what is left of the catalogue.
    ///
    /// # Errors
    /// When no superblock and no page of a catalogue is left, and [`RepairError::NoFiles`].
    pub fn open(device: D) -> Result<SalvagedFiles<D>, RepairError> {
        let mut volume = SalvagedVolume::open(device)?;
        let options = volume.superblock.layout.options;
        let seed = volume.superblock.uuid.seed();
        let layout = FilesLayout::of(options.page.0, options.logical_pages);
        let mut older = Vec::new();
        let mut read = |page, bytes: &mut [u8]| read_page(&mut volume, &mut older, page, bytes);
        let (header, fault) = find_header(&mut read, layout, seed)?;
        let is_newest_map = volume.map == DumpMap::Newest;
        let to = if is_newest_map && fault.is_none() { ReadTo::TheEnd } else { ReadTo::TheLastPage };
        older.clear();
        let mut read = |page, bytes: &mut [u8]| read_page(&mut volume, &mut older, page, bytes);
        let found = reading::catalogue(&mut read, layout, seed, &header, to);
        let mut faults: Vec<RepairError> = fault.into_iter().chain(found.faults).collect();
        let why = "only an older version of a page of its log is left";
        faults.extend(older.iter().map(|page| damaged("the catalogue of files", page * layout.page, why)));
        faults.extend(reading::space_and_faults(&found.catalogue, found.layout).1);
        let doubtful = doubtful(&found.catalogue, found.layout);
        Ok(SalvagedFiles { volume, layout: found.layout, catalogue: found.catalogue, faults, doubtful })
    }

    /// What is known of the pages that there have to be.
    pub fn map(&self) -> &DumpMap {
        &self.volume.map
    }

    /// What is wrong with the catalogue.
    pub fn faults(&self) -> impl Iterator<Item = String> {
        self.faults.iter().map(ToString::to_string)
    }

    /// The size of a page.
    pub fn page_size(&self) -> Bytes {
        Bytes(self.layout.page)
    }

    /// The root directory.
    pub fn root(&self) -> FileStatus {
        self.status(FileId::ROOT, self.catalogue_root())
    }

    /// All names, each directory before what it holds.
    pub fn entries(&self) -> Vec<SalvagedEntry> {
        let mut entries = Vec::new();
        let mut reached = BTreeSet::from([FileId::ROOT]);
        self.add_names(FileId::ROOT, b"", &mut reached, &mut entries);
        if self.faults.is_empty() {
            return entries;
        }
        let root = self.catalogue_root();
        let free =
            |number: u64| if number == 0 { NAMELESS.to_owned() } else { format!("{NAMELESS}-{number}") };
        let directory = (0..).map(free).find(|name| !root.names.contains_key(name.as_bytes()));
        let directory = directory.unwrap_or_default();
        let left: Vec<FileId> = self.catalogue.nodes().map(|(id, _)| id).collect();
        // A directory is tried before what lies in one that is lost, too.
        let is_directory =
            |id: &FileId| self.catalogue.node(*id).is_some_and(|node| node.kind == FileKind::Directory);
        let (directories, files): (Vec<FileId>, Vec<FileId>) = left.into_iter().partition(is_directory);
        for id in directories.into_iter().chain(files) {
            if reached.insert(id) {
                let path = format!("{directory}/{}", id.0).into_bytes();
                self.add_entry(id, path, &mut reached, &mut entries);
            }
        }
        entries
    }

    /// Extended attributes of a file: names without `user.`, and values.
    pub fn extended(&self, id: FileId) -> Vec<(Vec<u8>, Vec<u8>)> {
        let node = self.catalogue.node(id);
        node.map_or_else(Vec::new, |node| node.extended.clone().into_iter().collect())
    }

    /// Hands what is left of a file's data to `data`, with its offset in the file.
    ///
    /// # Errors
    /// Those of `data`.
    pub fn read<E>(
        &mut self,
        id: FileId,
        mut data: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<SalvagedRanges, E> {
        let mut ranges = SalvagedRanges::default();
        let Some(node) = self.catalogue.node(id) else { return Ok(ranges) };
        let (page, size) = (self.layout.page, node.size);
        for (file_page, pages) in node.extents.iter() {
            let end = size.div_ceil(page).min(file_page.saturating_add(pages.count));
            for at in file_page..end {
                let logical = pages.first + (at - file_page);
                if logical >= self.layout.pages {
                    ranges.missing.push(PageRange { first: at, count: end - at });
                    break;
                }
                match self.volume.find(logical) {
                    SalvagedPage::Absent => continue,
                    SalvagedPage::Missing => {
                        add(&mut ranges.missing, at);
                        continue;
                    }
                    SalvagedPage::Older => add(&mut ranges.older, at),
                    SalvagedPage::Right => {}
                }
                let length = (size - at * page).min(page) as usize;
                data(at * page, &self.volume.data()[..length])?;
            }
        }
        Ok(ranges)
    }

    /// The target of a symbolic link; `None`: it is not known.
    pub fn target(&mut self, id: FileId) -> Option<Vec<u8>> {
        let size = self.catalogue.node(id)?.size;
        let mut target = vec![0; usize::try_from(size.min(TARGET_MAX)).ok()?];
        let read = self.read(id, |offset, data| {
            let end = (offset as usize + data.len()).min(target.len());
            let begin = (offset as usize).min(end);
            target[begin..end].copy_from_slice(&data[..end - begin]);
            Ok::<(), RepairError>(())
        });
        let is_right = read.is_ok_and(|ranges| ranges == SalvagedRanges::default());
        (is_right && size <= TARGET_MAX && !target.is_empty() && !target.contains(&0)).then_some(target)
    }

    fn catalogue_root(&self) -> &Node {
        self.catalogue.node(FileId::ROOT).expect("a catalogue begins with a root directory, which has a name")
    }

    fn add_names(
        &self,
        directory: FileId,
        path: &[u8],
        reached: &mut BTreeSet<FileId>,
        entries: &mut Vec<SalvagedEntry>,
    ) {
        let Some(node) = self.catalogue.node(directory) else { return };
        for (name, &id) in node.names.iter().filter(|(name, _)| is_name(name)) {
            let mut path = path.to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let is_new = reached.insert(id);
            let is_directory = self.catalogue.node(id).is_some_and(|node| node.kind == FileKind::Directory);
            if is_new || !is_directory {
                self.add_entry(id, path, reached, entries);
            }
        }
    }

    fn add_entry(
        &self,
        id: FileId,
        path: Vec<u8>,
        reached: &mut BTreeSet<FileId>,
        entries: &mut Vec<SalvagedEntry>,
    ) {
        let Some(node) = self.catalogue.node(id) else { return };
        let (status, is_doubtful) = (self.status(id, node), self.doubtful.contains(&id));
        entries.push(SalvagedEntry { path: path.clone(), status, is_doubtful });
        self.add_names(id, &path, reached, entries);
    }

    fn status(&self, id: FileId, node: &Node) -> FileStatus {
        FileStatus {
            id,
            kind: node.kind,
            attributes: node.attributes,
            size: Bytes(node.size),
            allocated: Bytes(
                node.extents.iter().map(|(_, pages)| pages.count).sum::<u64>() * self.layout.page,
            ),
            links: node.links,
        }
    }
}

/// The header, and what is wrong with it.
fn find_header(
    read: ReadPage<'_>,
    layout: FilesLayout,
    seed: u32,
) -> Result<(HeaderOfLog, Option<RepairError>), RepairError> {
    let fault = match reading::header(read, layout, seed) {
        Ok(Some(header)) => return Ok((header, None)),
        Ok(None) => RepairError::NoFiles,
        Err(error @ (RepairError::NoFiles | RepairError::OtherFilesVersion(_))) => return Err(error),
        Err(error) => error,
    };
    match reading::searched_header(read, layout, seed) {
        Some(header) => {
            let why = format!(
                "{fault}; taken is log {}, which is the newest unless it was just begun",
                header.generation
            );
            Ok((header, Some(damaged("the header of the catalogue", 0, &why))))
        }
        None => Err(fault),
    }
}

/// Reads a page as a volume that is mounted does. `older` gets its number if only an older version is left.
fn read_page<D: Device>(
    volume: &mut SalvagedVolume<D>,
    older: &mut Vec<u64>,
    page: u64,
    bytes: &mut [u8],
) -> Result<(), RepairError> {
    match volume.find(page) {
        SalvagedPage::Absent => bytes.fill(0),
        SalvagedPage::Missing => {
            let offset = page * volume.superblock.layout.options.page.0;
            return Err(damaged("the catalogue of files", offset, "nothing is left of a page of its log"));
        }
        found => {
            bytes.copy_from_slice(&volume.data()[..bytes.len()]);
            if found == SalvagedPage::Older {
                older.push(page);
            }
        }
    }
    Ok(())
}

/// Files of which a page is another file's, too.
fn doubtful(catalogue: &Catalogue, layout: FilesLayout) -> BTreeSet<FileId> {
    let extents =
        catalogue.nodes().flat_map(|(id, node)| node.extents.iter().map(move |(_, pages)| (pages, id)));
    let mut extents: Vec<(VolumePages, FileId)> = extents.collect();
    extents.sort_unstable_by_key(|(pages, id)| (pages.first, pages.count, *id));
    let mut doubtful = BTreeSet::new();
    // The extent that ends last of those so far.
    let mut last: Option<(u64, FileId)> = None;
    for (pages, id) in extents {
        let end = pages.first.saturating_add(pages.count);
        if pages.first < layout.data() {
            doubtful.insert(id);
        }
        if let Some((_, other)) = last.filter(|(before, _)| pages.first < *before) {
            doubtful.extend([id, other]);
        }
        if last.is_none_or(|(before, _)| before < end) {
            last = Some((end, id));
        }
    }
    doubtful
}
