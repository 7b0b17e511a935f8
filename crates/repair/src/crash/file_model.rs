//! What a directory has to look like after each step of the host's operations.
//!
//! # Method
//! An operation is a few steps, each of which a power failure may come behind: a page of data, a size, a name. Behind each of
//! them the model notes a digest of all that a program can see. What is mounted after a crash has to have one of these digests.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use flashlab_device::Device;

use super::history::PAGE;
use crate::error::RepairError;
use crate::files::{FileId, FileKind, Files, LINK_PERMISSIONS};

/// A file of the model.
#[derive(Clone, Debug)]
struct ModelFile {
    kind: FileKind,
    mode: u32,
    /// What was written, also what lies beyond the size yet.
    data: Vec<u8>,
    size: usize,
    names: BTreeMap<Vec<u8>, FileId>,
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
        let mut file = ModelFile {
            kind: status.kind,
            mode: status.attributes.mode,
            data: vec![0; status.size.0 as usize],
            size: status.size.0 as usize,
            names: BTreeMap::new(),
        };
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
        (directory.mode, directory.names.len()).hash(hasher);
        for (name, id) in &directory.names {
            name.hash(hasher);
            match self.files.get(id) {
                Some(file) if file.kind != FileKind::Directory => {
                    (file.kind == FileKind::Regular, file.mode, self.links(*id)).hash(hasher);
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

    pub fn create(&mut self, parent: FileId, name: &[u8], id: FileId, kind: FileKind, mode: u32) {
        let names = BTreeMap::new();
        self.files.insert(id, ModelFile { kind, mode, data: Vec::new(), size: 0, names });
        self.link(parent, name, id);
    }

    pub fn symlink(&mut self, parent: FileId, name: &[u8], id: FileId, target: &[u8]) {
        let (kind, names) = (FileKind::SymbolicLink, BTreeMap::new());
        let data = target.to_vec();
        self.files.insert(id, ModelFile { kind, mode: LINK_PERMISSIONS, size: data.len(), data, names });
        self.link(parent, name, id);
    }

    pub fn link(&mut self, parent: FileId, name: &[u8], id: FileId) {
        if let Some(directory) = self.files.get_mut(&parent) {
            directory.names.insert(name.to_vec(), id);
        }
        self.step();
    }

    pub fn unlink(&mut self, parent: FileId, name: &[u8]) {
        if let Some(directory) = self.files.get_mut(&parent)
            && let Some(id) = directory.names.remove(name)
            && self.links(id) == 0
        {
            self.files.remove(&id);
        }
        self.step();
    }

    pub fn rename(&mut self, from: (FileId, &[u8]), to: (FileId, &[u8])) {
        let names = |model: &FileModel, (parent, name): (FileId, &[u8])| {
            model.files.get(&parent).and_then(|directory| directory.names.get(name).copied())
        };
        let (Some(id), replaced) = (names(self, from), names(self, to)) else { return };
        if replaced == Some(id) {
            return;
        }
        if let Some(directory) = self.files.get_mut(&from.0) {
            directory.names.remove(from.1);
        }
        if let Some(directory) = self.files.get_mut(&to.0) {
            directory.names.insert(to.1.to_vec(), id);
        }
        if let Some(replaced) = replaced
            && self.links(replaced) == 0
        {
            self.files.remove(&replaced);
        }
        self.step();
    }

    pub fn set_mode(&mut self, id: FileId, mode: u32) {
        if let Some(file) = self.files.get_mut(&id) {
            file.mode = mode;
        }
        self.step();
    }

    /// A write: page by page, then the size.
    pub fn write(&mut self, id: FileId, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        self.put(id, offset, data);
        self.set_size(id, end.max(self.size(id)));
    }

    /// A punched range: the part of the first page, whole pages, the part of the last page.
    pub fn punch(&mut self, id: FileId, offset: usize, length: usize) {
        let end = offset + length;
        let (first, last) = (offset.next_multiple_of(PAGE), end / PAGE * PAGE);
        if first >= last {
            return self.put(id, offset, &vec![0; length]);
        }
        self.put(id, offset, &vec![0; first - offset]);
        if let Some(file) = self.files.get_mut(&id) {
            let (from, to) = (first.min(file.data.len()), last.min(file.data.len()));
            file.data[from..to].fill(0);
        }
        self.step();
        self.put(id, last, &vec![0; end - last]);
    }

    /// Data page by page; the size stays.
    fn put(&mut self, id: FileId, offset: usize, data: &[u8]) {
        let mut at = 0;
        while at < data.len() {
            let part = (PAGE - (offset + at) % PAGE).min(data.len() - at);
            if let Some(file) = self.files.get_mut(&id) {
                file.data.resize(file.data.len().max(offset + at + part), 0);
                file.data[offset + at..][..part].copy_from_slice(&data[at..at + part]);
            }
            at += part;
            self.step();
        }
    }

    pub fn set_size(&mut self, id: FileId, size: usize) {
        if let Some(file) = self.files.get_mut(&id) {
            if size < file.size {
                file.data.truncate(size);
            }
            file.data.resize(file.data.len().max(size), 0);
            file.size = size;
        }
        self.step();
    }
}
