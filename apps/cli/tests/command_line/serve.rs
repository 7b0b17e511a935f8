//! Serves a simulated device as a live disk for other programs. The server is killed at any moment, and no
//! flushed data is lost. Without FUSE or loop devices the tests report that they were skipped.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live_disk::{Server, mount_point, pattern, send};
use crate::support::{Directory, program};

#[test]
fn a_file_keeps_what_is_written_at_any_offset() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    let Some(server) = Server::start(&directory, &["--fuse", &mount]) else { return };
    let file = server.open();
    assert_eq!(file.metadata().unwrap().len(), 64 << 20);
    let mut wanted = vec![0; 1 << 20];
    for (seed, offset, length) in
        [(1, 0, 1 << 20), (2, 5, 77), (3, 4095, 2), (4, 512, 8192), (5, 70_001, 300_000)]
    {
        let bytes = pattern(seed, length);
        file.write_all_at(&bytes, offset as u64).unwrap();
        wanted[offset..offset + length].copy_from_slice(&bytes);
    }
    let mut read = vec![0; 1 << 20];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read == wanted);
    // The end of the disk is the end of the file. As with a block device, truncating does nothing.
    assert_eq!(file.read_at(&mut read, (64 << 20) - 10).unwrap(), 10);
    assert_eq!(file.read_at(&mut read, 64 << 20).unwrap(), 0);
    assert_eq!(file.write_at(b"beyond", 64 << 20).unwrap_err().kind(), ErrorKind::StorageFull);
    file.set_len(0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::metadata(&server.path).unwrap().len(), 64 << 20);
    let status = server.status(&directory);
    assert!(status["served"]["classes"][1]["bytes"].as_u64().unwrap() >= 1 << 20, "{status}");
    assert_eq!(status["served"]["in_flight"], 0);
    assert!(status["device"]["operations"].as_array().is_some_and(|operations| !operations.is_empty()));
    drop(file);
    server.end();
}

#[test]
fn data_and_state_survive_a_restart_and_a_kill() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    let options = ["--fuse", &mount, "--backing", "disk.img"];
    let Some(server) = Server::start(&directory, &options) else { return };
    let first = pattern(1, 1 << 16);
    let file = server.open();
    file.write_all_at(&first, 4096).unwrap();
    drop(file);
    server.end();
    assert!(
        fs::metadata(directory.path("disk.img.flashlab")).unwrap().len() > 0,
        "the state is beside the data"
    );

    let server = Server::start(&directory, &options).unwrap();
    let file = server.open();
    let mut read = vec![0; 1 << 16];
    file.read_exact_at(&mut read, 4096).unwrap();
    assert!(read == first);
    // Killed under load: flushed data is there, and the mount can be removed.
    let second = pattern(2, 1 << 16);
    file.write_all_at(&second, 1 << 20).unwrap();
    file.sync_data().unwrap();
    let load = file.try_clone().unwrap();
    let load = std::thread::spawn(move || {
        (0..1_000_000_u64).all(|write| load.write_all_at(&[1; 4096], (write % 64) << 12).is_ok())
    });
    server.kill();
    assert!(!load.join().unwrap(), "no program hangs, and its writes fail");
    drop(file);

    let server = Server::start(&directory, &options).unwrap();
    server.open().read_exact_at(&mut read, 1 << 20).unwrap();
    assert!(read == second);
    server.end();
}

/// Also while it measures the transport latency of its own disk: no process waits for it in the kernel
/// forever.
#[test]
fn a_server_that_is_killed_at_its_start_ends() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    let Some(server) = Server::start(&directory, &["--fuse", &mount]) else { return };
    server.end();
    let disk = Path::new(&mount).join("disk");
    let mut killed_before_ready = 0;
    for delay in 0..20 {
        let arguments = ["serve", "sim:tlc-sata", "--size", "64MiB", "--fuse", &mount];
        let mut command = directory.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !disk.exists() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(8 * delay));
        child.kill().unwrap();
        // The end of the server and of the reading process: both have the pipe.
        let ended = std::thread::spawn(move || {
            let [mut out, mut err] = [String::new(), String::new()];
            child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
            child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
            child.wait().unwrap();
            out
        });
        let begin = Instant::now();
        while !ended.is_finished() {
            assert!(begin.elapsed() < Duration::from_secs(60), "a killed server hangs");
            std::thread::sleep(Duration::from_millis(1));
        }
        killed_before_ready += u32::from(ended.join().unwrap().is_empty());
        while fs::read_to_string("/proc/mounts").unwrap().contains(&format!(" {mount} ")) {
            assert!(begin.elapsed() < Duration::from_secs(60), "a mount is left");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(killed_before_ready > 0, "no kill came while the transport latency was measured");
}

