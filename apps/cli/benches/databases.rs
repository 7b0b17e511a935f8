//! Databases on repaired devices: what the volume brings them on poor devices, and what they keep when it dies.
//!
//!     cargo bench -p flashlab --bench databases -- poor [SECONDS [ROUNDS [DEVICE]]]
//!     cargo bench -p flashlab --bench databases -- survive [ENGINE]
//!
//! It needs root, loop devices, FUSE and mkfs.ext4; SQLite, PostgreSQL and MariaDB as far as they are installed.
//!
//! `poor`: a database on ext4 on a simulated device that is served live, direct and repaired (A B A B). It prints the
//! transactions per second, and the flash pages that the device programmed for each. The disks are prepared at full speed, and the
//! simulated device begins as one that was written from end to end: files take most of the file system, and random writes
//! went over them, so that a volume has to pack from the first transaction on.
//!
//! `survive`: rows with consecutive numbers are committed until the server of the volume is killed, or the device beneath loses
//! its power. What was acknowledged has to be there after that, and the database whole.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use flashlab_base::{Prng, Seed};
use serde_json::Value;

const FLASHLAB: &str = env!("CARGO_BIN_EXE_flashlab");
const POSTGRESQL: &str = "/usr/lib/postgresql/15/bin";

/// Runs a command of the shell, and panics with what it printed if it fails.
fn shell(command: &str) -> String {
    tried(command).unwrap_or_else(|error| panic!("{command}\n{error}"))
}

