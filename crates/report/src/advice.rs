//! What to do with a device whose hidden parameters are known: partitions, file systems, streams, sizes, depth.
//!
//! # Model
//! A pure function of an [`Inference`]. Each advice builds on some findings; how sure it is follows from theirs: it is
//! wrong at most as often as any of them is, so one minus the sum of what they lack.
//!
//! # Invariants
//! - Nothing is advised that is less than [`LEAST_CONFIDENCE`] sure; what is withheld is told with the reason.
//! - Commands are printed and never run. They name the device where it is a block device, else `DEVICE`.

use flashlab_analysis::inference::{Inference, Parameter, Value, Verdict};
use flashlab_base::Bytes;
use serde::Serialize;

use crate::method::shell_word;
use crate::units::exactly;

/// Advice that is less sure is withheld: where it is wrong, space or speed is lost, and no data.
pub const LEAST_CONFIDENCE: f64 = 0.9;

/// Block of ext4, and what stride and stripe_width count (mke2fs(8)).
const EXT4_BLOCK: Bytes = Bytes::kib(4);
/// Segment of f2fs, of which sections are made (mkfs.f2fs(8)).
const F2FS_SEGMENT: Bytes = Bytes::mib(2);
/// The largest section that is made of small erase blocks.
const F2FS_SECTION_MOST: Bytes = Bytes::mib(64);
/// A partition begins at no less, as partitioning programs have it.
const ALIGNMENT_LEAST: Bytes = Bytes::mib(1);

/// All advice that the findings carry, and what they do not.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Advised {
    /// What to do.
    pub given: Vec<Advice>,
    /// What nothing can be said of.
    pub withheld: Vec<Withheld>,
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Of what, as `partition alignment`.
    pub subject: &'static str,
    /// What to do, in a sentence.
    pub advice: String,
    /// The command line that does it.
    pub command: String,
    /// Whether that overwrites what is on the device.
    pub overwrites: bool,
    /// Why, with the findings.
    pub reason: String,
    /// How likely it is right: 0 to 1.
    pub confidence: f64,
}

/// What is not advised.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Withheld {
    /// Of what.
    pub subject: &'static str,
    /// Which findings are missing or not sure enough.
    pub reason: String,
}

/// What a subject's advice is made of, or why there is none.
type Said = Result<(String, String, String), String>;

/// What the findings carry.
pub fn advice(inference: &Inference) -> Advised {
    use Parameter::{EraseBlockSize, MappingGranularity, OpenBlocks, UsefulQueueDepth};
    use Parameter::{WritePageSize, WriteSaturationSize};
    let mut advised = Advised::default();
    let device = match inference.identity.kind.as_str() {
        "block device" => shell_word(&inference.identity.target),
        _ => "DEVICE".to_owned(),
    };
    let sector = inference.identity.logical_block.filter(|block| *block > Bytes::ZERO).unwrap_or(Bytes(512));
    let mut say = |subject, needs: &[Parameter], make: &dyn Fn(&[u64]) -> Said| {
        let made =
            numbers(inference, needs).and_then(|(numbers, confidence)| Ok((make(&numbers)?, confidence)));
        match made {
            Ok(((advice, command, reason), confidence)) => {
                let overwrites = !matches!(subject, "write streams" | "queue depth");
                advised.given.push(Advice { subject, advice, command, overwrites, reason, confidence });
            }
            Err(reason) => advised.withheld.push(Withheld { subject, reason }),
        }
    };
    say("partition alignment", &[EraseBlockSize], &|found| alignment(Bytes(found[0]), sector, &device));
    say("ext4", &[WritePageSize, EraseBlockSize], &|found| ext4(Bytes(found[0]), Bytes(found[1]), &device));
    say("f2fs", &[EraseBlockSize], &|found| f2fs(Bytes(found[0]), &device));
    say("write streams", &[OpenBlocks, EraseBlockSize], &|found| streams(found[0], Bytes(found[1]), &device));
    say("sequential writes", &[WriteSaturationSize], &|found| large_writes(Bytes(found[0]), &device));
    say("random writes", &[MappingGranularity], &|found| random_writes(Bytes(found[0]), &device));
    say("queue depth", &[UsefulQueueDepth], &|found| queue_depth(found[0], &device));
    advised
}

