//! The guards against destroying data. Each test puts a device in danger.
//!
//! A loop device is put to a use and must be refused, by whatever name it is reached: when it is inspected,
//! when consent is requested, and when it is opened with a consent from before. The tests need root and loop
//! devices; without them each reports that it was skipped.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;

use crate::support::{Directory, LoopDevice, Undo, reasons, run};
use flashlab_base::Bytes;
use flashlab_device::Device;
use flashlab_host::{
    Consent, HostError, Inspection, OpenOptions, Reason, consent_by_flag, consent_by_typing,
    consent_to_overwrite_file, consent_to_use_own_file, consent_to_write_volume, create_file, devices,
    file_identity, inspect, open, open_file,
};

/// Long enough for every file system of these tests.
const SIZE: Bytes = Bytes::mib(8);

fn open_to_write(path: &Path, consent: Consent) -> Result<Box<dyn Device + Send>, HostError> {
    open(path, &OpenOptions { write: Some(consent), ..OpenOptions::default() })
}

/// Asserts that the device is refused, for this reason among others, in each of the three cases.
fn assert_refused(path: &Path, early: Consent, reason: Reason) {
    let inspection = inspect(path).unwrap();
    assert!(reasons(&inspection).contains(&reason), "{reason:?} is not among {:#?}", inspection.refusals);
    assert_every_refusal_helps(&inspection);
    assert!(matches!(consent_by_flag(&inspection, path), Err(HostError::Refused { .. })));
    let typed = consent_by_typing(&inspection, &inspection.consent_phrases()[0]);
    assert!(matches!(typed, Err(HostError::Refused { .. })));
    match open_to_write(path, early) {
        Err(HostError::Refused { refusals, .. }) => assert!(!refusals.is_empty()),
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("opened for writing in spite of {:#?}", inspection.refusals),
    }
}

fn assert_every_refusal_helps(inspection: &Inspection) {
    for refusal in &inspection.refusals {
        let has_place = refusal.finding.contains("/dev/") || refusal.finding.starts_with('/');
        assert!(has_place, "no place: {refusal}");
        assert!(refusal.remedy.len() > 10, "no remedy: {refusal}");
    }
}

/// A disk label with one Linux partition of 1 MiB at 1 MiB.
fn write_partition_table(disk: &LoopDevice) {
    let mut sector = [0; 512];
    sector[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 2, 0, 0, 8, 0, 0, 0, 8, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    disk.write(0, &sector);
}

/// Attaches a loop device that may have partitions, over the same file, in place of `disk`.
fn with_partition(test: &str) -> Option<(Directory, LoopDevice, String, Undo)> {
    let directory = Directory::new(test);
    let file = directory.file("image", SIZE);
    let disk = LoopDevice::over(&file, &["--partscan"])?;
    let partition = format!("{}p1", disk.name());
    if let Err(reason) = run("addpart", &[disk.name(), "1", "2048", "8192"]) {
        flashlab_skip::skip(
            flashlab_skip::Need::Root,
            format_args!("no partitions on loop devices here ({reason})"),
        );
        return None;
    }
    let undo = Undo("delpart", vec![disk.name().to_owned(), "1".to_owned()]);
    if !Path::new(&partition).exists() {
        flashlab_skip::skip(flashlab_skip::Need::Root, format_args!("no node was made for {partition}"));
        return None;
    }
    Some((directory, disk, partition, undo))
}

fn mount(device: &str, point: &Path) -> Undo {
    fs::create_dir_all(point).unwrap();
    run("mount", &[device, point.to_str().unwrap()]).unwrap();
    Undo("umount", vec![point.display().to_string()])
}

#[test]
fn a_blank_device_may_be_overwritten_with_consent_and_not_without() {
    let Some(disk) = LoopDevice::new("blank", SIZE) else { return };
    let inspection = disk.inspect();
    assert!(inspection.is_block_device());
    assert_eq!(inspection.refusals, []);
    assert_eq!(inspection.warnings, [""; 0]);
    // A loop device has neither model nor serial number.
    assert_eq!(inspection.consent_phrases(), [disk.name()]);
    let wrong = consent_by_typing(&inspection, "yes").unwrap_err().to_string();
    assert!(wrong.contains("`yes`") && wrong.contains(disk.name()), "{wrong}");
    assert!(matches!(consent_to_overwrite_file(&inspection), Err(HostError::WrongConsent { .. })));
    let consent = consent_by_typing(&inspection, &format!(" {}\n", disk.name())).unwrap();
    assert_eq!(consent.to_string(), format!("typed `{}`", disk.name()));
    drop(open_to_write(&disk.path, consent).unwrap());
    disk.write(4096, b"a letter to the editor");
    let warnings = disk.inspect().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("not blank")), "{warnings:?}");
}

