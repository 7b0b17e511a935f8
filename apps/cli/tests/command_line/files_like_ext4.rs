//! Files of `repair mount` behave as those of ext4: the same operations in two directories have the same results.
//!
//! # Method
//! 1. A table of cases, each a list of operations in an empty directory. Each operation adds a line to the case's log: its errno, or what
//!    can be seen afterwards. The logs of both directories have to be equal.
//! 2. Random operations with the same seed in both, and then the whole trees.
//!
//! [`DIFFERENCES`] is the list of what differs on purpose, also in docs/repair-files.md; a case in it has to differ.

use std::ffi::CStr;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashlab_base::{Prng, Seed};
use flashlab_skip::{Need, skip};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, StatxFlags, Timespec,
    Timestamps, XattrFlags,
};

use crate::files::{Mounted, Place, run_as};
use crate::repair::new_volume;
use crate::support::{Directory, LoopDevice, Mount, program};

/// Cases that differ from ext4, and why.
const DIFFERENCES: [(&str, &str); 5] = [
    ("special files", "FIFOs, sockets and devices: EPERM"),
    ("temporary files", "O_TMPFILE: EOPNOTSUPP, because fuser 0.18 does not know FUSE_TMPFILE"),
    ("collapse", "fallocate with COLLAPSE_RANGE and INSERT_RANGE: EOPNOTSUPP, from the kernel's FUSE"),
    ("other attributes", "only user.* attributes, no trusted.*, security.* and ACLs: EOPNOTSUPP"),
    ("whiteout", "renameat2 with RENAME_WHITEOUT: EINVAL"),
];

type Case = (&'static str, fn(&mut Log));

const CASES: [Case; 22] = [
    ("modes and owners", modes_and_owners),
    ("set-ID bits of root", set_id_bits),
    ("set-ID bits of a user", set_id_bits_of_user),
    ("names", names),
    ("rename", rename),
    ("exchange", exchange),
    ("whiteout", whiteout),
    ("links", links),
    ("directories", directories),
    ("removed directories", removed_directories),
    ("times of changes", times_of_changes),
    ("times of reads", times_of_reads),
    ("set times", set_times),
    ("sizes", sizes),
    ("holes", holes),
    ("allocation", allocation),
    ("collapse", collapse),
    ("temporary files", temporary_files),
    ("special files", special_files),
    ("attributes", attributes),
    ("other attributes", other_attributes),
    ("open flags", open_flags),
];

/// What the operations of a case in a directory gave.
struct Log {
    directory: PathBuf,
    lines: Vec<String>,
}

impl Log {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn say(&mut self, what: &str, value: impl Debug) {
        self.lines.push(format!("{what}: {value:?}"));
    }

    /// A call of rustix.
    fn call<T: Debug>(&mut self, what: &str, result: rustix::io::Result<T>) {
        self.say(what, result);
    }

    /// A call of the standard library, whose value does not matter.
    fn done<T>(&mut self, what: &str, result: std::io::Result<T>) {
        self.say(what, result.err().map(|error| error.raw_os_error()));
    }

    fn stat(&mut self, name: &str) {
        let found = fs::symlink_metadata(self.path(name)).map_err(|error| error.raw_os_error());
        let size = |found: &fs::Metadata| if found.is_dir() { 0 } else { found.len() };
        let seen = found.map(|found| (found.mode(), found.nlink(), found.uid(), found.gid(), size(&found)));
        self.say(&format!("stat {name}"), seen);
    }

    fn file(&self, name: &str) -> File {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.path(name)).unwrap()
    }

    /// Which of the times of `name` an operation changes.
    fn times(&mut self, what: &str, name: &str, operation: impl FnOnce(&Log)) {
        let path = self.path(name);
        let times = || {
            let found = fs::symlink_metadata(&path).unwrap();
            [
                (found.mtime(), found.mtime_nsec()),
                (found.ctime(), found.ctime_nsec()),
                (found.atime(), found.atime_nsec()),
            ]
        };
        let before = times();
        // ext4 takes its times from the last tick, up to 10 ms ago.
        std::thread::sleep(Duration::from_millis(25));
        operation(self);
        let changed = before.iter().zip(times()).map(|(old, new)| *old != new).collect::<Vec<_>>();
        self.say(&format!("{what}: data, status, read of {name}"), changed);
    }
}

