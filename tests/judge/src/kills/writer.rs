//! The process that writes while the server is killed beneath it.
//!
//! Each writer is a thread. It does random operations and records each one before and after. At the first error of a dead server it
//! tries for a while whether anything succeeds in the directory all the same, and ends.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flashlab_base::{Prng, Seed};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::journal::JournalWriter;
use super::model::{Files, apply};
use super::operation::{Generator, Ground, Habit, Operation, content};
use super::perform::{Place, read_files};

/// How long a writer goes on after the server's death: longer than a helper of the server takes to clean up, mostly.
const AFTER_DEATH: Duration = Duration::from_millis(150);

/// The longest time that a writer writes, if nobody kills its server.
const WRITING_MAX: Duration = Duration::from_secs(60);

/// One in this many operations closes all descriptors first, so that files are opened by name.
const CLOSE_ONE_IN: u64 = 6;

/// What the writers of one server do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    pub seed: Seed,
    pub number: u64,
    pub ground: Ground,
    /// The directory of all, or the disk.
    pub root: PathBuf,
    /// Of each writer on a disk: where its part begins and how long it is.
    pub disk_part: u64,
    /// Where the journals are written.
    pub journals: PathBuf,
    pub writers: Vec<(usize, Habit)>,
    /// Proves the judge: syncs are acknowledged and not done.
    pub pretends: bool,
}

impl Session {
    /// The files of a writer.
    pub fn place(&self, writer: usize) -> Place {
        let ground = self.ground_of(writer);
        match ground {
            Ground::Files => Place::new(ground, self.root.join(format!("w{writer}")), 0),
            Ground::Disk { .. } => Place::new(ground, self.root.clone(), writer as u64 * self.disk_part),
        }
    }

    /// On a disk, every other writer goes through the page cache.
    pub fn ground_of(&self, writer: usize) -> Ground {
        match self.ground {
            Ground::Files => Ground::Files,
            Ground::Disk { .. } => Ground::Disk { direct: writer.is_multiple_of(2) },
        }
    }

    /// The file that is made when the server was killed.
    pub fn killed(&self) -> PathBuf {
        self.journals.join(format!("session-{}-killed", self.number))
    }

    /// The file of a writer's journal.
    pub fn journal(&self, writer: usize) -> PathBuf {
        self.journals.join(format!("session-{}-writer-{writer}.jsonl", self.number))
    }
}

/// Runs all writers until the server is dead.
pub fn write(session: &Session) -> io::Result<()> {
    let stamps = AtomicU64::new(1);
    thread::scope(|scope| {
        let writers: Vec<_> = (session.writers.iter())
            .map(|&(writer, habit)| {
                scope.spawn({
                    let stamps = &stamps;
                    move || write_one(session, writer, habit, stamps)
                })
            })
            .collect();
        writers.into_iter().try_for_each(|writer| {
            writer.join().unwrap_or_else(|_| Err(io::Error::other("a writer panicked")))
        })
    })
}

fn write_one(session: &Session, writer: usize, habit: Habit, stamps: &AtomicU64) -> io::Result<()> {
    let stamp = || stamps.fetch_add(1, Ordering::SeqCst);
    let mut journal = JournalWriter::create(&session.journal(writer))?;
    let mut place = session.place(writer);
    let label = format!("writer {writer}");
    let prng = Prng::new(session.seed.derive(&label, session.number));
    let mut generator = Generator::new(prng, habit, place.ground);
    // The directory may not be there any more, or not yet: the server may be killed at any time.
    let mut files = match begin(session, &place) {
        Ok(files) => files,
        Err(error) => return after_death(session, writer, &mut journal, &error.to_string()),
    };
    let begin = Instant::now();
    for number in 0.. {
        if begin.elapsed() > WRITING_MAX {
            return Ok(());
        }
        if session.killed().exists() {
            // Operations after the kill may not have seen it yet; those long after it have to fail.
            thread::sleep(AFTER_DEATH);
            let done = place.perform(&Operation::SyncDirectory, &[]);
            return if done.is_ok() { journal.beneath(format!("writer {writer} wrote on")) } else { Ok(()) };
        }
        if habit == Habit::Unsynced {
            thread::sleep(pause(&mut generator.prng));
        }
        let operation = generator.next(&|file| files.get(&file).map(|bytes| bytes.len() as u64));
        if generator.prng.below(CLOSE_ONE_IN) == 0 {
            place.close();
        }
        let length = match operation {
            Operation::Write { length, .. }
            | Operation::Append { length, .. }
            | Operation::Map { length, .. } => length,
            _ => 0,
        };
        let bytes = content(session.number, writer, number, length);
        journal.begin(stamp(), &operation)?;
        let done = if session.pretends && operation.syncs_all() {
            Ok(())
        } else {
            place.perform(&operation, &bytes)
        };
        let error = done.as_ref().err().map(ToString::to_string).unwrap_or_default();
        journal.end(stamp(), error)?;
        match done {
            Ok(()) => apply(&mut files, &operation, session.number, writer, number),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOSPC) => generator.make_space(&operation),
                Some(Errno::OPNOTSUPP) => {}
                _ => {
                    let failed = format!("{operation:?}: {error}");
                    return after_death(session, writer, &mut journal, &failed);
                }
            },
        }
    }
    Ok(())
}

/// The time between two operations of a writer that syncs nothing: short, so that the directory is never idle, or long enough that it is.
fn pause(prng: &mut Prng) -> Duration {
    match prng.below(100) {
        0 => Duration::from_millis(400),
        _ => Duration::from_micros(prng.below(20_000)),
    }
}

/// What there is at the beginning. A new writer's directory is made.
fn begin(session: &Session, place: &Place) -> io::Result<Files> {
    if place.ground == Ground::Files && !place.path.exists() {
        fs::create_dir(&place.path)?;
    }
    read_files(place, session.disk_part)
}

/// Tries whether files can be made where the volume's files were.
/// After this error: on a living server it is a breach as well.
fn after_death(session: &Session, writer: usize, journal: &mut JournalWriter, error: &str) -> io::Result<()> {
    let begin = Instant::now();
    while session.ground == Ground::Files && begin.elapsed() < AFTER_DEATH {
        let name = session.root.join(format!("beneath-{writer}"));
        if make_file(&name).is_ok() {
            return journal.beneath(format!("{} was made and synced after {error}", name.display()));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn make_file(name: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(name)?;
    file.write_all(b"acknowledged after the server's death")?;
    file.sync_all()
}
