//! Computes the findings of a run from its files.
//!
//! Everything in the report is computed from the manifest and the samples alone, not from values kept in
//! memory during the run. So the findings can be computed again, also those of a killed run.

use std::collections::BTreeMap;
use std::ops::Range;

use flashlab_analysis::findings::{
    Baseline, BufferRecovery, Disturbance, ExperimentFindings, FINDINGS_VERSION, Findings, Lingering, Method,
    MicroBenchmark, ModeFigures, OverTime, PatternStages, Point, Regime, ResponseTrace, RunEnd, RunSummary,
    SteadyRound, SteadyState, Traces, WriteStages,
};
use flashlab_analysis::{
    Precision, Summary, UnsettledRuns, io_ignore_and_count, lingering, pattern_stages_behind, phases, point,
    returned, steady_state, trace,
};
use flashlab_base::{Bytes, Mode, Nanos, Sample, Target};
use flashlab_plan::Plan;

use crate::error::BenchError;
use crate::manifest::BenchManifest;
use crate::record::{Purpose, RunRecord};
use crate::regimes::outlasts;
use crate::settings::{BASELINES, IO_SIZE, Settings, State};
use crate::shown::{SeenWrite, Shown, shown, shows_regimes, with_each_other};

/// How many points a trace keeps.
const TRACE_POINTS: usize = 4000;

/// Where the samples of a run are read from.
pub(crate) trait Source {
    /// Passes every sample of a run to `see`, in the order of each process's positions (see
    /// [`RunFolder::each_sample`](flashlab_samples::RunFolder::each_sample)).
    fn each(&self, run: u32, see: &mut dyn FnMut(&Sample)) -> Result<(), BenchError>;
}

/// Passes every sample of a run to `see`. If samples are missing, that is an error: no figure is computed
/// from a part of them.
pub(crate) fn each_of(
    source: &dyn Source,
    record: &RunRecord,
    mut see: impl FnMut(&Sample),
) -> Result<(), BenchError> {
    let mut found = Bytes::ZERO;
    source.each(record.run, &mut |sample| {
        found += sample.size;
        see(sample);
    })?;
    let recorded = Bytes(record.read_bytes.saturating_add(record.written_bytes));
    if found == recorded { Ok(()) } else { Err(BenchError::Damaged { run: record.run, found, recorded }) }
}

/// The response times of a run with one process, by position, without failed IOs.
fn responses(source: &dyn Source, record: &RunRecord) -> Result<Vec<u64>, BenchError> {
    let mut samples: Vec<(u64, u64)> = Vec::new();
    each_of(source, record, |sample| {
        if sample.errno == 0 {
            samples.push((sample.position, sample.response().0));
        }
    })?;
    samples.sort_unstable_by_key(|&(position, _)| position);
    Ok(samples.into_iter().map(|(_, response)| response).collect())
}

/// The phases of a baseline, and the parameters that follow from them.
fn baseline(
    source: &dyn Source,
    record: &RunRecord,
    name: &str,
    settings: &Settings,
    known_bytes: u64,
) -> Result<(Baseline, ResponseTrace), BenchError> {
    let responses = responses(source, record)?;
    let phases = phases(&responses);
    let (io_ignore, io_count_min) = io_ignore_and_count(&phases, settings.lengths().io_count_min);
    // The figures of the baseline itself also exclude the start-up phase, which was unknown when it ran.
    // So are the stages that last longer: the baseline is what lasts.
    let mut ignored = io_ignore;
    if record.written_bytes > 0 && !settings.one_regime {
        let stages = pattern_stages_behind(name, &responses, IO_SIZE.0, known_bytes);
        if outlasts(&stages, phases.startup_ios) {
            ignored = ignored.max(stages.volatile_bytes / IO_SIZE.0);
        }
    }
    let io_ignored = ignored.min(responses.len().saturating_sub(1) as u64);
    let counted = RunRecord {
        io_ignore: io_ignored,
        io_ignore_wanted: io_ignored,
        period_ios: phases.period_ios.unwrap_or(1),
        ..record.clone()
    };
    let run = summarise(source, &counted, 1)?;
    let trace = trace(name, &responses, Some(&phases), TRACE_POINTS);
    Ok((Baseline { pattern: name.to_owned(), phases, io_ignore, io_count_min, run }, trace))
}

