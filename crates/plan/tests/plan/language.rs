//! Parses and prints the language. The tests cover the error messages for users, printing and parsing as
//! inverse functions, random texts without a panic, and the examples of the manual.

use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::{
    Arrival, Basic, Choice, Content, Experiment, ExperimentValue, IoSize, Location, Mix, ModeRule, Pattern,
    PatternParameter, Plan, Time, Vary,
};
use proptest::prelude::*;

/// Parses a file with one pattern: these lines, after a version and a name.
fn read(lines: &str) -> Result<Plan, String> {
    parse(&format!("version = 1\nname = \"p\"\n{lines}"))
}

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(text, "p.toml").map_err(|error| error.to_string())
}

fn error_of(lines: &str) -> String {
    read(lines).expect_err("this is a mistake")
}

/// The error of sequential reads with one more line, which is line 5.
fn with(line: &str) -> String {
    error_of(&format!("mode = \"read\"\nlocation = \"sequential\"\n{line}"))
}

/// The error of experiments that vary, from line 3 on.
fn varying(vary: &str) -> String {
    error_of(&format!("{vary}\n[[experiment]]\nname = \"a\"\npattern = \"SW\""))
}

fn pattern_of(lines: &str) -> Pattern {
    read(lines).unwrap_or_else(|error| panic!("{error}")).experiments.remove(0).pattern
}

#[test]
fn a_file_may_be_one_pattern() {
    let pattern = pattern_of("mode = \"write\"\nlocation = \"random\"\nio_size = \"4KiB\"\nio_count = 10");
    let mut expected = Pattern::baseline("RW").unwrap();
    expected.first.io_size = IoSize::Fixed(Bytes::kib(4));
    expected.io_count = Some(10);
    assert_eq!(pattern, expected);
}

#[test]
fn a_pattern_departs_from_another_along_the_papers_identities() {
    let first = |lines: &str| pattern_of(&format!("pattern = \"SW\"\n{lines}")).first;
    assert_eq!(first("").mode, ModeRule::Always(Mode::Write));
    assert_eq!(first("incr = -1").location, Location::Ordered { incr: -1 });
    assert_eq!(first("partitions = 8").location, Location::Partitioned { partitions: 8 });
    assert_eq!(first("location = \"zipf\"\ntheta = 1").location, Location::Zipf { theta: 1.0 });
    let pause = Nanos::from_millis(100);
    assert_eq!(first("pause = \"100ms\"").time, Time::Pause { pause });
    assert_eq!(first("burst = 10\npause = \"100ms\"").time, Time::Burst { burst: 10, pause });
    let rate = Time::Rate { per_second: 50.0, arrival: Arrival::Poisson };
    assert_eq!(first("arrival = \"poisson\"\nper_second = 50").time, rate);
    assert_eq!(first("write_probability = 0.5").mode, ModeRule::WriteProbability(0.5));
}

#[test]
fn patterns_have_names_and_mixes_share_their_target() {
    let mixed = pattern_of(
        "[patterns.area]\npattern = \"SR\"\ntarget_offset = \"1MiB\"\ntarget_size = \"8MiB\"\n\
         [[experiment]]\nname = \"m\"\npattern = \"area\"\nmix = { pattern = \"RW\", ratio = 4 }",
    );
    let mix = mixed.mix.unwrap();
    assert_eq!((mix.ratio, mix.second.location), (4, Location::Random));
    assert_eq!((mix.second.target_offset, mix.second.target_size), (Bytes::mib(1), Some(Bytes::mib(8))));
    let apart = pattern_of(
        "pattern = \"SR\"\ntarget_size = \"8MiB\"\nmix = { pattern = \"RW\", target_offset = \"8MiB\" }",
    );
    let second = apart.mix.unwrap().second;
    assert_eq!((second.target_offset, second.target_size), (Bytes::mib(8), None));
}

