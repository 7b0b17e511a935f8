//! A program is paged to a live simulated drive, as in section 5 of El Maghraoui and others; then the requests that the kernel sent
//! are replayed on the drive and on the throughput model fitted to it. The paper's claim is that the simple model suffices: for a
//! device that serves one request after the other it does.
//!
//! The swap space is small and the program's memory is limited in a group of its own, so that nobody else pages. What waits for the
//! disk is waited for with a limit; then the server is killed, and the kernel gives the program's pages up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live_disk::Server;
use crate::support::{Directory, program};

/// A drive with a page map and much spare flash that serves one request after the other: what it did before hardly matters. On one with log
/// blocks, such as the zoo's SD card, it does (docs/model.md).
const DRIVE: &str = r#"
version = 2
name = "simple"
title = "Simple"
source = "a test"
fit = "none"
capacity = "64MiB"

[flash]
page = "4KiB"
pages_per_block = 64
over_provisioning = 0.5
read = "100us"
program = "300us"
erase = "2ms"
channel_bandwidth = "100MB/s"

[controller]
read_command = "50us"
write_command = "50us"
depth = 1

[translation.page_map]
"#;
/// What the program holds and what it may keep in memory.
const DATA_MIB: usize = 24;
const MEMORY_MIB: usize = 16;
/// The longest time for each step that waits for the disk.
const LIMIT: Duration = Duration::from_secs(120);

/// Whether memory can be limited and swap space be added here, and the group to make others in.
fn memory_group() -> Result<PathBuf, String> {
    let groups = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let own = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        (parts.next() == Some("memory")).then(|| parts.next().unwrap_or("").to_owned())
    });
    let own = own.ok_or("there is no memory cgroup of version 1")?;
    let parent = PathBuf::from(format!("/sys/fs/cgroup/memory{own}"));
    let made = parent.join(format!("flashlab-paging-{}", std::process::id()));
    fs::create_dir(&made).map_err(|error| format!("{}: {error}", made.display()))?;
    Ok(made)
}

/// Swap space and a group, which are given back whatever happens.
struct Paging {
    group: PathBuf,
    swap: Option<PathBuf>,
}

impl Drop for Paging {
    fn drop(&mut self) {
        if let Some(disk) = self.swap.take() {
            let _ = Command::new("swapoff").arg(disk).status();
        }
        let _ = fs::remove_dir(&self.group);
    }
}

/// Waits for a process with a limit; `server` is killed when it takes longer, so that nothing waits for its disk any more.
fn within(mut child: Child, server: &Server, what: &str) {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{what}: {status}");
            return;
        }
        if begin.elapsed() > LIMIT {
            crate::live_disk::send(&server.child, "KILL");
            let _ = child.kill();
            panic!("{what} was not done after {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The paged program: it is this test's binary once more. Its pages hold what no page can be dropped for, and every one is checked.
#[test]
#[ignore = "a part of a_paged_program, which starts it in a process of its own"]
fn pager() {
    let Ok(operations) = std::env::var("FLASHLAB_PAGER") else { return };
    let pages = DATA_MIB << 8;
    let word = |page: usize| (page as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut memory: Vec<[u64; 512]> = (0..pages).map(|page| [word(page); 512]).collect();
    let mut random = flashlab_base::Prng::new(flashlab_base::Seed(24));
    for operation in 0..operations.parse().unwrap() {
        let page = random.below(pages as u64) as usize;
        assert_eq!(memory[page][511], word(page), "page {page} came back with other content");
        memory[page][operation % 256] = operation as u64;
    }
}

fn replayed(directory: &Directory, target: &str) -> (f64, u64) {
    let run = ["sim", "run", target, "--trace", "record", "--as-fast-as-possible", "--depth", "1", "--json"];
    let document: Value = serde_json::from_str(&directory.succeeds(&run).out).unwrap();
    let seconds = document["runs"][0]["duration_ns"].as_f64().unwrap() / 1e9;
    (seconds, document["trace"]["ios"].as_u64().unwrap())
}

#[test]
fn a_paged_program_sees_no_difference_between_a_drive_and_its_fitted_model() {
    let needs = ["mkswap", "swapon", "swapoff"].map(|name| program(name, &["--version"]));
    if let Some(reason) = needs.into_iter().find_map(Result::err) {
        return flashlab_skip::skip(flashlab_skip::Need::Programs, &reason);
    }
    let group = match memory_group() {
        Ok(group) => group,
        Err(reason) => return flashlab_skip::skip(flashlab_skip::Need::Kernel, &reason),
    };
    let mut paging = Paging { group, swap: None };
    let limit = paging.group.join("memory.limit_in_bytes");
    fs::write(limit, (MEMORY_MIB << 20).to_string()).unwrap();

    let directory = Directory::new();
    directory.write("drive.toml", DRIVE);
    directory.succeeds(&["sim", "precondition", "./drive.toml", "--times", "2", "--output", "drive.state"]);
    directory.succeeds(&[
        "model",
        "fit",
        "sim:./drive.toml@drive.state",
        "--state",
        "none",
        "--output",
        "fitted",
        "--json",
    ]);
    directory.succeeds(&["model", "tune", "fitted", "--for", "sim", "--output", "model.toml"]);

    let Some(server) =
        Server::of(&directory, "sim:./drive.toml@drive.state", &["--loop", "--output", "record"])
    else {
        return;
    };
    let disk: &Path = &server.path;
    assert!(Command::new("mkswap").arg(disk).output().unwrap().status.success());
    within(Command::new("swapon").arg(disk).spawn().unwrap(), &server, "swapon");
    paging.swap = Some(disk.to_owned());
    let pager = Command::new("sh")
        .args([
            "-c",
            &format!(
                "echo $$ >{}/cgroup.procs && exec \"$0\" --exact paging::pager --ignored --quiet",
                paging.group.display()
            ),
        ])
        .arg(std::env::current_exe().unwrap())
        .env("FLASHLAB_PAGER", "2000")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    within(pager, &server, "the paged program");
    within(Command::new("swapoff").arg(disk).spawn().unwrap(), &server, "swapoff");
    paging.swap = None;
    server.end();

    let (on_drive, ios) = replayed(&directory, "sim:./drive.toml@drive.state");
    let (on_model, _) = replayed(&directory, "sim:./model.toml");
    assert!(ios > 200, "only {ios} requests: nothing was paged");
    let ratio = on_model / on_drive;
    println!("{ios} requests: {on_drive:.2} s on the drive, {on_model:.2} s on its model");
    assert!(
        (0.75..1.33).contains(&ratio),
        "{ios} requests: {on_drive} s on the drive, {on_model} s on its model"
    );
}
