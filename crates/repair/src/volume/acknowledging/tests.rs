//! A device that fails while writes are acknowledged, at each of its IOs.

use std::sync::Arc;

use flashlab_base::{Bytes, Prng, Seed};

use super::*;
use crate::crash::CrashMedia;
use crate::format::VolumeUuid;
use crate::layout::LayoutOptions;
use crate::single_log::SingleLog;
use crate::volume::MountOptions;

const PAGE: usize = 4096;
const PAGES: u64 = 120;
const WRITES: usize = 150;

fn new_volume() -> Volume<CrashMedia> {
    let options = LayoutOptions {
        capacity: Bytes::mib(3),
        page: Bytes(PAGE as u64),
        segment: Bytes::kib(64),
        logical_pages: PAGES,
        checkpoint_interval: Bytes::kib(128),
    };
    let mut media = CrashMedia::new(Arc::new(vec![0; options.capacity.0 as usize]), Vec::new());
    Volume::create(&mut media, VolumeUuid([7; 16]), options).unwrap();
    Volume::open(media, MountOptions::default(), |_| Box::new(SingleLog::Greedy)).unwrap()
}

/// What was seen until a device failed at one of its IOs, and behind that.
#[derive(Debug, Default)]
struct Seen {
    /// Whether the IO came.
    has_failed: bool,
    acknowledged_early: usize,
    lost: bool,
}

/// Writes until the device fails at its IO with this number, and compares everything with what was acknowledged.
fn write_until_failure(io: u64) -> Seen {
    let mut volume = new_volume();
    let mut random = Prng::new(Seed(io));
    // The newest word of each page that was acknowledged, and the newest that was begun.
    let (mut acknowledged, mut begun) = ([0; PAGES as usize], [0; PAGES as usize]);
    let mut seen = Seen::default();
    volume.device().fail_after(io);
    for word in 1..=WRITES as u64 {
        let first = random.below(PAGES);
        let pages = first..PAGES.min(first + 1 + random.below(24));
        begun[first as usize..pages.end as usize].fill(word);
        let data = word.to_le_bytes().repeat(PAGE / 8 * (pages.end - first) as usize);
        seen.acknowledged_early += usize::from(volume.takes_at_once(first * PAGE as u64, data.len() as u64));
        let mut is_acknowledged = false;
        let written = volume.write_acknowledging(first * PAGE as u64, &data, || is_acknowledged = true);
        assert_eq!(written.is_ok(), is_acknowledged, "IO {io}, write {word}: {written:?}");
        if is_acknowledged {
            acknowledged[first as usize..pages.end as usize].fill(word);
        }
        if written.is_err() || volume.poison().is_some() || random.below(10) == 0 && volume.flush().is_err() {
            break;
        }
    }
    seen.has_failed = volume.device().has_failed();
    seen.lost = volume.lost.is_some();
    if !seen.has_failed {
        return seen;
    }
    assert!(volume.flush().is_err(), "IO {io}: a flush succeeds");
    assert!(volume.write_acknowledging(0, &[1; PAGE], || panic!("acknowledged")).is_err(), "IO {io}");
    let mut read = [0; PAGE];
    for page in 0..PAGES as usize {
        if volume.read((page * PAGE) as u64, &mut read).is_ok() {
            let word = u64::from_le_bytes(read[..8].try_into().unwrap());
            assert_eq!(read.to_vec(), word.to_le_bytes().repeat(PAGE / 8), "IO {io}, page {page}");
            let right = acknowledged[page]..=begun[page];
            assert!(right.contains(&word), "IO {io}, page {page}: {word} is none of {right:?}");
        }
    }
    seen
}

#[test]
fn whichever_io_fails_no_flush_succeeds_and_no_read_is_older_than_what_was_acknowledged() {
    let seen: Vec<Seen> = (0..).map(write_until_failure).take_while(|seen| seen.has_failed).collect();
    let lost = seen.iter().filter(|seen| seen.lost).count();
    let early: usize = seen.iter().map(|seen| seen.acknowledged_early).sum();
    assert!(seen.len() > 100 && lost > 10 && early > 1000, "{} IOs, {lost} lost, {early} early", seen.len());
}
