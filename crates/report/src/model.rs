//! The page of a fitted model: its parameters, and its pictures.

use flashlab_analysis::inference::Picture;
use maud::html;

use crate::charts::Chart;
use crate::inference::drawing;
use crate::page::{Section, figures, page};
use crate::units::sentence;

/// What stands on the page of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelPage {
    /// The device and what was fitted.
    pub title: String,
    /// Sentences about the whole.
    pub notes: Vec<String>,
    /// The table of parameters.
    pub headings: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// Pictures with their titles.
    pub pictures: Vec<(String, Picture)>,
    /// The version of flashlab.
    pub flashlab: String,
}

/// The page.
pub fn model_html(model: &ModelPage) -> String {
    let chart = |(index, (title, picture)): (usize, &(String, Picture))| Chart {
        id: format!("model-{index}"),
        title: title.clone(),
        caption: sentence(&picture.caption),
        wide: false,
        drawing: drawing(picture),
    };
    let charts: Vec<Chart> = model.pictures.iter().enumerate().map(chart).collect();
    let table = html! {
        div.scroll tabindex="0" role="region" aria-label="Parameters" {
            table.figures {
                thead { tr { @for heading in &model.headings { th scope="col" { (heading) } } } }
                tbody { @for row in &model.rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    };
    let head = html! {
        p.eyebrow { "Model" }
        h1 { (model.title) }
        @for note in &model.notes { p.note { (note) } }
    };
    let sections = [
        Section { id: "model", short: "", heading: "", body: head },
        Section { id: "parameters", short: "Parameters", heading: "Parameters", body: table },
        Section { id: "pictures", short: "Pictures", heading: "Measured and fitted", body: figures(&charts) },
    ];
    page(&model.title, &sections, &charts.iter().collect::<Vec<_>>(), &model.flashlab)
}
