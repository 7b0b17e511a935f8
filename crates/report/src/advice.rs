//! Derives advice from the inferred parameters: partitions, file systems, streams, sizes, depth.
//!
//! # Model
//! A piece of advice depends on one or two findings. Its confidence is the probability that all of them are right.
//!
//! # Invariants
//! - Advice below [`LEAST_CONFIDENCE`] is withheld, with the reason and the command that would improve it.
//! - Commands are printed and never run. They name the device if it is a block device, otherwise `DEVICE`.

use flashlab_analysis::inference::{
    Family, Inference, Parameter, USUAL_WRITES, Value, Verdict, confidence_in_all,
};
use flashlab_base::Bytes;
use serde::Serialize;

use crate::method::{shell_word, target_words};
use crate::units::exactly;

/// The smallest confidence of advice. Wrong advice costs space or speed, never data, so one in ten may be wrong.
pub const LEAST_CONFIDENCE: f64 = 0.9;

/// Block of ext4, the unit of stride and stripe_width (mke2fs(8)).
const EXT4_BLOCK: Bytes = Bytes::kib(4);
/// Segment of f2fs; a section is a whole number of segments (mkfs.f2fs(8)).
const F2FS_SEGMENT: Bytes = Bytes::mib(2);
/// The largest section, for erase blocks of at most half of it: f2fs cleans whole sections, and cleaning
/// larger ones takes long.
const F2FS_SECTION_MOST: Bytes = Bytes::mib(64);
/// The fewest sections of f2fs. It reserves some for each log and for cleaning. With fewer, `mkfs.f2fs` fails
/// or reserves most of the device.
const F2FS_SECTIONS_LEAST: u64 = 64;
/// The smallest alignment of a partition, which is the default of fdisk(8) and sgdisk(8).
const ALIGNMENT_LEAST: Bytes = Bytes::mib(1);

/// The advice that the findings support, and the advice that they do not support.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Advised {
    /// What to do.
    pub given: Vec<Advice>,
    /// What they cannot say yet.
    pub withheld: Vec<Withheld>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The subject, for example `partition alignment`.
    pub subject: &'static str,
    /// What to do, in a sentence.
    pub advice: String,
    /// The command line that does it.
    pub command: String,
    /// Whether the command overwrites the content of the device.
    pub overwrites: bool,
    /// Why, with the findings.
    pub reason: String,
    /// The probability that it is right: 0 to 1.
    pub confidence: f64,
}

/// Advice that the findings do not support.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Withheld {
    /// What it would be about.
    pub subject: &'static str,
    /// Which findings are missing or have too little confidence.
    pub reason: String,
    /// The command that measures them better; `None` if no measurement changes the reason.
    pub measurement: Option<String>,
}

/// The advice, its command and its reason; or why it is withheld.
type Drafted = Result<(String, String, String), String>;

/// Why findings support no advice.
struct Unsupported {
    reason: String,
    /// Whether another measurement may improve the findings.
    is_measurable: bool,
}