/// Reads the server's messages until it reports that the disk is in use.
fn until_in_use(said: &mut impl BufRead) {
    let told = said.lines().map(Result::unwrap).find(|line| line.contains("is in use"));
    assert!(told.is_some_and(|line| line.contains("a second signal ends it at once")));
}

#[test]
fn a_disk_in_use_is_served_until_its_users_let_go() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    let Some(mut server) = Server::start(&directory, &["--fuse", &mount]) else { return };
    let mut said = BufReader::new(server.child.stderr.take().unwrap());
    let file = server.open();
    send(&server.child, "TERM");
    until_in_use(&mut said);
    file.write_all_at(&[5; 4096], 0).unwrap();
    file.sync_data().unwrap();
    drop(file);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!(!server.path.exists(), "it is still mounted");
}

#[test]
fn a_second_signal_waits_for_nobody() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    let Some(mut server) = Server::start(&directory, &["--fuse", &mount, "--fault", "stall,for=1000000000s"])
    else {
        return;
    };
    let mut said = BufReader::new(server.child.stderr.take().unwrap());
    let file = server.open();
    let stalled = std::thread::spawn(move || file.read_at(&mut [0; 4096], 0));
    while server.status(&directory)["served"]["in_flight"] == 0 {}
    send(&server.child, "INT");
    until_in_use(&mut said);
    send(&server.child, "TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(1));
    assert!(stalled.join().unwrap().is_err(), "the program that was stalled gets an error");
    assert!(!server.path.exists(), "it is still mounted");
}

/// The server ends by itself with exit code 1. Returns its message.
fn gave_up(mut server: Server) -> String {
    let mut said = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(1), "{said}");
    server.is_cleared();
    said
}

#[test]
fn a_loop_device_that_was_given_to_another_file_is_left_alone() {
    let directory = Directory::new();
    let Some(server) = Server::start(&directory, &["--loop"]) else { return };
    let device = server.path.to_str().unwrap().to_owned();
    directory.write("other", "x".repeat(4096));
    let other = directory.path("other").to_str().unwrap().to_owned();
    program("losetup", &["--detach", &device]).unwrap();
    let taken = program("losetup", &[&device, &other]);
    let said = gave_up(server);
    assert!(said.contains(&format!("{device} was detached by another program")), "{said}");
    if let Err(reason) = taken {
        return flashlab_skip::skip(flashlab_skip::Need::Programs, &reason);
    }
    let beneath = program("losetup", &["--noheadings", "--output", "BACK-FILE", &device]).unwrap();
    program("losetup", &["--detach", &device]).unwrap();
    assert!(beneath.trim().ends_with("other"), "{beneath}");
}

#[test]
fn a_disk_that_somebody_unmounts_is_served_no_more_and_its_state_is_kept() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    let Some(server) = Server::start(&directory, &["--fuse", &mount, "--backing", "disk.img"]) else {
        return;
    };
    server.open().write_all_at(&[7; 4096], 0).unwrap();
    if program("umount", &[&mount]).is_err() {
        program("fusermount3", &["-u", &mount]).unwrap();
    }
    let said = gave_up(server);
    assert!(said.contains("was unmounted by another program"), "{said}");
    assert_eq!(fs::read(directory.path("disk.img")).unwrap()[..4096], [7; 4096]);
    assert!(fs::metadata(directory.path("disk.img.flashlab")).unwrap().len() > 0, "the state is kept");
}

#[test]
fn a_backing_file_is_served_once_and_only_if_it_is_ours() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    directory.write("precious", "somebody's data");
    let serve = |options: &[&str]| {
        directory
            .flashlab(&[&["serve", "sim:tlc-sata", "--size", "64MiB", "--fuse", &mount], options].concat())
    };
    let refused = serve(&["--backing", "precious"]);
    assert_eq!(refused.code, Some(3), "{refused}");
    assert!(
        refused.err.contains("it contains: text: programs that use the disk would write over it"),
        "{refused}"
    );
    assert_eq!(fs::read(directory.path("precious")).unwrap(), b"somebody's data");
    let other = serve(&["--backing", "precious", "--overwrite-file"]);
    assert_eq!(other.code, Some(2), "{other}");
    assert!(other.err.contains("it holds a disk of 15B, and not of 64MiB"), "{other}");

    let Some(server) = Server::start(&directory, &["--fuse", &mount, "--backing", "disk.img"]) else {
        return;
    };
    let second = directory.path("second");
    fs::create_dir(&second).unwrap();
    let arguments = ["serve", "sim:tlc-sata", "--size", "64MiB", "--backing", "disk.img", "--fuse"];
    let refused = directory.flashlab(&[&arguments[..], &[second.to_str().unwrap()]].concat());
    assert_eq!(refused.code, Some(3), "{refused}");
    let user = format!("is open for writing in process {} (flashlab)", server.child.id());
    assert!(refused.err.contains(&user), "{refused}");
    server.end();
}

