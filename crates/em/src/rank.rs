//! List ranking: how far each element of a linked list lies from its head.
//!
//! # Model
//! Ajwani et al., chapter 2: the elements lie on the device in the order of a random permutation, 8 bytes each, and an
//! element is the index of its successor. [`rank_by_hopping`] follows the list, which is what one does in memory: one
//! dependent random read for each element. [`rank_by_contraction`] needs sorting only.
//!
//! # Invariant
//! - A list is a path through all its elements; whoever finds another one gets an error.

mod contraction;
mod formula;
mod hopping;

pub use contraction::{Ranking, rank_by_contraction};
pub use formula::{RankIos, contraction_ios, hopping_reads};
pub use hopping::{Hopper, Hops, rank_by_hopping};

use flashlab_base::Seed;

use crate::error::EmError;
use crate::extent::{Region, Spread};
use crate::graph::{MAX_NODES, Permutation};
use crate::records::{Stored, Workspace};

/// The successor of the last element.
const END: u64 = u64::MAX;

/// A list of which the element of rank r is the image of r under a permutation.
#[derive(Clone, Debug)]
pub struct ListOrder {
    count: u64,
    order: Permutation,
}

impl ListOrder {
    /// A random list of `count` elements.
    ///
    /// # Errors
    /// [`EmError::Parameter`] when it has no element, or more than [`MAX_NODES`].
    pub fn new(count: u64, seed: Seed) -> Result<ListOrder, EmError> {
        if count == 0 || count > MAX_NODES {
            return Err(EmError::Parameter(format!(
                "a list of {count} elements: it must have 1 to {MAX_NODES}"
            )));
        }
        Ok(ListOrder { count, order: Permutation::new(count, seed.derive("list", 0)) })
    }

    /// The number of elements.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The element of this rank.
    pub fn element(&self, rank: u64) -> u64 {
        self.order.image(rank)
    }

    /// The rank of this element.
    pub fn rank(&self, element: u64) -> u64 {
        self.order.inverse(element)
    }
}

/// A list on devices: the successor of each element, by element.
pub struct StoredList {
    successors: Stored<u64>,
    head: u64,
}

impl StoredList {
    /// Writes a list.
    ///
    /// # Errors
    /// Those of the IOs, and [`EmError::Space`].
    pub fn write(
        workspace: &mut Workspace<'_, '_>,
        list: &ListOrder,
        spread: Spread,
    ) -> Result<StoredList, EmError> {
        let mut successors = workspace.write(list.count, spread)?;
        for element in 0..list.count {
            let next = list.rank(element) + 1;
            let successor = if next == list.count { END } else { list.element(next) };
            successors.push(workspace.machine, successor)?;
        }
        Ok(StoredList { successors: successors.finish(workspace.machine)?, head: list.element(0) })
    }

    /// The number of elements.
    pub fn count(&self) -> u64 {
        self.successors.count()
    }

    /// Where it lies.
    pub fn region(&self) -> &Region {
        self.successors.region()
    }
}
