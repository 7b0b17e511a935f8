//! Recording from several threads, over many segments and runs.

use flashlab_base::{Bytes, Mode, Nanos, Sample, Seed};
use flashlab_samples::{Column, FolderKind, Recording, RunFolder};

use crate::synthetic::{folder, manifest, mixed_ios, random_reads, read, record};

#[test]
fn every_sample_of_every_process_is_read_back_in_its_order() {
    const PROCESSES: u32 = 4;
    // Together they exceed one segment, so that segments end in the middle of a run.
    const EACH: u64 = 400_000;
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    let mut recording = Recording::start(&folder);
    for run in 1..=2 {
        let seed = move |process| Seed(u64::from(100 * run + process));
        let lanes = recording.start_run(run, PROCESSES).unwrap();
        let measuring = lanes.into_iter().zip(0..).map(|(mut lane, process)| {
            std::thread::spawn(move || {
                for sample in mixed_ios(process, EACH, seed(process)) {
                    assert!(lane.record(&sample).is_continue());
                }
                lane
            })
        });
        let measuring: Vec<_> = measuring.collect();
        // In a different order than they were started.
        let lanes = measuring.into_iter().rev().map(|thread| thread.join().unwrap()).collect();
        recording.finish_run(lanes).unwrap();
        assert!(folder.segments(run).len() > 1);

        let mut expected: Vec<_> =
            (0..PROCESSES).map(|process| mixed_ios(process, EACH, seed(process))).collect();
        folder
            .each_sample(run, |sample| {
                assert_eq!(Some(*sample), expected[sample.process as usize].next());
            })
            .unwrap();
        assert!(expected.iter_mut().all(|samples| samples.next().is_none()));
    }
    assert_eq!(folder.last_run(), Some(2));
    assert_eq!(folder.set_aside().unwrap(), []);
}

#[test]
fn the_same_samples_give_the_same_files() {
    let directory = tempfile::tempdir().unwrap();
    let files = |name: &str| {
        let folder = folder(&directory.path().join(name));
        record(&folder, 1, random_reads(Bytes::gib(1), 100_000, Seed(2)));
        let segments = folder.segments(1);
        assert!(segments.len() > 1);
        segments.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    assert!(files("first") == files("second"));
}

#[test]
fn an_open_loop_that_lags_behind_makes_no_more_files_than_another() {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    // IOs of ten seconds, all of which were due at the start.
    let late = (0..10_000).map(|position| Sample {
        position,
        process: 0,
        mode: Mode::Read,
        offset: Bytes(position * 4096),
        size: Bytes::kib(4),
        intended: Nanos::ZERO,
        submitted: Nanos::from_millis(position),
        completed: Nanos::from_millis(position + 1),
        errno: 0,
    });
    record(&folder, 1, late);
    let segments = folder.segments(1).len();
    assert!((2..=20).contains(&segments), "{segments}");
}

#[test]
fn a_long_run_in_virtual_time_is_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    let mut recording = Recording::start_virtual(&folder);
    let mut lanes = recording.start_run(1, 1).unwrap();
    // Writes of half a second each, for more than an hour.
    let slow = |(position, sample): (usize, Sample)| {
        let submitted = flashlab_base::Nanos::from_millis(500) * position as u64;
        Sample {
            intended: submitted,
            submitted,
            completed: submitted + flashlab_base::Nanos::from_millis(500),
            ..sample
        }
    };
    let samples: Vec<Sample> = random_reads(Bytes::gib(1), 8192, Seed(5)).enumerate().map(slow).collect();
    samples.iter().for_each(|sample| assert!(lanes[0].record(sample).is_continue()));
    assert_eq!(recording.finish_run(lanes).unwrap(), 0, "nothing to wait for");
    assert_eq!(read(&folder, 1), samples);
    assert_eq!(folder.segments(1).len(), 1);
}

#[test]
fn a_finished_run_is_whole_even_when_it_was_short() {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    let mut recording = Recording::start(&folder);
    for run in 0..20 {
        let samples: Vec<Sample> = mixed_ios(0, u64::from(run), Seed(1)).collect();
        let mut lanes = recording.start_run(run, 1).unwrap();
        samples.iter().for_each(|sample| assert!(lanes[0].record(sample).is_continue()));
        assert_eq!(recording.finish_run(lanes).unwrap(), 0, "nothing to wait for");
        assert_eq!(read(&folder, run), samples);
    }
}

