//! Models on the data of real devices, and on simulated ones.

mod devices;
mod fio;
mod fio_servers;
mod mechanisms;
mod real_data;
mod regimes;
