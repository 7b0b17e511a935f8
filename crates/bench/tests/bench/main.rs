//! The methodology on devices whose truth is known. The findings agree with the device's profile, and the
//! benchmark plan is followed. If a run ends early, nothing measured is lost.

mod damage;
mod failures;
mod lab;
mod methodology;
mod regime_limits;
mod resume;
mod schedule;
mod small_targets;
mod stages;
mod table3;
