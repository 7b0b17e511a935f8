//! Tests of the reproductions that take only seconds.

mod ajwani;
mod drives_and_volumes;
mod real_drives;
