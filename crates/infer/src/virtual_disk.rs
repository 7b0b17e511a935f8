//! What can be said of a disk that a hypervisor, a network or a machine's memory makes up.
//!
//! What is seen of such a disk is its host's: caches, files, throttles and other guests beside the flash, if there is flash
//! at all. How it behaves is what its user gets, and is reported. What is inside is undetermined, whatever an estimator says: a host's
//! cache has pages, too.

use flashlab_analysis::inference::{Finding, Parameter, Verdict};
use flashlab_base::Identity;

use crate::caps;

/// How a disk behaves, rather than what is inside.
const BEHAVIOUR: [Parameter; 13] = [
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
const MODELS: [&str; 6] =
    ["QEMU", "VBOX", "VMware", "Virtual", "Elastic Block Store", "Google PersistentDisk"];

/// Why a disk is taken for a virtual one, if it is.
fn reason(identity: &Identity) -> Option<String> {
    let is_file_in_memory = identity.file_system.as_deref().is_some_and(|name| IN_MEMORY.contains(&name));
    // As in `loop over virtio`: what lies beneath.
    let beneath = identity.transport.as_deref().and_then(|name| name.rsplit(" over ").next());
    if is_file_in_memory || beneath == Some(MEMORY) {
        return Some("kept in memory".to_owned());
    }
    let transport =
        identity.transport.as_deref().filter(|_| beneath.is_some_and(|name| TRANSPORTS.contains(&name)));
    let model = identity.model.as_deref().filter(|model| MODELS.iter().any(|part| model.contains(part)));
    transport.map(|name| format!("attached by {name}")).or(model.map(|name| format!("a {name}")))
}

/// What remains of a finding if the disk is virtual.
pub(crate) fn without_its_host(finding: Finding, identity: &Identity) -> Finding {
    let says = finding.verdict != Verdict::Undetermined;
    match reason(identity) {
        Some(reason) if says && !BEHAVIOUR.contains(&finding.parameter) => {
            let seen = match finding.value_in_words() {
                value if value.is_empty() => String::new(),
                value => format!(" (the value would be {value})"),
            };
            let evidence = format!(
                "The disk is virtual ({reason}), so that the probes may have measured its host{seen}. {}",
                finding.evidence
            );
            Finding { value: None, confidence: 0.0, verdict: Verdict::Undetermined, evidence, ..finding }
        }
        _ if is_loop(identity) => {
            caps::cap(finding, caps::LOOP_DEVICE, " A loop device and a file system answered as well.")
        }
        _ => finding,
    }
}

/// Whether it is a file behind a loop device.
fn is_loop(identity: &Identity) -> bool {
    identity.transport.as_deref().is_some_and(|name| name.split(" over ").next() == Some("loop"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_or_a_hypervisors_has_no_inside() {
        let chunk = || Finding::found(Parameter::ChunkSize, 32_768, 0.98, "Seen in reads.".to_owned());
        let remains = |identity: &Identity| without_its_host(chunk(), identity).verdict == Verdict::Found;
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
        assert!(!remains(&Identity { file_system: named("tmpfs"), ..Identity::default() }));
        assert!(!remains(&Identity { model: named("VMware NVMe"), ..Identity::default() }));
    }
}
