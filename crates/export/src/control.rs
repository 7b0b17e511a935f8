//! The control socket: commands to a running server.
//!
//! # Protocol, version 1
//! A Unix stream socket. The client sends lines of UTF-8 text, each a command of at most [`COMMAND_LENGTH_MAX`] bytes. The
//! server answers each line with one line of JSON: `{"ok": ...}` or `{"error": "..."}`.
//!
//! | command | effect and answer |
//! | --- | --- |
//! | `status` | answers with the [`Status`] |
//! | `fault KIND,...` | arms a fault rule (the grammar: [`crate::FaultRule`]) |
//! | `clear-faults` | disarms all rules and revives a dead device |
//! | `power-loss` | loses all unflushed data, and fails every IO until `power-on`; answers with the number of
//! 4 KiB blocks lost |
//! | `power-on` | restores the power |
//!
//! # Invariants
//! - Every line gets an answer. A line that is too long or has no end also closes the connection.
//! - No input of a client stops the server, and the number of connections is bounded (module `connections`).
//! - Only the owner of the server may use the socket.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::connections;
use crate::fault_grammar::ParseFaultRuleError;
use crate::fault_rules::{FaultInjector, FaultRule};
use crate::live::LiveDisk;
use crate::status::Status;

/// The longest command, in bytes, with its end of line. The longest fault rule has 100.
pub const COMMAND_LENGTH_MAX: u64 = 4096;
/// The time that the client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time that the server waits for the rest of a line, before it answers that the line has no end. Programs and terminals send
/// whole lines; somebody who forgot the newline waits this long for the answer.
const LINE_PATIENCE: Duration = Duration::from_secs(2);

/// A command to a running server.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlCommand {
    /// Report the status.
    Status,
    /// Arm a fault rule.
    Fault(FaultRule),
    /// Disarm all fault rules.
    ClearFaults,
    /// Cut the power.
    PowerLoss,
    /// Restore the power.
    PowerOn,
    /// End the server, as SIGTERM does.
    Stop,
}

/// Why a line is no command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlCommandError {
    /// It is no text.
    #[error("a command is text in UTF-8, and this line is not")]
    NotUtf8,
    /// It is longer than [`COMMAND_LENGTH_MAX`].
    #[error("the line is longer than {COMMAND_LENGTH_MAX} bytes")]
    TooLong,
    /// It does not end with a newline.
    #[error("the line has no end: a command ends with a newline")]
    Unterminated,
    /// No command has this name and these arguments.
    #[error("unknown command: there are status, fault, clear-faults, power-loss, power-on and stop")]
    Unknown,
    /// The fault rule is wrong.
    #[error(transparent)]
    Fault(#[from] ParseFaultRuleError),
}

impl ControlCommand {
    /// Parses one line, as a client sent it: with its newline.
    ///
    /// # Errors
    /// See [`ControlCommandError`].
    pub fn parse(line: &[u8]) -> Result<ControlCommand, ControlCommandError> {
        if line.len() as u64 > COMMAND_LENGTH_MAX {
            return Err(ControlCommandError::TooLong);
        }
        let Some(line) = line.strip_suffix(b"\n") else { return Err(ControlCommandError::Unterminated) };
        let text = std::str::from_utf8(line).map_err(|_| ControlCommandError::NotUtf8)?.trim();
        let (verb, argument) = text.split_once(' ').unwrap_or((text, ""));
        Ok(match (verb, argument.trim()) {
            ("status", "") => ControlCommand::Status,
            ("fault", rule) => ControlCommand::Fault(rule.parse()?),
            ("clear-faults", "") => ControlCommand::ClearFaults,
            ("power-loss", "") => ControlCommand::PowerLoss,
            ("power-on", "") => ControlCommand::PowerOn,
            ("stop", "") => ControlCommand::Stop,
            _ => return Err(ControlCommandError::Unknown),
        })
    }
}

/// What a control socket controls.
pub trait Controlled: Send + Sync {
    /// What `status` answers.
    ///
    /// # Errors
    /// Why there is no answer, for people.
    fn status(&self) -> Result<Value, String>;

    /// Performs a command other than `status` and `stop`, and returns the answer.
    ///
    /// # Errors
    /// Why it is not performed, for people.
    fn perform(&self, command: ControlCommand) -> Result<Value, String>;
}

impl Controlled for LiveDisk {
    fn status(&self) -> Result<Value, String> {
        serde_json::to_value(Status::of(self)).map_err(|error| error.to_string())
    }

    fn perform(&self, command: ControlCommand) -> Result<Value, String> {
        match command {
            ControlCommand::Fault(rule) => {
                if let Some(reason) = rule.never_fires(self.geometry().capacity, self.clock().now()) {
                    return Err(format!("the fault would never happen: {reason}"));
                }
                self.arm(rule);
            }
            ControlCommand::ClearFaults => self.with_faults(FaultInjector::clear),
            ControlCommand::PowerOn => self.with_faults(FaultInjector::power_on),
            ControlCommand::PowerLoss => {
                let blocks = self.lose_power().map_err(|error| error.to_string())?;
                return Ok(json!({ "blocks_of_4_kib_lost": blocks }));
            }
            ControlCommand::Status | ControlCommand::Stop => {}
        }
        Ok(true.into())
    }
}