#[test]
fn each_operation_gives_what_ext4_gives() {
    let Some(both) = Both::begin() else { return };
    let mut wrong = Vec::new();
    for (case, run) in CASES {
        let logs = both.directories().map(|directory| {
            let directory = directory.join(case.replace(' ', "-"));
            fs::create_dir(&directory).unwrap();
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
            let mut log = Log { directory, lines: Vec::new() };
            run(&mut log);
            log.lines
        });
        let different: Vec<_> = logs[0].iter().zip(&logs[1]).filter(|(ours, ext4)| ours != ext4).collect();
        let reason = DIFFERENCES.iter().find(|(name, _)| *name == case);
        if different.is_empty() == reason.is_some() || logs[0].len() != logs[1].len() {
            wrong.push(format!("{case} (ours, ext4): {different:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    both.end();
}

#[test]
fn random_operations_give_what_ext4_gives() {
    let Some(both) = Both::begin() else { return };
    for seed in 1..=3 {
        let logs = both.directories().map(|directory| {
            let directory = directory.join(format!("seed{seed}"));
            fs::create_dir(&directory).unwrap();
            let mut log = Log { directory, lines: Vec::new() };
            random_operations(&mut log, Prng::new(Seed(seed)));
            log
        });
        let [ours, ext4] = logs;
        for (at, (ours, ext4)) in ours.lines.iter().zip(&ext4.lines).enumerate() {
            assert_eq!(ours, ext4, "seed {seed}, operation {at}");
        }
    }
    let before = both.directories().map(|directory| tree(&directory));
    assert_eq!(before[0], before[1]);
    // And after the next mount.
    let Both { directory, volume, place, mounted, .. } = &mut { both };
    mounted.take().unwrap().end();
    let again = Mounted::begin(directory, volume, place).unwrap();
    assert_eq!(tree(&again.directory), before[1]);
    again.end();
}

/// A mount and a directory of ext4.
struct Both {
    mounted: Option<Mounted>,
    volume: String,
    _ext4: Mount,
    _device: LoopDevice,
    ext4: PathBuf,
    place: Place,
    directory: Directory,
}

impl Both {
    fn begin() -> Option<Both> {
        let (directory, place) = (Directory::new(), Place::new());
        if program("mkfs.ext4", &["-V"]).is_err() {
            skip(Need::Programs, "mkfs.ext4 is not installed");
            return None;
        }
        let image = directory.file("ext4.img", 64 << 20);
        let ext4 = PathBuf::from(place.path("ext4"));
        let device = LoopDevice::over(&image, &[])?;
        program("mkfs.ext4", &["-q", "-b", "4096", &device.0]).unwrap();
        let mount = Mount::new(&["-o", "relatime", &device.0], &ext4)?;
        fs::remove_dir(ext4.join("lost+found")).unwrap();
        let volume = new_volume(&directory, "64MiB");
        let mounted = Mounted::begin(&directory, &volume, &place)?;
        Some(Both { mounted: Some(mounted), volume, _ext4: mount, _device: device, ext4, place, directory })
    }

    fn directories(&self) -> [PathBuf; 2] {
        [self.place.mount(), self.ext4.clone()]
    }

    fn end(mut self) {
        self.mounted.take().unwrap().end();
    }
}

fn modes_and_owners(log: &mut Log) {
    let path = log.path("f");
    log.file("f");
    for mode in [0o644, 0o7777, 0o000, 0o6711] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        log.stat("f");
    }
    for owner in [(Some(7), None), (None, Some(8)), (Some(u32::MAX - 1), Some(5))] {
        log.done("chown", std::os::unix::fs::chown(&path, owner.0, owner.1));
        log.stat("f");
    }
    fs::create_dir(log.path("d")).unwrap();
    std::os::unix::fs::chown(log.path("d"), None, Some(9)).unwrap();
    fs::set_permissions(log.path("d"), fs::Permissions::from_mode(0o2755)).unwrap();
    log.file("d/inherits");
    fs::create_dir(log.path("d/inherits too")).unwrap();
    ["d", "d/inherits", "d/inherits too"].into_iter().for_each(|name| log.stat(name));
    std::os::unix::fs::chown(log.path("d"), Some(3), Some(4)).unwrap();
    log.stat("d");
}

fn set_id_bits(log: &mut Log) {
    let set = |log: &Log, mode| fs::set_permissions(log.path("f"), fs::Permissions::from_mode(mode)).unwrap();
    let file = log.file("f");
    for mode in [0o6777, 0o6767, 0o4711] {
        set(log, mode);
        log.done("write by root", file.write_all_at(b"data", 0));
        log.stat("f");
        log.done("truncate by root", file.set_len(2));
        log.stat("f");
        log.done("chown by root", std::os::unix::fs::chown(log.path("f"), Some(1), Some(1)));
        log.stat("f");
    }
}

fn set_id_bits_of_user(log: &mut Log) {
    let path = log.path("f").display().to_string();
    for mode in [0o6777, 0o6767, 0o2777, 0o4777] {
        for command in [
            "printf x >> F",
            "printf x | dd of=F conv=notrunc status=none",
            ": > F",
            "truncate -s 3 F",
            "fallocate --length 9000 F",
            "cat F",
        ] {
            log.file("f");
            std::os::unix::fs::chown(&path, Some(12), Some(12)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            log.say(command, run_as("nobody", &command.replace('F', &path)).is_ok());
            // Asked for alone, it is what the kernel has kept.
            let mode = rustix::fs::statx(CWD, &path, AtFlags::empty(), StatxFlags::MODE);
            log.call("mode", mode.map(|found| found.stx_mode));
            log.stat("f");
        }
    }
}

fn names(log: &mut Log) {
    for name in
        ["a".repeat(255), "a".repeat(256), "with\nnewline".to_owned(), "ü".to_owned(), "..".to_owned()]
    {
        log.done("create", File::create_new(log.path(&name)));
    }
    log.file("f");
    log.done("create again", File::create_new(log.path("f")));
    log.done("through a file", File::create_new(log.path("f/x")));
    log.done("in nothing", File::create_new(log.path("none/x")));
    log.done("remove nothing", fs::remove_file(log.path("none")));
    log.done("remove a file as a directory", fs::remove_dir(log.path("f")));
    log.done("long link", symlink("x".repeat(4096), log.path("l")));
    log.done("longest link", symlink("x".repeat(4095), log.path("l")));
    log.done("empty link", symlink("", log.path("e")));
    symlink("loop", log.path("loop")).unwrap();
    log.done("loop", File::open(log.path("loop")));
    log.done("read a file as a link", fs::read_link(log.path("f")));
    log.stat("l");
}

fn rename(log: &mut Log) {
    for name in ["d1", "d2", "d2/inner", "full", "full/x"] {
        fs::create_dir(log.path(name)).unwrap();
    }
    ["f1", "f2"].into_iter().for_each(|name| drop(log.file(name)));
    fs::hard_link(log.path("f1"), log.path("same")).unwrap();
    let pairs = [
        ("f1", "f2"),
        ("f2", "none/x"),
        ("f2", "d1"),
        ("d1", "f2"),
        ("d1", "full"),
        ("d2", "d2/inner/x"),
        ("d2/inner", "d1"),
        ("d1", "d1"),
        ("f2", "same"),
        ("none", "f2"),
        ("d2", "d3"),
        ("f2", "d3/"),
        (".", "x"),
    ];
    for (from, to) in pairs {
        log.done(&format!("{from} to {to}"), fs::rename(log.path(from), log.path(to)));
        ["f1", "f2", "same", "d1", "d2", "d3", "full", "."].into_iter().for_each(|name| log.stat(name));
    }
    let (from, to) = (log.path("f2"), log.path("same"));
    log.call("no replacing", rustix::fs::renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE));
}

fn exchange(log: &mut Log) {
    fs::create_dir_all(log.path("d/inner")).unwrap();
    fs::write(log.path("f"), b"file").unwrap();
    symlink("f", log.path("l")).unwrap();
    for (one, other) in
        [("f", "l"), ("f", "d/inner"), ("d", "d/inner"), ("d", "f"), ("d", "none"), ("f", "f")]
    {
        let result =
            rustix::fs::renameat_with(CWD, log.path(one), CWD, log.path(other), RenameFlags::EXCHANGE);
        log.call(&format!("{one} and {other}"), result);
        [".", "d", "f", "l", "d/inner"].into_iter().for_each(|name| log.stat(name));
    }
    log.times("exchange", "l", |log| {
        rustix::fs::renameat_with(CWD, log.path("l"), CWD, log.path("f"), RenameFlags::EXCHANGE).unwrap();
        rustix::fs::renameat_with(CWD, log.path("l"), CWD, log.path("f"), RenameFlags::EXCHANGE).unwrap();
    });
}

fn whiteout(log: &mut Log) {
    log.file("f");
    let result = rustix::fs::renameat_with(CWD, log.path("f"), CWD, log.path("g"), RenameFlags::WHITEOUT);
    log.call("whiteout", result);
}

fn links(log: &mut Log) {
    log.file("f");
    fs::create_dir(log.path("d")).unwrap();
    log.done("link", fs::hard_link(log.path("f"), log.path("d/g")));
    log.done("link again", fs::hard_link(log.path("f"), log.path("d/g")));
    log.done("link of a directory", fs::hard_link(log.path("d"), log.path("e")));
    symlink("f", log.path("s")).unwrap();
    log.done("link of a link", fs::hard_link(log.path("s"), log.path("s2")));
    ["f", "d/g", "s", "s2"].into_iter().for_each(|name| log.stat(name));
    let open = log.file("f");
    fs::remove_file(log.path("f")).unwrap();
    fs::remove_file(log.path("d/g")).unwrap();
    log.say("open and removed", open.metadata().map(|found| found.nlink()).ok());
    log.done("write to it", open.write_all_at(b"data", 5));
    log.say("its size", open.metadata().unwrap().len());
}

fn directories(log: &mut Log) {
    for name in ["a", "a/b", "a/c", "a/b/d"] {
        fs::create_dir(log.path(name)).unwrap();
        ["a", "."].into_iter().for_each(|name| log.stat(name));
    }
    log.file("a/file");
    log.stat("a");
    log.done("not empty", fs::remove_dir(log.path("a")));
    fs::rename(log.path("a/b/d"), log.path("moved")).unwrap();
    fs::remove_dir(log.path("a/c")).unwrap();
    ["a", "a/b", ".", "moved"].into_iter().for_each(|name| log.stat(name));
    log.done("remove as a file", fs::remove_file(log.path("a")));
    log.done("read as a file", File::open(log.path("a")).and_then(|mut open| open.read(&mut [0])));
    log.done("open to write", OpenOptions::new().write(true).open(log.path("a")));
}

fn removed_directories(log: &mut Log) {
    fs::create_dir(log.path("d")).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let open = rustix::fs::open(log.path("d"), flags, Mode::empty()).unwrap();
    let path = rustix::fs::open(log.path("d"), OFlags::PATH, Mode::empty()).unwrap();
    fs::remove_dir(log.path("d")).unwrap();
    log.call("links", rustix::fs::fstat(&open).map(|found| found.st_nlink));
    log.call("links by path", rustix::fs::fstat(&path).map(|found| found.st_nlink));
    let make = OFlags::CREATE | OFlags::RDWR;
    log.call("create in it", rustix::fs::openat(&open, "x", make, Mode::RWXU).map(drop));
    log.call("directory in it", rustix::fs::mkdirat(&open, "x", Mode::RWXU));
    log.call("chmod", rustix::fs::fchmod(&open, Mode::RUSR));
    log.call("mode", rustix::fs::fstat(&open).map(|found| found.st_mode));
    log.call("sync", rustix::fs::fsync(&open));
    log.call("parent", rustix::fs::statat(&open, "..", AtFlags::empty()).map(|found| found.st_nlink));
    let read =
        rustix::fs::Dir::new(open).map(|directory| directory.map(|entry| entry.is_ok()).collect::<Vec<_>>());
    log.call("entries", read);
}

fn times_of_changes(log: &mut Log) {
    let file = log.file("f");
    fs::create_dir(log.path("d")).unwrap();
    log.times("write", "f", |_| file.write_all_at(b"data", 0).unwrap());
    log.times("overwrite", "f", |_| file.write_all_at(b"data", 0).unwrap());
    log.times("truncate", "f", |_| file.set_len(2).unwrap());
    log.times("same size", "f", |_| file.set_len(2).unwrap());
    log.times("chmod", "f", |log| {
        fs::set_permissions(log.path("f"), fs::Permissions::from_mode(0o600)).unwrap();
    });
    log.times("chown", "f", |log| std::os::unix::fs::chown(log.path("f"), Some(1), None).unwrap());
    log.times("link", "f", |log| fs::hard_link(log.path("f"), log.path("g")).unwrap());
    log.times("unlink", "f", |log| fs::remove_file(log.path("g")).unwrap());
    log.times("rename", "f", |log| {
        fs::rename(log.path("f"), log.path("g")).unwrap();
        fs::rename(log.path("g"), log.path("f")).unwrap();
    });
    log.times("allocate", "f", |_| rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 9999).unwrap());
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    log.times("punch", "f", |_| rustix::fs::fallocate(&file, punch, 0, 8192).unwrap());
    log.times("attribute", "f", |log| {
        rustix::fs::setxattr(log.path("f"), "user.a", b"1", XattrFlags::empty()).unwrap();
    });
    log.times("remove attribute", "f", |log| rustix::fs::removexattr(log.path("f"), "user.a").unwrap());
    log.times("create in", "d", |log| drop(log.file("d/x")));
    log.times("write in", "d", |log| fs::write(log.path("d/x"), b"data").unwrap());
    log.times("rename out of", "d", |log| fs::rename(log.path("d/x"), log.path("x")).unwrap());
    log.times("rename into", "d", |log| fs::rename(log.path("x"), log.path("d/x")).unwrap());
}

fn times_of_reads(log: &mut Log) {
    fs::write(log.path("f"), b"data").unwrap();
    fs::create_dir(log.path("d")).unwrap();
    symlink("f", log.path("l")).unwrap();
    let old = Timestamps {
        last_access: Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 },
        last_modification: Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 },
    };
    for round in ["first", "second"] {
        log.times(&format!("{round} read"), "f", |log| drop(fs::read(log.path("f")).unwrap()));
        log.times(&format!("{round} list"), "d", |log| {
            assert_eq!(fs::read_dir(log.path("d")).unwrap().count(), 0)
        });
        log.times(&format!("{round} link"), "l", |log| drop(fs::read_link(log.path("l")).unwrap()));
    }
    rustix::fs::utimensat(CWD, log.path("f"), &old, AtFlags::empty()).unwrap();
    log.times("read after a long time", "f", |log| drop(fs::read(log.path("f")).unwrap()));
    log.times("write without a read", "f", |log| fs::write(log.path("f"), b"x").unwrap());
}

