//! A policy of flashlab repair that is written in Python, in the simulation that `flashlab repair simulate` has.
//!
//! # Method
//! 1. Before each call the values that the policy sees are written into bytearrays of Python (`_policy.Bridge`), of which it has views.
//! 2. The policy chooses a victim once a segment, and the logs of pages once a batch of host writes and once a segment of copies.
//! 3. The simulation runs on the caller's thread, so that Ctrl-C also ends a policy that never returns. Between two calls, the GIL is
//!    released.
//! 4. What a policy raises is kept, and ends the simulation before its next batch. Until then the segment with the fewest live pages is
//!    collected, and pages go to log 0.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flashlab_base::Seed;
use flashlab_repair::{
    LogId, PageCopy, PageWrite, Policy, PolicyReport, PolicyRunSetup, RepairError, SegmentId, SegmentTable,
    SimulatedGeometry, SimulatedVolume, Slot, WorkloadKind,
};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

use crate::arguments::to_python;
use crate::errors::{FailedError, input};

/// The time of a page that the host never wrote.
const NEVER: u64 = u64::MAX;

/// What went wrong, and whether anything did.
#[derive(Default)]
struct Failure {
    error: Mutex<Option<PyErr>>,
    happened: AtomicBool,
}

impl Failure {
    fn keep(&self, error: PyErr) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.happened.store(true, Ordering::Relaxed);
    }
}

/// Simulates a policy of Python: `bridge` makes its `_policy.Bridge` from the number of segments, of pages of a batch, and of a segment.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python's caller names them")]
pub fn _simulate_policy<'py>(
    py: Python<'py>,
    bridge: &Bound<'py, PyAny>,
    workload: &str,
    fill: f64,
    segments: u32,
    pages_per_segment: u32,
    settle: u32,
    measure: u32,
    moves: bool,
    seed: u64,
) -> PyResult<Bound<'py, PyAny>> {
    // Those of the program.
    for (name, value, least, most) in [
        ("segments", segments, 64, 1 << 24),
        ("pages_per_segment", pages_per_segment, 1, 1 << 20),
        ("settle", settle, 0, 1000),
        ("measure", measure, 1, 1000),
    ] {
        if !(least..=most).contains(&value) {
            return Err(input(format!("{name} is {value}: it may be from {least} to {most}")));
        }
    }
    let workload: WorkloadKind = workload.parse().map_err(|error| input(format!("{error}")))?;
    let setup = PolicyRunSetup {
        workload,
        geometry: SimulatedGeometry::Plain { segments, pages_per_segment, fill },
        settle_volumes: settle,
        measured_volumes: measure,
        moves,
        seed: Seed(seed),
    };
    let bridge = bridge.call1((segments, SimulatedVolume::BATCH, pages_per_segment))?;
    let name: String = bridge.getattr("name")?.extract()?;
    let failure = Arc::new(Failure::default());
    let policy = PythonPolicy::new(&bridge, &setup, Arc::clone(&failure))?;
    let report = py.detach(|| PolicyReport::of(&setup, Box::new(policy), None, &failure.happened));
    if let Some(error) = failure.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    let report = report.map_err(|error| match error {
        RepairError::Options(text) => input(text),
        error => FailedError::new_err(error.to_string()),
    })?;
    to_python(py, &PolicyReport { policy: name, ..report })
}

struct PythonPolicy {
    bridge: Py<PyAny>,
    logs: u8,
    places_writes: bool,
    places_copies: bool,
    valid: Py<PyByteArray>,
    free: Py<PyByteArray>,
    age: Py<PyByteArray>,
    log: Py<PyByteArray>,
    page: Py<PyByteArray>,
    page_age: Py<PyByteArray>,
    /// The full segments, in the order in which they were filled.
    full: Vec<SegmentId>,
    /// Of each segment: its live pages, when it was filled, and its log. The table has them too, in 64 bytes for a segment; these are so few
    /// that the order of the full segments costs no misses of the CPU's cache.
    live: Vec<u32>,
    filled: Vec<u64>,
    log_of: Vec<u8>,
    /// When the host wrote each page last; empty if nobody asks.
    written: Vec<u64>,
    /// The logs of pages that were announced.
    writes: VecDeque<u8>,
    copies: VecDeque<u8>,
    /// Victims one after the other whose pages were all valid.
    useless: u32,
    failure: Arc<Failure>,
}