fn tried(command: &str) -> Result<String, String> {
    let ran = Command::new("sh").args(["-c", command]).output().expect("there is a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if ran.status.success() { Ok(text(&ran.stdout)) } else { Err(text(&ran.stdout) + &text(&ran.stderr)) }
}

/// A process of flashlab that serves a disk. Dropping it ends it.
struct Server {
    child: Child,
    path: String,
    control: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let mut command = Command::new(FLASHLAB);
        command.args(arguments).arg("--json").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("flashlab starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("it is read");
        let ready: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{arguments:?} does not serve"));
        let text = |key: &str| ready[key].as_str().expect("it is named").to_owned();
        Server { child, path: text("path"), control: text("control") }
    }

    fn pages_programmed(&self) -> u64 {
        let status = shell(&format!("{FLASHLAB} live status {} --json", self.control));
        let status: Value = serde_json::from_str(&status).expect("it is JSON");
        let operations = status["device"]["operations"].as_array().expect("a flash device counts operations");
        operations.iter().filter_map(|operation| operation["pages_programmed"].as_u64()).sum()
    }

    fn signal(&self, name: &str) {
        let _ = tried(&format!("kill -{name} {}", self.child.id()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal("TERM");
        let _ = self.child.wait();
    }
}

/// A mounted file system; dropping it unmounts it.
struct Mounted(PathBuf);

impl Mounted {
    fn new(disk: &str, place: &Path, make: bool) -> Mounted {
        if make {
            shell(&format!("mkfs.ext4 -q -F -E nodiscard {disk}"));
        }
        shell(&format!("mkdir -p {0} && mount -o noatime {disk} {0}", place.display()));
        Mounted(place.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let place = self.0.display();
        let _ = tried(&format!("umount {place} || (sleep 1; umount {place}) || umount -l {place}"));
    }
}

/// A client of a database that executes statements one by one.
struct Session {
    child: Child,
    statements: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Session {
    fn start(command: &str) -> Session {
        let mut child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is a shell");
        let statements = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Session { child, statements, answers }
    }

    /// Executes a statement, and a query that answers with a line. False: the database is gone.
    fn execute(&mut self, statement: &str) -> bool {
        let sent =
            writeln!(self.statements, "{statement}; select 'done';").and_then(|()| self.statements.flush());
        sent.is_ok() && self.answers.any(|line| line.is_ok_and(|line| line == "done"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A database system in a directory.
#[derive(Clone, Copy, PartialEq)]
enum Engine {
    Sqlite(&'static str),
    PostgreSql,
    MariaDb,
}

impl Engine {
    fn name(self) -> String {
        match self {
            Engine::Sqlite(journal) => format!("SQLite, journal_mode={journal}"),
            Engine::PostgreSql => "PostgreSQL".to_owned(),
            Engine::MariaDb => "MariaDB".to_owned(),
        }
    }

    fn is_installed(self) -> bool {
        match self {
            Engine::Sqlite(_) => tried("command -v sqlite3").is_ok(),
            Engine::PostgreSql => Path::new(POSTGRESQL).join("initdb").exists(),
            Engine::MariaDb => tried("command -v mariadbd && command -v mariadb").is_ok(),
        }
    }

    /// Makes an empty database with the table `t`, without waiting for the device.
    fn make(self, place: &Path) {
        let at = place.display();
        match self {
            Engine::Sqlite(journal) => {
                shell(&format!(
                    "sqlite3 {at}/db 'pragma synchronous=off; pragma journal_mode={journal}; create table t(i integer primary \
                     key, v blob)'"
                ));
            }
            Engine::PostgreSql => {
                shell(&format!("mkdir {at}/pg && chown postgres {at} {at}/pg"));
                shell(&format!(
                    "cd / && runuser -u postgres -- {POSTGRESQL}/initdb -D {at}/pg -N >/dev/null"
                ));
                self.start(place, "-c fsync=off");
                shell(&format!("{} -c 'create table t(i integer primary key, v text)'", self.client(place)));
                self.stop(place);
            }
            Engine::MariaDb => {
                shell(&format!(
                    "mariadb-install-db --no-defaults --user=root --datadir={at}/my --auth-root-authentication-method=normal \
                     --skip-test-db >/dev/null"
                ));
                self.start(place, "");
                shell(&format!(
                    "{} -e 'create database d; create table d.t(i integer primary key, v text) engine=innodb'",
                    self.client(place)
                ));
                self.stop(place);
            }
        }
        shell("sync");
    }

    fn start(self, place: &Path, options: &str) {
        let at = place.display();
        match self {
            Engine::Sqlite(_) => {}
            Engine::PostgreSql => {
                shell(&format!(
                    "cd / && runuser -u postgres -- {POSTGRESQL}/pg_ctl -s -w -t 300 -D {at}/pg -l {at}/pg/log -o \"-c \
                     listen_addresses='' -k {at} -c shared_buffers=16MB -c max_wal_size=64MB {options}\" start"
                ));
            }
            Engine::MariaDb => {
                shell(&format!(
                    "mariadbd --no-defaults --user=root --datadir={at}/my --socket={at}/s --skip-networking {options} \
                      >/dev/null 2>{at}.log & echo $! >{at}.pid; for i in $(seq 300); do mariadb-admin --no-defaults -S {at}/s ping \
                     >/dev/null 2>&1 && exit 0; sleep 0.2; done; cat {at}.log; exit 1"
                ));
            }
        }
    }

    /// Ends the server of the database; it may have lost its disk.
    fn stop(self, place: &Path) {
        let at = place.display();
        let _ = match self {
            Engine::Sqlite(_) => Ok(String::new()),
            Engine::PostgreSql => {
                let stop = format!("cd / && runuser -u postgres -- {POSTGRESQL}/pg_ctl -s -w -D {at}/pg -m");
                tried(&format!("{stop} fast stop || {stop} immediate stop"))
            }
            Engine::MariaDb => tried(&format!(
                "timeout 60 mariadb-admin --no-defaults -S {at}/s shutdown || kill -9 $(cat {at}.pid); sleep 2"
            )),
        };
    }

    fn client(self, place: &Path) -> String {
        let at = place.display();
        match self {
            // Below `extra`, a power failure may undo the last commit with a deleted journal.
            Engine::Sqlite(_) => format!("sqlite3 -bail -cmd 'pragma synchronous=extra' {at}/db"),
            Engine::PostgreSql => {
                format!(
                    "runuser -u postgres -- {POSTGRESQL}/psql -q -t -A -v ON_ERROR_STOP=1 -h {at} postgres"
                )
            }
            Engine::MariaDb => format!("mariadb --no-defaults -S {at}/s -N -B --unbuffered"),
        }
    }

    /// Fills the table, for updates.
    fn fill(self, place: &Path) {
        let at = place.display();
        match self {
            Engine::Sqlite(_) => {
                shell(&format!(
                    "sqlite3 {at}/db 'pragma synchronous=off; with recursive c(i) as (select 1 union all select i+1 from c where \
                     i<20000) insert into t select i, randomblob(200) from c'"
                ));
            }
            Engine::PostgreSql => {
                self.start(place, "-c fsync=off");
                shell(&format!(
                    "cd / && runuser -u postgres -- {POSTGRESQL}/pgbench -q -i -s 2 -h {at} postgres 2>&1"
                ));
                self.stop(place);
            }
            Engine::MariaDb => {}
        }
        shell("sync");
    }

    /// Writes everything that the database and the file system still have in memory.
    fn checkpoint(self, place: &Path) {
        if self == Engine::PostgreSql {
            shell(&format!("echo 'checkpoint;' | {}", self.client(place)));
        }
        shell(&format!("sync -f {}", place.display()));
    }

    /// Ends the server of the database at once: what it would write now does not belong to the transactions.
    fn kill(self, place: &Path) {
        match self {
            Engine::PostgreSql => {
                let at = place.display();
                shell(&format!(
                    "cd / && runuser -u postgres -- {POSTGRESQL}/pg_ctl -s -w -D {at}/pg -m immediate stop"
                ));
            }
            _ => self.stop(place),
        }
    }

    /// Transactions for some seconds, at least five: SQLite updates random rows, PostgreSQL runs pgbench with 4 clients. Returns the
    /// number.
    fn run(self, place: &Path, seconds: u64) -> f64 {
        let at = place.display();
        let begin = Instant::now();
        if self == Engine::PostgreSql {
            let pgbench = format!(
                "cd / && runuser -u postgres -- {POSTGRESQL}/pgbench -n -c 4 -T {seconds} -h {at} postgres 2>/dev/null | sed -n \
                 's/^number of transactions actually processed: \\([0-9]*\\).*/\\1/p'"
            );
            return shell(&pgbench).trim().parse().expect("pgbench prints the number");
        }
        let mut session = Session::start(&self.client(place));
        let mut transactions = 0.0;
        while transactions < 5.0 || begin.elapsed() < Duration::from_secs(seconds) {
            assert!(session.execute("update t set v=randomblob(200) where i=abs(random())%20000+1"));
            transactions += 1.0;
        }
        transactions
    }
}

/// A device that is served, the volume on it if it is repaired, and ext4. They end in this order.
struct Stack {
    mounted: Option<Mounted>,
    volume: Option<Server>,
    device: Server,
}

impl Stack {
    fn over(device: Server, policy: Option<&str>, place: &Path, is_new: bool) -> Stack {
        let volume = policy.map(|policy| {
            if is_new {
                shell(&format!("{FLASHLAB} repair create {0} --destroy-data-on {0}", device.path));
            }
            Server::start(&["repair", "serve", &device.path, "--loop", "--policy", policy])
        });
        let disk = volume.as_ref().map_or(&device.path, |volume| &volume.path);
        let mounted = Some(Mounted::new(disk, place, is_new));
        Stack { mounted, volume, device }
    }
}

/// A disk of this size takes a few seconds to prepare, and has 128 segments of 4 MiB.
const POOR_SIZE: u64 = 512 << 20;

/// A poor device of the zoo, and the volume that suits it.
#[derive(Clone, Copy)]
struct PoorDevice {
    name: &'static str,
    /// At least the page of the flash: a record that begins within a page that was programmed makes the device merge.
    page: &'static str,
    /// The device has one or two open blocks: more logs than that close one block for another.
    policy: &'static str,
}

const POOR_DEVICES: [PoorDevice; 3] = [
    PoorDevice { name: "sdcard", page: "8KiB", policy: "greedy" },
    PoorDevice { name: "cruzer-micro", page: "4KiB", policy: "greedy" },
    PoorDevice { name: "uflip-transcend-mlc", page: "16KiB", policy: "greedy" },
];

/// Disks with a database, and the poor devices that they are put on.
struct Prepared {
    directory: PathBuf,
}

impl Prepared {
    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// A simulated device of this size that was written from end to end: its profile and its state.
    fn device(&self, name: &str) {
        let profile = shell(&format!("{FLASHLAB} sim show sim:{name}"));
        let size = |line: &str| match line.starts_with("capacity = ") {
            true => format!("capacity = \"{POOR_SIZE}B\"\n"),
            false => format!("{line}\n"),
        };
        let file = self.file(&format!("{name}.toml"));
        fs::write(&file, profile.lines().map(size).collect::<String>()).expect("the profile is written");
        shell(&format!(
            "{FLASHLAB} sim precondition sim:{file} --state sequential --output {}",
            self.file(&format!("{name}.state"))
        ));
    }

    /// The disk of an engine: a file with its data, and files of a steady state beside it; on a volume with pages of this size.
    fn disk(&self, engine: Engine, on: Option<PoorDevice>) -> String {
        let of = format!("{}-{}", engine.name(), on.map_or("direct", |device| device.page));
        let file = self.file(&of.replace(['=', ',', ' '], "-"));
        if Path::new(&file).exists() {
            return file;
        }
        let volume = match on {
            Some(PoorDevice { page, policy, .. }) => {
                shell(&format!("{FLASHLAB} repair create {file} --size {POOR_SIZE}B --page {page}"));
                Some(Server::start(&["repair", "serve", &file, "--loop", "--policy", policy]))
            }
            None => {
                shell(&format!("truncate -s {POOR_SIZE} {file}"));
                None
            }
        };
        let disk = match &volume {
            Some(volume) => volume.path.clone(),
            None => shell(&format!("losetup --find --show {file}")).trim().to_owned(),
        };
        let place = self.directory.join("preparing");
        let mounted = Mounted::new(&disk, &place, true);
        engine.make(&place);
        engine.fill(&place);
        let (at, other) = (place.display(), place.join("other"));
        let free: u64 =
            shell(&format!("df --output=avail -B 1 {at} | tail -1")).trim().parse().expect("a number");
        overwrite_randomly(&other, free * 8 / 10);
        drop(mounted);
        if volume.is_none() {
            shell(&format!("losetup -d {disk}"));
        }
        file
    }

    /// Serves a copy of a disk from a poor device.
    fn stack(&self, poor: PoorDevice, engine: Engine, is_repaired: bool, place: &Path) -> Stack {
        let (disk, served) = (self.disk(engine, is_repaired.then_some(poor)), self.file("served"));
        shell(&format!(
            "cp --sparse=always {disk} {served} && cp {} {served}.flashlab",
            self.file(&format!("{}.state", poor.name))
        ));
        let profile = format!("sim:{}", self.file(&format!("{}.toml", poor.name)));
        let device = Server::start(&["serve", &profile, "--backing", &served, "--loop"]);
        Stack::over(device, is_repaired.then_some(poor.policy), place, false)
    }
}

/// Makes a file of this size, and writes its size once more to random pages of it.
fn overwrite_randomly(path: &Path, size: u64) {
    const PAGE: u64 = 4096;
    let mut file = fs::File::create(path).expect("the file is made");
    let chunk: Vec<u8> =
        (0..1_u64 << 17).flat_map(|word| (word.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes()).collect();
    for _ in 0..size >> 20 {
        file.write_all(&chunk).expect("there is space");
    }
    let pages = (size >> 20) * ((1 << 20) / PAGE);
    let mut random = Prng::new(Seed(1));
    for written in 0..pages {
        file.write_all_at(&chunk[..PAGE as usize], random.below(pages) * PAGE).expect("it is overwritten");
        if written % 4096 == 0 {
            file.sync_data().expect("it is durable");
        }
    }
    file.sync_all().expect("it is durable");
}

/// Transactions a second and flash pages for each transaction.
fn measure(stack: &Stack, engine: Engine, seconds: u64, place: &Path) -> (f64, f64) {
    engine.start(place, "");
    engine.checkpoint(place);
    let before = stack.device.pages_programmed();
    let begin = Instant::now();
    let transactions = engine.run(place, seconds);
    engine.checkpoint(place);
    let taken = begin.elapsed().as_secs_f64();
    let pages = stack.device.pages_programmed() - before;
    engine.kill(place);
    (transactions / taken, pages as f64 / transactions)
}

fn poor(seconds: u64, rounds: usize, only: Option<&str>, directory: PathBuf) {
    let place = directory.join("mounted");
    let prepared = Prepared { directory };
    println!(
        "| device | database | tx/s direct | tx/s repaired | ratio | flash pages/tx direct | repaired | ratio |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for poor in POOR_DEVICES.into_iter().filter(|poor| only.is_none_or(|name| name == poor.name)) {
        prepared.device(poor.name);
        for engine in [Engine::Sqlite("delete"), Engine::PostgreSql] {
            if !engine.is_installed() {
                println!("{} is not installed", engine.name());
                continue;
            }
            let mut seen = [Vec::new(), Vec::new()];
            for _ in 0..rounds {
                for (is_repaired, seen) in [false, true].into_iter().zip(&mut seen) {
                    let stack = prepared.stack(poor, engine, is_repaired, &place);
                    seen.push(measure(&stack, engine, seconds, &place));
                }
            }
            let median = |of: &[(f64, f64)], which: fn(&(f64, f64)) -> f64| {
                let mut values: Vec<f64> = of.iter().map(which).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            let [rate, rate_repaired] = [&seen[0], &seen[1]].map(|seen| median(seen, |cell| cell.0));
            let [pages, pages_repaired] = [&seen[0], &seen[1]].map(|seen| median(seen, |cell| cell.1));
            println!(
                "| `sim:{}` | {} | {rate:.2} | {rate_repaired:.2} | {:.1} | {pages:.1} | {pages_repaired:.1} | {:.1} |",
                poor.name,
                engine.name(),
                rate_repaired / rate,
                pages / pages_repaired
            );
        }
    }
}

/// How the volume dies.
#[derive(Clone, Copy)]
enum Death {
    /// SIGKILL to its server.
    Killed,
    /// The device beneath loses its power, and what it had not flushed.
    PowerLost,
}

fn survive(only: Option<&str>, place: &Path) {
    let engines = [Engine::Sqlite("delete"), Engine::Sqlite("wal"), Engine::PostgreSql, Engine::MariaDb];
    for engine in engines.into_iter().filter(|engine| only.is_none_or(|name| engine.name().contains(name))) {
        if !engine.is_installed() {
            println!("{} is not installed", engine.name());
            continue;
        }
        for (death, how) in [(Death::Killed, "its server killed"), (Death::PowerLost, "power lost beneath")] {
            let (acknowledged, found) = dies(engine, death, place);
            let kept = found >= acknowledged && found <= acknowledged + 1;
            println!(
                "{}, {how}: {acknowledged} commits acknowledged, {found} rows found, {}",
                engine.name(),
                if kept { "whole" } else { "LOST" }
            );
            assert!(kept);
        }
    }
}

/// Commits until the volume dies; returns the rows that were acknowledged, and those that are found after that.
fn dies(engine: Engine, death: Death, place: &Path) -> (u64, u64) {
    const ROWS: u64 = 400;
    let device = Server::start(&["serve", "sim:tlc-sata", "--size", "1GiB", "--loop"]);
    let mut stack = Stack::over(device, Some("multi-log"), place, true);
    engine.make(place);
    engine.start(place, "");
    let mut session = Session::start(&engine.client(place));
    let table = if engine == Engine::MariaDb { "d.t" } else { "t" };
    let mut acknowledged = 0;
    while session.execute(&format!("insert into {table} values({}, 'row')", acknowledged + 1)) {
        acknowledged += 1;
        if acknowledged == ROWS {
            match (death, &stack.volume) {
                (Death::Killed, Some(volume)) => volume.signal("KILL"),
                _ => drop(shell(&format!("{FLASHLAB} live power-loss {}", stack.device.control))),
            }
        }
    }
    drop(session);
    engine.stop(place);
    let _ = tried(&format!("umount -l {}", place.display()));
    stack.mounted = None;
    if let Some(volume) = stack.volume.take() {
        volume.signal("KILL");
        drop(volume);
    }
    if matches!(death, Death::PowerLost) {
        shell(&format!("{FLASHLAB} live power-on {}", stack.device.control));
    }
    sleep(Duration::from_secs(1));
    shell(&format!("{FLASHLAB} repair check {}", stack.device.path));
    let volume = Server::start(&["repair", "serve", &stack.device.path, "--loop"]);
    stack.mounted = Some(Mounted::new(&volume.path, place, false));
    stack.volume = Some(volume);
    engine.start(place, "");
    let query = format!("select count(*) = max(i) from {table}; select max(i) from {table}");
    let (client, at) = (engine.client(place), place.display());
    let answer = match engine {
        Engine::Sqlite(_) => {
            assert_eq!(shell(&format!("{client} 'pragma integrity_check'")).trim(), "ok");
            shell(&format!("{client} '{query};'"))
        }
        Engine::PostgreSql => {
            // Reads every table and every row.
            shell(&format!("cd / && runuser -u postgres -- {POSTGRESQL}/pg_dumpall -h {at} >/dev/null"));
            shell(&format!("echo '{query};' | {client}"))
        }
        Engine::MariaDb => {
            shell(&format!("mariadb-check --no-defaults -S {at}/s --all-databases >/dev/null"));
            shell(&format!("{client} -e '{query};'"))
        }
    };
    engine.stop(place);
    let lines: Vec<&str> = answer.lines().filter(|line| !line.is_empty()).collect();
    assert!(matches!(lines[0], "1" | "t"), "{}: a row in the middle is lost: {answer}", engine.name());
    (acknowledged, lines[1].parse().expect("it is a number"))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number =
        |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let place = std::env::temp_dir().join(format!("flashlab-databases-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a directory is made");
    match arguments.first().map(String::as_str) {
        Some("poor") => {
            poor(number(1, 15), number(2, 1) as usize, arguments.get(3).map(String::as_str), place.clone())
        }
        Some("survive") => survive(arguments.get(1).map(String::as_str), &place),
        _ => println!("give poor [SECONDS [ROUNDS [DEVICE]]], or survive [ENGINE]"),
    }
    for left in [place.with_extension("pid"), place.with_extension("log")] {
        let _ = fs::remove_file(left);
    }
    // A file system that is still mounted is left alone.
    let _ = tried(&format!("rm -rf --one-file-system {}", place.display()));
}