/// The stages of a baseline of writes, where `known_bytes` of another one were buffered.
fn stages_of(
    source: &dyn Source,
    record: &RunRecord,
    name: &str,
    known_bytes: u64,
) -> Result<PatternStages, BenchError> {
    Ok(pattern_stages_behind(name, &responses(source, record)?, IO_SIZE.0, known_bytes))
}

/// What random writes found buffered, of the stages known so far. Sequential writes are too short to show a stage of more than a fifth of their area.
fn buffered_bytes(found: &WriteStages) -> u64 {
    found.of("RW").map_or(0, |stages| stages.volatile_bytes)
}

/// The stages of the baselines of writes, and what came back after idle times; `None` if no such baseline was run.
pub(crate) fn write_stages(
    source: &dyn Source,
    records: &[RunRecord],
) -> Result<Option<WriteStages>, BenchError> {
    let mut found = WriteStages::default();
    for record in records.iter().filter(|record| record.ended.is_some()) {
        match &record.purpose {
            Purpose::Baseline { pattern } if record.written_bytes > 0 => {
                let known = buffered_bytes(&found);
                found.patterns.push(stages_of(source, record, pattern, known)?);
            }
            Purpose::Recovery { idle_ns } => {
                let Some(sustained) = found.of("RW").and_then(|stages| stages.sustained_ns_mean) else {
                    continue;
                };
                let returned = returned(&responses(source, record)?, IO_SIZE.0, sustained);
                let tried = BufferRecovery {
                    run: record.run,
                    idle: Nanos(*idle_ns),
                    bytes: returned.map_or(0, |found| found.bytes),
                    response_ns_mean: returned.map(|found| found.mean_ns),
                    burst_bytes: returned.map_or(0, |found| found.burst_bytes),
                    burst_ns_mean: returned.map(|found| found.burst_ns),
                };
                match found.recovery.iter_mut().find(|least| least.idle == tried.idle) {
                    Some(least) => *least = worst(*least, tried),
                    None => found.recovery.push(tried),
                }
            }
            _ => {}
        }
    }
    // The rate of random writes did not settle. Sequential writes may seem settled, and be in the same cache.
    if found.withholds("RW") {
        for sequential in found.patterns.iter_mut().filter(|stages| stages.pattern == "SW") {
            (sequential.is_settled, sequential.sustained_ns_mean, sequential.sustained_bytes_per_s) =
                (false, None, None);
        }
    }
    Ok((!found.patterns.is_empty()).then_some(found))
}

/// The least and the slowest of two tries: a burst has to fit into it.
fn worst(a: BufferRecovery, b: BufferRecovery) -> BufferRecovery {
    let least = if b.bytes < a.bytes { b } else { a };
    BufferRecovery {
        burst_bytes: a.burst_bytes.min(b.burst_bytes),
        burst_ns_mean: a.burst_ns_mean.into_iter().chain(b.burst_ns_mean).reduce(f64::max),
        ..least
    }
}

/// The lingering experiment, from its three runs; `None` if it was not completed.
pub(crate) fn lingering_effect(
    source: &dyn Source,
    records: &[RunRecord],
) -> Result<Option<(Lingering, ResponseTrace)>, BenchError> {
    let run_for =
        |purpose: Purpose| records.iter().rfind(|record| record.ended.is_some() && record.purpose == purpose);
    let (Some(before_record), Some(writes_record), Some(after_record)) = (
        run_for(Purpose::LingeringBefore),
        run_for(Purpose::LingeringWrites),
        run_for(Purpose::LingeringAfter),
    ) else {
        return Ok(None);
    };
    let before = responses(source, before_record)?;
    let writes = responses(source, writes_record)?;
    let mut after = Vec::new();
    each_of(source, after_record, |sample| {
        if sample.errno == 0 {
            after.push((sample.submitted, sample.response().0));
        }
    })?;
    let found = lingering(&before, Nanos(writes_record.end_ns), &after);
    let mut all = before.clone();
    all.extend(&writes);
    all.extend(after.iter().map(|&(_, response)| response));
    let mut trace = trace("lingering", &all, None, TRACE_POINTS);
    let (reads, writes) = (before.len() as u64, writes.len() as u64);
    trace.marks = vec![
        (0, "sequential reads".to_owned()),
        (reads, "random writes".to_owned()),
        (reads + writes, "sequential reads".to_owned()),
    ];
    if found.affected_reads > 0 {
        trace.marks.push((reads + writes + found.affected_reads, "no longer affected".to_owned()));
    }
    Ok(Some((found, trace)))
}