impl PythonPolicy {
    fn new(
        bridge: &Bound<'_, PyAny>,
        setup: &PolicyRunSetup,
        failure: Arc<Failure>,
    ) -> PyResult<PythonPolicy> {
        let memory = |name: &str| -> PyResult<Py<PyByteArray>> {
            Ok(bridge.getattr(name)?.cast_into::<PyByteArray>()?.unbind())
        };
        let places_writes = bridge.getattr("places_writes")?.extract()?;
        let places_copies = bridge.getattr("places_copies")?.extract()?;
        let sees_ages = places_writes || places_copies;
        // A geometry that is too large, or has no page, is refused before the first write.
        let pages = if sees_ages { setup.geometry.logical_pages().min(1 << 31) as usize } else { 0 };
        Ok(PythonPolicy {
            logs: bridge.getattr("logs")?.extract()?,
            places_writes,
            places_copies,
            valid: memory("valid")?,
            free: memory("free")?,
            age: memory("age")?,
            log: memory("log")?,
            page: memory("page")?,
            page_age: memory("page_age")?,
            full: Vec::new(),
            live: vec![0; setup.geometry.segments() as usize],
            filled: vec![0; setup.geometry.segments() as usize],
            log_of: vec![0; setup.geometry.segments() as usize],
            written: vec![NEVER; pages],
            writes: VecDeque::new(),
            copies: VecDeque::new(),
            useless: 0,
            bridge: bridge.clone().unbind(),
            failure,
        })
    }

    fn has_failed(&self) -> bool {
        self.failure.happened.load(Ordering::Relaxed)
    }

    /// The place of the victim among the full segments, of which there are some.
    fn chosen(&mut self, table: &SegmentTable, now: u64) -> PyResult<usize> {
        let pages = table.pages_per_segment();
        let place: usize = Python::attach(|py| {
            let views = [&self.valid, &self.free, &self.age, &self.log].map(|memory| memory.bind(py));
            // SAFETY: the GIL is held, and nothing of Python runs until the last value is written. The bytearrays are four, and have views,
            // so that they cannot be resized.
            let [valid, free, age, log] = views.map(|memory| unsafe { memory.as_bytes_mut() });
            let (valid, free) = (valid.as_chunks_mut().0.iter_mut(), free.as_chunks_mut().0.iter_mut());
            let rows = valid.zip(free).zip(age.as_chunks_mut().0).zip(log);
            for ((((valid, free), age), log), &id) in rows.zip(&self.full) {
                let segment = id.0 as usize;
                let live = self.live[segment];
                *valid = (live as i32).to_ne_bytes();
                *free = ((pages - live) as i32).to_ne_bytes();
                *age = ((now - self.filled[segment]) as i64).to_ne_bytes();
                *log = self.log_of[segment];
            }
            self.bridge.bind(py).call_method1("victim", (self.full.len(), now))?.extract()
        })?;
        let live = table.segment(self.full[place]).live_pages;
        debug_assert_eq!(live, self.live[self.full[place].0 as usize], "the counts agree");
        self.useless = if live == pages { self.useless + 1 } else { 0 };
        if self.useless > table.segment_count() {
            return Err(input(format!(
                "the policy chose {} segments one after the other whose pages are all valid: collecting them frees nothing",
                self.useless
            )));
        }
        Ok(place)
    }

    /// Asks for the logs of pages, which the host wrote this long ago.
    fn logs_of(
        &self,
        method: &str,
        pages: &[u32],
        now: u64,
        ages: impl Iterator<Item = i64>,
    ) -> PyResult<Vec<u8>> {
        Python::attach(|py| {
            fill(py, &self.page, pages.iter().map(|&page| i64::from(page).to_ne_bytes()));
            fill(py, &self.page_age, ages.map(i64::to_ne_bytes));
            let logs = self.bridge.bind(py).call_method1(method, (pages.len(), now))?;
            Ok(logs.cast_into::<PyBytes>()?.as_bytes().to_vec())
        })
    }
}

