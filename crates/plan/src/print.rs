//! Prints a plan as a file of the language. Every pattern is printed in full, without names and defaults.

use std::fmt::Write;

use crate::parameter::Quantity;
use crate::parse::{ARRIVALS, CONTENTS, MODES, WRITE_THROUGH};
use crate::{
    Basic, Experiment, ExperimentValue, IoSize, Location, ModeRule, Pattern, PatternParameter, Plan, Time,
};

impl Plan {
    /// The plan as a file of the language. [`Plan::parse`] returns the same plan.
    pub fn to_toml(&self) -> String {
        let mut text = format!("version = {}\n", self.version);
        for (key, value) in [("name", &self.name), ("title", &self.title), ("description", &self.description)]
        {
            line(&mut text, key, quoted(value));
        }
        for experiment in &self.experiments {
            print_experiment(&mut text, experiment);
        }
        text
    }
}

fn print_experiment(text: &mut String, experiment: &Experiment) {
    text.push_str("\n[[experiment]]\n");
    line(text, "name", quoted(&experiment.name));
    if let Some(vary) = &experiment.vary {
        line(text, "vary", quoted(vary.parameter.name()));
        let list = |values: &[ExperimentValue]| {
            let values: Vec<String> =
                values.iter().map(|value| literal(vary.parameter, value.number)).collect();
            format!("[{}]", values.join(", "))
        };
        line(text, "values", list(&vary.values));
        line(text, "quick_values", list(&vary.quick_values));
    }
    print_pattern(text, &experiment.pattern);
}

fn print_pattern(text: &mut String, pattern: &Pattern) {
    print_basic(text, &pattern.first);
    let mut number = |parameter: PatternParameter, value: u64| {
        line(text, parameter.key(), literal(parameter, value as f64));
    };
    number(PatternParameter::ParallelDegree, u64::from(pattern.parallel_degree));
    number(PatternParameter::QueueDepth, u64::from(pattern.queue_depth));
    if let Some(count) = pattern.io_count {
        number(PatternParameter::IoCount, count);
    }
    number(PatternParameter::IoIgnore, pattern.io_ignore);
    if let Some(duration) = pattern.duration {
        number(PatternParameter::Duration, duration.0);
    }
    if pattern.write_through {
        line(text, WRITE_THROUGH, "true".to_owned());
    }
    if let Some(mix) = &pattern.mix {
        text.push_str("\n[experiment.mix]\n");
        line(text, PatternParameter::Ratio.key(), mix.ratio.to_string());
        print_basic(text, &mix.second);
    }
}

fn print_basic(text: &mut String, basic: &Basic) {
    match basic.mode {
        ModeRule::Always(mode) => line(text, "mode", quoted(word(&MODES, mode))),
        ModeRule::WriteProbability(p) => set(text, PatternParameter::WriteProbability, p),
    }
    print_location(text, basic.location);
    match basic.io_size {
        IoSize::Fixed(size) => set(text, PatternParameter::IoSize, size.0 as f64),
        IoSize::Uniform { min, max } => {
            let table = format!("{{ min = {}, max = {} }}", quoted(&min.exact()), quoted(&max.exact()));
            line(text, PatternParameter::IoSize.key(), table);
        }
    }
    if let Some(size) = basic.slot_size {
        set(text, PatternParameter::SlotSize, size.0 as f64);
    }
    set(text, PatternParameter::IoShift, basic.io_shift.0 as f64);
    set(text, PatternParameter::TargetOffset, basic.target_offset.0 as f64);
    if let Some(size) = basic.target_size {
        set(text, PatternParameter::TargetSize, size.0 as f64);
    }
    print_time(text, basic.time);
    line(text, "content", quoted(word(&CONTENTS, basic.content)));
}

fn print_location(text: &mut String, location: Location) {
    let (name, parameters): (&str, &[(PatternParameter, f64)]) = match location {
        Location::Sequential => ("sequential", &[]),
        Location::Random => ("random", &[]),
        Location::Permutation => ("permutation", &[]),
        Location::Ordered { incr } => ("ordered", &[(PatternParameter::Incr, incr as f64)]),
        Location::Partitioned { partitions } => {
            ("partitioned", &[(PatternParameter::Partitions, f64::from(partitions))])
        }
        Location::Zipf { theta } => ("zipf", &[(PatternParameter::Theta, theta)]),
        Location::HotCold { ios, space } => {
            ("hot_cold", &[(PatternParameter::HotIos, ios), (PatternParameter::HotSpace, space)])
        }
    };
    line(text, "location", quoted(name));
    for (parameter, value) in parameters {
        set(text, *parameter, *value);
    }
}

fn print_time(text: &mut String, time: Time) {
    match time {
        Time::Consecutive => {}
        Time::Pause { pause } => set(text, PatternParameter::Pause, pause.0 as f64),
        Time::Burst { burst, pause } => {
            set(text, PatternParameter::Burst, f64::from(burst));
            set(text, PatternParameter::Pause, pause.0 as f64);
        }
        Time::Rate { per_second, arrival } => {
            set(text, PatternParameter::Rate, per_second);
            line(text, "arrival", quoted(word(&ARRIVALS, arrival)));
        }
    }
}

fn set(text: &mut String, parameter: PatternParameter, number: f64) {
    line(text, parameter.key(), literal(parameter, number));
}

fn line(text: &mut String, key: &str, value: String) {
    writeln!(text, "{key} = {value}").expect("a string takes all text");
}

/// A number in the notation of the language.
fn literal(parameter: PatternParameter, number: f64) -> String {
    match parameter.quantity() {
        Quantity::Bytes | Quantity::Nanos => quoted(&ExperimentValue::of(parameter, number).label),
        Quantity::Count | Quantity::LongCount | Quantity::Integer => format!("{number:.0}"),
        // Debug keeps the point, and Display does not. Without the point it would be an integer.
        Quantity::Real => format!("{number:?}"),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn word<T: PartialEq>(words: &[(&'static str, T)], meaning: T) -> &'static str {
    words.iter().find(|(_, other)| *other == meaning).expect("the words cover the type").0
}
