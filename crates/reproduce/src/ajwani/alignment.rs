//! Figure 3.4: misaligned random writes, and a drive after many writes.

use flashlab_base::{Bytes, Mode, Seed};

use super::{bandwidth, figure, pattern, rewrite, rewritten};
use crate::lab::{Result, on_all_processors};
use crate::{Agreement, Figure, Reproduction};

/// Figure 3.4.
pub(crate) const FIGURE_3_4: Reproduction = Reproduction {
    name: "ajwani-fig3.4",
    title: "Misaligned random writes over aligned ones, and bandwidth after 100 rewrites over that of a new drive",
    source: "Ajwani et al., Characterizing the performance of flash memory storage devices, sections 3.3.4 and 3.3.5",
    measure,
};

/// Requests of this size begin with a chunk or block of all these devices when they are aligned.
const SIZE: Bytes = Bytes(2 << 20);
const DEVICES: [&str; 4] = ["mini-traveldrive", "transmemory-512m", "mdrive", "supertalent"];

fn measure() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for rows in on_all_processors(&DEVICES, |name| misaligned(name))? {
        figures.extend(rows);
    }
    figures.extend(aged("transmemory-512m")?);
    Ok(figures)
}

/// The paper gives the ratios in a picture only: below one, by an amount that varies.
fn misaligned(name: &str) -> Result<Vec<Figure>> {
    let aligned = bandwidth(&mut rewritten(name)?, &pattern(Mode::Write, false, SIZE), Seed(34))?;
    let mut figures = Vec::new();
    for shift in [Bytes::kib(2), Bytes::kib(16), Bytes::kib(32)] {
        let mut writes = pattern(Mode::Write, false, SIZE);
        writes.first.io_shift = shift;
        let ratio = bandwidth(&mut rewritten(name)?, &writes, Seed(34))? / aligned;
        let quantity = format!("random_write_misaligned_{}k_over_aligned", shift.0 >> 10);
        figures.push(figure(name, &quantity, "", 1.0, ratio, Agreement::AtMost));
    }
    Ok(figures)
}

/// The paper's drive was rewritten 60,000 times without an effect; 100 times are enough to see one here, as nothing
/// in a profile depends on the number.
fn aged(name: &str) -> Result<Vec<Figure>> {
    let mut device = rewritten(name)?;
    let mut old = rewritten(name)?;
    for _ in 0..100 {
        rewrite(&mut old)?;
    }
    let mut figures = Vec::new();
    for (quantity, mode, sequential) in [
        ("aged_sequential_read_over_new", Mode::Read, true),
        ("aged_random_read_over_new", Mode::Read, false),
        ("aged_sequential_write_over_new", Mode::Write, true),
        ("aged_random_write_over_new", Mode::Write, false),
    ] {
        let pattern = pattern(mode, sequential, Bytes::kib(32));
        let ratio = bandwidth(&mut old, &pattern, Seed(35))? / bandwidth(&mut device, &pattern, Seed(35))?;
        figures.push(figure(name, quantity, "", 1.0, ratio, Agreement::Within(0.05)));
    }
    Ok(figures)
}