#[test]
fn values_come_from_the_experiment_or_else_from_the_plan() {
    let plan = read(
        "vary = \"IOSize\"\nvalues = [\"1KiB\", 2048, \"4KiB\", \"8KiB\", \"16KiB\", \"32KiB\", \"64KiB\"]\n\
         [[experiment]]\nname = \"a\"\npattern = \"SR\"\n\
         [[experiment]]\nname = \"b\"\npattern = \"SR\"\nvalues = [\"1KiB\"]\n\
         [[experiment]]\nname = \"c\"\npattern = \"SR\"\nvary = \"Incr\"\nvalues = [-2, 5]",
    )
    .unwrap();
    let labels = |index: usize, choice| {
        let runs = plan.experiments[index].runs(choice);
        runs.map(|(value, _)| value.label).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(labels(0, Choice::Full), "1KiB 2KiB 4KiB 8KiB 16KiB 32KiB 64KiB");
    assert_eq!(labels(0, Choice::Quick), "1KiB 2KiB 8KiB 16KiB 64KiB");
    assert_eq!(labels(1, Choice::Full), "1KiB");
    assert_eq!((labels(2, Choice::Full), plan.parameter), ("-2 5".to_owned(), None));
}

#[test]
fn a_parameter_varies_in_each_part_of_a_mix_that_has_it() {
    let varied = |first: &str, second: &str| {
        let vary = "vary = \"Incr\"\nvalues = [2]";
        let plan =
            read(&format!("pattern = \"{first}\"\nmix = {{ pattern = \"{second}\" }}\n{vary}")).unwrap();
        let pattern = plan.experiments[0].runs(Choice::Full).next().unwrap().1;
        [pattern.first.location, pattern.mix.unwrap().second.location]
    };
    let ordered = Location::Ordered { incr: 2 };
    assert_eq!(varied("SR", "RW"), [ordered, Location::Random]);
    assert_eq!(varied("RR", "SW"), [Location::Random, ordered]);
    assert_eq!(varied("SR", "SW"), [ordered, ordered]);
}

#[test]
fn mistakes_in_the_file_as_such() {
    insta::assert_snapshot!(parse("version = 1\nname = \n").unwrap_err(), @"p.toml:2: this is not TOML: string values must be quoted, expected literal string");
    insta::assert_snapshot!(parse("name = \"p\"").unwrap_err(), @"p.toml:1: `version` is missing: add version = 1");
    insta::assert_snapshot!(parse("version = 2\nname = \"p\"").unwrap_err(), @"p.toml:1: version = 2: must be 1, the version of the language that this flashlab reads");
    insta::assert_snapshot!(parse("version = 1").unwrap_err(), @r#"p.toml:1: `name` is missing: add a name for the plan, as in name = "granularity""#);
    insta::assert_snapshot!(parse("version = 1\nname = \"a\\nb\"").unwrap_err(), @r#"p.toml:2: name = "a\nb": must be 1 to 64 letters, digits, blanks and - _ . / +"#);
    insta::assert_snapshot!(parse("version = 1\nname = \"p\"\ntitle = 5").unwrap_err(), @"p.toml:3: title = 5: must be a text in quotes");
    insta::assert_snapshot!(error_of("experiment = 5"), @"p.toml:3: experiment = 5: must be a list in [ ]");
    insta::assert_snapshot!(error_of("experiment = []"), @"p.toml:3: experiment = []: must be at least one [[experiment]] table");
    insta::assert_snapshot!(error_of("experiment = [5]"), @"p.toml:3: experiment = 5: must be a table");
    insta::assert_snapshot!(error_of("patterns = 5"), @"p.toml:3: patterns = 5: must be a table");
    insta::assert_snapshot!(error_of("mode = \"read\"\n[[experiment]]\nname = \"a\"\npattern = \"SR\""), @r#"p.toml:3: mode = "read": must be in an [[experiment]], as this file has experiments"#);
    insta::assert_snapshot!(error_of("[patterns.SR]\npattern = \"RR\""), @"p.toml:3: SR = [patterns.SR]: must be another name, as SR, RR, SW and RW are the baseline patterns");
    let twice = "[[experiment]]\nname = \"a\"\npattern = \"SR\"\n";
    insta::assert_snapshot!(error_of(&twice.repeat(2)), @r#"p.toml:7: name = "a": must be another name, as an experiment above has this one"#);
}

#[test]
fn deep_nesting_is_a_mistake_and_not_a_crash() {
    for opening in ["[", "{ a = ", "[ { a = "] {
        let text = format!("version = 1\nname = {}", opening.repeat(100_000));
        assert!(parse(&text).unwrap_err().starts_with("p.toml:2: this is not TOML"));
    }
    assert!(parse(&format!("[{}a]", "a.".repeat(100_000))).unwrap_err().starts_with("p.toml:1:"));
}

#[test]
fn unknown_keys_and_missing_ones() {
    insta::assert_snapshot!(with("io_sise = \"4KiB\""), @"p.toml:5: unknown key `io_sise`: did you mean `io_size`?");
    insta::assert_snapshot!(with("IOSize = \"4KiB\""), @"p.toml:5: unknown key `IOSize`: did you mean `io_size`?");
    insta::assert_snapshot!(with("colour = 5"), @"p.toml:5: unknown key `colour`: legal here are version, name, title, description, patterns, experiment, vary, values, quick_values, pattern, mode, location, arrival, content, io_size, slot_size, io_shift, target_offset, target_size, incr, partitions, theta, hot_ios, hot_space, pause, burst, per_second, write_probability, mix, write_through, parallel_degree, queue_depth, io_count, io_ignore, duration");
    insta::assert_snapshot!(with("mix = { pattern = \"RR\", ration = 4 }"), @"p.toml:5: unknown key `ration`: did you mean `ratio`?");
    insta::assert_snapshot!(with("mix = { pattern = \"RR\", rate = 4 }"), @"p.toml:5: unknown key `rate`: legal here are pattern, mode, location, arrival, content, io_size, slot_size, io_shift, target_offset, target_size, incr, partitions, theta, hot_ios, hot_space, pause, burst, per_second, write_probability, ratio");
    insta::assert_snapshot!(error_of("location = \"random\""), @r#"p.toml:1: `mode` is missing: add mode = "read" or "write", or the name of a pattern to depart from"#);
    insta::assert_snapshot!(error_of("mode = \"read\""), @r#"p.toml:1: `location` is missing: add the location function, as in location = "random""#);
    insta::assert_snapshot!(error_of("[[experiment]]\npattern = \"SR\""), @r#"p.toml:3: `name` is missing: add a name for the experiment, as in name = "SR""#);
    insta::assert_snapshot!(with("io_size = { min = \"4KiB\" }"), @r#"p.toml:5: `max` is missing: add a size such as "32KiB""#);
}

#[test]
fn values_of_the_wrong_type_or_out_of_range() {
    insta::assert_snapshot!(error_of("mode = \"red\"\nlocation = \"random\""), @r#"p.toml:3: mode = "red": must be one of "read", "write""#);
    insta::assert_snapshot!(error_of("mode = \"read\"\nlocation = \"everywhere\""), @r#"p.toml:4: location = "everywhere": must be one of "sequential", "random", "permutation", "ordered", "partitioned", "zipf", "hot_cold""#);
    insta::assert_snapshot!(error_of("pattern = \"SX\""), @r#"p.toml:3: pattern = "SX": must be the name of a pattern: RR, RW, SR, SW"#);
    insta::assert_snapshot!(with("io_size = \"4 parsecs\""), @r#"p.toml:5: io_size = "4 parsecs": must be a size such as "32KiB", at most 8PiB"#);
    insta::assert_snapshot!(with("io_size = -4096"), @r#"p.toml:5: io_size = -4096: must be a size such as "32KiB", at most 8PiB"#);
    insta::assert_snapshot!(with("io_size = 0"), @"p.toml:5: io_size = 0: must be from 1B to 8PiB");
    insta::assert_snapshot!(with("io_size = \"9000TiB\""), @r#"p.toml:5: io_size = "9000TiB": must be a size such as "32KiB", at most 8PiB"#);
    insta::assert_snapshot!(with("io_size = { min = \"8KiB\", max = \"4KiB\" }"), @r#"p.toml:5: io_size = { min = "8KiB", max = "4KiB" }: must be such that 1B <= min <= max <= 8PiB"#);
    insta::assert_snapshot!(with("target_size = \"4KiB\""), @r#"p.toml:5: target_size = "4KiB": must be at least 32KiB, which is IOSize + IOShift"#);
    insta::assert_snapshot!(with("pause = 5"), @r#"p.toml:5: pause = 5: must be a duration such as "0.1ms", below 2502h"#);
    insta::assert_snapshot!(with("content = true"), @r#"p.toml:5: content = true: must be one of "zeros", "ones", "half", "incompressible", "stamped""#);
    insta::assert_snapshot!(with("parallel_degree = 0"), @"p.toml:5: parallel_degree = 0: must be from 1 to 1024");
    insta::assert_snapshot!(with("parallel_degree = 5_000_000_000"), @"p.toml:5: parallel_degree = 5_000_000_000: must be a whole number from 0 to 2^32 - 1");
    insta::assert_snapshot!(with("queue_depth = 4097"), @"p.toml:5: queue_depth = 4097: must be from 1 to 4096");
    insta::assert_snapshot!(with("queue_depth = 65\nparallel_degree = 64"), @"p.toml:5: queue_depth = 65: must be from 1 to 64, as 64 processes keep 4096 IOs in flight at most");
    insta::assert_snapshot!(with("pause = \"1ms\"\nqueue_depth = 2"), @"p.toml:6: queue_depth = 2: must be 1 where there is a pause, which counts from the end of the previous IO (`per_second` spaces the IOs of a queue)");
    insta::assert_snapshot!(with("queue_depth = 2\nmix = { pattern = \"RR\", pause = \"1ms\", burst = 3 }"), @"p.toml:5: queue_depth = 2: must be 1 where there is a pause, which counts from the end of the previous IO (`per_second` spaces the IOs of a queue)");
    insta::assert_snapshot!(with("write_through = 1"), @"p.toml:5: write_through = 1: must be true or false");
    insta::assert_snapshot!(with("queue_depth = 1.5"), @"p.toml:5: queue_depth = 1.5: must be a whole number from 0 to 2^32 - 1");
    insta::assert_snapshot!(with("io_count = 10\nio_ignore = 10"), @"p.toml:6: io_ignore = 10: must be below io_count (10), or no IO is left to measure");
    insta::assert_snapshot!(with("io_ignore = 10_000_000_000_000_000"), @"p.toml:5: io_ignore = 10_000_000_000_000_000: must be a whole number from 0 to 2^53");
    insta::assert_snapshot!(with("duration = \"0\""), @r#"p.toml:5: duration = "0": must be longer than 0 and below 2502h"#);
    insta::assert_snapshot!(with("incr = 1.5"), @"p.toml:5: incr = 1.5: must be a whole number from -2^53 to 2^53");
    insta::assert_snapshot!(with("partitions = 0"), @"p.toml:5: partitions = 0: must be at least 1");
    insta::assert_snapshot!(with("per_second = \"many\""), @r#"p.toml:5: per_second = "many": must be a number"#);
    insta::assert_snapshot!(with("per_second = inf"), @"p.toml:5: per_second = inf: must be above 0 and at most 1000000000 IOs a second");
    insta::assert_snapshot!(with("mix = { pattern = \"RR\", ratio = 0 }"), @"p.toml:5: ratio = 0: must be at least 1");
    insta::assert_snapshot!(with("mix = \"RR\""), @r#"p.toml:5: mix = "RR": must be a table"#);
}

#[test]
fn parameters_of_another_pattern() {
    insta::assert_snapshot!(with("write_probability = 0.5"), @"p.toml:5: write_probability = 0.5: must be left out, or used without `mode`");
    insta::assert_snapshot!(with("theta = 1.0"), @r#"p.toml:5: theta = 1.0: must be left out, or used with location = "zipf""#);
    insta::assert_snapshot!(with("hot_ios = 0.5"), @r#"p.toml:5: hot_ios = 0.5: must be left out, or used with location = "hot_cold""#);
    insta::assert_snapshot!(with("burst = 10"), @"p.toml:5: burst = 10: must be left out, or used with a `pause`");
    insta::assert_snapshot!(with("pause = \"1ms\"\nper_second = 10"), @"p.toml:6: per_second = 10: must be left out, or used without `pause`");
    insta::assert_snapshot!(with("arrival = \"poisson\""), @r#"p.toml:5: arrival = "poisson": must be left out, or used with `per_second`"#);
    insta::assert_snapshot!(with("per_second = 5\nmix = { pattern = \"RR\" }"), @"p.toml:5: per_second = 5: must be given for both parts of the mix, or for none");
    insta::assert_snapshot!(with("\n[mix]\npattern = \"RR\"\nper_second = 5"), @"p.toml:8: per_second = 5: must be given for both parts of the mix, or for none");
    insta::assert_snapshot!(error_of("pattern = \"RR\"\nincr = 2"), @"p.toml:4: incr = 2: must be left out, or used with a sequential or ordered location");
    insta::assert_snapshot!(error_of("pattern = \"RR\"\npartitions = 2"), @"p.toml:4: partitions = 2: must be left out, or used with a sequential or partitioned location");
    insta::assert_snapshot!(error_of(
        "[patterns.m]\npattern = \"SR\"\nmix = { pattern = \"RR\" }\n\
         [[experiment]]\nname = \"a\"\npattern = \"SR\"\nmix = { pattern = \"m\" }"
    ), @r#"p.toml:9: pattern = "m": must be a basic pattern, not a mix"#);
}

#[test]
fn mistakes_in_what_varies() {
    insta::assert_snapshot!(varying("vary = \"io_size\""), @r#"p.toml:3: vary = "io_size": must be a parameter's name: did you mean "IOSize"?"#);
    insta::assert_snapshot!(varying("vary = \"Colour\""), @r#"p.toml:3: vary = "Colour": must be a parameter's name: one of IOSize, SlotSize, IOShift, TargetOffset, TargetSize, Incr, Partitions, Theta, HotIOs, HotSpace, Pause, Burst, Rate, WriteProbability, Ratio, ParallelDegree, QueueDepth, IOCount, IOIgnore, Duration"#);
    insta::assert_snapshot!(varying("vary = \"IOSize\""), @"p.toml:3: `values` is missing: add the list of values that the parameter takes");
    insta::assert_snapshot!(varying("values = [1]"), @"p.toml:3: values = [1]: must be left out, or used with `vary`, the parameter's name");
    insta::assert_snapshot!(varying("vary = \"IOSize\"\nvalues = 5"), @"p.toml:4: values = 5: must be a list in [ ]");
    insta::assert_snapshot!(varying("vary = \"IOSize\"\nvalues = []"), @"p.toml:4: values = []: must be a list of one value at least");
    insta::assert_snapshot!(varying("vary = \"IOSize\"\nvalues = [\n  \"1KiB\",\n  \"big\",\n]"), @r#"p.toml:6: values = "big": must be a size such as "32KiB", at most 8PiB"#);
    insta::assert_snapshot!(varying("vary = \"Incr\"\nvalues = [1, 3, 2]"), @"p.toml:4: values = 2: must be greater than the value before it");
    insta::assert_snapshot!(varying("vary = \"Partitions\"\nvalues = [0, 1]"), @"p.toml:4: values = 0: must be at least 1");
    insta::assert_snapshot!(varying("vary = \"Ratio\"\nvalues = [1]"), @r#"p.toml:3: vary = "Ratio": must be left out, or used with a `mix`"#);
    insta::assert_snapshot!(error_of("pattern = \"SR\"\nqueue_depth = 2\nvary = \"Pause\"\nvalues = [\"1ms\"]"), @r#"p.toml:6: values = "1ms": must be such that QueueDepth is 1 where there is a pause, which counts from the end of the previous IO (`per_second` spaces the IOs of a queue); it is 2"#);
    insta::assert_snapshot!(error_of("pattern = \"SR\"\npause = \"1ms\"\nvary = \"QueueDepth\"\nvalues = [1, 2]"), @"p.toml:6: values = 2: must be 1 where there is a pause, which counts from the end of the previous IO (`per_second` spaces the IOs of a queue)");
    insta::assert_snapshot!(varying("vary = \"Burst\"\nvalues = [1]"), @r#"p.toml:3: vary = "Burst": must be left out, or used with a `pause`"#);
    insta::assert_snapshot!(varying("vary = \"Incr\"\nvalues = [1, 1]"), @"p.toml:4: values = 1: must be greater than the value before it");
    insta::assert_snapshot!(varying("vary = \"Incr\"\nvalues = [1, 2, 3, 4, 5, 6]\nquick_values = [1, 2, 3, 4, 5, 6]"), @"p.toml:5: quick_values = [1, 2, 3, 4, 5, 6]: must be at most 5 of `values`, with the first and the last");
    insta::assert_snapshot!(varying("vary = \"Incr\"\nvalues = [1, 3]\nquick_values = [1, 2, 3]"), @"p.toml:5: quick_values = [1, 2, 3]: must be at most 5 of `values`, with the first and the last");
    // Values of another parameter are not used.
    insta::assert_snapshot!(error_of(
        "vary = \"Incr\"\nvalues = [1]\n[[experiment]]\nname = \"a\"\npattern = \"SR\"\nvary = \"Partitions\""
    ), @"p.toml:8: `values` is missing: add the list of values that the parameter takes");
    insta::assert_snapshot!(varying("vary = \"Incr\"\nvalues = [1, 2]\nquick_values = [1]"), @"p.toml:5: quick_values = [1]: must be at most 5 of `values`, with the first and the last");
    insta::assert_snapshot!(error_of(
        "pattern = \"SR\"\ntarget_size = \"64KiB\"\nvary = \"IOSize\"\nvalues = [\"4KiB\", \"1MiB\"]"
    ), @r#"p.toml:6: values = "1MiB": must be such that TargetSize is at least 1MiB, which is IOSize + IOShift; it is 64KiB"#);
}

/// A number that a file can hold exactly, small or large.
fn number(least: u64) -> impl Strategy<Value = u64> {
    prop_oneof![least..100, least..=1 << 53]
}

fn any_basic() -> impl Strategy<Value = Basic> {
    let mode = prop_oneof![
        Just(ModeRule::Always(Mode::Read)),
        Just(ModeRule::Always(Mode::Write)),
        (0.0..=1.0).prop_map(ModeRule::WriteProbability),
    ];
    let location = prop_oneof![
        Just(Location::Sequential),
        Just(Location::Random),
        Just(Location::Permutation),
        (-(1i64 << 53)..=1 << 53).prop_map(|incr| Location::Ordered { incr }),
        (1u32..).prop_map(|partitions| Location::Partitioned { partitions }),
        (0.0..=10.0).prop_map(|theta| Location::Zipf { theta }),
        (1e-9..1.0, 1e-9..1.0).prop_map(|(ios, space)| Location::HotCold { ios, space }),
    ];
    let pause = || number(0).prop_map(Nanos);
    let arrival = prop_oneof![Just(Arrival::Fixed), Just(Arrival::Poisson)];
    let closed = prop_oneof![
        Just(Time::Consecutive),
        pause().prop_map(|pause| Time::Pause { pause }),
        (1u32.., pause()).prop_map(|(burst, pause)| Time::Burst { burst, pause }),
    ];
    let open = (1e-9..=1e9, arrival).prop_map(|(per_second, arrival)| Time::Rate { per_second, arrival });
    let size = prop_oneof![
        number(1).prop_map(|size| IoSize::Fixed(Bytes(size))),
        (number(1), number(1))
            .prop_map(|(a, b)| IoSize::Uniform { min: Bytes(a.min(b)), max: Bytes(a.max(b)) }),
    ];
    let content = prop::sample::select(vec![
        Content::Zeros,
        Content::Ones,
        Content::Half,
        Content::Incompressible,
        Content::Stamped,
    ]);
    let apart = proptest::option::of(0u64..1 << 20);
    let place = (0u64..1 << 20, apart, number(0), proptest::option::of(number(0)));
    (mode, location, prop_oneof![3 => closed, 1 => open], size, content, place).prop_map(
        |(mode, location, time, io_size, content, (shift, apart, offset, room))| {
            let smallest = match io_size {
                IoSize::Fixed(size) => size,
                IoSize::Uniform { min, .. } => min,
            };
            let io_shift = Bytes(shift);
            let slot_size = apart.map(|apart| Bytes((io_size.largest().0 + apart).min(1 << 53)));
            // A target has room for at least one IO, and its size is exact as a double.
            let target_size = room.map(|room| Bytes((smallest.0 + shift + room).min(1 << 53)));
            let target_size = target_size.filter(|size| size.0 >= smallest.0 + shift);
            Basic {
                mode,
                location,
                time,
                io_size,
                slot_size,
                io_shift,
                target_offset: Bytes(offset),
                target_size,
                content,
            }
        },
    )
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let mix = proptest::option::of((any_basic(), 1u32..));
    let length = (proptest::option::of(number(1)), 0.0..1.0, proptest::option::of(number(1)));
    (any_basic(), mix, 1u32..=1024, 1u32..=4096, any::<bool>(), length).prop_map(
        |(first, mix, parallel_degree, deep, write_through, (io_count, ignored, duration))| {
            let mix = mix.map(|(mut second, ratio)| {
                // Both parts of a mix are open loops, or none is.
                let is_open = |time| matches!(time, Time::Rate { .. });
                if is_open(first.time) != is_open(second.time) {
                    second.time = first.time;
                }
                Mix { second, ratio }
            });
            let io_ignore = (io_count.unwrap_or(1 << 53) as f64 * ignored * 0.999) as u64;
            let duration = duration.map(Nanos);
            let second = mix.as_ref().map(|mix: &Mix| &mix.second);
            let pauses = |basic: &Basic| matches!(basic.time, Time::Pause { .. } | Time::Burst { .. });
            // A queue has no pauses.
            let has_pause = pauses(&first) || second.is_some_and(pauses);
            let queue_depth = if has_pause { 1 } else { deep.min(4096 / parallel_degree) };
            Pattern { first, mix, parallel_degree, queue_depth, write_through, io_count, duration, io_ignore }
        },
    )
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let vary = proptest::option::of(prop::collection::btree_set(1u32..=1024, 1..9).prop_map(|numbers| {
        let parameter = PatternParameter::ParallelDegree;
        let values: Vec<ExperimentValue> =
            numbers.iter().map(|&n| ExperimentValue::of(parameter, f64::from(n))).collect();
        let mut quick_values = vec![values[0].clone()];
        quick_values.extend(values[1..].last().cloned());
        Vary { parameter, values, quick_values }
    }));
    let experiments = prop::collection::vec((any_pattern(), vary), 1..4);
    ("[A-Za-z0-9/-]{1,20}", ".{0,30}", "(?s).{0,60}", experiments).prop_map(
        |(name, title, description, experiments)| {
            let experiments = experiments.into_iter().enumerate().map(|(index, (pattern, vary))| {
                let most = if vary.is_some() { 4 } else { 4096 };
                let pattern = Pattern { queue_depth: pattern.queue_depth.min(most), ..pattern };
                Experiment { name: format!("{name} {index}"), pattern, vary }
            });
            Plan::new(&name, &title, &description, experiments.collect())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_is_read_back_as_the_same(plan in any_plan()) {
        let text = plan.to_toml();
        let read = Plan::parse(&text, "printed.toml");
        prop_assert_eq!(read.as_ref(), Ok(&plan), "{}", text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(?s).{0,200}") {
        let _ = Plan::parse(&text, "random.toml");
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Plan::parse(&String::from_utf8_lossy(&bytes), "random.toml");
    }

    #[test]
    fn no_damage_to_a_legal_file_makes_the_reader_panic(
        file in 0..Plan::builtins().len(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), 0..40usize, "(?s).{0,8}"), 1..6),
    ) {
        let mut characters: Vec<char> = Plan::builtins()[file].text.chars().collect();
        for (place, removed, inserted) in damages {
            let start = place.index(characters.len());
            let end = (start + removed).min(characters.len() - 1);
            characters.splice(start..end.max(start), inserted.chars());
        }
        let text: String = characters.into_iter().collect();
        if let Err(error) = Plan::parse(&text, "damaged.toml") {
            prop_assert!(error.to_string().starts_with("damaged.toml:"), "{}", error);
        }
    }

    #[test]
    fn no_other_words_in_a_legal_file_make_the_reader_panic(
        file in 0..Plan::builtins().len(),
        swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8),
    ) {
        // Legal words in wrong places pass the TOML parser, which random damage rarely does.
        let text = Plan::builtins()[file].to_owned().text;
        let mut words: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
        for (one, other) in swaps {
            let (one, other) = (one.index(words.len()), other.index(words.len()));
            words.swap(one, other);
        }
        if let Ok(plan) = Plan::parse(&words.concat(), "swapped.toml") {
            let count: usize = plan.experiments.iter().map(|e| e.runs(Choice::Full).count()).sum();
            prop_assert!(count > 0);
        }
    }
}

#[test]
fn a_baseline_is_printed_in_full() {
    let plan =
        parse("version = 1\nname = \"mine\"\npattern = \"RW\"\nvary = \"Pause\"\nvalues = [\"0.1ms\"]");
    insta::assert_snapshot!(plan.unwrap().to_toml(), @r#"
version = 1
name = "mine"
title = ""
description = ""

[[experiment]]
name = "mine"
vary = "Pause"
values = ["0.1ms"]
quick_values = ["0.1ms"]
mode = "write"
location = "random"
io_size = "32KiB"
io_shift = "0B"
target_offset = "0B"
content = "incompressible"
parallel_degree = 1
queue_depth = 1
io_ignore = 0
"#);
}

#[test]
fn the_manuals_examples_are_legal() {
    let manual = include_str!("../../../../docs/pattern-language.md");
    let examples: Vec<&str> =
        manual.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 5, "the manual lost its examples");
    for example in examples {
        let plan = parse(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
        assert!(plan.experiments.iter().all(|experiment| experiment.runs(Choice::Full).count() > 0));
    }
    for location in ["sequential", "random", "permutation", "ordered", "partitioned", "zipf", "hot_cold"] {
        assert!(manual.contains(&format!("`{location}`")), "{location} is not in the manual");
    }
    for parameter in PatternParameter::all() {
        assert!(manual.contains(&format!("`{}`", parameter.key())), "{parameter} is not in the manual");
        assert!(manual.contains(parameter.name()), "{parameter} is not in the manual");
    }
}
