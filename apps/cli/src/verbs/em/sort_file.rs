//! `flashlab em sort`: sorts the records of a file into a new file.
//!
//! # Method
//! 1. The output and the runs are files without a name where the file system can (O_TMPFILE): whatever ends the program,
//!    nothing is left behind. Elsewhere they are scratch files, which the next start finds.
//! 2. The records are sorted with direct IO.
//! 3. The output is read back: its order, and its checksum against the input's.
//! 4. Only then it gets its name, which must not exist.
//!
//! # Invariants
//! - The input is opened for reading only.
//! - No file with the output's name exists unless it was verified.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Device, TailDevice};
use flashlab_em::{
    EmError, Extent, ExtentAllocator, HostTime, Machine, RecordFormat, Region, SortMethod, SortOutcome,
    SortPlan, SortTask, Spread, TemporarySpace, Tuning, sort, verify_sorted,
};
use flashlab_host::{IoEngine, OpenOptions, ScratchFile};
use serde_json::json;

use super::machine::check_budget;
use super::options::cores;
use crate::arguments::{self, JsonOption};
use crate::exit::Usage;
use crate::interrupt::interrupt;
use crate::output;

/// How many requests a file gets at a time at most.
const DEPTH: u32 = 256;
/// Files that are smaller are sorted without direct IO: they may not have a whole block.
const SMALL: Bytes = Bytes::kib(64);
const INPUT: usize = 0;
const OUTPUT: usize = 1;
const RUNS: usize = 2;
/// The most regions of runs at the same time, and one beside them.
const REGIONS: u64 = 4;

/// A file, a new file, and the records.
#[derive(Args)]
pub struct SortFile {
    /// The file whose records are sorted; it is only read
    input: PathBuf,
    /// The sorted file, which must not exist
    output: PathBuf,
    /// The size of a record
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, allow_negative_numbers = true)]
    record: Bytes,
    /// The bytes of a record that decide its place, as 0..8: compared as bytes, so that integers must be big-endian
    #[arg(long, value_name = "FROM..TO", value_parser = key)]
    key: Range<usize>,
    /// How much memory the sort may use
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, default_value = "256MiB", allow_negative_numbers = true)]
    memory: Bytes,
    #[command(flatten)]
    json: JsonOption,
}

/// Reads `0..8`.
fn key(text: &str) -> Result<Range<usize>, String> {
    let wrong = || format!("`{text}` is no range of bytes: write FROM..TO, as 0..8 for the first eight");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let (from, to) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
    if from < to { Ok(from..to) } else { Err(wrong()) }
}

/// The files of a sort.
struct Files {
    input: File,
    length: Bytes,
    mode: u32,
    directory: PathBuf,
    name: String,
}

/// A sort that was verified.
struct Sorted {
    outcome: SortOutcome,
    plan: SortPlan,
    sorting: Nanos,
    verifying: Nanos,
    bytes: Bytes,
}

impl SortFile {
    /// Sorts the file.
    pub fn run(self) -> Result<()> {
        let format = RecordFormat::new(self.record, self.key.clone())?;
        let files = self.files()?;
        let interrupt = interrupt()?;
        for stale in flashlab_host::stale_scratch_files(&files.directory)? {
            let stale = stale.display();
            tell!("{stale} was left by a flashlab that was killed; remove it with: rm {stale}");
        }
        self.warn_of_lines(&files)?;
        let begin = Instant::now();
        let output = ScratchFile::allocate(&files.directory, files.length.max(Bytes(1)))?;
        let sorted = if files.length < SMALL {
            sort_small(&files, &format, &output)?;
            None
        } else {
            let sorted = self.sort(&files, &format, &output, &interrupt);
            Some(sorted.map_err(|error| self.explained(error))?)
        };
        output.complete(files.length, files.mode)?;
        let kept = output.keep(&files.name).map_err(|error| {
            anyhow!(
                "the sorted file cannot be named {}: {error}; nothing is left of it",
                self.output.display()
            )
        })?;
        self.print(&kept, &files, sorted.as_ref(), Nanos::from(begin.elapsed()))
    }

    /// Says so where the records look like lines that the record's size cuts.
    fn warn_of_lines(&self, files: &Files) -> Result<()> {
        let mut head = vec![0; files.length.0.min(flashlab_input::HEAD as u64) as usize];
        let read = files.input.read_exact_at(&mut head, 0);
        read.with_context(|| format!("cannot read {}", self.input.display()))?;
        if let Some(fault) = fault_in_lines(&head, self.record.0 as usize) {
            tell!(
                "{} looks like lines of text, and a record of {} {fault}: only lines of one length are records. For other lines use LC_ALL=C sort",
                self.input.display(),
                self.record
            );
        }
        Ok(())
    }

