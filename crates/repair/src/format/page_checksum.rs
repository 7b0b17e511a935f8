//! The checksum of a page, in two parts: that of its data, and what its address and its record's sequence add.
//!
//! # Model
//! A CRC is linear. Its value over an address and the data behind it is the value over the data alone, from register 0, XOR the
//! register after the address, moved on by as many zero bits as the data has. So the data is read once, when the host writes it.
//! The first part then goes with the page through the open record and through packing, and only the second one is computed anew.
//! Data that changes in memory meanwhile no longer has its checksum.

use flashlab_base::Bytes;

use crate::format::record::address_checksum;

/// The part of the checksum that the data has.
#[inline]
pub(crate) fn data_checksum(data: &[u8]) -> u32 {
    // The CRC inverts its register at both ends: this begins with 0.
    crc32c::crc32c_append(u32::MAX, data)
}

/// Checksums of the pages of a volume.
pub(crate) struct PageChecksums {
    seed: u32,
    /// For each four bits of a register and each of their values: the register after a page of zeroes.
    advanced: [[u32; 16]; 8],
}

impl PageChecksums {
    /// For pages of this size, of the volume whose checksums begin with `seed`.
    pub fn new(seed: u32, page: Bytes) -> PageChecksums {
        let zeroes = vec![0; page.0 as usize];
        let after = |register: u32| !crc32c::crc32c_append(!register, &zeroes);
        let advanced =
            std::array::from_fn(|digit| std::array::from_fn(|value| after((value as u32) << (4 * digit))));
        PageChecksums { seed, advanced }
    }

    /// The checksum of a page in the record of this sequence.
    #[inline]
    pub fn of_page(&self, page: u64, sequence: u64, data_checksum: u32) -> u32 {
        let register = !address_checksum(self.seed, page, sequence);
        let digits = self.advanced.iter().enumerate();
        digits.fold(data_checksum, |sum, (digit, table)| sum ^ table[(register >> (4 * digit)) as usize % 16])
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;
    use crate::format::record::page_checksum;

    #[test]
    fn the_two_parts_make_the_checksum_over_address_and_data() {
        let mut random = Prng::new(Seed(3));
        for size in [4096, 65536] {
            let checksums = PageChecksums::new(77, Bytes(size));
            for _ in 0..100 {
                let data: Vec<u8> = (0..size).map(|_| random.next_u64() as u8).collect();
                let (page, sequence) = (random.next_u64() >> 16, random.next_u64());
                assert_eq!(
                    checksums.of_page(page, sequence, data_checksum(&data)),
                    page_checksum(77, page, sequence, &data)
                );
            }
        }
    }
}
