//! Files of volumes whose catalogue is damaged.

use std::collections::BTreeMap;

use flashlab_device::MemoryDevice;

use super::tests::{NEW, PAGE, make, new_files};
use super::*;
use crate::device_io::DeviceIo;
use crate::recovery::recover;
use crate::salvaged::DumpMap;
use crate::single_log::SingleLog;
use crate::volume::MountOptions;

const ROOT: FileId = FileId::ROOT;
type Contents = BTreeMap<String, Vec<u8>>;

/// A device with 100 files in a directory, a file with two names, and a symbolic link; closed in order.
fn device_with_files() -> (MemoryDevice, Contents) {
    let mut files = new_files();
    let mut contents = Contents::new();
    let directory = files.create(ROOT, b"d", FileKind::Directory, NEW).unwrap();
    for number in 0..100_u8 {
        let name = format!("file {number}");
        let id = files.create(directory, name.as_bytes(), FileKind::Regular, NEW).unwrap();
        let data = vec![number; 5000];
        files.write(id, None, &data, 6).unwrap();
        contents.insert(format!("d/{name}"), data);
    }
    let id = make(&mut files, "one", &[7; 300]);
    files.link(id, directory, b"other", 7).unwrap();
    files.set_extended(id, b"a", b"value", SetExtended::Any, 7).unwrap();
    files.symlink(ROOT, b"link", b"one", NEW).unwrap();
    contents.extend([("one".to_owned(), vec![7; 300]), ("d/other".to_owned(), vec![7; 300])]);
    files.finish().unwrap();
    (files.abandon(), contents)
}

/// What is left, and whether anything is known to be missing.
fn salvaged(device: &mut MemoryDevice) -> (Contents, bool) {
    let mut files = SalvagedFiles::open(device).unwrap();
    assert_eq!(files.map(), &DumpMap::Newest);
    let mut contents = Contents::new();
    let mut is_whole = files.faults().count() == 0;
    for entry in files.entries() {
        let path = String::from_utf8(entry.path).unwrap();
        is_whole &= !entry.is_doubtful;
        if entry.status.kind == FileKind::Regular {
            let mut data = vec![0; entry.status.size.0 as usize];
            let ranges = files.read(entry.status.id, |offset, found| -> Result<(), RepairError> {
                data[offset as usize..][..found.len()].copy_from_slice(found);
                Ok(())
            });
            is_whole &= ranges.unwrap() == SalvagedRanges::default();
            contents.insert(path, data);
        } else if entry.status.kind == FileKind::SymbolicLink {
            is_whole &= files.target(entry.status.id).as_deref() == Some(b"one");
        }
    }
    (contents, is_whole)
}

/// Damages the place at which the map has this page of the volume. False: the page holds nothing.
fn damage(device: &mut MemoryDevice, page: u64) -> bool {
    let superblock = crate::superblock(&mut *device).unwrap();
    let mut io = DeviceIo::new(&mut *device, Bytes::ZERO, 0);
    let recovered = recover(&mut io, superblock, None).unwrap();
    let Some(location) = recovered.map.get(page) else { return false };
    io.write_bytes(recovered.superblock.layout.offset(location.position), &[0x5a; PAGE as usize]).unwrap();
    io.flush().unwrap();
    true
}

/// Mounting it is refused, and it stays closed in order.
fn is_refused(device: &mut MemoryDevice) {
    let volume =
        Volume::open(&mut *device, MountOptions::default(), |_| Box::new(SingleLog::Greedy)).unwrap();
    assert!(Files::open(volume).is_err());
    assert!(crate::superblock(&mut *device).unwrap().is_clean, "it was closed in order before");
}

fn faults(device: &mut MemoryDevice) -> Vec<String> {
    crate::check(device, &mut |_| {}).unwrap().files.unwrap().faults
}

#[test]
fn a_whole_catalogue_has_no_faults_and_all_files() {
    let (mut device, contents) = device_with_files();
    assert_eq!(faults(&mut device), [""; 0]);
    assert_eq!(crate::check(&mut device, &mut |_| {}).unwrap().files.unwrap().files, 103);
    let (found, is_whole) = salvaged(&mut device);
    assert!(is_whole && found == contents, "{:?}", found.keys());
    let files = SalvagedFiles::open(&mut device).unwrap();
    let entries = files.entries();
    let id = entries.iter().find(|entry| entry.path == b"one").unwrap().status.id;
    assert_eq!(entries.iter().filter(|entry| entry.status.id == id).count(), 2);
    assert_eq!(files.extended(id), [(b"a".to_vec(), b"value".to_vec())]);
}

#[test]
fn a_damaged_page_of_a_catalogue_is_found_by_a_check_and_the_other_files_are_left() {
    let mut damaged = 0;
    for page in 0..=crate::files::FilesLayout::of(PAGE, 1200).log_pages {
        let (mut device, contents) = device_with_files();
        if !damage(&mut device, page) {
            continue;
        }
        damaged += 1;
        assert!(!faults(&mut device).is_empty(), "page {page}");
        is_refused(&mut device);
        let (found, is_whole) = salvaged(&mut device);
        assert!(!is_whole, "page {page}");
        let right = contents.iter().filter(|(path, data)| found.get(*path) == Some(data)).count();
        println!("page {page}: {right} of {}", contents.len());
        // Without its first page the directory has no name.
        let nameless = found.keys().filter(|path| path.starts_with("flashlab-nameless")).count();
        match page {
            0 => assert_eq!(found, contents),
            1 => assert!(right + nameless > 30, "{right} and {nameless}"),
            _ => assert!(right > 30, "page {page}: {right}"),
        }
    }
    assert!(damaged > 3, "{damaged}");
}

#[test]
fn a_catalogue_whose_changes_do_not_fit_is_found_by_a_check_and_a_file_that_shares_pages_is_doubtful() {
    let (mut device, _) = device_with_files();
    let mut open =
        Volume::open(&mut device, MountOptions::default(), |_| Box::new(SingleLog::Greedy)).unwrap();
    let (mut log, catalogue) = CatalogueLog::load(&mut open).unwrap().unwrap();
    let ids: Vec<FileId> = catalogue.nodes().map(|(id, _)| id).filter(|id| id.0 > 4).take(2).collect();
    let (_, pages) = catalogue.node(ids[0]).unwrap().extents.iter().next().unwrap();
    log.append(&mut open, &catalogue, &[Change::Extent { id: ids[1], file_page: 1000, pages }]).unwrap();
    open.finish().unwrap();
    drop(open);
    let found = faults(&mut device);
    assert!(found.len() == 1 && found[0].contains("has a page that another file has"), "{found:?}");
    is_refused(&mut device);
    let files = SalvagedFiles::open(&mut device).unwrap();
    let doubtful: Vec<FileId> =
        files.entries().iter().filter(|entry| entry.is_doubtful).map(|entry| entry.status.id).collect();
    assert_eq!(doubtful, ids);
}
