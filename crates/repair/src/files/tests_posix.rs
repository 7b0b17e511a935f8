//! Times, extended attributes, exchanges, removed directories, holes, and space for files that grow.

use flashlab_base::Nanos;
use flashlab_device::{Arena, Operation, Request};

use super::tests::{NEW, PAGE, content, make, mounted_again, new_files, new_volume, refusal, volume};
use super::*;
use crate::files::log::CatalogueLog;

const ROOT: FileId = FileId::ROOT;

fn times(files: &Files<flashlab_device::MemoryDevice>, id: FileId) -> (i64, i64, i64) {
    let attributes = files.status(id).unwrap().attributes;
    (attributes.modified_ns, attributes.changed_ns, attributes.accessed_ns)
}

#[test]
fn each_time_changes_with_its_operations_and_is_there_after_a_sync() {
    let mut files = new_files();
    let id = make(&mut files, "a", b"data");
    assert_eq!(times(&files, id), (6, 6, 5));
    assert!(files.accessed(id, 7) && !files.accessed(id, 8), "as relatime");
    assert!(files.accessed(id, 7 + 24 * 3600 * 1_000_000_000));
    files.link(id, ROOT, b"b", 9).unwrap();
    assert_eq!(times(&files, id), (6, 9, 7 + 24 * 3600 * 1_000_000_000));
    files.rename((ROOT, b"b"), (ROOT, b"c"), true, 10).unwrap();
    files.unlink(ROOT, b"c", 11).unwrap();
    assert_eq!((times(&files, id).1, times(&files, ROOT).0), (11, 11));
    files.sync(true).unwrap();
    let old = FileAttributes { modified_ns: -1_500_000_000, changed_ns: 12, accessed_ns: i64::MIN, ..NEW };
    files.set_attributes(id, old).unwrap();
    files.truncate(id, Bytes(1), 13).unwrap();
    files.set_attributes(id, FileAttributes { changed_ns: 14, ..old }).unwrap();
    files.touched(id, 15);
    files.sync(true).unwrap();
    let mut files = mounted_again(files);
    assert_eq!(times(&files, id), (-1_500_000_000, 14, i64::MIN), "fdatasync leaves newer times out");
    files.touched(id, 16);
    files.sync(false).unwrap();
    assert_eq!(times(&mounted_again(files), id).1, 16);
}

#[test]
fn extended_attributes_are_there_after_the_next_mount_and_have_bounds() {
    let mut files = new_files();
    let id = make(&mut files, "a", b"data");
    let (any, create, replace) = (SetExtended::Any, SetExtended::Create, SetExtended::Replace);
    assert_eq!(refusal(files.set_extended(id, b"x", b"1", replace, 7)), FileRefusal::NoAttribute);
    files.set_extended(id, b"x", b"1", create, 7).unwrap();
    assert_eq!(refusal(files.set_extended(id, b"x", b"2", create, 7)), FileRefusal::Exists);
    files.set_extended(id, b"x", b"two", replace, 8).unwrap();
    files.set_extended(id, b"gone", b"", any, 8).unwrap();
    files.remove_extended(id, b"gone", 9).unwrap();
    assert_eq!(refusal(files.remove_extended(id, b"gone", 9)), FileRefusal::NoAttribute);
    let large = vec![b'l'; 4096 - 36 - 20 - 20 - 4];
    assert_eq!(refusal(files.set_extended(id, b"l", &[0; 4040], any, 9)), FileRefusal::NoSpace);
    files.set_extended(id, b"l", &large, any, 9).unwrap();
    assert_eq!(refusal(files.set_extended(id, b"m", b"", any, 9)), FileRefusal::NoSpace);
    assert_eq!(times(&files, id), (6, 9, 5));
    let directory = files.create(ROOT, b"d", FileKind::Directory, NEW).unwrap();
    files.set_extended(directory, b"y", b"of a directory", any, 9).unwrap();
    // So many changes that the log is begun anew.
    (0..4000).for_each(|_| files.set_extended(directory, b"z", b"zz", any, 9).unwrap());
    files.sync(false).unwrap();
    let mut files = mounted_again(files);
    assert_eq!(files.extended_names(id).unwrap(), [b"l", b"x"]);
    assert_eq!(
        (files.extended(id, b"x").unwrap(), files.extended(id, b"l").unwrap()),
        (&b"two"[..], &large[..])
    );
    assert_eq!(files.extended(directory, b"y").unwrap(), b"of a directory");
    // What the catalogue counts is what a new one would take.
    let bytes = files.catalogue.charge();
    files.unlink(ROOT, b"a", 10).unwrap();
    files.remove_directory(ROOT, b"d", 10).unwrap();
    assert!(files.catalogue.charge() < bytes);
    let empty = new_files().catalogue.charge();
    assert_eq!(files.catalogue.charge(), empty);
}