#[test]
fn consent_is_for_one_device_only() {
    let Some(mine) = LoopDevice::new("mine", SIZE) else { return };
    let Some(other) = LoopDevice::new("other", SIZE) else { return };
    let flag = consent_by_flag(&mine.inspect(), &other.path);
    assert!(matches!(flag, Err(HostError::ConsentMismatch { .. })));
    assert!(matches!(open_to_write(&other.path, mine.consent()), Err(HostError::TargetChanged { .. })));
}

#[test]
fn consent_ends_when_the_device_is_replaced_under_the_same_name() {
    let directory = Directory::new("replaced");
    let (first, second) = (directory.file("first", SIZE), directory.file("second", SIZE));
    let Some(disk) = LoopDevice::over(&first, &[]) else { return };
    let consent = disk.consent();
    run("losetup", &["--detach", disk.name()]).unwrap();
    if let Err(reason) = run("losetup", &[disk.name(), second.to_str().unwrap()]) {
        flashlab_skip::skip(
            flashlab_skip::Need::Root,
            format_args!("the device's name was taken by another ({reason})"),
        );
        return;
    }
    assert!(matches!(open_to_write(&disk.path, consent), Err(HostError::TargetChanged { .. })));
}

#[test]
fn a_mounted_device_is_refused_by_every_name() {
    let Some(disk) = LoopDevice::new("mounted", SIZE) else { return };
    let early = disk.consent();
    run("mkfs.ext4", &["-q", disk.name()]).unwrap();
    assert_refused(&disk.path, early.clone(), Reason::Signature);
    let _mount = mount(disk.name(), &disk.directory().join("mount"));
    assert_refused(&disk.path, early.clone(), Reason::Mounted);
    assert!(
        reasons(&disk.inspect()).contains(&Reason::Signature),
        "every reason is given, not only the first"
    );

    // A file on it is reported to lie on it.
    let file = disk.directory().join("mount/file");
    fs::write(&file, [1; 4096]).unwrap();
    let identity = inspect(&file).unwrap().identity;
    assert_eq!(identity.backing_device.as_deref(), Some(disk.name()));
    assert_eq!((identity.file_system.as_deref(), identity.kind.as_str()), (Some("ext4"), "regular file"));

    let link = disk.directory().join("link");
    symlink(&disk.path, &link).unwrap();
    assert_refused(&link, early.clone(), Reason::Mounted);

    let node = disk.directory().join("node");
    let number = fs::metadata(&disk.path).unwrap().rdev();
    let (major, minor) = (libc::major(number).to_string(), libc::minor(number).to_string());
    run("mknod", &[node.to_str().unwrap(), "b", &major, &minor]).unwrap();
    // A file system mounted without device nodes makes one that cannot be opened.
    if fs::File::open(&node).is_ok() {
        assert_refused(&node, early, Reason::Mounted);
    }
}

