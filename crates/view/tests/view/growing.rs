//! A run is followed while it is measured: each look finds the segments that came, and what is shown is what a new look at everything shows.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flashlab_view::browser::Browser;
use flashlab_view::{LiveRecording, RunLabel, Source, ViewedRecording};
use serde_json::Value;

use crate::shared::{LARGE, Made, SMALL, ask, open, segments, serve, source};

/// What the next look finds; `None` for a look that finds nothing new.
type Next = Arc<Mutex<Option<Result<Source, String>>>>;

/// A recording of `made`'s first segments that grows, and what its next look finds.
fn followed(first: Source) -> (LiveRecording, Next) {
    let next: Next = Arc::default();
    let found = Arc::clone(&next);
    let look = Box::new(move || match found.lock().unwrap().take() {
        None => Ok(None),
        Some(Ok(source)) => Ok(Some(source)),
        Some(Err(message)) => Err(message.into()),
    });
    let recording = ViewedRecording::open(first, &|_, _, _| {}).unwrap();
    (LiveRecording::new(recording, Some(look)), next)
}

fn with_segments(made: &Made, segments: &[PathBuf], is_growing: bool) -> Source {
    Source { segments: segments.to_vec(), is_growing, ..source(&made.folder()) }
}

/// Looks are half a second apart.
fn refresh(live: &LiveRecording) {
    std::thread::sleep(Duration::from_millis(510));
    live.refresh();
}

/// Asks both for the same views, which must be answered alike, byte by byte.
fn assert_same(live: LiveRecording, fresh: Source) {
    let server = serve(vec![live, open(fresh).into()]);
    let heads: Value = serde_json::from_slice(&ask(&server, "api/recordings").1).unwrap();
    let mut heads = heads["recordings"].as_array().unwrap().clone();
    heads[1]["id"] = 0.into();
    // Which failures lie so close together that they are one mark depends on the order in which they came.
    for head in &mut heads {
        head["marks"].as_array_mut().unwrap().retain(|mark| mark["kind"] != "fault");
    }
    assert_eq!(heads[0], heads[1]);
    let half = heads[0]["time_ns"][1].as_u64().unwrap() / 2;
    for view in [
        "width=40",
        "width=900&exact=1",
        "width=40&modes=write&errors=any",
        "width=40&offset_bytes=0,300000000",
        &format!("width=300&exact=1&time_ns={half},{}", half + half / 2),
        "width=40&run=2",
    ] {
        let [grown, fresh] = [0, 1].map(|id| ask(&server, &format!("api/panels?recording={id}&{view}")));
        assert_eq!(grown.0, 200, "{view}");
        assert!(grown.1 == fresh.1, "{view}: another answer than that of a new look");
    }
    let worst = |id| ask(&server, &format!("api/ios?recording={id}&sort=response_ns&descending=1&count=20"));
    assert_eq!(worst(0), worst(1));
}

#[test]
fn segments_that_came_are_shown_as_a_new_look_shows_them() {
    // The large one has a pyramid from the beginning, to which the later segments are added.
    let large = Made::new(&[1_100_000, 30_000, 5_000, 5_000]);
    for made in [&SMALL, &large] {
        let all = segments(&made.folder());
        assert!(all.len() >= 4, "{all:?}");
        let (live, next) = followed(with_segments(made, &all[..all.len() - 2], true));
        for end in [all.len() - 1, all.len()] {
            *next.lock().unwrap() = Some(Ok(with_segments(made, &all[..end], end < all.len())));
            refresh(&live);
            assert_eq!(live.now().source.segments.len(), end);
        }
        assert_same(live, with_segments(made, &all, false));
    }
}

#[test]
fn a_recording_that_becomes_large_or_has_earlier_ios_is_opened_anew() {
    let all = segments(&LARGE.folder());
    // From no segment at all to one, then to so many that they are summed up.
    let (live, next) = followed(with_segments(&LARGE, &[], true));
    for end in [1, all.len()] {
        *next.lock().unwrap() = Some(Ok(with_segments(&LARGE, &all[..end], true)));
        refresh(&live);
    }
    assert_same(live, with_segments(&LARGE, &all, true));
    let all = segments(&SMALL.folder());
    let (live, next) = followed(with_segments(&SMALL, &all[1..], true));
    *next.lock().unwrap() = Some(Ok(with_segments(&SMALL, &all, true)));
    refresh(&live);
    assert_same(live, with_segments(&SMALL, &all, true));
    // A run that is repeated loses its segments.
    let (live, next) = followed(with_segments(&SMALL, &all, true));
    *next.lock().unwrap() = Some(Ok(with_segments(&SMALL, &all[..2], true)));
    refresh(&live);
    assert_same(live, with_segments(&SMALL, &all[..2], true));
}

