//! Connections of outsiders, each answered by a thread of its own.
//!
//! # Invariants
//! - there are never more than [`MOST`]: they would take the files and the memory that the server needs. A client too
//!   many makes the oldest one go, so that nobody who holds connections and says nothing keeps others out.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::locks::lock;

/// So many connections are answered at a time.
pub(crate) const MOST: usize = 64;

/// A connection that can be ended from another thread.
pub(crate) trait Connection: Send + Sync + 'static {
    /// Whoever waits for it wakes up with an error, or finds its end.
    fn hang_up(&self);
}

impl Connection for UnixStream {
    fn hang_up(&self) {
        // One that has ended already needs no end.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Connection for TcpStream {
    fn hang_up(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// Starts a thread of this name that hands each connection which comes in to `converse`. It ends with the process.
///
/// # Errors
/// When there can be no thread.
pub(crate) fn answer<C: Connection>(
    name: &'static str,
    mut accept: impl FnMut() -> io::Result<C> + Send + 'static,
    converse: impl Fn(&C) + Clone + Send + 'static,
) -> io::Result<()> {
    let open: Arc<Mutex<VecDeque<Arc<C>>>> = Arc::default();
    let work = move || {
        loop {
            let Ok(connection) = accept() else {
                // No file is free for it: that may pass.
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            let (connection, converse, others) = (Arc::new(connection), converse.clone(), Arc::clone(&open));
            let mut open = lock(&open);
            while open.len() >= MOST
                && let Some(oldest) = open.pop_front()
            {
                oldest.hang_up();
            }
            open.push_back(Arc::clone(&connection));
            drop(open);
            let own = Arc::clone(&connection);
            let work = move || {
                converse(&own);
                // Others may know it still.
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