/// The figures of one run.
pub(crate) fn summarise(
    source: &dyn Source,
    record: &RunRecord,
    repetition: u32,
) -> Result<RunSummary, BenchError> {
    summarise_part(source, record, repetition, record.io_ignore..u64::MAX)
}

/// The figures of the IOs at these positions of each process.
fn summarise_part(
    source: &dyn Source,
    record: &RunRecord,
    repetition: u32,
    positions: Range<u64>,
) -> Result<RunSummary, BenchError> {
    let ended = record.ended.unwrap_or(RunEnd::BudgetUsed);
    let mut summary = Summary::new();
    let mut precisions: BTreeMap<u32, Precision> = BTreeMap::new();
    let (mut bytes, mut ios, mut failed_ios) = (0u64, 0u64, 0u64);
    let (mut first, mut last) = (Nanos::MAX, Nanos::ZERO);
    let mut modes = MODES.map(|_| ModeCount::new(record));
    each_of(source, record, |sample| {
        if sample.errno != 0 {
            failed_ios += 1;
            return;
        }
        let is_counted = positions.contains(&sample.position);
        let [reads, writes] = &mut modes;
        match sample.mode {
            Mode::Read => reads.add(sample, is_counted),
            Mode::Write => writes.add(sample, is_counted),
        }
        if is_counted {
            summary.add(sample.response().0);
            let precision = precisions.entry(sample.process);
            precision.or_insert_with(|| Precision::with_period(record.period_ios)).add(sample.response().0);
            bytes += sample.size.0;
            ios += 1;
            first = first.min(sample.intended);
            last = last.max(sample.completed);
        }
    })?;
    let seconds = last.since(first).as_secs_f64();
    let per_second = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
    Ok(RunSummary {
        run: record.run,
        repetition,
        io_ignore: positions.start,
        io_end: Some(positions.end).filter(|&end| end != u64::MAX),
        response: summary.distribution(),
        throughput_bytes_per_s: per_second(bytes),
        ios_per_s: per_second(ios),
        modes: MODES
            .into_iter()
            .zip(modes)
            .filter_map(|(mode, count)| count.figures(mode, seconds))
            .collect(),
        write_amplification: write_amplification(record),
        failed_ios,
        precision: joint_precision(&precisions),
        ended,
        flags: crate::warnings::flags(record),
    })
}

/// The number of intervals that show a run over time.
const INTERVALS: usize = 20;
const MODES: [Mode; 2] = [Mode::Read, Mode::Write];

/// Counts the reads, or the writes, of a run.
struct ModeCount {
    summary: Summary,
    bytes: u64,
    ios: u64,
    begin: Nanos,
    interval: u64,
    over_time: [(u64, u64); INTERVALS],
}

impl ModeCount {
    fn new(record: &RunRecord) -> ModeCount {
        let duration = record.end_ns.saturating_sub(record.begin_ns);
        ModeCount {
            summary: Summary::new(),
            bytes: 0,
            ios: 0,
            begin: Nanos(record.begin_ns),
            interval: duration.div_ceil(INTERVALS as u64).max(1),
            over_time: [(0, 0); INTERVALS],
        }
    }

    fn add(&mut self, sample: &Sample, is_counted: bool) {
        let place = sample.completed.since(self.begin).0 / self.interval;
        let (ios, bytes) = &mut self.over_time[(place as usize).min(INTERVALS - 1)];
        *ios += 1;
        *bytes += sample.size.0;
        if is_counted {
            self.summary.add(sample.response().0);
            self.bytes += sample.size.0;
            self.ios += 1;
        }
    }

