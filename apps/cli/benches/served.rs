//! What programs get through `repair serve` and `repair mount`, as a part of what they get from the file beneath:
//!
//!     cargo bench -p flashlab --bench served -- [DIRECTORY [ROUNDS]] [reads] [sequential] [synced] [pgbench]
//!
//! It needs root, FUSE, losetup and fio; pgbench needs PostgreSQL. Without the name of a part it does all of them. The volumes and the
//! raw file lie in DIRECTORY (the current one if none is given), which has to be on the disk that is meant, with 8 GiB free. All
//! use direct IO. The raw file and the volumes' files are written once before, so that no file system allocates meanwhile. The file and
//! the ways through the volume alternate (A B C D A B C D); each cell is the median over the rounds of
//! a round's ratio to the raw file in the same round. Three rounds take some five minutes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flashlab_base::median;
use serde_json::Value;

const FLASHLAB: &str = env!("CARGO_BIN_EXE_flashlab");
const POSTGRESQL: &str = "/usr/lib/postgresql/15/bin";
/// The bytes that are read and written. The volumes are larger, because they need slack.
const AREA: &str = "1g";
const VOLUME_MIB: u32 = 1600;
/// Seconds of one fio or pgbench: long enough that its start does not count.
const SECONDS: u64 = 2;
const PGBENCH_SECONDS: u64 = 6;

