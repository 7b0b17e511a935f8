//! The room that samples take.