    fn figures(self, mode: Mode, seconds: f64) -> Option<ModeFigures> {
        let per_second = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let rate = |amount: u64| amount as f64 * 1e9 / self.interval as f64;
        (self.ios > 0).then(|| ModeFigures {
            mode,
            response: self.summary.distribution(),
            throughput_bytes_per_s: per_second(self.bytes),
            ios_per_s: per_second(self.ios),
            over_time: OverTime {
                interval_ns: self.interval,
                ios_per_s: self.over_time.iter().map(|&(ios, _)| rate(ios)).collect(),
                bytes_per_s: self.over_time.iter().map(|&(_, bytes)| rate(bytes)).collect(),
            },
        })
    }
}

fn write_amplification(record: &RunRecord) -> Option<f64> {
    let written = record.written_bytes;
    (written > 0).then_some(record.media_written_bytes? as f64 / written as f64)
}

/// The half width of the confidence interval of the mean over all processes. The means of the processes are
/// independent and of about the same size, so they are averaged.
fn joint_precision(precisions: &BTreeMap<u32, Precision>) -> Option<f64> {
    let widths: Option<Vec<f64>> = precisions.values().map(Precision::relative_half_width).collect();
    let widths = widths.filter(|widths| !widths.is_empty())?;
    Some(widths.iter().map(|width| width * width).sum::<f64>().sqrt() / widths.len() as f64)
}

/// What the files say about the bench run as a whole.
pub(crate) struct Context<'a> {
    pub manifest: &'a BenchManifest,
    pub plans: &'a [Plan],
    pub records: &'a [RunRecord],
    /// The torn segments that were renamed, and why.
    pub torn: Vec<String>,
    /// What is to be done if not all work is done.
    pub unfinished: Option<String>,
}

/// Computes everything.
pub(crate) fn examine(source: &dyn Source, context: &Context<'_>) -> Result<(Findings, Traces), BenchError> {
    let Context { manifest, plans, records, torn, unfinished } = context;
    let settings = &manifest.settings;
    let stages = if settings.one_regime { None } else { write_stages(source, records)? };
    let (baselines, mut traces) = baselines(source, records, settings, stages.as_ref())?;
    let lingering = lingering_effect(source, records)?;
    let lingering = lingering.map(|(found, trace)| {
        traces.push(trace);
        found
    });
    let baselines: Vec<Baseline> = baselines
        .into_iter()
        .filter(|baseline| !stages.as_ref().is_some_and(|stages| stages.withholds(&baseline.pattern)))
        .collect();
    let (mut micro_benchmarks, mut undecided) = (Vec::new(), Vec::new());
    let shown = shown_by_runs(source, plans, records, settings)?;
    for plan in *plans {
        micro_benchmarks.extend(micro_benchmarks_of(source, plan, records, &shown, &mut undecided)?);
    }
    // What a plan of the user's own measured is shown, and warned of.
    let unsettled = if settings.methodology {
        flashlab_analysis::without_unsettled_points(&mut micro_benchmarks, &unsettled_runs(records))
    } else {
        Vec::new()
    };
    let characteristics =
        flashlab_analysis::characteristics(&manifest.identity, &baselines, &micro_benchmarks);
    let hints = flashlab_analysis::hints(&baselines, &micro_benchmarks);
    let disturbance = Disturbance::of(&baselines, &micro_benchmarks);
    let is_simulated = settings.target.parse::<Target>().is_ok_and(|target| target.is_simulated());
    let mut warnings = crate::warnings::of_preparation(manifest, records, torn, unfinished.as_deref());
    warnings.extend(crate::warnings::of_runs(records));
    warnings.extend(flashlab_analysis::spread_warnings(&micro_benchmarks, is_simulated));
    warnings.extend(unsettled);
    warnings.extend(crate::shown::warning(&undecided));
    warnings.extend(crate::warnings::of_stages(stages.as_ref(), settings.thoroughness));
    let pause = pauses(records).map(|(_, pause)| pause).max().unwrap_or_default();
    let after_writes = pause_after_writes(records);
    warnings.extend(crate::warnings::of_pause(lingering.as_ref(), after_writes, settings.thoroughness));
    let findings = Findings {
        version: FINDINGS_VERSION,
        flashlab: env!("CARGO_PKG_VERSION").to_owned(),
        started: manifest.started.clone(),
        identity: manifest.identity.clone(),
        characteristics,
        method: method(context, pause, steady(source, context)?),
        baselines,
        lingering,
        stages,
        micro_benchmarks,
        disturbance,
        hints,
        warnings,
    };
    Ok((findings, Traces { traces }))
}

