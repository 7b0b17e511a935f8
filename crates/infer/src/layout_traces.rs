//! The model of the read and write path, which several probes replay: pages, planes, dies, channels and chunks, and
//! the times of their operations. The most likely layout is the one with which the measured times are most likely.

pub(crate) mod explained;
pub(crate) mod read_pages;
pub(crate) mod row_writes;
pub(crate) mod traces;
