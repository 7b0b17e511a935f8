//! A mounted volume that becomes full: `df` and `df -i` said before what fits, and nothing is kept that no file has.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use flashlab_judge::map;
use rustix::fs::statvfs;

use crate::files::{Mounted, Place};
use crate::repair::new_volume;
use crate::support::Directory;

const NO_SPACE: i32 = 28;
const PAGE: u64 = 4096;

/// Writes chunks until there is no space. Returns what was written.
fn fill(mut file: &File, chunk: usize) -> u64 {
    let chunk = vec![0x5a; chunk];
    let mut written = 0;
    loop {
        match file.write(&chunk) {
            Ok(length) => written += length as u64,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(NO_SPACE));
                return written;
            }
        }
    }
}

#[test]
fn df_says_what_files_take() {
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "64MiB");
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    let mount = place.mount();
    let free = || statvfs(&mount).unwrap().f_bavail * PAGE;
    let all = free();
    assert!(all > 20 << 20, "{all}");
    for chunk in [1 << 20, 100_000, 4096] {
        let file = File::create(mounted.path("large")).unwrap();
        assert_eq!((fill(&file, chunk), free()), (all, 0), "in chunks of {chunk}");
        assert_eq!(file.metadata().unwrap().blocks() * 512, all);
        drop(file);
        fs::remove_file(mounted.path("large")).unwrap();
    }
    // Files that grow at the same time, and stay open.
    let files: Vec<File> =
        (0..4).map(|number| File::create(mounted.path(&number.to_string())).unwrap()).collect();
    let mut written = 0;
    for _ in 0..60 {
        for mut file in &files {
            file.write_all(&[1; 50_000]).unwrap();
            written += 50_000;
        }
    }
    let pages = files.iter().map(|file| file.metadata().unwrap().len().div_ceil(PAGE)).sum::<u64>();
    assert_eq!(free(), all - pages * PAGE, "{written} bytes in {} files", files.len());
    let last = fill(&files[0], 1 << 20);
    assert!(
        last >= all - pages * PAGE && last < all - pages * PAGE + PAGE,
        "also what the others may grow by"
    );
    drop(files);
    (0..4).for_each(|number| fs::remove_file(mounted.path(&number.to_string())).unwrap());
    assert_eq!(free(), all);
    mounted.end();
}

#[test]
fn a_direct_write_that_does_not_fit_gets_enospc() {
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "64MiB");
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    // Within the file's size the kernel sends direct writes side by side, and fails all of a write of which a part ended early.
    let path = mounted.path("sparse");
    File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let output = format!("of={}", path.display());
    let arguments = ["if=/dev/zero", &output, "bs=1M", "count=1024", "oflag=direct", "conv=notrunc"];
    let dd = Command::new("dd").args(arguments).env("LC_ALL", "C").output().unwrap();
    let said = String::from_utf8(dd.stderr).unwrap();
    assert!(said.contains("No space left on device"), "{said}");
    mounted.end();
}

/// A mapped page gets its place when it is written back. The kernel does not look how much of such a write was done.
#[test]
fn msync_of_what_does_not_fit_gets_enospc() {
    const SPARSE: u64 = 64 * PAGE;
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "64MiB");
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    let free = || statvfs(place.mount()).unwrap().f_bavail * PAGE;
    fs::write(mounted.path("ballast"), vec![0x5a; (free() - SPARSE / 2) as usize]).unwrap();
    let options = OpenOptions::new().read(true).write(true).create_new(true).clone();
    let sparse = options.open(mounted.path("sparse")).unwrap();
    sparse.set_len(SPARSE).unwrap();
    let mut mapping = map(&sparse, SPARSE).unwrap();
    mapping.fill(0x33);
    assert_eq!(mapping.flush().unwrap_err().raw_os_error(), Some(NO_SPACE));
    drop((mapping, sparse));
    // What fits is there, and with space again all of it.
    assert_eq!(mounted.path("sparse").metadata().unwrap().blocks() * 512, SPARSE / 2);
    fs::remove_file(mounted.path("ballast")).unwrap();
    let sparse = OpenOptions::new().read(true).write(true).open(mounted.path("sparse")).unwrap();
    let mut mapping = map(&sparse, SPARSE).unwrap();
    mapping.fill(0x34);
    mapping.flush().unwrap();
    drop((mapping, sparse));
    mounted.end();
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    assert_eq!(fs::read(mounted.path("sparse")).unwrap(), vec![0x34; SPARSE as usize]);
    mounted.end();
}

#[test]
fn df_i_says_how_many_files_fit() {
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "64MiB");
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    let said = statvfs(place.mount()).unwrap().f_favail;
    let mut made = 0_u64;
    let error = loop {
        let path = mounted.path(&format!("a file of 24 bytes {made:05}"));
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        match file.and_then(|mut file| file.write_all(b"data")) {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(NO_SPACE));
    assert!(said > 1000 && made.abs_diff(said) <= 1, "{made} files, and df -i said {said}");
    assert!(statvfs(place.mount()).unwrap().f_favail <= 1);
    // What is there can be removed, overwritten and mounted again.
    fs::write(mounted.path("a file of 24 bytes 00000"), b"other data").unwrap();
    fs::remove_file(mounted.path("a file of 24 bytes 00001")).unwrap();
    mounted.end();
    let mounted = Mounted::begin(&directory, &volume, &place).unwrap();
    assert_eq!(fs::read(mounted.path("a file of 24 bytes 00000")).unwrap(), b"other data");
    assert!(fs::read_dir(place.mount()).unwrap().count() as u64 >= made - 1);
    mounted.end();
}
