//! A disk that is too full for the results.

use std::path::Path;
use std::process::Command;

use flashlab_base::{Bytes, Seed};
use flashlab_samples::Recording;

use crate::synthetic::{folder, random_reads, read};

/// A file system of one MiB, unmounted when it is dropped.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(path: &Path) -> Result<SmallDisk<'_>, String> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(path).output();
        match mount {
            Ok(output) if output.status.success() => Ok(SmallDisk(path)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_ends_the_run_and_what_was_written_stays() {
    let directory = tempfile::tempdir().unwrap();
    let _disk = match SmallDisk::mount(directory.path()) {
        Ok(disk) => disk,
        Err(reason) => {
            return flashlab_skip::skip(
                flashlab_skip::Need::Root,
                format_args!("a small file system cannot be mounted: {reason}"),
            );
        }
    };
    let folder = folder(&directory.path().join("run"));
    let mut recording = Recording::start(&folder);
    let samples = |seed| random_reads(Bytes::gib(64), 10_000_000, Seed(seed));

    let mut lanes = recording.start_run(1, 1).unwrap();
    samples(1).take(20_000).for_each(|sample| assert!(lanes[0].record(&sample).is_continue()));
    recording.finish_run(lanes).unwrap();

    // A segment of this run has a MiB and more of samples.
    let mut lanes = recording.start_run(2, 1).unwrap();
    let recorded = samples(2).take_while(|sample| lanes[0].record(sample).is_continue()).count();
    assert!(recorded < 10_000_000, "the lane never said that the disk is full");
    let error = recording.finish_run(lanes).unwrap_err().to_string();
    assert!(error.contains("No space left") && error.contains("--output"), "{error}");
    assert!(error.contains("run-00002-"), "{error}");

    let left: Vec<_> =
        std::fs::read_dir(folder.samples()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.extension().unwrap() == "parquet"), "{left:?}");
    assert!(read(&folder, 1).into_iter().eq(samples(1).take(20_000)));
    // The first segments of the second run may have fitted. What is there is in order.
    let found = read(&folder, 2);
    assert!(found.len() <= recorded && samples(2).take(found.len()).eq(found));

    // Recording works again when space is free.
    let mut lanes = recording.start_run(3, 1).unwrap();
    samples(3).take(1000).for_each(|sample| assert!(lanes[0].record(&sample).is_continue()));
    recording.finish_run(lanes).unwrap();
    assert_eq!(read(&folder, 3).len(), 1000);
}

#[test]
fn a_document_that_has_no_room_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let _disk = match SmallDisk::mount(directory.path()) {
        Ok(disk) => disk,
        Err(reason) => {
            return flashlab_skip::skip(
                flashlab_skip::Need::Root,
                format_args!("a small file system cannot be mounted: {reason}"),
            );
        }
    };
    let folder = folder(&directory.path().join("run"));
    folder.write_text("report.html", "the one before").unwrap();
    let error = folder.write_text("report.html", &"x".repeat(2 << 20)).unwrap_err().to_string();
    assert!(error.contains("No space left") && error.contains("report.html"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.path().join("report.html")).unwrap(), "the one before");
    assert!(!folder.path().join("report.html.part").exists());

    // A line without space is torn; the next one replaces it.
    folder.add_run(&1).unwrap();
    assert!(folder.add_run(&"x".repeat(2 << 20)).is_err());
    assert_eq!(folder.runs::<u32>().unwrap(), [1]);
    folder.add_run(&2).unwrap();
    assert_eq!(folder.runs::<u32>().unwrap(), [1, 2]);
}
