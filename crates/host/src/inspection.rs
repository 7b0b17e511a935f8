//! Inspects a target: what it is, and why flashlab refuses to write to it.
//!
//! # Model
//! [`inspect`] collects all refusals, not only the first:
//! 1. who uses the target ([`Surroundings`]);
//! 2. what its bytes contain ([`Content`]);
//! 3. whether another program has it open exclusively;
//! 4. whether it accepts writes.
//!
//! If one of these cannot be found out, that is a refusal, too.
//!
//! Invariant: nothing here is opened for writing.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flashlab_base::{Bytes, Identity};
use flashlab_input::FileContent;

use crate::block_device::BlockDevice;
use crate::error::HostError;
use crate::first_data::first_data;
use crate::identity;
use crate::node::Node;
use crate::refusal::{Reason, Refusal};
use crate::retry::claim_block_device;
use crate::signature::{Content, Signature, volume_signatures};
use crate::surroundings::Surroundings;
use crate::system::{self, DirectAlignment};
use crate::underlying::is_in_memory;

/// The result of inspecting a target, without opening it for writing.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The path that was inspected.
    pub path: PathBuf,
    /// Its model, serial number and so on.
    pub identity: Identity,
    /// Why flashlab does not write to it. Empty if it would write, given consent.
    pub refusals: Vec<Refusal>,
    /// What readers of its measurements have to know.
    pub warnings: Vec<String>,
    /// What a regular file holds, which `--overwrite-file` would destroy; empty where it is blank. The formats of a block device
    /// are refusals.
    pub carries: Vec<String>,
    pub(crate) node: Node,
    pub(crate) generation: Option<u64>,
}

impl Inspection {
    /// What a regular file holds, as a text: what it carries, or else where its data begins; empty where it is blank. It may read 256 MiB of
    /// the file, and is for a refusal.
    pub fn holds(&self) -> String {
        let is_blank_file = self.carries.is_empty() && matches!(self.node, Node::File { .. });
        let opened = is_blank_file.then(|| File::open(&self.path).ok()).flatten();
        match opened.and_then(|file| first_data(&file, self.identity.capacity).ok().flatten()) {
            Some(offset) => format!("data from {offset} on"),
            None => self.carries.join(", "),
        }
    }

    /// Whether it is a block device, which needs typed consent, or a regular file, which needs
    /// `--overwrite-file`.
    pub fn is_block_device(&self) -> bool {
        matches!(self.node, Node::Device(_))
    }

    /// What the user may type to consent to overwriting it: its model, its serial number or, if neither is
    /// known, its path.
    pub fn consent_phrases(&self) -> Vec<String> {
        let mut phrases: Vec<String> =
            [&self.identity.model, &self.identity.serial].into_iter().flatten().cloned().collect();
        if phrases.is_empty() {
            phrases.push(self.path.display().to_string());
        }
        phrases
    }
}

/// Finds out what a path leads to, and why flashlab refuses to write to it.
///
/// # Errors
/// If nothing is there, or it is neither a block device nor a regular file.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspection, HostError> {
    look(path.as_ref(), &Surroundings::look())
}

/// Every disk and partition of this machine that has a capacity.
pub fn devices() -> Vec<Inspection> {
    let surroundings = Surroundings::look();
    let family = |disk: BlockDevice| {
        let partitions = disk.partitions();
        [vec![disk], partitions].concat()
    };
    BlockDevice::disks()
        .into_iter()
        .flat_map(family)
        // A device may have been removed since it was listed, or have no node in a container.
        .filter_map(|device| look(&device.path(), &surroundings).ok().filter(|i| is(i, &device)))
        .filter(|inspection| inspection.identity.capacity > Bytes::ZERO)
        .collect()
}

fn is(inspection: &Inspection, device: &BlockDevice) -> bool {
    inspection.node == Node::Device(device.number())
}

