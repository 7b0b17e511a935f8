//! The server of a mounted directory is killed: what nobody synced is there, and no program goes on in the directory beneath.

use std::fs;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::files::{Mounted, Place};
use crate::live_disk::{first_line, pattern, send};
use crate::repair::{json, new_volume};
use crate::support::{Directory, program};

#[test]
fn what_no_program_syncs_is_durable_some_seconds_later() {
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "64MiB");
    let (mount, socket) = (place.path("m"), place.path("socket"));
    let mut command = directory.command(&["repair", "mount", &volume, &mount, "--control", &socket]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if first_line(&mut child, &["FUSE needs"]).is_none() {
        return;
    }
    let is_dirty = || {
        let status = json(&directory.succeeds(&["repair", "status", &socket, "--json"]).out);
        status["is_dirty"].as_bool().unwrap()
    };
    let data = pattern(5, 3 << 20);
    fs::write(place.path("m/file"), &data).unwrap();
    fs::create_dir(place.path("m/directory")).unwrap();
    while is_dirty() {
        std::thread::sleep(Duration::from_millis(200));
    }
    send(&child, "KILL");
    child.wait().unwrap();
    let mounted = Mounted::begin(&directory, &volume, &place).unwrap();
    assert!(fs::read(mounted.path("file")).unwrap() == data);
    assert!(mounted.path("directory").is_dir());
    mounted.end();
}

#[test]
fn no_program_goes_on_in_the_directory_beneath_a_dead_mount() {
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "64MiB");
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    let ends = AtomicBool::new(false);
    let (made, failed, mounted) = std::thread::scope(|scope| {
        let mut mounted = mounted;
        let program = scope.spawn(|| {
            let (mut made, mut failed) = (0, 0_u64);
            // A test that fails ends, too.
            let begin = Instant::now();
            while !ends.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(120) {
                match fs::write(place.path(&format!("m/{made}")), b"data") {
                    Ok(()) => made += 1,
                    Err(_) => failed += 1,
                }
            }
            (made, failed)
        });
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(200));
            send(&mounted.child, "KILL");
            mounted.reap();
            mounted = Mounted::begin(&directory, &volume, &place).unwrap();
        }
        ends.store(true, Ordering::Relaxed);
        let (made, failed) = program.join().unwrap();
        (made, failed, mounted)
    });
    assert!(made > 0 && failed > 0, "{made} made, {failed} failed");
    let said = mounted.end();
    assert!(said.contains("was killed: its mount is replaced"), "{said}");
    assert_eq!(fs::read_dir(place.mount()).unwrap().count(), 0);
    // A user who unmounts a dead mount has the directory again, and a live mount is not replaced.
    let mounted = Mounted::begin(&directory, &volume, &place).unwrap();
    let mount = place.path("m");
    fs::write(mounted.path("a file"), b"").unwrap();
    let refused = directory.flashlab(&["repair", "mount", &volume, &mount]);
    assert!(refused.code == Some(2) && refused.err.contains("not empty"), "{refused}");
    send(&mounted.child, "KILL");
    mounted.reap();
    program("umount", &[&mount]).unwrap();
    assert_eq!(fs::read_dir(&mount).unwrap().count(), 0);
}
