//! The report of a synthetic device: as text, as HTML, and in a browser.

mod browser;
mod comparison;
mod inference;
mod own_plan;
mod page;
mod stages;
mod synthetic;
mod terminal;
