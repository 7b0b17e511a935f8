//! Controls a ublk device: a block device of the kernel whose server is a program.
//!
//! # Model
//! 1. Commands to `/dev/ublk-control` create or take over a [`UblkDevice`].
//! 2. Each queue of it is a [`UblkQueue`] of one thread. The thread fetches requests through its own ring and
//!    commits their results.
//! 3. The kernel copies written data into a request's buffer before the request is fetched. It copies read
//!    data out of the buffer after the request is committed.
//!
//! The structures and numbers are those of `linux/ublk_cmd.h`.
//!
//! # Invariants
//! - Only the thread that made a queue uses it: the kernel accepts commands for it from that thread alone.
//! - The memory of a request belongs to the server between fetch and commit, and to the kernel otherwise.

mod queue;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use flashlab_base::Bytes;
use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::retry::retry;

pub use queue::{UblkOperation, UblkQueue, UblkRequest};

/// How long the kernel may take to finish what it has begun.
const SOME_SECONDS: Duration = Duration::from_secs(5);

const ADD: u32 = command(WRITE | READ, 0x04, 32);
const DELETE: u32 = command(READ, 0x14, 32);
const START: u32 = command(WRITE | READ, 0x06, 32);
const STOP: u32 = command(WRITE | READ, 0x07, 32);
const SET_PARAMETERS: u32 = command(WRITE | READ, 0x08, 32);
const START_RECOVERY: u32 = command(WRITE | READ, 0x10, 32);
const END_RECOVERY: u32 = command(WRITE | READ, 0x11, 32);
const GET_INFO: u32 = command(READ, 0x02, 32);

const USER_RECOVERY: u64 = 1 << 3;
const USER_RECOVERY_REISSUE: u64 = 1 << 4;
const IOCTL_ENCODED: u64 = 1 << 6;

const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;
const BASIC: u32 = 1;
const DISCARD: u32 = 2;

const WRITE: u32 = 1;
const READ: u32 = 2;

/// The number of a command, in the form of an ioctl.
const fn command(direction: u32, number: u32, size: u32) -> u32 {
    direction << 30 | size << 16 | (b'u' as u32) << 8 | number
}

/// The parameters of a new ublk device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkShape {
    /// Its size, whole blocks.
    pub size: Bytes,
    /// Its logical block: a power of two from 512 to 4096.
    pub block: Bytes,
    /// How many queues it has, each with a thread of the server.
    pub queues: u16,
    /// How many requests a queue holds.
    pub depth: u16,
    /// The largest request.
    pub largest: Bytes,
}

/// A ublk device, which the server starts, stops, or takes over.
#[derive(Debug)]
pub struct UblkDevice {
    control: Control,
    /// What queues are made of.
    channel: File,
    info: Info,
    recovered: bool,
}

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    queues: u16,
    depth: u16,
    state: u16,
    pad: u16,
    largest: u32,
    number: u32,
    server: i32,
    pad1: u32,
    flags: u64,
    server_flags: u64,
    owner: [u32; 2],
    reserved: [u64; 2],
}

/// The fields of `struct ublk_params` that are used here.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Parameters {
    length: u32,
    types: u32,
    attributes: u32,
    logical_block_shift: u8,
    physical_block_shift: u8,
    optimal_io_shift: u8,
    least_io_shift: u8,
    max_sectors: u32,
    chunk_sectors: u32,
    sectors: u64,
    virtual_boundary_mask: u64,
    discard_alignment: u32,
    discard_granularity: u32,
    max_discard_sectors: u32,
    max_write_zeroes_sectors: u32,
    max_discard_segments: u16,
    reserved: u16,
    /// The kernel's structure has more fields; it takes absent ones as zero.
    pad: u32,
}

impl UblkDevice {
    /// Creates a device with a write cache, FUA, discard and write-zeroes, that survives its server. It
    /// serves nothing until [`start`](UblkDevice::start).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the kernel has no ublk, [`ErrorKind::PermissionDenied`] without the
    /// permission to use it.
    pub fn add(shape: UblkShape) -> io::Result<UblkDevice> {
        let control = Control::open()?;
        let mut info = Info {
            queues: shape.queues,
            depth: shape.depth,
            largest: shape.largest.0 as u32,
            number: u32::MAX,
            flags: USER_RECOVERY | USER_RECOVERY_REISSUE | IOCTL_ENCODED,
            ..Info::default()
        };
        control.give(ADD, u32::MAX, &mut info)?;
        let made = UblkDevice { channel: open_channel(info.number)?, control, info, recovered: false };
        let set = made.control.give(SET_PARAMETERS, info.number, &mut Parameters::of(shape));
        set.inspect_err(|_| drop(made.delete()))?;
        Ok(made)
    }

    /// Takes over the device with this number after its server ended.
    ///
    /// # Errors
    /// If there is no such device, or its server still runs.
    pub fn recover(number: u32) -> io::Result<UblkDevice> {
        let control = Control::open()?;
        // The kernel notices the end of a server a moment later.
        retry(ErrorKind::ResourceBusy, SOME_SECONDS, || control.tell(START_RECOVERY, number, 0))?;
        let mut info = Info::default();
        control.give(GET_INFO, number, &mut info)?;
        let channel = retry(ErrorKind::ResourceBusy, SOME_SECONDS, || open_channel(number))?;
        Ok(UblkDevice { channel, control, info, recovered: true })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.info.number
    }