/// The values of these parameters, with the probability that all are right.
fn numbers(inference: &Inference, needs: &[Parameter]) -> Result<(Vec<u64>, f64), String> {
    let mut values = Vec::new();
    let mut lacking = 0.0;
    for &parameter in needs {
        let title = parameter.title().to_lowercase();
        let Some(finding) = inference.get(parameter) else {
            return Err(format!("{title}: not looked for"));
        };
        match (&finding.value, finding.verdict) {
            (Some(Value::Number(number)), _) if *number >= 1.0 => values.push(number.round() as u64),
            (_, Verdict::Found) => return Err(format!("{title}: {}", finding.value_in_words())),
            (_, verdict) => return Err(format!("{title}: {verdict}")),
        }
        lacking += 1.0 - finding.confidence;
    }
    // What rounding makes of a sum of tenths is no reason to be silent.
    let confidence = ((1.0 - lacking) * 1e9).round() / 1e9;
    if confidence < LEAST_CONFIDENCE {
        let titles: Vec<String> = needs.iter().map(|parameter| parameter.title().to_lowercase()).collect();
        let sure = (confidence.max(0.0) * 100.0).floor();
        return Err(format!("{}: only {sure} % sure", titles.join(" with ")));
    }
    Ok((values, confidence))
}

fn alignment(unit: Bytes, sector: Bytes, device: &str) -> Said {
    let aligned = ALIGNMENT_LEAST.round_up(unit);
    if !aligned.is_multiple_of(sector) {
        return Err(format!("an erase block of {unit} is no multiple of the sector of {sector}"));
    }
    Ok((
        format!("begin partitions at multiples of {}", exactly(aligned)),
        format!("sgdisk --set-alignment={} --new=1:0:0 {device}", aligned.0 / sector.0),
        format!(
            "space is erased and merged in units of {unit}: a partition that begins beside one shares it"
        ),
    ))
}

fn ext4(page: Bytes, unit: Bytes, device: &str) -> Said {
    if !unit.is_multiple_of(EXT4_BLOCK) || !unit.is_multiple_of(page) {
        return Err(format!(
            "an erase block of {unit} is no multiple of {EXT4_BLOCK} and of the write page of {page}"
        ));
    }
    let stride = page.0.div_ceil(EXT4_BLOCK.0);
    let width = unit.0 / EXT4_BLOCK.0;
    Ok((
        format!("let ext4 allocate in pieces of {page} and {unit}"),
        format!("mkfs.ext4 -b 4096 -E stride={stride},stripe_width={width} {device}"),
        format!(
            "writes of less than the write page of {page} make the device read, and what fills a unit of {unit} leaves \
             nothing to merge"
        ),
    ))
}

fn f2fs(unit: Bytes, device: &str) -> Said {
    let section = Bytes(least_common_multiple(unit.0, F2FS_SEGMENT.0));
    // A section that is larger takes too long to clean; an erase block that is, is the device's own.
    if section > F2FS_SECTION_MOST.max(unit * 2) {
        return Err(format!("sections of whole erase blocks of {unit} would have to be of {section}"));
    }
    let segments = section.0 / F2FS_SEGMENT.0;
    Ok((
        format!("let f2fs clean in sections of {section}, a zone for each"),
        format!("mkfs.f2fs -s {segments} -z 1 {device}"),
        format!(
            "a section that is cleaned frees whole units of {unit}; a unit has the blocks of all dies that are written \
             together already, so that zones of several sections gain nothing"
        ),
    ))
}

fn streams(open: u64, unit: Bytes, device: &str) -> Said {
    // The numbers of logs that f2fs can be told to have (mount option active_logs).
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
    let streams = if open == 1 { "one place".to_owned() } else { format!("at most {open} places") };
    Ok((
        format!("write to {streams} at a time"),
        command,
        format!(
            "the device keeps {open} units of {unit} open; with one stream more each write costs a merge"
        ),
    ))
}

fn large_writes(size: Bytes, device: &str) -> Said {
    Ok((
        format!("write large files in pieces of {size}"),
        format!("dd if=FILE of={device} bs={} oflag=direct", size.0),
        format!("smaller pieces lose throughput, and doubling {size} brings less than 2.5 %"),
    ))
}

fn random_writes(unit: Bytes, device: &str) -> Said {
    Ok((
        format!("write at random places in aligned pieces of {}", exactly(unit)),
        format!("fio --name=random --filename={device} --rw=randwrite --bs={} --direct=1", unit.0),
        format!("{unit} is the smallest piece that costs the same at random places as in sequence"),
    ))
}

