//! What the next server has, beside what the writers recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::journal::Journal;
use super::model::Files;
use super::operation::{Ground, HABITS, How, Operation};
use super::perform::read_files;
use super::verify::{self, Breach, Evidence};
use super::writer::Session;
use super::{BALLAST, ENDING, Fault, Judge};

/// How long before the kill an operation in a directory returned that has to be there without a sync. The volume promises 5 seconds
/// (docs/repair-files.md); a flush on a machine under load took up to a second more.
const AGE_MS: u64 = 10_000;

impl Judge<'_> {
    /// Compares what is there with the session before the kill.
    pub(super) fn compare(&mut self, root: &Path) {
        // Of a session that was compared nothing may have changed: it is compared as one without journals.
        let compared = self.compared.clone().map(|session| Session { number: self.session, ..session });
        let Some(session) = self.pending.take().or(compared) else { return };
        // The disk may have another name now.
        let written_at = session.root.clone();
        let session = Session { root: root.to_owned(), ..session };
        self.compare_session(&session, &written_at);
        self.compared = Some(session);
    }

    pub(super) fn compare_run(&mut self) -> Result<(), String> {
        let copy = self.test.folder.join("copy");
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy).map_err(|error| error.to_string())?;
        let from = self.served.directory.join(".");
        let program = ["cp".into(), "-a".into(), from.into(), copy.clone().into()];
        let begin = Instant::now();
        loop {
            let mut server = self.served.run(&program, "")?;
            let code = server.wait(Duration::from_secs(60))?;
            if code == Some(0) {
                break;
            }
            if begin.elapsed() > ENDING {
                self.breach_other(format!("the volume is not served again: {code:?}: {}", server.said()));
                return Err(server.said());
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.compare(&copy);
        Ok(())
    }

    fn compare_session(&mut self, session: &Session, written_at: &Path) {
        if self.test.fault == Some(Fault::PageChanged) {
            self.change_a_page(session);
        }
        let mut all: Vec<usize> = (0..HABITS.len()).collect();
        all.extend(self.before.contains_key(&BALLAST).then_some(BALLAST));
        let mut found = BTreeMap::new();
        for &writer in &all {
            match read_files(&session.place(writer), session.disk_part) {
                Ok(files) => found.insert(writer, files),
                Err(error) => {
                    return self.breach_other(format!("reading the files of writer {writer}: {error}"));
                }
            };
        }
        if let Ground::Disk { .. } = session.ground {
            // A new volume has zeroes.
            let zeroes = || Files::from([('a', vec![0; session.disk_part as usize])]);
            for &writer in &all {
                self.before.entry(writer).or_insert_with(zeroes);
            }
        }
        let mut journals = BTreeMap::new();
        for &writer in &all {
            match Journal::read(&session.journal(writer)) {
                Ok(journal) => journals.insert(writer, journal),
                Err(error) => return self.breach_other(error),
            };
        }
        self.count(&journals);
        let (none, before) = (Files::new(), std::mem::take(&mut self.before));
        let aged_ms = if session.ground == Ground::Files { self.killed_ms.saturating_sub(AGE_MS) } else { 0 };
        self.report.aged += journals
            .values()
            .map(|journal| verify::aged_count(&journal.operations, aged_ms) as u64)
            .sum::<u64>();
        let evidence = |&writer: &usize| Evidence {
            writer,
            session: session.number,
            before: before.get(&writer).unwrap_or(&none),
            journal: &journals[&writer],
            found: &found[&writer],
            ground: session.ground_of(writer),
            aged_ms,
        };
        let evidence: Vec<Evidence<'_>> = all.iter().map(evidence).collect();
        let verdict = verify::verify(&evidence);
        self.report.torn_extensions += verdict.torn_extensions;
        let breaches = !verdict.breaches.is_empty();
        for breach in verdict.breaches {
            let what = match breach {
                Breach::Lost { operations, what } => {
                    self.report.lost += operations as u64;
                    format!("lost, on {}: {what}", written_at.display())
                }
                Breach::OutOfOrder(what) => {
                    self.report.out_of_order += 1;
                    format!("out of order, on {}: {what}", written_at.display())
                }
            };
            self.breach(what);
        }
        self.before = found;
        let _ = fs::remove_file(session.killed());
        if breaches {
            let _ = self.keep_crashed(session.number);
        } else {
            all.iter().for_each(|&writer| drop(fs::remove_file(session.journal(writer))));
        }
    }

    fn count(&mut self, journals: &BTreeMap<usize, Journal>) {
        for journal in journals.values() {
            for recorded in &journal.operations {
                self.report.operations += 1;
                self.report.without_space += u64::from(recorded.error.contains("os error 28"));
                self.report.unsupported += u64::from(recorded.error.contains("os error 95"));
                if let (true, Some(promise)) = (recorded.succeeded(), recorded.operation.promise()) {
                    self.report.acknowledged += 1;
                    *self.report.acknowledged_by.entry(promise).or_default() += 1;
                }
            }
            for what in &journal.beneath {
                self.report.beneath += 1;
                self.report
                    .breaches
                    .push(format!("beneath the dead mount, or after an error of a living one: {what}"));
            }
        }
    }

    /// Changes a byte of a file of the first writer that has one.
    fn change_a_page(&self, session: &Session) {
        for writer in 0..HABITS.len() {
            let mut place = session.place(writer);
            let Ok(files) = read_files(&place, session.disk_part) else { continue };
            let Some((&file, bytes)) = files.iter().find(|(_, bytes)| bytes.len() > 4096) else { continue };
            let changed: Vec<u8> = bytes[..4096].iter().map(|byte| !byte).collect();
            let (offset, length, how) = (0, 4096, How::Plain);
            let done = place.perform(&Operation::Write { file, offset, length, how }, &changed);
            return done.expect("a file of the test is writable");
        }
    }

    fn keep_crashed(&self, session: u64) -> std::io::Result<()> {
        fs::rename(
            self.test.folder.join("crashed"),
            self.test.folder.join(format!("crashed-in-session-{session}")),
        )
    }
}
