//! What several tests need: recordings that are made once, and requests to a server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use flashlab_base::{Bytes, Sample, Seed};
use flashlab_samples::for_each_batch;
use flashlab_view::{LiveRecording, RunLabel, Server, Source, ViewedRecording};
use tempfile::TempDir;

/// A recording that has a pyramid: 4 runs of 270,000 IOs.
pub static LARGE: LazyLock<Made> = LazyLock::new(|| Made::new(&[270_000; 4]));
/// One whose IOs are counted one by one: 4 runs of 5,000 IOs.
pub static SMALL: LazyLock<Made> = LazyLock::new(|| Made::new(&[5_000; 4]));

/// A recording, and all its IOs.
pub struct Made {
    directory: TempDir,
    pub samples: Vec<(u32, Sample)>,
    pub recording: Arc<ViewedRecording>,
}

impl Made {
    pub fn new(counts: &[u64]) -> Made {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("run");
        crate::made::record_runs(&folder, counts, Bytes::gib(1), Seed(7));
        let mut samples = Vec::new();
        for file in segments(&folder) {
            for_each_batch(&file, |columns| {
                samples.extend((0..columns.len()).map(|at| (columns.run[at] as u32, columns.sample(at))));
            })
            .unwrap();
        }
        Made { samples, recording: open(source(&folder)), directory }
    }

    pub fn folder(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    /// The first begin.
    pub fn origin_ns(&self) -> u64 {
        self.samples.iter().map(|(_, sample)| sample.intended.0).min().unwrap()
    }
}

pub fn source(folder: &Path) -> Source {
    let labels = ["random reads", "random writes", "sequential writes", "sequential reads"];
    let labels = labels.into_iter().zip(0..);
    Source {
        name: "a made run".to_owned(),
        target: "a made device".to_owned(),
        verb: "serve".to_owned(),
        segments: segments(folder),
        runs: labels.map(|(name, run)| RunLabel { run, name: name.to_owned(), io_ignore: 100 }).collect(),
        ..Source::default()
    }
}

pub fn open(source: Source) -> Arc<ViewedRecording> {
    Arc::new(ViewedRecording::open(source, &|_, _, _| {}).unwrap())
}

pub fn segments(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder.join("samples")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

pub fn serve(recordings: Vec<impl Into<LiveRecording>>) -> Server {
    Server::start(recordings, 0).unwrap()
}

/// The status and the body of the answer to a request for what follows the page's address.
pub fn ask(server: &Server, path: &str) -> (u16, Vec<u8>) {
    let (host, token) = split(server.url());
    send(host, &format!("GET {token}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
}

/// Host with port, and the path.
pub fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap();
    rest.split_at(rest.find('/').unwrap())
}

pub fn send(host: &str, request: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), answer[end..].to_vec())
}
