//! A small NBD client: to see that a server is ready, and to measure the way to it.
//!
//! # Model
//! The fixed newstyle handshake with `NBD_OPT_GO`, reads and writes with simple replies, one at a time (the NBD project's
//! protocol description, sections "Fixed newstyle negotiation" and "Transmission"). A server that is asked for the
//! export [`PROBE_EXPORT`] gives one whose IOs take [`PROBE_EXPORT_RESPONSE`] and touch nothing, so that a measurement disturbs nobody.
//!
//! # Invariants
//! - what a server sends is not believed: no length of its is allocated, and nothing panics.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use flashlab_base::{Bytes, Nanos};
use flashlab_host::Clock;

use crate::latency_probe::{PROBE_RESPONSE, latency_curve, mark_probe_write};
use crate::transport_latency::TransportLatency;

/// The export that is there to be measured.
pub const PROBE_EXPORT: &str = "flashlab-transport-latency";
/// How long its IOs take.
pub const PROBE_EXPORT_RESPONSE: Nanos = PROBE_RESPONSE;

const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTIONS: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;
const GO: u32 = 7;
const ACK: u32 = 1;
const INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;
const ERROR: u32 = 1 << 31;
const COMMAND_READ: u16 = 0;
const COMMAND_WRITE: u16 = 1;
const COMMAND_DISCONNECT: u16 = 2;
/// How long a server that is measured may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than any answer to an option has to be.
const LONGEST: u32 = 1 << 16;

/// A connection to an NBD server.
pub struct NbdClient {
    stream: UnixStream,
    size: Bytes,
    requests: u64,
}

impl NbdClient {
    /// Connects to the export of this name at a Unix socket.
    ///
    /// # Errors
    /// When nobody listens, or the server speaks otherwise or refuses; its words are in the error.
    pub fn connect(socket: &Path, export: &str) -> io::Result<NbdClient> {
        NbdClient::greet(UnixStream::connect(socket)?, export)
    }

    fn greet(mut stream: UnixStream, export: &str) -> io::Result<NbdClient> {
        if take_u64(&mut stream)? != GREETING || take_u64(&mut stream)? != OPTIONS {
            return Err(wrong("it does not greet as an NBD server of the new style does"));
        }
        let flags = take_u16(&mut stream)? & (FIXED_NEWSTYLE | NO_ZEROES);
        if flags & FIXED_NEWSTYLE == 0 {
            return Err(wrong("it is an NBD server of before 2010"));
        }
        let mut ask = u32::from(flags).to_be_bytes().to_vec();
        ask.extend(OPTIONS.to_be_bytes());
        ask.extend(GO.to_be_bytes());
        ask.extend((export.len() as u32 + 6).to_be_bytes());
        ask.extend((export.len() as u32).to_be_bytes());
        ask.extend(export.as_bytes());
        ask.extend(0_u16.to_be_bytes());
        stream.write_all(&ask)?;
        let mut size = None;
        loop {
            if take_u64(&mut stream)? != OPTION_REPLY || take_u32(&mut stream)? != GO {
                return Err(wrong("it answers another question than it was asked"));
            }
            let (kind, length) = (take_u32(&mut stream)?, take_u32(&mut stream)?);
            if length > LONGEST {
                return Err(wrong("its answer is longer than any answer is"));
            }
            let mut content = vec![0; length as usize];
            stream.read_exact(&mut content)?;
            match (kind, size) {
                (ACK, Some(size)) => return Ok(NbdClient { stream, size, requests: 0 }),
                (INFO, _) => size = export_size(&content).or(size),
                (kind, _) if kind & ERROR != 0 => {
                    let words = String::from_utf8_lossy(&content);
                    return Err(io::Error::other(format!("the NBD server refuses ({kind:#x}): {words}")));
                }
                _ => return Err(wrong("it does not tell the size of its disk")),
            }
        }
    }

    /// The size of the disk.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Reads from `offset`.
    ///
    /// # Errors
    /// Of the disk, or of the connection.
    pub fn read(&mut self, offset: Bytes, data: &mut [u8]) -> io::Result<()> {
        self.requests += 1;
        self.ask(COMMAND_READ, offset, data.len() as u32)?;
        self.reply()?;
        self.stream.read_exact(data)
    }

    /// Writes to `offset`.
    ///
    /// # Errors
    /// Of the disk, or of the connection.
    pub fn write(&mut self, offset: Bytes, data: &[u8]) -> io::Result<()> {
        self.requests += 1;
        self.ask(COMMAND_WRITE, offset, data.len() as u32)?;
        self.stream.write_all(data)?;
        self.reply()
    }

    /// What the server says to the last request.
    fn reply(&mut self) -> io::Result<()> {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        let mut reply = reply.as_slice();
        let (magic, error) = (take_u32(&mut reply)?, take_u32(&mut reply)?);
        if magic != REPLY || take_u64(&mut reply)? != self.requests {
            return Err(wrong("it answers another request than it was given"));
        }
        match error {
            0 => Ok(()),
            // NBD's numbers are Linux's.
            error => Err(io::Error::from_raw_os_error(error as i32)),
        }
    }

