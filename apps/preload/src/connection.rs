//! The connection of this process to the server.
//!
//! # Invariants
//! - One call at a time. A child of a fork gets a connection of its own, before it returns from `fork`.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, zeroed};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use flashlab_repair::{AnswerHeader, CallHeader, FileCall};
use libc::{iovec, msghdr, pthread_mutex_t, sigset_t, sockaddr_un};

use crate::descriptors;
use crate::kernel::{self, call};

/// Descriptors of programs are small; this one lies above them where the limit allows it.
const ABOVE: c_int = 900;

/// A lock that survives a fork.
pub struct ForkLock(UnsafeCell<pthread_mutex_t>);

// SAFETY: the mutex is made for several threads.
unsafe impl Sync for ForkLock {}

impl ForkLock {
    pub const fn new() -> ForkLock {
        ForkLock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    pub fn lock(&self) {
        // SAFETY: it is initialised.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    pub fn unlock(&self) {
        // SAFETY: this thread has it locked.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// One call at a time.
static CALLS: ForkLock = ForkLock::new();
/// Reads and writes at a descriptor's own offset, one at a time.
pub static OFFSETS: ForkLock = ForkLock::new();
static SOCKET: AtomicI32 = AtomicI32::new(-1);

struct Address(UnsafeCell<MaybeUninit<sockaddr_un>>);
// SAFETY: it is written once, before other threads exist.
unsafe impl Sync for Address {}
static ADDRESS: Address = Address(UnsafeCell::new(MaybeUninit::zeroed()));

/// Notes where the server listens. False: the path is too long.
pub fn set_address(path: &[u8]) -> bool {
    // SAFETY: no other thread exists yet; a zeroed address is one.
    let address = unsafe { (*ADDRESS.0.get()).assume_init_mut() };
    address.sun_family = libc::AF_UNIX as u16;
    if path.len() >= address.sun_path.len() {
        return false;
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as _;
    }
    // SAFETY: the handlers are functions without arguments.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    true
}

/// A call without flags and offset.
pub fn request(call: FileCall, file: u64) -> CallHeader {
    CallHeader { call, flags: 0, file, offset: 0, length: 0 }
}

/// Whether this descriptor is the connection, which programs must not close.
pub fn is_own(fd: c_int) -> bool {
    fd >= 0 && fd == SOCKET.load(Ordering::Relaxed)
}

/// The descriptor of the connection.
pub fn own() -> Option<c_int> {
    let socket = SOCKET.load(Ordering::Relaxed);
    (socket >= 0).then_some(socket)
}

/// Moves the connection away from this descriptor, which the program is about to use.
pub fn give_way(fd: c_int) {
    if is_own(fd) {
        let moved = kernel::fcntl(fd, libc::F_DUPFD_CLOEXEC, ABOVE as usize);
        SOCKET.store(moved, Ordering::Relaxed);
    }
}

extern "C" fn before_fork() {
    OFFSETS.lock();
    CALLS.lock();
}

extern "C" fn after_fork() {
    CALLS.unlock();
    OFFSETS.unlock();
}

extern "C" fn in_child() {
    // The parent goes on with its connection.
    let inherited = SOCKET.swap(-1, Ordering::Relaxed);
    if inherited >= 0 {
        kernel::close(inherited);
    }
    after_fork();
    hold_all();
}

/// Tells the server what this process has open: it was inherited.
pub fn hold_all() {
    for (_, managed) in descriptors::all(0) {
        let _ = ask(request(FileCall::Hold, managed.file()), &[], &mut []);
    }
}

/// Asks the server. The answer's data is written to `to`. Returns the status and the length of the data.
///
/// # Errors
/// The error's number; EIO when the server is gone.
pub fn ask(header: CallHeader, data: &[iovec], to: &mut [u8]) -> Result<(i64, usize), c_int> {
    exchange(header, data, to, None)
}

/// As [`ask`], for a call whose answer has a descriptor, which is closed by `exec` if it `closes`.
pub fn ask_descriptor(header: CallHeader, path: &[u8], closes: bool) -> Result<(i64, c_int), c_int> {
    let mut passed = (-1, closes);
    let data = [iovec { iov_base: path.as_ptr() as *mut c_void, iov_len: path.len() }];
    let (status, _) = exchange(header, &data, &mut [], Some(&mut passed))?;
    if passed.0 < 0 { Err(libc::EMFILE) } else { Ok((status, passed.0)) }
}

fn exchange(
    mut header: CallHeader,
    data: &[iovec],
    to: &mut [u8],
    passed: Option<&mut (c_int, bool)>,
) -> Result<(i64, usize), c_int> {
    header.length = data.iter().map(|part| part.iov_len).sum::<usize>() as u32;
    let saved = kernel::errno();
    let signals = block_signals();
    CALLS.lock();
    let answer = connected().and_then(|socket| {
        let done = send(socket, &header, data).and_then(|()| receive(socket, to, passed));
        if done.is_err() {
            kernel::close(socket);
            SOCKET.store(-1, Ordering::Relaxed);
        }
        done
    });
    CALLS.unlock();
    restore_signals(&signals);
    kernel::set_errno(saved);
    let (status, length) = answer.map_err(|()| libc::EIO)?;
    if status < 0 { Err(-status as c_int) } else { Ok((status, length)) }
}

fn block_signals() -> sigset_t {
    // SAFETY: both sets are on the stack.
    unsafe {
        let (mut all, mut old) = (zeroed::<sigset_t>(), zeroed::<sigset_t>());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    }
}

fn restore_signals(signals: &sigset_t) {
    // SAFETY: the set is a signal set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, signals, ptr::null_mut()) };
}

fn connected() -> Result<c_int, ()> {
    let socket = SOCKET.load(Ordering::Relaxed);
    if socket >= 0 {
        return Ok(socket);
    }
    let made = call!(SYS_socket, libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) as c_int;
    let connected = call!(SYS_connect, made, ADDRESS.0.get(), size_of::<sockaddr_un>());
    if made < 0 || connected < 0 {
        kernel::say(&[b"the server of the volume is gone: files on it cannot be used"]);
        return Err(());
    }
    let moved = kernel::fcntl(made, libc::F_DUPFD_CLOEXEC, ABOVE as usize);
    let socket = if moved >= 0 { moved } else { made };
    if moved >= 0 {
        kernel::close(made);
    }
    SOCKET.store(socket, Ordering::Relaxed);
    Ok(socket)
}

fn send(socket: c_int, header: &CallHeader, data: &[iovec]) -> Result<(), ()> {
    let bytes = header.encode();
    let first = iovec { iov_base: bytes.as_ptr() as *mut c_void, iov_len: bytes.len() };
    // All that a call needs: gathered writes of more parts are split.
    let mut parts = [first; PARTS_MAX + 1];
    parts[1..=data.len()].copy_from_slice(data);
    let mut parts = &mut parts[..=data.len()];
    while !parts.is_empty() {
        // SAFETY: a zeroed header is one.
        let mut message: msghdr = unsafe { zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
        let sent = call!(SYS_sendmsg, socket, &message as *const msghdr, libc::MSG_NOSIGNAL);
        let Ok(mut sent) = usize::try_from(sent) else {
            if kernel::errno() == libc::EINTR {
                continue;
            }
            return Err(());
        };
        while let Some(part) = parts.first_mut() {
            let count = sent.min(part.iov_len);
            part.iov_base = part.iov_base.wrapping_byte_add(count);
            part.iov_len -= count;
            sent -= count;
            if part.iov_len > 0 {
                break;
            }
            parts = &mut parts[1..];
        }
    }
    Ok(())
}

/// The most parts of a call's data.
pub const PARTS_MAX: usize = 64;

fn receive(socket: c_int, to: &mut [u8], passed: Option<&mut (c_int, bool)>) -> Result<(i64, usize), ()> {
    let mut header = [0; AnswerHeader::BYTES];
    match passed {
        Some(passed) => receive_descriptor(socket, &mut header, passed)?,
        None => receive_all(socket, &mut header)?,
    }
    let answer = AnswerHeader::decode(&header);
    let length = answer.length as usize;
    let to = to.get_mut(..length).ok_or(())?;
    receive_all(socket, to)?;
    Ok((answer.status, length))
}

fn receive_all(socket: c_int, mut to: &mut [u8]) -> Result<(), ()> {
    while !to.is_empty() {
        match kernel::read(socket, to.as_mut_ptr().cast(), to.len()) {
            1.. if to.is_empty() => {}
            count @ 1.. => to = &mut to[count as usize..],
            -1 if kernel::errno() == libc::EINTR => {}
            _ => return Err(()),
        }
    }
    Ok(())
}

/// Receives an answer's header, and the descriptor that comes with it.
fn receive_descriptor(socket: c_int, to: &mut [u8], passed: &mut (c_int, bool)) -> Result<(), ()> {
    #[repr(align(8))]
    struct Space([u8; 64]);
    let mut space = Space([0; 64]);
    let mut part = iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // SAFETY: a zeroed header is one.
    let mut message: msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
    (message.msg_control, message.msg_controllen) = (space.0.as_mut_ptr().cast(), space.0.len() as _);
    let flags = if passed.1 { libc::MSG_CMSG_CLOEXEC } else { 0 } | libc::MSG_WAITALL;
    let length = call!(SYS_recvmsg, socket, &mut message as *mut msghdr, flags);
    if length != to.len() as i64 {
        return Err(());
    }
    // SAFETY: the kernel wrote the control messages that the header names.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(&message);
        if !control.is_null()
            && (*control).cmsg_level == libc::SOL_SOCKET
            && (*control).cmsg_type == libc::SCM_RIGHTS
        {
            passed.0 = ptr::read_unaligned(libc::CMSG_DATA(control).cast());
        }
    }
    Ok(())
}
