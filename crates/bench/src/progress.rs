//! The trait [`Progress`], which receives the progress of a bench run.

use crate::step::Schedule;

/// Receives every step of a bench run. An implementation prints it, draws it or ignores it.
pub trait Progress: Sync {
    /// A step of the preparation begins.
    fn step(&self, what: &str);
    /// The same step begins once more, as a round of many.
    fn round(&self, what: &str) {
        self.step(what);
    }
    /// The completed part of the current step, from 0 to 1.
    fn share(&self, done: f64);
    /// The runs of the micro-benchmarks are scheduled, with their time and their bytes.
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
