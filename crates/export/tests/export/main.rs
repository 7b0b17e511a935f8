//! A live disk without a transport: arrival times are given, so a day of requests takes seconds.

mod a_day;
mod discards;
