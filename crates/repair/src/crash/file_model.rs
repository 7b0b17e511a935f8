//! What a directory has to look like after each step of the host's operations.
//!
//! # Method
//! An operation is a few steps, each of which a power failure may come behind: a page that is overwritten, pages and a size, a name.
//! Behind each of them the model notes a digest of all that a program can see. What is mounted after a crash has to have one of these
//! digests. The times of files are recorded later than the operations that change them: by a sync, or with another attribute.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use flashlab_device::Device;

use super::history::PAGE;
use crate::error::RepairError;
use crate::files::{FileAttributes, FileId, FileKind, Files, RECORDED_AT_ONCE};

/// The pages of a file that scenarios use.
const PAGES_OF_FILE: u64 = 40;

/// A file of the model.
#[derive(Clone, Debug)]
struct ModelFile {
    kind: FileKind,
    /// As they are recorded.
    attributes: FileAttributes,
    /// With times that are not recorded yet.
    newest: FileAttributes,
    extended: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What was written, also what lies beyond the size yet.
    data: Vec<u8>,
    size: usize,
    /// The pages that the file has on the volume.
    allocated: BTreeSet<usize>,
    names: BTreeMap<Vec<u8>, FileId>,
}

impl ModelFile {
    fn new(kind: FileKind, attributes: FileAttributes) -> ModelFile {
        ModelFile {
            kind,
            attributes,
            newest: attributes,
            extended: BTreeMap::new(),
            data: Vec::new(),
            size: 0,
            allocated: BTreeSet::new(),
            names: BTreeMap::new(),
        }
    }

    fn put(&mut self, offset: usize, data: &[u8]) {
        self.data.resize(self.data.len().max(offset + data.len()), 0);
        self.data[offset..][..data.len()].copy_from_slice(data);
    }
}

/// All files, and the digests behind all steps so far.
#[derive(Clone, Debug)]
pub(crate) struct FileModel {
    files: BTreeMap<FileId, ModelFile>,
    pub digests: Vec<u64>,
}

impl FileModel {
    /// What the files on a volume are now, after the steps with these digests.
    pub fn read<D: Device>(files: &mut Files<D>, digests: Vec<u64>) -> Result<FileModel, RepairError> {
        let mut model = FileModel { files: BTreeMap::new(), digests };
        model.read_file(files, FileId::ROOT)?;
        Ok(model)
    }

    fn read_file<D: Device>(&mut self, files: &mut Files<D>, id: FileId) -> Result<(), RepairError> {
        let status = files.status(id)?;
        let mut file = ModelFile::new(status.kind, status.attributes);
        file.size = status.size.0 as usize;
        file.data = vec![0; file.size];
        file.allocated =
            (0..PAGES_OF_FILE).filter(|page| files.has_page(id, *page)).map(|page| page as usize).collect();
        for name in files.extended_names(id)? {
            let value = files.extended(id, &name)?.to_vec();
            file.extended.insert(name, value);
        }
        match status.kind {
            FileKind::Regular => drop(files.read(id, 0, &mut file.data)?),
            FileKind::SymbolicLink => file.data = files.read_link(id)?,
            FileKind::Directory => {
                for (name, entry) in files.entries(id)? {
                    if !self.files.contains_key(&entry.id) {
                        self.read_file(files, entry.id)?;
                    }
                    file.names.insert(name, entry.id);
                }
            }
        }
        self.files.insert(id, file);
        Ok(())
    }

