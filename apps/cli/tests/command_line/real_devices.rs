//! Block devices: loop devices of the tests, only as root.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use crate::support::{Directory, LONG_RUNS, LoopDevice, Mount, Ran, SHORT_RUNS, program};

const SIZE: u64 = 32 << 20;

struct Disk {
    directory: Directory,
    device: LoopDevice,
}

/// A loop device over a blank file, with the short plan beside it.
fn disk(options: &[&str]) -> Option<Disk> {
    let directory = Directory::new();
    directory.write("short.toml", SHORT_RUNS);
    directory.write("long.toml", LONG_RUNS);
    let device = LoopDevice::over(&directory.file("image", SIZE), options)?;
    Some(Disk { directory, device })
}

impl Disk {
    fn run(&self, options: &[&str]) -> Ran {
        let arguments = [&["run", "short.toml", &self.device.0, "--output", "run"], options].concat();
        self.directory.flashlab(&arguments)
    }

    /// As [`Disk::run`] with consent.
    fn overwrite(&self, options: &[&str]) -> Ran {
        self.run(&[&["--destroy-data-on", &self.device.0], options].concat())
    }

    /// The output, without the number of the loop device.
    fn anonymous(&self, ran: &Ran) -> String {
        ran.to_string().replace(&self.device.0, "/dev/loopN")
    }
}

