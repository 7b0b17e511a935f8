//! A record of what every page holds, with which tests prove that a translation layer is right.
//!
//! # Model
//! Each write of a logical page has a version. The ledger records for each physical page the logical page and the version
//! that it holds, and asserts at each read that this is the most recent version.

use super::{EraseBlock, FlashGeometry, LogicalPage, PageAddress};

/// What a page holds: which write of which logical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token {
    logical: LogicalPage,
    version: u32,
}

/// What every physical page holds, and the most recent version of each logical page.
#[derive(Clone, Debug)]
pub struct Ledger {
    held: Vec<Option<Token>>,
    last: Vec<u32>,
}

impl Ledger {
    /// The ledger of erased flash, for `logical_pages` logical pages: the host's, and those of a map on the flash.
    pub fn new(geometry: &FlashGeometry, logical_pages: u32) -> Ledger {
        Ledger { held: vec![None; geometry.pages() as usize], last: vec![0; logical_pages as usize] }
    }

    /// The number of writes of a logical page.
    pub fn writes(&self, logical: LogicalPage) -> u32 {
        self.last[logical.index()]
    }

    pub(super) fn read(
        &mut self,
        geometry: &FlashGeometry,
        place: PageAddress,
        logical: LogicalPage,
        pages: u32,
    ) {
        let first = geometry.physical(place);
        for i in 0..pages {
            let held = self.held[(first + i).index()];
            let logical = logical + i;
            let expected = Token { logical, version: self.last[logical.index()] };
            assert_eq!(held, Some(expected), "logical page {logical} was read from page {}", first + i);
        }
    }

    pub(super) fn program(
        &mut self,
        geometry: &FlashGeometry,
        place: PageAddress,
        logical: LogicalPage,
        pages: u32,
    ) {
        let first = geometry.physical(place);
        for i in 0..pages {
            let logical = logical + i;
            let version = &mut self.last[logical.index()];
            *version += 1;
            self.held[(first + i).index()] = Some(Token { logical, version: *version });
        }
    }

    /// The most recent version of each page is copied to `place`.
    pub(super) fn copy(
        &mut self,
        geometry: &FlashGeometry,
        place: PageAddress,
        logical: LogicalPage,
        pages: u32,
    ) {
        let first = geometry.physical(place);
        for i in 0..pages {
            let logical = logical + i;
            let version = self.last[logical.index()];
            self.held[(first + i).index()] = Some(Token { logical, version });
        }
    }

    pub(super) fn relocate(&mut self, geometry: &FlashGeometry, from: PageAddress, to: PageAddress) {
        let token = self.held[geometry.physical(from).index()];
        assert!(token.is_some(), "{from:?} was copied and holds nothing");
        self.held[geometry.physical(to).index()] = token;
    }

    pub(super) fn skip(&mut self, geometry: &FlashGeometry, place: PageAddress, pages: u32) {
        let first = geometry.physical(place).index();
        self.held[first..first + pages as usize].fill(None);
    }

    pub(super) fn erase(&mut self, geometry: &FlashGeometry, block: EraseBlock) {
        let first = geometry.first_page(block).index();
        self.held[first..first + geometry.pages_per_block() as usize].fill(None);
    }
}