fn set_times(log: &mut Log) {
    log.file("f");
    let times = [(0, 0), (-1, 0), (-1, 500_000_000), (-1_000_000_000, 1), (4_000_000_000, 999_999_999)];
    for (tv_sec, tv_nsec) in times {
        let last_modification = Timespec { tv_sec, tv_nsec };
        let last_access = Timespec { tv_sec: tv_sec + 1, tv_nsec };
        let new = Timestamps { last_access, last_modification };
        log.call("set", rustix::fs::utimensat(CWD, log.path("f"), &new, AtFlags::empty()));
        let found = fs::metadata(log.path("f")).unwrap();
        log.say("times", (found.mtime(), found.mtime_nsec(), found.atime(), found.atime_nsec()));
    }
}

fn sizes(log: &mut Log) {
    let file = log.file("f");
    file.write_all_at(&[7; 10_000], 0).unwrap();
    for size in [5_000, 9_000, 4_096, 4_097, 0, 1 << 32, 3] {
        log.done("truncate", file.set_len(size));
        log.stat("f");
        let mut found = [1; 64];
        log.say("read", file.read_at(&mut found, 4_090).map(|length| found[..length].to_vec()).ok());
    }
    log.done("write far behind the end", file.write_at(b"end", 1 << 33));
    log.stat("f");
    log.done("write behind any end", file.write_at(b"end", i64::MAX as u64));
    log.done("truncate behind any end", file.set_len(u64::MAX));
    log.done("append", OpenOptions::new().append(true).open(log.path("f")));
}