    /// A digest of what a program can see.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash_directory(FileId::ROOT, &mut hasher);
        hasher.finish()
    }

    fn hash_directory(&self, id: FileId, hasher: &mut DefaultHasher) {
        let Some(directory) = self.files.get(&id) else { return };
        hash_attributes(directory, hasher);
        directory.names.len().hash(hasher);
        for (name, id) in &directory.names {
            name.hash(hasher);
            match self.files.get(id) {
                Some(file) if file.kind != FileKind::Directory => {
                    hash_attributes(file, hasher);
                    (file.kind == FileKind::Regular, self.links(*id)).hash(hasher);
                    file.data[..file.size].hash(hasher);
                }
                _ => self.hash_directory(*id, hasher),
            }
        }
    }

    fn links(&self, id: FileId) -> usize {
        let names = self.files.values().flat_map(|file| file.names.values());
        names.filter(|named| **named == id).count()
    }

    /// Notes that a step is done.
    pub fn step(&mut self) {
        self.digests.push(self.digest());
    }

    /// The regular files that have a name.
    pub fn regular(&self) -> Vec<FileId> {
        let is_named = |id: &FileId| self.links(*id) > 0;
        let files = self.files.iter().filter(|(_, file)| file.kind == FileKind::Regular);
        files.map(|(&id, _)| id).filter(is_named).collect()
    }

    /// The directories.
    pub fn directories(&self) -> Vec<FileId> {
        let directories = self.files.iter().filter(|(_, file)| file.kind == FileKind::Directory);
        directories.map(|(&id, _)| id).collect()
    }

    /// The names in a directory.
    pub fn names(&self, directory: FileId) -> Vec<Vec<u8>> {
        self.files.get(&directory).map_or(Vec::new(), |file| file.names.keys().cloned().collect())
    }

    pub fn size(&self, id: FileId) -> usize {
        self.files.get(&id).map_or(0, |file| file.size)
    }

    /// Notes times that a sync records later.
    fn touch(&mut self, id: FileId, now_ns: i64, is_data: bool) {
        if let Some(file) = self.files.get_mut(&id) {
            file.newest.changed_ns = now_ns;
            if is_data {
                file.newest.modified_ns = now_ns;
            }
        }
    }

    /// A read of a file.
    pub fn read_at(&mut self, id: FileId, now_ns: i64) {
        if let Some(file) = self.files.get_mut(&id)
            && file.newest.accessed_ns <= file.newest.modified_ns.max(file.newest.changed_ns)
        {
            file.newest.accessed_ns = now_ns;
        }
    }

    /// The times are recorded, some files at once.
    pub fn record_times(&mut self) {
        let is_changed = |file: &ModelFile| file.newest != file.attributes;
        let changed: Vec<FileId> =
            self.files.iter().filter(|(_, file)| is_changed(file)).map(|(&id, _)| id).collect();
        for some in changed.chunks(RECORDED_AT_ONCE) {
            for id in some {
                self.files.entry(*id).and_modify(|file| file.attributes = file.newest);
            }
            self.step();
        }
    }

    pub fn create(
        &mut self,
        (parent, name): (FileId, &[u8]),
        id: FileId,
        kind: FileKind,
        attributes: FileAttributes,
    ) {
        self.files.insert(id, ModelFile::new(kind, attributes));
        self.name(parent, name, id, attributes.modified_ns);
    }

    pub fn symlink(
        &mut self,
        (parent, name): (FileId, &[u8]),
        id: FileId,
        target: &[u8],
        attributes: FileAttributes,
    ) {
        let file = ModelFile::new(FileKind::SymbolicLink, attributes);
        self.files.insert(id, ModelFile { size: target.len(), data: target.to_vec(), ..file });
        self.name(parent, name, id, attributes.modified_ns);
    }

    fn name(&mut self, parent: FileId, name: &[u8], id: FileId, now_ns: i64) {
        if let Some(directory) = self.files.get_mut(&parent) {
            directory.names.insert(name.to_vec(), id);
        }
        self.step();
        self.touch(parent, now_ns, true);
    }

    pub fn link(&mut self, parent: FileId, name: &[u8], id: FileId, now_ns: i64) {
        self.name(parent, name, id, now_ns);
        self.touch(id, now_ns, false);
    }

    fn remove_unnamed(&mut self, id: FileId, now_ns: i64) {
        if self.links(id) == 0 {
            self.files.remove(&id);
        }
        self.touch(id, now_ns, false);
    }

    pub fn unlink(&mut self, parent: FileId, name: &[u8], now_ns: i64) {
        if let Some(directory) = self.files.get_mut(&parent)
            && let Some(id) = directory.names.remove(name)
        {
            self.remove_unnamed(id, now_ns);
        }
        self.step();
        self.touch(parent, now_ns, true);
    }

    fn named(&self, (parent, name): (FileId, &[u8])) -> Option<FileId> {
        self.files.get(&parent).and_then(|directory| directory.names.get(name).copied())
    }

    pub fn rename(&mut self, from: (FileId, &[u8]), to: (FileId, &[u8]), now_ns: i64) {
        let (Some(id), replaced) = (self.named(from), self.named(to)) else { return };
        if replaced == Some(id) {
            return;
        }
        if let Some(directory) = self.files.get_mut(&from.0) {
            directory.names.remove(from.1);
        }
        if let Some(directory) = self.files.get_mut(&to.0) {
            directory.names.insert(to.1.to_vec(), id);
        }
        replaced.into_iter().for_each(|id| self.remove_unnamed(id, now_ns));
        self.step();
        self.touch(id, now_ns, false);
        [from.0, to.0].into_iter().for_each(|parent| self.touch(parent, now_ns, true));
    }

    pub fn exchange(&mut self, one: (FileId, &[u8]), other: (FileId, &[u8]), now_ns: i64) {
        let (Some(first), Some(second)) = (self.named(one), self.named(other)) else { return };
        if first == second {
            return;
        }
        for ((parent, name), id) in [(one, second), (other, first)] {
            if let Some(directory) = self.files.get_mut(&parent) {
                directory.names.insert(name.to_vec(), id);
            }
        }
        self.step();
        [first, second].into_iter().for_each(|id| self.touch(id, now_ns, false));
        [one.0, other.0].into_iter().for_each(|parent| self.touch(parent, now_ns, true));
    }

    pub fn set_attributes(&mut self, id: FileId, attributes: FileAttributes) {
        if let Some(file) = self.files.get_mut(&id) {
            (file.attributes, file.newest) = (attributes, attributes);
        }
        self.step();
    }

    pub fn set_extended(&mut self, id: FileId, name: &[u8], value: Option<&[u8]>, now_ns: i64) {
        if let Some(file) = self.files.get_mut(&id) {
            match value {
                Some(value) => file.extended.insert(name.to_vec(), value.to_vec()),
                None => file.extended.remove(name),
            };
        }
        self.step();
        self.touch(id, now_ns, false);
    }

    /// A write: the pages that the file has, one after the other; then the other ones and the size.
    pub fn write(&mut self, id: FileId, offset: usize, data: &[u8], now_ns: i64) {
        let mut new = Vec::new();
        let mut at = 0;
        while at < data.len() {
            let page = (offset + at) / PAGE;
            let part = (PAGE - (offset + at) % PAGE).min(data.len() - at);
            if self.files.get(&id).is_some_and(|file| file.allocated.contains(&page)) {
                self.put(id, offset + at, &data[at..at + part]);
            } else {
                new.push((page, at, part));
            }
            at += part;
        }
        if let Some(file) = self.files.get_mut(&id) {
            for (page, at, part) in new {
                file.put(offset + at, &data[at..at + part]);
                file.allocated.insert(page);
            }
            file.size = file.size.max(offset + data.len());
        }
        self.step();
        self.touch(id, now_ns, true);
    }

    /// A change of the size by a program.
    pub fn truncate(&mut self, id: FileId, size: usize, now_ns: i64) {
        self.set_size(id, size);
        self.touch(id, now_ns, true);
    }

    /// A range gets pages, and the file perhaps a new size.
    pub fn allocate(&mut self, id: FileId, offset: usize, length: usize, keeps_size: bool, now_ns: i64) {
        let end = offset + length;
        if let Some(file) = self.files.get_mut(&id) {
            file.allocated.extend(offset / PAGE..end.div_ceil(PAGE));
        }
        self.set_size(id, if keeps_size { self.size(id) } else { end.max(self.size(id)) });
        self.touch(id, now_ns, true);
    }

    /// A punched range: the part of the first page, whole pages, the part of the last page.
    pub fn punch(&mut self, id: FileId, offset: usize, length: usize, now_ns: i64) {
        let end = offset + length;
        let (first, last) = (offset.next_multiple_of(PAGE), end / PAGE * PAGE);
        if first >= last {
            self.put(id, offset, &vec![0; length]);
        } else {
            self.put(id, offset, &vec![0; first - offset]);
            if let Some(file) = self.files.get_mut(&id) {
                let (from, to) = (first.min(file.data.len()), last.min(file.data.len()));
                file.data[from..to].fill(0);
                file.allocated.retain(|page| !(first / PAGE..last / PAGE).contains(page));
            }
            self.step();
            self.put(id, last, &vec![0; end - last]);
        }
        self.touch(id, now_ns, true);
    }

    /// Data page by page; the size stays.
    fn put(&mut self, id: FileId, offset: usize, data: &[u8]) {
        let mut at = 0;
        while at < data.len() {
            let part = (PAGE - (offset + at) % PAGE).min(data.len() - at);
            if let Some(file) = self.files.get_mut(&id) {
                file.put(offset + at, &data[at..at + part]);
            }
            at += part;
            self.step();
        }
    }

    fn set_size(&mut self, id: FileId, size: usize) {
        if let Some(file) = self.files.get_mut(&id) {
            if size < file.size {
                file.data.truncate(size);
                file.allocated.retain(|page| *page < size.div_ceil(PAGE));
            }
            file.data.resize(file.data.len().max(size), 0);
            file.size = size;
        }
        self.step();
    }
}

fn hash_attributes(file: &ModelFile, hasher: &mut DefaultHasher) {
    let FileAttributes { mode, user, group, modified_ns, changed_ns, accessed_ns } = file.attributes;
    (mode, user, group, modified_ns, changed_ns, accessed_ns).hash(hasher);
    file.extended.hash(hasher);
}
