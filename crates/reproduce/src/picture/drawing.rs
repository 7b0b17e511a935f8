//! Draws a picture with plotters.

use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::ruler::Ruler;
use super::{FigurePicture, FigureSeries, SeriesStyle};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

const WIDTH: u32 = 760;
/// Of title and axes.
const HEIGHT: u32 = 400;
/// Of a line of the legend.
const LINE: u32 = 20;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const PALE: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const GREY: RGBColor = RGBColor(0x77, 0x77, 0x77);

/// Okabe and Ito's colours, which colour-blind people can distinguish.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x8c, 0x56, 0x4b),
    RGBColor(0x22, 0x22, 0x22),
];

impl FigurePicture {
    /// The picture as an SVG document.
    pub fn svg(&self) -> String {
        svg(self)
    }
}

fn svg(picture: &FigurePicture) -> String {
    let mut text = String::new();
    let lines = rows(picture).len() as u32;
    let size = (WIDTH, HEIGHT + LINE * lines + 8);
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = draw(picture, &area).and_then(|()| area.present());
    drawn.expect("writing to a text does not fail");
    drop(area);
    text
}

fn draw<'a>(picture: &FigurePicture, area: &Area<'a>) -> Drawn<'a> {
    area.fill(&WHITE)?;
    let (plot, legend) = area.split_vertically(HEIGHT);
    let values = |of: fn(&(f64, f64)) -> f64| picture.series.iter().flat_map(|one| &one.points).map(of);
    let x = Ruler::over(picture.x.scale, values(|point| point.0));
    let y = Ruler::over(picture.y.scale, values(|point| point.1));
    let text = |size: i32| (FONT, size).into_font().color(&INK);
    let mut chart = ChartBuilder::on(&plot)
        .caption(&picture.title, text(16))
        .margin(8)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(PALE)
        .axis_style(GREY)
        .label_style(text(12))
        .axis_desc_style(text(13))
        .x_labels(9)
        .y_labels(8)
        .x_desc(&picture.x.label)
        .y_desc(&picture.y.label)
        .draw()?;
    let inner = chart.plotting_area().strip_coord_spec();
    let (width, height) = inner.dim_in_pixel();
    let (right, bottom) = (width as i32 - 1, height as i32 - 1);
    let pixel = |&(h, v): &(f64, f64)| (x.map(&h, (0, right)), y.map(&v, (bottom, 0)));
    for (series, colour) in picture.series.iter().zip(colours(picture)) {
        let points: Vec<(i32, i32)> = match series.style {
            SeriesStyle::PaperLevel | SeriesStyle::Tolerance => series
                .points
                .iter()
                .flat_map(|point| [(0, pixel(point).1), (right, pixel(point).1)])
                .collect(),
            SeriesStyle::PaperPlace => series
                .points
                .iter()
                .flat_map(|point| [(pixel(point).0, 0), (pixel(point).0, bottom)])
                .collect(),
            _ => series.points.iter().map(pixel).collect(),
        };
        shapes(&inner, series.style, colour, &points)?;
    }
    write_legend(picture, &legend)
}

/// The points of a series, in pixels.
fn shapes<'a>(area: &Area<'a>, style: SeriesStyle, colour: RGBColor, points: &[(i32, i32)]) -> Drawn<'a> {
    let dots = |radius| {
        let mut distinct = points.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        distinct.into_iter().try_for_each(|point| area.draw(&Circle::new(point, radius, colour.filled())))
    };
    match style {
        SeriesStyle::Line => area.draw(&PathElement::new(thinned(points), colour.stroke_width(1))),
        SeriesStyle::Dots => dots(if points.len() > 200 { 2 } else { 3 }),
        SeriesStyle::Curve => {
            area.draw(&PathElement::new(thinned(points), colour.stroke_width(1)))?;
            dots(3)
        }
        SeriesStyle::PaperLine | SeriesStyle::PaperLevel | SeriesStyle::PaperPlace => {
            area.draw(&DashedPathElement::new(thinned(points), 6, 4, colour.stroke_width(2)))
        }
        SeriesStyle::Tolerance => {
            area.draw(&DashedPathElement::new(points.to_vec(), 2, 4, colour.stroke_width(1)))
        }
        SeriesStyle::PaperCrosses => {
            points.iter().try_for_each(|&point| area.draw(&Cross::new(point, 5, colour.stroke_width(2))))
        }
    }
}