fn look(path: &Path, surroundings: &Surroundings) -> Result<Inspection, HostError> {
    let node = Node::at(path)?;
    let name = path.display().to_string();
    let mut inspection = Inspection {
        path: path.to_owned(),
        identity: Identity::default(),
        refusals: refusals_by_use(node, surroundings),
        warnings: Vec::new(),
        carries: Vec::new(),
        node,
        generation: generation(node),
    };
    // The capacity from sysfs, for a device that may not be opened.
    let mut capacity = block_device(node).map_or(Bytes::ZERO, |device| device.capacity());
    let (mut mount, mut file) = (None, None);
    match File::open(path) {
        Ok(opened) => {
            capacity = size_of(&opened, node, path)?;
            mount = system::mount_id(&opened);
            file = opened.metadata().ok().and_then(|metadata| identity::file(&metadata));
            let content = read_content(&opened, path, node, capacity, &mut inspection.refusals);
            inspection.warnings = warnings(&opened, path, node, surroundings);
            inspection.carries = formats_of_file(&opened, node, capacity);
            if content.is_some_and(|content| !content.is_blank()) && inspection.refusals.is_empty() {
                inspection.warnings.push(format!(
                    "{name} is not blank: it contains data in a format that flashlab does not know"
                ));
            }
        }
        Err(error) => inspection.refusals.push(unreadable(path, &error)),
    }
    if inspection.refusals.is_empty() {
        inspection.refusals.extend(held(path, node));
    }
    inspection.identity = identity::identify(&name, node, mount, capacity, surroundings);
    inspection.identity.file = file;
    Ok(inspection)
}

/// All refusals for a device or file that is open now.
pub(crate) fn refusals_when_open(
    file: &File,
    path: &Path,
    node: Node,
    capacity: Bytes,
    surroundings: &Surroundings,
) -> Vec<Refusal> {
    let mut refusals = refusals_by_use(node, surroundings);
    read_content(file, path, node, capacity, &mut refusals);
    refusals
}

/// Refusals because the target is in use, or does not accept writes.
pub(crate) fn refusals_by_use(node: Node, surroundings: &Surroundings) -> Vec<Refusal> {
    let mut refusals = surroundings.uses(node);
    let Some(device) = block_device(node) else { return refusals };
    let name = device.path().display().to_string();
    if device.is_read_only() {
        refusals.push(Refusal::new(
            Reason::ReadOnly,
            format!("{name} is read-only"),
            format!("make it writable (`blockdev --setrw {name}`, or its switch), or only read from it"),
        ));
    }
    let partitions = device.partitions();
    if !partitions.is_empty() {
        let names: Vec<String> = partitions.iter().map(BlockDevice::name).collect();
        refusals.push(Refusal::new(
            Reason::PartitionTable,
            format!("{name} has the partitions {}", names.join(", ")),
            format!("choose a partition, or remove them (`wipefs --all {name}` and `partx -d {name}`)"),
        ));
    }
    refusals
}

fn block_device(node: Node) -> Option<BlockDevice> {
    match node {
        Node::Device(number) => BlockDevice::numbered(number),
        Node::File { .. } => None,
    }
}

pub(crate) fn generation(node: Node) -> Option<u64> {
    block_device(node)?.generation()
}

/// The capacity of an open target.
pub(crate) fn size_of(file: &File, node: Node, path: &Path) -> Result<Bytes, HostError> {
    let size = match node {
        Node::Device(_) => system::device_size(file),
        Node::File { .. } => file.metadata().map(|metadata| Bytes(metadata.len())),
    };
    size.map_err(|e| HostError::system("read the capacity of", path, e))
}

/// Reads the signatures of a block device, and adds refusals for what they show. Of a file only a flashlab volume is
/// looked for: for everything else in a file, `--overwrite-file` is the consent.
fn read_content(
    file: &File,
    path: &Path,
    node: Node,
    capacity: Bytes,
    refusals: &mut Vec<Refusal>,
) -> Option<Content> {
    let Some(device) = block_device(node) else {
        match volume_signatures(file, capacity) {
            Ok(found) => refusals.extend(carries(path, &found)),
            Err(error) => refusals.push(unreadable(path, &error)),
        }
        return None;
    };
    let path = device.path();
    match Content::read(file, capacity) {
        Ok(content) => {
            refusals.extend(carries(&path, &content.signatures()));
            Some(content)
        }
        Err(error) => {
            refusals.push(unreadable(&path, &error));
            None
        }
    }
}