/// Writes values into memory of Python, which has space for them.
fn fill<const N: usize>(py: Python<'_>, memory: &Py<PyByteArray>, values: impl Iterator<Item = [u8; N]>) {
    let memory = memory.bind(py);
    // SAFETY: the GIL is held, and nothing of Python runs until the last byte is written. The bytearray has views, so that it cannot be
    // resized.
    let bytes = unsafe { memory.as_bytes_mut() };
    bytes.as_chunks_mut().0.iter_mut().zip(values).for_each(|(place, value)| *place = value);
}

impl Policy for PythonPolicy {
    fn name(&self) -> &'static str {
        "python"
    }

    fn log_count(&self) -> u8 {
        self.logs
    }

    fn decides_in_batches(&self) -> bool {
        true
    }

    fn announce_writes(&mut self, pages: &[u32], now: u64) {
        self.writes.clear();
        if self.has_failed() {
            return;
        }
        if let Err(error) = Python::attach(|py| py.check_signals()) {
            return self.failure.keep(error);
        }
        if !self.places_writes {
            return;
        }
        let written = &mut self.written;
        let before: Vec<u64> = pages
            .iter()
            .zip(now..)
            .map(|(&page, now)| std::mem::replace(&mut written[page as usize], now))
            .collect();
        // The pages are not written yet.
        pages.iter().zip(&before).rev().for_each(|(&page, &before)| written[page as usize] = before);
        let age = |(now, before): (u64, &u64)| if *before == NEVER { -1 } else { (now - before) as i64 };
        match self.logs_of("place_writes", pages, now, (now..).zip(&before).map(age)) {
            Ok(logs) => self.writes.extend(logs),
            Err(error) => self.failure.keep(error),
        }
    }

    fn announce_copies(&mut self, pages: &[u32], now: u64) {
        self.copies.clear();
        if self.has_failed() || !self.places_copies || pages.is_empty() {
            return;
        }
        let ages = pages.iter().map(|&page| (now - self.written[page as usize]) as i64);
        match self.logs_of("place_copies", pages, now, ages) {
            Ok(logs) => self.copies.extend(logs),
            Err(error) => self.failure.keep(error),
        }
    }

    fn place_write(&mut self, write: &PageWrite, _: &SegmentTable) -> LogId {
        if let Some(previous) = write.previous {
            self.live[previous.segment.0 as usize] -= 1;
        }
        if let Some(written) = self.written.get_mut(write.page as usize) {
            *written = write.now;
        }
        LogId(self.writes.pop_front().unwrap_or(0))
    }

    fn place_copy(&mut self, copy: &PageCopy, _: &SegmentTable) -> LogId {
        self.live[copy.from.segment.0 as usize] -= 1;
        LogId(self.copies.pop_front().unwrap_or(0))
    }

    fn victim(&mut self, table: &SegmentTable, now: u64) -> Option<SegmentId> {
        if self.full.is_empty() {
            return None;
        }
        let chosen = if self.has_failed() { None } else { Some(self.chosen(table, now)) };
        let place = match chosen {
            Some(Ok(place)) => place,
            other => {
                if let Some(Err(error)) = other {
                    self.failure.keep(error);
                }
                let live = |place: &usize| table.segment(self.full[*place]).live_pages;
                (0..self.full.len()).min_by_key(live)?
            }
        };
        Some(self.full.remove(place))
    }

    fn placed(&mut self, slot: Slot) {
        self.live[slot.segment.0 as usize] += 1;
    }

    fn sealed(&mut self, segment: SegmentId, table: &SegmentTable) {
        let index = segment.0 as usize;
        (self.filled[index], self.log_of[index]) =
            (table.segment(segment).sealed, table.segment(segment).log.0);
        self.full.push(segment);
    }

    fn bytes_per_page(&self) -> f64 {
        if self.written.is_empty() { 0.0 } else { 8.0 }
    }
}
