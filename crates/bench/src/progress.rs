//! Who is told how far a bench run is.

use crate::step::Schedule;

/// Told of every step; prints, draws or ignores it.
pub trait Progress: Sync {
    /// A part of the preparation begins.
    fn step(&self, what: &str);
    /// The part of the current step that is done, from 0 to 1.
    fn share(&self, done: f64);
    /// All runs are known, with what they will cost.
    fn schedule(&self, schedule: &Schedule);
    /// Run `index` (from 0) of `count` begins.
    fn step_of(&self, what: &str, index: usize, count: usize);
}

/// Tells nobody.
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _what: &str) {}
    fn share(&self, _done: f64) {}
    fn schedule(&self, _schedule: &Schedule) {}
    fn step_of(&self, _what: &str, _index: usize, _count: usize) {}
}
