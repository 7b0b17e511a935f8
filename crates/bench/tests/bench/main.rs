//! The methodology on devices of known truth: what is found is what the device's profile says, the
//! benchmark plan is kept to, and whatever ends a run early, nothing measured is lost.

mod damage;
mod failures;
mod lab;
mod methodology;
mod resume;
mod schedule;
mod small_targets;
mod table3;
