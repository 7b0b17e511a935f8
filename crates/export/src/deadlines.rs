//! Sends each answer at its due time.
//!
//! # Method
//! One thread sends all answers:
//! 1. It sleeps in the kernel until the lead before the earliest due time. The lead is how late this machine wakes a
//!    sleeping thread ([`calibrate_lead`]).
//! 2. It spins until the due time, and yields the CPU on every turn: the kernel often wakes the program that got the last
//!    answer on this very CPU, where it would otherwise wait until this thread sleeps. An earlier answer that arrives
//!    meanwhile becomes the next one.
//! 3. It sends the answer.
//!
//! # Invariants
//! - No answer is sent before it is due.
//! - Every answer is sent, also those that wait when the [`Deadlines`] are dropped.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use flashlab_base::Nanos;
use flashlab_host::{Clock, use_precise_timers};

use crate::locks::lock;

/// The time by which a sleeping thread must wake before a due time: how late this machine wakes it in nine of ten tries.
pub fn calibrate_lead(clock: Clock) -> Nanos {
    const TRIES: usize = 60;
    const SLEEP: Nanos = Nanos(150_000);
    use_precise_timers();
    let mut late: Vec<u64> = (0..TRIES)
        .map(|_| {
            let wake = clock.now() + SLEEP;
            clock.sleep_in_the_kernel(wake);
            clock.now().since(wake).0
        })
        .collect();
    late.sort_unstable();
    // To cover the slowest wake-ups too would need longer spinning, which takes CPU time from the programs
    // that use the disk. The 5 us are for the thread's own work. The bounds limit the effect of an unusual
    // calibration.
    Nanos((late[TRIES * 9 / 10] + 5_000).clamp(10_000, 120_000))
}

/// Blocks the calling thread until `due`: it sleeps until `lead` before that, and then spins.
pub fn wait_until(clock: Clock, lead: Nanos, due: Nanos) {
    if due.since(clock.now()) > lead {
        use_precise_timers();
        clock.sleep_in_the_kernel(Nanos(due.0 - lead.0));
    }
    while clock.now() < due {
        // Other threads spin too, and programs must run: they get the CPU first.
        std::thread::yield_now();
    }
}

/// The time that the thread spins after an answer before it sleeps. A program that waits for each answer sends its next IO
/// within some 10 us, and waking up would take longer than that IO.
const LINGER: Nanos = Nanos(50_000);

/// Sends answers of type `T` at their due times.
pub struct Deadlines<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    changed: Condvar,
    /// The earliest due time, which the thread reads while it spins.
    earliest: AtomicU64,
}

struct Queue<T> {
    waiting: BinaryHeap<Waiting<T>>,
    /// The number of answers so far.
    entered: u64,
    is_sleeping: bool,
    is_ending: bool,
}

/// An answer that waits for its due time. The greatest is sent next: the earliest due, and of these the first handed over.
struct Waiting<T> {
    due: Nanos,
    entered: u64,
    answer: T,
}

impl<T: Send + 'static> Deadlines<T> {
    /// Starts the thread, which calls `send` with each answer when it is due.
    pub fn start(clock: Clock, lead: Nanos, send: impl FnMut(T) + Send + 'static) -> Deadlines<T> {
        let queue = Queue { waiting: BinaryHeap::new(), entered: 0, is_sleeping: false, is_ending: false };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            earliest: AtomicU64::new(u64::MAX),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("deadlines".to_owned())
            .spawn(move || own.work(clock, lead, send))
            .expect("the operating system has room for one more thread");
        Deadlines { shared, thread: Some(thread) }
    }

    /// Hands over an answer to send at `due`.
    pub fn send_at(&self, due: Nanos, answer: T) {
        let mut queue = lock(&self.shared.queue);
        queue.entered += 1;
        let entered = queue.entered;
        queue.waiting.push(Waiting { due, entered, answer });
        if due.0 < self.shared.earliest.load(Memory::Relaxed) {
            self.shared.earliest.store(due.0, Memory::Release);
            if queue.is_sleeping {
                self.shared.changed.notify_one();
            }
        }
    }
}

impl<T: Send + 'static> Drop for Deadlines<T> {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_ending = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<T> Shared<T> {
    fn work(&self, clock: Clock, lead: Nanos, mut send: impl FnMut(T)) {
        use_precise_timers();
        let mut queue = lock(&self.queue);
        // Whether the thread has spun for LINGER since the last answer and may sleep.
        let mut has_lingered = true;
        loop {
            let due = queue.waiting.peek().map_or(Nanos::MAX, |next| next.due);
            self.earliest.store(due.0, Memory::Release);
            let left = due.since(clock.now());
            if left == Nanos::ZERO {
                let answer = queue.waiting.pop().expect("the one that is due").answer;
                drop(queue);
                send(answer);
                queue = lock(&self.queue);
                has_lingered = false;
            } else if due == Nanos::MAX {
                if queue.is_ending {
                    return;
                }
                if !has_lingered {
                    has_lingered = true;
                    drop(queue);
                    let until = clock.now() + LINGER;
                    while clock.now() < until && self.earliest.load(Memory::Acquire) == u64::MAX {
                        std::thread::yield_now();
                    }
                    queue = lock(&self.queue);
                    continue;
                }
                queue.is_sleeping = true;
                queue = self.changed.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
                queue.is_sleeping = false;
            } else if left > lead {
                queue.is_sleeping = true;
                let sleep = Duration::from_nanos(left.0 - lead.0);
                let woken = self.changed.wait_timeout(queue, sleep);
                queue = woken.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                queue.is_sleeping = false;
            } else {
                drop(queue);
                while clock.now().0 < self.earliest.load(Memory::Acquire) {
                    std::thread::yield_now();
                }
                queue = lock(&self.queue);
            }
        }
    }
}

impl<T> Waiting<T> {
    fn key(&self) -> (Nanos, u64) {
        (self.due, self.entered)
    }
}

impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Waiting<T>) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Waiting<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Waiting<T>) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Waiting<T> {}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn answers_are_sent_in_the_order_of_their_deadlines_and_never_early() {
        let clock = Clock::start();
        let (sent, got) = channel();
        let deadlines = Deadlines::start(clock, Nanos(50_000), move |due: Nanos| {
            sent.send((due, clock.now())).unwrap();
        });
        let begin = clock.now();
        // The first is far in the future, so that the thread sleeps when an earlier one arrives.
        for after in [30_000_000, 5_000_000, 200_000, 0, 5_000_000, 100_000] {
            let due = begin + Nanos(after);
            deadlines.send_at(due, due);
        }
        drop(deadlines);
        let sent: Vec<(Nanos, Nanos)> = got.iter().collect();
        assert_eq!(sent.len(), 6);
        assert!(sent.iter().all(|(due, at)| at >= due));
        assert!(sent[1..].iter().map(|(due, _)| due.since(begin).0).is_sorted());
    }
}
