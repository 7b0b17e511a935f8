//! Models on the data of real devices, and on simulated ones.

mod devices;
mod real_data;