fn holes(log: &mut Log) {
    let file = log.file("f");
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.write_all_at(&[1; 4096], 16_384).unwrap();
    file.set_len(40_000).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 32_768, 4096).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let file = File::open(log.path("f")).unwrap();
    for offset in [0, 10, 4096, 5000, 16_384, 20_479, 20_480, 32_768, 39_999, 40_000, 50_000] {
        log.call(&format!("data from {offset}"), rustix::fs::seek(&file, SeekFrom::Data(offset)));
        log.call(&format!("hole from {offset}"), rustix::fs::seek(&file, SeekFrom::Hole(offset)));
    }
    log.file("empty");
    let empty = File::open(log.path("empty")).unwrap();
    log.call("data of an empty file", rustix::fs::seek(&empty, SeekFrom::Data(0)));
    log.call("hole of an empty file", rustix::fs::seek(&empty, SeekFrom::Hole(0)));
}

fn allocation(log: &mut Log) {
    let file = log.file("f");
    file.write_all_at(&[1; 20_000], 0).unwrap();
    let keep = FallocateFlags::KEEP_SIZE;
    let modes = [
        (FallocateFlags::empty(), 0, 30_000),
        (keep, 0, 60_000),
        (FallocateFlags::PUNCH_HOLE | keep, 100, 9_000),
        (FallocateFlags::PUNCH_HOLE, 0, 1),
        (FallocateFlags::ZERO_RANGE, 10_000, 1_000),
        (FallocateFlags::ZERO_RANGE, 39_000, 1_000),
        (FallocateFlags::ZERO_RANGE | keep, 100_000, 1_000),
        (FallocateFlags::empty(), 0, 0),
        (FallocateFlags::PUNCH_HOLE | keep, 1 << 40, 4096),
    ];
    for (mode, offset, length) in modes {
        log.call(&format!("{mode:?} {offset} {length}"), rustix::fs::fallocate(&file, mode, offset, length));
        log.say("content", crc32fast::hash(&fs::read(log.path("f")).unwrap()));
        log.stat("f");
    }
}

