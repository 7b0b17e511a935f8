//! What can be said of a disk that is no flash, or whose flash is behind a host: one that a hypervisor, a network or
//! a machine's memory makes up, one with a head that moves, and one behind a limit of IOs or bytes a second.
//!
//! What is seen of such a disk is its host's: caches, files, throttles and other guests beside the flash, if there is
//! flash at all. How it behaves is what its user gets, and is reported. What is inside is undetermined, whatever an
//! estimator says: a host's cache has pages, too.

use crate::signals::statistics::quantile;
use flashlab_analysis::inference::{Finding, Inference, Parameter, Verdict};
use flashlab_base::{Identity, Nanos};

use crate::caps;
use crate::words::times;

/// How a disk behaves, rather than what is inside.
const BEHAVIOUR: [Parameter; 14] = [
    Parameter::RateLimit,
    Parameter::UsefulQueueDepth,
    Parameter::ReadCostPerIo,
    Parameter::ReadSaturationSize,
    Parameter::WriteCostPerIo,
    Parameter::WriteSaturationSize,
    Parameter::MisalignmentPenalty,
    Parameter::StartupIos,
    Parameter::PeriodIos,
    Parameter::LingeringTime,
    Parameter::PauseBenefit,
    Parameter::RecoveryTime,
    Parameter::RecoveryEnds,
    Parameter::RewriteCures,
];
/// The file systems whose files are in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
/// How disks are attached that a hypervisor or a network makes up.
const TRANSPORTS: [&str; 6] = ["virtio", "virtio scsi", "xen", "iscsi", "tcp", "rdma"];
const MEMORY: &str = "memory";
/// What is in the names of their models.
/// The last is that of the zoo.
const MODELS: [&str; 7] =
    ["QEMU", "VBOX", "VMware", "Virtual", "Elastic Block Store", "Google PersistentDisk", "Cloud volume"];

/// What a user reads of a virtual disk ([`Inference::not_flash`]), if it is one.
pub(crate) fn of_a_host(identity: &Identity) -> Option<String> {
    made_up_by(identity).map(|reason| {
        format!("The disk is virtual ({reason}): probes may measure its host in place of flash")
    })
}

/// The same of a hard disk.
pub(crate) fn of_a_head(seek: Nanos) -> String {
    format!("The disk is not flash: random reads take {seek}, the time of a head that moves")
}

/// The same of a disk behind a limit, which lets `passes` a second pass, and after idle time reads `burst` times as fast.
pub(crate) fn behind_a_limit(passes: &str, burst: f64) -> String {
    format!(
        "The disk is behind a limit, which hides whether it is flash: {passes} pass, whatever the size and place of small reads, and \
         only after idle time they are {} as fast",
        times(burst)
    )
}

/// Why a disk is taken for a virtual one, if it is.
fn made_up_by(identity: &Identity) -> Option<String> {
    let is_file_in_memory = identity.file_system.as_deref().is_some_and(|name| IN_MEMORY.contains(&name));
    // As in `loop over virtio`: what lies beneath.
    let beneath = identity.transport.as_deref().and_then(|name| name.rsplit(" over ").next());
    if is_file_in_memory || beneath == Some(MEMORY) {
        return Some("kept in memory".to_owned());
    }
    let transport =
        identity.transport.as_deref().filter(|_| beneath.is_some_and(|name| TRANSPORTS.contains(&name)));
    let model =
        identity.model.as_deref().and_then(|model| MODELS.into_iter().find(|part| model.contains(part)));
    transport.map(|name| format!("attached by {name}")).or(model.map(|part| format!("its model says {part}")))
}

/// Random reads whose times scatter by more move a head: a disk of 15,000 rpm takes half a revolution, 2 ms,
/// and its shortest seek. Source: derivation: four fifths of the reads lie within 80 % of a revolution of 4
/// ms; the slowest flash of the zoo reads in less than 1 ms. Too long: fast disks count as flash; too short:
/// flash behind a network counts as a disk.
const HEAD_MOVES: Nanos = Nanos::from_millis(2);

/// The median time of random reads one at a time, in ns, if they wait for a head: long, and each another time.
pub(crate) fn seek_of(times: &[f64]) -> Option<Nanos> {
    let [low, middle, high] = [0.1, 0.5, 0.9].map(|share| quantile(times, share));
    let limit = HEAD_MOVES.0 as f64;
    (middle >= limit && high - low >= limit).then_some(Nanos(middle as u64))
}

