//! Compares `flashlab serve` with its models and with other servers: the precision and the maximum IOPS of
//! each transport on this machine, as fio measures them.
//!
//!     cargo bench -p flashlab --bench live -- [ROUNDS [SECONDS]] [precision] [machine] [ceiling]
//!
//! It needs root, fio and losetup. For the comparison it also needs a C compiler with libfuse 3, and nbdkit.
//! What is missing is skipped with a message. Servers alternate (A B A B), and the figures are medians over
//! the rounds.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flashlab_base::{Nanos, median};

const FLASHLAB: &str = env!("CARGO_BIN_EXE_flashlab");

/// A server and the disk that it serves.
struct Server {
    child: Child,
    /// A command that removes what the child leaves behind.
    after: Option<Command>,
    target: Target,
}

#[derive(Clone)]
enum Target {
    Path(String),
    Nbd(String),
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(after) = &mut self.after {
            let _ = after.status();
        }
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// What fio saw.
struct Seen {
    iops: f64,
    p50_us: f64,
    p99_us: f64,
}

fn flashlab(profile: &Path, transport: &[&str]) -> Server {
    let mut child = Command::new(FLASHLAB)
        .arg("serve")
        .arg(format!("sim:{}", profile.display()))
        .args(transport)
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("flashlab starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("it says where");
    let ready: serde_json::Value = serde_json::from_str(&line).expect("one line of JSON when it is ready");
    let path = ready["path"].as_str().expect("a path").to_owned();
    let target = if path.starts_with("nbd") { Target::Nbd(path) } else { Target::Path(path) };
    Server { child, after: None, target }
}

fn fio(target: &Target, mode: &str, depth: u32, seconds: f64) -> Seen {
    let mut fio = Command::new("fio");
    fio.args(["--name=live", "--bs=4k", "--size=1g", "--time_based", "--output-format=json"])
        .args(["--direct=1", "--lat_percentiles=1", "--norandommap", "--random_generator=tausworthe64"])
        .arg(format!("--rw={mode}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={seconds}"));
    match target {
        Target::Path(path) if depth == 1 => fio.args(["--ioengine=psync", &format!("--filename={path}")]),
        Target::Path(path) => fio.args(["--ioengine=libaio", &format!("--filename={path}")]),
        Target::Nbd(uri) => fio.args(["--ioengine=nbd", &format!("--uri={uri}")]),
    };
    let output = fio.output().expect("fio runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let begin = text.find('{').unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let document: serde_json::Value = serde_json::from_str(&text[begin..]).expect("fio writes JSON");
    let side = &document["jobs"][0][if mode.contains("read") { "read" } else { "write" }];
    let percentile = |name: &str| side["lat_ns"]["percentile"][name].as_f64().unwrap_or(f64::NAN) / 1e3;
    Seen {
        iops: side["iops"].as_f64().unwrap_or(f64::NAN),
        p50_us: percentile("50.000000"),
        p99_us: percentile("99.000000"),
    }
}

/// A device with the same time for every IO, and any number of IOs in parallel.
fn profile(folder: &Path, response_ns: u64) -> PathBuf {
    let line = format!("a = \"{response_ns}ns\"\nb_us_per_kb = 0\n");
    let classes = ["sequential_read", "random_read", "sequential_write", "random_write"];
    let classes = classes.map(|class| format!("[throughput.{class}]\n{line}")).join("");
    let text = format!(
        "version = 2\nname = \"constant\"\ntitle = \"constant\"\nsource = \"none\"\nfit = \"exact\"\n\
         capacity = \"1GiB\"\n{classes}"
    );
    let path = folder.join(format!("constant-{response_ns}.toml"));
    std::fs::write(&path, text).expect("a file can be written");
    path
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// The transports of this machine, as options of `flashlab serve`.
fn transports(folder: &Path) -> Vec<(&'static str, Vec<String>)> {
    let mount = folder.join("mount");
    std::fs::create_dir(&mount).expect("a directory can be made");
    let mut transports = vec![
        ("FUSE", vec!["--fuse".to_owned(), mount.display().to_string()]),
        ("FUSE + loop", vec!["--loop".to_owned()]),
    ];
    if !has("nbdkit") {
        println!("skipped: NBD, there is no nbdkit here");
    } else if !build_plugin() {
        println!("skipped: NBD, flashlab's plugin for nbdkit cannot be built");
    } else {
        let socket = folder.join("socket").display().to_string();
        transports.push(("NBD", vec!["--nbd".to_owned(), socket]));
    }
    transports
}

/// Builds the plugin next to the program, because `cargo bench` builds only the dependencies of the
/// benchmark.
fn build_plugin() -> bool {
    let plugin = ["build", "--release", "--quiet", "--package", "flashlab-nbdkit-plugin"];
    Command::new(env!("CARGO")).args(plugin).status().is_ok_and(|status| status.success())
}

/// Waits until `there` holds.
fn wait_until(what: &str, there: impl Fn() -> bool) {
    let begin = Instant::now();
    while !there() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{what} did not come up");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A plain libfuse file whose server takes `delay_us` for an IO, with a loop device on it.
fn plain_fuse(folder: &Path, program: &Path, delay_us: u64) -> Server {
    let mount = folder.join("plain");
    let _ = std::fs::create_dir(&mount);
    let child = Command::new(program)
        .arg("-f")
        .arg(&mount)
        .env("DELAY_NS", (delay_us * 1000).to_string())
        .spawn()
        .expect("it was just built");
    let file = mount.join("disk");
    wait_until("plain_fuse", || file.exists());
    let attached = Command::new("losetup")
        .args(["--find", "--show", "--direct-io=on"])
        .arg(&file)
        .output()
        .expect("losetup runs");
    let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
    let mut after = Command::new("sh");
    let mount = mount.display();
    after.args(["-c", &format!("losetup -d {device}; sleep 0.2; umount {mount}")]);
    Server { child, after: Some(after), target: Target::Path(device) }
}

fn build_plain_fuse(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("plain_fuse");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/plain_fuse.c");
    let script = format!("cc -O2 -o {} {source} $(pkg-config --cflags --libs fuse3)", program.display());
    let built = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
    built.is_ok_and(|status| status.success()).then_some(program)
}

fn nbdkit_memory(folder: &Path) -> Server {
    let socket = folder.join("memory-socket");
    let _ = std::fs::remove_file(&socket);
    let child = Command::new("nbdkit")
        .args(["--foreground", "--unix"])
        .arg(&socket)
        .args(["memory", "1G"])
        .spawn()
        .expect("nbdkit is here");
    wait_until("nbdkit", || socket.exists());
    Server { child, after: None, target: Target::Nbd(format!("nbd+unix:///?socket={}", socket.display())) }
}

fn precision(folder: &Path, rounds: usize, seconds: f64) {
    println!("precision: what fio sees / what the model asks; goals: median 0.98 to 1.02, p99 up to 1.10");
    println!(
        "{:<12} {:>8} {:>6} {:>10} {:>8} {:>8} {:>8}",
        "transport", "model", "depth", "", "median", "p99", "IOPS"
    );
    for (name, options) in transports(folder) {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        for response_us in [100, 300, 2000] {
            let server = flashlab(&profile(folder, response_us * 1000), &options);
            for depth in [1, 8] {
                for mode in ["randread", "randwrite"] {
                    // The model serves one IO after the other.
                    let asked = (response_us * u64::from(depth)) as f64;
                    let seen: Vec<Seen> =
                        (0..rounds).map(|_| fio(&server.target, mode, depth, seconds)).collect();
                    let middle =
                        median(seen.iter().map(|seen| seen.p50_us / asked)).expect("there are rounds");
                    let tail = median(seen.iter().map(|seen| seen.p99_us / asked)).expect("there are rounds");
                    let rate = median(seen.iter().map(|seen| seen.iops * response_us as f64 / 1e6))
                        .expect("there are rounds");
                    println!(
                        "{name:<12} {:>5} us {depth:>6} {mode:>10} {middle:>8.3} {tail:>8.3} {rate:>8.3}",
                        response_us
                    );
                }
            }
        }
    }
}

/// The precision of a thread that only sleeps and spins, and of a plain C server that does so: their shares
/// of the tails above.
fn machine(folder: &Path, rounds: usize, seconds: f64) {
    println!(
        "\nthe machine: the same times by a lone thread that sleeps until 100 us before and spins, and by a plain C"
    );
    println!("libfuse file under a loop device, from whose times nothing is taken off (depth 1)");
    let program = build_plain_fuse(folder);
    for response_us in [100, 300, 2000] {
        let clock = flashlab_host::Clock::start();
        let mut taken: Vec<f64> = (0..2000)
            .map(|_| {
                let begin = clock.now();
                clock.sleep_until(begin + Nanos(response_us * 1000));
                clock.now().since(begin).0 as f64 / (response_us * 1000) as f64
            })
            .collect();
        taken.sort_by(f64::total_cmp);
        let (middle, tail) = (taken[taken.len() / 2], taken[taken.len() * 99 / 100]);
        println!("{:<12} {response_us:>5} us {:>17} {middle:>8.3} {tail:>8.3}", "a thread", "");
        let Some(program) = &program else { continue };
        let server = plain_fuse(folder, program, response_us);
        for mode in ["randread", "randwrite"] {
            let seen: Vec<Seen> = (0..rounds).map(|_| fio(&server.target, mode, 1, seconds)).collect();
            let middle =
                median(seen.iter().map(|seen| seen.p50_us / response_us as f64)).expect("there are rounds");
            let tail =
                median(seen.iter().map(|seen| seen.p99_us / response_us as f64)).expect("there are rounds");
            println!("{:<12} {response_us:>5} us      1 {mode:>10} {middle:>8.3} {tail:>8.3}", "plain C");
        }
    }
}

/// The other server's name, flashlab's options for the same transport, and how to start the other.
type Pair = (&'static str, Vec<String>, Box<dyn Fn() -> Server>);

fn ceiling(folder: &Path, rounds: usize, seconds: f64) {
    println!("\nceiling: IOPS of a model without delay / IOPS of the other server; goal: 0.90");
    // flashlab's server keeps CPUs awake, which would also help the other server.
    let mut processors = flashlab_host::IdleProcessors::open();
    if let Ok(processors) = &mut processors {
        processors.stay_awake(true).expect("root may wish");
    }
    let zero = profile(folder, 0);
    let mut pairs: Vec<Pair> = Vec::new();
    match build_plain_fuse(folder) {
        Some(program) => {
            let folder = folder.to_owned();
            let other = Box::new(move || plain_fuse(&folder, &program, 0));
            pairs.push(("plain libfuse + loop", vec!["--loop".to_owned()], other));
        }
        None => println!("skipped: plain libfuse, there is no C compiler or no libfuse 3 to build it"),
    }
    if has("nbdkit") {
        let socket = folder.join("socket").display().to_string();
        let folder = folder.to_owned();
        pairs.push((
            "nbdkit memory",
            vec!["--nbd".to_owned(), socket],
            Box::new(move || nbdkit_memory(&folder)),
        ));
    }
    for (name, options, other) in pairs {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        for (mode, depth) in [("randread", 1), ("randwrite", 1), ("randread", 32), ("randwrite", 32)] {
            let ratios = (0..rounds).map(|_| {
                let ours = fio(&flashlab(&zero, &options).target, mode, depth, seconds).iops;
                let theirs = fio(&other().target, mode, depth, seconds).iops;
                (ours / theirs, ours, theirs)
            });
            let ratios: Vec<(f64, f64, f64)> = ratios.collect();
            let ratio = median(ratios.iter().map(|all| all.0)).expect("there are rounds");
            let ours = median(ratios.iter().map(|all| all.1)).expect("there are rounds");
            let theirs = median(ratios.iter().map(|all| all.2)).expect("there are rounds");
            println!("{name:<22} {mode:>10} depth {depth:>2}: {ratio:.2}  ({ours:.0} / {theirs:.0} IOPS)");
        }
    }
}

/// A part of the bench: a folder, rounds, and seconds of each measurement.
type Part = fn(&Path, usize, f64);

fn main() {
    let numbers: Vec<f64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let rounds = numbers.first().map_or(3, |rounds| *rounds as usize).max(1);
    let seconds = numbers.get(1).copied().unwrap_or(3.0);
    if !has("fio") || !has("losetup") {
        println!("skipped: fio and losetup are needed");
        return;
    }
    let folder = tempfile::tempdir().expect("a directory can be made");
    let parts: [(&str, Part); 3] = [("precision", precision), ("machine", machine), ("ceiling", ceiling)];
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let all = !parts.iter().any(|(name, _)| chosen.iter().any(|chosen| chosen == name));
    for (name, part) in parts {
        if all || chosen.iter().any(|chosen| chosen == name) {
            part(folder.path(), rounds, seconds);
        }
    }
}
