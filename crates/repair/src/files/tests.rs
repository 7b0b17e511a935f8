use std::collections::BTreeSet;

use flashlab_base::{Nanos, Prng, Seed};
use flashlab_device::MemoryDevice;

use super::*;
use crate::format::VolumeUuid;
use crate::layout::LayoutOptions;
use crate::single_log::SingleLog;
use crate::volume::MountOptions;

pub(super) const PAGE: u64 = 4096;
pub(super) const NEW: FileAttributes =
    FileAttributes { mode: 0o600, user: 3, group: 4, modified_ns: 5, changed_ns: 5, accessed_ns: 5 };

pub(super) fn volume(device: MemoryDevice) -> Volume<MemoryDevice> {
    Volume::open(device, MountOptions::default(), |_| Box::new(SingleLog::Greedy)).unwrap()
}

pub(super) fn new_volume() -> Volume<MemoryDevice> {
    new_volume_with(PAGE)
}

fn new_volume_with(page: u64) -> Volume<MemoryDevice> {
    let mut device = MemoryDevice::new(Bytes::mib(8), Nanos(100));
    let (segment, checkpoint_interval) = (Bytes::kib(64).max(Bytes(8 * page)), Bytes::kib(256));
    let (capacity, logical_pages) = (Bytes::mib(8), 1200 * PAGE / page);
    let options = LayoutOptions { capacity, page: Bytes(page), segment, logical_pages, checkpoint_interval };
    Volume::create(&mut device, VolumeUuid([7; 16]), options).unwrap();
    volume(device)
}

pub(super) fn new_files() -> Files<MemoryDevice> {
    new_files_with(PAGE)
}

/// Files on pages of this size.
pub(super) fn new_files_with(page: u64) -> Files<MemoryDevice> {
    Files::open(new_volume_with(page)).unwrap()
}

/// The files after a power failure that loses what was not flushed.
pub(super) fn mounted_again(files: Files<MemoryDevice>) -> Files<MemoryDevice> {
    Files::open(volume(files.abandon())).unwrap()
}

pub(super) fn content(files: &mut Files<MemoryDevice>, path: &str) -> Vec<u8> {
    let id = files.find(path.as_bytes()).unwrap();
    let mut data = vec![0; files.status(id).unwrap().size.0 as usize];
    assert_eq!(files.read(id, 0, &mut data).unwrap(), data.len());
    data
}

pub(super) fn make(files: &mut Files<MemoryDevice>, name: &str, data: &[u8]) -> FileId {
    let id = files.create(FileId::ROOT, name.as_bytes(), FileKind::Regular, NEW).unwrap();
    files.write(id, None, data, 6).unwrap();
    id
}

pub(super) fn refusal<T: std::fmt::Debug>(result: Result<T, RepairError>) -> FileRefusal {
    match result.unwrap_err() {
        RepairError::File(refusal) => refusal,
        other => panic!("{other}"),
    }
}

#[test]
fn names_sizes_and_attributes_are_there_after_the_next_mount() {
    let mut files = new_files();
    let directory = files.create(FileId::ROOT, b"d", FileKind::Directory, NEW).unwrap();
    let id = files.create(directory, b"file", FileKind::Regular, NEW).unwrap();
    files.write(id, Some(10_000), b"data", 7).unwrap();
    files.set_attributes(id, FileAttributes { mode: 0o644, ..files.status(id).unwrap().attributes }).unwrap();
    files.sync(false).unwrap();
    let mut files = mounted_again(files);
    let status = files.status(files.find(b"/d/file").unwrap()).unwrap();
    assert_eq!((status.size, status.links, status.allocated), (Bytes(10_004), 1, Bytes(PAGE)));
    assert_eq!(status.attributes, FileAttributes { mode: 0o644, modified_ns: 7, changed_ns: 7, ..NEW });
    assert_eq!(content(&mut files, "d/file"), [vec![0; 10_000], b"data".to_vec()].concat());
}

#[test]
fn a_rename_replaces_and_a_removed_file_lives_while_it_is_open() {
    let mut files = new_files();
    let old = make(&mut files, "old", b"old");
    make(&mut files, "new", b"new");
    let free = files.usage().free;
    files.hold(old).unwrap();
    let root = FileId::ROOT;
    assert_eq!(refusal(files.rename((root, b"new"), (root, b"old"), false, 8)), FileRefusal::Exists);
    files.rename((root, b"new"), (root, b"old"), true, 8).unwrap();
    assert_eq!(content(&mut files, "old"), b"new");
    let mut data = [0; 3];
    files.read(old, 0, &mut data).unwrap();
    assert_eq!((&data, files.status(old).unwrap().links), (b"old", 0));
    files.release(old).unwrap();
    assert_eq!(refusal(files.status(old)), FileRefusal::Missing);
    assert_eq!(files.usage().free.0, free.0 + PAGE);
    // Two names: the file goes with the second one.
    let id = files.find(b"old").unwrap();
    files.link(id, root, b"other", 9).unwrap();
    files.unlink(root, b"old", 9).unwrap();
    assert_eq!(content(&mut files, "other"), b"new");
    // A file that was open without a name when the power failed is removed.
    files.hold(id).unwrap();
    files.unlink(root, b"other", 9).unwrap();
    files.sync(true).unwrap();
    let files = mounted_again(files);
    assert_eq!(refusal(files.status(id)), FileRefusal::Missing);
    assert_eq!(files.usage().free, files.usage().total);
}