fn collapse(log: &mut Log) {
    let file = log.file("f");
    file.write_all_at(&[1; 20_000], 0).unwrap();
    log.call("collapse", rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096));
    log.call("insert", rustix::fs::fallocate(&file, FallocateFlags::INSERT_RANGE, 0, 4096));
    log.stat("f");
}

fn temporary_files(log: &mut Log) {
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    log.call("O_TMPFILE", rustix::fs::open(&log.directory, flags, Mode::RWXU).map(drop));
}

fn special_files(log: &mut Log) {
    let make = |log: &mut Log, name: &str, kind| {
        let made = rustix::fs::mknodat(CWD, log.path(name), kind, Mode::RWXU, 0);
        log.call(name, made);
        log.stat(name);
    };
    make(log, "fifo", FileType::Fifo);
    make(log, "socket", FileType::Socket);
}

fn attributes(log: &mut Log) {
    log.file("f");
    let path = log.path("f");
    let get = |log: &mut Log, name: &str| {
        let mut value = [0_u8; 5000];
        let found = rustix::fs::getxattr(log.path("f"), name, &mut value[..]);
        log.call(name, found.map(|length| value[..length].to_vec()));
    };
    let flags = [XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE];
    for name in ["user.a", "user.b", "user."] {
        for flags in flags {
            log.call(name, rustix::fs::setxattr(&path, name, b"value", flags));
        }
        get(log, name);
    }
    for length in [3500, 3900, 4100, 66_000] {
        let set = rustix::fs::setxattr(&path, "user.large", &vec![b'x'; length], XattrFlags::empty());
        log.call(&format!("{length} bytes"), set);
    }
    log.call("small buffer", rustix::fs::getxattr(&path, "user.a", &mut [0_u8; 2][..]));
    log.call("size", rustix::fs::getxattr(&path, "user.a", &mut [0_u8; 0][..]));
    let mut names = [0_u8; 500];
    let listed = rustix::fs::listxattr(&path, &mut names[..]).unwrap();
    let mut listed: Vec<_> = names[..listed].split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    listed.sort();
    log.say("names", listed);
    log.call("remove", rustix::fs::removexattr(&path, "user.a"));
    log.call("remove again", rustix::fs::removexattr(&path, "user.a"));
    get(log, "user.a");
    symlink("f", log.path("l")).unwrap();
    log.call("of a link", rustix::fs::lsetxattr(log.path("l"), "user.a", b"1", XattrFlags::empty()));
    log.call("of a directory", rustix::fs::setxattr(&log.directory, "user.a", b"1", XattrFlags::empty()));
}

