//! Expectations: requirements of a user, which a measurement decides.
//!
//! # Model
//! An expectation compares one figure with a bound. There are three forms:
//! - of a run: `RW.p99 < 500us`, `granularity:SR@32KiB.bandwidth > 1GB/s`;
//! - of a comparison: `p99(RW) < 1.2x`, each other run relative to the first;
//! - of an inference: `erase_block_size = 4MiB`.
//!
//! It is applied to every experiment that it names, and decided with the figure's 95 % confidence interval
//! (an inference: with a confidence of 0.95). It is met if the whole interval is on the right side of the
//! bound. It is not met if the whole interval is on the wrong side. Otherwise it cannot be told.
//!
//! # Invariants
//! - What was not measured is never met.
//! - An expectation of a comparison tests its own bound, alone. Where the comparison, which is corrected for all its ratios,
//!   does not show the difference that it rests on, the judgement says so.
//! - If an expectation names nothing, it gives one judgement, which lists the possible names.

use std::fmt;
use std::str::FromStr;

use flashlab_base::{Bytes, Mode, Nanos};
use serde::Serialize;
use thiserror::Error;

use crate::compare::{ComparedRun, Comparison, Estimate, ExperimentKey, RatioVerdict, Statistic};
use crate::findings::Regime;
use crate::inference::{CONFIDENT, Inference, Parameter, Unit, Value, Verdict};

/// The name of the baselines among the micro-benchmarks.
const BASELINE: &str = "baseline";

/// An expectation that could be parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    text: String,
    subject: Subject,
    relation: Relation,
    bound: Bound,
}

/// What an expectation can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectationKind {
    /// The figures of one run.
    Run,
    /// The ratios of a comparison.
    Comparison,
    /// An inferred parameter.
    Inference,
}

#[derive(Clone, Debug, PartialEq)]
enum Subject {
    Figure(Selector, RunFigure),
    Ratio(Selector, Statistic),
    Parameter(Parameter),
}

/// A figure of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunFigure {
    Response(Statistic),
    IosPerSecond,
    Bandwidth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Below,
    AtMost,
    Above,
    AtLeast,
    Equal,
}

#[derive(Clone, Debug, PartialEq)]
enum Bound {
    Number(f64),
    Truth(bool),
    Word(String),
}

/// Which experiments are meant: `[PLAN:]PATTERN[@VALUE][.burst|.sustained][.reads|.writes]`. The pattern alone means what lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selector {
    plan: Option<String>,
    pattern: String,
    regime: Option<Regime>,
    value: Option<String>,
    mode: Option<Mode>,
}

/// Why a text is no expectation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExpectationError {
    /// Nothing is compared.
    #[error(
        "`{0}` compares nothing: write it like RW.p99 < 500us, p99(RW) < 1.2x or erase_block_size = 4MiB"
    )]
    NoRelation(String),
    /// The left side is none of the three forms.
    #[error(
        "`{0}` is no figure: of a run, write EXPERIMENT.FIGURE with p50, p90, p99, p99.9, mean, iops or bandwidth (as \
         RW.p99 or granularity:SR@32KiB.bandwidth); of a comparison FIGURE(EXPERIMENT); of an inference a parameter's \
         name"
    )]
    NoFigure(String),
    /// The maximum grows with the number of IOs.
    #[error("`{0}`: the largest response time grows with the number of IOs, and has no interval: use p99.9")]
    Maximum(String),
    /// A response time or a rate is never exactly equal to a bound.
    #[error("`{0}`: a measured figure is never equal to a bound: use < or >")]
    Equal(String),
    /// The right side does not fit the left one.
    #[error("`{bound}` is no bound for {figure}: write {example}")]
    Bound {
        /// As it was written.
        bound: String,
        /// The left side.
        figure: String,
        /// What would fit.
        example: String,
    },
}

/// What became of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The whole interval is on the right side of the bound.
    Met,
    /// All of it is on the wrong side.
    NotMet,
    /// The interval contains the bound, or nothing was measured.
    CannotBeTold,
}

/// An expectation applied to one experiment, one ratio or one parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The expectation as it was written.
    pub expectation: String,
    /// What it was applied to, in the form of an expectation: `granularity:RW@32KiB`. For a comparison, the
    /// other run's folder and device stand before it.
    pub of: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Why.
    pub evidence: Evidence,
}

