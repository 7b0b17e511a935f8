//! The analytical model: what share of a log's pages survives until they are packed.
//!
//! # Model
//! (Stoica et al. 2009, section 3.3.) `alpha` is the number of physical pages of a log for each of its logical pages. A log
//! that is packed from its head, with pages that are updated equally often, finds a page still live with probability
//! `e^-alpha` when `alpha` counts only host writes. A log that its own copies return to is passed through by them as well:
//! `p = e^(-alpha (1 - p))` (Desnoyers, "Analytic Modeling of SSD Write Performance", SYSTOR 2012; the same as
//! `p = -W0(-alpha e^-alpha) / alpha`). With `alpha` as physical pages for each *live* page the second formula holds for
//! both: the live pages of a log without returning copies are a share `(1 - p) / -ln p` of its physical pages.

use crate::update_classes::UpdateClass;

/// What a hot and a cold log cost, by the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedCost {
    /// The share of pages that are live at the head of the hot log.
    pub hot_survival: f64,
    /// The share of pages that are live at the head of the cold log.
    pub cold_survival: f64,
    /// Pages written for each page of the host.
    pub write_amplification: f64,
}

/// The cost of Append and Pack with `hot` and `cold` physical pages in its logs and `live` pages in both. Without `hot` it is
/// the cost of a cold log alone, into which each page is copied once. `None`: the live pages leave
/// the cold log less than `cold_slack`.
///
/// A page of a class with rate `r` reaches the head of the hot log with probability `e^(-r hot)`, and passes the cold log,
/// which takes `t` host writes, with probability `e^(-r t)`. The cold log takes in what leaves the hot log and its own
/// survivors: `cold / t` pages for each host write, an equation for `t`. Pages that no class explains are never updated.
pub fn append_and_pack(
    classes: &[UpdateClass],
    live: f64,
    hot: f64,
    cold: f64,
    cold_slack: f64,
) -> Option<PredictedCost> {
    let (classes, never_updated) = within(classes, live);
    let live_in_hot: f64 =
        classes.iter().map(|class| class.share / class.rate * -(-class.rate * hot).exp_m1()).sum();
    if cold - (live - live_in_hot) < cold_slack {
        return None;
    }
    let arrivals: Vec<(f64, f64)> =
        classes.iter().map(|class| (class.share * (-class.rate * hot).exp(), class.rate)).collect();
    let hot_survival: f64 = arrivals.iter().map(|(arriving, _)| arriving).sum();
    // Pages that the cold log takes in while it is passed once: grows with the time that it takes.
    let taken_in = |time: f64| -> f64 {
        let updated: f64 =
            arrivals.iter().map(|(arriving, rate)| arriving * time / -(-rate * time).exp_m1()).sum();
        never_updated + updated
    };
    let (mut low, mut high) = (1e-6 * cold, 1e9 * cold);
    if taken_in(low) >= cold {
        return None;
    }
    if hot_survival > 0.0 && taken_in(high) > cold {
        while high / low > 1.0 + 1e-9 {
            let middle = (low * high).sqrt();
            if taken_in(middle) < cold { low = middle } else { high = middle }
        }
    }
    let copied = cold / low;
    let cold_survival = if copied > 0.0 { 1.0 - hot_survival / copied } else { 0.0 };
    Some(PredictedCost { hot_survival, cold_survival, write_amplification: 1.0 + copied })
}

/// The classes with this number of pages in all, the hottest first, and the pages that no class explains. Lifetimes that are longer than
/// what was seen so far let the coldest classes seem too large; they are cut.
fn within(classes: &[UpdateClass], live: f64) -> (Vec<UpdateClass>, f64) {
    let mut fitting: Vec<UpdateClass> = Vec::with_capacity(classes.len());
    let mut left = live;
    for class in classes {
        let pages = class.share / class.rate;
        if pages <= left {
            left -= pages;
            fitting.push(*class);
        } else if left > 0.0 {
            fitting.push(UpdateClass { share: class.share, rate: class.share / left });
            left = 0.0;
        } else if let Some(last) = fitting.last_mut() {
            let pages = last.share / last.rate;
            last.share += class.share;
            last.rate = last.share / pages;
        }
    }
    (fitting, left)
}

/// `p = e^(-alpha (1 - p))`: the share of pages that are live when their segment is packed. 1 when `alpha <= 1`.
pub fn surviving_share(alpha: f64) -> f64 {
    if alpha <= 1.0 {
        return 1.0;
    }
    // Newton's method on f(p) = p - e^(-alpha (1 - p)), which is concave: from below the root it never overshoots.
    let mut share = (-alpha).exp();
    for _ in 0..100 {
        let power = (-alpha * (1.0 - share)).exp();
        let step = (power - share) / (1.0 - alpha * power);
        share += step;
        if step.abs() < 1e-12 {
            break;
        }
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_gives_the_write_amplification_of_fifo() {
        // waf_theory.csv: A = 1 / (1 - p) at the fill 1 / alpha.
        for (fill, write_amplification) in
            [(0.5, 1.2550), (0.7, 1.8762), (0.8, 2.6927), (0.9, 5.1787), (0.95, 10.1724)]
        {
            let share = surviving_share(1.0 / fill);
            assert!((1.0 / (1.0 - share) - write_amplification).abs() < 2e-4, "fill {fill}: {share}");
        }
        assert_eq!(surviving_share(1.0), 1.0);
        assert!((surviving_share(4.0) - 0.0198).abs() < 1e-4);
    }

    #[test]
    fn classes_with_several_rates_cost_what_theory_says() {
        // waf_theory_hot_cold.csv, one_fifo_frontier: without a hot log each write is one copy into the cold one.
        for (fill, writes, pages, expected) in [(0.8, 0.8, 0.2, 3.0345), (0.9, 0.9, 0.1, 6.1676)] {
            let class = |share: f64, pages: f64| UpdateClass { share, rate: share / pages };
            let classes = [class(writes, pages * fill), class(1.0 - writes, (1.0 - pages) * fill)];
            let cost = append_and_pack(&classes, fill, 0.0, 1.0, 0.0).unwrap();
            assert!((cost.write_amplification - 1.0 - expected).abs() < 1e-3, "{cost:?}");
        }
    }
}