    /// An error with what is left after it.
    fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        let input = self.input.display();
        match error.downcast_ref::<EmError>() {
            Some(EmError::Interrupted) => {
                anyhow!(
                    "interrupted: no output was made, the temporary files are removed, {input} is as it was"
                )
            }
            Some(EmError::Io { .. } | EmError::Wrong(_)) => {
                anyhow!("{error}; no output was made, the temporary files are removed, {input} is as it was")
            }
            _ => error,
        }
    }

    /// Looks at the paths before anything is made.
    fn files(&self) -> Result<Files> {
        let (from, to) = (self.input.display(), self.output.display());
        let input = flashlab_input::open(&self.input)
            .map_err(|error| Usage(format!("cannot read {from}: {error}; give a file of records")))?;
        let metadata = input.metadata().with_context(|| format!("cannot look at {from}"))?;
        if let Ok(existing) = fs::symlink_metadata(&self.output) {
            let is_input = fs::metadata(&self.output)
                .is_ok_and(|output| (output.dev(), output.ino()) == (metadata.dev(), metadata.ino()));
            bail!(Usage(match is_input {
                true => format!("{to} is the input: give the output another name"),
                false if existing.is_dir() => format!("{to} is a directory: give the name of a file"),
                false => format!("{to} exists: give the output another name"),
            }));
        }
        let length = Bytes(metadata.len());
        if !length.is_multiple_of(self.record) {
            bail!(Usage(format!(
                "{from} has {} bytes, which is not a multiple of the record of {} bytes: {} bytes are left over at its end",
                length.0,
                self.record.0,
                length.0 % self.record.0
            )));
        }
        let name = self.output.file_name().and_then(|name| name.to_str());
        let Some(name) = name else { bail!(Usage(format!("{to} is no name of a file"))) };
        let parent = self.output.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new(".")).to_owned();
        if !directory.is_dir() {
            bail!(Usage(format!("{} is no directory: make it first", directory.display())));
        }
        Ok(Files { input, length, mode: metadata.mode(), directory, name: name.to_owned() })
    }

    /// Sorts and verifies.
    fn sort(
        &self,
        files: &Files,
        format: &RecordFormat,
        output: &ScratchFile,
        interrupt: &std::sync::atomic::AtomicBool,
    ) -> Result<Sorted> {
        let input = self.open_input(files)?;
        let sorted = open_scratch(output)?;
        let unit = input.geometry().block.max(sorted.geometry().block);
        check_budget(self.memory)?;
        let share = Bytes(self.memory.0 / 8);
        let mut task = SortTask {
            format: format.clone(),
            length: files.length,
            method: SortMethod::Sorting,
            threads: cores(),
            unit,
            memory: self.memory,
            tuning: Tuning { read_window: share, write_window: share, is_noisy: true },
            stripe: None,
            temporary: Bytes(u64::MAX),
        };
        // Refused before any temporary space is taken. Tuning asks for no more in flight than this plan has, so that its plan takes as
        // much space: the allocator rounds each of the runs' regions to the unit.
        let first = task.plan(None)?;
        let space = task.temporary_of(&first);
        let runs = match first.merge_passes {
            0 => None,
            _ => Some(ScratchFile::allocate(&files.directory, space.max(SMALL) + unit * REGIONS)?),
        };
        let mut devices: Vec<Box<dyn Device>> = vec![input, sorted];
        if let Some(runs) = &runs {
            devices.push(open_scratch(runs)?);
        }
        let machine = Machine::new(devices, self.memory, HostTime::Declared(Nanos::ZERO))?;
        let mut machine = machine.with_interrupt(interrupt);
        let mut free = ExtentAllocator::new(&machine);
        let input = Region::on(Extent { device: INPUT, offset: Bytes(0), size: files.length.round_up(unit) });
        if runs.is_some() {
            machine.begin_phase("tune");
            let scratch = free.allocate(files.length.min(Bytes::mib(256)), Spread::On(RUNS))?;
            task.tuning = Tuning::measure_once(&mut machine, &input, Some(&scratch))?;
            free.release(&scratch);
        }
        let spread = Spread::On(if runs.is_some() { RUNS } else { OUTPUT });
        if runs.is_some() {
            task.temporary = free.largest(spread, REGIONS);
        }
        let plan = task.plan(None)?;
        let output = free.allocate(files.length, Spread::On(OUTPUT))?;
        let mut temporary = TemporarySpace { free: &mut free, spread };
        tell!("sorting {} in {}", files.length, self.memory);
        // Probes are no part of the sort.
        let (begin, probed) = (machine.now(), machine.ledger().total().issued.bytes());
        let outcome = sort(&mut machine, &task, &plan, &input, &output, &mut temporary)?;
        let sorting = machine.now().since(begin);
        let bytes = Bytes(machine.ledger().total().issued.bytes().0 - probed.0);
        let begin = machine.now();
        verify_sorted(&mut machine, &task, &plan, &output, outcome.input)?;
        Ok(Sorted { outcome, plan, sorting, verifying: machine.now().since(begin), bytes })
    }

    /// The input as a device, with the bytes behind its last whole block.
    fn open_input(&self, files: &Files) -> Result<Box<dyn Device>> {
        let options = OpenOptions { engine: IoEngine::IoUring, depth: DEPTH, ..OpenOptions::default() };
        let read_tail = |from: u64| -> Result<Vec<u8>> {
            let mut tail = vec![0; (files.length.0 - from) as usize];
            let read = files.input.read_exact_at(&mut tail, from);
            read.with_context(|| format!("cannot read {}", self.input.display()))?;
            Ok(tail)
        };
        let device = flashlab_host::open(&self.input, &options)?;
        let end = device.geometry().capacity.0;
        if end == files.length.0 {
            return Ok(device);
        }
        if end > files.length.0 {
            bail!("{} became longer while it was opened", self.input.display());
        }
        let tail = read_tail(end)?;
        if tail.len() as u64 > device.geometry().block.0 {
            bail!("{} became shorter while it was opened", self.input.display());
        }
        Ok(Box::new(TailDevice::new(device, &tail)))
    }

    fn print(&self, kept: &Path, files: &Files, sorted: Option<&Sorted>, time: Nanos) -> Result<()> {
        let records = files.length.0 / self.record.0;
        let (runs, passes) =
            sorted.map_or((0, 0), |sorted| (sorted.outcome.runs, sorted.outcome.merge_passes));
        if self.json.json {
            return output::json(&json!({
                "version": 1,
                "output": kept.display().to_string(),
                "records": records,
                "bytes": files.length.0,
                "verified": true,
                "runs": runs,
                "merge_passes": passes,
                "block_bytes": sorted.map_or(0, |sorted| sorted.plan.block.0),
                "io_bytes": sorted.map_or(0, |sorted| sorted.bytes.0),
                "sort_ns": sorted.map_or(0, |sorted| sorted.sorting.0),
                "verify_ns": sorted.map_or(0, |sorted| sorted.verifying.0),
                "time_ns": time.0,
            }));
        }
        let mut text =
            format!("{records} records ({}) are sorted in {}, and verified\n", files.length, kept.display());
        if let Some(Sorted { plan, sorting, verifying, bytes, .. }) = sorted {
            text += &format!(
                "{runs} runs, merge passes: {passes}, blocks of {}, {bytes} read and written; {time}: sorting {sorting}, \
                 verifying {verifying}\n",
                plan.block
            );
        }
        output::text(&text)
    }
}

