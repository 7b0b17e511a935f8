//! The catalogue in memory: files, their names and where their data lies.
//!
//! # Method
//! The catalogue changes by [`Change`]s alone, when they are made and when the log is replayed. [`Catalogue::changes`] lists
//! changes that lead to it from nothing; a new log begins with them.

use std::collections::BTreeMap;

use super::change::{self, Change};
use super::extents::{Extents, VolumePages};
use super::file::{FileAttributes, FileId, FileKind};

/// A file or a directory.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub kind: FileKind,
    pub attributes: FileAttributes,
    pub size: u64,
    /// Names of it.
    pub links: u32,
    pub extents: Extents,
    /// What a directory holds.
    pub names: BTreeMap<Vec<u8>, FileId>,
    /// Where a directory lies.
    pub parent: FileId,
    /// The directories in a directory.
    pub directories: u32,
    /// Extended attributes.
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Node {
    fn new(kind: FileKind, attributes: FileAttributes) -> Node {
        Node {
            kind,
            attributes,
            size: 0,
            links: 0,
            extents: Extents::default(),
            names: BTreeMap::new(),
            parent: FileId::ROOT,
            directories: 0,
            extended: BTreeMap::new(),
        }
    }

    fn charge(&self, page: u64) -> u64 {
        let extents = self.extents.len() as u64 * change::EXTENT_BYTES;
        let extended = self.extended.iter().map(|(name, value)| change::extended_charge(name, value, page));
        change::NODE_BYTES + change::SIZE_BYTES + extents + extended.sum::<u64>()
    }
}

/// All files.
pub(crate) struct Catalogue {
    nodes: BTreeMap<FileId, Node>,
    next: u64,
    /// What it is charged, as `budget` counts the changes that lead to it.
    charge: u64,
    page: u64,
}

impl Catalogue {
    /// The catalogue with an empty root directory, for pages of this size.
    pub fn new(page: u64) -> Catalogue {
        let attributes = FileAttributes::new(0o755, 0, 0, 0);
        let root = Node { links: 1, ..Node::new(FileKind::Directory, attributes) };
        let charge = root.charge(page);
        Catalogue { nodes: BTreeMap::from([(FileId::ROOT, root)]), next: FileId::ROOT.0 + 1, charge, page }
    }

    /// What it is charged, as `budget` counts the changes that lead to it.
    pub fn charge(&self) -> u64 {
        self.charge
    }

    /// A number for a new file.
    pub fn next_id(&self) -> FileId {
        FileId(self.next)
    }

    pub fn node(&self, id: FileId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    pub fn nodes(&self) -> impl Iterator<Item = (FileId, &Node)> {
        self.nodes.iter().map(|(&id, node)| (id, node))
    }

    /// Applies a change and returns the pages that it frees.
    ///
    /// # Errors
    /// What does not fit; the catalogue is undefined then.
    pub fn apply(&mut self, change: &Change) -> Result<Vec<VolumePages>, &'static str> {
        match change {
            Change::Node { id, kind, attributes } => {
                match self.nodes.get_mut(id) {
                    Some(node) if node.kind == *kind => node.attributes = *attributes,
                    Some(_) => return Err("a file becomes one of another kind"),
                    None => {
                        let node = Node::new(*kind, *attributes);
                        self.charge += node.charge(self.page);
                        self.next = self.next.max(id.0.saturating_add(1));
                        self.nodes.insert(*id, node);
                    }
                }
                Ok(Vec::new())
            }
            Change::Link { parent, name, id } => self.link(*parent, name, *id).map(|()| Vec::new()),
            Change::Unlink { parent, name } => self.unlink(*parent, name).map(|_| Vec::new()),
            Change::Rename { from, to } => {
                let id = self.unlink(from.0, &from.1)?;
                if self.directory(to.0)?.names.contains_key(&to.1) {
                    self.unlink(to.0, &to.1)?;
                }
                self.link(to.0, &to.1, id).map(|()| Vec::new())
            }
            Change::Size { id, size } => {
                let page = self.page;
                let node = self.file(*id)?;
                let is_smaller = *size < node.size;
                node.size = *size;
                if is_smaller { self.free(*id, size.div_ceil(page), u64::MAX) } else { Ok(Vec::new()) }
            }
            Change::Extent { id, file_page, pages } => {
                let node = self.file(*id)?;
                let before = node.extents.len() as u64;
                if !node.extents.insert(*file_page, *pages) {
                    return Err("two extents of a file overlap");
                }
                let after = node.extents.len() as u64;
                self.charge = self.charge + after * change::EXTENT_BYTES - before * change::EXTENT_BYTES;
                Ok(Vec::new())
            }
            Change::Hole { id, file_page, count } => {
                self.free(*id, *file_page, file_page.saturating_add(*count))
            }
            Change::Remove { id } => {
                let node = self.nodes.get(id).ok_or("a file that does not exist is removed")?;
                if node.links > 0 || !node.names.is_empty() {
                    return Err("a file that has a name is removed");
                }
                let freed = self.free(*id, 0, u64::MAX)?;
                self.charge -= self.nodes.remove(id).map_or(0, |node| node.charge(self.page));
                Ok(freed)
            }
            Change::Extended { id, name, value } => {
                let page = self.page;
                let node = self.nodes.get_mut(id).ok_or("an attribute of a file that does not exist")?;
                let before = node.charge(page);
                match value {
                    Some(value) => drop(node.extended.insert(name.clone(), value.clone())),
                    None => drop(node.extended.remove(name)),
                }
                self.charge = self.charge + node.charge(page) - before;
                Ok(Vec::new())
            }
            Change::Exchange { one, other } => {
                let (first, second) = (self.unlink(one.0, &one.1)?, self.unlink(other.0, &other.1)?);
                self.link(one.0, &one.1, second)?;
                self.link(other.0, &other.1, first).map(|()| Vec::new())
            }
        }
    }

