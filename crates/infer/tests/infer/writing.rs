//! What writing shows, on the papers' drives and on page maps.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

use flashlab_analysis::inference::{Parameter, Value};
use flashlab_base::{Bytes, Nanos, Operation, Seed};
use flashlab_device::{Completion, Device, Request, VirtualTime};
use flashlab_infer::{InferenceSettings, Known, infer, nothing_known};
use flashlab_sim::Profile;

/// A drive after it was written from its beginning to its end.
fn inferred(profile: &Profile) -> Known {
    let mut device = profile.device().unwrap();
    let size = Bytes::kib(128);
    let mut ios = (0..profile.capacity.0 / size.0).map(|i| (Operation::Write, size * i, size));
    device.conditioning().unwrap().condition(&mut ios).unwrap();
    let known = inferred_of(&mut device);
    // A person sees what the estimator saw, of each that found a value.
    for finding in known.findings.iter().filter(|finding| finding.value.is_some()) {
        let picture = finding.picture.as_ref();
        let points =
            picture.map_or(0, |picture| picture.series.iter().map(|series| series.points.len()).sum());
        assert!(points > 0, "{} of {}: {}", finding.parameter, profile.name, finding.evidence);
    }
    known
}

/// What is found with the usual budget.
fn inferred_of(device: &mut dyn Device) -> Known {
    let interrupt = AtomicBool::new(false);
    let settings = InferenceSettings {
        seed: Seed(1),
        write_budget: Some(InferenceSettings::usual_budget(device.geometry().capacity)),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(4 * 3600),
        interrupt: &interrupt,
    };
    let mut known = nothing_known(device, "test");
    infer(device, &settings, &mut known, &mut ());
    known
}

/// The value that was found, if it was.
fn value(known: &Known, parameter: Parameter) -> Option<Value> {
    known.get(parameter).and_then(|finding| finding.value.clone())
}

/// A row of Table 3 of Sun and Zhang.
struct Row {
    groups: u64,
    /// The first of them, in MiB: as it is written, or the capacity by the groups.
    span: u64,
    /// In pages of 4 KiB.
    log_block: u64,
    log_list: u64,
    zero_same_as_one: bool,
}

/// Shows what the paper found of a drive; the evidence of what writing zeros costs.
fn shows_table_3(name: &str, row: &Row) -> String {
    let drives = flashlab_sim::zoo();
    let known = inferred(drives.iter().find(|drive| drive.name == name).unwrap());
    let log_block = Bytes::kib(4) * row.log_block;
    let found = |parameter, right: Value| {
        let finding = known.get(parameter).unwrap();
        assert_eq!(finding.value, Some(right), "{parameter}: {}", finding.evidence);
        assert!(finding.confidence >= 0.9, "{parameter} {}: {}", finding.confidence, finding.evidence);
    };
    found(Parameter::TranslationFamily, "log-block".into());
    found(Parameter::EraseBlockSize, log_block.into());
    found(Parameter::MappingGranularity, log_block.into());
    found(Parameter::OpenBlocks, row.log_list.into());
    found(Parameter::SegmentGroups, row.groups.into());
    found(Parameter::SegmentGroupSpan, Bytes::mib(row.span).into());
    // Section 4.2: a page of 2 KiB, by what half a block of zeros costs.
    found(Parameter::WritePageSize, Bytes::kib(2).into());
    let zeros = known.get(Parameter::ZerosProgramShare).unwrap();
    assert_eq!(zeros.number() == Some(1.0), row.zero_same_as_one, "{}", zeros.evidence);
    found(Parameter::OnesProgramShare, 1.0.into());
    zeros.evidence.clone()
}

#[test]
fn the_unknown_drive_of_sun_and_zhang() {
    let row = Row { groups: 4, span: 240, log_block: 64, log_list: 3, zero_same_as_one: false };
    let zeros = shows_table_3("sun-zhang-unknown", &row);
    // Figures 13 to 15: half of a block of 4 KiB costs about half, as it is a page of its own.
    assert!(zeros.contains("as if each half were a page of its own"), "{zeros}");
}

#[test]
fn the_kingston_drive_of_sun_and_zhang() {
    let row = Row { groups: 2, span: 480, log_block: 128, log_list: 4, zero_same_as_one: true };
    shows_table_3("sun-zhang-kingston", &row);
}

#[test]
fn the_pny_drive_of_sun_and_zhang() {
    let row = Row { groups: 2, span: 960, log_block: 256, log_list: 4, zero_same_as_one: true };
    shows_table_3("sun-zhang-pny", &row);
}