/// Of the points in one column of pixels, only the first, the lowest, the highest and the last. The line
/// looks the same.
fn thinned(points: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let mut thin = Vec::new();
    for column in points.chunk_by(|one, other| one.0 == other.0) {
        let lowest = column.iter().enumerate().min_by_key(|point| point.1.1).map_or(0, |(i, _)| i);
        let highest = column.iter().enumerate().max_by_key(|point| point.1.1).map_or(0, |(i, _)| i);
        let mut kept =
            [0, lowest.min(highest), lowest.max(highest), column.len() - 1].map(|i| column[i]).to_vec();
        kept.dedup();
        thin.extend(kept);
    }
    thin
}

/// The colour of each series: a new one for each measured series, and the same one for the paper's values of
/// it. Grey is for values of the paper that belong to all series, or to the only one.
fn colours(picture: &FigurePicture) -> Vec<RGBColor> {
    let mut next = COLOURS.iter().cycle();
    let mut last = GREY;
    let measured = picture.series.iter().filter(|series| !series.is_the_papers()).count();
    let colour = |series: &FigureSeries| {
        if !series.is_the_papers() {
            last = *next.next().unwrap_or(&INK);
        } else if measured == 1 {
            return GREY;
        }
        last
    };
    picture.series.iter().map(colour).collect()
}

/// The lines of the legend, each with as many entries as fit. An entry has its start and the index of its
/// series.
fn rows(picture: &FigurePicture) -> Vec<Vec<(i32, usize)>> {
    let mut rows: Vec<Vec<(i32, usize)>> = Vec::new();
    let mut at = i32::MAX;
    for (i, series) in picture.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()) {
        // The width of a letter is an estimate, because the viewer chooses the font.
        let width = 56 + 7 * series.name.chars().count() as i32;
        if at.saturating_add(width) > WIDTH as i32 {
            rows.push(Vec::new());
            at = 72;
        }
        if let Some(row) = rows.last_mut() {
            row.push((at, i));
        }
        at += width;
    }
    rows
}

fn write_legend<'a>(picture: &FigurePicture, area: &Area<'a>) -> Drawn<'a> {
    let colours = colours(picture);
    for (row, entries) in rows(picture).into_iter().enumerate() {
        let middle = row as i32 * LINE as i32 + LINE as i32 / 2;
        for (at, i) in entries {
            let (series, colour) = (&picture.series[i], colours[i]);
            let sample = match series.style {
                SeriesStyle::Dots | SeriesStyle::PaperCrosses => vec![(at + 14, middle)],
                SeriesStyle::Curve => vec![(at, middle), (at + 14, middle), (at + 28, middle)],
                _ => vec![(at, middle), (at + 28, middle)],
            };
            shapes(area, series.style, colour, &sample)?;
            let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(series.name.clone(), (at + 38, middle), style))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{FigureAxis, Scale};

    #[test]
    fn a_picture_has_axes_with_units_every_series_in_its_legend_and_nothing_else() {
        let series = vec![
            FigureSeries::new("measured", SeriesStyle::Curve, vec![(1.0, 2.0), (2.0, 3.0)]),
            FigureSeries::level("paper, 2.5 ms", 2.5),
            FigureSeries::new("", SeriesStyle::Dots, vec![(1.5, 1.0)]),
        ];
        let x = FigureAxis::new("IOSize (KiB)", Scale::Binary);
        let picture = FigurePicture::new(
            "name",
            "Title <&>",
            x,
            FigureAxis::new("response time (ms)", Scale::Linear),
            series,
        );
        let svg = picture.svg();
        assert_eq!(svg, picture.svg());
        let texts: Vec<&str> =
            svg.lines().filter(|line| !line.trim_start().starts_with('<')).map(str::trim).collect();
        assert_eq!(
            texts,
            [
                "Title &lt;&amp;&gt;",
                "response time (ms)",
                "IOSize (KiB)",
                "0",
                "0.5",
                "1",
                "1.5",
                "2",
                "2.5",
                "3",
                "1",
                "2",
                "measured",
                "paper, 2.5 ms"
            ]
        );
        assert_eq!(svg.matches("<circle").count(), 2 + 3 + 1, "two points, three in the legend, one dot");
    }

    #[test]
    fn a_thinned_line_covers_the_same_pixels() {
        let points = [(0, 5), (0, 9), (0, 1), (0, 4), (0, 6), (1, 2), (1, 2), (3, 3)];
        assert_eq!(thinned(&points), [(0, 5), (0, 9), (0, 1), (0, 6), (1, 2), (3, 3)]);
    }
}
