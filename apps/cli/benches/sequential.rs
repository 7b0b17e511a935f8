//! Sequential throughput of a volume in a file of this machine's disk, against the file itself:
//!
//!     cargo bench -p flashlab --bench sequential -- [DIRECTORY [MIB [ROUNDS]]]
//!
//! Both are written from the beginning in requests of 1 MiB past the page cache, flushed at the end, and read. Rounds alternate (A B A B);
//! a first one, which is not counted, lets the disk allocate both files. The ratio of the medians is printed. Where no directory is
//! given, it is the current one.
//!
//! The file itself is read and written twice: from ordinary memory, as most programs do, and from huge pages, with which a disk that
//! takes few pieces of memory in a request (`max_segments`) is faster.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use flashlab_base::{Bytes, median};
use flashlab_device::{Arena, Buffer, Device};
use flashlab_host::{consent_to_write_volume, inspect};
use flashlab_repair::{MountOptions, Volume, default_policy};

const REQUEST: Bytes = Bytes::mib(1);
/// Of the volume's size, because a file system leaves space, too.
const FILL: f64 = 0.9;

fn open_volume(path: &Path) -> Volume<Box<dyn Device + Send>> {
    let consent = consent_to_write_volume(&inspect(path).expect("it is a volume")).expect("it is a volume");
    let options = flashlab_host::OpenOptions::for_volume(consent);
    let device = flashlab_host::open(path, &options).expect("the file opens");
    Volume::open(device, MountOptions::default(), default_policy).expect("the volume is mounted")
}

/// MiB per second.
fn rate(count: u64, work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    count as f64 / begin.elapsed().as_secs_f64()
}

fn raw(file: &File, count: u64, buffer: &mut Buffer) -> [f64; 2] {
    let written = rate(count, || {
        for at in 0..count {
            file.write_all_at(buffer, at * REQUEST.0).expect("it is written");
        }
        file.sync_data().expect("it is flushed");
    });
    let read = rate(count, || {
        (0..count).for_each(|at| file.read_exact_at(buffer, at * REQUEST.0).expect("it is read"));
    });
    [written, read]
}

fn repaired(volume: &mut Volume<Box<dyn Device + Send>>, count: u64, buffer: &mut Buffer) -> [f64; 2] {
    let written = rate(count, || {
        for at in 0..count {
            volume.write(at * REQUEST.0, buffer).expect("it is written");
        }
        volume.flush().expect("it is flushed");
    });
    let read = rate(count, || {
        (0..count).for_each(|at| volume.read(at * REQUEST.0, buffer).expect("it is read"));
    });
    [written, read]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let directory = arguments.first().map_or(PathBuf::from("."), PathBuf::from);
    let number = |at: usize, or: u64| arguments.get(at).map_or(or, |text| text.parse().expect("a number"));
    let (size, rounds) = (number(1, 1024), number(2, 5));
    let [of_volume, of_raw] =
        ["volume", "raw"].map(|name| directory.join(format!("flashlab-sequential-{name}")));
    let created = Command::new(env!("CARGO_BIN_EXE_flashlab"))
        .args(["repair", "create", "--size", &format!("{size}MiB")])
        .arg(&of_volume)
        .output()
        .expect("flashlab runs");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let mut volume = open_volume(&of_volume);
    let count = (volume.size().0 as f64 * FILL) as u64 / REQUEST.0;
    let direct = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_DIRECT)
        .open(&of_raw)
        .expect("a file is made");
    let mut buffer = Arena::buffers(1, REQUEST).remove(0);
    // An arena of 2 MiB lies in huge pages.
    let mut huge = Arena::buffers(2, REQUEST).remove(0);
    [&mut buffer, &mut huge].into_iter().for_each(|buffer| buffer.fill(7));
    let mut seen: [[Vec<f64>; 2]; 3] = Default::default();
    for round in 0..=rounds {
        let rates = [
            raw(&direct, count, &mut buffer),
            raw(&direct, count, &mut huge),
            repaired(&mut volume, count, &mut buffer),
        ];
        for (seen, rates) in seen.iter_mut().zip(rates).filter(|_| round > 0) {
            seen.iter_mut().zip(rates).for_each(|(seen, rate)| seen.push(rate));
        }
    }
    let [raw, huge, repaired] = seen.map(|seen| seen.map(|rates| median(rates).expect("there are rounds")));
    for (at, what) in ["write", "read"].into_iter().enumerate() {
        println!(
            "sequential {what}: raw {:.0} MiB/s, repaired {:.0} MiB/s, {:.2} of raw; raw from huge pages {:.0} MiB/s, {:.2} of that",
            raw[at],
            repaired[at],
            repaired[at] / raw[at],
            huge[at],
            repaired[at] / huge[at]
        );
    }
    drop(volume);
    [of_volume, of_raw].iter().for_each(|file| std::fs::remove_file(file).expect("it is removed"));
}
