//! Volumes as programs see them, judged by `tests/judge`, which knows nothing of how they are built.

use std::path::Path;

use flashlab_base::Seed;
use flashlab_judge::fsx::{Fsx, fsx};
use flashlab_judge::server::Server;
use flashlab_skip::{Need, skip};

use crate::files::Place;
use crate::repair::new_volume;
use crate::support::Directory;

/// `cargo xtask fsx` does a million of them in a night.
const OPERATIONS: u64 = 50_000;

/// Whether the server is ready. If FUSE is not possible here, the test is skipped.
fn is_ready(server: &Server) -> bool {
    let Err(said) = server.ready() else { return true };
    assert!(said.contains("FUSE needs"), "{said}");
    skip(Need::Fuse, said);
    false
}

#[test]
fn random_operations_on_mounted_files_do_what_they_do_to_bytes_in_memory() {
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "256MiB");
    let mut command = directory.command(&["repair", "mount", &volume, place.mount().to_str().unwrap()]);
    let server = Server::start(&mut command, Path::new(&place.path("messages"))).unwrap();
    if !is_ready(&server) {
        return;
    }
    let test = Fsx { directory: place.mount(), operations: OPERATIONS, seed: Seed(42), tamper_at: None };
    let report = fsx(&test).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.unsupported.is_empty(), "the mount refuses {:?}", report.unsupported);
    assert_eq!(server.stop(), Ok(Some(0)));
    directory.succeeds(&["repair", "check", &volume]);
}
