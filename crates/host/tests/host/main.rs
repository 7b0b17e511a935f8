//! Real devices: the engines on files and loop devices, and the guards against destroying data.

mod engines;
mod guards;
mod support;
