//! The internal memory of the machine: M of the external-memory model (Aggarwal and Vitter, CACM 1988), in bytes.
//!
//! # Invariants
//! - Every buffer and table whose size grows with the input or the memory is leased here before it is made.
//! - The leases together never exceed the limit; what does not fit is an error, not an assertion.

use std::cell::Cell;
use std::rc::Rc;

use flashlab_base::Bytes;
use flashlab_device::{Arena, Buffer};

use crate::error::EmError;

/// Buffers are aligned to this, so each takes a multiple of it ([`Arena::buffers`]).
const ALIGNMENT: Bytes = Bytes::kib(4);

/// How much memory an algorithm may use, and how much of it is in use. Clones share the account.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    account: Rc<Account>,
}

#[derive(Debug)]
struct Account {
    limit: u64,
    used: Cell<u64>,
    peak: Cell<u64>,
}

/// Memory that is in use until this is dropped.
#[derive(Debug)]
pub struct MemoryLease {
    account: Rc<Account>,
    size: u64,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: Bytes) -> MemoryBudget {
        MemoryBudget { account: Rc::new(Account { limit: limit.0, used: Cell::new(0), peak: Cell::new(0) }) }
    }

    /// The whole budget.
    pub fn limit(&self) -> Bytes {
        Bytes(self.account.limit)
    }

    /// What is not leased.
    pub fn left(&self) -> Bytes {
        Bytes(self.account.limit - self.account.used.get())
    }

    /// The most that was leased at one time.
    pub fn peak(&self) -> Bytes {
        Bytes(self.account.peak.get())
    }

    /// Leases `size` bytes for `purpose`, a noun phrase for the error.
    ///
    /// # Errors
    /// [`EmError::Memory`] when less is left.
    pub fn lease(&self, size: Bytes, purpose: &'static str) -> Result<MemoryLease, EmError> {
        if size > self.left() {
            let (left, limit) = (self.left(), self.limit());
            return Err(EmError::Memory { purpose, needed: size, left, limit });
        }
        let used = self.account.used.get() + size.0;
        self.account.used.set(used);
        self.account.peak.set(self.account.peak.get().max(used));
        Ok(MemoryLease { account: Rc::clone(&self.account), size: size.0 })
    }

    /// Leases and makes `count` buffers of `size` bytes. The lease has to live as long as the buffers.
    ///
    /// # Errors
    /// [`EmError::Memory`] when less is left.
    pub fn buffers(
        &self,
        count: usize,
        size: Bytes,
        purpose: &'static str,
    ) -> Result<(Vec<Buffer>, MemoryLease), EmError> {
        let total = MemoryBudget::buffer_size(size).0.saturating_mul(count as u64);
        let lease = self.lease(Bytes(total), purpose)?;
        Ok((Arena::buffers(count, size), lease))
    }

    /// What a buffer of `size` takes.
    pub fn buffer_size(size: Bytes) -> Bytes {
        size.round_up(ALIGNMENT)
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.account.used.set(self.account.used.get() - self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leases_never_exceed_the_limit() {
        let budget = MemoryBudget::new(Bytes::kib(10));
        let first = budget.lease(Bytes::kib(6), "a heap").unwrap();
        let error = budget.buffers(1, Bytes(4097), "a writer").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a writer needs 8 KiB of memory, and 4 KiB of 10 KiB are left: give more memory"
        );
        let (buffers, second) = budget.buffers(1, Bytes(4000), "a writer").unwrap();
        assert_eq!((buffers.len(), budget.left()), (1, Bytes::ZERO));
        drop((first, second));
        assert_eq!((budget.left(), budget.peak()), (Bytes::kib(10), Bytes::kib(10)));
    }
}