/// What remains of a finding if the disk is virtual, a hard disk, or behind a limit.
pub(crate) fn without_its_host(finding: Finding, of: &Inference) -> Finding {
    match &of.not_flash {
        _ if finding.verdict == Verdict::Undetermined || BEHAVIOUR.contains(&finding.parameter) => {
            capped_by_loop(finding, &of.identity)
        }
        Some(reason) => undetermined(finding, |seen| format!("{reason}{seen}.")),
        None => capped_by_loop(finding, &of.identity),
    }
}

/// The finding without its value, and the reason before its evidence, which speaks of flash; the reason is given what the value would be.
pub(crate) fn undetermined(finding: Finding, reason: impl FnOnce(&str) -> String) -> Finding {
    let seen = match finding.value_in_words() {
        value if value.is_empty() => String::new(),
        value => format!(" (the value would be {value})"),
    };
    let evidence =
        format!("{} A probe, which takes the disk for flash, saw this: {}", reason(&seen), finding.evidence);
    Finding { value: None, confidence: 0.0, verdict: Verdict::Undetermined, evidence, ..finding }
}

fn capped_by_loop(finding: Finding, identity: &Identity) -> Finding {
    if is_loop(identity) {
        caps::cap(finding, caps::LOOP_DEVICE, " A loop device and a file system answered as well.")
    } else {
        finding
    }
}

/// Whether it is a file behind a loop device.
fn is_loop(identity: &Identity) -> bool {
    identity.transport.as_deref().is_some_and(|name| name.split(" over ").next() == Some("loop"))
}

#[cfg(test)]
mod tests {
    use flashlab_base::Bytes;

    use super::*;
    use crate::checkpoint::Known;

    #[test]
    fn a_head_is_seen_where_reads_are_slow_and_wait_for_the_revolution() {
        let spread = |first: f64, last: f64| -> Vec<f64> {
            (0..33).map(|k| first + (last - first) * f64::from(k) / 32.0).collect()
        };
        assert_eq!(seek_of(&spread(4.0e6, 12.0e6)), Some(Nanos::from_millis(8)));
        assert_eq!(seek_of(&spread(0.1e6, 1.5e6)), None, "flash with rare collections");
        assert_eq!(seek_of(&spread(3.0e6, 3.1e6)), None, "a slow card: every read takes the same time");
        assert_eq!(seek_of(&[]), None);
    }

    #[test]
    fn what_is_in_memory_or_a_hypervisors_has_no_inside() {
        let chunk = || Finding::found(Parameter::ChunkSize, 32_768, 0.98, "Seen in reads.".to_owned());
        let remains = |identity: &Identity| {
            let known = Known::begun("test", identity.clone(), Bytes::gib(1));
            without_its_host(chunk(), &known).verdict == Verdict::Found
        };
        let named = |name: &str| Some(name.to_owned());
        assert!(remains(&Identity {
            transport: named("nvme"),
            file_system: named("ext4"),
            ..Identity::default()
        }));
        assert!(!remains(&Identity { transport: named("virtio"), ..Identity::default() }));
        assert!(!remains(&Identity { transport: named("memory"), ..Identity::default() }));
        assert!(!remains(&Identity { transport: named("loop over virtio"), ..Identity::default() }));
        assert!(!remains(&Identity { transport: named("loop over memory"), ..Identity::default() }));
        assert!(remains(&Identity { transport: named("loop"), ..Identity::default() }));
        assert!(!remains(&Identity { model: named("Cloud volume (of 2 TB)"), ..Identity::default() }));
        let mut disk = Known::begun("test", Identity::default(), Bytes::gib(1));
        disk.not_flash = Some(of_a_head(Nanos::from_millis(8)));
        let of_a_disk = without_its_host(chunk(), &disk);
        assert_eq!(of_a_disk.verdict, Verdict::Undetermined);
        assert!(
            of_a_disk.evidence.starts_with("The disk is not flash: random reads take 8 ms,"),
            "{}",
            of_a_disk.evidence
        );
        assert!(!remains(&Identity { file_system: named("tmpfs"), ..Identity::default() }));
        assert!(!remains(&Identity { model: named("VMware NVMe"), ..Identity::default() }));
    }
}
