//! Parses the text of a plan.
//!
//! # Model
//! A file is a table with a version and a name, and either experiments or the keys of one pattern. A pattern
//! starts from a named one or gives its own mode and location; every other key has a default.
//! docs/pattern-language.md describes the whole language.

use std::collections::BTreeMap;

use flashlab_base::{Bytes, Mode};
use toml::de::DeTable;

use crate::check::{Illegal, check};
use crate::parameter::Quantity;
use crate::section::{Entry, Section, Source};
use crate::vary::read_vary;
use crate::{
    Arrival, Basic, Content, Experiment, IoSize, Location, Mix, ModeRule, PLAN_VERSION, Pattern,
    PatternParameter, Plan, PlanError, Time,
};

const PLAN_KEYS: [&str; 6] = ["version", "name", "title", "description", "patterns", "experiment"];
const VARY_KEYS: [&str; 3] = ["vary", "values", "quick_values"];
/// The keys of a basic pattern that are not parameters.
const BASIC_KEYS: [&str; 5] = ["pattern", "mode", "location", "arrival", "content"];
pub(crate) const WRITE_THROUGH: &str = "write_through";

pub(crate) const MODES: [(&str, Mode); 2] = [("read", Mode::Read), ("write", Mode::Write)];
pub(crate) const ARRIVALS: [(&str, Arrival); 2] = [("fixed", Arrival::Fixed), ("poisson", Arrival::Poisson)];
pub(crate) const CONTENTS: [(&str, Content); 5] = [
    ("zeros", Content::Zeros),
    ("ones", Content::Ones),
    ("half", Content::Half),
    ("incompressible", Content::Incompressible),
    ("stamped", Content::Stamped),
];
/// Each location function with its parameters' defaults.
pub(crate) const LOCATIONS: [(&str, Location); 7] = [
    ("sequential", Location::Sequential),
    ("random", Location::Random),
    ("permutation", Location::Permutation),
    ("ordered", Location::Ordered { incr: 1 }),
    ("partitioned", Location::Partitioned { partitions: 1 }),
    ("zipf", Location::Zipf { theta: 0.99 }),
    ("hot_cold", Location::HotCold { ios: 0.8, space: 0.2 }),
];

fn basic_keys() -> Vec<&'static str> {
    let parameters =
        PatternParameter::all().filter(|parameter| parameter.is_of_basic()).map(PatternParameter::key);
    BASIC_KEYS.into_iter().chain(parameters).collect()
}

fn pattern_keys() -> Vec<&'static str> {
    let whole = PatternParameter::all()
        .filter(|parameter| !parameter.is_of_basic() && *parameter != PatternParameter::Ratio);
    basic_keys().into_iter().chain(["mix", WRITE_THROUGH]).chain(whole.map(PatternParameter::key)).collect()
}

type Named = BTreeMap<String, Pattern>;

impl Plan {
    /// Parses a plan. `file_name` is used in error messages.
    ///
    /// # Errors
    /// What is wrong, with file and line, the key, the value and its legal range.
    pub fn parse(text: &str, file_name: &str) -> Result<Plan, PlanError> {
        let source = Source { file: file_name, text };
        let document = DeTable::parse(text).map_err(|error| PlanError::Syntax {
            file: file_name.to_owned(),
            line: source.line(error.span().map_or(0, |span| span.start)),
            message: error.message().trim().replace('\n', "; "),
        })?;
        let legal: Vec<&str> = PLAN_KEYS.into_iter().chain(VARY_KEYS).chain(pattern_keys()).collect();
        let file = Section::new(source, document.get_ref(), 0, &legal)?;
        check_version(&file)?;
        let name = read_name(&file, "a name for the plan, as in name = \"granularity\"")?;
        let text_of = |key| file.get(key).map_or(Ok(""), |entry: Entry| entry.text());
        let (title, description) = (text_of("title")?, text_of("description")?);
        let named = read_named_patterns(&file)?;
        let experiments = match file.get("experiment") {
            Some(list) => read_experiments(&file, list, &named)?,
            None => {
                let pattern = read_pattern(&file, &named)?;
                let vary = read_vary(&[file], &pattern)?;
                vec![Experiment { name: name.to_owned(), pattern, vary }]
            }
        };
        Ok(Plan::new(name, title, description, experiments))
    }
}