#[test]
fn a_start_up_phase_is_known_when_its_run_has_ended() {
    let all = segments(&SMALL.folder());
    let unlabelled = Source { runs: Vec::new(), ..with_segments(&SMALL, &all[..2], true) };
    let (live, next) = followed(unlabelled);
    *next.lock().unwrap() = Some(Ok(with_segments(&SMALL, &all[..2], true)));
    refresh(&live);
    assert_same(live, with_segments(&SMALL, &all[..2], true));
}

#[test]
fn a_look_that_fails_is_repeated_and_then_reported() {
    let all = segments(&SMALL.folder());
    let (live, next) = followed(with_segments(&SMALL, &all[..1], true));
    let damaged = tempfile::tempdir().unwrap();
    let file = damaged.path().join("run-00001-00000.parquet");
    std::fs::write(&file, b"PAR1, and not yet the rest").unwrap();
    let with_damaged = [all[0].clone(), file.clone()];
    *next.lock().unwrap() = Some(Ok(with_segments(&SMALL, &with_damaged, true)));
    refresh(&live);
    assert_eq!(live.now().source.segments.len(), 1);
    // The look finds nothing new, and the file is whole by now.
    std::fs::copy(&all[1], &file).unwrap();
    refresh(&live);
    assert_eq!(live.now().source.segments.len(), 2);
    assert!(live.now().source.is_growing);
    for _ in 0..3 {
        *next.lock().unwrap() = Some(Err("the folder is gone".to_owned()));
        refresh(&live);
    }
    let now = live.now();
    assert!(!now.source.is_growing);
    assert_eq!(now.source.notes, ["the recording is not followed any more: the folder is gone"]);
    assert_eq!(now.overview.ios(), 10_000);
    let label = RunLabel { run: 0, name: "random reads".to_owned(), io_ignore: 100 };
    assert_eq!(now.source.runs[0], label);
}

/// Waits until an expression of the page is true. A page of a busy machine may need a while.
fn wait_for(browser: &mut Browser, expression: &str) {
    for _ in 0..600 {
        if browser.evaluate(expression).unwrap() == true {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not in a minute: {expression}");
}

#[test]
fn a_page_follows_a_run_and_moves_a_view_that_shows_its_end() {
    if flashlab_skip::chromium().is_none() {
        return;
    }
    let all = segments(&SMALL.folder());
    let (live, next) = followed(with_segments(&SMALL, &all[..2], true));
    let end = live.now().overview.time_end_ns;
    let server = serve(vec![live]);
    let mut browser = Browser::start(1000, 800, 1).unwrap();
    browser.open(&format!("{}#time_ns={},{end}", server.url(), end / 2)).unwrap();
    wait_for(&mut browser, "!document.getElementById('live').hidden && flashlab.recordings[0].ios === 10000");
    *next.lock().unwrap() = Some(Ok(with_segments(&SMALL, &all[..3], true)));
    wait_for(&mut browser, "flashlab.recordings[0].ios === 15000 && document.body.dataset.state === 'ready'");
    let moved = browser
        .evaluate(
            "flashlab.state.time[1] === flashlab.end && flashlab.state.time[1] - flashlab.state.time[0]",
        )
        .unwrap();
    assert_eq!(moved, end - end / 2, "the view has its width and shows the end");
    // A view that does not show the end stays, and a run that has ended is not live.
    browser.evaluate("flashlab.update({ time: [0, 1000000] })").unwrap();
    *next.lock().unwrap() = Some(Ok(with_segments(&SMALL, &all, false)));
    wait_for(&mut browser, "document.getElementById('live').hidden && flashlab.recordings[0].ios === 20000");
    assert_eq!(browser.evaluate("`${flashlab.state.time}`").unwrap(), "0,1000000");
}
