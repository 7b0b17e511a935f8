//! The papers' values: the tables in `figures/`, one CSV file for each paper.
//!
//! # Model
//! A row names a reproduction, a device of the zoo and a quantity. It gives the paper's value, how close
//! flashlab has to come to it, and where in the paper it is printed. A reproduction returns
//! [`Measurement`]s and does not know the paper's values; [`beside`] pairs them with the rows.
//!
//! # Invariants
//! - Every row has a measurement and every measurement has a row. Nothing is left out because it does not
//!   agree.
//! - Figures are in the order of the rows.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::figure::{Agreement, Figure};
use crate::lab::{ReproduceError, Result};

/// The rows of all papers, in the order of the files.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let files = [
        include_str!("../figures/uflip.csv"),
        include_str!("../figures/sun_zhang.csv"),
        include_str!("../figures/ajwani.csv"),
        include_str!("../figures/zeus.csv"),
        include_str!("../figures/iodrive.csv"),
        include_str!("../figures/append_and_pack.csv"),
        include_str!("../figures/today.csv"),
    ];
    files.into_iter().flat_map(records).collect()
});

/// The papers' names of the zoo's devices, by their names in the zoo.
static DEVICES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let named = records::<Device>(include_str!("../figures/devices.csv"));
    named.into_iter().map(|Device { zoo, device }| (zoo, device)).collect()
});

/// The records of a file in `figures/`. The files are part of the program, and a test reads all of them.
fn records<R: DeserializeOwned>(text: &str) -> Vec<R> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    reader.deserialize().map(|record| record.expect("a row has the columns of its heading")).collect()
}

/// What was measured of a device.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// The device, by its name in the zoo.
    pub(crate) zoo: &'static str,
    /// As the paper's table names it.
    pub(crate) quantity: String,
    pub(crate) unit: &'static str,
    /// `None` if there is none, for example if no period was found.
    pub(crate) value: Option<f64>,
}

impl Measurement {
    pub(crate) fn new(
        zoo: &'static str,
        quantity: impl Into<String>,
        unit: &'static str,
        value: impl Into<Option<f64>>,
    ) -> Measurement {
        Measurement { zoo, quantity: quantity.into(), unit, value: value.into() }
    }
}

/// A row of a paper's table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    reproduction: String,
    /// The device, by its name in the zoo.
    device: String,
    quantity: String,
    unit: String,
    paper: Option<f64>,
    agreement: Agreement,
    /// Where in the paper it is printed; for readers of the file.
    #[cfg_attr(not(test), expect(dead_code))]
    r#where: String,
}

/// A row of `devices.csv`.
#[derive(Deserialize)]
struct Device {
    zoo: String,
    device: String,
}

/// The rows of a reproduction.
fn rows(reproduction: &str) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.reproduction == reproduction)
}

impl TryFrom<String> for Agreement {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Agreement, String> {
        let share = || text.strip_suffix(" %")?.parse::<f64>().ok();
        match text.as_str() {
            "at most" => Ok(Agreement::AtMost),
            "at least" => Ok(Agreement::AtLeast),
            "power of two" => Ok(Agreement::PowerOfTwo),
            "any" => Ok(Agreement::Any),
            _ => share()
                .map(|percent| Agreement::Within(percent / 100.0))
                .ok_or_else(|| format!("`{text}` is not an agreement, such as `15 %` or `at most`")),
        }
    }
}

/// The paper's name of a device; the zoo's if no paper names it.
fn name(zoo: &str) -> &str {
    DEVICES.get(zoo).map_or(zoo, String::as_str)
}

/// The paper's value, for a picture.
pub(crate) fn paper(reproduction: &str, zoo: &str, quantity: &str) -> f64 {
    let row = rows(reproduction).find(|row| row.device == zoo && row.quantity == quantity);
    row.and_then(|row| row.paper).unwrap_or(f64::NAN)
}

/// The measured values, each next to the paper's.
///
/// # Errors
/// If a row has no measurement, or a measurement no row.
pub(crate) fn beside(reproduction: &str, values: Vec<Measurement>) -> Result<Vec<Figure>> {
    compare_with_paper(reproduction, |_| true, values)
}

/// As [`beside`], for some of the devices.
pub(crate) fn compare_with_paper(
    reproduction: &str,
    devices: impl Fn(&str) -> bool,
    mut values: Vec<Measurement>,
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for row in rows(reproduction).filter(|row| devices(&row.device)) {
        let Row { device: zoo, quantity, unit, .. } = row;
        let is_it = |value: &Measurement| (value.zoo, &value.quantity, value.unit) == (zoo, quantity, unit);
        let Some(i) = values.iter().position(is_it) else {
            return Err(ReproduceError::new(
                zoo,
                format!("{reproduction} measures no `{quantity}` ({unit})"),
            ));
        };
        figures.push(Figure {
            device: name(zoo).to_owned(),
            zoo,
            quantity: quantity.clone(),
            unit: unit.clone(),
            paper: row.paper,
            flashlab: values.swap_remove(i).value,
            agreement: row.agreement,
        });
    }
    match values.first() {
        None => Ok(figures),
        Some(Measurement { zoo, quantity, unit, .. }) => {
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
        for row in ROWS.iter() {
            assert!(crate::find(&row.reproduction).is_some(), "{row:?}");
            assert!(zoo.contains(&row.device), "{row:?}");
            assert!(!row.r#where.is_empty(), "{row:?}");
            let key = (&row.reproduction, &row.device, &row.quantity, &row.unit);
            assert!(seen.insert(key), "twice: {row:?}");
        }
        assert!(crate::ALL.iter().all(|one| rows(one.name).next().is_some()));
        assert!(DEVICES.keys().all(|device| zoo.contains(device)));
    }

    #[test]
    fn an_agreement_is_a_share_or_one_of_four_words() {
        let read = |text: &str| Agreement::try_from(text.to_owned());
        assert_eq!(read("15 %"), Ok(Agreement::Within(0.15)));
        assert_eq!(read("power of two"), Ok(Agreement::PowerOfTwo));
        assert!(read("15").is_err() && read("x %").is_err() && read("").is_err());
    }

    #[test]
    fn what_was_measured_and_what_the_paper_says_have_to_be_the_same_quantities() {
        let measured = |quantity, unit| {
            beside(
                "uflip-fig4",
                vec![
                    Measurement::new("uflip-dti", "sequential-write start-up phase", "IOs", 0.0),
                    Measurement::new("uflip-dti", quantity, unit, 64.0),
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
        let error = beside("nothing", vec![Measurement::new("uflip-dti", "spin-up", "s", 1.0)]).unwrap_err();
        assert_eq!(error.to_string(), "uflip-dti: no paper has `spin-up` (s) of nothing");
    }
}