/// What a regular file holds, except for a flashlab volume, which is a refusal: the formats of a disk that it contains, or else
/// what [`FileContent`] recognises.
fn formats_of_file(file: &File, node: Node, capacity: Bytes) -> Vec<String> {
    let is_file = matches!(node, Node::File { .. });
    let Some(content) = is_file.then(|| Content::read(file, capacity).ok()).flatten() else {
        return Vec::new();
    };
    let found = content.signatures().into_iter().filter(|signature| !signature.is_of_volume());
    let mut names: Vec<String> = found.map(|signature| signature.name.to_owned()).collect();
    names.dedup();
    if names.is_empty() {
        let found = FileContent::of(content.start());
        names.extend(found.is_made().then(|| found.to_string()));
    }
    names
}

/// A refusal for each format that was found; a volume has several superblocks, and the first is named.
fn carries(path: &Path, found: &[Signature]) -> Vec<Refusal> {
    let volume = found.iter().find(|signature| signature.is_of_volume());
    let others = found.iter().filter(|signature| !signature.is_of_volume());
    let name = path.display();
    let refusal = |signature: &Signature| {
        let finding = format!("{name} carries a signature: {signature}");
        if signature.is_of_volume() {
            let remedy = format!(
                "`flashlab repair status {name}` describes the volume; if its data is not needed, `flashlab repair \
                 erase {name}` removes it"
            );
            return Refusal::new(Reason::Volume, finding, remedy);
        }
        let reason = if signature.is_partition_table { Reason::PartitionTable } else { Reason::Signature };
        let remedy = format!(
            "if its data is not needed, erase the signatures (`wipefs --all {name}`; what that leaves, `blkdiscard \
             {name}`)"
        );
        Refusal::new(reason, finding, remedy)
    };
    volume.into_iter().chain(others).map(refusal).collect()
}

fn unreadable(path: &Path, error: &std::io::Error) -> Refusal {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied if system::is_root() => {
            "run flashlab where root may read it: a container or a security module forbids it here"
        }
        ErrorKind::PermissionDenied => "run flashlab as root, or as a member of the group that may read it",
        _ => "replace it if it is broken",
    };
    Refusal::new(
        Reason::Unknown,
        format!("{} cannot be read ({error}), so its content is not known", path.display()),
        remedy,
    )
}

/// Whether anybody has opened a block device exclusively: a mount in another namespace, the journal of a file
/// system, another measurement.
fn held(path: &Path, node: Node) -> Option<Refusal> {
    block_device(node)?;
    let error = claim_block_device(path).err().filter(|error| error.kind() == ErrorKind::ResourceBusy)?;
    Some(held_refusal(path, &error))
}

pub(crate) fn held_refusal(path: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new(
        Reason::Held,
        format!("{} is held exclusively by another program or by the kernel ({error})", path.display()),
        "stop what uses it (`fuser` or `lsof` may name it; it may be mounted in a container)",
    )
}

/// What readers of measurements of this target have to know.
fn warnings(file: &File, path: &Path, node: Node, surroundings: &Surroundings) -> Vec<String> {
    let name = path.display();
    let mut warnings = Vec::new();
    if is_in_memory(file, node, surroundings) {
        warnings.push(format!("{name} is in the machine's memory: the measurement is not of a disk"));
    }
    if !takes_direct_io(file, path) {
        warnings.push(format!(
            "{name} is on a file system without O_DIRECT: the measurement is of the page cache"
        ));
    }
    warnings
}

/// Whether the target's file system, or its device, supports direct IO.
fn takes_direct_io(file: &File, path: &Path) -> bool {
    match system::direct_alignment(file) {
        DirectAlignment::Blocks(_) => true,
        DirectAlignment::Unsupported => false,
        DirectAlignment::Unknown => {
            let attempt = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
            attempt.err().and_then(|error| error.raw_os_error()) != Some(libc::EINVAL)
        }
    }
}