fn other_attributes(log: &mut Log) {
    log.file("f");
    let set = rustix::fs::setxattr(log.path("f"), "trusted.a", b"1", XattrFlags::empty());
    log.call("trusted", set);
}

fn open_flags(log: &mut Log) {
    fs::write(log.path("f"), b"data").unwrap();
    symlink("f", log.path("l")).unwrap();
    symlink("none", log.path("dangling")).unwrap();
    let flags: [(&str, OFlags); 7] = [
        ("f", OFlags::CREATE | OFlags::EXCL | OFlags::RDWR),
        ("l", OFlags::NOFOLLOW),
        ("f", OFlags::DIRECTORY),
        ("dangling", OFlags::CREATE | OFlags::EXCL),
        ("dangling", OFlags::RDONLY),
        (".", OFlags::RDWR),
        ("f", OFlags::TRUNC | OFlags::RDWR),
    ];
    for (name, flags) in flags {
        let opened = rustix::fs::open(log.path(name), flags, Mode::RUSR).map(drop);
        log.call(&format!("{name} {flags:?}"), opened);
        log.stat(name);
    }
    let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(log.path("f"));
    log.done("O_DIRECT", direct);
}

/// Operations with few names, so that they meet.
fn random_operations(log: &mut Log, mut random: Prng) {
    const PATHS: [&str; 10] = ["a", "b", "c", "d", "a/a", "a/b", "b/a", "b/b", "a/b/a", "b/a/b"];
    for _ in 0..1500 {
        let mut path = || PATHS[random.below(PATHS.len() as u64) as usize];
        let (one, other) = (path(), path());
        let (offset, length) = (random.below(60_000), 1 + random.below(20_000));
        let (first, second) = (log.path(one), log.path(other));
        let open = |write: bool| OpenOptions::new().read(true).write(write).open(&first);
        let what = random.below(16);
        let name = format!("{what} {one} {other}");
        match what {
            0..3 => log.done(&name, File::create_new(&first)),
            3 | 4 => log.done(&name, fs::create_dir(&first)),
            5 => log.done(&name, fs::remove_dir(&first)),
            6 => log.done(&name, fs::remove_file(&first)),
            7 => log.done(&name, fs::rename(&first, &second)),
            8 => {
                let flags = [RenameFlags::EXCHANGE, RenameFlags::NOREPLACE][random.below(2) as usize];
                log.call(&name, rustix::fs::renameat_with(CWD, &first, CWD, &second, flags));
            }
            9 => log.done(&name, fs::hard_link(&first, &second)),
            10 | 11 => {
                let data = vec![random.below(256) as u8; length as usize];
                log.done(&name, open(true).and_then(|file| file.write_all_at(&data, offset)));
            }
            12 => log.done(&name, open(true).and_then(|file| file.set_len(offset))),
            13 => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let mode =
                    [punch, FallocateFlags::empty(), FallocateFlags::ZERO_RANGE][random.below(3) as usize];
                let done =
                    open(true).and_then(|file| Ok(rustix::fs::fallocate(&file, mode, offset, length)?));
                log.done(&name, done);
            }
            14 => {
                let mode = fs::Permissions::from_mode(0o600 + random.below(64) as u32);
                log.done(&name, fs::set_permissions(&first, mode));
            }
            _ => {
                let value = vec![b'v'; (length % 300) as usize];
                log.call(&name, rustix::fs::setxattr(&first, "user.v", &value, XattrFlags::empty()));
            }
        }
        [one, other].into_iter().for_each(|name| log.stat(name));
        log.say(
            "content",
            open(false).ok().and_then(|_| fs::read(&first).ok()).map(|data| crc32fast::hash(&data)),
        );
    }
}

/// All paths below a directory, with what can be seen of them.
fn tree(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        for path in names {
            let status = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            let mut value = [0_u8; 300];
            let attribute = rustix::fs::lgetxattr(&path, c"user.v" as &CStr, &mut value[..]).ok();
            let content = status.is_file().then(|| crc32fast::hash(&fs::read(&path).unwrap()));
            let size = if status.is_dir() { 0 } else { status.len() };
            found.push(format!(
                "{name} {:o} {} {size} {content:?} {attribute:?}",
                status.mode(),
                status.nlink()
            ));
            left.extend(status.is_dir().then_some(path));
        }
    }
    found
}
