//! What the comparison finds, and what it does not.

use super::*;
use crate::kills::operation::{How, content};

const SESSION: u64 = 5;

fn write(offset: u64, length: u64) -> Operation {
    Operation::Write { file: 'a', offset, length, how: How::Plain }
}

/// A journal of operations that all succeeded, with stamps that begin there.
fn journal(operations: &[Operation], stamp: u64) -> Journal {
    let recorded = |(index, operation): (usize, &Operation)| {
        let begin = stamp + 2 * index as u64;
        let (end, end_ms) = (Some(begin + 1), Some(1000 * begin));
        Recorded { operation: operation.clone(), begin, end, end_ms, error: String::new() }
    };
    Journal { operations: operations.iter().enumerate().map(recorded).collect(), beneath: Vec::new() }
}

/// The files behind this number of operations.
fn state(before: &Files, operations: &[Operation], count: usize) -> Files {
    let mut files = before.clone();
    for (index, operation) in operations.iter().take(count).enumerate() {
        apply(&mut files, operation, SESSION, 0, index as u64);
    }
    files
}

fn two_pages() -> Files {
    Files::from([('a', vec![7; 8192])])
}

fn judge(before: &Files, journal: &Journal, found: &Files, ground: Ground) -> Verdict {
    verify(&[Evidence { writer: 0, session: SESSION, before, journal, found, ground, aged_ms: 0 }])
}

#[test]
fn each_prefix_since_the_last_sync_is_right_and_an_older_one_is_lost() {
    let operations =
        [write(0, 100), write(50, 100), Operation::Fsync { file: 'a' }, write(60, 10), write(0, 9000)];
    let (before, journal) = (two_pages(), journal(&operations, 1));
    for count in 2..=operations.len() {
        let found = state(&before, &operations, count);
        let verdict = judge(&before, &journal, &found, Ground::Files);
        assert!(verdict.breaches.is_empty(), "{count}: {:?}", verdict.breaches);
    }
    for (count, lost) in [(0, 3), (1, 2)] {
        let found = state(&before, &operations, count);
        let verdict = judge(&before, &journal, &found, Ground::Files);
        assert!(
            matches!(&verdict.breaches[..], [Breach::Lost { operations, .. }] if *operations == lost),
            "{count}: {:?}",
            verdict.breaches
        );
    }
}

#[test]
fn a_write_may_be_there_in_part_from_its_beginning_but_not_from_its_end() {
    let before = Files::from([('a', vec![7; 3 * PAGE])]);
    let operations = [write(0, 3 * PAGE as u64)];
    let journal = journal(&operations, 1);
    let new = content(SESSION, 0, 0, 3 * PAGE as u64);
    let mut found = before.clone();
    found.get_mut(&'a').unwrap()[..PAGE].copy_from_slice(&new[..PAGE]);
    assert!(judge(&before, &journal, &found, Ground::Files).breaches.is_empty());
    let mut found = before.clone();
    found.get_mut(&'a').unwrap()[PAGE..2 * PAGE].copy_from_slice(&new[PAGE..2 * PAGE]);
    assert!(matches!(judge(&before, &journal, &found, Ground::Files).breaches[..], [Breach::OutOfOrder(_)]));
    // Of a disk, the kernel may send it in requests that have no order.
    assert!(judge(&before, &journal, &found, Ground::Disk { direct: true }).breaches.is_empty());
}

#[test]
fn a_copy_may_be_there_up_to_any_byte_and_a_write_may_not() {
    let before = Files::from([('a', vec![7; 3 * PAGE]), ('b', content(SESSION, 9, 0, 3 * PAGE as u64))]);
    let length = 3 * PAGE as u64;
    let copy = [Operation::Copy { from: 'b', to: 'a', offset: 0, at: 0, length }];
    let cut_at = |cut: usize| {
        let mut found = before.clone();
        found.get_mut(&'a').unwrap()[..cut].copy_from_slice(&before[&'b'][..cut]);
        found
    };
    for cut in [1, PAGE - 1, PAGE, PAGE + 5, 3 * PAGE - 1] {
        let verdict = judge(&before, &journal(&copy, 1), &cut_at(cut), Ground::Files);
        assert!(verdict.breaches.is_empty(), "{cut}: {:?}", verdict.breaches);
    }
    let mut gap = cut_at(PAGE + 5);
    gap.get_mut(&'a').unwrap()[2 * PAGE..].copy_from_slice(&before[&'b'][2 * PAGE..]);
    let verdict = judge(&before, &journal(&copy, 1), &gap, Ground::Files);
    assert!(matches!(verdict.breaches[..], [Breach::OutOfOrder(_)]), "{:?}", verdict.breaches);

    let write = journal(&[write(0, length)], 1);
    let mut found = before.clone();
    found.get_mut(&'a').unwrap()[..PAGE + 5].copy_from_slice(&content(SESSION, 0, 0, PAGE as u64 + 5));
    let verdict = judge(&before, &write, &found, Ground::Files);
    assert!(matches!(verdict.breaches[..], [Breach::OutOfOrder(_)]), "{:?}", verdict.breaches);
}

