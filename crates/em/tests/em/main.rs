//! External-memory algorithms on simulated devices.

mod bfs;
mod building_blocks;
mod failing;
mod placed;
mod predicting;
mod rank;
mod record_sizes;
mod searching;
mod sorting;
mod space;
mod support;