/// The advice that the findings support.
///
/// `write_budget` is what the inference was allowed to write; `None`: it only read.
pub fn advice(inference: &Inference, write_budget: Option<Bytes>) -> Advised {
    use Parameter::{EraseBlockSize, MappingGranularity, OpenBlocks, UsefulQueueDepth};
    use Parameter::{TranslationFamily, WritePageSize, WriteSaturationSize};
    let mut advised = Advised::default();
    let device = match inference.identity.kind.as_str() {
        "block device" => shell_word(&inference.identity.target),
        _ => "DEVICE".to_owned(),
    };
    let sector = inference.identity.logical_block.filter(|block| *block > Bytes::ZERO).unwrap_or(Bytes(512));
    let mut say = |subject, needs: &[Parameter], make: &dyn Fn(&[u64]) -> Drafted| {
        let drafted = numbers(inference, needs).and_then(|(numbers, confidence)| match make(&numbers) {
            Ok(drafted) => Ok((drafted, confidence)),
            Err(reason) => Err(Unsupported { reason, is_measurable: false }),
        });
        match drafted {
            Ok(((advice, command, reason), confidence)) => {
                let overwrites = !matches!(subject, "write streams" | "queue depth");
                advised.given.push(Advice { subject, advice, command, overwrites, reason, confidence });
            }
            Err(Unsupported { reason, is_measurable }) => {
                let measurement = match subject {
                    "random writes" if maps_pages(inference) => {
                        Some(steady_command(inference, &["granularity"]))
                    }
                    _ if is_measurable => measurement(inference, needs, write_budget),
                    _ => None,
                };
                advised.withheld.push(Withheld { subject, reason, measurement });
            }
        }
    };
    let capacity = inference.capacity;
    if maps_pages(inference) {
        // With a page map, erase blocks matter only inside the device: it relocates pages independently of
        // the host's layout.
        say("partition alignment", &[TranslationFamily, WritePageSize], &|found| {
            alignment_of_pages(Bytes(found[1]), sector, &device)
        });
        say("ext4", &[TranslationFamily], &|_| Ok(default_file_system("ext4", "mkfs.ext4 -b 4096", &device)));
        say("f2fs", &[TranslationFamily], &|_| Ok(default_file_system("f2fs", "mkfs.f2fs", &device)));
    } else {
        say("partition alignment", &[EraseBlockSize], &|found| alignment(Bytes(found[0]), sector, &device));
        say("ext4", &[WritePageSize, EraseBlockSize], &|found| {
            ext4(Bytes(found[0]), Bytes(found[1]), &device)
        });
        say("f2fs", &[EraseBlockSize], &|found| f2fs(Bytes(found[0]), capacity, &device));
        say("write streams", &[OpenBlocks, EraseBlockSize], &|found| {
            streams(found[0], Bytes(found[1]), &device)
        });
    }
    say("sequential writes", &[WriteSaturationSize], &|found| large_writes(Bytes(found[0]), &device));
    let is_page_map = maps_pages(inference);
    say("random writes", &[MappingGranularity], &|found| match is_page_map {
        // The state decides: garbage collection makes random writes several times slower than sequential ones.
        true => Err(format!(
            "requests of {} cost the same at random offsets as in sequence only before garbage collection limits the \
             device, and the probes did not make it steady",
            Bytes(found[0])
        )),
        false => Ok(random_writes(Bytes(found[0]), &device)?),
    });
    say("queue depth", &[UsefulQueueDepth], &|found| queue_depth(found[0], &device));
    advised
}

/// Whether the device is known to have a page map, so that every page may lie on any physical page.
pub(crate) fn maps_pages(inference: &Inference) -> bool {
    family(inference).is_some_and(Family::maps_pages)
}

/// The family of the translation layer, if it is known well enough.
pub(crate) fn family(inference: &Inference) -> Option<Family> {
    let finding =
        inference.get(Parameter::TranslationFamily).filter(|found| found.confidence >= LEAST_CONFIDENCE)?;
    match &finding.value {
        Some(Value::Word(name)) => Family::named(name),
        _ => None,
    }
}

/// The values of these parameters, with the probability that all are right. A word has no number here, and is
/// 0.
fn numbers(inference: &Inference, needs: &[Parameter]) -> Result<(Vec<u64>, f64), Unsupported> {
    let measurable = |reason| Unsupported { reason, is_measurable: true };
    let final_answer = |reason| Unsupported { reason, is_measurable: false };
    let mut values = Vec::new();
    let mut findings = Vec::new();
    for &parameter in needs {
        let title = parameter.title().to_lowercase();
        let Some(finding) = inference.get(parameter) else {
            return Err(measurable(format!("{title}: not looked for")));
        };
        match (&finding.value, finding.verdict) {
            (Some(Value::Number(number)), _) if *number >= 1.0 => values.push(number.round() as u64),
            (Some(Value::Word(_)), Verdict::Found) => values.push(0),
            (_, Verdict::Found) => {
                return Err(final_answer(format!("{title}: {}", finding.value_in_words())));
            }
            (_, Verdict::NotIdentifiable) => return Err(final_answer(format!("{title}: not identifiable"))),
            (_, Verdict::Undetermined) => return Err(measurable(format!("{title}: undetermined"))),
        }
        findings.push(finding);
    }
    let confidence = confidence_in_all(findings);
    if confidence < LEAST_CONFIDENCE {
        let titles: Vec<String> = needs.iter().map(|parameter| parameter.title().to_lowercase()).collect();
        let percent = (confidence * 100.0).floor();
        let least = LEAST_CONFIDENCE * 100.0;
        return Err(measurable(format!(
            "{}: the confidence is {percent} %, and advice needs {least} %",
            titles.join(" with ")
        )));
    }
    Ok((values, confidence))
}

