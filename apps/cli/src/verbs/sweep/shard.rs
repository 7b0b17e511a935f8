//! A part of a sweep, for one of many hosts.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use flashlab_sweep::Grid;
use serde::{Deserialize, Serialize};

use crate::exit::Usage;

/// More parts than any cluster has hosts; the folders' names sort up to here.
const PARTS_MOST: u32 = 1_000_000;

/// Part `part` of `parts`: the combinations `part - 1`, `part - 1 + parts`, and so on. Neighbouring combinations cost about as much, so that
/// the parts do as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// From 1.
    pub part: u32,
    /// How many there are.
    pub parts: u32,
}

impl Shard {
    /// The name of its folder.
    pub fn folder(self) -> String {
        format!("shard-{:06}-of-{:06}", self.part, self.parts)
    }

    /// The combinations of this part, or all of them.
    ///
    /// # Errors
    /// Of a part without any.
    pub fn indices(shard: Option<Shard>, grid: &Grid) -> Result<impl Iterator<Item = u64> + use<>> {
        let count = grid.count();
        let Shard { part, parts } = shard.unwrap_or(Shard { part: 1, parts: 1 });
        let first = u64::from(part - 1);
        if first >= count {
            bail!(Usage(format!(
                "--shard {part}/{parts}: there are {count} combinations; give at most {count} parts"
            )));
        }
        Ok((first..count).step_by(parts as usize))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.part, self.parts)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers =
            text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
        match numbers {
            Some((part, parts)) if (1..=PARTS_MOST).contains(&parts) && (1..=parts).contains(&part) => {
                Ok(Shard { part, parts })
            }
            _ => Err(format!(
                "write a part and how many there are, as 3/64; from 1/1 to {PARTS_MOST}/{PARTS_MOST}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_is_in_one_part() {
        let grid = Grid::new(vec!["a=1,2,3,4,5,6,7".parse().unwrap()]).unwrap();
        let part = |part| Shard::indices(Some(Shard { part, parts: 3 }), &grid).unwrap();
        let mut all: Vec<u64> = (1..=3).flat_map(part).collect();
        assert_eq!(part(2).collect::<Vec<_>>(), [1, 4]);
        all.sort_unstable();
        assert_eq!(all, (0..7).collect::<Vec<_>>());
        assert!(Shard::indices(Some(Shard { part: 8, parts: 8 }), &grid).is_err());
    }

    #[test]
    fn parts_are_counted_from_one() {
        assert_eq!("3/64".parse(), Ok(Shard { part: 3, parts: 64 }));
        for wrong in ["0/4", "5/4", "1/0", "3", "a/b", "-1/4", "1/4294967297"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
