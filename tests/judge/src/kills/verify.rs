//! Compares what a volume has after a kill with what the writers recorded.
//!
//! **Files and direct writes of a disk** are recovered in order. So a writer's files have to be those behind some prefix of its
//! operations. The prefix holds at least
//! 1. each operation that was durable by its own promise, or that returned before a sync began that succeeded, of any writer;
//! 2. each operation that returned before another one began that is there, of any writer;
//! 3. in a directory, each operation that returned so long before the kill that it is durable without a sync.
//!
//! The operation behind the prefix may be there in part: in whole pages, of a write to a file what it overwrites from its beginning. The
//! kernel does a copy of a range (`copy_file_range`) in several writes: any bytes of it may be there from its beginning.
//!
//! **Writes of a disk through the page cache** have no order until they are synced. Each sector has to be as the last durable operation
//! left it, or as a later one did.
//!
//! Pure: no IO.

use std::collections::BTreeMap;

use super::journal::{Journal, Recorded};
use super::model::{Files, Parts, apply, written_file};
use super::operation::{Ground, Operation};

/// What a volume recovers as one.
const PAGE: usize = 4096;

/// What the page cache is compared by: what a disk writes as one.
const SECTOR: usize = 512;

/// What a writer had and did, and what was found.
pub struct Evidence<'a> {
    pub writer: usize,
    /// The number of the session, which is in the bytes.
    pub session: u64,
    pub before: &'a Files,
    pub journal: &'a Journal,
    pub found: &'a Files,
    /// Writes through the page cache of a disk have no order.
    pub ground: Ground,
    /// What returned before this time, in milliseconds since 1970, is durable without a sync.
    pub aged_ms: u64,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// This number of operations that had been acknowledged as durable are not there.
    Lost { operations: usize, what: String },
    /// An operation is there, and one before it is not; or the bytes are of no state that there ever was.
    OutOfOrder(String),
}

/// What was compared.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub breaches: Vec<Breach>,
    /// Writers of which new bytes were found within the old size of a write that extends a file.
    pub torn_extensions: u64,
}

/// The prefixes of a writer's operations that fit what was found.
struct Fitting {
    /// The least count of operations that are there, in part at least, and the largest of those that are there as a whole.
    least: usize,
    most: usize,
    torn_extension: bool,
}

