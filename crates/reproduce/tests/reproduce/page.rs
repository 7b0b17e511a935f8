//! `docs/reproduce.md` has the numbers that the command prints.

use std::fs;
use std::path::Path;

use flashlab_base::Seed;
use flashlab_reproduce::ALL;

#[test]
fn the_page_says_how_many_values_agree() {
    let figures = ALL.iter().flat_map(|one| one.run(Seed(1)).unwrap().figures).collect::<Vec<_>>();
    let agreeing = figures.iter().filter(|figure| figure.agrees()).count();
    let expected = format!("Of {} values, {agreeing} agree with the papers with seed 1", figures.len());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduce.md");
    let page = fs::read_to_string(page).unwrap();
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&expected), "docs/reproduce.md does not say: {expected}");
}