/// Runs a command of the shell and returns what it printed; panics with it if the command fails.
fn shell(command: &str) -> String {
    let ran = Command::new("sh").args(["-c", command]).output().expect("there is a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ran.status.success(), "{command}\n{}{}", text(&ran.stdout), text(&ran.stderr));
    text(&ran.stdout)
}

/// A process of flashlab that serves a volume. Dropping it ends it.
struct Server {
    child: Child,
    path: String,
}

impl Server {
    /// A new volume in the directory, served in this way.
    fn start(directory: &Path, name: &str, way: &[&str]) -> Server {
        let volume = directory.join(format!("{}.volume", name.replace([' ', '-'], "")));
        let file = volume.display();
        shell(&format!("dd if=/dev/zero of={file} bs=1M count={VOLUME_MIB} oflag=direct status=none"));
        shell(&format!("{FLASHLAB} repair create {file} --overwrite-file"));
        let mut command = Command::new(FLASHLAB);
        command.args(["repair", way[0]]).arg(volume).args(&way[1..]).arg("--json");
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("flashlab starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("it is read");
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{way:?} does not serve"));
        Server { child, path: ready["path"].as_str().expect("it is named").to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        shell(&format!("kill -TERM {}", self.child.id()));
        let _ = self.child.wait();
    }
}

/// A way to the disk, with the file or block device that fio uses.
struct Way {
    name: &'static str,
    target: String,
    _server: Option<Server>,
}

/// The raw file first, and the ways through a volume.
fn ways(directory: &Path) -> Vec<Way> {
    let folder = |name: &str| {
        let folder = directory.join(name);
        std::fs::create_dir_all(&folder).expect("a folder is made");
        folder.display().to_string()
    };
    let served = |name, way: &[&str], file: &str| {
        let server = Server::start(directory, name, way);
        Way { name, target: format!("{}{file}", server.path), _server: Some(server) }
    };
    let raw = directory.join("raw").display().to_string();
    let ways = vec![
        Way { name: "raw", target: raw, _server: None },
        served("serve --fuse", &["serve", "--fuse", &folder("fuse")], ""),
        served("serve --loop", &["serve", "--loop"], ""),
        served("mount", &["mount", &folder("mounted")], "/file"),
    ];
    for way in &ways {
        fio(way, "--rw=write --bs=1m --ioengine=psync --end_fsync=1");
    }
    ways
}

/// What fio saw.
#[derive(Clone, Copy)]
struct Seen {
    rate: f64,
    median_us: f64,
}

fn fio(way: &Way, job: &str) -> Seen {
    let printed = shell(&format!(
        "fio --name=served --filename={} --size={AREA} --direct=1 --norandommap --output-format=json {job}",
        way.target
    ));
    // fio prints notes in front of the document.
    let document = &printed[printed.find('{').expect("fio prints a document")..];
    let document: Value = serde_json::from_str(document).expect("fio prints JSON");
    let job = &document["jobs"][0];
    let side = if job["read"]["total_ios"].as_u64() > Some(0) { &job["read"] } else { &job["write"] };
    let number = |value: &Value| value.as_f64().expect("a number");
    Seen {
        rate: number(&side["iops"]),
        median_us: number(&side["clat_ns"]["percentile"]["50.000000"]) / 1000.0,
    }
}

/// Runs a job on all ways in each round, and prints a row: of each way the median of `figure`, which gets the raw file's.
fn row(what: &str, goal: &str, ways: &[Way], rounds: usize, job: &str, figure: fn(Seen, Seen) -> f64) {
    let mut seen: Vec<Vec<Seen>> = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        ways.iter().zip(&mut seen).for_each(|(way, seen)| seen.push(fio(way, job)));
    }
    let raw = &seen[0];
    let rate = median(raw.iter().map(|seen| seen.rate)).expect("there are rounds");
    let latency = median(raw.iter().map(|seen| seen.median_us)).expect("there are rounds");
    let cells: Vec<String> = seen[1..]
        .iter()
        .map(|seen| {
            format!(
                "{:.2}",
                median(seen.iter().zip(raw).map(|(&seen, &raw)| figure(seen, raw)))
                    .expect("there are rounds")
            )
        })
        .collect();
    println!("| {what} | {rate:.0} IOPS, {latency:.0} us | {} | {goal} |", cells.join(" | "));
}

fn of_rate(seen: Seen, raw: Seen) -> f64 {
    seen.rate / raw.rate
}

fn longer_us(seen: Seen, raw: Seen) -> f64 {
    seen.median_us - raw.median_us
}

/// A PostgreSQL in a directory, with the tables of pgbench. Dropping it ends it.
struct Database {
    place: String,
    sockets: String,
}

impl Database {
    fn new(directory: &Path, name: &str, place: &str) -> Database {
        let sockets = directory.join(format!("sockets-{name}")).display().to_string();
        let place = format!("{place}/pg");
        shell(&format!(
            "mkdir -p {sockets} {place} && chmod 711 {} && chown postgres {sockets} {place}",
            directory.display()
        ));
        let database = Database { place, sockets };
        let at = &database.place;
        database.run(&format!("initdb -D {at} -N >/dev/null"));
        database.run(&format!(
            "pg_ctl -s -w -D {at} -l {at}/log -o \"-c listen_addresses='' -k {} -c shared_buffers=32MB\" start",
            database.sockets
        ));
        database.run(&format!("pgbench -q -i -s 10 -h {} postgres 2>&1", database.sockets));
        shell("sync");
        database
    }

    fn run(&self, program: &str) -> String {
        shell(&format!(
            "cd / && runuser -u postgres -- sh -c '{}'",
            format!("{POSTGRESQL}/{program}").replace('\'', "'\\''")
        ))
    }

    /// Transactions per second of two clients.
    fn rate(&self, options: &str) -> f64 {
        let printed = self.run(&format!(
            "pgbench -n {options} -c 2 -T {PGBENCH_SECONDS} -h {} postgres 2>/dev/null",
            self.sockets
        ));
        let line = printed.lines().find_map(|line| line.strip_prefix("tps = "));
        let number = line.and_then(|line| line.split(' ').next()).expect("pgbench prints the rate");
        number.parse().expect("it is a number")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.run(&format!("pg_ctl -s -w -D {} -m immediate stop", self.place));
    }
}

fn pgbench(directory: &Path, rounds: usize) {
    if !Path::new(POSTGRESQL).join("initdb").exists() {
        return println!("pgbench: PostgreSQL is not installed");
    }
    let [disk, mounted] = ["disk", "database"].map(|name| directory.join(name));
    [&disk, &mounted].into_iter().for_each(|folder| std::fs::create_dir_all(folder).expect("it is made"));
    let mounted = mounted.display().to_string();
    let server = Server::start(directory, "database", &["mount", &mounted]);
    let databases = [
        Database::new(directory, "disk", &disk.display().to_string()),
        Database::new(directory, "mount", &server.path),
    ];
    println!("| pgbench, 2 clients, scale 10 | disk, tps | mount, of the disk | goal |");
    println!("| --- | --- | --- | --- |");
    for options in ["-S", "-N"] {
        let mut seen = Vec::new();
        for _ in 0..rounds {
            let [disk, mounted] = [0, 1].map(|at| databases[at].rate(options));
            seen.push((disk, mounted / disk));
        }
        let [disk, ratio] = [
            median(seen.iter().map(|seen| seen.0)).expect("there are rounds"),
            median(seen.iter().map(|seen| seen.1)).expect("there are rounds"),
        ];
        println!("| {options} | {disk:.0} | {ratio:.2} | 0.9 |");
    }
    drop(databases);
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .unwrap_or_default()
        .split(' ')
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

fn main() {
    const PARTS: [&str; 4] = ["reads", "sequential", "synced", "pgbench"];
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (parts, others): (Vec<String>, Vec<String>) =
        arguments.into_iter().partition(|argument| PARTS.contains(&argument.as_str()));
    let does = |part: &str| parts.is_empty() || parts.iter().any(|named| named == part);
    let rounds = others.get(1).map_or(3, |text| text.parse().expect("ROUNDS is a number"));
    let beneath = others.first().map_or(PathBuf::from("."), PathBuf::from);
    let directory = std::path::absolute(beneath).expect("it is a path").join("flashlab-served");
    std::fs::create_dir_all(&directory).expect("a folder is made");
    println!("load average before: {}", load());
    if PARTS[..3].iter().any(|part| does(part)) {
        let ways = ways(&directory);
        let names: Vec<&str> = ways[1..].iter().map(|way| way.name).collect();
        println!("| | raw | {} | goal |", names.join(" | "));
        println!("| --- | --- |{} --- |", " --- |".repeat(names.len()));
        let timed = |job: &str| format!("{job} --time_based --runtime={SECONDS}");
        if does("reads") {
            let job = timed("--rw=randread --bs=4k --ioengine=io_uring --iodepth=32");
            row("random reads of 4 KiB, depth 32, of raw IOPS", "0.8", &ways, rounds, &job, of_rate);
            let job = timed("--rw=randread --bs=4k --ioengine=psync");
            row("the same, depth 1, us longer", "20 us", &ways, rounds, &job, longer_us);
        }
        if does("sequential") {
            let job = "--rw=write --bs=1m --ioengine=psync --end_fsync=1";
            row("sequential writes of 1 MiB, of raw", "0.9", &ways, rounds, job, of_rate);
            row(
                "sequential reads of 1 MiB, of raw",
                "0.9",
                &ways,
                rounds,
                "--rw=read --bs=1m --ioengine=psync",
                of_rate,
            );
        }
        if does("synced") {
            let job = timed("--rw=randwrite --bs=4k --ioengine=psync --fsync=1");
            row("random writes of 4 KiB with fsync, of raw", "1", &ways, rounds, &job, of_rate);
        }
    }
    if does("pgbench") {
        pgbench(&directory, rounds);
    }
    println!("load average after: {}", load());
    std::fs::remove_dir_all(&directory).expect("what was made is removed");
}