/// All baselines that were run, with their traces. `stages` are those of their writes, unless one regime is asked for.
pub(crate) fn baselines(
    source: &dyn Source,
    records: &[RunRecord],
    settings: &Settings,
    stages: Option<&WriteStages>,
) -> Result<(Vec<Baseline>, Vec<ResponseTrace>), BenchError> {
    let known = stages.map_or(0, buffered_bytes);
    let named = BASELINES.iter().filter_map(|&name| {
        let purpose = Purpose::Baseline { pattern: name.to_owned() };
        let record = records.iter().rfind(|record| record.ended.is_some() && record.purpose == purpose)?;
        // Random writes do not need to know what they found themselves.
        Some(baseline(source, record, name, settings, if name == "SW" { known } else { 0 }))
    });
    Ok(named.collect::<Result<Vec<_>, _>>()?.into_iter().unzip())
}

/// One for each parameter that the plan's experiments vary. Every shipped plan varies only one.
fn micro_benchmarks_of(
    source: &dyn Source,
    plan: &Plan,
    records: &[RunRecord],
    shown: &BTreeMap<u32, Shown>,
    undecided: &mut Vec<(String, Shown)>,
) -> Result<Vec<MicroBenchmark>, BenchError> {
    let mut found: Vec<MicroBenchmark> = Vec::new();
    for experiment in &plan.experiments {
        let varied = experiment.vary.as_ref().map(|vary| vary.parameter);
        let parameter = varied.map_or("", |parameter| parameter.name()).to_owned();
        let unit = varied.map_or("", |parameter| parameter.unit()).to_owned();
        let parts = parts(source, (&plan.name, &experiment.name), records, shown)?;
        for regime in [None, Some(Regime::Unknown), Some(Regime::Sustained), Some(Regime::Burst)] {
            let in_regime = || parts.iter().filter(|part| part.regime == regime);
            let Some(first) = in_regime().next() else { continue };
            // A burst and what lasts have one evidence.
            let shown = first.shown.clone().filter(|_| regime != Some(Regime::Burst));
            if let Some(shown) = shown.clone().filter(|_| regime == Some(Regime::Unknown)) {
                undecided.push((experiment.name.clone(), shown));
            }
            let experiment = ExperimentFindings {
                pattern: experiment.name.clone(),
                regime,
                regime_evidence: shown.map(|shown| shown.evidence).unwrap_or_default(),
                points: points(in_regime()),
            };
            match found.iter_mut().find(|micro| micro.parameter == parameter) {
                Some(micro) => micro.experiments.push(experiment),
                None => found.push(MicroBenchmark {
                    name: plan.name.clone(),
                    parameter: parameter.clone(),
                    unit: unit.clone(),
                    experiments: vec![experiment],
                }),
            }
        }
    }
    Ok(found)
}

/// The sustained runs that are in no figure, by their points.
fn unsettled_runs(records: &[RunRecord]) -> UnsettledRuns {
    let mut all = UnsettledRuns::new();
    for record in records.iter().filter(|record| record.ended.is_some() && record.is_undecided()) {
        let Purpose::Point { plan, experiment, regime: Some(Regime::Sustained), label, .. } = &record.purpose
        else {
            continue;
        };
        *all.entry((plan.clone(), experiment.clone(), label.clone())).or_default() += 1;
    }
    all
}

/// A run of an experiment, or a part of one, in a regime.
struct PointPart {
    regime: Option<Regime>,
    value: f64,
    label: String,
    /// What the run shows, if it had to show its regime.
    shown: Option<Shown>,
    run: RunSummary,
}

