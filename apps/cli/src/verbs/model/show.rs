//! A model for people: tables for the terminal and its page.

use flashlab_base::Bytes;
use flashlab_model::{DeviceModel, LineDocument, ModelDocument, pictures};
use flashlab_report::{ModelPage, printable, units};
use flashlab_sim::profile::ThroughputClass;

/// The columns of the table of parameters.
const HEADINGS: [&str; 7] = ["class", "A", "A from - to", "B us/KB", "B from - to", "r2", "hold-out error"];

/// A table with aligned columns: the first to the left, the others to the right.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths).enumerate();
        let padded = cells.map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(headings.to_vec())).chain(rows).collect()
}

/// A share as per cent.
pub fn per_cent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Microseconds as a time with its unit.
pub fn micros(us: f64) -> String {
    units::time(us * 1e3)
}

fn parameter_rows(document: &ModelDocument) -> Vec<Vec<String>> {
    let row = |(class, line): (ThroughputClass, &LineDocument)| {
        let none = || units::UNKNOWN.to_owned();
        let between = |ends: Option<[f64; 2]>, show: &dyn Fn(f64) -> String| {
            ends.map_or_else(none, |[low, high]| format!("{} - {}", show(low), show(high)))
        };
        let per_kb = |value: f64| format!("{value:.4}");
        vec![
            match line.regime {
                Some(regime) => format!("{}, {}", class.words(), regime.name()),
                None => class.words().to_owned(),
            },
            line.a_us.map_or_else(none, micros),
            between(line.a_us_interval, &micros),
            line.b_us_per_kb.map_or_else(none, per_kb),
            between(line.b_us_per_kb_interval, &per_kb),
            line.r2.map_or_else(none, |r2| format!("{r2:.5}")),
            line.hold_out_error.map_or_else(none, per_cent),
        ]
    };
    let bursts = document.burst.iter().filter_map(|(name, line)| Some((ThroughputClass::named(name)?, line)));
    ThroughputClass::ALL
        .into_iter()
        .map(|class| (class, document.line(class)))
        .chain(bursts)
        .map(row)
        .collect()
}

/// How many in flight saturate a device. Below one, the equation has a response time that is too short: one is the least there is.
fn saturating(concurrency: f64) -> String {
    if concurrency <= 1.0 { "one".to_owned() } else { format!("{concurrency:.1}") }
}

/// The hold-out error, and whether the equation holds at all.
fn held_out(error: Option<f64>) -> String {
    /// What misses by more describes nothing; as for settings that are refused.
    const HOLDS_MOST: f64 = 0.25;
    match error {
        None => String::new(),
        Some(error) if error > HOLDS_MOST => {
            format!("; it does not hold here: hold-out error {}", per_cent(error))
        }
        Some(error) => format!("; hold-out error {}", per_cent(error)),
    }
}

/// Sentences about what the table does not say.
fn notes(model: &DeviceModel, document: &ModelDocument) -> Vec<String> {
    let mut notes: Vec<String> = model.regime_sentence().into_iter().collect();
    for class in ThroughputClass::ALL {
        let line = document.line(class);
        if let Some(reason) = &line.reason {
            notes.push(format!("{}: T = A + n B is not given: {reason}.", class.words()));
        }
        if let (Some(page), Some(below)) = (line.breakpoint_bytes, line.below_us_per_kb) {
            let below = match below > 0.0 {
                true => format!("a byte costs {below:.4} us/KB"),
                false => "smaller requests take no less time".to_owned(),
            };
            notes.push(format!(
                "{}: breakpoint at {}; below it {below}, and A and B are those from there on.",
                class.words(),
                Bytes(page)
            ));
        } else if let Some(equation) = line.equation.filter(|name| *name != "T = A + n B") {
            notes.push(format!("{}: {equation} predicts best what was left out.", class.words()));
        }
    }
    for depth in &document.queue_depth {
        notes.push(format!(
            "{}s of {} over the queue depth: {}, L {}, at most {:.0} a second, saturated by {} in flight{}.",
            ThroughputClass::named(depth.class).map_or(depth.class, ThroughputClass::words),
            Bytes(depth.size_bytes),
            depth.equation,
            micros(depth.latency_us),
            depth.ios_per_s_max,
            saturating(depth.concurrency),
            held_out(depth.hold_out_error)
        ));
    }
    if let Some(mixed) = &document.mixed {
        notes.push(format!(
            "Reads and writes at once, {} at depth {}: {:.0} reads or {:.0} writes a second, interference k = {:.2}{}.",
            Bytes(mixed.size_bytes),
            mixed.depth,
            mixed.reads_per_s_max,
            mixed.writes_per_s_max,
            mixed.interference,
            held_out(mixed.hold_out_error)
        ));
    }
    if let Some(filled) = &document.filled {
        notes.push(format!(
            "Random writes of {} over the data on the device: {}{}.",
            Bytes(filled.size_bytes),
            filled.equation,
            held_out(filled.hold_out_error)
        ));
    }
    for seek in &document.seeks {
        let [low, high] = seek.full_seek_us_interval;
        notes.push(format!(
            "{}s over the distance d from the request before, as a share of the device: {}, A {}, S {} ({} to {}), B {:.4} us/KB{}; without a seek {}.",
            ThroughputClass::named(seek.class).map_or(seek.class, ThroughputClass::words),
            seek.equation,
            micros(seek.a_us),
            micros(seek.full_seek_us),
            micros(low),
            micros(high),
            seek.b_us_per_kb,
            held_out(seek.hold_out_error),
            seek.line_hold_out_error.map_or(units::UNKNOWN.to_owned(), per_cent)
        ));
    }
    let disturbed = model.fitted_to.points.iter().filter(|point| point.is_disturbed).count();
    if disturbed > 0 {
        notes.push(format!(
            "{disturbed} of {} figures were disturbed and left out.",
            model.fitted_to.points.len()
        ));
    }
    notes
}

/// The device's name for people, in one line.
pub fn device(model: &DeviceModel) -> String {
    let identity = &model.fitted_to.identity;
    printable(identity.model.as_ref().unwrap_or(&identity.target))
}

/// The model for a terminal.
pub fn terminal(model: &DeviceModel, document: &ModelDocument) -> String {
    let title = format!("{}: medians of {} runs\n\n", device(model), runs(model));
    let notes: String = notes(model, document).iter().map(|note| format!("{note}\n")).collect();
    let notes = if notes.is_empty() { notes } else { format!("\n{notes}") };
    format!("{title}{}{notes}", table(&HEADINGS, &parameter_rows(document)))
}

/// How many runs were fitted.
fn runs(model: &DeviceModel) -> usize {
    let runs: std::collections::BTreeSet<u32> =
        model.fitted_to.points.iter().map(|point| point.run).collect();
    runs.len()
}

/// The page of the model.
pub fn page(model: &DeviceModel, document: &ModelDocument) -> String {
    flashlab_report::model_html(&ModelPage {
        title: format!("{}: the throughput model", device(model)),
        notes: notes(model, document),
        headings: HEADINGS.map(str::to_owned).into(),
        rows: parameter_rows(document),
        pictures: pictures(model),
        flashlab: env!("CARGO_PKG_VERSION").to_owned(),
    })
}