/// The command that probes these parameters with more writes, or with more time if reads are enough. `None` if an
/// inference with all writes that it ever does has looked for them already: the same probes would end the same way.
fn measurement(inference: &Inference, needs: &[Parameter], write_budget: Option<Bytes>) -> Option<String> {
    let only_reads = needs == [Parameter::UsefulQueueDepth];
    let was_tried = needs.iter().all(|&parameter| inference.get(parameter).is_some());
    // No probe finds in a disk that is no flash what it did not find before.
    if was_tried && inference.not_flash.is_some() {
        return None;
    }
    if !only_reads
        && was_tried
        && write_budget.is_some_and(|budget| budget >= inference.capacity * USUAL_WRITES)
    {
        return None;
    }
    let names: Vec<&str> = needs.iter().map(|parameter| parameter.name()).collect();
    let mut words = vec!["flashlab infer".to_owned()];
    words.extend(target_words(&inference.identity.target));
    if inference.identity.kind == "simulated" {
        words.push(format!("--capacity {}", inference.capacity.exact()));
    }
    words.push(format!("--only {}", names.join(",")));
    if only_reads {
        words.push("--time-limit 600s".to_owned());
    } else {
        if inference.identity.kind != "simulated" {
            words.push("--write".to_owned());
        }
    }
    Some(words.join(" "))
}

fn alignment(unit: Bytes, sector: Bytes, device: &str) -> Drafted {
    let aligned = ALIGNMENT_LEAST.round_up(unit);
    if !aligned.is_multiple_of(sector) {
        return Err(format!("an erase block of {unit} is no multiple of the sector of {sector}"));
    }
    Ok((
        format!("begin partitions at multiples of {}", exactly(aligned)),
        format!("sgdisk --set-alignment={} --new=1:0:0 {device}", aligned.0 / sector.0),
        format!(
            "the device erases and merges blocks of {unit}: a partition that begins inside a block shares it"
        ),
    ))
}

fn ext4(page: Bytes, unit: Bytes, device: &str) -> Drafted {
    if !unit.is_multiple_of(EXT4_BLOCK) || !unit.is_multiple_of(page) {
        return Err(format!(
            "an erase block of {unit} is no multiple of {EXT4_BLOCK} and of the write page of {page}"
        ));
    }
    let stride = page.0.div_ceil(EXT4_BLOCK.0);
    let width = unit.0 / EXT4_BLOCK.0;
    Ok((
        format!("let ext4 allocate in multiples of {page} and {unit}"),
        format!("mkfs.ext4 -b 4096 -E stride={stride},stripe_width={width} {device}"),
        format!(
            "a write below the write page of {page} makes the device read first; a write that fills a block of {unit} \
             leaves nothing to merge"
        ),
    ))
}

/// On a page map, only whole pages matter.
fn alignment_of_pages(page: Bytes, sector: Bytes, device: &str) -> Drafted {
    let aligned = ALIGNMENT_LEAST.round_up(page);
    if !aligned.is_multiple_of(sector) {
        return Err(format!("a write page of {page} is no multiple of the sector of {sector}"));
    }
    Ok((
        format!("begin partitions at multiples of {}", exactly(aligned)),
        format!("sgdisk --set-alignment={} --new=1:0:0 {device}", aligned.0 / sector.0),
        format!(
            "the device maps pages: a partition that begins at a write page of {page} shares none with its neighbour, and \
             erase blocks do not matter to the host"
        ),
    ))
}

