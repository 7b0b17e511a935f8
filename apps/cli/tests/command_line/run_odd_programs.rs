//! `flashlab repair run`: programs of unusual kinds, copies that are killed, and what is refused with advice.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use flashlab_skip::{Need, skip};

use crate::files::Mounted;
use crate::live_disk::send;
use crate::repair::json;
use crate::run_programs::Run;
use crate::support::program;

/// Whether these programs are here, and this is root.
fn is_possible(programs: &[&str]) -> bool {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "users and mounts");
        return false;
    }
    let missing = programs.iter().find(|name| program("sh", &["-c", &format!("command -v {name}")]).is_err());
    if let Some(missing) = missing {
        skip(Need::Kernel, format_args!("{missing} is not there"));
    }
    missing.is_none()
}

/// Processes whose command line has this text: their numbers.
fn processes_with(text: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |number: &u32| {
        let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        *number != std::process::id() && String::from_utf8_lossy(&line).contains(text)
    };
    numbers.filter(has).collect()
}

#[test]
fn a_program_with_io_uring_reads_what_it_wrote() {
    if !is_possible(&["fio"]) {
        return;
    }
    let Some(run) = Run::new("48MiB") else { return };
    let file = format!("--filename={}", run.path("data"));
    let job = ["fio", "--name=uring", &file, "--ioengine=io_uring", "--rw=randrw", "--size=8M", "--bs=4k"];
    let options =
        ["--iodepth=16", "--verify=crc32c", "--verify_fatal=1", "--fsync=64", "--direct=1", "--randseed=1"];
    let ran = run.run(&["m"], &[&job[..], &options[..]].concat());
    if ran.err.contains("io_uring_queue_init") || ran.out.contains("Operation not permitted") {
        return skip(Need::Kernel, "io_uring is not permitted");
    }
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(run.count("written_bytes") >= 4 << 20 && run.count("syncs") > 0);
    run.is_left_in_order();
}

#[test]
fn a_setuid_program_has_its_rights_on_the_volume_and_gets_none_from_it() {
    if !is_possible(&["setpriv", "touch", "id"]) {
        return;
    }
    let Some(run) = Run::new("48MiB") else { return };
    // One that lies elsewhere works as its owner in a directory that is closed to its caller.
    let touch = run.place.path("touch");
    fs::copy("/usr/bin/touch", &touch).unwrap();
    fs::set_permissions(&touch, fs::Permissions::from_mode(0o4755)).unwrap();
    let script = format!(
        "chmod 755 {m}; cp /usr/bin/id {m}/id; chmod 4755 {m}/id; \
         setpriv --reuid 65534 --clear-groups touch {m}/refused 2>/dev/null && exit 9; \
         setpriv --reuid 65534 --clear-groups {touch} {m}/made; stat -c '%u %a' {m}/made {m}/id; \
         setpriv --reuid 65534 --clear-groups {m}/id -u",
        m = run.data().display()
    );
    let said = run.succeeds(&["m"], &["bash", "-c", &script]);
    let is_nosuid = fs::read_to_string("/proc/self/mountinfo").unwrap().lines().any(|line| {
        run.place.path("").starts_with(line.split(' ').nth(4).unwrap_or("")) && line.contains("nosuid")
    });
    if is_nosuid {
        return skip(Need::Kernel, "the temporary directory is mounted without setuid programs");
    }
    assert_eq!(said, "0 644\n0 4755\n65534");
    run.is_left_in_order();
}

#[test]
fn a_program_that_forks_on_and_on_is_named_and_two_signals_end_its_files() {
    let Some(run) = Run::new("48MiB") else { return };
    let script = run.place.path("chain.sh");
    // At most 400 generations of some 20 ms each.
    let text = format!(
        "trap '' TERM; [ $1 -gt 400 ] && exit; [ -e {0} ] || exit; sleep 0.02; setsid sh {script} $(($1 + 1)) & exit",
        run.place.path("goes-on")
    );
    fs::write(&script, text).unwrap();
    fs::write(run.place.path("goes-on"), "").unwrap();
    let mut command = run.command(&["m"], &["sh", &script, "1"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut until =
        |text: &str| assert!(said.any(|line| line.contains(text)), "it ended and did not say `{text}`");
    until("its files are served to what it left behind");
    send(&child, "TERM");
    until("the signal was passed on");
    send(&child, "TERM");
    until("the files were in use");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    fs::remove_file(run.place.path("goes-on")).unwrap();
    let begun = Instant::now();
    while !processes_with(&script).is_empty() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(processes_with(&script).is_empty());
    run.is_left_in_order();
}

#[test]
fn a_directory_that_is_a_mount_point_is_covered_and_there_afterwards() {
    if !is_possible(&["mount"]) {
        return;
    }
    let Some(run) = Run::new("48MiB") else { return };
    let data = run.data().to_str().unwrap().to_owned();
    if program("mount", &["-t", "tmpfs", "none", &data]).is_err() {
        return skip(Need::Kernel, "no tmpfs can be mounted");
    }
    fs::write(run.path("beneath"), "").unwrap();
    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run.refuses((&[], &["m"]), &["true"], 3, "holds a file that the volume's files would hide");
        let script = format!("ls {data}; echo data > {data}/file; cat {data}/file");
        run.run_with(&["--hide"], &["m"], &["sh", "-c", &script]).out
    }));
    let left: Vec<_> = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    program("umount", &[&data]).unwrap();
    assert_eq!(said.unwrap(), "data\n");
    assert_eq!(left, ["beneath"]);
    run.is_left_in_order();
}

