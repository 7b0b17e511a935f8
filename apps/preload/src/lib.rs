//! A library for `LD_PRELOAD`: the managed files of an unmodified program live on a volume, which `flashlab repair run` has open.
//!
//! # Model
//! The server has the only map. Each process has one connection to it. A managed file has a placeholder in its directory: the node of a
//! Unix socket, which cannot be opened. So a program without this library gets an error (ENXIO), and never other data. Names,
//! directories and permissions are the placeholders'; data, sizes and times are the volume's.
//!
//! # Method
//! The exported functions have the names of libc's. Each decides by a path (`paths`) or by a descriptor (`descriptors`) whether the file
//! is managed, and asks the server (`connection`) or the kernel (`kernel`).
//! - `opening`, `data`, `names`, `status`, `streams`: what works. `refused`: what cannot work, and fails with a message.
//!
//! # Invariants
//! - A managed file's data never passes through the kernel's files. What is not implemented fails.
//! - Signals wait while a call is under way, so that a handler may use files. A fork happens between calls.

#![cfg(target_os = "linux")]
// The functions are libc's, which documents what callers have to keep.
#![allow(clippy::missing_safety_doc)]
// Some of the exported functions need none, and system calls are made within some that do.
#![allow(unused_unsafe)]

/// Exports functions of libc's names, all with the same body.
macro_rules! export {
    ($($(#[$doc:meta])* $name:ident)+ => $parameters:tt -> $result:ty $body:block) => {
        $(
            #[doc = concat!("libc's `", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name $parameters -> $result {
                // SAFETY: the caller keeps what libc's function of this name asks for.
                unsafe { $body }
            }
        )+
    };
}

mod connection;
mod data;
mod descriptors;
mod kernel;
mod names;
mod opening;
mod paths;
mod refused;
mod start;
mod status;
mod streams;