    fn directory(&mut self, id: FileId) -> Result<&mut Node, &'static str> {
        let node = self.nodes.get_mut(&id).filter(|node| node.kind == FileKind::Directory);
        node.ok_or("there is no such directory")
    }

    fn file(&mut self, id: FileId) -> Result<&mut Node, &'static str> {
        let node = self.nodes.get_mut(&id).filter(|node| node.kind != FileKind::Directory);
        node.ok_or("there is no such file")
    }

    fn link(&mut self, parent: FileId, name: &[u8], id: FileId) -> Result<(), &'static str> {
        let node = self.nodes.get_mut(&id).ok_or("a name for a file that does not exist")?;
        if node.kind == FileKind::Directory && node.links > 0 {
            return Err("a directory has two names");
        }
        node.links += 1;
        node.parent = parent;
        let is_directory = node.kind == FileKind::Directory;
        let directory = self.directory(parent)?;
        directory.directories += u32::from(is_directory);
        if directory.names.insert(name.to_vec(), id).is_some() {
            return Err("a name is given twice");
        }
        self.charge += change::link_bytes(name);
        Ok(())
    }

    fn unlink(&mut self, parent: FileId, name: &[u8]) -> Result<FileId, &'static str> {
        let id = self.directory(parent)?.names.remove(name).ok_or("a name that does not exist is removed")?;
        self.charge -= change::link_bytes(name);
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(id) };
        node.links -= 1;
        if node.kind == FileKind::Directory {
            self.directory(parent)?.directories -= 1;
        }
        Ok(id)
    }

    /// Frees pages of a file.
    fn free(&mut self, id: FileId, from: u64, to: u64) -> Result<Vec<VolumePages>, &'static str> {
        let node = self.nodes.get_mut(&id).ok_or("there is no such file")?;
        let before = node.extents.len() as u64;
        let freed = node.extents.remove(from, to);
        let after = node.extents.len() as u64;
        self.charge = self.charge + after * change::EXTENT_BYTES - before * change::EXTENT_BYTES;
        Ok(freed)
    }

    /// Changes that lead to the catalogue from an empty one.
    pub fn changes(&self) -> impl Iterator<Item = Change> {
        let nodes = self.nodes().flat_map(|(id, node)| {
            let begun = Change::Node { id, kind: node.kind, attributes: node.attributes };
            let extents = node.extents.iter();
            let extents = extents.map(move |(file_page, pages)| Change::Extent { id, file_page, pages });
            let size = (node.kind != FileKind::Directory).then_some(Change::Size { id, size: node.size });
            let extended = node.extended.iter();
            let extended = extended.map(move |(name, value)| Change::Extended {
                id,
                name: name.clone(),
                value: Some(value.clone()),
            });
            std::iter::once(begun).chain(extents).chain(size).chain(extended)
        });
        let links = self.nodes().flat_map(|(parent, node)| {
            let names = node.names.iter();
            names.map(move |(name, &id)| Change::Link { parent, name: name.clone(), id })
        });
        nodes.chain(links)
    }
}
