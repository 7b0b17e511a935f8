//! What the papers say: the tables in `figures/`, one for each paper.
//!
//! # Model
//! A row says for one reproduction and one device of the zoo what a quantity is in the paper, how near flashlab has to be and
//! where it stands. What measures gives [`Value`]s without knowing what should come out; [`beside`] lays them beside
//! the rows.
//!
//! # Invariants
//! - every row of a reproduction has a value, every value a row: nothing is left out because it does not agree;
//! - figures come in the order of the rows.

use crate::lab::{ReproduceError, Result};
use crate::{Agreement, Figure};

const TABLES: [&str; 6] = [
    include_str!("../figures/uflip.csv"),
    include_str!("../figures/sun_zhang.csv"),
    include_str!("../figures/ajwani.csv"),
    include_str!("../figures/zeus.csv"),
    include_str!("../figures/iodrive.csv"),
    include_str!("../figures/today.csv"),
];

/// The papers' names of the zoo's devices.
const DEVICES: &str = include_str!("../figures/devices.csv");

/// What was measured of a device.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// The device, by its name in the zoo.
    pub(crate) zoo: &'static str,
    /// As the paper's table names it.
    pub(crate) quantity: String,
    pub(crate) unit: &'static str,
    /// `None` where there is none, as of a period that was not found.
    pub(crate) value: Option<f64>,
}

impl Value {
    pub(crate) fn new(
        zoo: &'static str,
        quantity: impl Into<String>,
        unit: &'static str,
        value: impl Into<Option<f64>>,
    ) -> Value {
        Value { zoo, quantity: quantity.into(), unit, value: value.into() }
    }
}

/// A row of a table.
struct Row {
    zoo: &'static str,
    quantity: &'static str,
    unit: &'static str,
    paper: Option<f64>,
    agreement: Agreement,
}

/// The fields of each line of a table that is neither comment nor heading.
fn lines(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| line.split(',').collect())
}

/// What the tables have for a reproduction.
fn rows(reproduction: &str) -> impl Iterator<Item = Row> {
    let of_it = TABLES.into_iter().flat_map(lines).filter(move |fields| fields[0] == reproduction);
    of_it.map(|fields| Row {
        zoo: fields[1],
        quantity: fields[2],
        unit: fields[3],
        paper: (!fields[4].is_empty()).then(|| fields[4].parse().expect("a test reads every row")),
        agreement: agreement(fields[5]).expect("a test reads every row"),
    })
}

fn agreement(text: &str) -> Option<Agreement> {
    match text {
        "at most" => Some(Agreement::AtMost),
        "at least" => Some(Agreement::AtLeast),
        "power of two" => Some(Agreement::PowerOfTwo),
        "any" => Some(Agreement::Any),
        _ => Some(Agreement::Within(text.strip_suffix(" %")?.parse::<f64>().ok()? / 100.0)),
    }
}

/// The paper's name of a device; the zoo's where there is no paper.
fn name(zoo: &str) -> &str {
    lines(DEVICES).find(|fields| fields[0] == zoo).map_or(zoo, |fields| fields[1])
}

/// The paper's value, for a picture.
pub(crate) fn paper(reproduction: &str, zoo: &str, quantity: &str) -> f64 {
    let row = rows(reproduction).find(|row| row.zoo == zoo && row.quantity == quantity);
    row.and_then(|row| row.paper).unwrap_or(f64::NAN)
}

/// What was measured beside what the paper says.
///
/// # Errors
/// When a row has no value, or a value no row.
pub(crate) fn beside(reproduction: &str, values: Vec<Value>) -> Result<Vec<Figure>> {
    lay(reproduction, |_| true, values)
}

/// As [`beside`], for some of the devices.
pub(crate) fn lay(
    reproduction: &str,
    devices: impl Fn(&str) -> bool,
    mut values: Vec<Value>,
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for Row { zoo, quantity, unit, paper, agreement } in rows(reproduction).filter(|row| devices(row.zoo)) {
        let is_it = |value: &Value| (value.zoo, &*value.quantity, value.unit) == (zoo, quantity, unit);
        let Some(i) = values.iter().position(is_it) else {
            return Err(ReproduceError::new(
                zoo,
                format!("{reproduction} measures no `{quantity}` ({unit})"),
            ));
        };
        figures.push(Figure {
            device: name(zoo).to_owned(),
            zoo,
            quantity: quantity.to_owned(),
            unit: unit.to_owned(),
            paper,
            flashlab: values.swap_remove(i).value,
            agreement,
        });
    }
    match values.first() {
        None => Ok(figures),
        Some(Value { zoo, quantity, unit, .. }) => {
            Err(ReproduceError::new(zoo, format!("no paper has `{quantity}` ({unit}) of {reproduction}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_of_a_reproduction_and_a_device_and_says_how_near_and_where() {
        let zoo: Vec<String> = flashlab_sim::zoo().into_iter().map(|profile| profile.name).collect();
        let mut seen = std::collections::BTreeSet::new();
        for fields in TABLES.into_iter().flat_map(lines) {
            assert_eq!(fields.len(), 7, "{fields:?}");
            assert!(crate::find(fields[0]).is_some(), "{fields:?}");
            assert!(zoo.iter().any(|name| name == fields[1]), "{fields:?}");
            assert!(fields[4].is_empty() || fields[4].parse::<f64>().is_ok(), "{fields:?}");
            assert!(agreement(fields[5]).is_some(), "{fields:?}");
            assert!(!fields[6].is_empty(), "{fields:?}");
            assert!(seen.insert(fields[..4].to_vec()), "twice: {fields:?}");
        }
        assert!(crate::ALL.iter().all(|one| rows(one.name).next().is_some()));
        assert!(lines(DEVICES).all(|fields| zoo.iter().any(|name| name == fields[0])));
    }

    #[test]
    fn what_was_measured_and_what_the_paper_says_have_to_be_the_same_quantities() {
        let measured = |quantity, unit| {
            beside(
                "uflip-fig4",
                vec![
                    Value::new("uflip-dti", "sequential-write start-up phase", "IOs", 0.0),
                    Value::new("uflip-dti", quantity, unit, 64.0),
                ],
            )
        };
        let figures = measured("sequential-write period", "IOs").unwrap();
        assert_eq!(
            (figures[1].paper, figures[1].flashlab, figures[1].agrees()),
            (Some(128.0), Some(64.0), false)
        );
        assert_eq!((&*figures[1].device, figures[1].zoo), ("Kingston DTI 4GB", "uflip-dti"));
        let error = measured("sequential-write period", "s").unwrap_err().to_string();
        assert_eq!(error, "uflip-dti: uflip-fig4 measures no `sequential-write period` (IOs)");
        let error = beside("nothing", vec![Value::new("uflip-dti", "spin-up", "s", 1.0)]).unwrap_err();
        assert_eq!(error.to_string(), "uflip-dti: no paper has `spin-up` (s) of nothing");
    }
}
