//! External-memory algorithms on simulated devices.

mod building_blocks;
mod support;
