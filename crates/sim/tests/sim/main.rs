//! The simulator against formulas, published tables, examples computed by hand, and a record of what was written.

mod arrays;
mod conservation;
mod damaged_states;
mod demand_map;
mod devices;
mod dies_and_volumes;
mod disk;
mod documented;
mod examples;
mod load;
mod merges;
mod odd_profiles;
mod page_map;
mod slc_cache;
mod stalls;
mod theory;
mod wear;
mod writers;
