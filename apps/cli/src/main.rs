//! flashlab.
fn main() {}