#[test]
fn what_directories_forbid_is_refused() {
    let mut files = new_files();
    let root = FileId::ROOT;
    let outer = files.create(root, b"outer", FileKind::Directory, NEW).unwrap();
    let inner = files.create(outer, b"inner", FileKind::Directory, NEW).unwrap();
    let file = make(&mut files, "file", b"x");
    assert_eq!(refusal(files.rename((root, b"outer"), (inner, b"x"), true, 1)), FileRefusal::Invalid);
    assert_eq!(refusal(files.remove_directory(root, b"outer", 1)), FileRefusal::NotEmpty);
    assert_eq!(refusal(files.remove_directory(root, b"file", 1)), FileRefusal::NotDirectory);
    assert_eq!(refusal(files.unlink(root, b"outer", 1)), FileRefusal::IsDirectory);
    assert_eq!(refusal(files.rename((root, b"file"), (root, b"outer"), true, 1)), FileRefusal::IsDirectory);
    assert_eq!(refusal(files.rename((root, b"outer"), (root, b"file"), true, 1)), FileRefusal::NotDirectory);
    assert_eq!(refusal(files.create(root, b"file", FileKind::Regular, NEW)), FileRefusal::Exists);
    assert_eq!(refusal(files.create(root, b"a/b", FileKind::Regular, NEW)), FileRefusal::Invalid);
    assert_eq!(refusal(files.create(root, &[b'n'; 256], FileKind::Regular, NEW)), FileRefusal::NameTooLong);
    assert_eq!(refusal(files.write(file, Some(u64::MAX - 2), b"abc", 1)), FileRefusal::TooLarge);
    assert_eq!(refusal(files.write(outer, Some(0), b"abc", 1)), FileRefusal::IsDirectory);
    assert_eq!(refusal(files.find(b"file/x")), FileRefusal::NotDirectory);
    files.rename((outer, b"inner"), (root, b"moved"), true, 1).unwrap();
    files.remove_directory(root, b"outer", 1).unwrap();
}

#[test]
fn a_file_never_shows_what_it_or_another_one_held_before() {
    let mut files = new_files();
    let id = make(&mut files, "a", &[1; 10_000]);
    files.truncate(id, Bytes(100), 1).unwrap();
    files.truncate(id, Bytes(9_000), 1).unwrap();
    assert_eq!(content(&mut files, "a"), [vec![1; 100], vec![0; 8_900]].concat());
    files.write(id, None, &[2; 4096], 1).unwrap();
    files.punch(id, 50, 9_500, 1).unwrap();
    assert_eq!(content(&mut files, "a"), [vec![1; 50], vec![0; 9_500], vec![2; 3_546]].concat());
    files.unlink(FileId::ROOT, b"a", 1).unwrap();
    let other = make(&mut files, "b", b"");
    let all = files.usage().free;
    files.allocate(other, 0, all.0, false, 1).unwrap();
    assert!(content(&mut files, "b").iter().all(|&byte| byte == 0));
}

#[test]
fn a_full_volume_and_a_full_catalogue_refuse_and_keep_what_is_there() {
    let mut files = new_files();
    let id = make(&mut files, "large", b"");
    let chunk = vec![9; 64 * 1024];
    let refused = loop {
        match files.write(id, None, &chunk, 1) {
            Ok(_) => {}
            refused => break refusal(refused),
        }
    };
    assert_eq!(refused, FileRefusal::NoSpace);
    let size = files.status(id).unwrap().size;
    assert!(size.0 > 3 << 20 && size.is_multiple_of(Bytes(chunk.len() as u64)), "{size}");
    files.unlink(FileId::ROOT, b"large", 1).unwrap();
    let names = (0..).map(|number| format!("{number:0>200}"));
    let made =
        names.take_while(|name| match files.create(FileId::ROOT, name.as_bytes(), FileKind::Regular, NEW) {
            Ok(_) => true,
            refused => {
                assert_eq!(refusal(refused), FileRefusal::CatalogueFull);
                false
            }
        });
    let made = made.count();
    assert!(made > 150, "{made}");
    // Removing is possible, and everything is there after the next mount.
    files.unlink(FileId::ROOT, format!("{:0>200}", 0).as_bytes(), 1).unwrap();
    files.sync(true).unwrap();
    let files = mounted_again(files);
    assert_eq!(files.entries(FileId::ROOT).unwrap().len(), made - 1);
}

