//! Descriptors that two processes pass through a socket, each with a text.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// Longer texts are not passed.
const TEXT_MAX: usize = 128;

/// Sends a descriptor with a text.
pub fn send(socket: impl AsFd, descriptor: impl AsFd, text: &str) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let passed = [descriptor.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&passed));
    let slices = [IoSlice::new(text.as_bytes())];
    rustix::net::sendmsg(socket, &slices, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a descriptor with its text.
///
/// # Errors
/// When the other process has ended, or sent something else.
pub fn receive(socket: impl AsFd) -> io::Result<(OwnedFd, String)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; TEXT_MAX];
    let mut slices = [IoSliceMut::new(&mut text)];
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(&socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.flatten().next().ok_or(ErrorKind::UnexpectedEof)?;
    Ok((descriptor, String::from_utf8_lossy(&text[..received.bytes]).into_owned()))
}
