//! The victim of garbage collection: which closed block is collected next.
//!
//! # Model
//! Each closed block belongs to a pool, and a victim is chosen within one pool.
//! - Greedy takes a block with the fewest valid pages. Cost-benefit takes the block with the highest age (1 - u) / 2u, where
//!   u is the share of valid pages (Rosenblum and Ousterhout 1992, section 3.5). Both keep one list of blocks for each
//!   number of valid pages. A block goes to the end of a list when its number changes. So each list is sorted by the
//!   time of the last change, and cost-benefit compares only the heads of the lists.
//! - First in, first out keeps a queue of the blocks.
//! - Random choices keep the blocks in any order, and take the one with the fewest valid pages of a few random ones.
//!
//! # Invariants
//! - an open block is in no pool, and a closed one in exactly one;
//! - the choice depends on the order of the calls and on the seed only.

use std::collections::VecDeque;

use flashlab_base::{Prng, Seed};
use flashlab_device::vec_in_huge_pages;
use serde::{Deserialize, Serialize};

use crate::flash::{EraseBlock, FlashGeometry, numbers};
use crate::layer::options::ensure;

/// How a victim is chosen among the closed blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The one with the fewest valid pages.
    #[default]
    Greedy,
    /// The one that was closed first.
    Fifo,
    /// The one with the best ratio of benefit (free pages times age) to cost (pages to copy).
    CostBenefit,
    /// The one with the fewest valid pages among this many chosen at random.
    Choices(u32),
}

numbers! {
    /// A pool of blocks, by its number.
    pub(super) PoolIndex,
}

const NONE: EraseBlock = EraseBlock::NONE;
/// The pool of a block that is in none.
const OPEN: PoolIndex = PoolIndex(u32::MAX);

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    valid: u32,
    pool: PoolIndex,
    /// Lists: the block after it.
    next: EraseBlock,
    /// Lists: the block before it.
    previous: EraseBlock,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Pool {
    /// Lists: the first and the last block with each number of valid pages. There is none with fewer than `fewest`.
    lists: Vec<(EraseBlock, EraseBlock)>,
    fewest: u32,
    /// First in, first out.
    queue: VecDeque<EraseBlock>,
    /// Choices.
    members: Vec<EraseBlock>,
}

/// The number of valid pages of all blocks, and the pools of the closed blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Victims {
    policy: VictimPolicy,
    pages_per_block: u32,
    entries: Vec<Entry>,
    pools: Vec<Pool>,
    /// Choices, by block: its index in its pool's `members`.
    member_index: Vec<u32>,
    /// Cost-benefit, by block: when its number of valid pages changed last, in changes.
    changed: Vec<u64>,
    changes: u64,
    random: Prng,
}

impl Victims {
    /// `blocks` open blocks without valid pages, for `pools` pools.
    pub(super) fn new(
        policy: VictimPolicy,
        blocks: u32,
        pages_per_block: u32,
        pools: u32,
        seed: Seed,
    ) -> Victims {
        let lists = match policy {
            VictimPolicy::Greedy | VictimPolicy::CostBenefit => {
                vec![(NONE, NONE); pages_per_block as usize + 1]
            }
            VictimPolicy::Fifo | VictimPolicy::Choices(_) => Vec::new(),
        };
        let pool = Pool { lists, fewest: pages_per_block, ..Pool::default() };
        let entry = Entry { valid: 0, pool: OPEN, next: NONE, previous: NONE };
        let by_block = |is_used| if is_used { blocks as usize } else { 0 };
        Victims {
            policy,
            pages_per_block,
            entries: vec_in_huge_pages(entry, blocks as usize),
            pools: vec![pool; pools as usize],
            member_index: vec![0; by_block(matches!(policy, VictimPolicy::Choices(_)))],
            changed: vec![0; by_block(policy == VictimPolicy::CostBenefit)],
            changes: 0,
            random: Prng::new(seed),
        }
    }

    /// How much memory they take.
    pub(super) fn bytes(&self) -> usize {
        let of_pool = |pool: &Pool| {
            pool.lists.capacity() * size_of::<(EraseBlock, EraseBlock)>()
                + (pool.queue.capacity() + pool.members.capacity()) * size_of::<EraseBlock>()
        };
        self.entries.capacity() * size_of::<Entry>()
            + self.member_index.capacity() * size_of::<u32>()
            + self.changed.capacity() * size_of::<u64>()
            + self.pools.iter().map(of_pool).sum::<usize>()
    }

    /// The number of valid pages of a block.
    #[inline]
    pub(super) fn valid(&self, block: EraseBlock) -> u32 {
        self.entries[block.index()].valid
    }