/// What is wrong with records of this size where these bytes are lines of text: they do not end where lines end, or they have several.
fn fault_in_lines(head: &[u8], record: usize) -> Option<&'static str> {
    let wide = utf16_as_bytes(head);
    let (head, units) = match &wide {
        // An odd record cuts a unit, and the lines with it.
        Some(narrow) => (&narrow[..], if record.is_multiple_of(2) { record / 2 } else { narrow.len() + 1 }),
        None => (head, record),
    };
    let is_text = |&byte: &u8| byte >= b' ' && byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r');
    let lines = head.iter().filter(|&&byte| byte == b'\n').count();
    // Printable records without any line end in 64 KiB are no lines.
    if lines == 0 || !head.iter().all(is_text) {
        return None;
    }
    let mut records = head.chunks_exact(units);
    if units > head.len() && wide.is_some() || records.any(|record| record.last() != Some(&b'\n')) {
        return Some("cuts them");
    }
    (lines > head.len().div_ceil(units)).then_some("has several of them")
}

/// A text in UTF-16 with a byte for each unit, if these bytes are one: they begin with a byte-order mark, or every second of them is zero
/// and the others are not. Units beyond 127 become a question mark.
fn utf16_as_bytes(head: &[u8]) -> Option<Vec<u8>> {
    let pairs = head.as_chunks::<2>().0;
    let is_zero_at =
        |at: usize| pairs.len() > 1 && pairs.iter().all(|pair| pair[at] == 0 && pair[1 - at] != 0);
    let is_little = head.starts_with(&[0xff, 0xfe]) || is_zero_at(1);
    let is_big = head.starts_with(&[0xfe, 0xff]) || is_zero_at(0);
    let unit = |pair: &[u8; 2]| if is_little { u16::from_le_bytes(*pair) } else { u16::from_be_bytes(*pair) };
    let narrow = |unit: u16| u8::try_from(unit).ok().filter(u8::is_ascii).unwrap_or(b'?');
    (is_little || is_big).then(|| pairs.iter().map(|pair| narrow(unit(pair))).collect())
}