/// Performs a command, and returns the answer. [`end`] ends the server once the answer is sent.
fn answer_to(command: ControlCommand, controlled: &dyn Controlled) -> Value {
    let done = match command {
        ControlCommand::Status => controlled.status(),
        ControlCommand::Stop => Ok(true.into()),
        command => controlled.perform(command),
    };
    match done {
        Ok(done) => json!({ "ok": done }),
        Err(error) => json!({ "error": error }),
    }
}

/// Ends this server, as SIGTERM does. The process may be gone before another instruction of this thread, so that an answer
/// has to be sent before.
fn end() {
    // A process may always send itself a signal.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
}

/// The server's end of a control socket; dropping it removes the socket.
pub struct ControlServer {
    path: PathBuf,
}

impl ControlServer {
    /// Listens on `path`. If a killed server left a socket there on which nobody listens, it is replaced.
    ///
    /// # Errors
    /// If the socket cannot be created; [`ErrorKind::AddrInUse`] if another server listens on `path`, or it
    /// is not a socket.
    pub fn listen(path: &Path, controlled: Arc<dyn Controlled>) -> io::Result<ControlServer> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_abandoned(path) => {
                fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let accept = move || listener.accept().map(|(connection, _)| connection);
        connections::answer("control", accept, move |connection| converse(connection, &*controlled))?;
        Ok(ControlServer { path: path.to_owned() })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether `path` is a socket that nobody listens on.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    let connected = || UnixStream::connect(path);
    is_socket && connected().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Answers the commands of a connection until it ends.
fn converse(connection: &UnixStream, controlled: &dyn Controlled) {
    let _ = connection.set_read_timeout(Some(LINE_PATIENCE));
    let mut reader = BufReader::new(connection);
    loop {
        let line = match read_command(&mut reader) {
            Ok(line) if line.is_empty() => return,
            Ok(line) => line,
            Err(_) => return,
        };
        let command = ControlCommand::parse(&line);
        let is_last =
            matches!(command, Err(ControlCommandError::TooLong | ControlCommandError::Unterminated));
        let is_end = command == Ok(ControlCommand::Stop);
        let answer = match command {
            Ok(command) => answer_to(command, controlled),
            Err(error) => json!({ "error": error.to_string() }),
        };
        let mut writer = connection;
        let is_sent = writer.write_all(format!("{answer}\n").as_bytes()).is_ok();
        if is_end {
            end();
        }
        if !is_sent || is_last {
            return;
        }
    }
}

/// The next line. It has no newline if it is too long, if the client closed the connection within it, or if
/// the client did not finish it within [`LINE_PATIENCE`]. Empty at the end of the connection.
fn read_command(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        // One byte more than is allowed shows that the line is too long.
        let room = COMMAND_LENGTH_MAX + 1 - line.len() as u64;
        match reader.by_ref().take(room).read_until(b'\n', &mut line) {
            Ok(_) => return Ok(line),
            // A client may keep its connection open between two commands.
            Err(error) if is_timeout(&error) && line.is_empty() => {}
            Err(error) if is_timeout(&error) => return Ok(line),
            Err(error) => return Err(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The client's end of a control socket.
pub struct ControlClient {
    stream: BufReader<UnixStream>,
}

/// The answer of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum ControlReply {
    /// The server performed the command.
    Done(Value),
    /// The server refused the command, for this reason.
    Refused(String),
}

impl ControlReply {
    /// Parses the line that a server answered.
    ///
    /// # Errors
    /// When it is no answer of the protocol.
    pub fn parse(line: &str) -> io::Result<ControlReply> {
        let mut answer: Value = serde_json::from_str(line).map_err(io::Error::other)?;
        match (answer.get_mut("ok").map(Value::take), answer.get("error")) {
            (Some(done), _) => Ok(ControlReply::Done(done)),
            (None, Some(Value::String(reason))) => Ok(ControlReply::Refused(reason.clone())),
            _ => Err(io::Error::other(
                "the server does not answer by the protocol of control sockets, version 1",
            )),
        }
    }
}

impl ControlClient {
    /// Connects to the server at `path`.
    ///
    /// # Errors
    /// When no server listens there.
    pub fn connect(path: &Path) -> io::Result<ControlClient> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(ControlClient { stream: BufReader::new(stream) })
    }

    /// The process of the server, as the kernel knows it.
    pub fn server_process(&self) -> Option<u32> {
        let peer = rustix::net::sockopt::socket_peercred(self.stream.get_ref()).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    /// Sends a command and waits for the answer.
    ///
    /// # Errors
    /// When the server is gone, or does not answer by the protocol.
    pub fn ask(&mut self, command: &str) -> io::Result<ControlReply> {
        self.stream.get_mut().write_all(format!("{command}\n").as_bytes())?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server hung up"));
        }
        ControlReply::parse(&line)
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
        let control = ControlServer::listen(&folder.path().join("control"), disk.clone()).unwrap();
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
    fn an_answer_that_waits_while_the_power_fails_is_an_error() {
        let disk = disk();
        let begin = |operation| {
            let (data, size) = (Data::Write(&[7; 4096]), Bytes::kib(4));
            let (offset, durable) = (Bytes::ZERO, false);
            disk.begin(disk.clock().now(), Io { operation, offset, size, durable, data })
        };
        let (write, read) = (begin(Operation::Write), begin(Operation::Read));
        disk.lose_power().unwrap();
        disk.with_faults(FaultInjector::power_on);
        // The data is lost, so a later flush must not report that it is durable.
        assert!(disk.finish(&write, write.due).is_err());
        assert!(disk.finish(&read, read.due).is_err());
        let again = begin(Operation::Write);
        assert_eq!(disk.finish(&again, again.due), Ok(()));
    }

    #[test]
    fn those_who_hold_connections_keep_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let control = ControlServer::listen(&folder.path().join("control"), disk()).unwrap();
        // Some clients send nothing, some half a command, and some never read the answer.
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
        // The oldest connections were closed, and the latest ones were not.
        let mut oldest = &crowd[0];
        oldest.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(oldest.read(&mut [0; 1]).unwrap(), 0);
        let last = UnixStream::connect(control.path()).unwrap();
        let mut last = BufReader::new(&last);
        last.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
        last.get_mut().write_all(b"stat").unwrap();
        last.get_mut().write_all(b"us\n").unwrap();
        let mut line = String::new();
        last.read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"ok\""), "{line}");
        // The threads of closed connections end soon, but not at once.
        let bound = 2 * connections::CONNECTIONS_MAX;
        let is_bounded = (0..1000).any(|_| {
            threads() < bound || {
                std::thread::sleep(Duration::from_millis(10));
                false
            }
        });
        assert!(is_bounded, "{} threads", threads());
    }

    fn threads() -> usize {
        let named = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten().filter_map(named);
        tasks.filter(|name| name.trim() == "control").count()
    }

    /// Everything that the server answers to `bytes`, after which the client sends no more.
    fn answers(bytes: &[u8]) -> Vec<ControlReply> {
        static DISK: LazyLock<Arc<LiveDisk>> = LazyLock::new(disk);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || converse(&theirs, &**DISK));
        let mut writer = &ours;
        // The server may have ended the connection already.
        let _ = writer.write_all(bytes);
        let _ = ours.shutdown(std::net::Shutdown::Write);
        let mut answers = String::new();
        BufReader::new(&ours).read_to_string(&mut answers).unwrap();
        server.join().unwrap();
        answers.lines().map(|line| ControlReply::parse(line).unwrap()).collect()
    }

