//! Makes a recording of many IOs to look at.
//!
//!     cargo run --release -p flashlab-view --example make_recording FOLDER [MILLIONS]

use std::path::Path;

use flashlab_base::{Bytes, Seed};

#[path = "../tests/view/made.rs"]
mod made;

const RUNS: usize = 4;

fn main() {
    let mut words = std::env::args().skip(1);
    let folder = words.next().expect("the folder to make");
    let millions: u64 = words.next().map_or(100, |millions| millions.parse().expect("a number of millions"));
    let counts = [millions * 1_000_000 / RUNS as u64; RUNS];
    made::record_runs(Path::new(&folder), &counts, Bytes::gib(64), Seed(1));
    println!("{folder}: {millions} million IOs");
}
