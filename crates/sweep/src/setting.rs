//! Keys of a profile and their values: one override, and the grid of all combinations.

use std::str::FromStr;

use flashlab_base::Seed;
use serde::{Deserialize, Serialize};

use crate::SweepError;
use crate::sampling::{Sampling, count_of};

/// A key and its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// As `flash.over_provisioning`.
    pub key: String,
    /// As they are written in a profile, without quotation marks.
    pub values: Vec<String>,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let wrong = || "write a key and its values, as flash.over_provisioning=0.07,0.15,0.28".to_owned();
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let key = key.trim();
        if key.split('.').any(str::is_empty) || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        if let Some(twice) = values.iter().enumerate().find(|(index, value)| values[..*index].contains(value))
        {
            return Err(format!("the value {} is given twice", twice.1));
        }
        Ok(Setting { key: key.to_owned(), values })
    }
}

/// All combinations of the values of several keys, or a sample of them. The values of the last key change first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    settings: Vec<Setting>,
    /// The sample, in the order of the grid.
    chosen: Option<Vec<u64>>,
}

impl Grid {
    /// The grid of these settings.
    ///
    /// # Errors
    /// When two of them have the same key, or the combinations cannot be counted.
    pub fn new(settings: Vec<Setting>) -> Result<Grid, SweepError> {
        for (index, setting) in settings.iter().enumerate() {
            if settings[..index].iter().any(|other| other.key == setting.key) {
                let key = &setting.key;
                return Err(SweepError::Input(format!(
                    "--set {key} is given twice: give all its values at once"
                )));
            }
        }
        count_of(&counts(&settings))?;
        Ok(Grid { settings, chosen: None })
    }

    /// Keeps `number` different combinations, or all if there are no more.
    ///
    /// # Errors
    /// When there are more keys than the method can sample.
    pub fn sampled(mut self, method: Sampling, number: u64, seed: Seed) -> Result<Grid, SweepError> {
        let mut chosen = method.combinations(&counts(&self.settings), number, seed)?;
        chosen.sort_unstable();
        self.chosen = Some(chosen);
        Ok(self)
    }

    /// The settings.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The number of combinations.
    pub fn count(&self) -> u64 {
        match &self.chosen {
            Some(chosen) => chosen.len() as u64,
            None => counts(&self.settings).iter().product(),
        }
    }

    /// The values of combination `index`, in the order of the settings. Panics past the end.
    pub fn combination(&self, index: u64) -> Vec<String> {
        assert!(index < self.count(), "there is no combination {index}");
        let mut left = self.chosen.as_ref().map_or(index, |chosen| chosen[index as usize]);
        let mut values: Vec<String> = self
            .settings
            .iter()
            .rev()
            .map(|setting| {
                let count = setting.values.len() as u64;
                let value = setting.values[(left % count) as usize].clone();
                left /= count;
                value
            })
            .collect();
        values.reverse();
        values
    }
}

fn counts(settings: &[Setting]) -> Vec<u64> {
    settings.iter().map(|setting| setting.values.len() as u64).collect()
}

/// Sets a key of a profile to a value. The value gets the type of the key, or the type that it looks like.
///
/// # Errors
/// When the key is a section, or cannot have the value.
pub fn override_key(table: &mut toml::Table, key: &str, value: &str) -> Result<(), SweepError> {
    let (sections, name) = match key.rsplit_once('.') {
        Some((sections, name)) => (sections.split('.').collect(), name),
        None => (Vec::new(), key),
    };
    let mut place = table;
    for section in sections {
        let entry = place.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        place = entry.as_table_mut().ok_or_else(|| {
            SweepError::Input(format!("--set {key}: {section} is no section of the profile"))
        })?;
    }
    let wrong = |kind: &str| SweepError::Input(format!("--set {key}={value}: {key} is {kind}"));
    let typed = match place.get(name) {
        Some(toml::Value::String(_)) => toml::Value::String(value.to_owned()),
        Some(toml::Value::Float(_)) => {
            toml::Value::Float(value.parse().map_err(|_| wrong("a number, as 0.07"))?)
        }
        Some(toml::Value::Integer(_)) => {
            toml::Value::Integer(value.parse().map_err(|_| wrong("a whole number"))?)
        }
        Some(toml::Value::Boolean(_)) => {
            toml::Value::Boolean(value.parse().map_err(|_| wrong("true or false"))?)
        }
        Some(toml::Value::Table(_)) => {
            return Err(SweepError::Input(format!("--set {key}: it is a section; name one of its keys")));
        }
        Some(_) | None => toml::from_str::<toml::Table>(&format!("value = {value}"))
            .ok()
            .and_then(|mut parsed| parsed.remove("value"))
            .unwrap_or_else(|| toml::Value::String(value.to_owned())),
    };
    place.insert(name.to_owned(), typed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_numbered_with_the_last_key_first() {
        let settings = ["a=1,2", "b=x,y,z"].map(|text| text.parse().unwrap());
        let grid = Grid::new(settings.to_vec()).unwrap();
        let all: Vec<String> = (0..grid.count()).map(|index| grid.combination(index).concat()).collect();
        assert_eq!(all, ["1x", "1y", "1z", "2x", "2y", "2z"]);
        let sample = grid.sampled(Sampling::Random, 4, Seed(1)).unwrap();
        let some: Vec<String> = (0..sample.count()).map(|index| sample.combination(index).concat()).collect();
        assert!(some.len() == 4 && some.is_sorted() && some.iter().all(|one| all.contains(one)), "{some:?}");
        assert!(Grid::new(vec!["a=1".parse().unwrap(), "a=2".parse().unwrap()]).is_err());
    }

    #[test]
    fn a_value_gets_the_type_of_its_key() {
        let mut table: toml::Table = toml::from_str("share = 0.5\n[flash]\ndies = 4\n").unwrap();
        override_key(&mut table, "share", "1").unwrap();
        override_key(&mut table, "flash.dies", "8").unwrap();
        override_key(&mut table, "flash.new", "4KiB").unwrap();
        override_key(&mut table, "more.deep.key", "3").unwrap();
        let expected = "share = 1.0\n[flash]\ndies = 8\nnew = \"4KiB\"\n[more.deep]\nkey = 3\n";
        assert_eq!(table, toml::from_str::<toml::Table>(expected).unwrap());
        assert!(override_key(&mut table, "flash", "8").is_err());
        assert!(override_key(&mut table, "flash.dies", "many").is_err());
    }
}
