//! Answers that are held until they are due, and the thread that sends them.
//!
//! # Model
//! One thread owns the sending. It sleeps in the kernel until a while before the earliest deadline (the lead, calibrated
//! at start: how late this machine wakes a sleeper) and spins for the rest, with an eye on what arrives meanwhile.
//!
//! # Invariants
//! - nothing is sent before it is due;
//! - everything that was handed over is sent, also when the thread is told to end.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use flashlab_base::Nanos;
use flashlab_host::{Clock, use_precise_timers};

use crate::locks::lock;

/// How long before a deadline a sleeper has to be woken, from how late this machine woke it in some tries.
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
    // Nine of ten; more of the processor is not worth what the last would gain.
    Nanos((late[TRIES * 9 / 10] + 5_000).clamp(10_000, 120_000))
}

/// Keeps the calling thread until `due`: asleep until `lead` before it, and spinning for the rest.
pub fn wait_until(clock: Clock, lead: Nanos, due: Nanos) {
    if due.since(clock.now()) > lead {
        use_precise_timers();
        clock.sleep_in_the_kernel(Nanos(due.0 - lead.0));
    }
    while clock.now() < due {
        // Others spin as well, and programs have to run: they may have the processor first.
        std::thread::yield_now();
    }
}

/// How long after an answer the thread stays awake for the next.
const LINGER: Nanos = Nanos(50_000);

/// Holds answers of type `T` until they are due.
pub struct Deadlines<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    changed: Condvar,
    /// The earliest deadline, for the thread while it spins.
    earliest: AtomicU64,
}

struct Queue<T> {
    held: BinaryHeap<Held<T>>,
    entered: u64,
    sleeping: bool,
    ending: bool,
}

/// An answer; the greatest is the next.
struct Held<T> {
    due: Nanos,
    entered: u64,
    answer: T,
}

impl<T: Send + 'static> Deadlines<T> {
    /// Starts the thread. `send` is given each answer when it is due.
    pub fn start(clock: Clock, lead: Nanos, send: impl FnMut(T) + Send + 'static) -> Deadlines<T> {
        let queue = Queue { held: BinaryHeap::new(), entered: 0, sleeping: false, ending: false };
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

    /// Hands over an answer.
    pub fn hold(&self, due: Nanos, answer: T) {
        let mut queue = lock(&self.shared.queue);
        queue.entered += 1;
        let entered = queue.entered;
        queue.held.push(Held { due, entered, answer });
        if due.0 < self.shared.earliest.load(Memory::Relaxed) {
            self.shared.earliest.store(due.0, Memory::Release);
            if queue.sleeping {
                self.shared.changed.notify_one();
            }
        }
    }
}

impl<T: Send + 'static> Drop for Deadlines<T> {
    fn drop(&mut self) {
        lock(&self.shared.queue).ending = true;
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
        // Whether it spun in vain since the last answer.
        let mut rested = true;
        loop {
            let due = queue.held.peek().map_or(Nanos::MAX, |next| next.due);
            self.earliest.store(due.0, Memory::Release);
            let left = due.since(clock.now());
            if left == Nanos::ZERO {
                let answer = queue.held.pop().expect("the one that is due").answer;
                drop(queue);
                send(answer);
                queue = lock(&self.queue);
                rested = false;
            } else if due == Nanos::MAX {
                if queue.ending {
                    return;
                }
                if !rested {
                    // A program that waits for each answer asks again at once: waking up would cost more than its next
                    // IO may take.
                    rested = true;
                    drop(queue);
                    let until = clock.now() + LINGER;
                    while clock.now() < until && self.earliest.load(Memory::Acquire) == u64::MAX {
                        std::hint::spin_loop();
                    }
                    queue = lock(&self.queue);
                    continue;
                }
                queue.sleeping = true;
                queue = self.changed.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
                queue.sleeping = false;
            } else if left > lead {
                queue.sleeping = true;
                let sleep = Duration::from_nanos(left.0 - lead.0);
                let woken = self.changed.wait_timeout(queue, sleep);
                queue = woken.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                queue.sleeping = false;
            } else {
                drop(queue);
                while clock.now().0 < self.earliest.load(Memory::Acquire) {
                    std::hint::spin_loop();
                }
                queue = lock(&self.queue);
            }
        }
    }
}

impl<T> Held<T> {
    fn key(&self) -> (Nanos, u64) {
        (self.due, self.entered)
    }
}

impl<T> Ord for Held<T> {
    fn cmp(&self, other: &Held<T>) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Held<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Held<T>) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Held<T> {}

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
        // The first is far off, so that the thread sleeps when an earlier one comes.
        for after in [30_000_000, 5_000_000, 200_000, 0, 5_000_000, 100_000] {
            let due = begin + Nanos(after);
            deadlines.hold(due, due);
        }
        drop(deadlines);
        let sent: Vec<(Nanos, Nanos)> = got.iter().collect();
        assert_eq!(sent.len(), 6);
        assert!(sent.iter().all(|(due, at)| at >= due));
        assert!(sent[1..].iter().map(|(due, _)| due.since(begin).0).is_sorted());
    }
}
