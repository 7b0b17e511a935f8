//! Following a list: each element's read depends on the one before it.

use flashlab_base::{Bytes, Nanos};

use super::{END, StoredList};
use crate::block_reads::BlockReads;
use crate::error::EmError;
use crate::machine::Machine;
use crate::records::Workspace;

/// What hopping found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hops {
    /// How many elements were visited, the head included.
    pub visited: u64,
    /// Whether the last one has no successor.
    pub is_at_end: bool,
    /// How long it took.
    pub time: Nanos,
}

/// Follows the list from its head for at most `most` elements, with reads of `block`, and shows each element and its rank
/// to `see`. As in the paper, the ranks are not written.
///
/// # Errors
/// As [`Hopper::hop`].
pub fn rank_by_hopping(
    workspace: &mut Workspace<'_, '_>,
    list: &StoredList,
    block: Bytes,
    most: u64,
    see: &mut dyn FnMut(u64, u64) -> Result<(), EmError>,
) -> Result<Hops, EmError> {
    let machine = &mut *workspace.machine;
    let mut hopper = Hopper::new(machine, list, block)?;
    let begin = machine.now();
    let is_at_end = hopper.hop(machine, most, see)?;
    Ok(Hops { visited: hopper.visited, is_at_end, time: machine.now().since(begin) })
}

/// Follows a list, and remembers where it is.
pub struct Hopper {
    reads: BlockReads,
    count: u64,
    element: u64,
    /// How many elements were visited.
    pub visited: u64,
}

impl Hopper {
    /// At the head of a list, with reads of `block`.
    ///
    /// # Errors
    /// [`EmError::Memory`].
    pub fn new(machine: &Machine<'_>, list: &StoredList, block: Bytes) -> Result<Hopper, EmError> {
        let (count, region) = (list.count(), list.successors.region().clone());
        let reads = BlockReads::new(machine, region, Bytes(8 * count), block, 3)?;
        Ok(Hopper { reads, count, element: list.head, visited: 0 })
    }

    /// Visits at most `most` elements more, and shows each with its rank to `see`. Whether the last one has no successor.
    ///
    /// # Errors
    /// Those of the IOs and of `see`; [`EmError::Damaged`] when an element's successor is none, or the list does not end.
    pub fn hop(
        &mut self,
        machine: &mut Machine<'_>,
        most: u64,
        see: &mut dyn FnMut(u64, u64) -> Result<(), EmError>,
    ) -> Result<bool, EmError> {
        for _ in 0..most {
            self.check()?;
            see(self.element, self.visited)?;
            self.visited += 1;
            let successor = self.reads.record::<u64>(machine, self.element)?;
            machine.compute(1);
            if successor == END {
                return Ok(true);
            }
            self.element = successor;
        }
        self.check()?;
        Ok(false)
    }

    /// Whether the next element can be one of the list.
    fn check(&self) -> Result<(), EmError> {
        let Hopper { count, element, visited, .. } = *self;
        if element < count && visited < count {
            return Ok(());
        }
        let reason = format!("element {element} follows {visited} others in a list of {count}");
        Err(EmError::Damaged { what: "the list", reason })
    }
}