/// What an outcome follows from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Evidence {
    /// A figure with its 95 % confidence interval.
    Interval {
        /// The figure.
        value: f64,
        /// The lower end.
        low: f64,
        /// The upper end; null if too few IOs lie beyond the quantile.
        high: Option<f64>,
        /// Of all three.
        unit: FigureUnit,
        /// The number of IOs from which it is known.
        ios: u64,
        /// Of a ratio that differs from 1 in itself, but not after the correction for all ratios of the comparison: their
        /// number. Null otherwise.
        not_among: Option<usize>,
    },
    /// An inferred parameter.
    Parameter {
        /// Its value as a text; empty if it was not found.
        value: String,
        /// The probability that it is right.
        confidence: f64,
        /// `found`, `undetermined` or `not identifiable`.
        verdict: Verdict,
    },
    /// Nothing of this name was measured.
    NotMeasured {
        /// What was.
        measured: Vec<String>,
    },
    /// The expectation holds for what was measured so far, and the run is unfinished.
    Unfinished {
        /// What it would be met by.
        so_far: Box<Evidence>,
    },
}

impl Judgement {
    /// The judgement of a run that is unfinished. What is met so far may not hold for the whole run; what is not met stays so.
    pub fn of_unfinished(self) -> Judgement {
        match self.outcome {
            Outcome::Met => Judgement {
                outcome: Outcome::CannotBeTold,
                evidence: Evidence::Unfinished { so_far: Box::new(self.evidence) },
                ..self
            },
            _ => self,
        }
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureUnit {
    /// Nanoseconds.
    Ns,
    /// IOs a second.
    IosPerS,
    /// Bytes a second.
    BytesPerS,
    /// Relative to the first run.
    Ratio,
}

impl Expectation {
    /// What it is about.
    pub fn kind(&self) -> ExpectationKind {
        match self.subject {
            Subject::Figure(..) => ExpectationKind::Run,
            Subject::Ratio(..) => ExpectationKind::Comparison,
            Subject::Parameter(_) => ExpectationKind::Inference,
        }
    }

    /// The inferred parameter of the expectation.
    pub fn parameter(&self) -> Option<Parameter> {
        match self.subject {
            Subject::Parameter(parameter) => Some(parameter),
            _ => None,
        }
    }

    /// Whether it names any of these experiments.
    pub fn names_any(&self, keys: &[ExperimentKey]) -> bool {
        match &self.subject {
            Subject::Figure(selector, _) | Subject::Ratio(selector, _) => !selector.select(keys).is_empty(),
            Subject::Parameter(_) => false,
        }
    }

    /// Applies it to the figures of one run. An expectation of another kind cannot be told.
    pub fn judge_run(&self, run: &ComparedRun) -> Vec<Judgement> {
        let keys: Vec<ExperimentKey> = run.experiments.iter().map(|(key, _)| key.clone()).collect();
        let Subject::Figure(selector, figure) = &self.subject else { return self.nothing(&keys) };
        let (estimates, unit) = match figure {
            RunFigure::Response(statistic) => {
                (run.response_estimates(*statistic).into_iter().map(Some).collect(), FigureUnit::Ns)
            }
            RunFigure::IosPerSecond => {
                (run.throughput_estimates(|throughput| throughput.ios), FigureUnit::IosPerS)
            }
            RunFigure::Bandwidth => {
                (run.throughput_estimates(|throughput| throughput.bytes), FigureUnit::BytesPerS)
            }
        };
        let selected = selector.select(&keys);
        let judged = selected.iter().filter_map(|&index| {
            Some(self.judge_interval(name(&keys, index), estimates[index]?, unit, None))
        });
        self.or_nothing(judged.collect(), &keys)
    }

    /// Applies it to every other run of a comparison.
    pub fn judge_comparison(&self, comparison: &Comparison) -> Vec<Judgement> {
        let keys: Vec<ExperimentKey> = comparison.experiments.iter().map(|row| row.key.clone()).collect();
        let Subject::Ratio(selector, statistic) = &self.subject else { return self.nothing(&keys) };
        let selected = selector.select(&keys);
        let judged = selected.iter().flat_map(|&index| {
            let row = &comparison.experiments[index];
            let keys = &keys;
            row.ratios.iter().enumerate().filter_map(move |(run, ratios)| {
                let found = ratios.as_ref()?.iter().find(|ratio| ratio.statistic == *statistic)?;
                let ratio = &found.ratio;
                let ios = row.ios.iter().flatten().copied().min().unwrap_or(0);
                let estimate = Estimate { value: ratio.ratio, low: ratio.low, high: ratio.high, ios };
                let of = format!("{}: {}", comparison.run_in_words(run), name(keys, index));
                let differs = ratio.low > 1.0 || ratio.high.is_some_and(|high| high < 1.0);
                let is_shown = matches!(ratio.verdict, RatioVerdict::Faster | RatioVerdict::Slower);
                let not_among = (differs && !is_shown).then_some(comparison.tests);
                Some(self.judge_interval(of, estimate, FigureUnit::Ratio, not_among))
            })
        });
        self.or_nothing(judged.collect(), &keys)
    }

    /// Applies it to what was inferred.
    pub fn judge_inference(&self, inference: &Inference) -> Judgement {
        let judgement = |outcome, evidence| Judgement {
            expectation: self.text.clone(),
            of: self.parameter().map_or(String::new(), |parameter| parameter.name().to_owned()),
            outcome,
            evidence,
        };
        let Some(finding) = self.parameter().and_then(|parameter| inference.get(parameter)) else {
            let measured = inference.findings.iter().map(|finding| finding.parameter.name().to_owned());
            return judgement(Outcome::CannotBeTold, Evidence::NotMeasured { measured: measured.collect() });
        };
        let holds = finding.value.as_ref().and_then(|value| match (value, &self.bound) {
            (Value::Number(number), &Bound::Number(bound)) => Some(self.relation.holds(*number, bound)),
            (Value::Truth(truth), Bound::Truth(bound)) => Some(truth == bound),
            (Value::Word(word), Bound::Word(bound)) => Some(word == bound),
            _ => None,
        });
        let outcome = match holds {
            Some(true) if finding.confidence >= CONFIDENT => Outcome::Met,
            Some(false) if finding.confidence >= CONFIDENT => Outcome::NotMet,
            _ => Outcome::CannotBeTold,
        };
        let (value, confidence, verdict) = (finding.value_in_words(), finding.confidence, finding.verdict);
        judgement(outcome, Evidence::Parameter { value, confidence, verdict })
    }

    fn judge_interval(
        &self,
        of: String,
        estimate: Estimate,
        unit: FigureUnit,
        not_among: Option<usize>,
    ) -> Judgement {
        let Estimate { value, low, high, ios } = estimate;
        let outcome = match &self.bound {
            &Bound::Number(bound) => self.relation.decide(low, high.unwrap_or(f64::INFINITY), bound),
            _ => Outcome::CannotBeTold,
        };
        let evidence = Evidence::Interval { value, low, high, unit, ios, not_among };
        Judgement { expectation: self.text.clone(), of, outcome, evidence }
    }

    fn nothing(&self, keys: &[ExperimentKey]) -> Vec<Judgement> {
        vec![Judgement {
            expectation: self.text.clone(),
            of: String::new(),
            outcome: Outcome::CannotBeTold,
            evidence: Evidence::NotMeasured { measured: expectable_names(keys) },
        }]
    }

    fn or_nothing(&self, judged: Vec<Judgement>, keys: &[ExperimentKey]) -> Vec<Judgement> {
        if judged.is_empty() { self.nothing(keys) } else { judged }
    }
}

/// The names that expectations can use for these experiments: `RW`, `granularity:SR@32KiB`.
pub fn expectable_names(keys: &[ExperimentKey]) -> Vec<String> {
    (0..keys.len()).map(|index| name(keys, index)).collect()
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Relation {
    /// In the order in which they are searched.
    const ALL: [(&'static str, Relation); 6] = [
        ("<=", Relation::AtMost),
        (">=", Relation::AtLeast),
        ("==", Relation::Equal),
        ("<", Relation::Below),
        (">", Relation::Above),
        ("=", Relation::Equal),
    ];

    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Relation::Below => value < bound,
            Relation::AtMost => value <= bound,
            Relation::Above => value > bound,
            Relation::AtLeast => value >= bound,
            Relation::Equal => value == bound,
        }
    }

    fn decide(self, low: f64, high: f64, bound: f64) -> Outcome {
        match (self.holds(low, bound), self.holds(high, bound)) {
            (true, true) => Outcome::Met,
            (false, false) => Outcome::NotMet,
            _ => Outcome::CannotBeTold,
        }
    }
}

impl FromStr for Expectation {
    type Err = ExpectationError;

    fn from_str(text: &str) -> Result<Expectation, ExpectationError> {
        let text = text.trim();
        let position = text.find(['<', '>', '=']);
        let split = position.and_then(|position| {
            let (left, right) = text.split_at(position);
            let (sign, relation) = Relation::ALL.into_iter().find(|(sign, _)| right.starts_with(sign))?;
            Some((left.trim(), relation, right[sign.len()..].trim()))
        });
        let (left, relation, right) = split.ok_or_else(|| ExpectationError::NoRelation(text.to_owned()))?;
        let subject = subject(left)?;
        let is_measured = match subject {
            Subject::Parameter(parameter) => matches!(parameter.unit(), Unit::Nanos | Unit::Ratio),
            _ => true,
        };
        if relation == Relation::Equal && is_measured {
            return Err(ExpectationError::Equal(text.to_owned()));
        }
        let bound = bound(&subject, relation, right).map_err(|example| ExpectationError::Bound {
            bound: right.to_owned(),
            figure: left.to_owned(),
            example,
        })?;
        Ok(Expectation { text: text.to_owned(), subject, relation, bound })
    }
}

/// The left side.
fn subject(text: &str) -> Result<Subject, ExpectationError> {
    let no_figure = || ExpectationError::NoFigure(text.to_owned());
    if let Ok(parameter) = text.parse::<Parameter>() {
        return Ok(Subject::Parameter(parameter));
    }
    if text.ends_with(".max") || text.starts_with("max(") {
        return Err(ExpectationError::Maximum(text.to_owned()));
    }
    if let Some((figure, rest)) = text.split_once('(') {
        let selector = rest.strip_suffix(')').and_then(Selector::parse).ok_or_else(no_figure)?;
        return match run_figure(figure.trim()) {
            Some(RunFigure::Response(statistic)) => Ok(Subject::Ratio(selector, statistic)),
            _ => Err(no_figure()),
        };
    }
    // From the left: `p99.9` contains a point, and values may contain one.
    let found = text.match_indices('.').find_map(|(position, _)| {
        Some((Selector::parse(&text[..position])?, run_figure(&text[position + 1..])?))
    });
    found.map(|(selector, figure)| Subject::Figure(selector, figure)).ok_or_else(no_figure)
}

fn run_figure(name: &str) -> Option<RunFigure> {
    match name {
        "iops" => Some(RunFigure::IosPerSecond),
        "bandwidth" => Some(RunFigure::Bandwidth),
        "median" => Some(RunFigure::Response(Statistic::P50)),
        _ => Statistic::ALL.into_iter().find(|statistic| statistic.name() == name).map(RunFigure::Response),
    }
}

/// Parses the right side; the error is an example that would fit.
fn bound(subject: &Subject, relation: Relation, text: &str) -> Result<Bound, String> {
    let positive = |number: Option<f64>| number.filter(|number| number.is_finite() && *number >= 0.0);
    let time = || positive(text.parse::<Nanos>().ok().map(|time| time.0 as f64));
    let size = |text: &str| positive(text.parse::<Bytes>().ok().map(|size| size.0 as f64));
    let number = |text: &str| positive(text.trim().parse::<f64>().ok());
    let (found, example) = match subject {
        Subject::Figure(_, RunFigure::Response(_)) => (time(), "a time, as 500us"),
        Subject::Figure(_, RunFigure::IosPerSecond) => (number(text), "IOs a second, as 20000"),
        Subject::Figure(_, RunFigure::Bandwidth) => {
            (text.strip_suffix("/s").and_then(size), "bytes a second, as 1GB/s")
        }
        Subject::Ratio(..) => (text.strip_suffix(['x', '×']).and_then(number), "a ratio, as 1.2x"),
        Subject::Parameter(parameter) => match parameter.unit() {
            Unit::Bytes => (size(text), "a size, as 4MiB"),
            Unit::Nanos => (time(), "a time, as 500us"),
            Unit::Count => (number(text), "a number"),
            Unit::Ratio => (number(text), "a ratio, as 0.07"),
            Unit::None => return word(*parameter, relation, text),
        },
    };
    found.map(Bound::Number).ok_or_else(|| example.to_owned())
}

/// A word, or yes or no.
fn word(parameter: Parameter, relation: Relation, text: &str) -> Result<Bound, String> {
    let words = parameter.words();
    let allowed = if words.is_empty() { &["yes", "no"] } else { words };
    let example = || format!("= and one of: {}", allowed.join(", "));
    if relation != Relation::Equal || !allowed.contains(&text) {
        return Err(example());
    }
    Ok(if words.is_empty() { Bound::Truth(text == "yes") } else { Bound::Word(text.to_owned()) })
}

impl Selector {
    fn parse(text: &str) -> Option<Selector> {
        let text = text.trim();
        let (text, mode) = match (text.strip_suffix(".reads"), text.strip_suffix(".writes")) {
            (Some(before), _) => (before, Some(Mode::Read)),
            (_, Some(before)) => (before, Some(Mode::Write)),
            _ => (text, None),
        };
        let (text, regime) = with_regime(text);
        let (plan, text) = match text.split_once(':') {
            Some((plan, text)) => (Some(plan.trim().to_owned()), text),
            None => (None, text),
        };
        let (pattern, value) = match text.split_once('@') {
            Some((pattern, value)) => (pattern, Some(plain(value))),
            None => (text, None),
        };
        // As in `RW.burst@32KiB`.
        let (pattern, before_value) = with_regime(pattern);
        let (pattern, regime) = (pattern.to_owned(), regime.or(before_value));
        let is_complete = !pattern.is_empty()
            && plan.as_deref() != Some("")
            && value.as_deref() != Some("")
            // A figure would follow the point.
            && (value.is_some() || !pattern.contains('.'));
        is_complete.then_some(Selector { plan, pattern, regime, value, mode })
    }

    /// Without a regime it means what lasts, and of a run that does not show the regime what the run measured.
    fn is_in_regime(&self, regime: Option<Regime>) -> bool {
        match self.regime {
            Some(Regime::Burst) => regime == Some(Regime::Burst),
            Some(_) => matches!(regime, None | Some(Regime::Sustained)),
            None => regime != Some(Regime::Burst),
        }
    }

    /// The experiments that it names. Without a plan these are the baselines of this pattern, because the
    /// name of a pattern alone means them. Without baselines, all experiments of this pattern.
    fn select(&self, keys: &[ExperimentKey]) -> Vec<usize> {
        let fits = |key: &ExperimentKey| {
            key.pattern.eq_ignore_ascii_case(&self.pattern)
                && self.is_in_regime(key.regime)
                && self.plan.as_ref().is_none_or(|plan| *plan == key.micro_benchmark)
                && self.value.as_ref().is_none_or(|value| is_value(key, value))
                && self.mode.is_none_or(|mode| mode == key.mode)
        };
        let found: Vec<usize> = (0..keys.len()).filter(|&index| fits(&keys[index])).collect();
        let is_baseline = |&index: &usize| keys[index].micro_benchmark == BASELINE;
        if self.plan.is_none() && found.iter().any(is_baseline) {
            return found.into_iter().filter(is_baseline).collect();
        }
        found
    }
}

/// The regime that a text ends with.
fn with_regime(text: &str) -> (&str, Option<Regime>) {
    let text = text.trim();
    match (text.strip_suffix(Regime::BURST_ENDING), text.strip_suffix(".sustained")) {
        (Some(before), _) => (before, Some(Regime::Burst)),
        (_, Some(before)) => (before, Some(Regime::Sustained)),
        _ => (text, None),
    }
}

/// Without spaces, in lower case: `32 KiB` and `32kib` are one value.
fn plain(value: &str) -> String {
    value.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase()
}

fn is_value(key: &ExperimentKey, value: &str) -> bool {
    let number = value.parse::<f64>().ok().or_else(|| value.parse::<Bytes>().ok().map(|size| size.0 as f64));
    plain(&key.label) == value || (!key.label.is_empty() && number == Some(key.value))
}

/// The name of this experiment in an expectation; with the mode only if it has both.
fn name(keys: &[ExperimentKey], index: usize) -> String {
    let key = &keys[index];
    let plan = match key.micro_benchmark.as_str() {
        BASELINE => String::new(),
        plan => format!("{plan}:"),
    };
    let value = if key.label.is_empty() { String::new() } else { format!("@{}", plain_label(key)) };
    let other = match key.mode {
        Mode::Read => Mode::Write,
        Mode::Write => Mode::Read,
    };
    let mode = match key.mode {
        _ if !keys.contains(&ExperimentKey { mode: other, ..key.clone() }) => "",
        Mode::Read => ".reads",
        Mode::Write => ".writes",
    };
    format!("{plan}{}{value}{mode}", key.name())
}

fn plain_label(key: &ExperimentKey) -> String {
    key.label.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests;
