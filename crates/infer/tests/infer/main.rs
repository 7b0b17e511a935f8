//! What the inference says of simulated and made-up devices, of bad ones, and after an interruption.

mod bad_devices;
mod damaged;
mod families;
mod figures;
mod limits;
mod made_up;
mod no_flash;
mod reading;
mod recorded;
mod recovery;
mod resuming;
mod state;
mod writing;
