//! A server of `flashlab` as a process: it is started, waited for, stopped, and killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to say that it is ready, or to end: far longer than either takes on a machine under load.
const PATIENCE: Duration = Duration::from_secs(180);

/// A server. It is killed when this is dropped.
pub struct Server {
    child: Child,
    said: PathBuf,
    lines: Receiver<String>,
}

impl Server {
    /// Starts a command that prints a line when it is ready. `messages` becomes the file of its standard error.
    pub fn start(command: &mut Command, messages: &Path) -> Result<Server, String> {
        let file = File::create(messages).map_err(|error| format!("{}: {error}", messages.display()))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let (send, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            // It ends with the server, and with whoever inherited its output.
            thread::spawn(move || {
                BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
            });
        }
        Ok(Server { child, said: messages.to_owned(), lines })
    }

    /// Waits for its first line. An error has what it said instead.
    pub fn ready(&self) -> Result<String, String> {
        self.lines.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("it was not ready after {PATIENCE:?}: {}", self.said()),
            RecvTimeoutError::Disconnected => self.said(),
        })
    }

    /// What it wrote to standard error.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default().trim().to_owned()
    }

    /// In which function of the kernel each of its threads waits.
    pub fn threads(&self) -> String {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        let waits = threads.map(|thread| {
            let said =
                |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default().trim().to_owned();
            format!("{} in {}", said("comm"), said("wchan"))
        });
        format!("threads of process {}: {}", self.pid(), waits.collect::<Vec<_>>().join(", "))
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it by SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it by SIGTERM; its exit code.
    pub fn stop(mut self) -> Result<Option<i32>, String> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).map_err(|error| format!("kill -TERM: {error}"))?;
        self.wait(PATIENCE)
    }

    /// Waits for its end; the exit code, which a process that a signal ended has not.
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<i32>, String> {
        let begin = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status.code()),
                Ok(None) if begin.elapsed() < at_most => thread::sleep(Duration::from_millis(2)),
                Ok(None) => return Err(format!("process {} did not end in {at_most:?}", self.pid())),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}
