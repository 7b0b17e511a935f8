//! Allocates large tables in huge pages of memory.
//!
//! # Model
//! The simulator reads tables of gigabytes at random. With pages of 4 KiB nearly every access walks the page
//! tables, which takes a quarter of its time. Linux can use pages of 2 MiB instead if the program asks for
//! them (`madvise`) before it touches the memory. If Linux has no huge pages, the table works as before.
//!
//! # Invariants
//! - The advice changes no content and no result. It must come before the memory is filled.

/// From this size on, huge pages are used: about the range that the TLB of a CPU covers with pages of 4 KiB.
const WORTH_IT: usize = 8 << 20;

/// `count` times `value`, in huge pages if it is large and the system has them.
pub fn vec_in_huge_pages<T: Clone>(value: T, count: usize) -> Vec<T> {
    let mut table = empty_vec_in_huge_pages(count);
    table.resize(count, value);
    table
}

/// `count` zeroes, in huge pages if they are many and the system has them. Memory is taken as it is touched.
pub fn zeroes_in_huge_pages(count: usize) -> Vec<u8> {
    let mut zeroes = vec![0; count];
    advise(&mut zeroes);
    zeroes
}

/// A table without entries that has memory for `count` of them, as [`vec_in_huge_pages`].
pub fn empty_vec_in_huge_pages<T>(count: usize) -> Vec<T> {
    let mut table = Vec::with_capacity(count);
    advise(table.spare_capacity_mut());
    table
}

#[cfg(target_os = "linux")]
fn advise<T>(memory: &mut [T]) {
    const PAGE: usize = 4096;
    let size = size_of_val(memory);
    if size < WORTH_IT {
        return;
    }
    let start = memory.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE);
    let length = size.saturating_sub(skipped) / PAGE * PAGE;
    // SAFETY: the range lies within `memory`, which is borrowed. The advice changes neither the content nor
    // the owner. An error means that the system has no huge pages, and needs no action.
    unsafe { libc::madvise(start.wrapping_add(skipped).cast(), length, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_memory: &mut [T]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_holds_its_value_whatever_its_size() {
        for count in [0, 1, WORTH_IT / 4 - 1, WORTH_IT / 4 + 1, 3 * WORTH_IT / 4 + 5] {
            let table = vec_in_huge_pages(7_u32, count);
            assert_eq!(table.len(), count);
            assert!(table.iter().all(|&value| value == 7), "{count}");
        }
    }
}
