//! Writes into docs/reproduce.md how many values agree with the papers, and which depend on the seed.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use flashlab_base::Seed;
use flashlab_reproduce::{ALL, Figure};

use crate::generated_part::GeneratedPart;

/// Measures all values of the papers with three seeds, and writes how many agree into docs/reproduce.md.
#[derive(Args)]
pub struct ReproducePage {
    /// The page
    #[arg(default_value = "docs/reproduce.md")]
    page: PathBuf,
}

/// The seeds that are compared. The profiles were fitted with the first.
const SEEDS: [u64; 3] = [1, 2, 3];

const PART: GeneratedPart<'static> = GeneratedPart { name: "seeds", writer: "cargo xtask reproduce-page" };

/// Measures, and writes the page.
///
/// # Errors
/// When a reproduction fails, or the page cannot be written.
pub fn write_page(arguments: &ReproducePage) -> anyhow::Result<()> {
    let mut of_seeds = Vec::new();
    for seed in SEEDS {
        let mut figures = Vec::new();
        for reproduction in ALL {
            figures.extend(reproduction.run(Seed(seed))?.figures);
        }
        of_seeds.push(figures);
    }
    PART.write(&arguments.page, "cargo xtask reproduce-page", &text(&of_seeds))
}

/// The sentence, and a row for each value that differs from the paper with some seed.
fn text(of_seeds: &[Vec<Figure>]) -> String {
    let agreeing = |figures: &Vec<Figure>| figures.iter().filter(|figure| figure.agrees()).count();
    let counts: Vec<usize> = of_seeds.iter().map(agreeing).collect();
    let of = of_seeds[0].len();
    let mut text = format!("Of {of} values, {} agree with the papers with seed {}", counts[0], SEEDS[0]);
    for (count, seed) in counts.iter().zip(SEEDS).skip(1) {
        let _ = write!(text, ", {count} with seed {seed}");
    }
    let seeds: String = SEEDS.iter().map(|seed| format!(" seed {seed} |")).collect();
    let _ = write!(
        text,
        ". A value that differs from the paper is **bold**; values that agree with all seeds are left out.\n\n\
         | device | quantity | paper |{seeds}\n| --- | --- | ---: |{}\n",
        " ---: |".repeat(SEEDS.len())
    );
    for index in 0..of {
        let row: Vec<&Figure> = of_seeds.iter().map(|figures| &figures[index]).collect();
        if row.iter().all(|figure| figure.agrees()) {
            continue;
        }
        let figure = row[0];
        let unit = if figure.unit.is_empty() { String::new() } else { format!(" ({})", figure.unit) };
        let _ = write!(
            text,
            "| {} | {}{unit} | {} |",
            figure.device,
            figure.quantity.replace('_', " "),
            number(figure.paper)
        );
        for figure in row {
            let value = number(figure.flashlab);
            let _ = if figure.agrees() { write!(text, " {value} |") } else { write!(text, " **{value}** |") };
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// Four digits, or "none".
fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return "none".to_owned() };
    let digits = 3 - value.abs().max(1e-9).log10().floor().clamp(-6.0, 3.0) as i32;
    let factor = 10f64.powi(digits);
    format!("{}", (value * factor).round() / factor)
}

#[cfg(test)]
mod tests {
    use flashlab_reproduce::Agreement;

    use super::*;

    fn figure(flashlab: f64) -> Figure {
        Figure {
            device: "drive".to_owned(),
            zoo: "",
            quantity: "random_write".to_owned(),
            unit: "ms".to_owned(),
            paper: Some(5.0),
            flashlab: Some(flashlab),
            agreement: Agreement::Within(0.15),
        }
    }

    #[test]
    fn values_that_differ_with_a_seed_are_listed() {
        let of_seeds = [5.607, 5.947, 5.57].map(|value| vec![figure(5.0), figure(value)]);
        let text = text(&of_seeds);
        assert!(
            text.starts_with(
                "Of 2 values, 2 agree with the papers with seed 1, 1 with seed 2, 2 with seed 3. "
            ),
            "{text}"
        );
        assert!(text.ends_with("| drive | random write (ms) | 5 | 5.607 | **5.947** | 5.57 |\n\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("| drive")).count(), 1);
    }

    #[test]
    fn the_page_has_its_part() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reproduce.md");
        assert!(PART.is_in(&std::fs::read_to_string(page).unwrap()));
    }
}