fn check_version(file: &Section) -> Result<(), PlanError> {
    let legal = format!("{PLAN_VERSION}, the version of the language that this flashlab reads");
    let entry = file.require("version", &format!("version = {PLAN_VERSION}"))?;
    match entry.number(Quantity::Count) {
        Ok(version) if version == f64::from(PLAN_VERSION) => Ok(()),
        _ => Err(entry.illegal(legal)),
    }
}

fn read_name<'a>(section: &Section<'a>, legal: &str) -> Result<&'a str, PlanError> {
    let entry = section.require("name", legal)?;
    let name = entry.text()?;
    // Names become parts of file names and of lines in reports.
    let fits = |c: char| c.is_alphanumeric() || "-_./+ ".contains(c);
    if name.trim().is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(entry.illegal("1 to 64 letters, digits, blanks and - _ . / +"));
    }
    Ok(name)
}

/// The baseline patterns, and the named patterns of the file.
fn read_named_patterns(file: &Section) -> Result<Named, PlanError> {
    let baselines: Named = Pattern::BASELINES
        .into_iter()
        .map(|name| (name.to_owned(), Pattern::baseline(name).expect("each baseline has a pattern")))
        .collect();
    let mut named = baselines.clone();
    let Some(tables) = file.get("patterns") else { return Ok(named) };
    for (name, entry) in tables.named_tables()?.entries() {
        if baselines.contains_key(name) {
            return Err(entry.illegal("another name, as SR, RR, SW and RW are the baseline patterns"));
        }
        let section = entry.section(&pattern_keys())?;
        named.insert(name.to_owned(), read_pattern(&section, &baselines)?);
    }
    Ok(named)
}

fn read_experiments(file: &Section, list: Entry, named: &Named) -> Result<Vec<Experiment>, PlanError> {
    if let Some(stray) = pattern_keys().into_iter().find_map(|key| file.get(key)) {
        return Err(stray.illegal("in an [[experiment]], as this file has experiments"));
    }
    let legal: Vec<&str> = ["name"].into_iter().chain(VARY_KEYS).chain(pattern_keys()).collect();
    let mut experiments: Vec<Experiment> = Vec::new();
    for entry in list.list()? {
        let section = entry.section(&legal)?;
        let name = read_name(&section, "a name for the experiment, as in name = \"SR\"")?;
        if experiments.iter().any(|other| other.name == name) {
            return Err(section.illegal(
                "name",
                format!("{name:?}"),
                "another name, as an experiment above has this one".to_owned(),
            ));
        }
        let pattern = read_pattern(&section, named)?;
        let vary = read_vary(&[section, *file], &pattern)?;
        experiments.push(Experiment { name: name.to_owned(), pattern, vary });
    }
    if experiments.is_empty() {
        return Err(list.illegal("at least one [[experiment]] table"));
    }
    Ok(experiments)
}

/// A pattern whose parameters are all within their ranges.
fn read_pattern(section: &Section, named: &Named) -> Result<Pattern, PlanError> {
    let mut pattern = read_base(section, named)?;
    read_basic(section, &mut pattern.first)?;
    for parameter in PatternParameter::all().filter(|parameter| !parameter.is_of_basic()) {
        // The ratio stands in the mix.
        if let Some(entry) = section.get(parameter.key()).filter(|_| parameter != PatternParameter::Ratio) {
            let number = entry.number(parameter.quantity())?;
            parameter.set(&mut pattern, number).map_err(|use_it| entry.misplaced(use_it))?;
        }
    }
    if let Some(entry) = section.get(WRITE_THROUGH) {
        pattern.write_through = entry.truth()?;
    }
    let mix = match section.get("mix") {
        None => None,
        Some(entry) => {
            let legal: Vec<&str> = basic_keys().into_iter().chain([PatternParameter::Ratio.key()]).collect();
            let mix = entry.section(&legal)?;
            pattern.mix = Some(read_mix(&mix, &pattern.first, named)?);
            Some(mix)
        }
    };
    check(&pattern).map_err(|illegal| {
        let Illegal { parameter, of_second, value, legal } = illegal;
        let in_mix = of_second || parameter == PatternParameter::Ratio;
        mix.filter(|_| in_mix).as_ref().unwrap_or(section).illegal(parameter.key(), value, legal)
    })?;
    Ok(pattern)
}

