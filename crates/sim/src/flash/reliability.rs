//! How blocks age: which blocks are bad, when the others fail, and how many retries a read needs.
//!
//! # Model
//! - A share of the blocks is bad from the factory.
//! - Each other block fails at the erase that exceeds its endurance. The endurance of a block is the rated endurance, plus
//!   or minus a share of it that is drawn for each block (uniform).
//! - The mean number of retries of a read grows linearly with the erases of the block, as bit errors do in the field
//!   (Schroeder, Lagisetty and Merchant, FAST 2016, section 4). The number of retries of a page is drawn once for each page
//!   and erase (geometric).
//!
//! # Invariants
//! - all of it follows from the block, the page, the erases and the seed: there is no state.

use flashlab_base::{Prng, Seed};
use serde::{Deserialize, Serialize};

use super::{EraseBlock, FlashGeometryError, PhysicalPage};

/// How an array ages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reliability {
    /// The rated endurance of a block in erases; default 3000.
    pub endurance: u32,
    /// The rated endurance of a block of the SLC cache in erases; default 30000.
    pub slc_endurance: u32,
    /// By how many percent at most the endurance of a block differs from the rated endurance, in both directions; default 0.
    pub endurance_spread_percent: u32,
    /// The number of blocks in a million that are bad from the factory; default 0.
    pub factory_bad_per_million: u32,
    /// The number of retries in a million reads of new flash; default 0.
    pub retries_new_per_million: u32,
    /// The number of retries in a million reads of flash at its rated endurance; default 0.
    pub retries_worn_per_million: u32,
    /// The most retries of a read; default 8.
    pub most_retries: u32,
    /// The seed of what is drawn; default 0.
    pub seed: Seed,
}

impl Default for Reliability {
    fn default() -> Reliability {
        Reliability {
            endurance: 3000,
            slc_endurance: 30_000,
            endurance_spread_percent: 0,
            factory_bad_per_million: 0,
            retries_new_per_million: 0,
            retries_worn_per_million: 0,
            most_retries: 8,
            seed: Seed(0),
        }
    }
}

const MILLION: u64 = 1_000_000;

impl Reliability {
    /// These figures, if flash can have them.
    ///
    /// # Errors
    /// Names what no flash can have, and what it may be.
    pub fn checked(self) -> Result<Reliability, FlashGeometryError> {
        let wrong = |what, value: u32, legal| Err(FlashGeometryError { what, value: value.into(), legal });
        if self.endurance == 0 {
            return wrong("endurance", 0, "at least 1 erase");
        }
        if self.slc_endurance == 0 {
            return wrong("slc_endurance", 0, "at least 1 erase");
        }
        if self.endurance_spread_percent > 99 {
            return wrong("endurance_spread_percent", self.endurance_spread_percent, "0 to 99");
        }
        if u64::from(self.factory_bad_per_million) >= MILLION {
            return wrong("factory_bad_per_million", self.factory_bad_per_million, "0 to 999999");
        }
        if self.most_retries > 100 {
            return wrong("most_retries", self.most_retries, "0 to 100");
        }
        Ok(self)
    }

    /// Whether a block is bad from the factory.
    pub fn factory_bad(&self, block: EraseBlock) -> bool {
        self.draw("factory", block.0.into()).below(MILLION) < self.factory_bad_per_million.into()
    }

    /// The endurance of a block: the number of erases that it survives. `slc` says that it is in the SLC cache.
    pub fn cycles(&self, block: EraseBlock, slc: bool) -> u32 {
        let rated = self.rated(slc);
        let spread = rated * u64::from(self.endurance_spread_percent) / 100;
        let drawn = self.draw("cycles", block.0.into()).below(2 * spread + 1);
        (rated - spread + drawn).min(u32::MAX.into()) as u32
    }

    /// Whether a block has failed that was erased `erases` times.
    pub fn failed(&self, block: EraseBlock, slc: bool, erases: u32) -> bool {
        erases > self.cycles(block, slc) || self.factory_bad(block)
    }

    /// The number of retries of a read of `physical`, whose block was erased `erases` times.
    pub fn retries(&self, physical: PhysicalPage, slc: bool, erases: u32) -> u32 {
        let (new, worn) = (u64::from(self.retries_new_per_million), u64::from(self.retries_worn_per_million));
        let growth = worn.saturating_sub(new) * u64::from(erases) / self.rated(slc);
        let mean = new + growth;
        if mean == 0 {
            return 0;
        }
        // Geometric with this mean: each try fails with probability mean / (1 + mean).
        let mut random = self.draw("retries", u64::from(physical.0) << 32 | u64::from(erases));
        (0..self.most_retries).take_while(|_| random.below(MILLION + mean) < mean).count() as u32
    }

    fn rated(&self, slc: bool) -> u64 {
        u64::from(if slc { self.slc_endurance } else { self.endurance })
    }

    fn draw(&self, label: &str, index: u64) -> Prng {
        Prng::new(self.seed.derive(label, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_has_the_means_asked_for() {
        let all = Reliability {
            endurance: 1000,
            slc_endurance: 30_000,
            endurance_spread_percent: 20,
            factory_bad_per_million: 10_000,
            retries_new_per_million: 100_000,
            retries_worn_per_million: 1_000_000,
            most_retries: 100,
            seed: Seed(5),
        };
        let bad = (0..100_000).filter(|&block| all.factory_bad(EraseBlock(block))).count();
        assert!((900..1100).contains(&bad), "{bad} of 100000 blocks are bad instead of 1000");
        let cycles: Vec<u32> = (0..20_000).map(|block| all.cycles(EraseBlock(block), false)).collect();
        assert!(cycles.iter().all(|cycles| (800..=1200).contains(cycles)));
        let mean = cycles.iter().map(|&cycles| f64::from(cycles)).sum::<f64>() / 20_000.0;
        assert!((mean - 1000.0).abs() < 5.0, "{mean} cycles");
        for (erases, expected) in [(0, 0.1), (500, 0.55), (1000, 1.0)] {
            let tries: u32 = (0..100_000).map(|page| all.retries(PhysicalPage(page), false, erases)).sum();
            let mean = f64::from(tries) / 1e5;
            assert!((mean / expected - 1.0).abs() < 0.03, "{mean} tries after {erases} erases");
        }
        let good = (0..).map(EraseBlock).find(|&block| !all.factory_bad(block)).unwrap();
        assert!(!all.failed(good, false, 800) && all.failed(good, false, 1201));
        assert!(!all.failed(good, true, 24_000) && all.failed(good, true, 36_001));
        assert_eq!(Reliability { most_retries: 2, ..all }.retries(PhysicalPage(0), false, 100_000_000), 2);
    }

    #[test]
    fn impossible_figures_are_refused() {
        let error = |reliability: Reliability| reliability.checked().unwrap_err().to_string();
        let all = Reliability::default();
        insta::assert_snapshot!(error(Reliability { endurance: 0, ..all }), @"`endurance` is 0; it may be at least 1 erase");
        insta::assert_snapshot!(error(Reliability { endurance_spread_percent: 100, ..all }), @"`endurance_spread_percent` is 100; it may be 0 to 99");
        insta::assert_snapshot!(error(Reliability { factory_bad_per_million: 1_000_000, ..all }), @"`factory_bad_per_million` is 1000000; it may be 0 to 999999");
        insta::assert_snapshot!(error(Reliability { most_retries: 101, ..all }), @"`most_retries` is 101; it may be 0 to 100");
    }
}
