//! Reports that a test was skipped, and fails if that is forbidden.
//!
//! A test that needs something which a machine may lack calls [`skip`] and returns. The message goes to
//! standard error, past the capture of the test harness, so that a green run shows what it did not test.
//! `FLASHLAB_REQUIRE` lists needs, separated by commas; if one of them is missing, the test fails. `.ci/run`
//! lists everything that it installs.

mod chromium;

use std::fmt::Display;
use std::io::Write;

pub use chromium::{chromium, headless};

/// What a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Root's rights: loop devices, mounts, swap.
    Root,
    /// FUSE, with root's rights or without.
    Fuse,
    /// A browser of the Chromium family.
    Chromium,
    /// A Python with the Parquet readers that the test names.
    Python,
    /// A Python with Ray.
    Ray,
    /// A Python with Dask's distributed scheduler.
    Dask,
    /// A Python with PySpark, and a JVM.
    Spark,
    /// nbdkit with its clients, and the plugin for it.
    Nbdkit,
    /// Programs of every Linux distribution: mkfs, gzip, taskset.
    Programs,
    /// PostgreSQL's server, with a user postgres.
    Postgresql,
    /// MariaDB's server.
    Mariadb,
    /// RocksDB's tools, `db_bench`.
    Rocksdb,
    /// Redis's server.
    Redis,
    /// The toolchain of Go.
    Go,
    /// The program strace, and the permission to trace.
    Strace,
    /// The papers' tables beside the project.
    Reference,
    /// A feature of the kernel or a file system that flashlab does not need.
    Kernel,
}

impl Need {
    /// All of them, with their names in `FLASHLAB_REQUIRE`.
    const ALL: [(Need, &str); 17] = [
        (Need::Root, "root"),
        (Need::Fuse, "fuse"),
        (Need::Chromium, "chromium"),
        (Need::Python, "python"),
        (Need::Ray, "ray"),
        (Need::Dask, "dask"),
        (Need::Spark, "spark"),
        (Need::Nbdkit, "nbdkit"),
        (Need::Programs, "programs"),
        (Need::Postgresql, "postgresql"),
        (Need::Mariadb, "mariadb"),
        (Need::Rocksdb, "rocksdb"),
        (Need::Redis, "redis"),
        (Need::Go, "go"),
        (Need::Strace, "strace"),
        (Need::Reference, "reference"),
        (Need::Kernel, "kernel"),
    ];
}

/// Reports that the calling test, or a part of it, is skipped.
///
/// # Panics
/// If `FLASHLAB_REQUIRE` contains the need, or an unknown name.
pub fn skip(need: Need, reason: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let required = std::env::var("FLASHLAB_REQUIRE").unwrap_or_default();
    if is_required(need, &required) {
        panic!("{test} needs {need:?}, which FLASHLAB_REQUIRE names: {reason}");
    }
    // If standard error is closed, the test does not fail.
    let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
}

/// Whether a list of names contains this need.
fn is_required(need: Need, list: &str) -> bool {
    let named = |name: &str| {
        let found = Need::ALL.into_iter().find(|(_, known)| *known == name);
        found
            .unwrap_or_else(|| {
                panic!("FLASHLAB_REQUIRE: `{name}` is none of {:?}", Need::ALL.map(|(_, known)| known))
            })
            .0
    };
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(named).any(|required| required == need)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_required_by_name() {
        assert!(is_required(Need::Fuse, "root, fuse"));
        assert!(!is_required(Need::Kernel, "root,fuse,"));
        assert!(!is_required(Need::Root, ""));
    }

    #[test]
    #[should_panic(expected = "`loops` is none of")]
    fn what_is_no_need_is_refused() {
        is_required(Need::Root, "loops");
    }
}
