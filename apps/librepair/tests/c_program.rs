//! A program in C uses a volume through the header: with several threads, with wrong arguments, and killed while it writes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flashlab_base::Bytes;
use flashlab_device::Device;
use flashlab_host::{OpenOptions, consent_to_overwrite_file, inspect};
use flashlab_repair::{LayoutOptions, Volume, VolumeUuid};

/// Rounds of the program that have to be flushed before it is killed.
const ROUNDS: u32 = 12;

/// The C program, linked with the library. `None`: there is no C compiler here.
fn compiled(folder: &Path, library: &str) -> Option<PathBuf> {
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program).arg(own.join("tests/program.c"));
    cc.arg("-I").arg(own.join("include")).arg(built.join(library));
    // The loader looks for the library under its SONAME.
    let _ = std::os::unix::fs::symlink(built.join(library), folder.join("libflashlab_volume.so.0"));
    cc.arg(format!("-Wl,-rpath,{}", folder.display()));
    cc.args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]);
    match cc.output() {
        Err(error) => {
            flashlab_skip::skip(flashlab_skip::Need::Programs, format_args!("there is no cc: {error}"));
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
    }
}

fn new_volume(folder: &Path) -> PathBuf {
    let path = folder.join("volume");
    std::fs::File::create(&path).unwrap().set_len(32 << 20).unwrap();
    let consent = consent_to_overwrite_file(&inspect(&path).unwrap()).unwrap();
    let device =
        flashlab_host::open(&path, &OpenOptions { write: Some(consent), ..OpenOptions::default() }).unwrap();
    let options = LayoutOptions {
        capacity: device.geometry().capacity,
        page: Bytes::kib(4),
        segment: Bytes::kib(512),
        logical_pages: 3500,
        checkpoint_interval: Bytes::mib(2),
    };
    Volume::create(device, VolumeUuid(*b"a volume for C.."), options).unwrap();
    path
}

fn uses(library: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), library) else { return };
    let volume = new_volume(folder.path());
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.arg(&volume).args(arguments);
        command
    };
    let succeeds = |arguments: &[&str]| {
        let ran = command(arguments).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    succeeds(&["refusals"]);
    succeeds(&["threads"]);
    succeeds(&["verify", "20"]);
    let mut writer = command(&["write"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut rounds = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut last = String::new();
    for _ in 0..ROUNDS {
        last = rounds.next().expect("it writes until it is killed").unwrap();
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    // What it printed before it died was flushed, too.
    last = rounds.map_while(Result::ok).last().unwrap_or(last);
    succeeds(&["verify", &last]);
}

#[test]
fn a_program_linked_dynamically_uses_a_volume_and_finds_it_again_after_it_was_killed() {
    uses("libflashlab_volume.so");
}

#[test]
fn a_program_linked_statically_uses_a_volume_and_finds_it_again_after_it_was_killed() {
    uses("libflashlab_volume.a");
}

#[test]
fn the_library_says_which_interface_it_has() {
    let built = std::env::current_exe().unwrap().parent().unwrap().join("libflashlab_volume.so");
    match Command::new("objdump").arg("-p").arg(&built).output() {
        Err(error) => {
            flashlab_skip::skip(flashlab_skip::Need::Programs, format_args!("there is no objdump: {error}"))
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let name = said.lines().find_map(|line| line.trim().strip_prefix("SONAME"));
            assert_eq!(name.map(str::trim), Some("libflashlab_volume.so.0"), "{said}");
        }
    }
}
