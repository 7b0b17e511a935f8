//! Measures how long a recording takes until its first picture, without its pyramid and with it, and how long views of it take.
//!
//!     cargo run --release -p flashlab-view --example first_picture FOLDER

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use flashlab_view::view::View;
use flashlab_view::{Source, ViewedRecording, answer, count};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("the folder of a recording")?);
    let mut segments: Vec<PathBuf> = std::fs::read_dir(folder.join("samples"))?
        .map(|file| Ok(file?.path()))
        .collect::<std::io::Result<_>>()?;
    segments.sort();
    let samples: u64 = segments.iter().map(|file| file.metadata().map_or(0, |data| data.len())).sum();
    let directory = tempfile::tempdir()?;
    let pyramid = directory.path().join("samples.pyramid");
    let source = Source { segments, pyramid_files: vec![pyramid.clone()], ..Source::default() };
    for what in ["without a pyramid", "with its pyramid"] {
        let begin = Instant::now();
        let recording = ViewedRecording::open(source.clone(), &|_, _, _| {})?;
        let opened = begin.elapsed();
        picture(&recording, &View::default())?;
        println!(
            "first picture {what}: {:.2} s, of which the server takes {:.2} s to open it; memory {}",
            begin.elapsed().as_secs_f64(),
            opened.as_secs_f64(),
            memory("VmRSS"),
        );
    }
    let bytes = pyramid.metadata()?.len();
    println!("pyramid: {bytes} bytes, {:.1} % of the samples", 100.0 * bytes as f64 / samples as f64);
    let recording = ViewedRecording::open(source, &|_, _, _| {})?;
    let all = recording.overview.time_end_ns;
    for parts in [1, 2, 4, 16, 64, 256, 4096, 65536] {
        let mut milliseconds: Vec<f64> = Vec::new();
        for step in 0..10 {
            let start = (all - all / parts) / 10 * step;
            let view = View { time_ns: Some(start..start + all / parts), ..View::default() };
            let begin = Instant::now();
            picture(&recording, &view)?;
            milliseconds.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        milliseconds.sort_by(f64::total_cmp);
        println!(
            "1/{parts} of the time: median {:.1} ms, longest {:.1} ms",
            milliseconds[5], milliseconds[9]
        );
    }
    println!("peak memory {}", memory("VmHWM"));
    Ok(())
}

fn picture(recording: &ViewedRecording, view: &View) -> Result<usize, flashlab_view::ViewError> {
    let counted = count::count(recording, view, 1000, false, &AtomicBool::new(false))?;
    Ok(answer::panels(&counted).len())
}

fn memory(key: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
}