    /// Checks these, which were read from outside bytes, against the policy, the array and the number of pools.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub(super) fn check(
        &self,
        policy: VictimPolicy,
        geometry: &FlashGeometry,
        pools: usize,
    ) -> Result<(), String> {
        let blocks = geometry.blocks() as usize;
        let lists = if self.uses_lists() { geometry.pages_per_block() as usize + 1 } else { 0 };
        let right = self.policy == policy
            && self.pages_per_block == geometry.pages_per_block()
            && self.entries.len() == blocks
            && self.member_index.len() == if matches!(policy, VictimPolicy::Choices(_)) { blocks } else { 0 }
            && self.changed.len() == if policy == VictimPolicy::CostBenefit { blocks } else { 0 }
            && self.pools.len() == pools
            && self.pools.iter().all(|pool| pool.lists.len() == lists);
        ensure(right, || "the pools of blocks are those of another device".to_owned())?;
        // Half of the clock's range is more than any device lives.
        let times_passed =
            self.changes < u64::MAX / 2 && self.changed.iter().all(|&changed| changed <= self.changes);
        ensure(times_passed, || "a block changed in the future".to_owned())?;
        let mut closed = 0;
        for (number, pool) in (0..).map(PoolIndex).zip(&self.pools) {
            let members =
                self.members(pool, number).ok_or(format!("pool {number} of blocks is in disorder"))?;
            closed += members;
        }
        let marked = self.entries.iter().filter(|entry| entry.pool != OPEN).count();
        ensure(closed == marked, || format!("{marked} blocks are closed and {closed} are in a pool"))
    }

    /// The number of blocks of a pool; `None` if one of them does not belong there, or is in it twice.
    fn members(&self, pool: &Pool, number: PoolIndex) -> Option<usize> {
        let own = |block: EraseBlock| self.entries.get(block.index()).filter(|entry| entry.pool == number);
        let mut members = 0;
        for (valid, &(first, last)) in (0..).zip(&pool.lists) {
            let (mut block, mut previous) = (first, NONE);
            while block != NONE {
                let entry = own(block).filter(|entry| (entry.valid, entry.previous) == (valid, previous))?;
                (previous, block) = (block, entry.next);
                members += 1;
            }
            if previous != last || (first != NONE && valid < pool.fewest) {
                return None;
            }
        }
        for (index, &block) in (0..).zip(&pool.members) {
            own(block).filter(|_| self.member_index.get(block.index()) == Some(&index))?;
        }
        let mut queue: Vec<EraseBlock> = pool.queue.iter().copied().collect();
        queue.sort_unstable();
        let each_once = queue.windows(2).all(|pair| pair[0] != pair[1]);
        let right = each_once && queue.iter().all(|&block| own(block).is_some());
        let kinds = [members, pool.members.len(), queue.len()];
        (right && kinds.iter().filter(|&&count| count > 0).count() <= 1).then(|| kinds.iter().sum())
    }

    /// The policy.
    pub(super) fn policy(&self) -> VictimPolicy {
        self.policy
    }

    /// Notes that an open block was erased.
    pub(super) fn empty(&mut self, block: EraseBlock) {
        debug_assert!(!self.is_closed(block));
        self.entries[block.index()].valid = 0;
    }

    /// Whether a block is closed.
    pub(super) fn is_closed(&self, block: EraseBlock) -> bool {
        self.entries[block.index()].pool != OPEN
    }

    /// The pool of a closed block.
    pub(super) fn pool(&self, block: EraseBlock) -> PoolIndex {
        self.entries[block.index()].pool
    }

    /// Notes that `pages` pages of an open block became valid.
    #[inline]
    pub(super) fn add(&mut self, block: EraseBlock, pages: u32) {
        self.entries[block.index()].valid += pages;
    }

    /// Loads the entries that [`Victims::remove`] changes in addition to the block's own; see [`Layer::prefetch`](crate::layer::Layer::prefetch).
    #[inline]
    pub(super) fn prefetch_neighbours(&self, block: EraseBlock) -> u32 {
        let Entry { next, previous, .. } = self.entries[block.index()];
        [next, previous]
            .into_iter()
            .filter_map(|neighbour| self.entries.get(neighbour.index()))
            .fold(0, |sum, entry| sum ^ entry.valid)
    }

    /// Notes that a page of a block is not valid any more.
    #[inline]
    pub(super) fn remove(&mut self, block: EraseBlock) {
        let entry = self.entries[block.index()];
        if entry.pool == OPEN || !self.uses_lists() {
            self.entries[block.index()].valid = entry.valid - 1;
            return;
        }
        self.unlink(block, entry);
        self.entries[block.index()].valid = entry.valid - 1;
        self.link(block, entry.pool);
    }

    /// Puts a full block into a pool: from now on it can be chosen.
    pub(super) fn close(&mut self, block: EraseBlock, pool: PoolIndex) {
        debug_assert!(!self.is_closed(block));
        match self.policy {
            VictimPolicy::Greedy | VictimPolicy::CostBenefit => self.link(block, pool),
            VictimPolicy::Fifo => self.pools[pool.index()].queue.push_back(block),
            VictimPolicy::Choices(_) => {
                let members = &mut self.pools[pool.index()].members;
                self.member_index[block.index()] = members.len() as u32;
                members.push(block);
            }
        }
        self.entries[block.index()].pool = pool;
    }

    /// Takes a closed block out of its pool: it is not chosen any more.
    pub(super) fn open(&mut self, block: EraseBlock) {
        let entry = self.entries[block.index()];
        match self.policy {
            VictimPolicy::Greedy | VictimPolicy::CostBenefit => self.unlink(block, entry),
            VictimPolicy::Fifo => self.pools[entry.pool.index()].queue.retain(|&other| other != block),
            VictimPolicy::Choices(_) => {
                let members = &mut self.pools[entry.pool.index()].members;
                let index = self.member_index[block.index()];
                members.swap_remove(index as usize);
                if let Some(&last) = members.get(index as usize) {
                    self.member_index[last.index()] = index;
                }
            }
        }
        self.entries[block.index()].pool = OPEN;
    }

    /// Takes the next victim of a pool out of it; `None` when the pool is empty.
    pub(super) fn take(&mut self, pool: PoolIndex) -> Option<EraseBlock> {
        let block = match self.policy {
            VictimPolicy::Greedy => self.fewest_valid(pool)?,
            VictimPolicy::CostBenefit => self.best_benefit(pool)?,
            VictimPolicy::Fifo => {
                let block = self.pools[pool.index()].queue.pop_front()?;
                self.entries[block.index()].pool = OPEN;
                return Some(block);
            }
            VictimPolicy::Choices(choices) => self.best_of(pool, choices)?,
        };
        self.open(block);
        Some(block)
    }

    fn uses_lists(&self) -> bool {
        matches!(self.policy, VictimPolicy::Greedy | VictimPolicy::CostBenefit)
    }

    fn fewest_valid(&mut self, pool: PoolIndex) -> Option<EraseBlock> {
        let pool = &mut self.pools[pool.index()];
        while pool.fewest <= self.pages_per_block {
            let (head, _) = pool.lists[pool.fewest as usize];
            if head != NONE {
                return Some(head);
            }
            pool.fewest += 1;
        }
        pool.fewest = self.pages_per_block;
        None
    }

    fn best_benefit(&mut self, pool: PoolIndex) -> Option<EraseBlock> {
        let start = self.fewest_valid(pool).map(|block| self.valid(block))?;
        let heads = self.pools[pool.index()].lists[start as usize..].iter().map(|&(head, _)| head);
        let mut best = None;
        for head in heads.filter(|&head| head != NONE) {
            let used = f64::from(self.valid(head)) / f64::from(self.pages_per_block);
            let age = (self.changes - self.changed[head.index()]) as f64 + 1.0;
            // A block without valid pages costs no copy: its ratio is infinite.
            let benefit = age * (1.0 - used) / (2.0 * used);
            if best.is_none_or(|(_, other)| benefit > other) {
                best = Some((head, benefit));
            }
        }
        best.map(|(block, _)| block)
    }

    fn best_of(&mut self, pool: PoolIndex, choices: u32) -> Option<EraseBlock> {
        let members = &self.pools[pool.index()].members;
        let count = members.len() as u64;
        if count == 0 {
            return None;
        }
        (0..choices.max(1))
            .map(|_| members[self.random.below(count) as usize])
            .min_by_key(|&block| self.entries[block.index()].valid)
    }

    #[inline]
    fn unlink(&mut self, block: EraseBlock, entry: Entry) {
        let list = &mut self.pools[entry.pool.index()].lists[entry.valid as usize];
        if entry.previous == NONE {
            list.0 = entry.next;
        } else {
            self.entries[entry.previous.index()].next = entry.next;
        }
        if entry.next == NONE {
            list.1 = entry.previous;
        } else {
            self.entries[entry.next.index()].previous = entry.previous;
        }
        debug_assert!(list.0 != block && list.1 != block);
    }

    #[inline]
    fn link(&mut self, block: EraseBlock, pool_number: PoolIndex) {
        let valid = self.entries[block.index()].valid;
        let pool = &mut self.pools[pool_number.index()];
        let list = &mut pool.lists[valid as usize];
        let last = list.1;
        list.1 = block;
        if last == NONE {
            list.0 = block;
        }
        pool.fewest = pool.fewest.min(valid);
        if last != NONE {
            self.entries[last.index()].next = block;
        }
        let entry = &mut self.entries[block.index()];
        (entry.previous, entry.next) = (last, NONE);
        if self.policy == VictimPolicy::CostBenefit {
            self.changes += 1;
            self.changed[block.index()] = self.changes;
        }
    }
}
