//! How an array of flash is laid out.

use flashlab_base::Bytes;

use super::{Die, EraseBlock, PageAddress, PhysicalPage};

/// Division by a number that is known only at run time, without a division.
///
/// Multiplies by the reciprocal (Granlund and Montgomery, "Division by invariant integers using
/// multiplication", PLDI 1994): exact for every 32-bit dividend, since the reciprocal has 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divider {
    divisor: u32,
    reciprocal: u64,
}

impl Divider {
    /// Divides by `divisor`, which must not be zero.
    pub fn new(divisor: u32) -> Divider {
        assert!(divisor > 0, "a division by zero was asked for");
        Divider { divisor, reciprocal: (u64::MAX / u64::from(divisor)).wrapping_add(1) }
    }

    /// The divisor.
    #[inline]
    pub fn divisor(self) -> u32 {
        self.divisor
    }

    /// The quotient and the remainder.
    #[inline]
    pub fn divide(self, number: u32) -> (u32, u32) {
        if self.reciprocal == 0 {
            return (number, 0);
        }
        let quotient = ((u128::from(self.reciprocal) * u128::from(number)) >> 64) as u32;
        (quotient, number - quotient * self.divisor)
    }
}

/// The layout of an array: see [the module above](super) for what a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashGeometry {
    page: Bytes,
    pages_per_block: Divider,
    blocks: u32,
    dies: Divider,
    channels: Divider,
    planes: Divider,
    slc_blocks: u32,
}

impl FlashGeometry {
    /// An array of `dies` dies with `blocks` blocks in all, of `pages_per_block` pages of `page` bytes in all
    /// planes together.
    ///
    /// # Errors
    /// Names what no array can have, and what it may be.
    pub fn new(
        page: Bytes,
        pages_per_block: u32,
        planes: u32,
        blocks: u32,
        dies: u32,
        channels: u32,
    ) -> Result<FlashGeometry, FlashGeometryError> {
        let wrong = |what, value: u64, legal| Err(FlashGeometryError { what, value, legal });
        if !page.0.is_power_of_two() || !(512..=1 << 20).contains(&page.0) {
            return wrong("page", page.0, "a power of two from 512 B to 1 MiB");
        }
        if !(1..=1 << 16).contains(&pages_per_block) {
            return wrong("pages_per_block", pages_per_block.into(), "1 to 65536, in all planes together");
        }
        if planes == 0 || !pages_per_block.is_multiple_of(planes) {
            return wrong("planes", planes.into(), "a divisor of the pages of a block");
        }
        if !(1..=4096).contains(&dies) {
            return wrong("dies", dies.into(), "1 to 4096");
        }
        if !(1..=dies).contains(&channels) {
            return wrong("channels", channels.into(), "1 to the number of dies");
        }
        if blocks < dies {
            return wrong("blocks", blocks.into(), "at least one for each die");
        }
        if u64::from(blocks) * u64::from(pages_per_block) >= u64::from(u32::MAX) {
            return wrong(
                "blocks",
                blocks.into(),
                "fewer than 4294967295 pages in all: choose a larger page",
            );
        }
        Ok(FlashGeometry {
            page,
            pages_per_block: Divider::new(pages_per_block),
            blocks,
            dies: Divider::new(dies),
            channels: Divider::new(channels),
            planes: Divider::new(planes),
            slc_blocks: 0,
        })
    }

    /// The same array whose first `blocks` blocks are an SLC cache.
    ///
    /// # Errors
    /// When that leaves a die without other blocks.
    pub fn with_slc_blocks(self, blocks: u32) -> Result<FlashGeometry, FlashGeometryError> {
        if blocks.saturating_add(self.dies()) > self.blocks {
            let legal = "fewer than all blocks of a die";
            return Err(FlashGeometryError { what: "slc_blocks", value: blocks.into(), legal });
        }
        Ok(FlashGeometry { slc_blocks: blocks, ..self })
    }

    /// The size of a page.
    pub fn page(&self) -> Bytes {
        self.page
    }

    /// The pages of a block, in all its planes.
    #[inline]
    pub fn pages_per_block(&self) -> u32 {
        self.pages_per_block.divisor()
    }