#[test]
fn a_device_is_overwritten_only_with_consent() {
    let Some(disk) = disk(&[]) else { return };
    let ran = disk.run(&[]);
    assert_eq!(ran.code, Some(3), "{ran}");
    insta::assert_snapshot!(disk.anonymous(&ran), @r"
    exit 3
    flashlab: all data on /dev/loopN would be destroyed: consent with --destroy-data-on /dev/loopN
    ");
    let ran = disk.run(&["--destroy-data-on", "image"]);
    assert_eq!(ran.code, Some(3), "{ran}");
    insta::assert_snapshot!(disk.anonymous(&ran), @r"
    exit 3
    flashlab: `image` does not name /dev/loopN: expected a path to the same device, as `/dev/loopN`; nothing was written
    ");
    let ran = disk.run(&["--overwrite-file"]);
    assert_eq!(ran.code, Some(3), "{ran}");
    assert!(
        fs::read(disk.directory.path("image")).unwrap().iter().all(|&byte| byte == 0),
        "nothing was written"
    );
    assert!(!disk.directory.path("run").exists());

    let ran = disk.overwrite(&[]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(fs::read(disk.directory.path("image")).unwrap().iter().any(|&byte| byte != 0));
}

#[test]
fn a_file_system_is_not_overwritten() {
    let Some(disk) = disk(&[]) else { return };
    if let Err(reason) = program("mkfs.ext4", &["-q", &disk.device.0]) {
        flashlab_skip::skip(flashlab_skip::Need::Programs, &reason);
        return;
    }
    let before = fs::read(disk.directory.path("image")).unwrap();
    let ran = disk.overwrite(&[]);
    assert_eq!(ran.code, Some(3), "{ran}");
    insta::assert_snapshot!(disk.anonymous(&ran), @r"
    exit 3
    flashlab: refusing to write to /dev/loopN:
      - /dev/loopN carries a signature: ext2, ext3 or ext4 file system (at byte 1080): if its data is not needed, erase the signatures (`wipefs --all /dev/loopN`; what that leaves, `blkdiscard /dev/loopN`)
    ");

    let Some(_mount) = Mount::new(&[&disk.device.0], &disk.directory.path("mounted")) else { return };
    let ran = disk.overwrite(&[]);
    assert_eq!(ran.code, Some(3), "{ran}");
    insta::assert_snapshot!(disk.anonymous(&ran), @r"
    exit 3
    flashlab: refusing to write to /dev/loopN:
      - /dev/loopN is mounted on DIR/mounted as ext4: unmount it (`umount DIR/mounted`), if nothing there is needed
      - /dev/loopN carries a signature: ext2, ext3 or ext4 file system (at byte 1080): if its data is not needed, erase the signatures (`wipefs --all /dev/loopN`; what that leaves, `blkdiscard /dev/loopN`)
    ");
    drop(_mount);
    let after = fs::read(disk.directory.path("image")).unwrap();
    // Mounting writes to the superblock and the journal. Our data would be everywhere.
    let differing = before.chunks(4096).zip(after.chunks(4096)).filter(|(a, b)| a != b).count();
    assert!(differing < 100, "{differing} of {} blocks differ", before.len() / 4096);
}

#[test]
fn a_read_only_device_is_read_and_not_written() {
    let Some(disk) = disk(&["--read-only"]) else { return };
    let ran = disk.overwrite(&[]);
    assert_eq!(ran.code, Some(3), "{ran}");
    insta::assert_snapshot!(disk.anonymous(&ran), @r"
    exit 3
    flashlab: refusing to write to /dev/loopN:
      - /dev/loopN is read-only: make it writable (`blockdev --setrw /dev/loopN`, or its switch), or only read from it
    ");
    let arguments = ["run", "long.toml", &disk.device.0, "--quick", "--repetitions", "1"];
    disk.directory.succeeds(&arguments);
}

#[test]
fn sizes_follow_the_device_s_blocks() {
    let Some(disk) = disk(&["--sector-size", "4096"]) else { return };
    let fine = "version = 1\nname = \"fine\"\nlocation = \"random\"\nmode = \"write\"\nio_size = \"512B\"\n";
    disk.directory.write("short.toml", fine);
    let ran = disk.overwrite(&[]);
    assert_eq!(ran.code, Some(2), "{ran}");
    insta::assert_snapshot!(disk.anonymous(&ran), @r"
    exit 2
    flashlab: nothing of the plan can be run on /dev/loopN: IOSize = 512B: must be a multiple of the device's block of 4KiB
    ");
    disk.directory.write("short.toml", SHORT_RUNS.replace("\"4KiB\"", "\"512B\""));
    let ran = disk.overwrite(&[]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.err.contains("left out: short short at 512B"), "{ran}");
}

#[test]
fn a_device_that_vanishes_ends_a_run_that_goes_on_when_it_is_back() {
    let Some(disk) = disk(&[]) else { return };
    let image = OpenOptions::new().write(true).open(disk.directory.path("image")).unwrap();
    image.write_all_at(&vec![1; SIZE as usize], 0).unwrap();
    image.sync_all().unwrap();
    let arguments = ["run", "long.toml", &disk.device.0, "--output", "run", "--repetitions", "1"];
    let started = disk.directory.start(&arguments).until("run 1 of 4").until_runs("run", 1);
    // The medium of the device is gone: reads beyond the end of the file fail.
    image.set_len(0).unwrap();
    let ran = started.end();
    assert_eq!(ran.code, Some(1), "{ran}");
    let last = disk.anonymous(&ran).lines().last().unwrap().to_owned();
    assert!(last.starts_with("flashlab: /dev/loopN failed in run "), "{last}");
    assert!(last.contains("Input/output error (os error 5); look at the kernel's log"), "{last}");
    // The results so far can be shown, and the remaining runs follow when the device is back.
    disk.directory.succeeds(&["report", "run"]);
    image.set_len(SIZE).unwrap();
    disk.directory.succeeds(&["resume", "run"]);
    let runs = fs::read_to_string(disk.directory.path("run/runs.jsonl")).unwrap();
    assert_eq!(runs.lines().filter(|line| !line.contains("\"ended\":null")).count(), 4, "{runs}");
}

#[test]
fn a_device_that_is_resumed_needs_consent_again() {
    let Some(disk) = disk(&[]) else { return };
    disk.directory.write("short.toml", SHORT_RUNS.replace("io_count = 200", "duration = \"300ms\""));
    let arguments =
        ["run", "short.toml", &disk.device.0, "--output", "run", "--destroy-data-on", &disk.device.0];
    let ran = disk.directory.start(&arguments).until("run 1 of 12").until_runs("run", 1).signal("INT");
    assert_eq!(ran.code, Some(1), "{ran}");
    let ran = disk.directory.flashlab(&["resume", "run"]);
    assert_eq!(ran.code, Some(3), "{ran}");
    disk.directory.succeeds(&["resume", "run", "--destroy-data-on", &disk.device.0]);
}

#[test]
fn devices_are_listed_with_what_is_refused() {
    let Some(disk) = disk(&[]) else { return };
    let listed = disk.directory.succeeds(&["devices"]).out;
    let ours = listed
        .split("/dev/")
        .find(|text| disk.device.0 == format!("/dev/{}", text.split(' ').next().unwrap()));
    let ours = ours.unwrap_or_else(|| panic!("{} is not in\n{listed}", disk.device.0));
    assert!(ours.contains("32 MiB") && ours.contains("would be measured after you consent"), "{ours}");
}

#[test]
fn outputs_are_never_written_to_a_block_device() {
    let directory = Directory::new();
    let file = directory.write("precious", vec![7; 1 << 20]);
    let Some(device) = LoopDevice::over(&file, &[]) else { return };
    let ran =
        directory.flashlab(&["sim", "precondition", "sdcard", "--state", "sequential", "-o", &device.0]);
    assert_eq!(ran.code, Some(3), "{ran}");
    assert!(ran.err.contains("is a block device: outputs are only written to files"), "{ran}");
    drop(device);
    assert!(fs::read(&file).unwrap().iter().all(|byte| *byte == 7));
}
