//! List ranking by sorting: elements are removed until the list fits into memory, and inserted again.
//!
//! # Model
//! Chiang et al., "External-memory graph algorithms" (SODA 1995): an independent set is removed from the list, the shorter
//! list is ranked, and the removed elements get the rank of their successor plus the weight between them. Which elements
//! are removed follows from coins: those that show heads before one that shows tails, a quarter on average. So the work is
//! that of sorting 4 N elements in all.
//!
//! # Method
//! A list element is (element, successor, weight), sorted by element.
//! 1. Contract: removed elements go to a set of the round. Elements whose successor may be removed are sorted by successor and
//!    joined with that set: they take over the successor's successor.
//! 2. What fits into memory is ranked there, as the distance to the end.
//! 3. Expand, in reverse order: a round's set is sorted by successor, joined with the distances, sorted by element, and
//!    merged with them.
//! 4. A last pass turns distances to the end into ranks.

use flashlab_base::{Bytes, Seed};

use super::{END, StoredList};
use crate::collection::{Collected, Collection, CollectionOrder, Peek};
use crate::error::EmError;
use crate::extent::Spread;
use crate::graph::NO_NODE;
use crate::machine::Machine;
use crate::records::{Pair, RecordReader, Stored, Triple, Workspace};

/// The memory that an element takes while it is ranked in memory: itself, its place and its mark.
pub(super) const IN_MEMORY: u64 = 32;

/// The ranks of a list.
pub struct Ranking {
    /// The rank of each element, by element.
    pub ranks: Stored<u32>,
    /// How many rounds of contraction there were.
    pub rounds: u32,
}

/// Ranks a list by sorting; what is written goes to `spread`.
///
/// # Errors
/// Those of the IOs, [`EmError::Memory`], [`EmError::Space`], and [`EmError::Damaged`] when it is not one list.
pub fn rank_by_contraction(
    workspace: &mut Workspace<'_, '_>,
    list: &StoredList,
    spread: Spread,
    seed: Seed,
) -> Result<Ranking, EmError> {
    let share = Bytes(workspace.machine.budget().limit().0 / 8);
    let work = Contraction { share, spread, seed };
    let mut removed = Vec::new();
    let mut left = Left::All;
    let mut count = list.count();
    while count > (2 * share.0 / IN_MEMORY).max(1) {
        let round = removed.len() as u64;
        let (kept, set) = work.contract(workspace, list, &left, round)?;
        if set.count() == 0 && round > 64 {
            return Err(not_one_list(format!("{count} elements do not get fewer")));
        }
        count = kept.count();
        std::mem::replace(&mut left, Left::Some(kept)).free(workspace);
        removed.push(set);
    }
    let rounds = removed.len() as u32;
    let mut distances = work.rank_in_memory(workspace, list, &left, count)?;
    left.free(workspace);
    while let Some(set) = removed.pop() {
        distances = work.expand(workspace, distances, set)?;
    }
    let ranks = work.ranks(workspace, distances, list.count())?;
    Ok(Ranking { ranks, rounds })
}

fn not_one_list(reason: String) -> EmError {
    EmError::Damaged { what: "the list", reason }
}

/// The list that is left: at first all of it, as it is stored; later two sorted parts.
enum Left {
    All,
    Some(Kept),
}

/// Elements that were kept: those that a round did not change, and those that it did.
struct Kept {
    same: Collected<Triple>,
    changed: Collected<Triple>,
}

impl Kept {
    fn count(&self) -> u64 {
        self.same.count() + self.changed.count()
    }
}

impl Left {
    fn free(self, workspace: &mut Workspace<'_, '_>) {
        if let Left::Some(kept) = self {
            kept.same.free(workspace);
            kept.changed.free(workspace);
        }
    }

    fn elements(&self, workspace: &mut Workspace<'_, '_>, list: &StoredList) -> Result<Elements, EmError> {
        Ok(match self {
            Left::All => Elements::All(workspace.read(&list.successors)?, 0),
            Left::Some(kept) => {
                let same = Box::new(Peek::new(kept.same.cursor(workspace)?));
                Elements::Merged(same, Box::new(Peek::new(kept.changed.cursor(workspace)?)))
            }
        })
    }
}

/// Yields elements with their successors and weights, by element.
enum Elements {
    All(RecordReader<u64>, u32),
    Merged(Box<Peek<Triple>>, Box<Peek<Triple>>),
}

