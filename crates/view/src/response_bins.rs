//! The bins of response times: sixteen to an octave, so that a bin's edges are 4.4 % apart.
//!
//! # Model
//! Bin `16 p + j` has the response times `ns` whose highest bit is bit `p` and whose mantissa `ns / 2^p` lies in
//! `[2^(j/16), 2^((j+1)/16))`. A response time of 0 ns is in bin 0.
//!
//! # Invariants
//! - [`ResponseBins::lower_edge`] is the smallest response time of its bin: a query of the samples with these edges counts the same IOs.

/// Bins to an octave.
pub const PER_OCTAVE: usize = 16;
/// All bins that a 64-bit number of nanoseconds can be in.
pub const BIN_COUNT: usize = 64 * PER_OCTAVE;

/// The number of a bin.
pub type ResponseBin = u16;

/// The edges of the bins.
pub struct ResponseBins {
    /// The smallest mantissa of each sixteenth, with its highest bit at bit 63, and one more that nothing reaches.
    thresholds: [u64; PER_OCTAVE + 1],
    /// For the eight bits after the highest one: the sixteenth of the smallest such mantissa.
    guesses: [u8; 256],
}

impl Default for ResponseBins {
    fn default() -> ResponseBins {
        let mut thresholds = [u64::MAX; PER_OCTAVE + 1];
        for (index, threshold) in thresholds.iter_mut().take(PER_OCTAVE).enumerate() {
            let mantissa = (index as f64 / PER_OCTAVE as f64).exp2();
            // 53 bits are exact in a float; the lower bits of a threshold are zero.
            *threshold = ((mantissa * (1_u64 << 52) as f64).ceil() as u64) << 11;
        }
        let mut guesses = [0; 256];
        for (index, guess) in guesses.iter_mut().enumerate() {
            let smallest = (1 << 63) | ((index as u64) << 55);
            *guess = (thresholds.iter().filter(|&&threshold| threshold <= smallest).count() - 1) as u8;
        }
        ResponseBins { thresholds, guesses }
    }
}

impl ResponseBins {
    /// The bin of a response time.
    #[inline]
    pub fn bin(&self, response_ns: u64) -> ResponseBin {
        let response_ns = response_ns.max(1);
        let zeros = response_ns.leading_zeros();
        let mantissa = response_ns << zeros;
        let guess = usize::from(self.guesses[(mantissa >> 55) as usize & 0xff]);
        // A step of the eight bits is narrower than a sixteenth, so that at most one threshold lies within it.
        let sixteenth = guess + usize::from(mantissa >= self.thresholds[guess + 1]);
        ((63 - zeros) as usize * PER_OCTAVE + sixteenth.min(PER_OCTAVE - 1)) as ResponseBin
    }

    /// The smallest response time of a bin, in nanoseconds; of a bin that has none, that of the next one that has some.
    pub fn lower_edge(&self, bin: ResponseBin) -> u64 {
        let (octave, sixteenth) = (usize::from(bin) / PER_OCTAVE, usize::from(bin) % PER_OCTAVE);
        match (bin, octave) {
            (0, _) => 0,
            (_, 64..) => u64::MAX,
            _ => {
                let shift = 63 - octave as u32;
                let threshold = self.thresholds[sixteenth];
                (threshold >> shift) + u64::from(threshold & ((1 << shift) - 1) != 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edges_follow_the_formula_and_bound_their_bins() {
        let bins = ResponseBins::default();
        for bin in 1..BIN_COUNT as ResponseBin {
            let edge = bins.lower_edge(bin);
            let formula = (f64::from(bin) / PER_OCTAVE as f64).exp2();
            assert!((edge as f64 - formula).abs() <= 1.0 + formula * 1e-12, "bin {bin}: {edge}, {formula}");
            assert!(bins.bin(edge) >= bin, "bin {bin}: its lower edge {edge} is in bin {}", bins.bin(edge));
            assert!(bins.bin(edge - 1) < bin, "bin {bin}: {} is in bin {}", edge - 1, bins.bin(edge - 1));
        }
    }

    proptest! {
        #[test]
        fn every_response_time_is_between_the_edges_of_its_bin(bits in 0..64_u32, low: u64) {
            let response_ns = (1 << bits) | (low & ((1 << bits) - 1));
            let bins = ResponseBins::default();
            let bin = bins.bin(response_ns);
            prop_assert!(bins.lower_edge(bin) <= response_ns);
            if usize::from(bin) + 1 < BIN_COUNT {
                prop_assert!(response_ns < bins.lower_edge(bin + 1));
            }
        }
    }
}
