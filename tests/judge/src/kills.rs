//! Servers of a volume are killed while programs write, and what had been acknowledged has to be there afterwards.
//!
//! 1. A small volume is served. A process writes with several threads: each with its own files and its own way to make them durable.
//!    It records each operation outside of the volume, before and after it (`journal.rs`).
//! 2. The server gets SIGKILL: while they write, right after it is ready, before it is ready.
//! 3. The writers have to get errors, and nothing may succeed in the directory beneath.
//! 4. The server is started once more. What is there is compared with the journals (`verify.rs`). Then 1 to 4 repeat with the volume as it is.
//! 5. In the end the server is stopped in order: all is there, `repair check` finds nothing, and nothing is left mounted.
//!
//! The seed decides what is written and when the server is killed. How far the writers are by then depends on the machine.

mod compare;
mod journal;
mod model;
mod operation;
mod perform;
mod served;
mod verify;
mod writer;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use flashlab_base::{Prng, Seed};
use serde::Serialize;

use crate::server::Server;
use journal::now_ms;
use model::Files;
use operation::{FILE_MAX, Ground, HABITS, Habit, How, Operation, content};
pub use served::Kind;
use served::{Served, size_of};
use writer::Session;

/// The variable with the session of a writing process.
pub const SESSION: &str = "FLASHLAB_JUDGE_SESSION";

/// The writer that only makes one file in the beginning, which no other one may change.
const BALLAST: usize = 15;

/// What is left free of a mount by the ballast: less than what the writers' files grow to within some sessions (at most 20 MiB), so that
/// space runs out.
const LEFT_FREE: u64 = 4 * FILE_MAX;

/// The most that files may take of a volume that is nearly full: the largest share that `repair create` takes.
const NEARLY_FULL: &str = "0.95";

/// How long writers that sync nothing write at least before the kill: longer than what they write may stay in memory alone.
const PATIENCE: Duration = Duration::from_secs(11);

/// How long `run` may take to start its command: far longer than on a machine under load.
const STARTING: Duration = Duration::from_secs(180);

/// How long writers may take to end after their server was killed, and what it left to go away: far longer than on a disk under load, where an
/// fsync took up to a second.
const ENDING: Duration = Duration::from_secs(180);

/// A fault that the judge has to find, to prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// fsync and fdatasync are acknowledged, and not done.
    UnsyncedAcknowledged,
    /// A page of a file changes before it is compared.
    PageChanged,
}

/// A test.
#[derive(Clone, Debug)]
pub struct Kills {
    /// The binary `flashlab`.
    pub program: PathBuf,
    /// A command that calls [`write_session`].
    pub writer: Vec<OsString>,
    /// What is killed.
    pub kind: Kind,
    /// How often.
    pub kills: u64,
    /// Whether 95 % of the volume's segments may hold data, and what there is space for does from the beginning. Not for [`Kind::Run`].
    pub nearly_full: bool,
    /// What decides what is written and when.
    pub seed: Seed,
    /// Where the volume, the mount and the journals are made. What a breach was found in stays there.
    pub folder: PathBuf,
    /// Proves the judge.
    pub fault: Option<Fault>,
}

/// What a test found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KillsReport {
    /// How many servers were killed.
    pub kills: u64,
    /// Those of them that had not said that they were ready.
    pub killed_before_ready: u64,
    /// Operations that were begun.
    pub operations: u64,
    /// Operations that promised durability by their return, and returned.
    pub acknowledged: u64,
    /// The same by what promised it.
    pub acknowledged_by: BTreeMap<&'static str, u64>,
    /// Operations in a directory that had returned so long before the kill that they are durable without a sync.
    pub aged: u64,
    /// Operations that were to be durable and are not there.
    pub lost: u64,
    /// States that are no prefix of what was done.
    pub out_of_order: u64,
    /// Successes in the directory beneath a dead mount, or after an error that a living one should not give.
    pub beneath: u64,
    /// Writers that did not end after the kill, servers that did not start again, and what was left behind.
    pub other: u64,
    /// Operations for which there was no space.
    pub without_space: u64,
    /// Operations that the volume refused as not supported.
    pub unsupported: u64,
    /// Writes that extended a file, of which bytes within the old size were there and the new size was not.
    pub torn_extensions: u64,
    /// Segments that the volume packed.
    pub packed_segments: u64,
    /// Each breach, in words.
    pub breaches: Vec<String>,
}

