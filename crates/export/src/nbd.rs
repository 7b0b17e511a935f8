//! A small NBD client: it checks that a server is ready, and measures its transport latency.
//!
//! # Model
//! The client uses the fixed newstyle handshake with `NBD_OPT_GO`, and then reads and writes with simple replies, one at a
//! time (the NBD project's protocol description, sections "Fixed newstyle negotiation" and "Transmission"). flashlab's
//! plugin for nbdkit has a second export, [`PROBE_EXPORT`]: it
//! answers every IO after exactly [`PROBE_EXPORT_RESPONSE`] and stores nothing.
//!
//! # Invariants
//! - no bytes from a server cause a panic, or an allocation of more than `OPTION_REPLY_BYTES_MAX`.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use flashlab_base::{Bytes, Nanos};
use flashlab_host::Clock;

use crate::latency_probe::{PROBE_RESPONSE, latency_curve, mark_probe_write};
use crate::transport_latency::TransportLatency;

/// The name of the export that measures the transport latency.
pub const PROBE_EXPORT: &str = "flashlab-transport-latency";
/// The response time of every IO on [`PROBE_EXPORT`].
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
/// The time that a server has for an answer while its transport latency is measured.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest reply to an option that the client accepts. It is generous: the protocol limits strings to 4096 bytes, and the other fields are short.
const OPTION_REPLY_BYTES_MAX: u32 = 1 << 16;

/// A connection to an NBD server.
pub struct NbdClient {
    stream: UnixStream,
    size: Bytes,
    requests: u64,
}

impl NbdClient {
    /// Connects to the export of this name at the Unix socket `socket`.
    ///
    /// # Errors
    /// When no server listens, or the server does not follow the protocol, or it refuses. The error has the server's
    /// message.
    pub fn connect(socket: &Path, export: &str) -> io::Result<NbdClient> {
        NbdClient::greet(UnixStream::connect(socket)?, export)
    }

    fn greet(mut stream: UnixStream, export: &str) -> io::Result<NbdClient> {
        let flags = read_greeting(&mut stream)?;
        let mut request = u32::from(flags).to_be_bytes().to_vec();
        request.extend(OPTIONS.to_be_bytes());
        request.extend(GO.to_be_bytes());
        request.extend((export.len() as u32 + 6).to_be_bytes());
        request.extend((export.len() as u32).to_be_bytes());
        request.extend(export.as_bytes());
        request.extend(0_u16.to_be_bytes());
        stream.write_all(&request)?;
        let size = read_export_size(&mut stream)?;
        Ok(NbdClient { stream, size, requests: 0 })
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
        self.request(COMMAND_READ, offset, data.len() as u32)?;
        read_reply(&mut self.stream, self.requests)?;
        self.stream.read_exact(data)
    }

    /// Writes to `offset`.
    ///
    /// # Errors
    /// Of the disk, or of the connection.
    pub fn write(&mut self, offset: Bytes, data: &[u8]) -> io::Result<()> {
        self.request(COMMAND_WRITE, offset, data.len() as u32)?;
        self.stream.write_all(data)?;
        read_reply(&mut self.stream, self.requests)
    }

    fn request(&mut self, command: u16, offset: Bytes, length: u32) -> io::Result<()> {
        self.requests += 1;
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
        // An error is ignored: if the server has ended, there is nothing to disconnect.
        let _ = self.request(COMMAND_DISCONNECT, Bytes::ZERO, 0);
    }
}

/// The transport latency of the server at `socket`, measured with its export [`PROBE_EXPORT`].
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
    // A server that ignores the export's name would store these writes, so their data says where they come from.
    mark_probe_write(&mut data);
    let write = latency_curve(size, block, |offset, size| {
        let asked = clock.now();
        client.write(offset, &data[..size.0 as usize])?;
        Ok::<_, io::Error>(clock.now().since(asked))
    })?;
    Ok(TransportLatency { read, write })
}

/// Parses what a server sends in a handshake, and returns the size of its disk.
///
/// # Errors
/// When the bytes end early, do not follow the protocol, or refuse the export.
pub fn parse_handshake(mut bytes: &[u8]) -> io::Result<Bytes> {
    read_greeting(&mut bytes)?;
    read_export_size(&mut bytes)
}

/// Reads the greeting of a server, and returns the handshake flags that the client shares with it.
fn read_greeting(from: &mut impl Read) -> io::Result<u16> {
    if take_u64(from)? != GREETING || take_u64(from)? != OPTIONS {
        return Err(wrong("it does not greet as an NBD server of the new style does"));
    }
    let flags = take_u16(from)? & (FIXED_NEWSTYLE | NO_ZEROES);
    match flags & FIXED_NEWSTYLE {
        0 => Err(wrong("it is an NBD server of before 2010")),
        _ => Ok(flags),
    }
}

/// Reads the replies to `NBD_OPT_GO` up to the acknowledgement, and returns the size of the disk.
fn read_export_size(from: &mut impl Read) -> io::Result<Bytes> {
    let mut size = None;
    loop {
        if take_u64(from)? != OPTION_REPLY || take_u32(from)? != GO {
            return Err(wrong("it replies to another option than the client sent"));
        }
        let (kind, length) = (take_u32(from)?, take_u32(from)?);
        if length > OPTION_REPLY_BYTES_MAX {
            return Err(wrong("its reply is longer than the protocol allows"));
        }
        let mut content = vec![0; length as usize];
        from.read_exact(&mut content)?;
        match (kind, size) {
            (ACK, Some(size)) => return Ok(size),
            (INFO, _) => size = export_size(&content).or(size),
            (kind, _) if kind & ERROR != 0 => {
                let message = String::from_utf8_lossy(&content);
                return Err(io::Error::other(format!("the NBD server refuses ({kind:#x}): {message}")));
            }
            _ => return Err(wrong("it does not send the size of its disk")),
        }
    }
}

/// Reads the reply to the request with this number.
fn read_reply(from: &mut impl Read, request: u64) -> io::Result<()> {
    let (magic, error, number) = (take_u32(from)?, take_u32(from)?, take_u64(from)?);
    if magic != REPLY || number != request {
        return Err(wrong("it answers another request than the client sent"));
    }
    match error {
        0 => Ok(()),
        // NBD uses Linux's error numbers.
        error => Err(io::Error::from_raw_os_error(error as i32)),
    }
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
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("this is no NBD server that flashlab understands: {what}"),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a server sends in a handshake.
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

    /// A client of a server that sends these bytes whatever it receives.
    fn client(sent: &[u8]) -> io::Result<NbdClient> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(sent).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        // A thread keeps the connection open, so that the client can write.
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
            prop_assert_eq!(parse_handshake(&sent).is_ok(), client(&sent).is_ok());
            if let Ok(mut client) = client(&sent) {
                prop_assert!(client.read(Bytes::ZERO, &mut [0; 512]).is_err());
            }
        }
    }
}
