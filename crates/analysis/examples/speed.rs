//! How many response times a second are summarised and watched for precision, and how long the
//! phases of a long baseline take: `cargo run --release -p flashlab-analysis --example speed`.

use std::hint::black_box;
use std::time::Instant;

use flashlab_analysis::{Precision, Summary, phases};
use flashlab_base::{Prng, Seed};

fn main() {
    let mut prng = Prng::new(Seed(1));
    let response_ns: Vec<u64> =
        (0..1 << 24).map(|_| (60_000.0 * (1.0 + prng.exponential())) as u64).collect();
    let million = response_ns.len() as f64 / 1e6;

    let begin = Instant::now();
    let summary: Summary = response_ns.iter().copied().collect();
    println!("Summary:   {:6.1} M/s", million / begin.elapsed().as_secs_f64());
    black_box(summary.distribution());

    let begin = Instant::now();
    let mut precision = Precision::new();
    response_ns.iter().for_each(|&ns| precision.add(ns));
    println!("Precision: {:6.1} M/s", million / begin.elapsed().as_secs_f64());
    black_box(precision.relative_half_width());

    for ios in [5_120, 1 << 17, 1 << 20] {
        let begin = Instant::now();
        black_box(phases(&response_ns[..ios]));
        println!("phases of {ios:7} IOs: {:8.1} ms", begin.elapsed().as_secs_f64() * 1e3);
    }
}