#[test]
fn a_copy_that_is_killed_leaves_nothing_of_it_and_the_next_one_has_all() {
    let Some(run) = Run::new("64MiB") else { return };
    for number in 0..600 {
        fs::write(run.path(&format!("file {number}")), vec![number as u8; 20_000]).unwrap();
    }
    let unfinished = format!("{}.flashlab-copying", run.data().file_name().unwrap().to_str().unwrap());
    for (signal, pause) in [("KILL", 60), ("TERM", 60), ("KILL", 250), ("TERM", 250)] {
        let mut command = run.command_with(&["--copy-in"], &["m"], &["true"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        send(&child, signal);
        let is_whole = child.wait().unwrap().code() == Some(0);
        let begun = Instant::now();
        while !processes_with(&unfinished).is_empty() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(processes_with(&unfinished).is_empty(), "cp goes on after {signal}");
        // All or nothing of it is there.
        let seen =
            run.run_with(&["--hide"], &["m"], &["sh", "-c", &format!("ls {} | wc -l", run.data().display())]);
        let count = seen.out.trim();
        assert!(count == "600" || (count == "0" && !is_whole), "{signal} after {pause} ms: {seen}");
        if count == "600" {
            break;
        }
    }
    let script = format!("cd {}; cat file\\ * | wc -c; ls | wc -l", run.data().display());
    let mut copied = run.run_with(&["--copy-in"], &["m"], &["sh", "-c", &script]);
    if copied.code == Some(3) {
        copied = run.run_with(&["--hide"], &["m"], &["sh", "-c", &script]);
    }
    assert_eq!(copied.out, "12000000\n600\n", "{copied}");
    run.is_left_in_order();
}

#[test]
fn what_a_volume_cannot_keep_of_files_is_refused_or_named() {
    if !is_possible(&["setfacl", "setcap"]) {
        return;
    }
    let Some(run) = Run::new("48MiB") else { return };
    fs::write(run.path("program"), "").unwrap();
    if program("setcap", &["cap_net_raw=ep", &run.path("program")]).is_err() {
        return skip(Need::Kernel, "the file system keeps no capabilities");
    }
    let copied = run.run_with(&["--copy-in"], &["m"], &["true"]);
    assert_eq!(copied.code, Some(0), "{copied}");
    assert!(copied.err.contains("the attribute security.capability is not copied"), "{copied}");
    fs::write(run.place.path("listed"), "").unwrap();
    fs::create_dir(run.place.path("other")).unwrap();
    fs::write(run.place.path("other/listed"), "").unwrap();
    program("setfacl", &["-m", "u:1234:rwx", &run.place.path("other/listed")]).unwrap();
    run.refuses((&["--copy-in"], &["other"]), &["true"], 3, "listed has an access control list");
    run.is_left_in_order();
}

#[test]
fn paths_that_cannot_be_served_are_refused_with_advice_and_the_volume_stays_closed() {
    let Some(run) = Run::new("48MiB") else { return };
    let (missing, folder) = (run.place.path("missing/socket"), run.place.path(""));
    for (socket, text) in [(&missing, "its folder does not exist"), (&folder, "it is a directory")] {
        run.refuses((&["--control", socket], &["m"]), &["true"], 2, text);
        let mount =
            run.directory.flashlab(&["repair", "mount", &run.volume, &run.path(""), "--control", socket]);
        assert!(mount.code == Some(2) && mount.err.contains(text), "{mount}");
    }
    let report = run.path("report");
    let within = ["repair", "run", "--report", &report, "--files", &run.path(""), &run.volume, "--", "true"];
    let ran = run.directory.flashlab(&within);
    assert!(ran.code == Some(2) && ran.err.contains("it lies among the files of"), "{ran}");
    assert!(!Path::new(&report).exists());
    // As in a shell: a star is no dot.
    let data = run.data();
    fs::write(data.join(".hidden"), "beneath").unwrap();
    let script = format!("cd {}; ls -a; cat .hidden; echo volume > file", data.display());
    assert_eq!(run.succeeds(&["m/*"], &["sh", "-c", &script]), ".\n..\n.hidden\nbeneath");
    assert!(!data.join("file").exists());
    fs::remove_file(data.join(".hidden")).unwrap();
    let status = run.directory.succeeds(&["repair", "status", &run.volume, "--json"]);
    assert_eq!(json(&status.out)["is_clean"], true, "{status}");
    // A dead mount says so.
    let Some(mounted) = Mounted::begin(&run.directory, &run.volume, &run.place) else { return };
    send(&mounted.child, "KILL");
    mounted.reap();
    run.refuses((&[], &["m"]), &["true"], 2, "was killed: mount them again");
    let within = run.directory.flashlab(&["repair", "mount", &run.volume, &run.path("sub")]);
    assert!(within.code == Some(2) && within.err.contains("was killed: mount them again"), "{within}");
    program("umount", &[run.data().to_str().unwrap()]).unwrap();
}