    /// How many blocks there are.
    #[inline]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The blocks of the SLC cache.
    pub fn slc_cache_blocks(&self) -> impl Iterator<Item = EraseBlock> + use<> {
        (0..self.slc_blocks).map(EraseBlock)
    }

    /// The blocks behind those of the SLC cache.
    pub fn main_blocks(&self) -> impl Iterator<Item = EraseBlock> + use<> {
        (self.slc_blocks..self.blocks).map(EraseBlock)
    }

    /// How many pages there are.
    pub fn pages(&self) -> u32 {
        self.blocks * self.pages_per_block()
    }

    /// How many dies there are.
    #[inline]
    pub fn dies(&self) -> u32 {
        self.dies.divisor()
    }

    /// How many channels there are.
    pub fn channels(&self) -> u32 {
        self.channels.divisor()
    }

    /// How many planes a die has.
    pub fn planes(&self) -> u32 {
        self.planes.divisor()
    }

    /// The multi-plane page that a page belongs to, and the page's plane.
    #[inline]
    pub fn multi_plane_page(&self, page: u32) -> (u32, u32) {
        self.planes.divide(page)
    }

    /// How many blocks the SLC cache has; they are the array's first.
    #[inline]
    pub fn slc_blocks(&self) -> u32 {
        self.slc_blocks
    }

    /// The die that a block lies on.
    #[inline]
    pub fn die(&self, block: EraseBlock) -> Die {
        Die(self.dies.divide(block.0).1)
    }

    /// The die of a stripe, when the stripes go to the dies round-robin.
    #[inline]
    pub fn striped_die(&self, stripe: u32) -> Die {
        Die(self.dies.divide(stripe).1)
    }

    /// The channel that a die is attached to.
    #[inline]
    pub fn channel(&self, die: Die) -> u32 {
        self.channels.divide(die.0).1
    }

    /// Where a page of the array lies.
    #[inline]
    pub fn place(&self, physical: PhysicalPage) -> PageAddress {
        let (block, page) = self.pages_per_block.divide(physical.0);
        PageAddress { block: EraseBlock(block), page }
    }

    /// The first page of a block.
    #[inline]
    pub fn first_page(&self, block: EraseBlock) -> PhysicalPage {
        PhysicalPage(block.0 * self.pages_per_block())
    }

    /// The number over the whole array of the page at `place`.
    #[inline]
    pub fn physical(&self, place: PageAddress) -> PhysicalPage {
        self.first_page(place.block) + place.page
    }
}

/// A layout that no array can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{what}` is {value}; it may be {legal}")]
pub struct FlashGeometryError {
    /// What is wrong, as the profile's key.
    pub what: &'static str,
    /// Its value.
    pub value: u64,
    /// What it may be.
    pub legal: &'static str,
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    #[test]
    fn a_divider_divides_as_the_processor_does() {
        let mut random = Prng::new(Seed(1));
        for divisor in [1, 2, 3, 5, 7, 64, 255, 768, 65_535, 65_536, 1 << 31, u32::MAX] {
            let divider = Divider::new(divisor);
            let edges = [0, 1, divisor - 1, divisor, divisor.wrapping_add(1), u32::MAX - 1, u32::MAX];
            let randoms = (0..10_000).map(|_| random.next_u64() as u32);
            for number in edges.into_iter().chain(randoms) {
                assert_eq!(
                    divider.divide(number),
                    (number / divisor, number % divisor),
                    "{number} / {divisor}"
                );
            }
        }
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let error = |page, pages, planes, blocks, dies, channels| {
            FlashGeometry::new(Bytes(page), pages, planes, blocks, dies, channels).unwrap_err().to_string()
        };
        insta::assert_snapshot!(error(4000, 64, 1, 8, 1, 1), @"`page` is 4000; it may be a power of two from 512 B to 1 MiB");
        insta::assert_snapshot!(error(4096, 64, 3, 8, 1, 1), @"`planes` is 3; it may be a divisor of the pages of a block");
        insta::assert_snapshot!(error(4096, 64, 1, 8, 2, 3), @"`channels` is 3; it may be 1 to the number of dies");
        insta::assert_snapshot!(error(4096, 65536, 1, 65536, 2, 2), @"`blocks` is 65536; it may be fewer than 4294967295 pages in all: choose a larger page");
    }
}
