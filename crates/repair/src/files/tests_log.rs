//! Catalogues that fill their log, also with long changes.

use flashlab_base::{Prng, Seed};
use flashlab_device::MemoryDevice;

use super::tests::{NEW, make, mounted_again, new_files, new_files_with, refusal};
use super::*;

const ROOT: FileId = FileId::ROOT;
const VALUES: [usize; 4] = [1, 1400, 2000, 4000];

fn everything(files: &Files<MemoryDevice>) -> Vec<Change> {
    files.catalogue.changes().collect()
}

/// Changes that need no space, until the other log is begun.
fn begin_other_log(files: &mut Files<MemoryDevice>) {
    let generation = files.log.generation();
    while files.log.generation() == generation {
        let attributes = files.status(ROOT).unwrap().attributes;
        files.set_attributes(ROOT, attributes).unwrap();
    }
}

/// The files after a sync and the next mount: all are there.
fn checked(mut files: Files<MemoryDevice>) -> Files<MemoryDevice> {
    files.sync(false).unwrap();
    let before = everything(&files);
    let files = mounted_again(files);
    assert!(everything(&files) == before, "the next mount has other files");
    files
}

#[test]
fn a_catalogue_full_of_attributes_of_any_length_is_refused_and_takes_removals() {
    for page in [4096, 8192, 16384] {
        for value in VALUES {
            let mut files = new_files_with(page);
            let set =
                |files: &mut Files<_>, id| files.set_extended(id, b"a", &vec![7; value], SetExtended::Any, 7);
            let mut names = Vec::new();
            let refused = loop {
                let name = format!("file {}", names.len()).into_bytes();
                let made = files.create(ROOT, &name, FileKind::Regular, NEW);
                names.push(name);
                if let Err(error) = made.and_then(|id| set(&mut files, id)) {
                    break error;
                }
            };
            let case = format!("values of {value} bytes, pages of {page}");
            assert_eq!(refused, FileRefusal::CatalogueFull.into(), "{case}");
            assert!(names.len() > 4, "{case}: {}", names.len());
            begin_other_log(&mut files);
            let mut files = checked(files);
            begin_other_log(&mut files);
            let id = files.find(b"file 0").unwrap();
            set(&mut files, id).unwrap();
            files.remove_extended(id, b"a", 8).unwrap();
            set(&mut files, id).unwrap();
            for name in names.iter().step_by(2).filter(|name| name.as_slice() != b"file 0") {
                if files.find(name).is_ok() {
                    files.unlink(ROOT, name, 9).unwrap();
                }
            }
            begin_other_log(&mut files);
            let mut files = checked(files);
            make(&mut files, "one more", b"data");
            set(&mut files, id).unwrap();
            checked(files);
        }
    }
}

fn never_refused(result: Result<(), RepairError>) -> Result<(), RepairError> {
    assert_eq!(result, Ok(()));
    result
}

