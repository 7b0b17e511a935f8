//! Volumes as programs see them, judged by `tests/judge`, which knows nothing of how they are built.

use std::ffi::OsString;
use std::path::Path;

use flashlab_base::Seed;
use flashlab_judge::fsx::{Fsx, fsx};
use flashlab_judge::kills::{Fault, Kills, KillsReport, Kind, SESSION, kills, write_session};
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

/// The process that writes while servers are killed: this test, started by the judge with a session.
#[test]
fn the_writing_process() {
    if std::env::var_os(SESSION).is_some() {
        write_session().unwrap();
    }
}

/// Kills servers. `None`: FUSE is not possible here.
fn killed(kind: Kind, nearly_full: bool, count: u64, seed: u64, fault: Option<Fault>) -> Option<KillsReport> {
    let directory = Directory::new();
    let writer =
        ["--exact", "judged::the_writing_process", "--nocapture", "--test-threads=1"].map(OsString::from);
    let test = Kills {
        program: env!("CARGO_BIN_EXE_flashlab").into(),
        writer: [std::env::current_exe().unwrap().into_os_string()].into_iter().chain(writer).collect(),
        kind,
        kills: count,
        nearly_full,
        seed: Seed(seed),
        folder: directory.path(""),
        fault,
    };
    match kills(&test) {
        Ok(report) => Some(report),
        Err(said) if said.contains("FUSE needs") || said.contains("needs root") => {
            skip(Need::Fuse, said);
            None
        }
        Err(said) => panic!("{said}"),
    }
}

/// Together 40 kills; `cargo xtask kills` does a thousand in a night.
fn nothing_is_lost(kind: Kind, nearly_full: bool, count: u64, name: &str) -> Option<KillsReport> {
    let report = killed(kind, nearly_full, count, 42, None)?;
    let replay = format!("replay: cargo xtask kills --kind {name} --kills {count} --seed 42");
    assert!(report.breaches.is_empty(), "{:#?}\n{replay}", report.breaches);
    assert!(report.kills == count && report.acknowledged > 0, "{report:?}\n{replay}");
    Some(report)
}

#[test]
fn a_killed_block_device_has_all_that_was_acknowledged() {
    nothing_is_lost(Kind::Block, false, 8, "block");
}

#[test]
fn a_killed_mount_has_all_that_was_acknowledged_and_what_is_old() {
    let Some(report) = nothing_is_lost(Kind::Mount, false, 10, "mount") else { return };
    assert!(report.aged > 0, "no operation was left unsynced for long: {report:?}");
}

#[test]
fn a_killed_run_has_all_that_was_acknowledged() {
    nothing_is_lost(Kind::Run, false, 12, "run");
}

#[test]
fn killed_volumes_that_are_nearly_full_have_all_that_was_acknowledged() {
    for (kind, name) in [(Kind::Block, "block --nearly-full"), (Kind::Mount, "mount --nearly-full")] {
        let Some(report) = nothing_is_lost(kind, true, 5, name) else { return };
        assert!(report.packed_segments > 0, "{name}: {report:?}");
    }
}

#[test]
fn the_judge_finds_a_sync_that_was_not_done_and_a_page_that_changed() {
    for fault in [Fault::UnsyncedAcknowledged, Fault::PageChanged] {
        let Some(report) = killed(Kind::Mount, false, 20, 7, Some(fault)) else { return };
        assert!(report.lost + report.out_of_order > 0, "{fault:?} was not found: {report:?}");
    }
}
