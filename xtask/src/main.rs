//! `cargo xtask`: tasks of flashlab's developers.

mod bench_score;
mod calibrate;
mod compare_score;
mod crash;
mod dist;
mod exercise;
mod fit_zoo;
mod foreign;
mod fsx;
#[cfg(test)]
mod gate;
mod generated_part;
mod hidden;
mod kills;
mod live;
mod no_flash;
mod noise;
mod population;
mod reliability;
mod report;
mod reproduce_page;
mod score;
mod score_page;
mod truth;
mod twin_score;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use flashlab_analysis::inference::Parameter;

use noise::NoiseKind;
use population::DeviceFamily;
use score::Set;
use score_page::Part;

/// Tasks of flashlab's developers.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Judges `flashlab infer` on random devices whose truth it does not know
    InferScore(InferScore),
    /// Judges the regimes of `flashlab bench` on random drives of today whose truth it does not know
    BenchScore(bench_score::BenchScore),
    /// Judges `flashlab compare` on synthetic pairs of runs whose truth is known
    CompareScore(compare_score::CompareScore),
    /// Cuts the power of a volume of `flashlab repair` in many states and checks what is recovered
    Crash(crash::Crash),
    /// Makes an archive of the program, and the wheel for Python
    Dist(dist::Dist),
    /// Does random operations on volumes of `flashlab repair`, and compares them with a model in memory
    Exercise(exercise::Exercise),
    /// Fits the zoo's models of real drives to the rows that others measured
    FitZoo(fit_zoo::FitZoo),
    /// Does random operations on files of a directory, with mmap, and compares them with bytes in memory
    Fsx(fsx::FsxArguments),
    /// Kills the servers of a volume of `flashlab repair` while programs write, and looks for what had been acknowledged
    Kills(kills::KillsArguments),
    /// The process that writes for `kills`
    #[command(name = kills::WRITER, hide = true)]
    KillsWriter,
    /// Writes into docs/reproduce.md how many values agree with the papers
    ReproducePage(reproduce_page::ReproducePage),
    /// Judges `flashlab model twin`: random devices against the twins made from their runs
    TwinScore(twin_score::TwinScore),
}

