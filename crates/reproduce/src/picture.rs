//! A figure in the style of a paper: axes and series, drawn as SVG.
//!
//! # Model
//! A [`FigurePicture`] has two [`FigureAxis`] and several [`FigureSeries`]. Solid and dotted series are
//! flashlab's. Dashed lines and crosses are the paper's; they have the colour of the preceding series if they
//! belong to it. The legend is under the axes.
//!
//! # Invariants
//! - No figure is computed here. Only points on the same pixel are left out.
//! - The same picture always gives the same text.

mod drawing;
mod ruler;

use crate::figure::{Agreement, Figure};

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In equal steps from zero.
    Linear,
    /// In equal steps, starting at the smallest value.
    Steps,
    /// By powers of two.
    Binary,
    /// By powers of ten.
    Decimal,
}

/// One axis of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureAxis {
    /// The quantity on the axis, with its unit.
    pub label: String,
    /// How.
    pub scale: Scale,
}

impl FigureAxis {
    pub(crate) fn new(label: &str, scale: Scale) -> FigureAxis {
        FigureAxis { label: label.to_owned(), scale }
    }
}

/// How a series is drawn, and whether it is flashlab's or the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesStyle {
    /// Measured: a line through the points.
    Line,
    /// Measured: a dot at each point.
    Dots,
    /// Measured: a dot at each point and a thin line through them.
    Curve,
    /// The paper's curve: a dashed line through the points.
    PaperLine,
    /// The paper's values: a cross at each point.
    PaperCrosses,
    /// A value of the paper on the vertical axis: a horizontal dashed line.
    PaperLevel,
    /// The tolerance of a value: a horizontal dotted line.
    Tolerance,
    /// A value of the paper on the horizontal axis: a vertical dashed line.
    PaperPlace,
}

/// A series of points, in the units of the axes.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureSeries {
    /// What the legend calls it.
    pub name: String,
    /// How it is drawn.
    pub style: SeriesStyle,
    /// Horizontal and vertical value of each point. A horizontal line uses only the vertical value, a
    /// vertical line only the horizontal one.
    pub points: Vec<(f64, f64)>,
}

impl FigureSeries {
    pub(crate) fn new(name: impl Into<String>, style: SeriesStyle, points: Vec<(f64, f64)>) -> FigureSeries {
        FigureSeries { name: name.into(), style, points }
    }

    /// A value of the paper on the vertical axis.
    pub(crate) fn level(name: impl Into<String>, value: f64) -> FigureSeries {
        FigureSeries::new(name, SeriesStyle::PaperLevel, vec![(f64::NAN, value)])
    }

    /// A value of the paper on the horizontal axis.
    pub(crate) fn place(name: impl Into<String>, value: f64) -> FigureSeries {
        FigureSeries::new(name, SeriesStyle::PaperPlace, vec![(value, f64::NAN)])
    }

    pub(crate) fn is_the_papers(&self) -> bool {
        !matches!(self.style, SeriesStyle::Line | SeriesStyle::Dots | SeriesStyle::Curve)
    }
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FigurePicture {
    /// The name of its file, without the extension.
    pub name: String,
    /// The line above it.
    pub title: String,
    /// The horizontal axis.
    pub x: FigureAxis,
    /// The vertical axis.
    pub y: FigureAxis,
    /// The series in drawing order, the first one at the bottom.
    pub series: Vec<FigureSeries>,
}

impl FigurePicture {
    pub(crate) fn new(
        name: &str,
        title: &str,
        x: FigureAxis,
        y: FigureAxis,
        series: Vec<FigureSeries>,
    ) -> FigurePicture {
        FigurePicture { name: name.to_owned(), title: title.to_owned(), x, y, series }
    }
}

/// The picture of a table. The horizontal axis is the paper's value, and the vertical axis flashlab's value
/// divided by the paper's. Each unit has a colour, or each quantity if there is only one unit. Values between
/// the dotted lines of their tolerance agree.
pub(crate) fn of_table(name: &str, title: &str, figures: &[Figure]) -> FigurePicture {
    let one_unit = figures.windows(2).all(|pair| pair[0].unit == pair[1].unit);
    let group = |figure: &Figure| match (one_unit, &*figure.unit) {
        (true, _) => figure.quantity.clone(),
        (false, "") => "numbers and ratios".to_owned(),
        (false, unit) => unit.to_owned(),
    };
    let mut groups: Vec<FigureSeries> = Vec::new();
    for figure in figures {
        let (Some(paper), Some(difference)) = (figure.paper, figure.difference()) else { continue };
        let (name, point) = (group(figure), (paper, 1.0 + difference));
        match groups.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => groups.push(FigureSeries::new(name, SeriesStyle::Dots, vec![point])),
        }
    }
    let mut tolerances: Vec<f64> = Vec::new();
    for figure in figures {
        match figure.agreement {
            Agreement::Within(share) if share > 0.0 && !tolerances.contains(&share) => tolerances.push(share),
            _ => {}
        }
    }
    let said: Vec<String> = tolerances.iter().map(|share| format!("{:.0} %", 100.0 * share)).collect();
    let tolerance =
        |name: &str, share| FigureSeries::new(name, SeriesStyle::Tolerance, vec![(f64::NAN, share)]);
    let mut series = vec![FigureSeries::level("the paper's value", 1.0)];
    for (i, share) in tolerances.into_iter().enumerate() {
        let name = if i == 0 { format!("{} apart", said.join(" and ")) } else { String::new() };
        series.extend([tolerance(&name, 1.0 - share), tolerance("", 1.0 + share)]);
    }
    series.extend(groups);
    let unit = figures.first().filter(|_| one_unit).map_or(String::new(), |one| format!(" ({})", one.unit));
    let x = FigureAxis::new(&format!("the paper's value{unit}"), Scale::Decimal);
    FigurePicture::new(name, title, x, FigureAxis::new("flashlab / paper", Scale::Decimal), series)
}