/// The work of a writing process, which its environment has in [`SESSION`].
pub fn write_session() -> Result<(), String> {
    let session = std::env::var(SESSION).map_err(|error| format!("{SESSION}: {error}"))?;
    let session: Session = serde_json::from_str(&session).map_err(|error| format!("{SESSION}: {error}"))?;
    fs::write(session.journals.join("pid"), std::process::id().to_string())
        .map_err(|error| error.to_string())?;
    writer::write(&session).map_err(|error| error.to_string())
}

/// Runs the test. An error: it could not be run.
pub fn kills(test: &Kills) -> Result<KillsReport, String> {
    let mut judge = Judge::new(test)?;
    // A fault has to be found once.
    let is_found =
        |judge: &Judge<'_>| test.fault.is_some() && judge.report.lost + judge.report.out_of_order > 0;
    while judge.report.kills < test.kills && !is_found(&judge) {
        if let Err(what) = judge.round() {
            judge.breach_other(format!("it cannot go on: {what}"));
            return Ok(judge.report);
        }
    }
    judge.end()?;
    Ok(judge.report)
}

struct Judge<'a> {
    test: &'a Kills,
    served: Served,
    prng: Prng,
    /// The number of the next session; 0 is the ballast's.
    session: u64,
    before: BTreeMap<usize, Files>,
    /// The session whose effects were not compared yet.
    pending: Option<Session>,
    /// The one that was compared most recently.
    compared: Option<Session>,
    /// When the server was killed most recently, in milliseconds since 1970.
    killed_ms: u64,
    report: KillsReport,
}