fn queue_depth(depth: u64, device: &str) -> Said {
    Ok((
        format!("keep {depth} reads in flight"),
        format!(
            "fio --name=reads --filename={device} --rw=randread --direct=1 --ioengine=io_uring --iodepth={depth} \
             --readonly"
        ),
        format!(
            "beyond {depth} doubling brings less than 2.5 % of the throughput of random reads, or the device takes no more at once"
        ),
    ))
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut high, mut low) = (a, b);
    while low != 0 {
        (high, low) = (low, high % low);
    }
    (a / high).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use flashlab_analysis::inference::Finding;
    use flashlab_base::Identity;

    use super::*;

    fn inference(findings: Vec<Finding>) -> Inference {
        let identity = Identity {
            target: "/dev/my disk".to_owned(),
            kind: "block device".to_owned(),
            logical_block: Some(Bytes(512)),
            ..Identity::default()
        };
        let target = identity.target.clone();
        Inference { findings, ..Inference::begun(&target, identity, Bytes::gib(1)) }
    }

    fn all_known(unit: Bytes, confidence: f64) -> Inference {
        let found = |parameter, value: u64| Finding::found(parameter, value, confidence, "measured");
        inference(vec![
            found(Parameter::EraseBlockSize, unit.0),
            found(Parameter::WritePageSize, 8192),
            found(Parameter::OpenBlocks, 5),
            found(Parameter::WriteSaturationSize, 65536),
            found(Parameter::MappingGranularity, 8192),
            found(Parameter::UsefulQueueDepth, 16),
        ])
    }

    fn commands(inference: &Inference) -> String {
        let advised = advice(inference);
        let given = advised.given.iter().map(|advice| advice.command.clone());
        let withheld =
            advised.withheld.iter().map(|one| format!("{}: withheld: {}", one.subject, one.reason));
        given.chain(withheld).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_is_known_becomes_commands() {
        insta::assert_snapshot!(commands(&all_known(Bytes::mib(4), 0.99)), @r"
    sgdisk --set-alignment=8192 --new=1:0:0 '/dev/my disk'
    mkfs.ext4 -b 4096 -E stride=2,stripe_width=1024 '/dev/my disk'
    mkfs.f2fs -s 2 -z 1 '/dev/my disk'
    mount -t f2fs -o active_logs=4 '/dev/my disk' DIRECTORY
    dd if=FILE of='/dev/my disk' bs=65536 oflag=direct
    fio --name=random --filename='/dev/my disk' --rw=randwrite --bs=8192 --direct=1
    fio --name=reads --filename='/dev/my disk' --rw=randread --direct=1 --ioengine=io_uring --iodepth=16 --readonly
    ");
    }

    #[test]
    fn units_that_are_no_powers_of_two_are_kept_whole() {
        insta::assert_snapshot!(commands(&all_known(Bytes::mib(3), 0.99)), @r"
    sgdisk --set-alignment=6144 --new=1:0:0 '/dev/my disk'
    mkfs.ext4 -b 4096 -E stride=2,stripe_width=768 '/dev/my disk'
    mkfs.f2fs -s 3 -z 1 '/dev/my disk'
    mount -t f2fs -o active_logs=4 '/dev/my disk' DIRECTORY
    dd if=FILE of='/dev/my disk' bs=65536 oflag=direct
    fio --name=random --filename='/dev/my disk' --rw=randwrite --bs=8192 --direct=1
    fio --name=reads --filename='/dev/my disk' --rw=randread --direct=1 --ioengine=io_uring --iodepth=16 --readonly
    ");
    }

    #[test]
    fn what_is_not_sure_is_withheld() {
        // Each alone is sure enough; two together are not.
        insta::assert_snapshot!(commands(&all_known(Bytes::mib(4), 0.94)), @r"
        sgdisk --set-alignment=8192 --new=1:0:0 '/dev/my disk'
        mkfs.f2fs -s 2 -z 1 '/dev/my disk'
        dd if=FILE of='/dev/my disk' bs=65536 oflag=direct
        fio --name=random --filename='/dev/my disk' --rw=randwrite --bs=8192 --direct=1
        fio --name=reads --filename='/dev/my disk' --rw=randread --direct=1 --ioengine=io_uring --iodepth=16 --readonly
        ext4: withheld: write page with erase block: only 88 % sure
        write streams: withheld: open blocks with erase block: only 88 % sure
        ");
        assert!(advice(&all_known(Bytes::mib(4), 0.899)).given.is_empty());
        assert!(advice(&inference(Vec::new())).given.is_empty());
    }

    #[test]
    fn what_cannot_be_is_withheld() {
        let odd = inference(vec![
            Finding::found(Parameter::EraseBlockSize, Bytes(1000), 0.99, "measured"),
            Finding::found(Parameter::WritePageSize, Bytes(0), 0.99, "measured"),
            Finding::undetermined(Parameter::OpenBlocks, "noise"),
            Finding::not_identifiable(Parameter::UsefulQueueDepth, 0.99, "one at a time"),
        ]);
        insta::assert_snapshot!(commands(&odd), @r"
        partition alignment: withheld: an erase block of 1000 B is no multiple of the sector of 512 B
        ext4: withheld: write page: 0 B
        f2fs: withheld: sections of whole erase blocks of 1000 B would have to be of 250 MiB
        write streams: withheld: open blocks: undetermined
        sequential writes: withheld: write saturation: not looked for
        random writes: withheld: mapping granularity: not looked for
        queue depth: withheld: useful queue depth: not identifiable
        ");
    }
}