/// Names, extents and attributes of any length: what is refused changes nothing, removals are never refused, and a mount has all.
#[test]
fn random_catalogues_never_outgrow_their_log() {
    for seed in 0..15 {
        println!("seed {seed}");
        let mut random = Prng::new(Seed(seed));
        let mut files = new_files_with([4096, 8192, 16384][seed as usize % 3]);
        // Each seed has another mix.
        let (shortest, longest) =
            [(0, 20), (0, 600), (1360, 1400), (2010, 2040), (0, 4000)][random.below(5) as usize];
        let generation = files.log.generation();
        let mut full = 0;
        for step in 0..4000 {
            let name = vec![b'a' + random.below(26) as u8; 1 + random.below(255) as usize];
            let all: Vec<_> = files.entries(ROOT).unwrap();
            let some = (!all.is_empty()).then(|| all[random.below(all.len() as u64) as usize].clone());
            // It fills up, loses some files, and fills up once more.
            let removes = step % 1000 > 800;
            let what = if removes { 6 + random.below(3) } else { random.below(9) };
            let (old, id) = some.map_or((Vec::new(), ROOT), |(name, status)| (name, status.id));
            let result = match what {
                _ if id == ROOT => files.create(ROOT, &name, FileKind::Regular, NEW).map(drop),
                0 | 1 => files.create(ROOT, &name, FileKind::Regular, NEW).map(drop),
                2 => files.write(id, Some(random.below(40) * 32768), b"data", 7).map(drop),
                3 | 4 => {
                    let value = vec![3; (shortest + random.below(longest - shortest)) as usize];
                    files.set_extended(id, &name[..name.len().min(3)], &value, SetExtended::Any, 7)
                }
                5 => files.link(id, ROOT, &name, 7),
                6 if !removes => files.rename((ROOT, &old), (ROOT, &name), true, 7),
                7 => files
                    .extended_names(id)
                    .unwrap()
                    .first()
                    .map_or(Ok(()), |name| never_refused(files.remove_extended(id, name, 7))),
                _ if removes || random.below(8) == 0 => never_refused(files.unlink(ROOT, &old, 7)),
                _ => files.sync(false),
            };
            match result {
                Ok(()) | Err(RepairError::File(FileRefusal::Exists | FileRefusal::NoSpace)) => {}
                refused => {
                    assert_eq!(refusal(refused), FileRefusal::CatalogueFull);
                    full += 1;
                }
            }
            if step % 500 == 499 {
                begin_other_log(&mut files);
                files = checked(files);
            }
        }
        assert!(full > 0 && files.log.generation() > generation + 8, "full {full} times");
    }
}

/// An earlier version counted attributes as if they filled pages. What it wrote is read; what has no place is refused, each time.
#[test]
fn a_catalogue_that_is_too_large_already_is_kept() {
    let mut files = new_files();
    let generation = files.log.generation();
    let refused = (0..).find_map(|number: u32| {
        let id = FileId(files.catalogue.next_id().0);
        let changes = [
            Change::Node { id, kind: FileKind::Regular, attributes: NEW },
            Change::Link { parent: ROOT, name: number.to_string().into_bytes(), id },
            Change::Extended { id, name: b"a".to_vec(), value: Some(vec![7; 2100]) },
        ];
        files.change(&changes).err()
    });
    assert_eq!(refused, Some(FileRefusal::CatalogueFull.into()));
    files.volume.flush().unwrap();
    let mut files = mounted_again(files);
    let before = everything(&files);
    assert_eq!(files.log.generation(), generation);
    let name = vec![b'n'; 255];
    assert_eq!(refusal(files.create(ROOT, &name, FileKind::Regular, NEW)), FileRefusal::CatalogueFull);
    let changes = [Change::Extended { id: ROOT, name: b"a".to_vec(), value: Some(vec![7; 4000]) }];
    for _ in 0..2 {
        assert_eq!(files.change(&changes), Err(FileRefusal::CatalogueFull.into()));
    }
    assert_eq!((files.log.generation(), everything(&files) == before), (generation, true));
    // The log that is in use has space for a small change; and it is the one that the next mount reads.
    files.unlink(ROOT, b"0", 7).unwrap();
    checked(files);
}

/// The power failed before page 0 named a log, and the log that is begun afterwards is shorter.
#[test]
fn what_a_log_left_that_was_never_named_is_not_read() {
    let mut large = new_files();
    for number in 0..150 {
        make(&mut large, &format!("{number:0>200}"), b"");
    }
    begin_other_log(&mut large);
    let (generation, layout) = (large.log.generation(), large.layout);
    let mut left = large.into_volume();
    let mut files = new_files();
    make(&mut files, "a", b"data");
    while files.log.generation() + 1 < generation {
        begin_other_log(&mut files);
    }
    let mut volume = files.into_volume();
    let mut pages = vec![0; (layout.log_pages * layout.page) as usize];
    let at = (1 + generation % 2 * layout.log_pages) * layout.page;
    left.read(at, &mut pages).unwrap();
    volume.write(at, &pages).unwrap();
    let mut files = Files::open(volume).unwrap();
    assert_eq!(files.log.generation() + 1, generation);
    begin_other_log(&mut files);
    let files = checked(files);
    assert_eq!(files.entries(ROOT).unwrap().len(), 1);
}
