//! What Append and Pack gains (Stoica et al., "Evaluating and Repairing Write Performance on Flash Devices", section 3.3).
//!
//! Each page is appended to a hot log. When the log has come around, a page that is still valid is read and appended to the cold
//! log: T_copy = T_RR + T_SW, with probability p_h. So a random write becomes T'_RW = T_SW + p_h (T_RR + T_SW), and the
//! speed-up of a workload with the share r of reads is
//! (r T_RR + (1 - r) T_RW) / (r T_RR + (1 - r) T'_RW).
//!
//! The captions of Tables 2 and 3 have T_RW = 10 T_SW and T_SW = 2 T_RR; only with these do their predictions come out. The
//! text has T_RW = 10 T_RR, with which they do not.

/// The three costs that the model needs, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppendAndPack {
    /// T_RR: a random read of a page.
    pub random_read: f64,
    /// T_SW: a page of a sequential write.
    pub sequential_write: f64,
    /// T_RW: a random write of a page.
    pub random_write: f64,
}

impl AppendAndPack {
    /// The assumptions under Tables 2 and 3.
    pub const PAPER: AppendAndPack =
        AppendAndPack { random_read: 1.0, sequential_write: 2.0, random_write: 20.0 };
    /// What it takes for granted.
    pub const ASSUMES: &'static str =
        "updates at uniformly random pages, and a cold log that is packed far less often than the hot one";
    /// Where it is wrong.
    pub const FAILS: &'static str = "for skewed updates, where it is too pessimistic; with several reads in flight, which cost less than T_RR";

    /// T'_RW: a random write that is appended, of logs with this alpha.
    pub fn repaired_write(&self, alpha: f64) -> f64 {
        self.sequential_write + valid_probability(alpha) * (self.random_read + self.sequential_write)
    }

    /// The speed-up of a workload of which `reads` is the share of random reads, from 0 to 1.
    pub fn speed_up(&self, reads: f64, alpha: f64) -> f64 {
        let average = |write: f64| reads * self.random_read + (1.0 - reads) * write;
        average(self.random_write) / average(self.repaired_write(alpha))
    }
}

/// p_h(alpha): the probability that a page is still valid when the log has come around, with alpha the physical capacity
/// over the logical one, in the limit of large logs.
pub fn valid_probability(alpha: f64) -> f64 {
    (-alpha).exp()
}

/// The same where pages that survived fill the log, too: it comes around after (1 - p) alpha updates for each logical page, so that
/// p = e^(-alpha (1 - p)). This is FIFO cleaning (Desnoyers 2012), which the paper's text leaves out; 1 for an alpha of 1.
pub fn valid_probability_with_survivors(alpha: f64) -> f64 {
    // The smallest solution; p = 1 always is one.
    (0..500).fold(0.0, |p: f64, _| (-alpha * (1.0 - p)).exp())
}

/// p_h of a log with so many logical pages: none of the alpha x pages updates that follow hits the page.
pub fn valid_probability_of(pages: u64, alpha: f64) -> f64 {
    (1.0 - 1.0 / pages.max(1) as f64).powf(alpha * pages as f64)
}

/// Figure 2: alpha from 1 to 5 and the share of pages that have to be copied.
pub fn figure_2() -> Vec<(f64, f64)> {
    (0..=40).map(|step| 1.0 + f64::from(step) / 10.0).map(|alpha| (alpha, valid_probability(alpha))).collect()
}

/// Figure 3: for each alpha, the share of reads and the speed-up.
pub fn figure_3(model: AppendAndPack) -> Vec<(f64, Vec<(f64, f64)>)> {
    let shares = || (0..=20).map(|step| f64::from(step) / 20.0);
    let line = |alpha: f64| (alpha, shares().map(|reads| (reads, model.speed_up(reads, alpha))).collect());
    [1.25, 1.5, 2.0, 3.0, 4.0].map(line).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_2_and_3_come_out_to_the_printed_digit() {
        for (reads, alpha, printed) in
            [(0.5, 2.0, "6.2"), (0.75, 2.0, "4.3"), (0.9, 2.0, "2.5"), (0.5, 3.0, "6.7"), (0.5, 4.0, "6.9")]
        {
            let predicted = AppendAndPack::PAPER.speed_up(reads, alpha);
            assert_eq!(format!("{predicted:.1}"), printed, "{reads} {alpha}");
        }
        // Figure 2 and the text: at alpha = 3 over 95 % need no copy, at 2 about 13 % do; reads alone gain nothing.
        assert!(valid_probability(3.0) < 0.05 && (valid_probability(2.0) - 0.13).abs() < 0.01);
        assert!((valid_probability_of(131_072, 2.0) - valid_probability(2.0)).abs() < 1e-5);
        assert_eq!(AppendAndPack::PAPER.speed_up(1.0, 2.0), 1.0);
        // With survivors: the solutions of p = e^(-alpha (1 - p)), 0.2032 and 0.0595 (Lambert's W).
        assert!((valid_probability_with_survivors(2.0) - 0.2032).abs() < 1e-4);
        assert!((valid_probability_with_survivors(3.0) - 0.0595).abs() < 1e-4);
        let figure = figure_3(AppendAndPack::PAPER);
        assert!(figure.iter().all(|(_, line)| line.windows(2).all(|pair| pair[1].1 < pair[0].1)));
    }
}
