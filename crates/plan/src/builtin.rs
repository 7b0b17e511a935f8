//! The plans that come with the program. They are files of the language and have no code of their own.

use crate::Plan;

/// A shipped plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Its name, which is the plan's.
    pub name: &'static str,
    /// The file, with its comments.
    pub text: &'static str,
}

macro_rules! builtins {
    ($($name:literal),* $(,)?) => {
        &[$(Builtin { name: $name, text: include_str!(concat!("../plans/", $name, ".toml")) }),*]
    };
}

const BUILTINS: &[Builtin] = builtins![
    "baselines",
    "granularity",
    "alignment",
    "locality",
    "partitioning",
    "order",
    "parallelism",
    "mix",
    "pause",
    "bursts",
    "random-state",
    "sequential-state",
];

/// All shipped plans except the baselines and the two states.
const MICRO_BENCHMARK_COUNT: usize = BUILTINS.len() - 3;

impl Builtin {
    /// The plan.
    pub fn plan(&self) -> Plan {
        Plan::parse(self.text, &format!("{}.toml", self.name)).expect("the shipped plans are legal")
    }
}

impl Plan {
    /// The names of the micro-benchmarks: uFLIP's nine (section 3.2) in the paper's order, and any that follow them.
    pub const MICRO_BENCHMARKS: [&str; MICRO_BENCHMARK_COUNT] = {
        let mut names = [""; MICRO_BENCHMARK_COUNT];
        let mut index = 0;
        while index < names.len() {
            // The baselines come before them.
            names[index] = BUILTINS[index + 1].name;
            index += 1;
        }
        names
    };

    /// The shipped plans: the baselines, uFLIP's nine micro-benchmarks in the paper's order, and the
    /// two device states.
    pub fn builtins() -> &'static [Builtin] {
        BUILTINS
    }

    /// The shipped plan of this name.
    pub fn builtin(name: &str) -> Option<Plan> {
        BUILTINS.iter().find(|builtin| builtin.name == name).map(Builtin::plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_micro_benchmarks_are_the_papers() {
        let names = Plan::MICRO_BENCHMARKS.join(" ");
        assert_eq!(names, "granularity alignment locality partitioning order parallelism mix pause bursts");
    }
}