#[test]
fn samples_of_a_run_that_is_not_finished_are_written_when_the_recording_ends() {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    let samples: Vec<Sample> = random_reads(Bytes::gib(1), 100_000, Seed(3)).collect();
    let mut recording = Recording::start(&folder);
    let mut lanes = recording.start_run(1, 1).unwrap();
    samples.iter().for_each(|sample| assert!(lanes[0].record(sample).is_continue()));
    drop(recording);
    let found = read(&folder, 1);
    // Missing samples are those that the lane had not handed over.
    assert!(found.len() > 90_000 && found == samples[..found.len()], "{} samples", found.len());
}

#[test]
fn only_the_columns_asked_for_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    record(&folder, 1, mixed_ios(0, 100_000, Seed(4)));
    let (mut count, mut sum) = (0, 0);
    folder
        .each_batch_of(1, &[Column::Response, Column::Mode], |columns| {
            assert_eq!(columns.response_ns.len(), columns.len());
            assert_eq!(columns.write.len(), columns.len());
            assert!(columns.position.is_empty() && columns.offset_bytes.is_empty());
            count += columns.len();
            sum += columns.response_ns.iter().sum::<i64>();
        })
        .unwrap();
    assert_eq!(count, 100_000);
    assert_eq!(sum, mixed_ios(0, 100_000, Seed(4)).map(|sample| sample.response().0 as i64).sum::<i64>());
    let mut none = 0;
    folder.each_batch_of(1, &[], |columns| none += columns.len()).unwrap();
    assert_eq!(none, 100_000, "samples can be counted without reading any");
}

#[test]
fn segments_are_ordered_by_number_and_other_files_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    for name in [
        "run-00001-100000.parquet",
        "run-00001-99999.parquet",
        "run-100000-00000.parquet",
        "run-00001-00000.torn",
        "run-00001-x.parquet",
        "notes.txt",
    ] {
        folder.write_plan(&format!("samples/{name}"), "").unwrap();
    }
    std::fs::write(folder.samples().join("run-00001-00007.parquet"), "not listed").unwrap();
    let names: Vec<_> = folder.segments(1);
    let names: Vec<_> = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["run-00001-99999.parquet", "run-00001-100000.parquet"]);
    assert_eq!(folder.last_run(), Some(100_000));
}

#[test]
fn the_manifest_is_read_back_and_a_folder_is_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    folder(&path);
    let (_, found) = RunFolder::open::<String>(&path, FolderKind::ALL).unwrap();
    assert_eq!(found, manifest());
    let error = RunFolder::create(&path, &manifest()).unwrap_err().to_string();
    assert!(error.contains("flashlab resume"), "{error}");
    let error = RunFolder::open::<String>(directory.path(), FolderKind::ALL).unwrap_err().to_string();
    assert!(error.contains("contains no run"), "{error}");
}

#[test]
fn another_version_is_refused_by_its_number() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    folder(&path);
    std::fs::write(path.join("manifest.json"), r#"{"version": 7, "other": "fields"}"#).unwrap();
    let error = RunFolder::open::<String>(&path, FolderKind::ALL).unwrap_err().to_string();
    assert!(error.contains("version 7") && error.contains("manifest.json"), "{error}");
}

#[test]
fn a_torn_line_is_left_out_and_then_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let folder = folder(&directory.path().join("run"));
    let runs = || folder.runs::<(u32, String)>();
    assert_eq!(runs().unwrap(), []);
    let line = |run: u32| (run, "Grundzustand".to_owned());
    (1..=2).for_each(|run| folder.add_run(&line(run)).unwrap());
    let path = folder.path().join("runs.jsonl");
    let whole = std::fs::read(&path).unwrap();
    for length in 0..=whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let complete = whole[..length].iter().filter(|&&byte| byte == b'\n').count() as u32;
        assert_eq!(runs().unwrap(), (1..=complete).map(line).collect::<Vec<_>>(), "cut at {length}");
        folder.add_run(&line(9)).unwrap();
        assert_eq!(runs().unwrap(), (1..=complete).chain([9]).map(line).collect::<Vec<_>>());
    }
}

#[test]
fn only_one_measures_into_a_folder_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let folder = folder(&path);
    let (mut other, _) = RunFolder::open::<String>(&path, FolderKind::ALL).unwrap();
    assert!(RunFolder::is_in_use(&path));
    assert!(other.lock().unwrap_err().to_string().contains("another flashlab is measuring into it"));
    drop(folder);
    assert!(!RunFolder::is_in_use(&path));
    other.lock().unwrap();
}
