//! Models on the data of real devices, and on simulated ones.

mod devices;
mod mechanisms;
mod real_data;
