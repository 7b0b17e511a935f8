//! The program of `repair run`, in a mount namespace of its own.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::passed;

/// A program that waits in its mount namespace until its files are served.
pub struct MountedProgram {
    process: Child,
    socket: UnixStream,
    /// The namespace, as links in `/proc` name it.
    namespace: String,
    has_begun: bool,
    /// Set when it has ended.
    code: Option<i32>,
}

impl MountedProgram {
    /// Starts it with the arguments of `mounted-program`. Also returns the descriptor through which its files are served.
    /// `Err(code)`: it has said why it cannot.
    pub fn start(arguments: &[OsString]) -> Result<Result<(MountedProgram, OwnedFd), i32>> {
        let (socket, other_end) = UnixStream::pair().context("cannot make a socket")?;
        // This program, even if its file was replaced in the meantime.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("flashlab").arg("mounted-program").args(arguments).stdin(OwnedFd::from(other_end));
        let mut process = command.spawn().context("cannot start a process")?;
        // The command has the other end of the socket open.
        drop(command);
        // If it has ended already, receiving says so.
        let _ = passed::send(&socket, rustix::stdio::stdin(), "standard input");
        match passed::receive(&socket) {
            Ok((device, namespace)) => {
                Ok(Ok((MountedProgram { process, socket, namespace, has_begun: false, code: None }, device)))
            }
            Err(_) => Ok(Err(exit_code(process.wait().context("cannot wait for a process")?))),
        }
    }

    /// Lets it go on: its files are served.
    pub fn begin(&mut self) -> Result<()> {
        self.has_begun = true;
        self.socket.write_all(b"1").context("the program has ended before it began")
    }

    /// Its exit code, if it has ended.
    pub fn ended(&mut self) -> Result<Option<i32>> {
        if self.code.is_none() {
            self.code = self.process.try_wait().context("cannot wait for the program")?.map(exit_code);
        }
        Ok(self.code)
    }

    /// Passes a signal on to it.
    pub fn signal(&self, signal: Signal) {
        if let Some(process) = Pid::from_raw(self.process.id() as i32) {
            let _ = kill_process(process, signal);
        }
    }

    /// Passes a signal on to all other processes that see its files.
    pub fn signal_others(&self, signal: Signal) {
        self.others().iter().for_each(|(process, _)| {
            let _ = kill_process(*process, signal);
        });
    }

    /// The processes that see its files, except for itself: their numbers, and their names.
    pub fn others(&self) -> Vec<(Pid, String)> {
        let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let own = self.process.id() as i32;
        let sees = |number: &i32| {
            let namespace = fs::read_link(format!("/proc/{number}/ns/mnt"));
            *number != own && namespace.is_ok_and(|namespace| namespace == Path::new(&self.namespace))
        };
        let named = numbers.filter(sees).filter_map(|number| {
            let name = fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
            Some((Pid::from_raw(number)?, name.trim().to_owned()))
        });
        named.collect()
    }
}

impl Drop for MountedProgram {
    fn drop(&mut self) {
        if !self.has_begun {
            // It ends when it sees the end of the socket.
            let _ = self.socket.shutdown(std::net::Shutdown::Both);
            let _ = self.process.wait();
        }
    }
}

/// The exit code, as a shell has it for a program that a signal ended.
fn exit_code(status: std::process::ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
