//! The write workloads of SSD-iq, and their writes on a device that is scaled down.
//!
//! # Model
//! Workloads are those of provenance.md and of the scripts of SSD-iq: the pages of a pattern are scattered over the address space by a
//! random permutation, unless the workload is clustered. A page of the model stands for several pages of the drive. So ranks of a zipf
//! distribution are drawn among the drive's pages, and neighbouring ranks share a page of the model.

use std::fmt;

use flashlab_base::{Prng, Seed};
use flashlab_plan::Zipf;

/// The size of large writes, in pages of 4 KiB.
pub(crate) const LARGE_WRITE: u32 = 128;

/// A zone of [`Workload::Zones`]: the share of the pages that it has, and the share of the writes that it gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PageZone {
    pub pages: f64,
    pub writes: f64,
}

/// What is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Workload {
    /// From begin to end, in large writes, on a drive that was discarded.
    Sequential,
    /// Each page once, in random order, on a drive that was discarded.
    Permutation,
    /// Random pages.
    Uniform,
    /// Random pages, the page of rank k with a probability proportional to k^-exponent.
    Zipf { exponent: f64, clustered: bool },
    /// The same as fio draws it. Its difference is not known: it is written as [`Workload::Zipf`].
    FioZipf { exponent: f64 },
    /// Random pages of zones that are chosen by their share of the writes.
    Zones(Vec<PageZone>),
    /// Whole zones from begin to end in large writes, then another zone at random; `open` zones at the same time.
    WholeZones { open: u32, large_pages: u64 },
}

impl Workload {
    /// Reads a row's workload and parameters.
    ///
    /// # Errors
    /// Which of the two columns is wrong, and what it may be.
    pub(crate) fn parse(name: &str, parameters: &str) -> Result<Workload, (&'static str, String)> {
        let (kind, placing) = match name.split_once(", ") {
            Some((kind, placing)) => (kind, placing),
            None => name.strip_suffix("-noshuffle").map_or((name, ""), |kind| (kind, "clustered")),
        };
        if !matches!(placing, "" | "scattered" | "clustered") {
            return Err(("workload", format!("pages are `scattered` or `clustered`, not `{placing}`")));
        }
        match kind {
            "sequential" if placing == "scattered" => Ok(Workload::Permutation),
            "sequential" => Ok(Workload::Sequential),
            "permutation" => Ok(Workload::Permutation),
            "uniform" => Ok(Workload::Uniform),
            "zipf" | "fio zipf" | "fiozipf" => match parameters.parse::<f64>() {
                Ok(exponent) if (0.0..=10.0).contains(&exponent) => Ok(match kind {
                    "zipf" => Workload::Zipf { exponent, clustered: placing == "clustered" },
                    _ => Workload::FioZipf { exponent },
                }),
                _ => Err(("parameters", "a zipf distribution takes an exponent from 0 to 10".to_owned())),
            },
            "zones" => zones(parameters).map(Workload::Zones).map_err(|what| ("parameters", what)),
            "whole zones in random order" => {
                whole_zones(parameters).ok_or(("parameters", WHOLE_ZONES.to_owned()))
            }
            _ => Err(("workload", format!("there is no workload `{name}`; {WORKLOADS}"))),
        }
    }

    /// Whether it runs on a drive that was discarded and not filled.
    pub(crate) fn begins_empty(&self) -> bool {
        matches!(self, Workload::Sequential | Workload::Permutation)
    }

    /// The writes to the first `pages` pages of a model, of which each stands for `drive_pages` pages of the drive.
    pub(crate) fn writes(&self, pages: u32, drive_pages: f64, seed: Seed) -> Writes {
        let mut prng = Prng::new(seed);
        let scattered: Vec<u32> = match self {
            Workload::Sequential | Workload::Uniform | Workload::WholeZones { .. } => Vec::new(),
            Workload::Zipf { clustered: true, .. } => (0..pages).collect(),
            _ => shuffled(pages, &mut prng),
        };
        let kind = match self {
            Workload::Sequential => Kind::Sequential { next: 0 },
            Workload::Permutation => Kind::Permutation { next: 0 },
            Workload::Uniform => Kind::Uniform,
            Workload::Zipf { exponent, .. } | Workload::FioZipf { exponent } => {
                let ranks = (f64::from(pages) * drive_pages).round().max(1.0) as u64;
                Kind::Zipf { zipf: Zipf::new(ranks, *exponent), ranks }
            }
            Workload::Zones(zones) => Kind::zones(zones, pages),
            Workload::WholeZones { open, large_pages } => {
                let drive_zone = (*large_pages * u64::from(LARGE_WRITE)) as f64;
                Kind::whole_zones(*open, (drive_zone / drive_pages).round() as u32, pages, &mut prng)
            }
        };
        Writes { pages, scattered, kind, prng }
    }
}

