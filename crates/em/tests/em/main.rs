//! External-memory algorithms on simulated devices.

mod bfs;
mod building_blocks;
mod searching;
mod sorting;
mod rank;
mod support;