#[test]
fn faults_strike_and_power_comes_back() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    let Some(server) =
        Server::start(&directory, &["--fuse", &mount, "--fault", "error,on=write,nth=1,errno=ENOSPC"])
    else {
        return;
    };
    let file = server.open();
    file.write_all_at(&[1; 4096], 0).unwrap();
    assert_eq!(file.write_all_at(&[1; 4096], 0).unwrap_err().raw_os_error(), Some(28));
    file.write_all_at(&[2; 4096], 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[3; 4096], 0).unwrap();
    server.change(&directory, "power-loss", &[]);
    let mut read = [0; 4096];
    assert_eq!(file.read_exact_at(&mut read, 0).unwrap_err().raw_os_error(), Some(5));
    server.change(&directory, "power-on", &[]);
    file.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(read, [2; 4096], "what was flushed, and not what came after");
    server.change(&directory, "fault", &["dead"]);
    assert_eq!(file.read_exact_at(&mut read, 0).unwrap_err().raw_os_error(), Some(6));
    server.change(&directory, "clear-faults", &[]);
    file.read_exact_at(&mut read, 0).unwrap();
    let wrong = directory.flashlab(&["live", "fault", &server.control, "melt"]);
    assert_eq!(wrong.code, Some(2), "{wrong}");
    drop(file);
    server.end();
}

#[test]
fn a_block_device_carries_a_file_system() {
    let directory = Directory::new();
    let Some(server) = Server::start(&directory, &["--loop", "--output", "recorded"]) else { return };
    let device = server.path.to_str().unwrap().to_owned();
    if let Err(reason) = program("mkfs.ext4", &["-q", &device]) {
        flashlab_skip::skip(flashlab_skip::Need::Programs, &reason);
        return server.end();
    }
    let at = mount_point(&directory);
    program("mount", &[&device, &at]).unwrap();
    let content = pattern(7, 8 << 20);
    fs::write(Path::new(&at).join("file"), &content).unwrap();
    fs::write(Path::new(&at).join("gone"), &content).unwrap();
    program("umount", &[&at]).unwrap();
    program("mount", &[&device, &at]).unwrap();
    assert!(fs::read(Path::new(&at).join("file")).unwrap() == content);
    fs::remove_file(Path::new(&at).join("gone")).unwrap();
    let discarded = |status: Value| status["served"]["classes"][2]["bytes"].as_u64().unwrap();
    let before = discarded(server.status(&directory));
    program("fstrim", &[&at]).unwrap();
    assert!(discarded(server.status(&directory)) >= before + (8 << 20), "fstrim reaches the simulator");
    program("umount", &[&at]).unwrap();
    program("fsck.ext4", &["-f", "-n", &device]).unwrap();
    server.end();
    let samples = fs::read_dir(directory.path("recorded").join("samples")).unwrap().count();
    assert!(samples > 0, "what was served is recorded");
}

