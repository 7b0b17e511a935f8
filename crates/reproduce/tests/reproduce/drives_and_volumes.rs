//! The values of Sun and Zhang, of the ioDrive and of today's devices agree with those of real devices,
//! except for the cells listed here. The list has their differences, so that the test notices a change.

use flashlab_base::Seed;
use flashlab_reproduce::find;

/// The cells of a reproduction that differ by more than their tolerance, with the difference in per cent, and
/// the number of the others.
fn differing(name: &str) -> (Vec<String>, usize) {
    let figures = find(name).unwrap().run(Seed(1)).unwrap().figures;
    let cell = |figure: &flashlab_reproduce::Figure| {
        let per_cent = 100.0 * figure.difference().unwrap_or(f64::NAN);
        format!("{} {}: {per_cent:+.0} %", figure.zoo, figure.quantity)
    };
    let differing: Vec<String> = figures.iter().filter(|figure| !figure.agrees()).map(cell).collect();
    let agreeing = figures.len() - differing.len();
    (differing, agreeing)
}

#[test]
fn sun_and_zhang() {
    let (differing, agreeing) = differing("sun-zhang");
    assert_eq!(
        differing,
        [
            "sun-zhang-unknown figure 4 random_write_without_merge_ms: +16 %",
            "sun-zhang-unknown figure 18 large_write_against_small_writes: +154 %",
            "sun-zhang-unknown figure 19 large_write_per_block_ms: +490 %",
        ]
    );
    assert_eq!(agreeing, 46);
}

#[test]
fn iodrive() {
    let (differing, agreeing) = differing("iodrive");
    assert_eq!(differing, [""; 0]);
    assert_eq!(agreeing, 12);
}

#[test]
fn today() {
    let (differing, agreeing) = differing("today");
    assert_eq!(
        differing,
        [
            "cloud-local p50_read_latency at 145761 IO/s: -22 %",
            "cloud-local p50_read_latency at 194347 IO/s: -33 %",
        ]
    );
    assert_eq!(agreeing, 92);
}
