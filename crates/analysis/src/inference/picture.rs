//! A picture of the data that an estimator used.

use serde::{Deserialize, Serialize};

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// How to read the picture, in a sentence.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Named vertical lines, at the values of x where the estimator found something.
    pub marks: Vec<(f64, String)>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// `ns`, `bytes`, `bytes/s`, `ratio`, `share` of a whole, or empty for a count.
    pub unit: String,
    /// Whether it is logarithmic. The caller then gives values above zero only.
    pub logarithmic: bool,
}

impl Axis {
    /// A linear axis of a unit, as in [`Axis::unit`].
    pub fn linear(label: &str, unit: &str) -> Axis {
        Axis { label: label.to_owned(), unit: unit.to_owned(), logarithmic: false }
    }

    /// A logarithmic axis.
    pub fn logarithmic(label: &str, unit: &str) -> Axis {
        Axis { logarithmic: true, ..Axis::linear(label, unit) }
    }
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// As in the legend.
    pub name: String,
    /// How they are drawn.
    pub style: Style,
    /// x and y, ascending in x.
    pub points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Each by itself.
    Dots,
    /// Joined by a line.
    Line,
    /// A dashed line: a fit, or a value for comparison.
    Fitted,
}

impl Picture {
    /// A picture without anything in it.
    pub fn new(caption: impl Into<String>, x: Axis, y: Axis) -> Picture {
        Picture { caption: caption.into(), x, y, series: Vec::new(), marks: Vec::new() }
    }

    /// Adds a series to this picture. The points need not be sorted; those that are not finite are left out.
    pub fn draw(mut self, name: &str, style: Style, mut points: Vec<(f64, f64)>) -> Picture {
        points.retain(|(x, y)| x.is_finite() && y.is_finite());
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.series.push(Series { name: name.to_owned(), style, points });
        self
    }

    /// The same with a vertical line, if its position is finite.
    pub fn mark(mut self, x: f64, name: impl Into<String>) -> Picture {
        if x.is_finite() {
            self.marks.push((x, name.into()));
        }
        self
    }
}