#[test]
fn a_disk_is_refused_while_its_partition_is_mounted_and_the_partition_too() {
    let Some((directory, disk, partition, _undo)) = with_partition("partition") else { return };
    let inspection = inspect(&partition).unwrap();
    assert_eq!(inspection.refusals, [], "an unused partition may be overwritten");
    assert_eq!(inspection.identity.backing_device.as_deref(), Some(disk.name()));
    let early = consent_by_flag(&inspection, Path::new(&partition)).unwrap();
    assert_eq!(reasons(&disk.inspect()), [Reason::PartitionTable]);
    run("mkfs.ext4", &["-q", &partition]).unwrap();
    let _mount = mount(&partition, &directory.0.join("mount"));
    assert_refused(Path::new(&partition), early, Reason::Mounted);
    let refusals = disk.inspect().refusals;
    let mounted = refusals.iter().find(|refusal| refusal.reason == Reason::Mounted).unwrap();
    assert!(mounted.finding.contains(&partition) && mounted.finding.contains("ext4"), "{mounted}");
}

#[test]
fn a_partition_is_refused_while_its_whole_disk_is_in_use() {
    let Some((directory, disk, partition, undo)) = with_partition("whole-disk") else { return };
    let early = consent_by_flag(&inspect(&partition).unwrap(), Path::new(&partition)).unwrap();
    // The kernel lets nobody else open the disk exclusively, which shows uses that are not listed.
    let held = fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&disk.path).unwrap();
    assert_refused(Path::new(&partition), early.clone(), Reason::Held);
    drop(held);
    run("mkfs.ext4", &["-q", "-F", disk.name()]).unwrap();
    let _mount = mount(disk.name(), &directory.0.join("mount"));
    assert_refused(Path::new(&partition), early, Reason::Mounted);
    drop(_mount);
    drop(undo);
}

/// A program that has the file open for writing, and does nothing with it.
struct Writer(std::process::Child);

