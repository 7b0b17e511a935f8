//! The families of translation layers: what they map and what they merge.

use std::fmt;

/// A family of translation layers (Ma, Feng and Li, ACM Computing Surveys 46(3), 2014, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Every page may lie on any physical page; the map is in memory.
    Page,
    /// As [`Family::Page`], but the map is kept on the flash and read on demand (DFTL).
    DemandCachedPage,
    /// A block may lie on any physical block, and its pages are in order.
    Block,
    /// Data blocks with log blocks; each log block belongs to one data block (BAST).
    LogBlock,
    /// Data blocks with log blocks that all of them share (FAST).
    SharedLogBlock,
}

impl Family {
    /// All.
    pub const ALL: [Family; 5] =
        [Family::Page, Family::DemandCachedPage, Family::Block, Family::LogBlock, Family::SharedLogBlock];
    /// Their names, in the same order.
    pub(super) const NAMES: [&str; 5] =
        ["page", "demand-cached page", "block", "log-block", "shared log-block"];

    /// As in documents.
    pub fn name(self) -> &'static str {
        Family::NAMES[self as usize]
    }

    /// The family of this name.
    pub fn named(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Whether the family maps pages; others merge blocks.
    pub fn maps_pages(self) -> bool {
        matches!(self, Family::Page | Family::DemandCachedPage)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        for family in Family::ALL {
            assert_eq!(Family::named(family.name()), Some(family));
        }
        assert_eq!(Family::named("hybrid"), None);
    }
}