/// Compares all writers of a session.
pub fn verify(evidence: &[Evidence<'_>]) -> Verdict {
    let mut verdict = Verdict::default();
    let syncs = evidence.iter().flat_map(|writer| &writer.journal.operations);
    let syncs = syncs.filter(|operation| operation.succeeded() && operation.operation.promise().is_some());
    let last_sync = syncs.map(|operation| operation.begin).max().unwrap_or(0);
    let mut fittings = Vec::new();
    for writer in evidence {
        if writer.ground == (Ground::Disk { direct: false }) {
            verdict.breaches.extend(verify_unordered(writer).err());
            continue;
        }
        let operations = &writer.journal.operations;
        let durable = durable_count(operations, last_sync).max(aged_count(operations, writer.aged_ms));
        match fitting(writer, durable) {
            Ok(fitting) => {
                verdict.torn_extensions += u64::from(fitting.torn_extension);
                fittings.push((writer, fitting));
            }
            Err(breach) => verdict.breaches.push(breach),
        }
    }
    // What a writer has at least, all others have to have up to where it began.
    let seen = |(writer, fitting): &(&Evidence<'_>, Fitting)| {
        let last = fitting.least.checked_sub(1)?;
        Some(writer.journal.operations[last].begin)
    };
    let last_seen = fittings.iter().filter_map(seen).max().unwrap_or(0);
    for (writer, fitting) in &fittings {
        let needed = returned_before(&writer.journal.operations, last_seen);
        if fitting.most < needed {
            verdict.breaches.push(Breach::OutOfOrder(format!(
                "writer {}: only {} operations are there, but {needed} had returned before another writer began one that is there",
                writer.writer, fitting.most
            )));
        }
    }
    verdict
}

/// How many operations returned before this stamp.
fn returned_before(operations: &[Recorded], stamp: u64) -> usize {
    operations.iter().take_while(|operation| operation.end.is_some_and(|end| end < stamp)).count()
}

/// How many operations have to be there: up to the last one that promises it, and all that returned before another writer's sync.
fn durable_count(operations: &[Recorded], last_sync: u64) -> usize {
    let own = operations
        .iter()
        .rposition(|operation| operation.succeeded() && operation.operation.promise().is_some());
    own.map_or(0, |index| index + 1).max(returned_before(operations, last_sync))
}

/// How many operations returned before this time.
pub fn aged_count(operations: &[Recorded], aged_ms: u64) -> usize {
    operations.iter().take_while(|operation| operation.end_ms.is_some_and(|end| end < aged_ms)).count()
}

/// The prefixes that fit, of at least `durable` operations.
fn fitting(evidence: &Evidence<'_>, durable: usize) -> Result<Fitting, Breach> {
    let operations = &evidence.journal.operations;
    if let Some(fitting) = fitting_from(evidence, durable) {
        return Ok(fitting);
    }
    let what = format!(
        "writer {} in session {}: {durable} of {} operations have to be there; {}; the last ones: {}",
        evidence.writer,
        evidence.session,
        operations.len(),
        difference(evidence, durable),
        last_operations(operations)
    );
    Err(match fitting_from(evidence, 0) {
        Some(Fitting { most, .. }) => Breach::Lost {
            operations: durable - most,
            what: format!("{what}; the state is that behind {most}"),
        },
        None => Breach::OutOfOrder(format!("{what}; the state is of no prefix")),
    })
}

/// How many operations a breach shows.
const SHOWN: usize = 16;

/// The last operations, each with its number and how it ended.
fn last_operations(operations: &[Recorded]) -> String {
    let shown = operations.iter().enumerate().skip(operations.len().saturating_sub(SHOWN));
    let words = shown.map(|(number, recorded)| {
        let ended = match (recorded.succeeded(), recorded.end) {
            (true, _) => "done",
            (false, Some(_)) => "failed",
            (false, None) => "under way",
        };
        format!("{number} {:?} {ended}", recorded.operation)
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The prefixes of at least this number of operations that fit.
fn fitting_from(evidence: &Evidence<'_>, durable: usize) -> Option<Fitting> {
    let operations = &evidence.journal.operations;
    let mut files = evidence.before.clone();
    // Of each that fits: how many operations are there, and how many are there at least in part.
    let (mut fits, mut torn_extension): (Vec<(usize, usize)>, bool) = (Vec::new(), false);
    if durable == 0 && &files == evidence.found {
        fits.push((0, 0));
    }
    for (index, recorded) in operations.iter().enumerate() {
        let apply = |files: &mut Files| {
            apply(files, &recorded.operation, evidence.session, evidence.writer, index as u64)
        };
        if index + 1 < durable {
            if recorded.succeeded() {
                apply(&mut files);
            }
            continue;
        }
        let mut after = files.clone();
        apply(&mut after);
        // An operation that failed leaves what it leaves.
        let count = if recorded.succeeded() { index } else { index + 1 };
        if count >= durable
            && &after != evidence.found
            && &files != evidence.found
            && let Some(part) = is_part(&files, &after, evidence, &recorded.operation)
        {
            fits.push((count, index + 1));
            torn_extension |= part == Part::TornExtension;
        }
        if recorded.succeeded() || index + 1 == operations.len() && &after == evidence.found {
            files = after;
        }
        if &files == evidence.found {
            fits.push((index + 1, index + 1));
            torn_extension = false;
        }
    }
    let least = fits.iter().map(|&(_, seen)| seen).min()?;
    let most = fits.iter().map(|&(count, _)| count).max()?;
    Some(Fitting { least, most, torn_extension })
}

/// How much of an operation is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// New bytes within the old size of a write that extends the file.
    TornExtension,
}

/// Whether the files may be those while the operation was done in part.
fn is_part(before: &Files, after: &Files, evidence: &Evidence<'_>, operation: &Operation) -> Option<Part> {
    let (file, parts) = written_file(operation)?;
    let found = evidence.found;
    // The kernel divides a write to a disk into requests that have no order.
    let parts = if evidence.ground == Ground::Files { parts } else { Parts::Pages };
    let same_others = before.len() == found.len()
        && before.iter().all(|(&name, bytes)| name == file || found.get(&name) == Some(bytes));
    let (old, new, found) = (before.get(&file)?, after.get(&file)?, found.get(&file)?);
    if !same_others || !is_between(old, new, found, parts) {
        return None;
    }
    let is_torn = found.len() == old.len() && new.len() > old.len() && found != old;
    Some(if is_torn { Part::TornExtension } else { Part::Whole })
}

/// Whether `found` has these parts of `new`, and `old` apart from that.
fn is_between(old: &[u8], new: &[u8], found: &[u8], parts: Parts) -> bool {
    let grown = (old.len() + 1..new.len()).contains(&found.len())
        && (parts == Parts::BytesInOrder || found.len().is_multiple_of(PAGE));
    if found.len() != old.len() && found.len() != new.len() && !grown {
        return false;
    }
    let mut old_seen = false;
    for begin in (0..found.len()).step_by(PAGE) {
        let page = &found[begin..found.len().min(begin + PAGE)];
        let (is_old, is_new) = (has(old, begin, page), has(new, begin, page));
        let is_cut = !is_old && !is_new && parts == Parts::BytesInOrder && is_joined(old, new, begin, page);
        let is_in_order = parts == Parts::Pages || !old_seen || is_old;
        if !(is_old || is_new || is_cut) || !is_in_order {
            return false;
        }
        // What fills a hole is there as a whole or not at all, apart from what is overwritten; a page of zeroes may be a hole.
        old_seen |= !is_new && page.iter().any(|&byte| byte != 0);
    }
    true
}

/// Whether `page`, at `begin`, has the first bytes of `new` and behind them those of `old`.
fn is_joined(old: &[u8], new: &[u8], begin: usize, page: &[u8]) -> bool {
    let byte = |bytes: &[u8], at: usize| bytes.get(begin + at).copied().unwrap_or(0);
    let cut = page.iter().enumerate().position(|(at, &found)| found != byte(new, at)).unwrap_or(page.len());
    has(old, begin + cut, &page[cut..])
}

/// Whether the bytes have `part` at `begin`; behind their end they are zeroes.
fn has(bytes: &[u8], begin: usize, part: &[u8]) -> bool {
    let there = &bytes[begin.min(bytes.len())..bytes.len().min(begin + part.len())];
    part[..there.len()] == *there && part[there.len()..].iter().all(|&byte| byte == 0)
}

/// The first difference from the state that has to be there at least.
fn difference(evidence: &Evidence<'_>, durable: usize) -> String {
    let mut files = evidence.before.clone();
    for (index, recorded) in evidence.journal.operations.iter().enumerate().take(durable) {
        if recorded.succeeded() {
            apply(&mut files, &recorded.operation, evidence.session, evidence.writer, index as u64);
        }
    }
    let names: Vec<char> = evidence.found.keys().copied().collect();
    let expected_names: Vec<char> = files.keys().copied().collect();
    if names != expected_names {
        return format!("there are the files {names:?}, not {expected_names:?}");
    }
    for (name, expected) in &files {
        let found = &evidence.found[name];
        if found == expected {
            continue;
        }
        let at =
            found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
        let at = at / 8 * 8;
        let word = |bytes: &[u8]| format!("{:02x?}", &bytes[at.min(bytes.len())..bytes.len().min(at + 8)]);
        return format!(
            "file {name}: {} bytes, not {}; at {at} there is {}, not {}",
            found.len(),
            expected.len(),
            word(found),
            word(expected)
        );
    }
    "the files are those that have to be there".to_owned()
}

/// Each sector as the last durable operation left it, or as a later one did.
fn verify_unordered(evidence: &Evidence<'_>) -> Result<(), Breach> {
    let operations = &evidence.journal.operations;
    let full_sync =
        operations.iter().rposition(|recorded| recorded.succeeded() && recorded.operation.syncs_all());
    let (Some(before), Some(found)) = (evidence.before.get(&'a'), evidence.found.get(&'a')) else {
        return Err(Breach::OutOfOrder(format!(
            "writer {}: its part of the disk is missing",
            evidence.writer
        )));
    };
    if before.len() != found.len() {
        return Err(Breach::OutOfOrder(format!(
            "writer {}: its part has {} bytes, not {}",
            evidence.writer,
            found.len(),
            before.len()
        )));
    }
    let mut files = evidence.before.clone();
    let mut possible: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    for (index, recorded) in operations.iter().enumerate() {
        let after = {
            apply(&mut files, &recorded.operation, evidence.session, evidence.writer, index as u64);
            &files
        };
        let Some(range) = sectors(&recorded.operation) else { continue };
        let is_durable = full_sync.is_some_and(|sync| index < sync)
            || recorded.succeeded() && recorded.operation.promise().is_some();
        for sector in range {
            let image = after[&'a'][sector * SECTOR..][..SECTOR].to_vec();
            let images =
                possible.entry(sector).or_insert_with(|| vec![before[sector * SECTOR..][..SECTOR].to_vec()]);
            if is_durable {
                images.clear();
            }
            images.push(image);
        }
    }
    let wrong = |sector: &usize| {
        let now = &found[sector * SECTOR..][..SECTOR];
        match possible.get(sector) {
            Some(images) => !images.iter().any(|image| image == now),
            None => now != &before[sector * SECTOR..][..SECTOR],
        }
    };
    let wrong: Vec<usize> = (0..found.len() / SECTOR).filter(wrong).collect();
    let Some(&first) = wrong.first() else { return Ok(()) };
    let what = format!(
        "writer {} in session {}: {} sectors of its part are not as the last durable write left them or a later one, the first at {}: {:02x?}",
        evidence.writer,
        evidence.session,
        wrong.len(),
        first * SECTOR,
        &found[first * SECTOR..][..8]
    );
    Err(Breach::Lost { operations: 1, what })
}

/// The sectors that an operation on a disk changes.
fn sectors(operation: &Operation) -> Option<std::ops::Range<usize>> {
    use Operation::*;
    match *operation {
        Write { offset, length, .. } | Map { offset, length, .. } | Punch { offset, length, .. } => {
            Some(offset as usize / SECTOR..((offset + length) as usize).div_ceil(SECTOR))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