#[test]
fn a_killed_server_leaves_nothing() {
    let directory = Directory::new();
    let Some(mut server) = Server::start(&directory, &["--loop"]) else { return };
    let device = server.path.to_str().unwrap().to_owned();
    let load = server.open();
    let load = std::thread::spawn(move || {
        (0..).find(|write| {
            load.write_all_at(&[1; 4096], (write % 64) << 12).is_err() || load.sync_data().is_err()
        })
    });
    send(&server.child, "KILL");
    server.child.wait().unwrap();
    let begin = Instant::now();
    while !load.is_finished() {
        assert!(begin.elapsed() < Duration::from_secs(60), "a program hangs on a dead disk");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.is_cleared();
    // The kernel detaches it when the last program closes it.
    while Path::new("/sys/block").join(device.trim_start_matches("/dev/")).join("loop/backing_file").exists()
    {
        assert!(begin.elapsed() < Duration::from_secs(60), "the loop device stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_cannot_be_served_is_told() {
    let directory = Directory::new();
    let mount = mount_point(&directory);
    let told = |arguments: &[&str]| directory.flashlab(&[&["serve"], arguments].concat()).to_string();
    insta::assert_snapshot!(told(&["sim:zeus"]), @r"
    exit 2
    flashlab: how shall programs reach the disk? Give --loop or --ublk for a block device, --fuse DIR or --nbd SOCKET
    ");
    insta::assert_snapshot!(told(&["sim:nothing", "--loop"]), @r#"
        exit 2
        flashlab: there is no simulated device `nothing`: `flashlab sim list` names them; or give a file as sim:./nothing.toml
        "#);
    insta::assert_snapshot!(told(&["disk.img", "--loop"]), @r"
    exit 2
    flashlab: disk.img is no simulated device: give sim:NAME (`flashlab sim list` names them)
    ");
    insta::assert_snapshot!(told(&["sim:zeus", "--size", "1GiB", "--fuse", "nowhere"]), @r#"
        exit 2
        flashlab: cannot mount on nowhere: No such file or directory (os error 2); give an empty directory
        "#);
    insta::assert_snapshot!(told(&["sim:zeus", "--size", "1GiB", "--fuse", "."]), @r#"
        exit 2
        flashlab: cannot mount on .: it is not empty, or a disk is mounted there already
        "#);
    insta::assert_snapshot!(told(&["sim:zeus", "--fuse", &mount, "--fault", "melt"]), @r#"
    exit 2
    flashlab: "melt" is no fault: there is no kind "melt"; there are error, torn, lost-flush, stall, slow, corrupt, dead, worn, power-loss
    "#);
    insta::assert_snapshot!(told(&["--fuse", &mount]), @r#"
        exit 2
        error: the following required arguments were not provided:
          <TARGET>

        Usage: flashlab serve --fuse <DIR> <TARGET>

        For more information, try '--help'.
        "#);
    insta::assert_snapshot!(directory.flashlab(&["live", "status", "nowhere"]), @r#"
        exit 2
        flashlab: no flashlab serve listens on nowhere: give the control socket that it printed when it was ready: No such file or directory (os error 2)
        "#);
    let large = told(&["sim:zeus", "--size", "500TiB", "--fuse", &mount]);
    assert!(large.contains("exit 2") && large.contains("does not fit into the"), "{large}");
    assert!(directory.names().iter().all(|name| name == "mount"), "nothing is left");
}

#[test]
fn a_daemon_serves_until_it_is_stopped() {
    let directory = Directory::new();
    let at = mount_point(&directory);
    let serve = ["serve", "sim:zeus", "--size", "16MiB", "--fuse", &at, "--daemon"];
    let ran = directory.flashlab(&[&serve[..], &["--control", "socket", "--log", "log"]].concat());
    if ran.code != Some(0) {
        assert!(ran.err.contains("FUSE needs"), "{ran}");
        flashlab_skip::skip(flashlab_skip::Need::Fuse, &ran.err);
        return;
    }
    assert!(ran.out.contains("/disk  control socket"), "{ran}");
    let disk = std::path::Path::new(&at).join("disk");
    let read = || {
        let mut block = [0; 4096];
        fs::File::open(&disk).unwrap().read_exact_at(&mut block, 0).unwrap();
        block
    };
    assert_eq!(read(), [0; 4096]);
    directory.succeeds(&["live", "fault", "socket", "corrupt,from=0B,to=4KiB,count=1"]);
    assert_eq!(read().iter().map(|byte| byte.count_ones()).sum::<u32>(), 1, "one bit is another one");
    assert_eq!(read(), [0; 4096]);
    directory.succeeds(&["live", "stop", "socket"]);
    assert!(!disk.exists(), "it is taken down");
    assert_eq!(directory.flashlab(&["live", "stop", "socket"]).code, Some(2));

    // The log that nobody named is in a directory that nobody else can use, under a name that nobody can guess.
    let temporary = directory.path("temporary");
    fs::create_dir(&temporary).unwrap();
    let with_own_log = |device: &str| {
        let words = ["serve", device, "--size", "16MiB", "--fuse", &at, "--daemon", "--control", "socket"];
        directory.command(&words).env("TMPDIR", &temporary).output().unwrap()
    };
    let ran = with_own_log("sim:zeus");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    let log = said.lines().find_map(|line| line.strip_prefix("its messages are in ")).unwrap();
    let log = std::path::Path::new(log);
    assert!(log.is_file() && log.starts_with(&temporary), "{said}");
    let private = fs::metadata(log.parent().unwrap()).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&private.permissions()) & 0o777, 0o700);
    directory.succeeds(&["live", "stop", "socket"]);
    fs::remove_dir_all(log.parent().unwrap()).unwrap();
    assert!(!with_own_log("sim:nothing").status.success());
    assert_eq!(
        fs::read_dir(&temporary).unwrap().count(),
        0,
        "the log of a server that did not start is gone"
    );

    let refused = directory.flashlab(&["serve", "sim:nothing", "--fuse", &at, "--daemon", "--log", "log-2"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(!directory.path("log-2").exists(), "its messages were printed");
    assert!(refused.err.contains("nothing"), "{refused}");
}