#[test]
fn what_fills_a_hole_may_be_missing_where_what_is_overwritten_is_there() {
    let mut old = vec![7; 3 * PAGE];
    old[PAGE..2 * PAGE].fill(0);
    let before = Files::from([('a', old)]);
    let journal = journal(&[write(0, 3 * PAGE as u64)], 1);
    let mut found = before.clone();
    let new = content(SESSION, 0, 0, 3 * PAGE as u64);
    for page in [0, 2] {
        let range = page * PAGE..(page + 1) * PAGE;
        found.get_mut(&'a').unwrap()[range.clone()].copy_from_slice(&new[range]);
    }
    assert!(judge(&before, &journal, &found, Ground::Files).breaches.is_empty());
}

#[test]
fn bytes_of_a_tail_without_the_new_size_are_counted() {
    let before = Files::from([('a', vec![7; 100])]);
    let operations = [write(50, 200)];
    let mut found = before.clone();
    found.get_mut(&'a').unwrap()[50..].copy_from_slice(&content(SESSION, 0, 0, 50));
    let verdict = judge(&before, &journal(&operations, 1), &found, Ground::Files);
    assert!(verdict.breaches.is_empty() && verdict.torn_extensions == 1, "{verdict:?}");
}

#[test]
fn foreign_bytes_and_a_newer_write_without_an_older_one_are_found() {
    let operations = [write(0, 10), write(4096, 10)];
    let (before, journal) = (two_pages(), journal(&operations, 1));
    let mut newer = before.clone();
    apply(&mut newer, &operations[1], SESSION, 0, 1);
    let mut foreign = before.clone();
    apply(&mut foreign, &operations[0], SESSION, 1, 0);
    for found in [newer, foreign] {
        let verdict = judge(&before, &journal, &found, Ground::Files);
        assert!(matches!(verdict.breaches[..], [Breach::OutOfOrder(_)]), "{:?}", verdict.breaches);
    }
}

#[test]
fn an_operation_of_one_writer_is_not_there_without_earlier_ones_of_another() {
    let before = two_pages();
    let operations = [write(0, 10)];
    let (first, second) = (journal(&operations, 1), journal(&operations, 11));
    let mut written = before.clone();
    apply(&mut written, &operations[0], SESSION, 1, 0);
    let evidence = |writer, journal, found| Evidence {
        writer,
        session: SESSION,
        before: &before,
        journal,
        found,
        ground: Ground::Files,
        aged_ms: 0,
    };
    let verdict = verify(&[evidence(0, &first, &before), evidence(1, &second, &written)]);
    assert!(matches!(verdict.breaches[..], [Breach::OutOfOrder(_)]), "{:?}", verdict.breaches);
    // The other way round nothing was promised.
    let early = journal(&operations, 11);
    let mut written = before.clone();
    apply(&mut written, &operations[0], SESSION, 1, 0);
    let verdict = verify(&[evidence(0, &early, &before), evidence(1, &first, &written)]);
    assert!(verdict.breaches.is_empty(), "{:?}", verdict.breaches);
}

#[test]
fn sectors_in_the_page_cache_are_old_or_new_until_they_are_synced() {
    let ground = Ground::Disk { direct: false };
    let synced = Operation::Write { file: 'a', offset: 0, length: 512, how: How::Dsync };
    let operations = [synced, write(4096, 1024)];
    let (before, journal) = (two_pages(), journal(&operations, 1));
    let all = state(&before, &operations, 2);
    let mut half = all.clone();
    half.get_mut(&'a').unwrap()[4096..4096 + 512].fill(7);
    for found in [&all, &half, &state(&before, &operations, 1)] {
        assert!(judge(&before, &journal, found, ground).breaches.is_empty());
    }
    let verdict = judge(&before, &journal, &before, ground);
    assert!(matches!(verdict.breaches[..], [Breach::Lost { .. }]), "{:?}", verdict.breaches);
}

#[test]
fn what_returned_long_before_the_kill_is_there_without_a_sync() {
    let operations = [write(0, 100), write(50, 100), write(60, 10)];
    let (before, journal) = (two_pages(), journal(&operations, 1));
    let aged_ms = journal.operations[2].end_ms.unwrap();
    for count in 0..=operations.len() {
        let found = state(&before, &operations, count);
        let (journal, ground) = (&journal, Ground::Files);
        let evidence = Evidence {
            writer: 0,
            session: SESSION,
            before: &before,
            journal,
            found: &found,
            ground,
            aged_ms,
        };
        let verdict = verify(&[evidence]);
        match count {
            2.. => assert!(verdict.breaches.is_empty(), "{count}: {:?}", verdict.breaches),
            _ => assert!(
                matches!(&verdict.breaches[..], [Breach::Lost { operations, .. }] if *operations == 2 - count),
                "{count}: {:?}",
                verdict.breaches
            ),
        }
    }
}