const WORKLOADS: &str =
    "there are sequential, permutation, uniform, zipf, fio zipf, zones and whole zones in random order";
const WHOLE_ZONES: &str =
    "whole zones take `open N zone pages of 512 KiB M`, N from 1 to 1024 and M from 1 on";

fn whole_zones(text: &str) -> Option<Workload> {
    let (open, pages) = text.strip_prefix("open ")?.split_once(" zone pages of 512 KiB ")?;
    let (open, large_pages) = (open.parse().ok()?, pages.parse().ok()?);
    ((1..=1024).contains(&open) && (1..=1 << 32).contains(&large_pages))
        .then_some(Workload::WholeZones { open, large_pages })
}

/// `s0.2 f0 s0.8 f1`: shares of the pages and of the writes.
fn zones(text: &str) -> Result<Vec<PageZone>, String> {
    let wrong = || format!("zones are pairs such as `s0.2 f0 s0.8 f1`, not `{text}`");
    let words: Vec<&str> = text.split_whitespace().collect();
    let share = |word: &str, letter: char| {
        let share = word.strip_prefix(letter).and_then(|number| number.parse::<f64>().ok());
        share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(wrong)
    };
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let zones: Vec<PageZone> = words
        .chunks(2)
        .map(|pair| Ok(PageZone { pages: share(pair[0], 's')?, writes: share(pair[1], 'f')? }))
        .collect::<Result<_, String>>()?;
    let sums =
        zones.iter().fold((0.0, 0.0), |(pages, writes), zone| (pages + zone.pages, writes + zone.writes));
    if (sums.0 - 1.0).abs() > 1e-6 || (sums.1 - 1.0).abs() > 1e-6 {
        return Err(format!(
            "the shares of pages and those of writes have to be 1 together, not {} and {}",
            sums.0, sums.1
        ));
    }
    if zones.iter().any(|zone| zone.pages == 0.0 && zone.writes > 0.0) {
        return Err("a zone without pages cannot get writes".to_owned());
    }
    Ok(zones)
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Sequential => f.write_str("sequential"),
            Workload::Permutation => f.write_str("permutation"),
            Workload::Uniform => f.write_str("uniform"),
            Workload::Zipf { exponent, clustered } => {
                write!(f, "zipf {exponent}{}", if *clustered { " clustered" } else { "" })
            }
            Workload::FioZipf { exponent } => write!(f, "fio's zipf {exponent}"),
            Workload::Zones(zones) => {
                f.write_str("zones")?;
                zones.iter().try_for_each(|zone| write!(f, " s{} f{}", zone.pages, zone.writes))
            }
            Workload::WholeZones { open, large_pages } => {
                write!(f, "whole zones of {} MiB, {open} open", large_pages / 2)
            }
        }
    }
}

/// The numbers below `count` in random order.
fn shuffled(count: u32, prng: &mut Prng) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    for i in (1..numbers.len()).rev() {
        numbers.swap(i, prng.below(i as u64 + 1) as usize);
    }
    numbers
}

/// The writes of a workload, without end.
pub(crate) struct Writes {
    pages: u32,
    scattered: Vec<u32>,
    kind: Kind,
    prng: Prng,
}

enum Kind {
    Sequential {
        next: u32,
    },
    Permutation {
        next: u32,
    },
    Uniform,
    Zipf {
        zipf: Zipf,
        ranks: u64,
    },
    /// By zone: up to which share of the writes it is chosen, its first page, and its pages.
    Zones(Vec<(f64, u32, u32)>),
    /// The pages of a zone, the number of zones, and the open zones with their next pages.
    WholeZones {
        size: u32,
        zones: u32,
        open: Vec<(u32, u32)>,
    },
}

impl Kind {
    fn zones(zones: &[PageZone], pages: u32) -> Kind {
        let (mut writes, mut share, mut first) = (0.0, 0.0, 0);
        let mut parts = Vec::new();
        for zone in zones {
            writes += zone.writes;
            share += zone.pages;
            let end = ((share * f64::from(pages)).round() as u32).clamp(first, pages);
            if zone.writes > 0.0 {
                parts.push((writes, first.min(pages - 1), (end - first).max(1)));
            }
            first = end;
        }
        Kind::Zones(parts)
    }

    fn whole_zones(open: u32, size: u32, pages: u32, prng: &mut Prng) -> Kind {
        let size = size.clamp(1, pages);
        let zones = pages / size;
        let open = shuffled(zones, prng).into_iter().take(open as usize).map(|zone| (zone, 0)).collect();
        Kind::WholeZones { size, zones, open }
    }
}

impl Iterator for Writes {
    /// The first page and the number of pages.
    type Item = (u32, u32);

