//! Runs of bits in a vector of words.

/// Calls `each` with the number of every set bit among `count` bits from `first` on.
#[inline]
pub(in crate::layer) fn for_each_set(bits: &[u64], first: u32, count: u32, mut each: impl FnMut(u32)) {
    let (mut at, end) = (first, first + count);
    while at < end {
        let (word, bit) = (at / 64, at % 64);
        let here = (64 - bit).min(end - at);
        let mut set = (bits[word as usize] >> bit) & mask(here);
        while set != 0 {
            each(at + set.trailing_zeros());
            set &= set - 1;
        }
        at += here;
    }
}

#[inline]
pub(in crate::layer) fn set_bits(bits: &mut [u64], first: u32, count: u32) {
    change_bits(first, count, |word, mask| bits[word] |= mask);
}

#[inline]
pub(in crate::layer) fn clear_bits(bits: &mut [u64], first: u32, count: u32) {
    change_bits(first, count, |word, mask| bits[word] &= !mask);
}

#[inline]
fn change_bits(first: u32, count: u32, mut change: impl FnMut(usize, u64)) {
    let (mut at, end) = (first, first + count);
    while at < end {
        let bit = at % 64;
        let here = (64 - bit).min(end - at);
        change(at as usize / 64, mask(here) << bit);
        at += here;
    }
}

#[inline]
fn mask(bits: u32) -> u64 {
    if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
}
