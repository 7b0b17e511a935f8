//! Tests of a live disk without a transport: they set the arrival times, so that a day of requests takes
//! seconds.

mod a_day;
mod discards;
