//! What is recorded is on disk and is read back: as it is, when the writer is slow, when the disk is
//! full, when the process is killed, and when the bytes on disk are not what was written.

mod damage;
mod full_disk;
mod killed;
mod other_readers;
mod round_trip;
mod size;
mod synthetic;