#[test]
fn names_are_exchanged_and_directories_count_their_directories() {
    let mut files = new_files();
    let links = |files: &Files<_>, id| files.status(id).unwrap().links;
    let outer = files.create(ROOT, b"outer", FileKind::Directory, NEW).unwrap();
    let inner = files.create(outer, b"inner", FileKind::Directory, NEW).unwrap();
    let file = make(&mut files, "file", b"data");
    assert_eq!((links(&files, ROOT), links(&files, outer), links(&files, inner)), (3, 3, 2));
    let (at_file, at_inner) = ((ROOT, b"file".as_slice()), (outer, b"inner".as_slice()));
    assert_eq!(refusal(files.exchange((ROOT, b"outer"), at_inner, 7)), FileRefusal::Invalid);
    assert_eq!(refusal(files.exchange((ROOT, b"outer"), (outer, b"none"), 7)), FileRefusal::Missing);
    files.exchange(at_file, at_inner, 7).unwrap();
    assert_eq!((files.find(b"file").unwrap(), files.find(b"outer/inner").unwrap()), (inner, file));
    assert_eq!((links(&files, ROOT), links(&files, outer), files.parent(inner).unwrap()), (4, 2, ROOT));
    assert_eq!((times(&files, file).1, times(&files, inner).1, times(&files, outer).0), (7, 7, 7));
    files.sync(false).unwrap();
    let mut files = mounted_again(files);
    assert_eq!((files.find(b"file").unwrap(), links(&files, ROOT)), (inner, 4));
    // A removed directory that is in use.
    files.hold(inner).unwrap();
    files.remove_directory(ROOT, b"file", 8).unwrap();
    assert_eq!((links(&files, inner), links(&files, ROOT)), (0, 3));
    assert_eq!(files.entries(inner).unwrap(), []);
    assert_eq!(refusal(files.create(inner, b"x", FileKind::Regular, NEW)), FileRefusal::Missing);
    files.release(inner).unwrap();
    assert_eq!(refusal(files.status(inner)), FileRefusal::Missing);
}

#[test]
fn holes_are_found_also_where_space_is_allocated() {
    let mut files = new_files();
    let id = make(&mut files, "a", b"data");
    files.write(id, Some(3 * PAGE), b"data", 7).unwrap();
    files.allocate(id, 5 * PAGE, PAGE, false, 8).unwrap();
    assert_eq!((files.seek_data(id, 0).unwrap(), files.seek_hole(id, 0).unwrap()), (0, PAGE));
    assert_eq!((files.seek_data(id, 10).unwrap(), files.seek_hole(id, 5000).unwrap()), (10, 5000));
    assert_eq!(files.seek_data(id, PAGE).unwrap(), 3 * PAGE);
    assert_eq!(files.seek_hole(id, 3 * PAGE).unwrap(), 4 * PAGE);
    assert_eq!(refusal(files.seek_data(id, 4 * PAGE)), FileRefusal::NoData);
    assert_eq!(files.seek_hole(id, 6 * PAGE - 1).unwrap(), 6 * PAGE - 1);
    assert_eq!(refusal(files.seek_hole(id, 6 * PAGE)), FileRefusal::NoData);
    let full = make(&mut files, "b", &[1; 2 * PAGE as usize]);
    assert_eq!(files.seek_hole(full, 0).unwrap(), 2 * PAGE);
}

#[test]
fn files_that_grow_keep_no_more_than_they_need_and_all_space_can_be_used() {
    let mut files = new_files();
    let total = files.usage().free;
    let ids: Vec<FileId> =
        [b"a", b"b"].iter().map(|name| files.create(ROOT, *name, FileKind::Regular, NEW).unwrap()).collect();
    ids.iter().for_each(|id| files.hold(*id).unwrap());
    let data = vec![7; PAGE as usize];
    for _ in 0..160 {
        for id in &ids {
            files.write(*id, None, &data, 7).unwrap();
        }
    }
    assert!(!files.windows.is_empty(), "they grow");
    let extents = |files: &Files<_>, id| files.catalogue.node(id).unwrap().extents.len();
    assert!(ids.iter().all(|id| extents(&files, *id) < 30), "they grow in large pieces");
    let written = Bytes(2 * 160 * PAGE);
    assert_eq!(files.usage().free, total - written, "windows are free space");
    files.release(ids[0]).unwrap();
    assert_eq!(files.windows.len(), 1);
    // Another file gets what is left, also the other window.
    let other = make(&mut files, "c", b"");
    let left = files.usage().free;
    files.write(other, None, &vec![8; left.0 as usize], 8).unwrap();
    assert_eq!((files.usage().free, files.windows.len()), (Bytes::ZERO, 0));
    assert_eq!(refusal(files.write(other, None, b"x", 8)), FileRefusal::NoSpace);
    for id in &ids {
        assert_eq!(files.status(*id).unwrap().allocated, Bytes(160 * PAGE));
    }
    files.sync(false).unwrap();
    let mut files = mounted_again(files);
    assert_eq!(files.usage().free, Bytes::ZERO);
    assert!(content(&mut files, "a") == vec![7; 160 * PAGE as usize]);
}

