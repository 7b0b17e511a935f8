//! The Zeus follows T = A + nB, so that its row of uFLIP's Table 3 is known by hand.

use flashlab_base::Bytes;
use flashlab_bench::Thoroughness;

use crate::lab::{Lab, assert_near, zeus, zeus_us};

/// On this model every write that does not continue the last one is a random write, whatever the
/// pattern is called.
fn check(thoroughness: Thoroughness) {
    let lab =
        Lab::new(zeus(Bytes::gib(1), ""), thoroughness, &["locality", "partitioning", "order", "pause"]);
    let row = lab.measure().findings.characteristics;
    let [sr, rr, sw, rw] = ["SR", "RR", "SW", "RW"].map(|class| zeus_us(class, 32.0));
    // The table, by hand: 255.66, 357.584, 2325.72 and 942.224 us.
    assert_eq!([sr, rr, sw, rw].map(|us| (us * 1e3).round()), [255_660.0, 357_584.0, 2_325_720.0, 942_224.0]);
    for (got, truth, what) in [
        (row.sr_ms, sr / 1e3, "SR"),
        (row.rr_ms, rr / 1e3, "RR"),
        (row.sw_ms, sw / 1e3, "SW"),
        (row.rw_ms, rw / 1e3, "RW"),
        (row.reverse_ratio, rw / sw, "reverse"),
        (row.in_place_ratio, rw / sw, "in place"),
        (row.large_incr_vs_rw, 1.0, "large Incr"),
        (row.partition_ratio, rw / sw, "partitions"),
    ] {
        assert_near(got.unwrap(), truth, 0.01, what);
    }
    // Nothing degrades: the most partitions that were measured.
    assert_eq!(row.partitions, Some(256));
    // Random writes cost less than sequential ones without any pause.
    assert_eq!(row.pause_rw_ms, None);
    // ... and in any area: up to the largest one that fits. In 64 KiB, every fourth write continues
    // the one before it.
    assert_eq!(row.locality_mb, Some(if thoroughness == Thoroughness::Quick { 128.0 } else { 1024.0 }));
    let worst = match thoroughness {
        Thoroughness::Quick => (31.0 * rw + sw) / 32.0 / sw,
        Thoroughness::Full => (3.0 * rw + sw) / 4.0 / sw,
    };
    assert_near(row.locality_ratio.unwrap(), worst, 0.1, "locality");
    assert_eq!(row.capacity_gb, Some((1u64 << 30) as f64 / 1e9));
    assert_eq!(row.kind.as_deref(), Some("simulated"));
}

#[test]
fn a_quick_row_is_as_computed_by_hand() {
    check(Thoroughness::Quick);
}

#[test]
fn a_full_row_is_as_computed_by_hand() {
    check(Thoroughness::Full);
}

#[test]
fn mixes_cost_the_weighted_mean_of_their_patterns() {
    let measured = Lab::quick("", &["mix"]).measure();
    for (name, first, second) in [
        ("SR/RR", "SR", "RR"),
        ("SR/SW", "SR", "SW"),
        ("RR/SW", "RR", "SW"),
        ("SR/RW", "SR", "RW"),
        ("RR/RW", "RR", "RW"),
    ] {
        for point in measured.points("mix", name) {
            let (first, second) = (zeus_us(first, 32.0), zeus_us(second, 32.0));
            // A read that interrupts a sequential reader makes its next read a random one.
            let broken = if name == "SR/RR" { zeus_us("RR", 32.0) - first } else { 0.0 };
            let truth = (point.value * first + broken + second) / (point.value + 1.0);
            assert_near(point.response_ns_mean / 1e3, truth, 0.02, &format!("{name} {}", point.label));
        }
    }
}

#[test]
fn response_times_over_io_size_are_the_models_line() {
    let measured = Lab::full("", &["granularity"]).measure();
    for class in ["SR", "RR", "SW", "RW"] {
        let points = measured.points("granularity", class);
        assert_eq!(points.len(), 15);
        for point in points {
            let truth = zeus_us(class, point.value / 1024.0);
            assert_near(point.response_ns_mean / 1e3, truth, 0.01, &format!("{class} {}", point.label));
        }
    }
}

#[test]
fn parallel_processes_wait_for_each_other_on_a_device_with_one_server() {
    let measured = Lab::quick("", &["parallelism"]).measure();
    for class in ["RR", "RW"] {
        for point in measured.points("parallelism", class) {
            let truth = point.value * zeus_us(class, 32.0);
            assert_near(point.response_ns_mean / 1e3, truth, 0.02, &format!("{class} {}", point.label));
        }
    }
    // Interleaved sequential streams are random to this model.
    for (class, interleaved) in [("SR", "RR"), ("SW", "RW")] {
        for point in &measured.points("parallelism", class)[1..] {
            let truth = point.value * zeus_us(interleaved, 32.0);
            assert_near(point.response_ns_mean / 1e3, truth, 0.02, &format!("{class} {}", point.label));
        }
    }
}
