//! Answers the connections of other programs, each in a thread of its own.
//!
//! # Invariants
//! - There are at most [`CONNECTIONS_MAX`] at a time: more could use up the file descriptors and the memory
//!   of the server. One more connection closes the oldest, so that silent clients do not block others.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::locks::lock;

/// The most connections at a time; a status monitor and a person need one each.
pub(crate) const CONNECTIONS_MAX: usize = 64;

/// A connection that can be ended from another thread.
pub(crate) trait Connection: Send + Sync + 'static {
    /// Closes it; a thread that waits for data wakes up.
    fn hang_up(&self);
}

impl Connection for UnixStream {
    fn hang_up(&self) {
        // It fails only if the connection has ended already.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Connection for TcpStream {
    fn hang_up(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// Starts a thread that accepts connections, and for each connection a thread that runs `converse`. They are called
/// `name` and end with the process.
///
/// # Errors
/// When the system starts no thread.
pub(crate) fn answer<C: Connection>(
    name: &'static str,
    mut accept: impl FnMut() -> io::Result<C> + Send + 'static,
    converse: impl Fn(&C) + Clone + Send + 'static,
) -> io::Result<()> {
    let open: Arc<Mutex<VecDeque<Arc<C>>>> = Arc::default();
    let work = move || {
        loop {
            let Ok(connection) = accept() else {
                // Without a free file descriptor none can be accepted; there may be one soon.
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            let (connection, converse, others) = (Arc::new(connection), converse.clone(), Arc::clone(&open));
            let mut open = lock(&open);
            while open.len() >= CONNECTIONS_MAX
                && let Some(oldest) = open.pop_front()
            {
                oldest.hang_up();
            }
            open.push_back(Arc::clone(&connection));
            drop(open);
            let own = Arc::clone(&connection);
            let work = move || {
                converse(&own);
                // The list of open connections may still contain it, so dropping it would not close it.
                own.hang_up();
                lock(&others).retain(|other| !Arc::ptr_eq(other, &own));
            };
            if std::thread::Builder::new().name(name.to_owned()).spawn(work).is_err() {
                connection.hang_up();
            }
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}
