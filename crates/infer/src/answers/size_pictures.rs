//! Pictures of what IOs take over their size.
//!
//! # Model
//! Where throughput stops growing is seen in throughput. What an IO costs beyond its bytes is where the line of its times begins:
//! on linear axes, and near the beginning, as it is a small part of what large IOs take.

use crate::signals::saturation::Doubling;
use crate::signals::sizes::{FittedLine, LINE_TO, SizeCurve};
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::{Axis, Picture, Style};
use flashlab_base::{Bytes, Nanos};

use crate::words::duration;

/// What the line begins with is at least this part of the picture's height, where a few sizes are left to be seen.
const PART_OF_HEIGHT: f64 = 0.1;
/// This many times the smallest size is shown at least.
const SIZES_LEAST: f64 = 2.0;

/// The throughput of `what` over the size.
pub(crate) fn throughput(what: &str, curves: &[SizeCurve]) -> Picture {
    let seconds = |curve: &SizeCurve| upper_median(&curve.times).max(1.0) / 1e9;
    let point = |curve: &SizeCurve| (curve.size.0 as f64, curve.size.0 as f64 / seconds(curve));
    Picture::new(
        format!("Throughput of {what} over their size, by median response times: larger ones do not help where the line is flat."),
        Axis::logarithmic("IOSize", "bytes"),
        Axis::linear("throughput", "bytes/s"),
    )
    .draw(what, Style::Line, curves.iter().filter(|curve| !curve.times.is_empty()).map(point).collect())
}

/// The same with what lines say of it, from the first size's throughput on.
pub(crate) fn with_lines(picture: Picture, doublings: &[Doubling]) -> Picture {
    let Some(&(_, first)) = picture.series.first().and_then(|series| series.points.first()) else {
        return picture;
    };
    let mut throughput = first;
    let mut points = Vec::new();
    for doubling in doublings {
        points.push((doubling.size, throughput));
        throughput *= doubling.growth;
    }
    points.extend(doublings.last().map(|last| (2.0 * last.size, throughput)));
    picture.draw("fitted lines", Style::Fitted, points)
}

/// The lines that show what IOs cost beyond their bytes, near their beginning.
pub(crate) fn beginning(
    what: &str,
    plain: Option<&FittedLine>,
    paused: Option<&FittedLine>,
    answer: Option<f64>,
) -> Picture {
    let picture = Picture::new(
        format!(
            "Median response time of small {what} over their size, and a fitted line: its value at size 0 is the fixed cost of one."
        ),
        Axis::linear("IOSize", "bytes"),
        Axis::linear("response time", "ns"),
    );
    let until = |fitted: &FittedLine| {
        let visible = fitted.begins_at() / fitted.slope() * (1.0 / PART_OF_HEIGHT - 1.0);
        visible.max(SIZES_LEAST * fitted.times().map(|(size, _)| size).fold(f64::INFINITY, f64::min))
    };
    let kinds = [(plain, "without pauses"), (paused, "with pauses")];
    let kinds: Vec<(&FittedLine, &str)> =
        kinds.into_iter().filter_map(|(fitted, how)| Some((fitted?, how))).collect();
    let end = kinds.iter().map(|(fitted, _)| until(fitted)).fold(0.0, f64::max).min(LINE_TO.0 as f64);
    let picture = kinds.iter().fold(picture, |picture, (fitted, how)| {
        let line = |size: f64| (size, fitted.begins_at() + fitted.slope() * size);
        let words = format!("line {how}, from {}", duration(fitted.begins_at().max(0.0)));
        picture.draw(how, Style::Dots, fitted.times().filter(|&(size, _)| size <= end).collect()).draw(
            &words,
            Style::Fitted,
            vec![line(0.0), line(end)],
        )
    });
    match answer {
        Some(answer) => {
            picture.mark(0.0, format!("{} + {} per KiB", duration(answer), per_kib(plain.or(paused))))
        }
        None => picture,
    }
}

fn per_kib(fitted: Option<&FittedLine>) -> Nanos {
    duration(fitted.map_or(0.0, |fitted| fitted.slope() * Bytes::kib(1).0 as f64))
}