impl<'a> Judge<'a> {
    fn new(test: &'a Kills) -> Result<Judge<'a>, String> {
        let folder =
            test.folder.canonicalize().map_err(|error| format!("{}: {error}", test.folder.display()))?;
        let served = Served {
            program: test.program.clone(),
            kind: test.kind,
            volume: folder.join("volume"),
            directory: folder.join("directory"),
            messages: folder.join("messages"),
        };
        for made in [&served.directory, &folder.join("journals")] {
            fs::create_dir(made).map_err(|error| format!("{}: {error}", made.display()))?;
        }
        served.create(test.nearly_full.then_some(NEARLY_FULL))?;
        let prng = Prng::new(test.seed.derive("kills", 0));
        let (before, report) = (BTreeMap::new(), KillsReport::default());
        let mut judge = Judge {
            test,
            served,
            prng,
            session: 1,
            before,
            pending: None,
            compared: None,
            killed_ms: 0,
            report,
        };
        match test.kind {
            Kind::Mount => judge.make_ballast()?,
            Kind::Block if test.nearly_full => judge.fill_disk()?,
            Kind::Block | Kind::Run => {}
        }
        Ok(judge)
    }

    /// Fills a mount but for a part, and makes that durable.
    fn make_ballast(&mut self) -> Result<(), String> {
        let (server, root) = self.served.start(false)?;
        let status = rustix::fs::statvfs(&root).map_err(|error| error.to_string())?;
        let bytes = content(0, BALLAST, 0, (status.f_bavail * status.f_frsize).saturating_sub(LEFT_FREE));
        let directory = root.join(format!("w{BALLAST}"));
        let made = fs::create_dir(&directory).and_then(|()| fs::write(directory.join("a"), &bytes));
        made.map_err(|error| format!("the ballast: {error}"))?;
        self.before.insert(BALLAST, Files::from([('a', bytes)]));
        let code = server.stop()?;
        if code == Some(0) { Ok(()) } else { Err(format!("a mount ended with {code:?}")) }
    }

    /// Writes every page of a disk.
    fn fill_disk(&mut self) -> Result<(), String> {
        let (server, root) = self.served.start(false)?;
        let session = self.new_session(&root)?;
        for writer in 0..HABITS.len() {
            let bytes = content(0, writer, 0, session.disk_part);
            let write =
                Operation::Write { file: 'a', offset: 0, length: session.disk_part, how: How::Direct };
            let done = session.place(writer).perform(&write, &bytes);
            done.map_err(|error| format!("filling the disk: {error}"))?;
            self.before.insert(writer, Files::from([('a', bytes)]));
        }
        let code = server.stop()?;
        if code == Some(0) { Ok(()) } else { Err(format!("a server ended with {code:?}")) }
    }

    /// A start, a comparison, writers, and a kill.
    fn round(&mut self) -> Result<(), String> {
        let as_loop = self.prng.below(2) == 0;
        let chance = self.prng.below(100);
        let micros = |prng: &mut Prng, most: u64| Duration::from_micros(prng.below(most));
        if chance < 10 {
            let delay = micros(&mut self.prng, 80_000);
            return self.kill_before_ready(as_loop, delay);
        }
        // Right after the start, and while they write.
        let delay =
            if chance < 25 { micros(&mut self.prng, 60_000) } else { micros(&mut self.prng, 900_000) };
        if self.test.kind == Kind::Run {
            return self.round_of_run(delay);
        }
        let (mut server, root) = self.start(as_loop)?;
        self.compare(&root);
        let session = self.new_session(&root)?;
        let mut writers = self.spawn_writers(&session)?;
        thread::sleep(delay + patience(&session));
        self.kill(&mut server, &session)?;
        self.await_writers(&mut writers);
        self.pending = Some(session);
        self.look_beneath();
        self.keep_image("crashed")
    }

    fn round_of_run(&mut self, delay: Duration) -> Result<(), String> {
        self.compare_run()?;
        let directory = self.served.directory.clone();
        let session = self.new_session(&directory)?;
        let text = serde_json::to_string(&session).map_err(|error| error.to_string())?;
        let mut server = self.served.run(&self.test.writer, &text)?;
        let begin = Instant::now();
        let pid = session.journals.join("pid");
        while !pid.exists() && begin.elapsed() < STARTING {
            thread::sleep(Duration::from_millis(1));
        }
        if !pid.exists() {
            return Err(format!(
                "the writers did not start; {}; it said: {}",
                server.threads(),
                server.said()
            ));
        }
        thread::sleep(delay + patience(&session));
        self.kill(&mut server, &session)?;
        let pid = fs::read_to_string(&pid)
            .map_err(|error| format!("the writers did not start: {error}: {}", server.said()))?;
        let begin = Instant::now();
        while is_running(&pid) && begin.elapsed() < ENDING {
            thread::sleep(Duration::from_millis(1));
        }
        if is_running(&pid) {
            self.breach_other(format!("writers {pid} of session {} did not end", session.number));
        }
        self.pending = Some(session);
        self.look_beneath();
        self.keep_image("crashed")
    }

    /// Kills a server while it starts. What was to be compared still is.
    fn kill_before_ready(&mut self, as_loop: bool, delay: Duration) -> Result<(), String> {
        let mut server = match self.test.kind {
            Kind::Run => self.served.run(&["true".into()], "")?,
            _ => Server::start(&mut self.served.command(as_loop), &self.served.messages)?,
        };
        thread::sleep(delay);
        server.kill();
        self.report.kills += 1;
        self.report.killed_before_ready += 1;
        Ok(())
    }

    /// Starts the server. If it does not start any more, that is a breach, and the directory is cleaned by hand.
    fn start(&mut self, as_loop: bool) -> Result<(Server, PathBuf), String> {
        let said = match self.served.start(as_loop) {
            Ok(started) => return Ok(started),
            Err(said) => said,
        };
        self.breach_other(format!("the server did not start again: {said}"));
        let _ = Command::new("umount").arg("--lazy").arg(&self.served.directory).output();
        self.look_beneath();
        self.served.start(as_loop)
    }

    /// What is in the directory that a mount hides: nothing.
    fn look_beneath(&mut self) {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        if mounts.contains(&format!(" {} ", self.served.directory.display())) {
            return;
        }
        for entry in fs::read_dir(&self.served.directory).into_iter().flatten().flatten() {
            self.report.beneath += 1;
            self.breach(format!("{} is in the directory beneath", entry.path().display()));
            let _ = fs::remove_file(entry.path()).or_else(|_| fs::remove_dir_all(entry.path()));
        }
    }

    /// All writers, or one alone: what another one syncs would hide that its own syncs do nothing.
    fn new_session(&mut self, root: &Path) -> Result<Session, String> {
        let disk_part = match self.served.ground() {
            Ground::Files => 0,
            Ground::Disk { .. } => {
                let size = size_of(root).map_err(|error| format!("{}: {error}", root.display()))?;
                size / HABITS.len() as u64 / (1 << 16) * (1 << 16)
            }
        };
        let mut writers: Vec<(usize, Habit)> = HABITS.into_iter().enumerate().collect();
        if self.prng.below(2) == 0 {
            writers = vec![writers[self.prng.below(HABITS.len() as u64) as usize]];
        }
        // On a disk a writer goes through the page cache or past it: so that each habit does both, they change places.
        let turn = self.prng.below(HABITS.len() as u64) as usize;
        if disk_part > 0 {
            writers.iter_mut().for_each(|(writer, _)| *writer = (*writer + turn) % HABITS.len());
        }
        let number = self.session;
        self.session += 1;
        let journals = self.test.folder.join("journals");
        let journals = journals.canonicalize().map_err(|error| error.to_string())?;
        let _ = fs::remove_file(journals.join("pid"));
        let pretends = self.test.fault == Some(Fault::UnsyncedAcknowledged);
        let (seed, ground, root) = (self.test.seed, self.served.ground(), root.to_owned());
        Ok(Session { seed, number, ground, root, disk_part, journals, writers, pretends })
    }

    fn spawn_writers(&self, session: &Session) -> Result<Child, String> {
        let text = serde_json::to_string(session).map_err(|error| error.to_string())?;
        let (program, arguments) = self.test.writer.split_first().ok_or("no command writes")?;
        let mut command = Command::new(program);
        command.args(arguments).env(SESSION, text).stdout(std::process::Stdio::null());
        command.spawn().map_err(|error| format!("{}: {error}", program.display()))
    }

    /// Kills a server, and lets writers know that nothing may succeed any more.
    fn kill(&mut self, server: &mut Server, session: &Session) -> Result<(), String> {
        self.killed_ms = now_ms();
        server.kill();
        self.report.kills += 1;
        fs::write(session.killed(), "").map_err(|error| error.to_string())
    }

    /// A writer that a dead mapping ends (SIGBUS) has ended as it may.
    fn await_writers(&mut self, writers: &mut Child) {
        let begin = Instant::now();
        while begin.elapsed() < ENDING {
            if !matches!(writers.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.breach_other(format!("writers did not end within {ENDING:?} after the kill"));
        let _ = writers.kill();
        let _ = writers.wait();
    }

    fn breach(&mut self, what: String) {
        self.report.breaches.push(format!("kill {}: {what}", self.report.kills));
    }

    fn breach_other(&mut self, what: String) {
        self.report.other += 1;
        self.breach(what);
    }

    /// The volume as the kill left it, for whoever looks for the cause of a breach.
    fn keep_image(&self, name: &str) -> Result<(), String> {
        let copied = fs::copy(&self.served.volume, self.test.folder.join(name));
        copied.map(drop).map_err(|error| format!("copying the volume: {error}"))
    }

    /// The last comparison, an end in order, and what is there after it.
    fn end(&mut self) -> Result<(), String> {
        for _ in 0..2 {
            if self.test.kind == Kind::Run {
                self.compare_run()?;
                continue;
            }
            let (server, root) = self.start(false)?;
            self.compare(&root);
            let code = server.stop()?;
            if code != Some(0) {
                self.breach_other(format!("the server ended with {code:?} when it was stopped"));
            }
        }
        if let Err(said) = self.served.check() {
            self.breach_other(said);
        }
        self.report.packed_segments = self.served.packed_segments()?;
        let begin = Instant::now();
        while !self.served.left_behind().is_empty() && begin.elapsed() < ENDING {
            thread::sleep(Duration::from_millis(20));
        }
        for left in self.served.left_behind() {
            self.breach_other(format!("left behind: {left}"));
        }
        let _ = fs::remove_file(self.test.folder.join("crashed"));
        Ok(())
    }
}

/// How much longer the writers of a session write before the kill.
fn patience(session: &Session) -> Duration {
    let is_unsynced = session.writers.iter().all(|&(_, habit)| habit == Habit::Unsynced);
    if is_unsynced && session.ground == Ground::Files { PATIENCE } else { Duration::ZERO }
}

/// Whether a process of this number is there and not a zombie.
fn is_running(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}
