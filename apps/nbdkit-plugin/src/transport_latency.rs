//! Measures the transport latency of NBD: the server connects to itself as a client.
//!
//! # Method
//! 1. Find the Unix socket that this process listens on, in `/proc`.
//! 2. Connect to the probe export there and measure ([`flashlab_export::nbd::measure`]).
//!
//! With nbdkit filters nothing is measured: a user adds a filter for the time that it takes.

use std::fs;
use std::path::{Path, PathBuf};

use flashlab_export::{LiveDisk, TransportLatency};

/// The transport latency, or why it is unknown. The process also listens on `control`, which speaks no NBD.
pub fn measure(disk: &LiveDisk, control: Option<&Path>) -> Result<TransportLatency, String> {
    if arguments()?.any(|argument| argument.starts_with("--filter")) {
        return Err("nbdkit runs with filters, which add their own time".to_owned());
    }
    let sockets = fs::read_to_string("/proc/self/net/unix").map_err(|error| error.to_string())?;
    let own = own_sockets().map_err(|error| error.to_string())?;
    let mut listening = listening(&sockets).filter(|(_, path)| Some(path.as_path()) != control);
    let socket = listening.find(|(inode, _)| own.contains(inode));
    let (_, socket) = socket.ok_or("nbdkit listens on no Unix socket (nbdkit -U SOCKET)")?;
    let geometry = disk.geometry();
    flashlab_export::nbd::measure(&socket, disk.clock(), geometry.block).map_err(|error| error.to_string())
}

fn arguments() -> Result<impl Iterator<Item = String>, String> {
    let line = fs::read("/proc/self/cmdline").map_err(|error| error.to_string())?;
    let words: Vec<String> =
        line.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    Ok(words.into_iter())
}

/// The inodes of the sockets that this process has open.
fn own_sockets() -> std::io::Result<Vec<u64>> {
    let links = fs::read_dir("/proc/self/fd")?.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let inode =
        |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok();
    Ok(links.filter_map(inode).collect())
}

/// Inode and path of the listening Unix sockets in the text of `/proc/net/unix`.
fn listening(table: &str) -> impl Iterator<Item = (u64, PathBuf)> {
    table.lines().filter_map(|line| {
        // Number, references, protocol, flags, type, state, inode, path.
        let mut fields = line.split_ascii_whitespace().skip(3);
        let accepting = fields.next()? == "00010000";
        let inode = fields.nth(2)?.parse().ok()?;
        let path = line.find('/').map(|at| PathBuf::from(&line[at..]))?;
        accepting.then_some((inode, path))
    })
}
