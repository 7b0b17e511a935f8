//! The report of a synthetic device, as text, as HTML, and as a browser shows it.

mod browser;
mod comparison;
mod inference;
mod own_plan;
mod page;
mod synthetic;
mod terminal;
