//! How a volume is served: the command, what it prints, and where the writers' files are then.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::operation::Ground;
use crate::server::Server;

/// How long a start is repeated while what the killed server left behind is cleaned up.
const CLEANING: Duration = Duration::from_secs(60);

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `repair serve`, as a file and as a loop device.
    Block,
    /// `repair mount`.
    Mount,
    /// `repair run`, under the command that writes.
    Run,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        match text {
            "block" => Ok(Kind::Block),
            "mount" => Ok(Kind::Mount),
            "run" => Ok(Kind::Run),
            _ => Err(format!("`{text}` is none of block, mount and run")),
        }
    }
}

/// The volume and the folders of a test.
pub struct Served {
    /// The binary `flashlab`.
    pub program: PathBuf,
    pub kind: Kind,
    pub volume: PathBuf,
    /// The mount, or what the files of `run` lie in.
    pub directory: PathBuf,
    /// Where servers write their messages.
    pub messages: PathBuf,
}

impl Served {
    /// Makes the volume: small, so that packing never ends and space runs out. `fill`: the share of its segments that data may take, which
    /// needs enough segments beside them.
    pub fn create(&self, fill: Option<&str>) -> Result<(), String> {
        let (size, segment) = match (self.kind, fill) {
            (_, Some(_)) => ("64MiB", "256KiB"),
            (Kind::Block, None) => ("48MiB", "512KiB"),
            (Kind::Mount | Kind::Run, None) => ("32MiB", "256KiB"),
        };
        let volume = self.volume.as_os_str();
        let mut arguments: Vec<&OsStr> = ["repair", "create"].map(OsStr::new).into();
        arguments.push(volume);
        arguments.extend(["--size", size, "--segment", segment].map(OsStr::new));
        arguments.extend(fill.iter().flat_map(|fill| ["--fill", fill]).map(OsStr::new));
        self.succeeds(&arguments).map(drop)
    }

    /// Verifies everything on the volume.
    pub fn check(&self) -> Result<(), String> {
        self.succeeds(&["repair".as_ref(), "check".as_ref(), self.volume.as_os_str()]).map(drop)
    }

    /// How many segments it packed since it was made.
    pub fn packed_segments(&self) -> Result<u64, String> {
        let said = self.succeeds(&[
            "repair".as_ref(),
            "status".as_ref(),
            self.volume.as_os_str(),
            "--json".as_ref(),
        ])?;
        let status: Value = serde_json::from_str(&said).map_err(|error| format!("{said}: {error}"))?;
        status["counters"]["packed_segments"].as_u64().ok_or(format!("no packed_segments in {said}"))
    }

    fn succeeds(&self, arguments: &[&OsStr]) -> Result<String, String> {
        let output = Command::new(&self.program).args(arguments).output();
        let output = output.map_err(|error| format!("{}: {error}", self.program.display()))?;
        let said =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        if output.status.success() {
            return Ok(said[0].clone());
        }
        Err(format!("flashlab {arguments:?}: {}: {}", output.status, said.join("\n")))
    }

    /// The command that serves; that of `run` has to get its program.
    pub fn command(&self, as_loop: bool) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("repair");
        match self.kind {
            Kind::Mount => command.arg("mount").arg(&self.volume).arg(&self.directory),
            Kind::Block if as_loop => command.arg("serve").arg(&self.volume).args(["--loop", "--json"]),
            Kind::Block => {
                command.arg("serve").arg(&self.volume).args(["--json", "--fuse"]).arg(&self.directory)
            }
            Kind::Run => command.args(["run", "--files"]).arg(&self.directory).arg(&self.volume).arg("--"),
        };
        command
    }

    /// Starts `run` with a program.
    pub fn run(&self, program: &[OsString], session: &str) -> Result<Server, String> {
        let mut command = self.command(false);
        Server::start(command.args(program).env(super::SESSION, session), &self.messages)
    }

    /// Starts it and waits until it is ready; what it refuses is tried for a while, because a helper may be cleaning up.
    pub fn start(&self, as_loop: bool) -> Result<(Server, PathBuf), String> {
        let begin = Instant::now();
        loop {
            let server = Server::start(&mut self.command(as_loop), &self.messages)?;
            match server.ready() {
                Ok(line) => return Ok((server, self.root(&line)?)),
                Err(said) if begin.elapsed() > CLEANING => return Err(said),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Where the writers' files are, from the line that the server prints.
    fn root(&self, line: &str) -> Result<PathBuf, String> {
        if self.kind == Kind::Mount {
            return Ok(self.directory.clone());
        }
        let printed: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        Ok(printed["path"].as_str().ok_or(format!("no path in {line}"))?.into())
    }

    pub fn ground(&self) -> Ground {
        if self.kind == Kind::Block { Ground::Disk { direct: false } } else { Ground::Files }
    }

    /// What is left of servers that ended: mounts, and loop devices over them.
    pub fn left_behind(&self) -> Vec<String> {
        let folder = self.directory.parent().unwrap_or(&self.directory).to_string_lossy().into_owned();
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mut left: Vec<String> =
            mounts.lines().filter(|line| line.contains(&folder)).map(str::to_owned).collect();
        for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            if backing.contains(&folder) {
                left.push(format!("{} over {backing}", entry.path().display()));
            }
        }
        left
    }
}

/// The size of a disk or of a file.
pub fn size_of(disk: &Path) -> io::Result<u64> {
    fs::File::open(disk)?.seek(SeekFrom::End(0))
}