impl Elements {
    fn next(&mut self, machine: &mut Machine<'_>) -> Result<Option<Triple>, EmError> {
        match self {
            Elements::All(successors, element) => {
                let Some(successor) = successors.next(machine)? else { return Ok(None) };
                let first = *element;
                *element += 1;
                let (second, third) = match u32::try_from(successor) {
                    Ok(second) => (second, 1),
                    Err(_) if successor == END => (NO_NODE, 0),
                    Err(_) => {
                        return Err(not_one_list(format!("element {first} is followed by {successor}")));
                    }
                };
                Ok(Some(Triple { first, second, third }))
            }
            Elements::Merged(one, other) => match (one.peek(machine)?, other.peek(machine)?) {
                (Some(a), Some(b)) if b.first < a.first => other.next(machine),
                (Some(_), _) => one.next(machine),
                _ => other.next(machine),
            },
        }
    }
}

struct Contraction {
    share: Bytes,
    spread: Spread,
    seed: Seed,
}

impl Contraction {
    fn collection<T: crate::records::Record>(
        &self,
        workspace: &Workspace<'_, '_>,
        order: CollectionOrder,
    ) -> Result<Collection<T>, EmError> {
        Collection::new(workspace, order, self.share, self.spread)
    }

    /// Removes an independent set; what is kept, and the set.
    fn contract(
        &self,
        workspace: &mut Workspace<'_, '_>,
        list: &StoredList,
        left: &Left,
        round: u64,
    ) -> Result<(Kept, Collected<Triple>), EmError> {
        let coins = self.seed.derive("coins", round).0;
        let heads = |element: u32| {
            let mixed = (u64::from(element) ^ coins).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 63 == 1
        };
        let mut same = self.collection(workspace, CollectionOrder::Kept)?;
        let mut set = self.collection(workspace, CollectionOrder::Kept)?;
        let mut asking = self.collection(workspace, CollectionOrder::Sorted)?;
        let mut elements = left.elements(workspace, list)?;
        while let Some(element) = elements.next(workspace.machine)? {
            let Triple { first, second: successor, third } = element;
            if successor == NO_NODE {
                same.push(workspace, element)?;
            } else if heads(first) && !heads(successor) {
                set.push(workspace, element)?;
            } else if heads(successor) {
                asking.push(workspace, Triple { first: successor, second: first, third })?;
            } else {
                same.push(workspace, element)?;
            }
        }
        drop(elements);
        let (same, set, asking) =
            (same.finish(workspace)?, set.finish(workspace)?, asking.finish(workspace)?);
        let mut changed = self.collection(workspace, CollectionOrder::Sorted)?;
        let mut cursor = asking.cursor(workspace)?;
        let mut gone = Peek::new(set.cursor(workspace)?);
        while let Some(Triple { first: successor, second: first, third }) = cursor.next(workspace.machine)? {
            let element = match gone.seek(workspace.machine, successor, |gone| gone.first)? {
                Some(gone) => Triple { first, second: gone.second, third: third + gone.third },
                None => Triple { first, second: successor, third },
            };
            changed.push(workspace, element)?;
        }
        drop((cursor, gone));
        asking.free(workspace);
        Ok((Kept { same, changed: changed.finish(workspace)? }, set))
    }

    /// The distance of each element of a short list from its end, by element.
    fn rank_in_memory(
        &self,
        workspace: &mut Workspace<'_, '_>,
        list: &StoredList,
        left: &Left,
        count: u64,
    ) -> Result<Collected<Pair>, EmError> {
        let _lease = workspace.machine.budget().lease(Bytes(IN_MEMORY * count), "a list in memory")?;
        let mut elements = Vec::with_capacity(count as usize);
        let mut cursor = left.elements(workspace, list)?;
        while let Some(element) = cursor.next(workspace.machine)? {
            elements.push(element);
        }
        drop(cursor);
        let distances = distances_to_the_end(&elements)?;
        workspace.machine.compute(count);
        let mut ranked = self.collection(workspace, CollectionOrder::Kept)?;
        for (element, second) in elements.iter().zip(distances) {
            ranked.push(workspace, Pair { first: element.first, second })?;
        }
        ranked.finish(workspace)
    }

