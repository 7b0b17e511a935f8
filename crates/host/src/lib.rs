//! Real devices: direct IO, io_uring, identity, and the guards against destroying data.
