//! Following a list: each element's read depends on the one before it.

use flashlab_base::{Bytes, Nanos};

use super::{END, StoredList};
use crate::block_reads::BlockReads;
use crate::error::EmError;
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
/// Those of the IOs and of `see`; [`EmError::Damaged`] when an element's successor is none, or the list does not end.
pub fn rank_by_hopping(
    workspace: &mut Workspace<'_, '_>,
    list: &StoredList,
    block: Bytes,
    most: u64,
    see: &mut dyn FnMut(u64, u64) -> Result<(), EmError>,
) -> Result<Hops, EmError> {
    let machine = &mut *workspace.machine;
    let length = Bytes(8 * list.count());
    let mut reads = BlockReads::new(machine, list.successors.region().clone(), length, block, 3)?;
    let begin = machine.now();
    let (mut element, mut visited) = (list.head, 0);
    let is_at_end = loop {
        if element >= list.count() || visited == list.count() {
            let reason = format!("element {element} follows {visited} others in a list of {}", list.count());
            return Err(EmError::Damaged { what: "the list", reason });
        }
        see(element, visited)?;
        visited += 1;
        if visited >= most && most < list.count() {
            break false;
        }
        let successor = reads.record::<u64>(machine, element)?;
        machine.compute(1);
        if successor == END {
            break true;
        }
        element = successor;
    };
    Ok(Hops { visited, is_at_end, time: machine.now().since(begin) })
}