    /// How many queues it has.
    pub fn queues(&self) -> u16 {
        self.info.queues
    }

    /// The block device, once it is started.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.number()))
    }

    /// The queue with this index, for the calling thread. All queues must exist before the device can start.
    ///
    /// # Errors
    /// If the kernel has no memory for it.
    pub fn queue(&self, index: u16) -> io::Result<UblkQueue> {
        UblkQueue::new(&self.channel, index, self.info.depth, Bytes(self.info.largest.into()))
    }

    /// Starts the device, or continues one that was taken over. It returns when the block device exists; the
    /// queues have to serve requests during the call.
    ///
    /// # Errors
    /// The kernel's.
    pub fn start(&self) -> io::Result<()> {
        let start = if self.recovered { END_RECOVERY } else { START };
        self.control.tell(start, self.number(), std::process::id().into())
    }

    /// Stops the device. The block device disappears, and the queues end when their requests are committed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stop(&self) -> io::Result<()> {
        self.control.tell(STOP, self.number(), 0)
    }

    /// Deletes the device, once nobody has it open. Its queues have ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete(&self) -> io::Result<()> {
        self.control.tell(DELETE, self.info.number, 0)
    }
}

impl Parameters {
    fn of(shape: UblkShape) -> Parameters {
        let shift = shape.block.0.trailing_zeros() as u8;
        let most = u32::MAX >> 9;
        Parameters {
            length: size_of::<Parameters>() as u32 - 4,
            types: BASIC | DISCARD,
            attributes: VOLATILE_CACHE | FUA,
            logical_block_shift: shift,
            physical_block_shift: shift.max(12),
            optimal_io_shift: 12,
            least_io_shift: shift,
            max_sectors: (shape.largest.0 / 512) as u32,
            sectors: shape.size.0 / 512,
            discard_granularity: shape.block.0 as u32,
            max_discard_sectors: most,
            max_write_zeroes_sectors: most,
            max_discard_segments: 1,
            ..Parameters::default()
        }
    }
}

/// `/dev/ublk-control`, with a ring of its own.
#[derive(Debug)]
struct Control {
    file: File,
    ring: Mutex<Ring>,
}

struct Ring(IoUring<squeue::Entry128, cqueue::Entry>);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Control {
    fn open() -> io::Result<Control> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/ublk-control")?;
        Ok(Control { file, ring: Mutex::new(Ring(IoUring::builder().build(4)?)) })
    }

    /// Sends a command with a number as its argument.
    fn tell(&self, operation: u32, device: u32, number: u64) -> io::Result<()> {
        self.command(operation, device, (0, 0), number)
    }

    /// Sends a command with a structure, which the kernel reads or fills.
    fn give<T>(&self, operation: u32, device: u32, structure: &mut T) -> io::Result<()> {
        let address = std::ptr::from_mut(structure) as u64;
        self.command(operation, device, (address, size_of::<T>() as u16), 0)
    }

    /// `struct ublksrv_ctrl_cmd`, at the place in a long ring entry where the kernel expects it.
    fn command(
        &self,
        operation: u32,
        device: u32,
        (address, length): (u64, u16),
        number: u64,
    ) -> io::Result<()> {
        let mut bytes = [0; 80];
        bytes[0..4].copy_from_slice(&device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
        bytes[6..8].copy_from_slice(&length.to_ne_bytes());
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&number.to_ne_bytes());
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), operation).cmd(bytes).build();
        let mut ring = self.ring.lock().expect("nobody panics with it");
        // SAFETY: the structure at `address` outlives the command, because this function waits for the
        // command. The kernel writes no more than `length` into it.
        unsafe { ring.0.submission().push(&entry) }.expect("the ring is empty");
        loop {
            match ring.0.submit_and_wait(1) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            if let Some(done) = ring.0.completion().next() {
                return if done.result() < 0 {
                    Err(io::Error::from_raw_os_error(-done.result()))
                } else {
                    Ok(())
                };
            }
        }
    }
}

/// The character device of a ublk device; its node appears a moment after the device.
fn open_channel(number: u32) -> io::Result<File> {
    let path = format!("/dev/ublkc{number}");
    retry(ErrorKind::NotFound, SOME_SECONDS, || OpenOptions::new().read(true).write(true).open(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_and_numbers_are_the_kernels() {
        assert_eq!((size_of::<Info>(), size_of::<Parameters>()), (64, 64));
        assert_eq!((ADD, GET_INFO, DELETE), (0xc020_7504, 0x8020_7502, 0x8020_7514));
        let shape = UblkShape {
            size: Bytes::mib(64),
            block: Bytes(4096),
            queues: 1,
            depth: 64,
            largest: Bytes::mib(1),
        };
        let parameters = Parameters::of(shape);
        // Basic has 32 bytes and discard 20, after a head of 8.
        assert_eq!(parameters.length, 60);
        assert_eq!((parameters.sectors, parameters.max_sectors), (131_072, 2048));
    }

    #[test]
    fn without_the_kernels_support_the_error_says_so() {
        if std::path::Path::new("/dev/ublk-control").exists() {
            flashlab_skip::skip(flashlab_skip::Need::Kernel, format_args!("there is ublk here"));
            return;
        }
        let error = UblkDevice::recover(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
