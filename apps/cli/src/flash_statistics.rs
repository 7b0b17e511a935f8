//! Formats the statistics of a simulated flash device for a terminal.

use flashlab_report::units::{UNKNOWN, digits, grouped, percent};
use flashlab_sim::flash_device::Statistics;

/// Operations by cause, then one line for each other topic.
pub fn text(statistics: &Statistics) -> String {
    let mut text =
        format!("{:<25} {:>15} {:>15} {:>15}\n", "flash", "pages read", "programmed", "blocks erased");
    for done in &statistics.operations {
        let counts = [done.pages_read, done.pages_programmed, done.blocks_erased];
        if counts.iter().any(|&count| count > 0) {
            let [read, programmed, erased] = counts.map(grouped);
            let cause = format!("{:?}", done.cause);
            text += &format!("  {:<23} {read:>15} {programmed:>15} {erased:>15}\n", in_words(&cause));
        }
    }
    let merges = [statistics.switch_merges, statistics.partial_merges, statistics.full_merges];
    if merges.iter().any(|&count| count > 0) {
        let [switch, partial, full] = merges.map(grouped);
        text += &format!("merges: {switch} switch, {partial} partial, {full} full\n");
    }
    if statistics.read_retries > 0 {
        text += &format!("reads tried again: {}\n", grouped(statistics.read_retries));
    }
    text += &wear(statistics);
    text += &format!(
        "\nbusy: controller {}, link {}, dies {}, channels {}\nenergy: {} J\n",
        percent(statistics.controller_utilisation),
        percent(statistics.link_utilisation),
        range(&statistics.die_utilisation),
        range(&statistics.channel_utilisation),
        digits(statistics.energy_j),
    );
    text
}

/// Write amplification and the wear of the blocks, in one line without its end.
pub fn wear(statistics: &Statistics) -> String {
    let amplification = statistics.write_amplification.map_or(UNKNOWN.to_owned(), digits);
    let (fewest, most) = (statistics.block_erases_min, statistics.block_erases_max);
    let mean = digits(statistics.block_erases_mean);
    format!("write amplification: {amplification}; erases of a block: {fewest} to {most}, mean {mean}")
}

/// `PartialPage` as `partial page`.
fn in_words(name: &str) -> String {
    let spaced: String =
        name.chars().map(|c| if c.is_uppercase() { format!(" {c}") } else { c.into() }).collect();
    spaced.trim_start().to_lowercase()
}

/// Shares of several resources: the mean, with the smallest and the largest if they differ.
fn range(shares: &[f64]) -> String {
    let (least, most) = shares
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), &share| (least.min(share), most.max(share)));
    let mean = percent(shares.iter().sum::<f64>() / shares.len().max(1) as f64);
    if shares.len() < 2 { mean } else { format!("{mean} ({} to {})", percent(least), percent(most)) }
}
