//! The control socket: a running server is asked and told.
//!
//! # Protocol, version 1
//! A Unix stream socket; a line of text is a command, and is answered by one line of JSON: `{"ok": ...}` or
//! `{"error": "..."}`.
//!
//! | command | answer |
//! | --- | --- |
//! | `status` | what the server did so far ([`Status`]) |
//! | `fault KIND,...` | arms a fault (the grammar stands in [`crate::FaultRule`]) |
//! | `clear-faults` | disarms all, and gives a dead device its life back |
//! | `power-loss` | takes back what was not flushed; every IO fails until `power-on`; says how many blocks of 4 KiB |
//! | `power-on` | the power is back |
//!
//! # Invariants
//! - nothing that comes in can stop the server: a line of more than [`COMMAND_LENGTH_MAX`] bytes, or one that is no text, ends its
//!   connection, and there are only so many connections (module `connections`);
//! - the socket is for its owner alone.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::connections;
use crate::fault_rules::{FaultInjector, FaultRule};
use crate::live::LiveDisk;
use crate::status::Status;

/// The longest command, in bytes.
pub const COMMAND_LENGTH_MAX: u64 = 4096;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A control socket; it is removed when this is dropped.
pub struct ControlServer {
    path: PathBuf,
}

impl ControlServer {
    /// Listens on `path`, which must not be there.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(path: &Path, disk: Arc<LiveDisk>) -> io::Result<ControlServer> {
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let accept = move || listener.accept().map(|(connection, _)| connection);
        connections::answer("control", accept, move |connection| converse(connection, &disk))?;
        Ok(ControlServer { path: path.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Answers the commands of a connection, until it ends or is no use.
fn converse(connection: &UnixStream, disk: &LiveDisk) {
    let mut reader = BufReader::new(connection);
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(COMMAND_LENGTH_MAX).read_until(b'\n', &mut line) {
            Ok(length) if length > 0 && line.ends_with(b"\n") => {}
            _ => return,
        }
        let Ok(command) = std::str::from_utf8(&line) else { return };
        let mut answer = obey(command.trim(), disk).to_string();
        answer.push('\n');
        let mut writer = connection;
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn obey(command: &str, disk: &LiveDisk) -> Value {
    let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
    match (verb, rest.trim()) {
        ("status", "") => match serde_json::to_value(Status::of(disk)) {
            Ok(status) => json!({ "ok": status }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        ("fault", text) => match text.parse::<FaultRule>() {
            Ok(fault) => {
                disk.arm(fault);
                json!({ "ok": true })
            }
            Err(error) => json!({ "error": error.to_string() }),
        },
        ("clear-faults", "") => {
            disk.with_faults(FaultInjector::clear);
            json!({ "ok": true })
        }
        ("power-on", "") => {
            disk.with_faults(FaultInjector::power_on);
            json!({ "ok": true })
        }
        ("power-loss", "") => match disk.lose_power() {
            Ok(blocks) => json!({ "ok": { "blocks_of_4_kib_lost": blocks } }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        _ => json!({
            "error": "unknown command: there are status, fault, clear-faults, power-loss and power-on"
        }),
    }
}

/// A client's end of a control socket.
pub struct ControlClient {
    stream: BufReader<UnixStream>,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum ControlReply {
    /// It did as it was told.
    Done(Value),
    /// It refused, with this reason.
    Refused(String),
}

impl ControlClient {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(path: &Path) -> io::Result<ControlClient> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(ControlClient { stream: BufReader::new(stream) })
    }

    /// Gives a command and waits for the answer.
    ///
    /// # Errors
    /// When the server is gone, or answers what is no answer.
    pub fn ask(&mut self, command: &str) -> io::Result<ControlReply> {
        self.stream.get_mut().write_all(format!("{command}\n").as_bytes())?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up"));
        }
        let mut answer: Value = serde_json::from_str(&line).map_err(io::Error::other)?;
        match (answer.get_mut("ok").map(Value::take), &answer["error"]) {
            (Some(done), _) => Ok(ControlReply::Done(done)),
            (None, Value::String(reason)) => Ok(ControlReply::Refused(reason.clone())),
            _ => Err(io::Error::other("the server answers in another language")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use flashlab_base::{Bytes, Nanos};
    use flashlab_device::Operation;
    use proptest::prelude::*;

    use super::*;
    use crate::io::Data;
    use crate::io::Io;
    use crate::store::DataStore;

    fn disk() -> Arc<LiveDisk> {
        let mut profile =
            flashlab_sim::zoo().into_iter().find(|profile| profile.name == "zeus").expect("the zoo has it");
        profile.capacity = Bytes::mib(1);
        let store = DataStore::memory(Bytes::mib(1), Bytes::mib(1)).unwrap();
        Arc::new(LiveDisk::new(Box::new(profile.device().unwrap()), Some(store)))
    }

    fn write(disk: &LiveDisk, fill: u8) -> bool {
        let data = [fill; 4096];
        let (operation, offset, size) = (Operation::Write, Bytes::ZERO, Bytes::kib(4));
        let answer = disk.begin(
            disk.clock().now(),
            Io { operation, offset, size, durable: false, data: Data::Write(&data) },
        );
        disk.finish(&answer, answer.due).is_ok()
    }

    fn first_byte(disk: &LiveDisk) -> u8 {
        let mut data = [9; 4096];
        let (operation, offset, size) = (Operation::Read, Bytes::ZERO, Bytes::kib(4));
        let io = Io { operation, offset, size, durable: false, data: Data::Read(&mut data) };
        let answer = disk.begin(Nanos::ZERO, io);
        disk.finish(&answer, answer.due).unwrap();
        data[0]
    }

    #[test]
    fn power_is_lost_and_comes_back_over_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk();
        let control = ControlServer::listen(&folder.path().join("control"), Arc::clone(&disk)).unwrap();
        let mut client = ControlClient::connect(control.path()).unwrap();
        assert!(write(&disk, 7));
        let lost = client.ask("power-loss").unwrap();
        assert_eq!(lost, ControlReply::Done(json!({ "blocks_of_4_kib_lost": 1 })));
        assert!(!write(&disk, 8));
        assert_eq!(client.ask("power-on").unwrap(), ControlReply::Done(json!(true)));
        assert_eq!(first_byte(&disk), 0);
        let ControlReply::Done(status) = client.ask("status").unwrap() else { panic!("no status") };
        assert_eq!(status["served"]["classes"][1]["ios"], 2);
        assert_eq!(status["served"]["classes"][1]["errors"], 1);
        assert!(
            matches!(client.ask("fault melt").unwrap(), ControlReply::Refused(reason) if reason.contains("melt"))
        );
    }

    #[test]
    fn an_answer_that_is_held_while_the_power_fails_is_an_error() {
        let disk = disk();
        let begin = |operation| {
            let (data, size) = (Data::Write(&[7; 4096]), Bytes::kib(4));
            let (offset, durable) = (Bytes::ZERO, false);
            disk.begin(disk.clock().now(), Io { operation, offset, size, durable, data })
        };
        let (write, read) = (begin(Operation::Write), begin(Operation::Read));
        disk.lose_power().unwrap();
        disk.with_faults(FaultInjector::power_on);
        // The data is gone, and a flush that comes now would say that it is durable.
        assert!(disk.finish(&write, write.due).is_err());
        assert!(disk.finish(&read, read.due).is_err());
        let again = begin(Operation::Write);
        assert_eq!(disk.finish(&again, again.due), Ok(()));
    }

    #[test]
    fn those_who_hold_connections_keep_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let control = ControlServer::listen(&folder.path().join("control"), disk()).unwrap();
        // Some say nothing, some half of a command, some never read what they are answered.
        let crowd: Vec<UnixStream> = (0..300)
            .map(|number| {
                let mut one = UnixStream::connect(control.path()).unwrap();
                match number % 3 {
                    0 => {}
                    1 => one.write_all(b"stat").unwrap(),
                    _ => one.write_all(&b"status\n".repeat(100)).unwrap_or(()),
                }
                one
            })
            .collect();
        for _ in 0..3 {
            let mut client = ControlClient::connect(control.path()).unwrap();
            assert!(matches!(client.ask("status").unwrap(), ControlReply::Done(_)));
        }
        // The first ones were hung up on, and the last ones not.
        let mut oldest = &crowd[0];
        oldest.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(oldest.read(&mut [0; 1]).unwrap(), 0);
        let mut last = BufReader::new(&crowd[298]);
        last.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
        last.get_mut().write_all(b"us\n").unwrap();
        let mut line = String::new();
        last.read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"ok\""), "{line}");
        assert!(threads() < 2 * connections::MOST, "{} threads", threads());
    }

    fn threads() -> usize {
        let named = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten().filter_map(named);
        tasks.filter(|name| name.trim() == "control").count()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_are_answered_or_end_the_connection(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
            static DISK: LazyLock<Arc<LiveDisk>> = LazyLock::new(disk);
            let (ours, theirs) = UnixStream::pair().unwrap();
            let server = std::thread::spawn(move || converse(&theirs, &DISK));
            let mut writer = &ours;
            // It may have hung up already.
            let _ = writer.write_all(&bytes);
            let _ = ours.shutdown(std::net::Shutdown::Write);
            let mut answers = Vec::new();
            let _ = BufReader::new(&ours).read_to_end(&mut answers);
            prop_assert!(server.join().is_ok());
        }
    }
}