/// Judges `flashlab infer` on random devices whose truth it does not know.
#[derive(Args)]
pub struct InferScore {
    /// How many devices
    #[arg(long, default_value_t = 20)]
    devices: u64,
    /// The seed of the first one; the next ones have the seeds after it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The score as JSON
    #[arg(long)]
    json: bool,
    /// Only these parameters, as NAME,NAME, by the probes that they need
    #[arg(long, value_delimiter = ',', value_parser = Parameter::from_str)]
    only: Vec<Parameter>,
    /// Only devices of this family
    #[arg(long, value_parser = DeviceFamily::from_str)]
    family: Option<DeviceFamily>,
    /// The devices that were not written with flashlab's simulator
    #[arg(long, conflicts_with_all = ["family", "show_profile"])]
    foreign: bool,
    /// Disks without flash: hard disks, memory, thin volumes and network disks
    #[arg(long, conflicts_with_all = ["family", "show_profile", "foreign"])]
    no_flash: bool,
    /// The devices of flashlab's zoo
    #[arg(long, conflicts_with_all = ["family", "show_profile", "foreign", "no_flash"])]
    zoo: bool,
    /// Live devices that are not flashlab's: servers in C behind FUSE and a loop device, each with three jitters of the transport.
    /// With a name, such as stick-100, this one only. Needs root, cc, nbdfuse, and a quiet machine
    #[arg(long, value_name = "DEVICE", num_args = 0..=1, default_missing_value = live::ALL)]
    #[arg(conflicts_with_all = ["family", "show_profile", "foreign", "no_flash", "zoo", "noise", "calibrate"])]
    live: Option<String>,
    /// With --live: in virtual time, with a model of FUSE and the loop device. Needs cc only, and a seed repeats the result
    #[arg(long, requires = "live")]
    virtual_time: bool,
    /// Devices of all sets, as a calibration has them: with --reliability, whether confidences are what the calibration counts
    #[arg(long, requires = "reliability", conflicts_with_all = ["family", "show_profile", "foreign", "no_flash", "zoo", "noise", "live"])]
    all_sets: bool,
    /// With another kind of noise: heavy-tails, drift, wake-ups, bursts or quantised-clock
    #[arg(long, value_parser = NoiseKind::from_str, conflicts_with_all = ["foreign", "no_flash", "zoo"])]
    noise: Option<NoiseKind>,
    /// Count how often each rule is right on devices of all sets, and write the table that confidences come from
    #[arg(long, conflicts_with_all = ["foreign", "no_flash", "zoo", "noise", "family", "only", "show_profile"])]
    calibrate: bool,
    /// Write that table to this file instead of crates/infer/src/calibration.tsv
    #[arg(long, value_name = "FILE", requires = "calibrate")]
    table: Option<PathBuf>,
    /// Write the tables into this page, between its marks: docs/infer-score.md
    #[arg(long, value_name = "FILE")]
    docs: Option<PathBuf>,
    /// How many devices at once
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How often answers of a confidence are right, by bins of confidence
    #[arg(long)]
    reliability: bool,
    /// Each answer, next to the truth
    #[arg(long)]
    verbose: bool,
    /// Print the devices' profiles, for `flashlab infer sim:./FILE`, and do nothing else
    #[arg(long)]
    show_profile: bool,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::InferScore(arguments) => infer_score(&arguments),
        Task::ReproducePage(arguments) => reproduce_page::write_page(&arguments),
        Task::TwinScore(arguments) => twin_score::twin_score(&arguments),
        Task::BenchScore(arguments) => bench_score::bench_score(&arguments),
        Task::CompareScore(arguments) => {
            compare_score::compare_score(&arguments);
            Ok(())
        }
        Task::Crash(arguments) => crash::crash(&arguments),
        Task::Dist(arguments) => dist::dist(&arguments),
        Task::Exercise(arguments) => exercise::exercise_volumes(&arguments),
        Task::FitZoo(arguments) => fit_zoo::fit_zoo(&arguments),
        Task::Fsx(arguments) => fsx::test_directory(&arguments),
        Task::Kills(arguments) => kills::kill_servers(&arguments),
        Task::KillsWriter => kills::write_files(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn infer_score(arguments: &InferScore) -> anyhow::Result<()> {
    let seeds: Vec<u64> = (arguments.seed..)
        .filter(|&seed| arguments.family.is_none_or(|family| population::family_of(seed) == family))
        .take(arguments.devices as usize)
        .collect();
    if arguments.show_profile {
        for seed in seeds {
            println!("{}", population::profile(seed).to_toml());
        }
        return Ok(());
    }
    let only = if arguments.only.is_empty() { Parameter::ALL.to_vec() } else { arguments.only.clone() };
    if arguments.calibrate {
        let table = arguments.table.clone().unwrap_or_else(calibrate::table);
        return calibrate::calibrate(arguments.devices, arguments.seed, arguments.threads, &table);
    }
    let set = match arguments.noise {
        _ if arguments.foreign => Set::Foreign,
        _ if arguments.no_flash => Set::NoFlash,
        _ if arguments.zoo => Set::Zoo,
        Some(kind) => Set::OtherNoise(kind),
        None => Set::Simulated,
    };
    let (mut outcomes, mut failed) = (Vec::new(), 0);
    let judged = match (&arguments.live, arguments.all_sets) {
        (Some(name), _) => {
            let clock = if arguments.virtual_time { live::Clock::Virtual } else { live::Clock::Wall };
            live::named(name, clock, arguments.seed, &only)?
        }
        (None, true) => {
            let devices = calibrate::devices_of_all_sets(arguments.devices, arguments.seed);
            score::each(&devices, &only, arguments.threads)
        }
        _ => score::all(set, &seeds, &only, arguments.threads),
    };
    for outcome in judged {
        match outcome {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => {
                failed += 1;
                eprintln!("error: {error:#}");
            }
        }
    }
    if let Some(page) = &arguments.docs {
        let options = match &arguments.live {
            Some(_) if arguments.virtual_time => format!(" --live --virtual-time --seed {}", arguments.seed),
            Some(_) => " --live".to_owned(),
            None => format!("{} --devices {} --seed {}", set.option(), arguments.devices, arguments.seed),
        };
        let part = match (&arguments.live, arguments.virtual_time) {
            (Some(_), true) => Part::LiveInVirtualTime,
            (Some(_), false) => Part::Live,
            (None, _) => Part::of(set),
        };
        score_page::write(page, part, &format!("cargo xtask infer-score{options}"), &outcomes, &only)?;
    }
    match (arguments.json, arguments.reliability) {
        (true, true) => println!("{}", reliability::json(&outcomes)),
        (true, false) => println!("{}", report::json(&outcomes, &only)),
        (false, _) if arguments.all_sets => print!("{}", reliability::text(&outcomes)),
        (false, reliability) => {
            if arguments.verbose {
                print!("{}", report::answers(&outcomes));
            }
            print!("{}", report::text(set, &outcomes, &only));
            if reliability {
                print!("\n{}", reliability::text(&outcomes));
            }
        }
    }
    anyhow::ensure!(failed == 0, "{failed} devices could not be judged");
    Ok(())
}
