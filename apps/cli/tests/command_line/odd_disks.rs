//! Serves unusual devices: zones, worn out, throughput models, hard disks, tiny and odd sizes. What a device
//! refuses becomes the error of an IO, and the server goes on. Skipped without FUSE or loop devices.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use crate::live_disk::{Server, mount_point, pattern};
use crate::support::{Directory, program};

/// A profile of flash of 8 MiB in blocks of 4 KiB.
fn flash(more: &str) -> String {
    format!(
        "version = 2\nname = \"odd\"\ntitle = \"Odd\"\nsource = \"none\"\nfit = \"none\"\ncapacity = \"8MiB\"\n\
         block = \"4KiB\"\n[flash]\n{more}"
    )
}

#[test]
fn zones_are_written_in_order_or_not_at_all() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    directory.write("odd.toml", flash("[translation.zones]\n"));
    let Some(server) = Server::of(&directory, "sim:./odd.toml", &["--fuse", &mount]) else { return };
    let file = server.open();
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.write_all_at(&[2; 4096], 4096).unwrap();
    file.write_all_at(&[3; 4096], 0).unwrap_err();
    file.write_all_at(&[3; 4096], 64 << 10).unwrap_err();
    let mut read = [0; 8192];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read[..4096] == [1; 4096] && read[4096..] == [2; 4096], "a refused write changes nothing");
    assert_eq!(server.status(&directory)["served"]["classes"][1]["errors"], 2);
    drop(file);
    server.end();
}

#[test]
fn a_worn_out_device_can_be_read_and_keeps_its_data() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    // The times of flash that wears out quickly.
    let fast = "over_provisioning = 0.3\nprogram = \"1us\"\nerase = \"1us\"\nread = \"1us\"\nreliability = { endurance = 2 }\n";
    directory.write("odd.toml", flash(fast));
    let options = ["--fuse", mount.as_str(), "--backing", "disk.img"];
    let Some(server) = Server::of(&directory, "sim:./odd.toml", &options) else { return };
    let file = server.open();
    let fills = (0..10_000).map(|round| (round % 255 + 1) as u8);
    let mut last = (0, 0);
    let error = fills.zip((0..1024).cycle()).find_map(|(fill, block)| {
        let result = file.write_all_at(&[fill; 8192], block << 13);
        last = if result.is_ok() { (fill, block << 13) } else { last };
        result.err()
    });
    let (error, (written, offset)) = (error.expect("its endurance is 2"), last);
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
    let mut read = [0; 8192];
    file.read_exact_at(&mut read, offset).unwrap();
    assert_eq!(read, [written; 8192], "what was written last");
    file.sync_data().unwrap();
    drop(file);
    server.end();
    let server = Server::of(&directory, "sim:./odd.toml", &options).unwrap();
    let file = server.open();
    file.read_exact_at(&mut read, offset).unwrap();
    assert_eq!(read, [written; 8192]);
    let error = file.write_all_at(&read, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "its state says that it is worn out");
    drop(file);
    server.end();
}

/// Writes and reads the first and the last bytes of a disk.
fn both_ends(file: &File, size: u64, block: usize) {
    let (first, last) = (pattern(1, block), pattern(2, block));
    file.write_all_at(&last, size - block as u64).unwrap();
    file.write_all_at(&first, 0).unwrap();
    file.sync_data().unwrap();
    let mut read = vec![0; block];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read == first);
    if size >= 2 * block as u64 {
        file.read_exact_at(&mut read, size - block as u64).unwrap();
        assert!(read == last);
    }
}

#[test]
fn sizes_and_models_of_all_kinds_are_served() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    for (target, asked, size) in [
        ("sim:zeus", "512B", 512),
        ("sim:zeus", "4KiB", 4096),
        ("sim:zeus", "1000001B", 1_000_001 / 512 * 512),
        ("sim:barracuda", "64MiB", 64 << 20),
        ("sim:cloud-gp", "64MiB", 64 << 20),
        ("sim:emmc", "60001KiB", 60_001 << 10),
    ] {
        let options = ["--size", asked, "--fuse", &mount];
        let Some(server) = Server::of(&directory, target, &options) else { return };
        let file = server.open();
        assert_eq!(file.metadata().unwrap().len(), size, "{target} of {asked}");
        both_ends(&file, size, 512);
        drop(file);
        server.end();
    }
}

#[test]
fn a_loop_device_of_an_odd_size_ends_at_a_whole_sector() {
    let directory = Directory::new();
    for (asked, sector) in [("512B", 512), ("1000001B", 512), ("8193KiB", 512)] {
        let options = ["--size", asked, "--loop"];
        let Some(server) = Server::of(&directory, "sim:zeus", &options) else { return };
        let device = server.path.to_str().unwrap();
        let size: u64 = program("blockdev", &["--getsize64", device]).unwrap().parse().unwrap();
        assert!(size > 0 && size.is_multiple_of(sector), "{asked}: {size}");
        both_ends(&server.open(), size, sector as usize);
        server.end();
    }
}

/// A file system of 16 MiB. If that is not possible: `None`, with the reason on standard output.
fn small_file_system(directory: &Directory) -> Option<(crate::support::Mount, std::path::PathBuf)> {
    let at = directory.path("small");
    let mount = crate::support::Mount::new(&["-t", "tmpfs", "-o", "size=16m", "tmpfs"], &at)?;
    Some((mount, at))
}

#[test]
fn a_full_file_system_beneath_is_the_error_of_the_io() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    let Some((_small, at)) = small_file_system(&directory) else { return };
    let backing = at.join("disk.img");
    let options = ["--size", "64MiB", "--fuse", &mount, "--backing", backing.to_str().unwrap()];
    let Some(server) = Server::of(&directory, "sim:zeus", &options) else { return };
    let file = server.open();
    file.write_all_at(&[1; 1 << 20], 0).unwrap();
    file.sync_data().unwrap();
    let error = (1..64).find_map(|place| file.write_all_at(&[2; 1 << 20], place << 20).err());
    assert_eq!(error.expect("it has 16 MiB").kind(), ErrorKind::StorageFull);
    let mut read = vec![0; 1 << 20];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read == [1; 1 << 20], "what was flushed is there");
    // Space becomes free, and the disk accepts writes again: a discard frees its whole range.
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 1 << 20, 63 << 20).unwrap();
    file.write_all_at(&[3; 1 << 20], 8 << 20).unwrap();
    file.sync_data().unwrap();
    drop(file);
    server.end();
    let server = Server::of(&directory, "sim:zeus", &options).unwrap();
    server.open().read_exact_at(&mut read, 8 << 20).unwrap();
    assert!(read == [3; 1 << 20]);
    server.end();
}

#[test]
fn a_recording_that_finds_no_room_ends_and_the_serving_does_not() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    let Some((_small, at)) = small_file_system(&directory) else { return };
    let record = at.join("recorded");
    let options = ["--size", "64MiB", "--fuse", &mount, "--output", record.to_str().unwrap()];
    let Some(mut server) = Server::of(&directory, "sim:zeus", &options) else { return };
    fs::write(at.join("fills"), vec![1; 16 << 20]).unwrap_err();
    let file = OpenOptions::new().read(true).write(true).open(&server.path).unwrap();
    for block in 0..3000 {
        file.write_all_at(&[1; 4096], block << 12).unwrap();
    }
    file.read_exact_at(&mut [0; 4096], 0).unwrap();
    drop(file);
    crate::live_disk::send(&server.child, "TERM");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut server.child.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("No space left on device") && said.contains("recorded"), "{said}");
    assert!(!server.path.exists(), "it is still mounted");
}