/// The pattern from which this one starts.
fn read_base(section: &Section, named: &Named) -> Result<Pattern, PlanError> {
    let Some(entry) = section.get("pattern") else {
        if section.get(PatternParameter::WriteProbability.key()).is_none() {
            section
                .require("mode", "mode = \"read\" or \"write\", or the name of a pattern to depart from")?;
        }
        section.require("location", "the location function, as in location = \"random\"")?;
        return Ok(Pattern::baseline("SR").expect("SR is a baseline"));
    };
    let names = || named.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let name = entry.text()?;
    named.get(name).cloned().ok_or_else(|| entry.illegal(format!("the name of a pattern: {}", names())))
}

/// Pattern #2 of a mix. It uses the target of #1, unless it has its own.
fn read_mix(section: &Section, first: &Basic, named: &Named) -> Result<Mix, PlanError> {
    let base = read_base(section, named)?;
    if base.mix.is_some() {
        return Err(section.illegal("pattern", String::new(), "a basic pattern, not a mix".to_owned()));
    }
    let mut second = base.first;
    let own = section.get("target_offset").or(section.get("target_size")).is_some();
    if !own && second.target_offset == Bytes::ZERO && second.target_size.is_none() {
        (second.target_offset, second.target_size) = (first.target_offset, first.target_size);
    }
    read_basic(section, &mut second)?;
    let ratio = match section.get(PatternParameter::Ratio.key()) {
        Some(entry) => entry.number(Quantity::Count)? as u32,
        None => 1,
    };
    Ok(Mix { second, ratio })
}

fn read_basic(section: &Section, basic: &mut Basic) -> Result<(), PlanError> {
    if let Some(entry) = section.get("mode") {
        if let Some(probability) = section.get(PatternParameter::WriteProbability.key()) {
            return Err(probability.misplaced("without `mode`"));
        }
        basic.mode = ModeRule::Always(entry.one_of(&MODES)?);
    }
    if let Some(entry) = section.get("location") {
        basic.location = entry.one_of(&LOCATIONS)?;
    }
    if let Some(entry) = section.get("content") {
        basic.content = entry.one_of(&CONTENTS)?;
    }
    for parameter in PatternParameter::all().filter(|parameter| parameter.is_of_basic()) {
        let Some(entry) = section.get(parameter.key()) else { continue };
        if parameter == PatternParameter::IoSize && entry.is_table() {
            basic.io_size = read_random_size(&entry)?;
            continue;
        }
        let number = entry.number(parameter.quantity())?;
        parameter.set_basic(basic, number).map_err(|use_it| entry.misplaced(use_it))?;
    }
    if let Some(entry) = section.get("arrival") {
        let Time::Rate { arrival, .. } = &mut basic.time else {
            return Err(entry.misplaced("with `per_second`"));
        };
        *arrival = entry.one_of(&ARRIVALS)?;
    }
    Ok(())
}

/// `{ min = "512B", max = "128KiB" }`.
fn read_random_size(entry: &Entry) -> Result<IoSize, PlanError> {
    let section = entry.section(&["min", "max"])?;
    let size = |key| {
        let entry = section.require(key, "a size such as \"32KiB\"")?;
        Ok(Bytes(entry.number(Quantity::Bytes)? as u64))
    };
    Ok(IoSize::Uniform { min: size("min")?, max: size("max")? })
}
