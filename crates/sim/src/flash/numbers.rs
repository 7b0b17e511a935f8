//! The numbers of pages, blocks and dies, one type each, so that none is taken for another.
//!
//! A number counts from 0 within one device. A page's number within its block stays an integer, because layers
//! compute with it.

/// Makes a type of a number: its index in a list of all, the number `n` after it, and how it is printed.
macro_rules! numbers {
    ($($(#[$doc:meta])* $vis:vis $name:ident,)+) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        $vis struct $name(pub u32);

        impl $name {
            /// Its index in a list of all of them.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::ops::Add<u32> for $name {
            type Output = $name;

            #[inline]
            fn add(self, more: u32) -> $name {
                $name(self.0 + more)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(formatter)
            }
        }
    )+};
}
pub(crate) use numbers;

numbers! {
    /// A page of the host's address space, by its number.
    pub LogicalPage,
    /// A page of the array, by its number over all blocks.
    pub PhysicalPage,
    /// What a translation layer erases at once, by its number: see [the module above](super).
    pub EraseBlock,
    /// A die, by its number.
    pub Die,
}

impl PhysicalPage {
    /// No page, in tables where an `Option` would take twice the memory.
    pub(crate) const NONE: PhysicalPage = PhysicalPage(u32::MAX);
}

impl LogicalPage {
    /// No page, as [`PhysicalPage::NONE`].
    pub(crate) const NONE: LogicalPage = LogicalPage(u32::MAX);
}

impl EraseBlock {
    /// No block, as [`PhysicalPage::NONE`].
    pub(crate) const NONE: EraseBlock = EraseBlock(u32::MAX);
}
