//! Simulated devices in virtual time.
