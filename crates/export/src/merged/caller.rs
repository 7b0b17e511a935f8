//! What a thread does in the name of the program that asks for it.
//!
//! # Model
//! Linux has for each thread the user and the group that files belong to which it makes. Root gives its privileges over files up with them,
//! and keeps those that a caller of the kernel's cannot misuse: the kernel has checked the caller's permissions for the directory already.
//!
//! # Invariants
//! - What is made belongs to the caller from its first moment. Nothing is given away afterwards, so nobody can put another file in between.
//! - The thread is itself again when the value is dropped.

use fuser::Request;
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// The kernel checked these for the caller: permissions of directories, which may come from its other groups, and of devices.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD);

/// A user and a group.
#[derive(Clone, Copy)]
pub(super) struct Caller {
    pub user: u32,
    pub group: u32,
}

impl Caller {
    pub(super) fn of(request: &Request) -> Caller {
        Caller { user: request.uid(), group: request.gid() }
    }

    /// Makes this thread the caller's, for what it does with files.
    pub(super) fn begin(self) -> Result<InTheNameOf, Errno> {
        let before = capabilities(None)?;
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        let own_group = setfsgid(group);
        let acting = InTheNameOf { user: setfsuid(user), group: own_group, before };
        // Both say nothing of success, but which one was set before.
        if (setfsuid(user), setfsgid(group)) != (user, group) {
            return Err(Errno::PERM);
        }
        let now = capabilities(None)?;
        set_capabilities(None, CapabilitySets { effective: now.effective | before.effective & KEPT, ..now })?;
        Ok(acting)
    }
}

/// A thread that acts in the name of a caller until this is dropped.
pub(super) struct InTheNameOf {
    user: Uid,
    group: Gid,
    before: CapabilitySets,
}

impl Drop for InTheNameOf {
    fn drop(&mut self) {
        setfsuid(self.user);
        setfsgid(self.group);
        set_capabilities(None, self.before).expect("a thread may have the capabilities that it is permitted");
    }
}
