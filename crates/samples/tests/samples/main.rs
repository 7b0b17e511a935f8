//! Samples are recorded and read back. The tests cover a slow writer, a full disk, a killed process and
//! damaged files.

mod damage;
mod full_disk;
mod killed;
mod other_readers;
mod round_trip;
mod size;
mod synthetic;