/// The runs of an experiment that count, each in its regime. A run of a plan as it is written may show both.
fn parts(
    source: &dyn Source,
    of: (&String, &String),
    records: &[RunRecord],
    shown: &BTreeMap<u32, Shown>,
) -> Result<Vec<PointPart>, BenchError> {
    let mut parts = Vec::new();
    for record in records {
        let Purpose::Point { plan, experiment, regime, value, label, repetition } = &record.purpose else {
            continue;
        };
        if (plan, experiment) != of || record.ended.is_none() || record.is_undecided() {
            continue;
        }
        let shown = shown.get(&record.run);
        for (found, positions) in crate::shown::parts(shown, record.io_ignore) {
            let run = summarise_part(source, record, *repetition, positions)?;
            let regime = regime.or(found);
            // What the flash programs in a burst, it programs later.
            let write_amplification = run.write_amplification.filter(|_| found != Some(Regime::Burst));
            parts.push(PointPart {
                regime,
                value: *value,
                label: label.clone(),
                shown: shown.cloned(),
                run: RunSummary { write_amplification, ..run },
            });
        }
    }
    Ok(parts)
}

/// What the runs of plans show that are run as they are written, by the number of the run.
fn shown_by_runs(
    source: &dyn Source,
    plans: &[Plan],
    records: &[RunRecord],
    settings: &Settings,
) -> Result<BTreeMap<u32, Shown>, BenchError> {
    let has_to_show = |purpose: &Purpose| match purpose {
        Purpose::Point { plan, experiment, .. } => plans
            .iter()
            .filter(|known| known.name == *plan)
            .flat_map(|plan| &plan.experiments)
            .any(|known| known.name == *experiment && shows_regimes(known, settings)),
        _ => false,
    };
    let mut all = BTreeMap::new();
    for record in records.iter().filter(|record| record.ended.is_some() && record.written_bytes > 0) {
        if has_to_show(&record.purpose) {
            all.extend(shown(&writes_of(source, record)?).map(|shown| (record.run, shown)));
        }
    }
    with_each_other(all.values_mut());
    Ok(all)
}

/// The writes of a run that did not fail, in the order of their submission.
fn writes_of(source: &dyn Source, record: &RunRecord) -> Result<Vec<SeenWrite>, BenchError> {
    let mut writes = Vec::new();
    each_of(source, record, |sample| {
        if sample.errno == 0 && sample.mode == Mode::Write {
            let (position, response_ns) = (sample.position, sample.response().0);
            writes.push((sample.submitted, SeenWrite { position, response_ns, size: sample.size }));
        }
    })?;
    writes.sort_by_key(|&(submitted, write)| (submitted, write.position));
    Ok(writes.into_iter().map(|(_, write)| write).collect())
}

/// A point for each value, in their order.
fn points<'a>(parts: impl Iterator<Item = &'a PointPart>) -> Vec<Point> {
    let mut groups: Vec<(f64, String, Vec<RunSummary>)> = Vec::new();
    for part in parts {
        match groups.iter_mut().find(|(number, _, _)| *number == part.value) {
            Some((_, _, runs)) => runs.push(part.run.clone()),
            None => groups.push((part.value, part.label.clone(), vec![part.run.clone()])),
        }
    }
    groups.sort_by(|(a, _, _), (b, _, _)| a.total_cmp(b));
    groups.into_iter().map(|(value, label, runs)| point(value, label, runs)).collect()
}

fn method(context: &Context<'_>, pause: Nanos, steady: Option<SteadyState>) -> Method {
    let settings = &context.manifest.settings;
    let written: u64 = context.records.iter().map(|record| record.written_bytes).sum();
    let written = Bytes(context.manifest.prepared_bytes + written);
    let is_part = context.manifest.identity.is_part_of_device(settings.target_size);
    // The clock of a resumed run starts again at zero.
    let elapsed =
        context.records.iter().map(|record| record.end_ns - record.begin_ns + record.pause_ns).sum();
    let endurance = context.manifest.identity.rated_endurance.filter(|rated| *rated > Bytes::ZERO);
    let made = state(context.records, steady.as_ref(), is_part);
    let saved = context.manifest.identity.saved_state.clone().filter(|_| made.is_none());
    let found = || saved.as_ref().map_or(State::None.to_string(), |saved| saved.state.clone());
    Method {
        thoroughness: settings.thoroughness.to_string(),
        state: made.unwrap_or_else(found),
        is_part,
        steady,
        saved,
        seed: settings.seed,
        io_size: IO_SIZE,
        target_size: settings.target_size,
        pause,
        repetitions: settings.repetitions,
        precision_goal: settings.precision_goal,
        overhead_ns_per_io: context.manifest.overhead_ns_per_io,
        clock_ns_per_reading: context.manifest.clock_ns_per_reading,
        elapsed: Nanos(elapsed),
        bytes_written: written,
        endurance_share: endurance.map(|rated| written.0 as f64 / rated.0 as f64),
    }
}