#[test]
fn a_volume_that_was_a_block_device_is_refused_and_damage_is_seen() {
    let mut used = new_volume();
    used.write(100 * PAGE, b"data of a file system").unwrap();
    assert_eq!(Files::open(used).err(), Some(RepairError::NoFiles));
    let mut files = new_files();
    make(&mut files, "a", b"a");
    files.sync(true).unwrap();
    // A page of the catalogue with another content, which the volume itself finds right.
    let mut volume = volume(files.abandon());
    volume.write(PAGE + 40, b"?").unwrap();
    let error = Files::open(volume).err().unwrap().to_string();
    assert!(error.contains("the catalogue of files") && error.contains("checksum"), "{error}");
    let mut other = new_volume();
    other.write(0, b"FLFILES\0\x09\0\0\0").unwrap();
    assert_eq!(Files::open(other).err(), Some(RepairError::OtherFilesVersion(9)));
}

#[test]
fn files_are_moved_before_the_volume_is_made_smaller() {
    let mut files = new_files();
    let pattern = |file: u8, length: usize| (0..length).map(|at| at as u8 ^ file).collect::<Vec<u8>>();
    // Holes between the files, and a part that is allocated and was never written.
    for file in 0..20 {
        make(&mut files, &format!("f{file}"), &pattern(file, 150_000));
    }
    for file in (0..14).step_by(2) {
        files.unlink(FileId::ROOT, format!("f{file}").as_bytes(), 9).unwrap();
    }
    let last = make(&mut files, "last", &pattern(99, 10_000));
    files.allocate(last, 0, 100_000, true, 9).unwrap();
    let end = Bytes(700 * PAGE);
    let before: Vec<_> = files.entries(FileId::ROOT).unwrap();
    assert!(files.extent_behind(700).is_some(), "there is something to move");
    assert!(matches!(files.move_before(Bytes(20 * PAGE)), Err(RepairError::Options(_))));
    assert!(matches!(files.move_before(Bytes(400 * PAGE)), Err(RepairError::Options(_))));
    let moved = files.move_before(end).unwrap();
    assert!(moved > Bytes(PAGE), "{moved}");
    let mut volume = files.into_volume();
    assert!(Files::are_on(&mut volume).unwrap());
    volume.resize(end).unwrap();
    let mut files = Files::open(self::volume(volume.abandon())).unwrap();
    assert_eq!(files.entries(FileId::ROOT).unwrap(), before);
    for file in (0..14).filter(|file| file % 2 == 1).chain(14..20) {
        assert_eq!(content(&mut files, &format!("f{file}")), pattern(file, 150_000), "{file}");
    }
    assert_eq!(content(&mut files, "last"), pattern(99, 10_000));
    // What is written now lies inside, too.
    make(&mut files, "new", &pattern(7, 100_000));
    let mut files = mounted_again(files);
    assert_eq!(content(&mut files, "f15"), pattern(15, 150_000));
}

#[test]
fn symbolic_links_have_a_target_and_no_data() {
    let mut files = new_files();
    make(&mut files, "file", b"data");
    let target = [b"../".to_vec(), vec![b'x'; 4000]].concat();
    let link = files.symlink(FileId::ROOT, b"link", &target, NEW).unwrap();
    assert_eq!(refusal(files.symlink(FileId::ROOT, b"link", b"t", NEW)), FileRefusal::Exists);
    assert_eq!(refusal(files.symlink(FileId::ROOT, b"l", b"", NEW)), FileRefusal::Invalid);
    assert_eq!(refusal(files.symlink(FileId::ROOT, b"l", &[b'x'; 4096], NEW)), FileRefusal::NameTooLong);
    assert_eq!(refusal(files.write(link, None, b"data", 9)), FileRefusal::SymbolicLink);
    assert_eq!(refusal(files.read(link, 0, &mut [0])), FileRefusal::SymbolicLink);
    assert_eq!(refusal(files.read_link(files.find(b"file").unwrap())), FileRefusal::Invalid);
    files.rename((FileId::ROOT, b"link"), (FileId::ROOT, b"file"), true, 9).unwrap();
    files.sync(false).unwrap();
    let mut files = mounted_again(files);
    let link = files.find(b"file").unwrap();
    assert_eq!(files.read_link(link).unwrap(), target);
    assert_eq!(files.status(link).unwrap().kind, FileKind::SymbolicLink);
    assert_eq!(files.status(link).unwrap().size, Bytes(target.len() as u64));
    let free = files.usage().free;
    files.unlink(FileId::ROOT, b"file", 9).unwrap();
    assert_eq!(files.usage().free, free + Bytes(PAGE));
}