/// Sorts a file that is smaller than a block of direct IO may be, and verifies what was written.
fn sort_small(files: &Files, format: &RecordFormat, output: &ScratchFile) -> Result<()> {
    let mut data = vec![0; files.length.0 as usize];
    files.input.read_exact_at(&mut data, 0).context("cannot read the input")?;
    let mut records: Vec<&[u8]> = data.chunks_exact(format.size()).collect();
    records.sort_by(|a, b| format.compare(a, b));
    let sorted = records.concat();
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(output.path())
        .context("cannot open the output")?;
    file.write_all_at(&sorted, 0).context("cannot write the output")?;
    let mut written = vec![0; sorted.len()];
    file.read_exact_at(&mut written, 0).context("cannot read the output")?;
    match written == sorted {
        true => Ok(()),
        false => {
            bail!(EmError::Wrong("the output does not have the records that were written to it".to_owned()))
        }
    }
}

fn open_scratch(scratch: &ScratchFile) -> Result<Box<dyn Device>> {
    let options = OpenOptions {
        engine: IoEngine::IoUring,
        depth: DEPTH,
        write: Some(scratch.consent()),
        buffered: false,
        name: Some(scratch.description()),
    };
    Ok(flashlab_host::open(scratch.path(), &options)?)
}

#[cfg(test)]
mod tests {
    use super::fault_in_lines;

    #[test]
    fn lines_of_other_lengths_are_recognised_and_records_are_not() {
        let cuts = Some("cuts them");
        let text = "seven,1\nthirteen,27\n\u{e4}pfel,3\n".repeat(40);
        assert_eq!([16, 8].map(|record| fault_in_lines(text.as_bytes(), record)), [cuts; 2]);
        let records = "0000017,abcdefg\n".repeat(40);
        let faults = [16, 10, 32].map(|record| fault_in_lines(records.as_bytes(), record));
        assert_eq!(faults, [None, cuts, Some("has several of them")]);
        let long = format!("{}\n", "x".repeat(5120)).repeat(12);
        assert_eq!([16, 5121].map(|record| fault_in_lines(long.as_bytes(), record)), [cuts, None]);
        // Numbers, and printable records without lines.
        assert_eq!(fault_in_lines(&[0, 10, 65, 66].repeat(40), 16), None);
        assert_eq!(fault_in_lines("ABCDEFGHIJKLMNOP".repeat(40).as_bytes(), 16), None);
        assert_eq!(fault_in_lines(b"", 16), None);
    }

    #[test]
    fn lines_in_utf_16_are_recognised_in_both_orders_of_bytes() {
        let wide = |text: &str, order: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(order).collect()
        };
        let (records, marked) = ("0000017\n".repeat(40), format!("\u{feff}{}", "\u{e4}pfel\n".repeat(40)));
        for order in [u16::to_le_bytes, u16::to_be_bytes] {
            let faults = [16, 15, 12].map(|record| fault_in_lines(&wide(&records, order), record));
            assert_eq!(faults, [None, Some("cuts them"), Some("cuts them")]);
            assert_eq!(fault_in_lines(&wide(&marked, order), 12), Some("cuts them"));
        }
        // Small numbers of 16 bits are no text.
        let numbers: Vec<u8> = (1..=40u16).flat_map(u16::to_le_bytes).collect();
        assert_eq!(fault_in_lines(&numbers, 8), None);
    }
}
