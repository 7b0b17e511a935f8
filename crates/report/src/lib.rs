//! Presents findings to people: a terminal summary, and one self-contained HTML file.
//!
//! # Model
//! [`Findings`](flashlab_analysis::findings::Findings) and [`Traces`](flashlab_analysis::findings::Traces)
//! are turned into a text. The page is tables and text in plain HTML, plus one JSON document of charts. A
//! small script draws the charts with uPlot (`vendor/uplot`, embedded). The charts are defined here, in Rust;
//! the script only draws them.
//!
//! # Invariants
//! - No statistic is computed here: only units, scales, and the ratio of two figures in the findings.
//! - A page makes no network request: its Content-Security-Policy forbids every one.
//! - Names of devices, paths and messages come from outside: maud and `escape` make them safe in HTML,
//!   `escape::printable` in the terminal.
//! - A figure that was not measured is shown as such, never as zero.

mod advice;
mod charts;
mod class_table;
mod compare_html;
mod compare_terminal;
mod comparison;
mod escape;
mod expectations;
mod html;
mod inference;
mod method;
mod model;
mod page;
mod points;
mod rows;
mod runs;
mod stages;
mod state;
mod summary;
mod sweep;
mod table3;
mod terminal;
mod twin;
pub mod units;
mod verdict;
mod warnings;
mod words;
mod writer;

pub use advice::{Advice, Advised, LEAST_CONFIDENCE, Withheld, advice};
pub use class_table::class_table;
pub use compare_html::compare_html;
pub use compare_terminal::compare_terminal;
pub use escape::{printable, printable_json, printable_text};
pub use expectations::{
    JUNIT_MARK, enumeration, expectations_junit, expectations_markdown, expectations_summary,
    expectations_terminal, judgement_sentence,
};
pub use html::html;
pub use inference::{
    InferenceJson, InferenceRun, advice_terminal, confidence, device_state, inference_html,
    inference_terminal,
};
pub use method::shell_word;
pub use model::{ModelPage, model_html};
pub use rows::{
    ParameterRow, RatioRow, RunClassRow, RunRow, class_rows, middle_rows, parameter_rows, ratio_rows,
    run_rows,
};
pub use state::doubts;
pub use sweep::{Sweep, SweepPoint, sweep_html, sweep_terminal};
pub use terminal::terminal;
pub use twin::{twin_html, twin_terminal};
pub use writer::Layout;