impl Writer {
    fn on(path: impl AsRef<Path>) -> Writer {
        let file = fs::OpenOptions::new().append(true).open(path).unwrap();
        Writer(std::process::Command::new("sleep").arg("600").stdin(file).spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_another_program_has_open_for_writing_is_refused_by_its_process() {
    let Some((directory, disk, partition, _undo)) = with_partition("writers") else { return };
    let of = |path: &str| consent_by_flag(&inspect(path).unwrap(), Path::new(path)).unwrap();
    let early = of(&partition);
    let image = directory.0.join("image");
    // The partition itself, its whole disk, and the file beneath both.
    for opened in [Path::new(&partition), &disk.path, &image] {
        let writer = Writer::on(opened);
        assert_refused(Path::new(&partition), early.clone(), Reason::OpenForWriting);

        assert!(reasons(&disk.inspect()).contains(&Reason::OpenForWriting), "{}", opened.display());
        let refusals = inspect(&partition).unwrap().refusals;
        let process = format!("is open for writing in process {} (sleep)", writer.0.id());
        assert!(refusals.iter().any(|refusal| refusal.finding.contains(&process)), "{refusals:?}");
        drop(writer);
        assert_eq!(inspect(&partition).unwrap().refusals, []);
    }
    // A reader hinders nobody, and another loop device is another device.
    let reader = fs::File::open(&partition).unwrap();
    let reader = std::process::Command::new("sleep").arg("600").stdin(reader).spawn().unwrap();
    let _reader = Writer(reader);
    let other = LoopDevice::over(&directory.file("other", SIZE), &[]).unwrap();
    let _writer = Writer::on(&other.path);
    assert_eq!(inspect(&partition).unwrap().refusals, []);
    drop(open_to_write(Path::new(&partition), early).unwrap());
}

#[test]
fn a_file_that_another_program_has_open_for_writing_is_refused() {
    let directory = Directory::new("open-file");
    let file = directory.file("image", SIZE);
    let early = consent_to_overwrite_file(&inspect(&file).unwrap()).unwrap();
    let writer = Writer::on(&file);
    let refused = consent_to_overwrite_file(&inspect(&file).unwrap());
    assert!(matches!(refused, Err(HostError::Refused { .. })), "{refused:?}");
    assert!(matches!(open_to_write(&file, early.clone()), Err(HostError::Refused { .. })));
    drop(writer);
    drop(open_to_write(&file, early).unwrap());
}

#[test]
fn a_partition_table_is_refused_also_when_only_the_backup_is_left() {
    let Some(disk) = LoopDevice::new("tables", SIZE) else { return };
    let early = disk.consent();
    let end = SIZE.0;
    for (offset, magic) in [
        (510, &b"\x55\xAA"[..]),
        (512, b"EFI PART"),
        (4096, b"EFI PART"),
        (end - 512, b"EFI PART"),
        (end - 4096, b"EFI PART"),
    ] {
        disk.write(offset, magic);
        assert_refused(&disk.path, early.clone(), Reason::PartitionTable);
        disk.write(offset, &[0; 8][..magic.len()]);
        assert_eq!(disk.inspect().refusals, []);
    }
    write_partition_table(&disk);
    assert_refused(&disk.path, early, Reason::PartitionTable);
}

#[test]
fn a_flashlab_volume_is_refused_by_each_of_its_superblocks_unless_the_consent_is_for_it() {
    let Some(disk) = LoopDevice::new("volume", SIZE) else { return };
    let early = disk.consent();
    let none = consent_to_write_volume(&disk.inspect());
    assert!(matches!(none, Err(HostError::WrongConsent { .. })));
    for offset in [0, 65536, SIZE.0 - 65536, SIZE.0 - 131_072] {
        disk.write(offset, b"FLREPAIR");
        assert_refused(&disk.path, early.clone(), Reason::Volume);
        let consent = consent_to_write_volume(&disk.inspect()).unwrap();
        drop(open_to_write(&disk.path, consent).unwrap());
        disk.write(offset, &[0; 8]);
        assert_eq!(disk.inspect().refusals, []);
    }
    // It opens nothing that carries something else, too.
    disk.write(0, b"FLREPAIR");
    let consent = consent_to_write_volume(&disk.inspect()).unwrap();
    disk.write(510, b"\x55\xAA");
    assert!(matches!(consent_to_write_volume(&disk.inspect()), Err(HostError::Refused { .. })));
    assert!(matches!(open_to_write(&disk.path, consent), Err(HostError::Refused { .. })));
}

#[test]
fn a_file_with_a_flashlab_volume_is_refused() {
    let directory = Directory::new("volume-file");
    let file = directory.file("image", SIZE);
    let early = consent_to_overwrite_file(&inspect(&file).unwrap()).unwrap();
    for offset in [0, 65536, SIZE.0 - 65536, SIZE.0 - 131_072] {
        let mut content = vec![0; SIZE.0 as usize];
        content[offset as usize..][..8].copy_from_slice(b"FLREPAIR");
        fs::write(&file, content).unwrap();
        let inspection = inspect(&file).unwrap();
        assert_eq!(reasons(&inspection), [Reason::Volume]);
        assert!(matches!(consent_to_overwrite_file(&inspection), Err(HostError::Refused { .. })));
        assert!(matches!(open_to_write(&file, early.clone()), Err(HostError::Refused { .. })));
        drop(open_to_write(&file, consent_to_write_volume(&inspection).unwrap()).unwrap());
    }
}

#[test]
fn swap_space_is_refused_in_use_and_out_of_use() {
    let Some(disk) = LoopDevice::new("swap", SIZE) else { return };
    let early = disk.consent();
    run("mkswap", &[disk.name()]).unwrap();
    assert_refused(&disk.path, early.clone(), Reason::Signature);
    if let Err(reason) = run("swapon", &[disk.name()]) {
        flashlab_skip::skip(flashlab_skip::Need::Root, format_args!("in part: no swap here ({reason})"));
        return;
    }
    let _swap = Undo("swapoff", vec![disk.name().to_owned()]);
    assert_refused(&disk.path, early, Reason::Swap);
}

#[test]
fn a_file_is_refused_while_it_is_swap_space() {
    let directory = Directory::new("swap-file");
    let file = directory.0.join("swap");
    fs::write(&file, vec![0; SIZE.0 as usize]).unwrap();
    let early = consent_to_overwrite_file(&inspect(&file).unwrap()).unwrap();
    let name = file.to_str().unwrap().to_owned();
    run("chmod", &["600", &name]).unwrap();
    if let Err(reason) = run("mkswap", &[&name]).and_then(|_| run("swapon", &[&name])) {
        flashlab_skip::skip(flashlab_skip::Need::Root, format_args!("no swap files here ({reason})"));
        return;
    }
    let _swap = Undo("swapoff", vec![name]);
    let inspection = inspect(&file).unwrap();
    assert_eq!(reasons(&inspection), [Reason::Swap]);
    assert!(matches!(consent_to_overwrite_file(&inspection), Err(HostError::Refused { .. })));
    assert!(matches!(open_to_write(&file, early), Err(HostError::Refused { .. })));
}

#[test]
fn a_file_is_refused_while_a_loop_device_serves_from_it() {
    let directory = Directory::new("loop-file");
    let file = directory.file("image", SIZE);
    let early = consent_to_overwrite_file(&inspect(&file).unwrap()).unwrap();
    assert!(matches!(consent_by_typing(&inspect(&file).unwrap(), "x"), Err(HostError::WrongConsent { .. })));
    let Some(_disk) = LoopDevice::over(&file, &[]) else { return };
    let link = directory.0.join("link");
    fs::hard_link(&file, &link).unwrap();
    for path in [&file, &link] {
        assert_eq!(reasons(&inspect(path).unwrap()), [Reason::Loop]);
        assert!(matches!(open_to_write(path, early.clone()), Err(HostError::Refused { .. })));
    }
}

#[test]
fn a_loop_device_is_refused_while_its_file_serves_another() {
    let directory = Directory::new("two-loops");
    let file = directory.file("image", SIZE);
    let Some(first) = LoopDevice::over(&file, &[]) else { return };
    let early = first.consent();
    let Some(second) = LoopDevice::over(&file, &[]) else { return };
    assert_refused(&first.path, early, Reason::Loop);
    assert_eq!(reasons(&second.inspect()), [Reason::Loop]);
}

#[test]
fn a_loop_device_over_a_device_and_that_device_are_refused_for_each_other() {
    let Some(below) = LoopDevice::new("stacked", SIZE) else { return };
    let early_below = below.consent();
    let Some(above) = LoopDevice::over(&below.path, &[]) else { return };
    assert_refused(&below.path, early_below, Reason::Loop);
    let early_above = above.consent();
    run("mkfs.ext4", &["-q", below.name()]).unwrap();
    let _mount = mount(below.name(), &below.directory().join("mount"));
    assert_refused(&above.path, early_above, Reason::Mounted);
}

#[test]
fn a_read_only_device_is_refused_and_can_be_read() {
    let Some(disk) = LoopDevice::new("read-only", SIZE) else { return };
    let early = disk.consent();
    run("blockdev", &["--setro", disk.name()]).unwrap();
    let _writable = Undo("blockdev", vec!["--setrw".to_owned(), disk.name().to_owned()]);
    assert_refused(&disk.path, early, Reason::ReadOnly);
    assert!(open(&disk.path, &OpenOptions::default()).is_ok());
}

#[test]
fn a_device_that_another_program_holds_is_refused() {
    let Some(disk) = LoopDevice::new("held", SIZE) else { return };
    let early = disk.consent();
    let _held = fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&disk.path).unwrap();
    assert_refused(&disk.path, early, Reason::Held);
}

#[test]
fn flashlab_itself_holds_a_device_as_long_as_it_writes() {
    let Some(disk) = LoopDevice::new("ours", SIZE) else { return };
    let consent = disk.consent();
    let mut device = open_to_write(&disk.path, consent.clone()).unwrap();
    let lanes = device.parallel().unwrap().lanes(2).unwrap();
    drop(device);
    assert_refused(&disk.path, consent.clone(), Reason::Held);
    drop(lanes);
    drop(open_to_write(&disk.path, consent).unwrap());
}

#[test]
fn every_device_is_listed_with_what_speaks_against_it() {
    let Some(blank) = LoopDevice::new("listed-blank", SIZE) else { return };
    let Some(formatted) = LoopDevice::new("listed-ext4", SIZE) else { return };
    run("mkfs.ext4", &["-q", formatted.name()]).unwrap();
    let listed = devices();
    let find = |device: &LoopDevice| listed.iter().find(|inspection| inspection.path == device.path).unwrap();
    assert_eq!(find(&blank).refusals, []);
    assert_eq!(find(&blank).identity.capacity, SIZE);
    assert_eq!(reasons(find(&formatted)), [Reason::Signature]);
    // The disk beneath this machine's root is mounted, and listed if it can be seen at all.
    for inspection in &listed {
        assert!(inspection.identity.capacity > Bytes::ZERO, "{}", inspection.path.display());
        // Somebody else's device may be gone by now.
        let Ok(node) = fs::metadata(&inspection.path) else { continue };
        if node.rdev() == fs::metadata("/").unwrap().dev() {
            assert!(reasons(inspection).contains(&Reason::Mounted));
        }
    }
}

#[test]
fn a_file_that_is_kept_open_for_a_disk_has_the_guards_of_a_target() {
    let directory = Directory::new("own-file");
    let path = directory.0.join("disk");
    let made = create_file(&path).unwrap();
    assert!(create_file(&path).is_err(), "what exists is not opened");
    made.set_len(SIZE.0).unwrap();
    let identity = file_identity(&made).unwrap();
    drop(made);

    let own = || consent_to_use_own_file(&inspect(&path).unwrap(), Some(&identity));
    drop(open_file(&path, &own().unwrap()).unwrap());
    for other in [None, Some("inode 1")] {
        let refused = consent_to_use_own_file(&inspect(&path).unwrap(), other);
        assert!(matches!(refused, Err(HostError::WrongConsent { .. })));
    }
    // A consent that was given before somebody used the file is not enough, whether flashlab made the file or not.
    let early = [own().unwrap(), consent_to_overwrite_file(&inspect(&path).unwrap()).unwrap()];
    let all_refused = |reason: Reason| {
        assert!(matches!(own(), Err(HostError::Refused { .. })));
        for consent in &early {
            let Err(HostError::Refused { refusals, .. }) = open_file(&path, consent) else {
                panic!("opened in spite of {reason:?}")
            };
            assert!(refusals.iter().any(|refusal| refusal.reason == reason), "{refusals:?}");
        }
    };
    let writer = Writer::on(&path);
    all_refused(Reason::OpenForWriting);
    drop(writer);
    if let Some(_disk) = LoopDevice::over(&path, &[]) {
        all_refused(Reason::Loop);
    }
    drop(open_file(&path, &early[0]).unwrap());
}

#[test]
fn a_file_with_a_record_lock_is_not_written_to() {
    use std::os::fd::AsRawFd;
    let directory = Directory::new("record-lock");
    let path = directory.file("database", SIZE);
    let consent = || consent_to_overwrite_file(&inspect(&path).unwrap()).unwrap();
    let reader = fs::File::open(&path).unwrap();
    // SAFETY: the structure has only numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_RDLCK as _;
    (lock.l_start, lock.l_len) = (4096, 1);
    // SAFETY: the call reads the structure.
    assert_eq!(unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_OFD_SETLK, &lock) }, 0);
    assert!(matches!(open_file(&path, &consent()), Err(HostError::Locked { .. })));
    assert!(matches!(open_to_write(&path, consent()), Err(HostError::Locked { .. })));
    // Who only reads does not mind.
    drop(open(&path, &OpenOptions::default()).unwrap());
    drop(reader);
    drop(open_file(&path, &consent()).unwrap());
}

#[test]
fn what_a_file_contains_is_named() {
    let directory = Directory::new("carries");
    let path = directory.file("image", SIZE);
    assert_eq!(inspect(&path).unwrap().carries, [""; 0]);
    if run("mkfs.ext4", &["-q", "-F", path.to_str().unwrap()]).is_err() {
        flashlab_skip::skip(flashlab_skip::Need::Programs, "mkfs.ext4 is not there");
        return;
    }
    assert_eq!(inspect(&path).unwrap().carries, ["ext2, ext3 or ext4 file system"]);
}
