//! Aligned memory for IOs, made once and passed along with them.

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use flashlab_base::Bytes;

/// Aligned for every device's direct IO.
const ALIGNMENT: usize = 4096;
/// The size of a huge page on x86-64 and, with pages of 4 KiB, on ARM. Elsewhere the advice is without effect.
const HUGE_PAGE: usize = 2 << 20;

/// One zeroed, aligned allocation that [`Buffer`]s are cut from. It lives as long as the last one.
pub struct Arena {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the arena hands out no reference to its memory. Buffers do, each to a different range.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// `count` buffers of at least `size` bytes each, zeroed, aligned to 4 KiB, from one allocation. Large ones lie in huge
    /// pages if the system has them: direct IO pins each page of its buffer, which takes longer than a fast disk.
    pub fn buffers(count: usize, size: Bytes) -> Vec<Buffer> {
        let length = usize::try_from(size.0).expect("a buffer fits into the address space");
        if count == 0 || length == 0 {
            return (0..count).map(|_| Buffer::empty()).collect();
        }
        let stride = length.next_multiple_of(ALIGNMENT);
        let total = stride.checked_mul(count).expect("the buffers fit into the address space");
        let is_large = total >= HUGE_PAGE;
        let alignment = if is_large { HUGE_PAGE } else { ALIGNMENT };
        let layout =
            Layout::from_size_align(total, alignment).expect("the buffers fit into the address space");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc::alloc(layout) };
        let Some(start) = NonNull::new(start) else { alloc::handle_alloc_error(layout) };
        if is_large {
            // SAFETY: whole huge pages of the allocation. It is advice, whose refusal changes nothing.
            unsafe {
                libc::madvise(start.as_ptr().cast(), total / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE)
            };
        }
        // SAFETY: the allocation has `total` bytes.
        unsafe { start.write_bytes(0, total) };
        let arena = Arc::new(Arena { start, layout });
        (0..count)
            .map(|index| Buffer {
                // SAFETY: `index * stride + length` is at most `total`.
                start: unsafe { arena.start.add(index * stride) },
                length,
                _arena: Some(Arc::clone(&arena)),
            })
            .collect()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and no buffer is left.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// A part of an [`Arena`] that belongs to one owner at a time.
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
    _arena: Option<Arc<Arena>>,
}

// SAFETY: a buffer is the only way to its range of the arena.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A buffer without memory, for IOs that are only timed.
    pub const fn empty() -> Buffer {
        Buffer { start: NonNull::dangling(), length: 0, _arena: None }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is initialised, and ours while the arena lives, which is as long as we.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and no other buffer has this range.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeroed_and_apart() {
        let mut buffers = Arena::buffers(3, Bytes(5000));
        for (index, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(buffer.len(), 5000);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(index as u8 + 1);
        }
        let last = buffers.pop().unwrap();
        drop(buffers);
        assert!(last.iter().all(|&byte| byte == 3));
        assert!(Buffer::empty().is_empty());
    }
}