    #[inline]
    fn next(&mut self) -> Option<(u32, u32)> {
        let Writes { pages, scattered, kind, prng } = self;
        let pages = *pages;
        Some(match kind {
            Kind::Sequential { next } => {
                let first = *next;
                let count = LARGE_WRITE.min(pages - first);
                *next = if first + count == pages { 0 } else { first + count };
                (first, count)
            }
            Kind::Permutation { next } => {
                let page = scattered[*next as usize];
                *next = (*next + 1) % pages;
                (page, 1)
            }
            Kind::Uniform => (prng.below(pages.into()) as u32, 1),
            Kind::Zipf { zipf, ranks } => {
                let rank = zipf.draw(prng) - 1;
                let index = (u128::from(rank) * u128::from(pages) / u128::from(*ranks)) as usize;
                (scattered[index.min(scattered.len() - 1)], 1)
            }
            Kind::Zones(parts) => {
                let point = prng.unit();
                let part = parts.iter().find(|part| point < part.0).or(parts.last());
                let &(_, first, count) = part.expect("a share of the writes is positive");
                (scattered[(first + prng.below(count.into()) as u32) as usize], 1)
            }
            Kind::WholeZones { size, zones, open } => {
                let chosen = prng.below(open.len() as u64) as usize;
                let (zone, next) = open[chosen];
                let count = LARGE_WRITE.min(*size - next);
                open[chosen].1 += count;
                if next + count == *size {
                    let mut another = prng.below((*zones).into()) as u32;
                    while open.len() < *zones as usize && open.iter().any(|other| other.0 == another) {
                        another = prng.below((*zones).into()) as u32;
                    }
                    open[chosen] = (another, 0);
                }
                (zone * *size + next, count)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_of_the_rows_are_read() {
        assert_eq!(Workload::parse("sequential", ""), Ok(Workload::Sequential));
        assert_eq!(Workload::parse("sequential-noshuffle", ""), Ok(Workload::Sequential));
        assert_eq!(Workload::parse("sequential, scattered", ""), Ok(Workload::Permutation));
        assert_eq!(
            Workload::parse("zipf, scattered", "0.8"),
            Ok(Workload::Zipf { exponent: 0.8, clustered: false })
        );
        assert_eq!(
            Workload::parse("whole zones in random order", "open 2 zone pages of 512 KiB 2048"),
            Ok(Workload::WholeZones { open: 2, large_pages: 2048 })
        );
        let wrong = |name, parameters| Workload::parse(name, parameters).unwrap_err();
        assert_eq!(wrong("zipf, scattered", "x").0, "parameters");
        assert_eq!(wrong("sideways", "").0, "workload");
        assert_eq!(
            wrong("zones, scattered", "s0.2 f0 s0.7 f1").1,
            "the shares of pages and those of writes have to be 1 together, not 0.8999999999999999 and 1"
        );
    }

    #[test]
    fn a_zone_without_writes_gets_none_and_the_others_get_their_shares() {
        let workload = Workload::parse("zones, scattered", "s0.5 f0 s0.25 f0.9 s0.25 f0.1").unwrap();
        let mut counts = vec![0u32; 1000];
        for (page, count) in workload.writes(1000, 10.0, Seed(1)).take(100_000) {
            assert_eq!(count, 1);
            counts[page as usize] += 1;
        }
        let mut sorted = counts.clone();
        sorted.sort_unstable();
        assert_eq!(sorted[499], 0);
        let hot: u32 = sorted[750..].iter().sum();
        assert!((89_000..91_000).contains(&hot), "{hot}");
    }

    #[test]
    fn whole_zones_are_written_from_begin_to_end() {
        let workload = Workload::WholeZones { open: 3, large_pages: 16 };
        // 16 x 128 pages of the drive are 204.8 of the model: zones of 205 pages in two writes.
        let mut next = std::collections::BTreeMap::new();
        for (page, count) in workload.writes(2050, 10.0, Seed(2)).take(10_000) {
            let (zone, within) = (page / 205, page % 205);
            assert_eq!(next.get(&zone).copied().unwrap_or(0), within);
            next.insert(zone, (within + count) % 205);
        }
        assert_eq!(next.len(), 10);
    }

    #[test]
    fn a_model_has_the_drives_distribution() {
        // With a million pages of the drive, rank 1 has 1 / 14.4 of the writes; its page has it and 999 more.
        let workload = Workload::Zipf { exponent: 1.0, clustered: true };
        let hottest = workload.writes(1000, 1000.0, Seed(3)).take(100_000).filter(|io| io.0 == 0).count();
        // H(1000) / H(1000000) = 7.485 / 14.393.
        assert!((51_000..53_000).contains(&hottest), "{hottest}");
    }
}
