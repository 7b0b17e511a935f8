//! The file of a pyramid: kept, loaded, and made again if it is damaged or belongs to other samples.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_view::count::count;
use flashlab_view::view::View;
use flashlab_view::{Source, ViewedRecording};

use crate::shared::{LARGE, SMALL, open, segments};

/// Opens the recording with its pyramid in `files`; returns it, and whether its IOs were summed up.
fn opened(segments: Vec<PathBuf>, files: Vec<PathBuf>) -> (ViewedRecording, bool) {
    let is_built = AtomicBool::new(false);
    let source = Source { segments, pyramid_files: files, ..Source::default() };
    let recording = ViewedRecording::open(source, &|what, _, _| {
        is_built.fetch_or(what == "summing up IOs", Ordering::Relaxed);
    });
    (recording.unwrap(), is_built.load(Ordering::Relaxed))
}

fn histogram(recording: &ViewedRecording) -> Vec<[u64; 2]> {
    count(recording, &View::default(), 100, false, &AtomicBool::new(false)).unwrap().tally.histogram
}

#[test]
fn a_pyramid_is_kept_and_believed_only_if_it_is_whole_and_of_these_samples() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("deep/samples.pyramid");
    let open_with = |segments: &[PathBuf]| opened(segments.to_vec(), vec![file.clone()]);
    let own = segments(&LARGE.folder());
    let (first, is_built) = open_with(&own);
    assert!(is_built);
    let whole = fs::read(&file).unwrap();
    let samples: u64 = own.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!((whole.len() as u64) < samples / 20, "{} bytes for {samples} bytes of samples", whole.len());

    let (loaded, is_built) = open_with(&own);
    assert!(!is_built, "the kept pyramid is loaded");
    assert_eq!(histogram(&loaded), histogram(&first));

    for at in [3, 9, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&file, damaged).unwrap();
        let (again, is_built) = open_with(&own);
        assert!(is_built, "a pyramid with another byte {at} is made anew");
        assert_eq!(histogram(&again), histogram(&first));
    }
    fs::write(&file, &whole[..whole.len() / 3]).unwrap();
    assert!(open_with(&own).1, "a cut pyramid is made anew");

    let other = directory.path().join("run-00000-00000.parquet");
    fs::copy(&own[0], &other).unwrap();
    let mut others = own.clone();
    others[0] = other;
    assert!(open_with(&others).1, "a pyramid of samples that were changed at another time is not used");
}

#[test]
fn a_pyramid_that_cannot_be_kept_beside_the_run_goes_to_the_next_place() {
    let directory = tempfile::tempdir().unwrap();
    let blocked = directory.path().join("a file");
    fs::write(&blocked, "").unwrap();
    let (first, second) = (blocked.join("samples.pyramid"), directory.path().join("cache/samples.pyramid"));
    let own = segments(&LARGE.folder());
    let (recording, _) = opened(own.clone(), vec![first.clone(), second.clone()]);
    assert!(second.is_file() && recording.source.notes.is_empty());
    let (recording, is_built) = opened(own, vec![first]);
    assert!(is_built);
    assert!(recording.source.notes[0].contains("cannot be kept"), "{:?}", recording.source.notes);
}

#[test]
fn damaged_samples_are_refused_with_their_name() {
    let directory = tempfile::tempdir().unwrap();
    let whole = fs::read(&segments(&SMALL.folder())[0]).unwrap();
    let file = directory.path().join("run-00000-00000.parquet");
    let refusal = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let source = Source { segments: vec![file.clone()], ..Source::default() };
        ViewedRecording::open(source, &|_, _, _| {}).err().map(|error| error.to_string())
    };
    assert_eq!(refusal(&whole), None);
    let name = "run-00000-00000.parquet";
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x20;
        let refused = refusal(&damaged);
        // A part of the footer that says nothing about samples may change.
        assert!(refused.as_ref().is_none_or(|text| text.contains(name)), "{refused:?}");
        assert!(refused.is_some() || at > whole.len() - 3000, "byte {at} of {} is not noticed", whole.len());
    }
    assert!(refusal(&whole[..whole.len() / 2]).unwrap().contains(name));
    assert!(refusal(b"").unwrap().contains(name));
}

#[test]
fn a_recording_without_ios_is_shown_empty() {
    let recording = open(Source::default());
    let counted = count(&recording, &View::default(), 100, false, &AtomicBool::new(false)).unwrap();
    assert_eq!(counted.tally.ios(), [0, 0]);
}
