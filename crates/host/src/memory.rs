//! Memory for a server whose disk may be the machine's swap space.
//!
//! # Model
//! If the kernel swaps a page out to the server's own disk, the page comes back only through the server. So
//! the server must not need such a page. [`keep_in_memory`] locks the pages of the process when it touches
//! them; untouched pages take no memory. [`Memory`] is a large private range. A memory file (memfd) would not
//! do: its pages belong to a file system, and the kernel may swap them out although the process is locked.
//!
//! # Invariants
//! - Memory that was never written, or was given back, reads as zeroes.

use std::fs;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use flashlab_base::Bytes;

use crate::system::checked;

/// A range of zeroes whose pages take memory when they are written.
pub struct Memory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns the range that it points to, and is borrowed as a slice is.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// A range of `size` bytes of address space; it may be larger than the memory of the machine.
    ///
    /// # Errors
    /// If the system cannot provide such a range.
    pub fn zeroes(size: Bytes) -> io::Result<Memory> {
        let length = usize::try_from(size.0).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        if length == 0 {
            return Ok(Memory { start: NonNull::dangling(), length });
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: asks for a range wherever the system has one.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A written page takes its own memory, not that of its 511 neighbours. An error means that the kernel
        // knows no huge pages. SAFETY: the range is this mapping; the advice changes no content.
        unsafe { libc::madvise(start, length, libc::MADV_NOHUGEPAGE) };
        let start = NonNull::new(start.cast()).expect("the system puts nothing at address 0");
        Ok(Memory { start, length })
    }

    /// Zeroes a range and gives its whole pages back to the system.
    ///
    /// # Panics
    /// If the range is not within this memory.
    pub fn zero(&mut self, offset: Bytes, size: Bytes) {
        const PAGE: usize = 4096;
        let range = &mut self[offset.0 as usize..][..size.0 as usize];
        let before = range.as_ptr().align_offset(PAGE).min(range.len());
        let (first, rest) = range.split_at_mut(before);
        let (pages, last) = rest.split_at_mut(rest.len() / PAGE * PAGE);
        first.fill(0);
        last.fill(0);
        if !give_back(pages) {
            pages.fill(0);
        }
    }
}

/// Whether the system took the pages back. They then read as zeroes.
fn give_back(pages: &mut [u8]) -> bool {
    // From linux/mman.h, since Linux 5.18: as MADV_DONTNEED, also for locked memory.
    const MADV_DONTNEED_LOCKED: libc::c_int = 24;
    let start = pages.as_mut_ptr().cast();
    // SAFETY: the pages are borrowed alone and are private anonymous memory, whose content becomes zeroes.
    let advise = |advice| unsafe { libc::madvise(start, pages.len(), advice) } == 0;
    advise(MADV_DONTNEED_LOCKED) || advise(libc::MADV_DONTNEED)
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped and readable until it is dropped.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and writable; nobody else has a slice of it while it is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the range was mapped by `zeroes`, and no slice of it lives.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

/// Prevents this process from waiting for memory that other programs have to write out first. Its
/// pages stay in memory, the kernel does no IO to find a page for it, and the kernel does not kill it when
/// memory is short. Call it before threads are started; they inherit it.
///
/// Returns what the system refused, in words. The process continues without it.
pub fn keep_in_memory() -> Vec<String> {
    let steps = [
        ("the server's memory is not locked", lock_memory()),
        ("when memory is short it may wait for IO", become_io_flusher()),
        ("when memory is short it may be killed", fs::write("/proc/self/oom_score_adj", "-1000")),
    ];
    let refused =
        |(what, result): (&str, io::Result<()>)| result.err().map(|error| format!("{what}: {error}"));
    steps.into_iter().filter_map(refused).collect()
}

fn lock_memory() -> io::Result<()> {
    // If the process has a limit, later allocations would be refused.
    if !may_lock_memory(&fs::read_to_string("/proc/self/status")?) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it needs CAP_IPC_LOCK, which root has"));
    }
    // Pages are locked when they are touched; reserved pages take no memory.
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: takes no pointers.
    checked(unsafe { libc::mlockall(flags) }).map(drop)
}

/// Whether `/proc/PID/status` contains the capability CAP_IPC_LOCK.
fn may_lock_memory(status: &str) -> bool {
    const CAP_IPC_LOCK: u64 = 14;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|capabilities| capabilities >> CAP_IPC_LOCK & 1 == 1)
}

fn become_io_flusher() -> io::Result<()> {
    // Of linux/prctl.h, since Linux 5.6.
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    const ON: libc::c_ulong = 1;
    const NOTHING: libc::c_ulong = 0;
    // SAFETY: changes a property of the calling thread, and takes no pointers.
    checked(unsafe { libc::prctl(PR_SET_IO_FLUSHER, ON, NOTHING, NOTHING, NOTHING) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_stays_until_it_is_zeroed() {
        let mut memory = Memory::zeroes(Bytes(5 * 4096 + 100)).unwrap();
        assert!(memory.iter().all(|&byte| byte == 0));
        for (offset, size) in [(0, 20580), (4096, 8192), (100, 50), (4000, 9000), (20479, 101), (7, 0)] {
            memory.fill(7);
            memory.zero(Bytes(offset), Bytes(size));
            let zeroed = offset as usize..(offset + size) as usize;
            let right = |(at, &byte): (usize, &u8)| byte == if zeroed.contains(&at) { 0 } else { 7 };
            assert!(memory.iter().enumerate().all(right), "{offset} {size}");
        }
        assert!(Memory::zeroes(Bytes(0)).unwrap().is_empty());
        assert!(Memory::zeroes(Bytes(u64::MAX)).is_err());
    }

    /// Resident memory of this process, in KiB.
    fn resident() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn untouched_memory_takes_none_and_zeroed_memory_goes_back_also_when_it_is_locked() {
        let mut memory = Memory::zeroes(Bytes::gib(64)).unwrap();
        let before = resident();
        if lock_memory().is_err() {
            println!("not locked: needs root");
        }
        // One range exists before the call, and one is made after it.
        let mut other = Memory::zeroes(Bytes::gib(1)).unwrap();
        other[..64 << 20].fill(1);
        memory[1 << 30..][..64 << 20].fill(1);
        let filled = resident();
        memory.zero(Bytes::gib(1), Bytes::mib(64));
        other.zero(Bytes(0), Bytes::mib(64));
        let zeroed = resident();
        // SAFETY: takes no pointers.
        unsafe { libc::munlockall() };
        // Other tests of this process run meanwhile: wide margins.
        assert!((100_000..1_000_000).contains(&(filled - before)), "{before} {filled}");
        assert!(zeroed < filled - 100_000, "{filled} {zeroed}");
    }

    #[test]
    fn the_capability_is_read_from_the_status() {
        assert!(may_lock_memory("Name:\tx\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n"));
        assert!(!may_lock_memory("CapEff:\t000001ffffffbfff\n"));
        assert!(!may_lock_memory("CapEff:\tmany\n"));
        assert!(!may_lock_memory(""));
    }
}