fn default_file_system(name: &str, command: &str, device: &str) -> (String, String, String) {
    (
        format!("make {name} without options for erase blocks"),
        format!("{command} {device}"),
        "the device maps pages, and collects its garbage itself: a file system gains nothing by writing whole erase blocks"
            .to_owned(),
    )
}

fn f2fs(unit: Bytes, capacity: Bytes, device: &str) -> Drafted {
    let section = unit.least_common_multiple(F2FS_SEGMENT);
    // Cleaning larger sections takes too long, but a section cannot be smaller than an erase block.
    if section > F2FS_SECTION_MOST.max(unit * 2) {
        return Err(format!("sections of whole erase blocks of {unit} would be as large as {section}"));
    }
    let sections = capacity.0 / section.0;
    if sections < F2FS_SECTIONS_LEAST {
        return Err(format!(
            "the device has only {sections} sections of {section}, and f2fs needs {F2FS_SECTIONS_LEAST} for its logs and for \
             cleaning"
        ));
    }
    let segments = section.0 / F2FS_SEGMENT.0;
    Ok((
        format!("let f2fs clean in sections of {section}, a zone for each"),
        format!("mkfs.f2fs -s {segments} -z 1 {device}"),
        format!(
            "cleaning a section frees whole blocks of {unit}. Such a block spans all dies already, so zones of several \
             sections gain nothing"
        ),
    ))
}

fn streams(open: u64, unit: Bytes, device: &str) -> Drafted {
    // f2fs supports 2, 4 or 6 logs (mount option active_logs).
    let logs = match open {
        0 | 1 => None,
        2 | 3 => Some(2),
        4 | 5 => Some(4),
        _ => Some(6),
    };
    let command = match logs {
        Some(logs) => format!("mount -t f2fs -o active_logs={logs} {device} DIRECTORY"),
        None => format!("fio --name=one-stream --filename={device} --rw=write --numjobs=1"),
    };
    let streams = if open == 1 { "one block".to_owned() } else { format!("at most {open} blocks") };
    Ok((
        format!("write to {streams} at a time"),
        command,
        format!(
            "the device keeps {open} blocks of {unit} open; with one stream more, each write costs a merge"
        ),
    ))
}

fn large_writes(size: Bytes, device: &str) -> Drafted {
    Ok((
        format!("write large files in requests of {size}"),
        format!("dd if=FILE of={device} bs={} oflag=direct", size.0),
        format!("smaller requests lose throughput, and doubling {size} gains less than 2.5 %"),
    ))
}

fn random_writes(unit: Bytes, device: &str) -> Drafted {
    Ok((
        format!("write at random offsets in aligned requests of {}", exactly(unit)),
        format!("fio --name=random --filename={device} --rw=randwrite --bs={} --direct=1", unit.0),
        format!("{unit} is the smallest request that costs the same at random offsets as in sequence"),
    ))
}

fn queue_depth(depth: u64, device: &str) -> Drafted {
    Ok((
        match depth {
            1 => "send one read at a time: more in flight gain nothing".to_owned(),
            depth => format!("keep {depth} reads in flight"),
        },
        format!(
            "fio --name=reads --filename={device} --rw=randread --direct=1 --ioengine=io_uring --iodepth={depth} \
             --readonly"
        ),
        format!(
            "from {depth} on, doubling gains less than 2.5 % of the throughput of random reads, or the device accepts no \
             more at a time"
        ),
    ))
}

/// The command that measures the device in its steady state, with these micro-benchmarks.
fn steady_command(inference: &Inference, only: &[&str]) -> String {
    let mut words = vec!["flashlab bench".to_owned()];
    words.extend(target_words(&inference.identity.target));
    words.push(format!("--state steady --only {}", only.join(",")));
    words.join(" ")
}

#[cfg(test)]
mod tests;