/// Every change that a catalogue can have.
fn files_of_all_kinds() -> Files<MemoryDevice> {
    let mut files = new_files();
    let directory = files.create(FileId::ROOT, b"d", FileKind::Directory, NEW).unwrap();
    let large = make(&mut files, "large", &[7; 20 * PAGE as usize]);
    files.punch(large, 4 * PAGE, 6 * PAGE, 8).unwrap();
    let gone = make(&mut files, "gone", b"gone");
    files.link(gone, directory, b"linked", 9).unwrap();
    files.unlink(FileId::ROOT, b"gone", 9).unwrap();
    files.symlink(directory, b"symbolic", b"/large", NEW).unwrap();
    files.rename((FileId::ROOT, b"large"), (directory, b"moved"), false, 10).unwrap();
    files.truncate(large, Bytes(9 * PAGE + 5), 11).unwrap();
    make(&mut files, "removed", b"x");
    files.unlink(FileId::ROOT, b"removed", 12).unwrap();
    files.set_extended(large, b"name", b"value", SetExtended::Any, 13).unwrap();
    files.set_extended(large, b"gone", b"value", SetExtended::Any, 13).unwrap();
    files.remove_extended(large, b"gone", 13).unwrap();
    files.exchange((directory, b"moved"), (directory, b"linked"), 14).unwrap();
    files.sync(false).unwrap();
    files
}

/// Overwrites bytes of the changes in a page of the log, and makes its checksum right: else the damage would be noticed too early.
fn edit_page(random: &mut Prng, page: &mut [u8], seed: u32) {
    let length = u32::from_le_bytes(page[12..16].try_into().unwrap()) as usize;
    for _ in 0..=random.below(3) {
        let size = [1, 1, 8][random.below(3) as usize];
        let at = 32 + random.below((length - 32 - size) as u64 + 1) as usize;
        let value = [0, 1, random.below(40), u64::MAX, 1 << 62, random.next_u64()][random.below(6) as usize];
        page[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    if random.below(8) == 0 {
        let shorter = 32 + random.below((length - 31) as u64) as u32;
        page[12..16].copy_from_slice(&shorter.to_le_bytes());
    }
    let length = u32::from_le_bytes(page[12..16].try_into().unwrap()) as usize;
    let crc = crc32c::crc32c_append(seed, &page[12..length]);
    page[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// Uses all that a program can: nothing may panic, whatever the result.
fn use_everything(files: &mut Files<MemoryDevice>) {
    let mut directories = vec![FileId::ROOT];
    let mut seen = BTreeSet::new();
    while let Some(directory) = directories.pop() {
        let entries = files.entries(directory).unwrap_or_default();
        for (name, status) in entries {
            let id = files.lookup(directory, &name).unwrap();
            if !seen.insert(id) {
                continue;
            }
            directories.extend((status.kind == FileKind::Directory).then_some(id));
            let mut data = vec![0; 3 * PAGE as usize];
            for offset in [0, status.size.0.saturating_sub(10), PAGE * 5 + 1, u64::MAX - 5] {
                let _ = files.read(id, offset, &mut data);
                let _ = files.write(id, Some(offset), b"new data", 13);
            }
            let _ = files.read_link(id);
            let _ = (files.seek_data(id, 5), files.seek_hole(id, 5));
            let _ = files.set_extended(id, b"name", b"new", SetExtended::Any, 13);
            let _ = files.exchange((directory, &name), (FileId::ROOT, b"d"), 13);
            let _ = files.punch(id, PAGE, u64::MAX, 14);
            let _ = files.truncate(id, Bytes(3 * PAGE), 15);
            let _ = files.rename((directory, &name), (FileId::ROOT, b"renamed"), true, 16);
            let _ = files.unlink(directory, &name, 17);
        }
    }
    let _ = files.create(FileId::ROOT, b"one more", FileKind::Regular, NEW);
    let _ = files.usage();
    files.sync(false).unwrap();
}

#[test]
fn a_catalogue_that_others_wrote_is_refused_or_used_and_nothing_panics() {
    let (mut opened, mut refused) = (0, 0);
    for seed in 0..300 {
        let mut volume = files_of_all_kinds().into_volume();
        let mut random = Prng::new(Seed(seed));
        let mut page = vec![0; PAGE as usize];
        // The first page of the first log.
        volume.read(PAGE, &mut page).unwrap();
        edit_page(&mut random, &mut page, volume.superblock().uuid.seed());
        volume.write(PAGE, &page).unwrap();
        match Files::open(volume) {
            Ok(mut files) => {
                opened += 1;
                use_everything(&mut files);
                let _ = Files::open(self::volume(files.abandon()));
            }
            Err(RepairError::DamagedFiles { .. }) => refused += 1,
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    assert!(opened > 20 && refused > 100, "{opened} opened, {refused} refused");
}
