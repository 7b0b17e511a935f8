//! The first lines of an inference: what kind of device it is, and the three most important things to do.

use flashlab_analysis::inference::{Family, Inference, Parameter};

use super::InferenceRun;
use crate::advice::{Advice, LEAST_CONFIDENCE, advice, family};
use crate::units::sentence;

/// How many things to do are listed.
const THINGS: usize = 3;
/// The subjects in the order of their importance for developers of programs.
const ORDER: [&str; 7] = [
    "write streams",
    "random writes",
    "sequential writes",
    "queue depth",
    "partition alignment",
    "ext4",
    "f2fs",
];

/// What kind of device it is, in a sentence.
pub fn kind(inference: &Inference) -> String {
    if let Some(reason) = &inference.not_flash {
        return format!("{reason}.");
    }
    let block = inference
        .get(Parameter::EraseBlockSize)
        .filter(|finding| finding.confidence >= LEAST_CONFIDENCE && finding.value.is_some())
        .map(|finding| finding.value_in_words());
    let of_block = block.map_or(String::new(), |block| format!(" of {block}"));
    match family(inference) {
        Some(Family::Page) => {
            "This device maps pages: random writes go anywhere, and garbage collection frees blocks later."
                .to_owned()
        }
        Some(Family::DemandCachedPage) => {
            "This device maps pages, and keeps only a part of the map in memory: random IOs \
             over a large range are slower than over a small one."
                .to_owned()
        }
        Some(Family::Block) => format!(
            "This device maps whole blocks{of_block}: a write that does not continue the last one in its block copies the \
             rest of the block."
        ),
        Some(Family::LogBlock | Family::SharedLogBlock) => format!(
            "This device maps blocks{of_block} and collects writes in a few log blocks: scattered writes make it merge \
             blocks, which takes many times as long as a write."
        ),
        None if inference.written.0 == 0 => {
            "How this device maps is not known: nothing was written to it.".to_owned()
        }
        None => format!("How this device maps is not known. {}", of_block_alone(&of_block)).trim().to_owned(),
    }
}

fn of_block_alone(of_block: &str) -> String {
    if of_block.is_empty() { String::new() } else { format!("It erases blocks{of_block}.") }
}

/// The most important things to do, each a sentence; empty if there is no advice.
pub fn things_to_do(run: &InferenceRun<'_>) -> Vec<String> {
    let mut given: Vec<Advice> = advice(run.inference, run.write_budget).given;
    given.sort_by_key(|advice| ORDER.iter().position(|&subject| subject == advice.subject));
    given.iter().take(THINGS).map(|advice| sentence(&advice.advice)).collect()
}