#[test]
fn flushes_tell_what_a_write_buffer_hides() {
    // In cache mode a chunk is read alike whatever its rows.
    let profile = |size: &str| {
        let toml = format!(
            "version = 2\nname = \"test\"\nfit = \"test\"\nsource = \"test\"\ntitle = \"test\"\ncapacity = \"{size}\"\n\
             block = \"512B\"\n[flash]\npage = \"4KiB\"\npages_per_block = 64\nplanes = 2\ndies = 4\nchannels = 1\n\
             over_provisioning = 0.2\nread = \"30us\"\nprogram = \"380us\"\nerase = \"2ms\"\n\
             channel_bandwidth = \"97MB/s\"\ncache_mode = true\n[controller]\nread_command = \"19us\"\n\
             write_command = \"30us\"\nread_bandwidth = \"390MB/s\"\nwrite_bandwidth = \"250MB/s\"\ndepth = 32\n\
             write_buffer = {{ size = \"256KiB\" }}\n[translation.log_blocks]\nstripe_pages = 4\nlogs = 4\n\
             [noise]\nsigma = 0.05\n"
        );
        Profile::parse(&toml, "test").unwrap()
    };
    let known = inferred(&profile("96MiB"));
    assert_eq!(value(&known, Parameter::PlanesReadAtOnce), Some(2u64.into()));
    assert_eq!(value(&known, Parameter::ParallelUnits), Some(4u64.into()));
}

/// Logs that all blocks share, behind a buffer that is flushed when it is full.
fn logs_behind_a_buffer() -> Profile {
    let toml = "version = 2\nname = \"test\"\nfit = \"test\"\nsource = \"test\"\ntitle = \"test\"\ncapacity = \"96MiB\"\n\
                block = \"512B\"\n[flash]\npage = \"4KiB\"\npages_per_block = 64\ndies = 4\nchannels = 4\n\
                over_provisioning = 0.2\nread = \"40us\"\nprogram = \"500us\"\nerase = \"3ms\"\n\
                channel_bandwidth = \"60MB/s\"\n[controller]\nread_command = \"30us\"\nwrite_command = \"30us\"\n\
                read_bandwidth = \"150MB/s\"\nwrite_bandwidth = \"150MB/s\"\ndepth = 32\n\
                write_buffer = { size = \"512KiB\", flush = \"when-full\" }\n[translation.shared_logs]\n\
                stripe_pages = 1\nlogs = 6\n[noise]\nsigma = 0.05\n";
    Profile::parse(toml, "test").unwrap()
}

#[test]
fn a_buffer_that_can_be_flushed_hides_no_logs() {
    let known = inferred(&logs_behind_a_buffer());
    assert!(known.checkpoint.fill.flushed_nanos.is_some());
    assert_eq!(value(&known, Parameter::WriteBufferFlush), Some("when-full".into()));
    assert_eq!(value(&known, Parameter::TranslationFamily), Some("shared log-block".into()));
    assert_eq!(value(&known, Parameter::OpenBlocks), Some(6u64.into()));
    assert_eq!(value(&known, Parameter::EraseBlockSize), Some(Bytes::mib(1).into()));
}

/// A device whose buffer outlasts a loss of power: it answers flushes at once.
struct Protected<D> {
    inner: D,
    flushed: VecDeque<Completion>,
}

impl<D: Device> flashlab_device::Wrapper for Protected<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn submit(&mut self, request: Request) {
        if request.operation != Operation::Flush {
            return self.inner.submit(request);
        }
        let (now, Request { tag, buffer, .. }) = (self.inner.now(), request);
        self.flushed.push_back(Completion { tag, submitted: now, completed: now, result: Ok(()), buffer });
    }

    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.flushed.pop_front().or_else(|| self.inner.wait(until))
    }

    /// None: the answers to flushes would be missing.
    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        None
    }
}

#[test]
fn a_flush_that_empties_no_buffer_is_not_relied_on() {
    let device = logs_behind_a_buffer().device().unwrap();
    let mut device = Protected { inner: device, flushed: VecDeque::new() };
    let known = inferred_of(&mut device);
    assert!(known.checkpoint.fill.whole_at.is_some() && known.checkpoint.fill.flushed_nanos.is_none());
    // What is not seen is not found with confidence.
    let family = known.get(Parameter::TranslationFamily).unwrap();
    assert!(
        family.value == Some("shared log-block".into()) || family.confidence <= 0.7,
        "{}: {}",
        family.value_in_words(),
        family.evidence
    );
}

#[test]
fn what_is_found_in_other_devices_has_pictures_as_well() {
    for (name, capacity) in
        [("emmc", Bytes::mib(512)), ("hama", Bytes::mib(512)), ("sdcard", Bytes::mib(256))]
    {
        let drive = flashlab_sim::zoo().into_iter().find(|drive| drive.name == name).unwrap();
        let known = inferred(&drive.resized(capacity).unwrap());
        assert!(known.findings.iter().any(|finding| finding.value.is_some()), "{name}");
    }
}
