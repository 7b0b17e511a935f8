//! Cost models: what an algorithm's IOs should take, by six models of a device.
//!
//! # Model
//! A [`AlgorithmIos`] lists the IOs of an algorithm by device, direction, pattern and size, in phases that follow each other.
//! [`DeviceCosts`] has what a device charges for them; it is measured on a device ([`measure()`]) or given. Each
//! [`CostModel`] sees a part of both and predicts a time:
//!
//! | model | what it sees | source |
//! | --- | --- | --- |
//! | RAM | the operations of the CPU; every access costs the same | the textbook |
//! | IO | transfers of blocks of B, all alike | Aggarwal and Vitter, CACM 1988 |
//! | x + c_W y | block reads x and block writes y, apart | Ajwani et al., chapter 5 |
//! | B_R < B_W | reads in blocks of B_R, writes in blocks of B_W | Ajwani et al., chapter 5 |
//! | affine | each IO costs a set-up and its bytes | Bender et al., SPAA 2019 |
//! | PDAM | P block transfers in each time step; P and the time of a step by direction and pattern, and what reads and writes at the same time cost each other | Bender et al., SPAA 2019 |
//!
//! # Invariants
//! - Nothing here issues an IO, except [`measure()`].
//! - All models have the same host time, so that they differ only in what they say of the devices.

mod algorithm_ios;
mod cluster;
mod costs;
mod measure;
mod models;

pub use algorithm_ios::{AccessPattern, AlgorithmIos, IoClass};
pub use cluster::{ClusterCosts, ClusterSize, best_cluster};
pub use costs::{DeviceCosts, LinearCost, Mixing, Parallelism};
pub use measure::{CostSizes, InFlight, measure};
pub use models::CostModel;