    fn ask(&mut self, command: u16, offset: Bytes, length: u32) -> io::Result<()> {
        let mut request = [0; 28];
        request[0..4].copy_from_slice(&REQUEST.to_be_bytes());
        request[6..8].copy_from_slice(&command.to_be_bytes());
        request[8..16].copy_from_slice(&self.requests.to_be_bytes());
        request[16..24].copy_from_slice(&offset.0.to_be_bytes());
        request[24..28].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&request)
    }
}

impl Drop for NbdClient {
    fn drop(&mut self) {
        // Whoever is gone already needs no goodbye.
        let _ = self.ask(COMMAND_DISCONNECT, Bytes::ZERO, 0);
    }
}

/// What is lost on the way to the export [`PROBE_EXPORT`] of the server at `socket`, and back.
///
/// # Errors
/// When the server cannot be read from or written to.
pub fn measure(socket: &Path, clock: Clock, block: Bytes) -> io::Result<TransportLatency> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut client = NbdClient::greet(stream, PROBE_EXPORT)?;
    let size = client.size();
    if size < block {
        return Err(wrong("its disk is smaller than one block"));
    }
    let mut data = Vec::new();
    let read = latency_curve(size, block, |offset, size| {
        data.resize(size.0 as usize, 0);
        let asked = clock.now();
        client.read(offset, &mut data)?;
        Ok::<_, io::Error>(clock.now().since(asked))
    })?;
    // Should the server not be the one that forgets it, it says what it is.
    mark_probe_write(&mut data);
    let write = latency_curve(size, block, |offset, size| {
        let asked = clock.now();
        client.write(offset, &data[..size.0 as usize])?;
        Ok::<_, io::Error>(clock.now().since(asked))
    })?;
    Ok(TransportLatency { read, write })
}

fn export_size(info: &[u8]) -> Option<Bytes> {
    let (kind, rest) = info.split_first_chunk()?;
    let (size, _) = rest.split_first_chunk()?;
    (u16::from_be_bytes(*kind) == INFO_EXPORT).then(|| Bytes(u64::from_be_bytes(*size)))
}

fn take<const LENGTH: usize>(from: &mut impl Read) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn take_u16(from: &mut impl Read) -> io::Result<u16> {
    take(from).map(u16::from_be_bytes)
}

fn take_u32(from: &mut impl Read) -> io::Result<u32> {
    take(from).map(u32::from_be_bytes)
}

fn take_u64(from: &mut impl Read) -> io::Result<u64> {
    take(from).map(u64::from_be_bytes)
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no NBD server that is understood: {what}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a server sends in a handshake, and after it.
    fn hello(size: u64) -> Vec<u8> {
        let mut sent = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
        for (kind, content) in [(INFO, export(size)), (ACK, Vec::new())] {
            sent.extend(OPTION_REPLY.to_be_bytes());
            sent.extend(GO.to_be_bytes());
            sent.extend(kind.to_be_bytes());
            sent.extend((content.len() as u32).to_be_bytes());
            sent.extend(content);
        }
        sent
    }

    fn export(size: u64) -> Vec<u8> {
        [&INFO_EXPORT.to_be_bytes()[..], &size.to_be_bytes(), &[0, 1]].concat()
    }

    /// A client of a server that sends this whatever it is asked.
    fn client(sent: &[u8]) -> io::Result<NbdClient> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(sent).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        // It is kept open by a thread, so that the client can write.
        std::thread::spawn(move || io::copy(&mut theirs, &mut io::sink()));
        NbdClient::greet(ours, "")
    }

    #[test]
    fn a_read_gives_the_servers_data_or_its_error() {
        let mut sent = hello(1 << 20);
        sent.extend([&REPLY.to_be_bytes()[..], &[0; 4], &1_u64.to_be_bytes(), b"abcd"].concat());
        sent.extend([&REPLY.to_be_bytes()[..], &28_u32.to_be_bytes(), &2_u64.to_be_bytes()].concat());
        let mut client = client(&sent).unwrap();
        assert_eq!(client.size(), Bytes::mib(1));
        let mut data = [0; 4];
        client.read(Bytes::ZERO, &mut data).unwrap();
        assert_eq!(&data, b"abcd");
        assert_eq!(client.read(Bytes::ZERO, &mut data).unwrap_err().raw_os_error(), Some(28));
        assert_eq!(client.read(Bytes::ZERO, &mut data).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    proptest! {
        /// A handshake that is cut, or has a byte changed, gives an error or a client, and no panic.
        #[test]
        fn any_bytes_are_a_client_or_an_error(at in 0..100_usize, value: u8, length in 0..100_usize) {
            let mut sent = hello(1 << 20);
            let at = at % sent.len();
            sent[at] = value;
            sent.truncate(length);
            if let Ok(mut client) = client(&sent) {
                prop_assert!(client.read(Bytes::ZERO, &mut [0; 512]).is_err());
            }
        }
    }
}
