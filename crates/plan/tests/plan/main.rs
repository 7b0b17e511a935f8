//! The pattern language: what parses, what is refused, and which IOs a pattern becomes.

mod expansion;
mod language;
mod placement_errors;
mod shipped_plans;