#[test]
fn a_refused_write_takes_no_space() {
    let mut files = new_files();
    let id = make(&mut files, "a", b"");
    let (free, catalogue) = (files.usage().free, files.catalogue.charge());
    assert_eq!(refusal(files.write(id, None, &vec![1; free.0 as usize + 1], 7)), FileRefusal::NoSpace);
    assert_eq!((files.usage().free, files.catalogue.charge()), (free, catalogue));
    assert_eq!(files.status(id).unwrap().size, Bytes::ZERO);
}

/// A page that cannot be read, and is overwritten in part, fails a write that filled a hole before it.
#[test]
fn a_failed_write_takes_no_space_and_leaves_nothing() {
    let mut files = new_files();
    let id = files.create(ROOT, b"a", FileKind::Regular, NEW).unwrap();
    files.write(id, Some(8 * PAGE), &[0xd5; PAGE as usize], 7).unwrap();
    files.finish().unwrap();
    let mut device = files.abandon();
    let at = device.data().windows(64).position(|bytes| bytes == [0xd5; 64]).unwrap() as u64;
    let (offset, size) = (Bytes(at).round_down(Bytes(512)), Bytes(512));
    let buffer = Arena::buffers(1, size).remove(0);
    device.submit(Request { tag: 1, operation: Operation::Write, offset, size, buffer });
    device.wait(Nanos::MAX).unwrap();
    let mut files = Files::open(volume(device)).unwrap();
    let (free, size) = (files.usage().free, files.status(id).unwrap().size);
    let data = vec![0xe6; 8 * PAGE as usize + 10];
    let error = files.write(id, Some(0), &data, 8).unwrap_err();
    assert!(matches!(error, RepairError::Damaged { .. }), "{error}");
    assert_eq!((files.usage().free, files.status(id).unwrap().size), (free, size));
    let other = files.create(ROOT, b"b", FileKind::Regular, NEW).unwrap();
    files.allocate(other, 0, free.0, false, 9).unwrap();
    assert!(content(&mut files, "b").iter().all(|&byte| byte == 0), "another file shows what the write left");
}

#[test]
fn files_of_version_2_have_one_time() {
    let mut volume = new_volume();
    drop(CatalogueLog::make(&mut volume).unwrap());
    // A page of the log with a file and its name.
    let seed = volume.superblock().uuid.seed();
    let mut changes = vec![1];
    changes.extend(2_u64.to_le_bytes());
    changes.push(0);
    [0o644_u32, 3, 4].iter().for_each(|value| changes.extend(value.to_le_bytes()));
    changes.extend(77_u64.to_le_bytes());
    Change::Link { parent: ROOT, name: b"old".to_vec(), id: FileId(2) }.encode(&mut changes);
    let mut page = vec![0; PAGE as usize];
    page[..8].copy_from_slice(b"FLCATLOG");
    page[12..16].copy_from_slice(&(32 + changes.len() as u32).to_le_bytes());
    page[32..32 + changes.len()].copy_from_slice(&changes);
    let crc = crc32c::crc32c_append(seed, &page[12..32 + changes.len()]);
    page[8..12].copy_from_slice(&crc.to_le_bytes());
    volume.write(PAGE, &page).unwrap();
    let mut header = vec![0; PAGE as usize];
    volume.read(0, &mut header).unwrap();
    header[8] = 2;
    header[12..16].fill(0);
    let crc = crc32c::crc32c_append(seed, &header);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    volume.write(0, &header).unwrap();
    let mut files = Files::open(volume).unwrap();
    let id = files.find(b"old").unwrap();
    assert_eq!(files.status(id).unwrap().attributes, FileAttributes::new(0o644, 3, 4, 77));
    files.sync(false).unwrap();
    // It has the new version from now on.
    let mut volume = mounted_again(files).into_volume();
    volume.read(0, &mut header).unwrap();
    assert_eq!(header[8], 3);
}