    #[test]
    fn a_line_without_its_end_is_answered_although_the_connection_stays_open() {
        let folder = tempfile::tempdir().unwrap();
        let control = ControlServer::listen(&folder.path().join("control"), disk()).unwrap();
        let client = UnixStream::connect(control.path()).unwrap();
        client.set_read_timeout(Some(6 * LINE_PATIENCE)).unwrap();
        (&client).write_all(b"status").unwrap();
        let mut line = String::new();
        BufReader::new(&client).read_line(&mut line).unwrap();
        assert!(line.contains("the line has no end: a command ends with a newline"), "{line}");
    }

    #[test]
    fn what_is_no_command_is_answered_with_the_reason() {
        let reasons = |bytes: &[u8]| -> Vec<String> {
            let replies = answers(bytes).into_iter();
            replies
                .map(|reply| if let ControlReply::Refused(reason) = reply { reason } else { "ok".to_owned() })
                .collect()
        };
        insta::assert_snapshot!(reasons(b"\xff\xfe\npower-on\n").join("; "), @"a command is text in UTF-8, and this line is not; ok");
        insta::assert_snapshot!(reasons(b"power-on\nstatus").join("; "), @"ok; the line has no end: a command ends with a newline");
        insta::assert_snapshot!(reasons(&[b'a'; 5000]).join("; "), @"the line is longer than 4096 bytes");
        insta::assert_snapshot!(reasons(b"stat\n").join("; "), @"unknown command: there are status, fault, clear-faults, power-loss, power-on and stop");
        insta::assert_snapshot!(reasons(b"").join("; "), @"");
    }

    #[test]
    fn the_socket_of_a_killed_server_is_replaced_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        // A listener that is dropped leaves its socket, as a killed server does.
        drop(UnixListener::bind(&path).unwrap());
        let server = ControlServer::listen(&path, disk()).unwrap();
        assert!(matches!(
            ControlClient::connect(&path).unwrap().ask("status").unwrap(),
            ControlReply::Done(_)
        ));
        let in_use = |path: &Path| ControlServer::listen(path, disk()).err().unwrap().kind();
        assert_eq!(in_use(&path), ErrorKind::AddrInUse, "another server listens");
        drop(server);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert_eq!(in_use(&path), ErrorKind::AddrInUse, "it is no socket");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 1..6000)) {
            let lines = bytes.split_inclusive(|&byte| byte == b'\n').count();
            let answers = answers(&bytes).len();
            prop_assert!(answers > 0 && answers <= lines, "{} answers to {} lines", answers, lines);
        }
    }
}
