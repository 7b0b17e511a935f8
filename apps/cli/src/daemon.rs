//! `--daemon`: starts the same command again in the background, and returns when the disk is ready.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use flashlab_export::private_directory;

use crate::exit::Ended;
use crate::{files, output};

const DAEMON: &str = "--daemon";
const LOG: &str = "--log";

/// The options of a server that can go to the background.
#[derive(Args)]
pub struct Background {
    /// Return when it is ready; the server goes on until flashlab live stop or a signal ends it
    #[arg(long)]
    daemon: bool,
    /// The new file for the server's messages with --daemon; one in the temporary directory if not given
    #[arg(long, value_name = "FILE", requires = "daemon")]
    log: Option<PathBuf>,
}

impl Background {
    /// Serves in this process, or starts one in the background that does.
    ///
    /// # Errors
    /// Those of `serve`, and those of a server in the background that ends before it is ready.
    pub fn or_serve(&self, serve: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.daemon { start(self.log.as_deref()) } else { serve() }
    }
}

/// Starts this command without `--daemon`, and prints its first line, which contains the path of the disk.
/// Its messages go to `log`.
///
/// # Errors
/// If it ends before the disk is ready. Its messages are printed, and its exit code becomes that of the
/// error.
fn start(log: Option<&Path>) -> Result<()> {
    let own = if log.is_none() { Some(log_directory()?) } else { None };
    let default = || own.as_deref().unwrap_or(Path::new("")).join("server.log");
    let log: PathBuf = log.map_or_else(default, Path::to_owned);
    let file = files::create_log(&log)?;
    let words = server_words(std::env::args_os().skip(1));
    // This program, even if its file was replaced in the meantime. Ctrl-C does not reach it.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("flashlab").args(words).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
    let mut server = command.spawn().context("cannot start the server")?;
    let mut ready = String::new();
    BufReader::new(server.stdout.take().context("its output is piped")?).read_line(&mut ready)?;
    if ready.is_empty() {
        let status = server.wait().context("cannot wait for the server")?;
        let messages = fs::read(&log).unwrap_or_default();
        tell!("{}", String::from_utf8_lossy(&messages).trim_end());
        // The error was already printed, so nobody needs the file.
        let _ = fs::remove_file(&log);
        own.map(fs::remove_dir);
        return match status.code().and_then(|code| u8::try_from(code).ok()) {
            Some(code) => Err(Ended(code).into()),
            None => Err(anyhow!("the server ended ({status})")),
        };
    }
    tell!("its messages are in {}", log.display());
    output::text(&ready)
}

fn log_directory() -> Result<PathBuf> {
    private_directory().with_context(|| format!("there is no place for the log: name a file with {LOG}"))
}

/// The words of the command, without the options for this process.
fn server_words(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut is_value = false;
    for word in words {
        let was_value = std::mem::replace(&mut is_value, word == LOG);
        let is_log = was_value || is_value || word.as_encoded_bytes().starts_with(b"--log=");
        if !is_log && word != DAEMON {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_gets_all_words_but_those_of_the_daemon() {
        let of = |command: &str| -> Vec<String> {
            let words = command.split(' ').map(OsString::from);
            server_words(words).into_iter().map(|word| word.into_string().unwrap()).collect()
        };
        assert_eq!(
            of("serve sim:a --daemon --log f --loop --log=g --seed 1"),
            ["serve", "sim:a", "--loop", "--seed", "1"]
        );
    }
}