    /// Adds a round's set to the distances.
    fn expand(
        &self,
        workspace: &mut Workspace<'_, '_>,
        distances: Collected<Pair>,
        set: Collected<Triple>,
    ) -> Result<Collected<Pair>, EmError> {
        let mut asking = self.collection(workspace, CollectionOrder::Sorted)?;
        let mut cursor = set.cursor(workspace)?;
        while let Some(Triple { first, second: successor, third }) = cursor.next(workspace.machine)? {
            asking.push(workspace, Triple { first: successor, second: first, third })?;
        }
        drop(cursor);
        set.free(workspace);
        let asking = asking.finish(workspace)?;
        let mut found = self.collection(workspace, CollectionOrder::Sorted)?;
        let mut known = Peek::new(distances.cursor(workspace)?);
        let mut cursor = asking.cursor(workspace)?;
        while let Some(Triple { first: successor, second: first, third }) = cursor.next(workspace.machine)? {
            let Some(known) = known.seek(workspace.machine, successor, |known| known.first)? else {
                return Err(not_one_list(format!(
                    "element {first} is followed by {successor}, which is none"
                )));
            };
            found.push(workspace, Pair { first, second: known.second + third as u32 })?;
        }
        drop((cursor, known));
        asking.free(workspace);
        let found = found.finish(workspace)?;
        let mut all = self.collection(workspace, CollectionOrder::Kept)?;
        let mut one = Peek::new(distances.cursor(workspace)?);
        let mut other = Peek::new(found.cursor(workspace)?);
        loop {
            let pair = match (one.peek(workspace.machine)?, other.peek(workspace.machine)?) {
                (Some(a), Some(b)) if b < a => other.next(workspace.machine)?,
                (Some(_), _) => one.next(workspace.machine)?,
                _ => other.next(workspace.machine)?,
            };
            let Some(pair) = pair else { break };
            all.push(workspace, pair)?;
        }
        drop((one, other));
        distances.free(workspace);
        found.free(workspace);
        all.finish(workspace)
    }

    /// Turns distances to the end into ranks, by element.
    fn ranks(
        &self,
        workspace: &mut Workspace<'_, '_>,
        distances: Collected<Pair>,
        count: u64,
    ) -> Result<Stored<u32>, EmError> {
        let mut ranks = workspace.write(count, self.spread)?;
        let mut cursor = distances.cursor(workspace)?;
        while let Some(Pair { second: distance, .. }) = cursor.next(workspace.machine)? {
            let Some(rank) = (count as u32 - 1).checked_sub(distance) else {
                return Err(not_one_list(format!("an element is {distance} before the end of {count}")));
            };
            ranks.push(workspace.machine, rank)?;
        }
        drop(cursor);
        distances.free(workspace);
        ranks.finish(workspace.machine)
    }
}

/// The distance of each element from the end, for elements sorted by element.
fn distances_to_the_end(elements: &[Triple]) -> Result<Vec<u32>, EmError> {
    let place = |element: u32| {
        let found = elements.binary_search_by_key(&element, |element| element.first);
        found.map_err(|_| not_one_list(format!("{element} follows an element and is none")))
    };
    let mut is_followed = vec![false; elements.len()];
    for element in elements.iter().filter(|element| element.second != NO_NODE) {
        is_followed[place(element.second)?] = true;
    }
    let Some(head) = is_followed.iter().position(|&is_followed| !is_followed) else {
        return Err(not_one_list("it has no head".to_owned()));
    };
    let mut path = vec![head];
    while let Some(&last) = path.last()
        && elements[last].second != NO_NODE
    {
        if path.len() == elements.len() {
            return Err(not_one_list("it does not end".to_owned()));
        }
        path.push(place(elements[last].second)?);
    }
    if path.len() < elements.len() {
        let (reached, all) = (path.len(), elements.len());
        return Err(not_one_list(format!("its end is {reached} elements from its head, of {all}")));
    }
    let mut distances = vec![0; elements.len()];
    let mut distance = 0u64;
    for &at in path.iter().rev() {
        distance += elements[at].third;
        distances[at] = distance as u32;
    }
    Ok(distances)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_and_two_lists_are_no_list() {
        let element = |first, second, third| Triple { first, second, third };
        let refused = |elements: &[Triple]| distances_to_the_end(elements).unwrap_err().to_string();
        assert_eq!(distances_to_the_end(&[element(3, 9, 2), element(9, NO_NODE, 0)]).unwrap(), [2, 0]);
        assert_eq!(refused(&[element(0, 1, 1), element(1, 0, 1)]), "the list is damaged: it has no head");
        assert_eq!(
            refused(&[element(0, NO_NODE, 0), element(1, NO_NODE, 0)]),
            "the list is damaged: its end is 1 elements from its head, of 2"
        );
        assert_eq!(refused(&[element(0, 5, 1)]), "the list is damaged: 5 follows an element and is none");
        assert_eq!(
            refused(&[element(0, 1, 1), element(1, 2, 1), element(2, 1, 1)]),
            "the list is damaged: it does not end"
        );
    }
}