/// The pauses between the runs of the micro-benchmarks, each with the run before it; after the state there is a longer one.
fn pauses(records: &[RunRecord]) -> impl Iterator<Item = (&RunRecord, Nanos)> {
    let is_point = |record: &RunRecord| matches!(record.purpose, Purpose::Point { .. });
    let follows = move |record: &RunRecord| is_point(record) || record.purpose == Purpose::LeadIn;
    let pairs = records.windows(2).filter(move |pair| is_point(&pair[0]) && follows(&pair[1]));
    pairs.map(|pair| (&pair[0], Nanos(pair[1].pause_ns)))
}

/// The longest pause after a run that wrote; `None` if no run paused for that: after reads there is no need, and a lead-in pauses for none.
fn pause_after_writes(records: &[RunRecord]) -> Option<Nanos> {
    let after_writes = pauses(records).filter(|(before, _)| before.written_bytes > 0);
    after_writes.map(|(_, pause)| pause).max().filter(|&pause| pause > Nanos::ZERO)
}

/// A round of random writes: its times from the samples of its timed part, and what the flash did in all of it.
/// `conditioned` is the part of the round without times, if there is one.
pub(crate) fn steady_round(
    source: &dyn Source,
    record: &RunRecord,
    conditioned: Option<&RunRecord>,
) -> Result<SteadyRound, BenchError> {
    let timed = summarise(source, record, 1)?;
    let parts = || std::iter::once(record).chain(conditioned);
    let written: u64 = parts().map(|part| part.written_bytes).sum();
    let programmed: Option<u64> = parts().map(|part| part.media_written_bytes).sum();
    Ok(SteadyRound {
        written_bytes: written,
        throughput_bytes_per_s: Some(timed.throughput_bytes_per_s),
        response_ns_mean: Some(timed.response.mean_ns),
        write_amplification: programmed.filter(|_| written > 0).map(|media| media as f64 / written as f64),
        programmed_bytes: programmed,
        erased_bytes: parts().map(|part| part.media_erased_bytes).sum(),
    })
}

/// How the device was made steady most recently; `None` if it was not tried.
fn steady(source: &dyn Source, context: &Context<'_>) -> Result<Option<SteadyState>, BenchError> {
    let is_first = |record: &RunRecord| matches!(record.purpose, Purpose::SteadyRound { round: 1, .. });
    let finished: Vec<&RunRecord> = context.records.iter().filter(|record| record.ended.is_some()).collect();
    let Some(begin) = finished.iter().rposition(|record| is_first(record)) else { return Ok(None) };
    let mut rounds = Vec::new();
    for (index, record) in finished.iter().enumerate().skip(begin) {
        let Purpose::SteadyRound { conditioned_bytes, .. } = record.purpose else { continue };
        // The part without times is the record before.
        let before = index.checked_sub(1).filter(|_| conditioned_bytes > 0);
        rounds.push(steady_round(source, record, before.map(|before| finished[before]))?);
    }
    Ok(Some(steady_state(rounds, context.manifest.settings.target_size.0)))
}

/// The state that the run made before the first measurement, in words; `None` if it made none.
fn state(records: &[RunRecord], steady: Option<&SteadyState>, is_part: bool) -> Option<String> {
    match steady {
        Some(steady) if steady.is_steady && is_part => return Some("steady for this part only".to_owned()),
        Some(steady) => return Some(steady.name().to_owned()),
        None => {}
    }
    let mut finished = records.iter().filter(|record| record.ended.is_some());
    finished.find_map(|record| match &record.purpose {
        Purpose::State { state, complete: true } => Some(state.clone()),
        Purpose::State { state, complete: false } => Some(format!("{state} (in part)")),
        _ => None,
    })
}
