//! Describes the machine around the device: kernel, CPU, virtual or not.

use std::fs;
use std::thread;

use flashlab_base::{Bytes, Identity};

/// Adds the machine to a device's identity.
pub(crate) fn describe(identity: &mut Identity) {
    let read = |path| fs::read_to_string(path).ok().map(|text: String| text.trim().to_owned());
    let processors = read("/proc/cpuinfo").unwrap_or_default();
    identity.kernel = kernel();
    identity.processor = field(&processors, "model name")
        .or_else(|| field(&processors, "Model"))
        .or_else(|| read("/proc/device-tree/model").map(|model| model.trim_end_matches('\0').to_owned()));
    identity.processors = thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok());
    let evidence = Evidence {
        flags: field(&processors, "flags"),
        hypervisor: read("/sys/hypervisor/type")
            .or_else(|| read("/proc/device-tree/hypervisor/compatible"))
            .or_else(hypervisor_by_processor),
        product: read("/sys/class/dmi/id/product_name"),
        vendor: read("/sys/class/dmi/id/sys_vendor"),
    };
    identity.virtual_machine = evidence.verdict();
}

/// How much memory this program can still get: Linux's estimate, within the limit of this process (`ulimit
/// -v`). `None` if it is not known.
pub fn available_memory() -> Option<Bytes> {
    let of_machine = available_of(&fs::read_to_string("/proc/meminfo").ok()?);
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current.map(|limit| {
        let used =
            fs::read_to_string("/proc/self/statm").ok().and_then(|text| text.split(' ').next()?.parse().ok());
        let used: u64 = used.unwrap_or(0);
        Bytes(limit.saturating_sub(used.saturating_mul(rustix::param::page_size() as u64)))
    });
    of_machine.into_iter().chain(limit).min()
}

fn available_of(meminfo: &str) -> Option<Bytes> {
    let kib = field(meminfo, "MemAvailable")?.strip_suffix(" kB")?.trim().parse::<u64>().ok()?;
    Some(Bytes::kib(kib))
}

fn kernel() -> Option<String> {
    let read = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
    let (kind, release) = (read("ostype")?, read("osrelease")?);
    Some(format!("{} {}", kind.trim(), release.trim()))
}

/// The first value of a key in `/proc/cpuinfo` or `/proc/meminfo`.
fn field(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
    let value = line.split_once(':')?.1.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// The name that the hypervisor reports through the CPUID instruction.
#[cfg(target_arch = "x86_64")]
fn hypervisor_by_processor() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    const HYPERVISOR_PRESENT: u32 = 1 << 31;
    if __cpuid(1).ecx & HYPERVISOR_PRESENT == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
    let name: String = bytes.iter().map(|&b| char::from(b)).filter(char::is_ascii_graphic).collect();
    (!name.is_empty()).then(|| once(&name).to_owned())
}

/// A name that is repeated to fill its twelve letters, as in `KVMKVMKVM`, once.
#[cfg(target_arch = "x86_64")]
fn once(name: &str) -> &str {
    let repeats = |length: &usize| {
        name.len().is_multiple_of(*length)
            && name.as_bytes().chunks(*length).all(|part| part == &name.as_bytes()[..*length])
    };
    let length = (1..name.len()).find(repeats).unwrap_or(name.len());
    &name[..length]
}

#[cfg(not(target_arch = "x86_64"))]
fn hypervisor_by_processor() -> Option<String> {
    None
}

/// Hints for and against a virtual machine.
#[derive(Default)]
struct Evidence {
    /// The CPU's flags; only x86 has one for hypervisors.
    flags: Option<String>,
    hypervisor: Option<String>,
    product: Option<String>,
    vendor: Option<String>,
}

impl Evidence {
    fn verdict(&self) -> Option<String> {
        if let Some(name) = &self.hypervisor {
            return Some(format!("yes, the hypervisor says that it is {name}"));
        }
        const VIRTUAL: [&str; 9] = [
            "KVM",
            "QEMU",
            "VMware",
            "VirtualBox",
            "Virtual Machine",
            "Amazon EC2",
            "Google Compute Engine",
            "HVM domU",
            "Bochs",
        ];
        for name in [&self.product, &self.vendor].into_iter().flatten() {
            // The product name of a bare-metal cloud instance says so, for example `c5.metal`.
            if VIRTUAL.iter().any(|word| name.contains(word)) && !self.is_metal() {
                return Some(format!("yes, the firmware says `{name}`"));
            }
        }
        let flags = self.flags.as_ref()?;
        let flagged = flags.split_ascii_whitespace().any(|flag| flag == "hypervisor");
        let answer = if flagged { "yes, by the processor's flags" } else { "no, by the processor's flags" };
        Some(answer.to_owned())
    }

    fn is_metal(&self) -> bool {
        self.product.as_ref().is_some_and(|name| name.contains(".metal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "processor\t: 0\nmodel\t\t: 49\nmodel name\t: Some CPU @ 2:1\nflags\t\t: fpu hypervisor\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU @ 2:1"));
        assert_eq!(field(text, "Model"), None);
    }

    #[test]
    fn memory_is_read_in_kibibytes() {
        let text = "MemTotal:       24658108 kB\nMemAvailable:   23412340 kB\n";
        assert_eq!(available_of(text), Some(Bytes::kib(23_412_340)));
        assert_eq!(available_of("MemTotal: 1 kB\nMemAvailable: many kB\n"), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_hypervisor_is_named_once() {
        let names =
            ["KVMKVMKVM", "bhyvebhyve", "VMwareVMware", "TCGTCGTCGTCG", "XenVMMXenVMM", "MicrosoftHv"];
        assert_eq!(names.map(once), ["KVM", "bhyve", "VMware", "TCG", "XenVMM", "MicrosoftHv"]);
        assert_eq!(once(""), "");
    }

    #[test]
    fn evidence_decides_and_silence_does_not() {
        let some = |text: &str| Some(text.to_owned());
        let verdict = |evidence: Evidence| evidence.verdict().unwrap_or_default();
        assert!(
            verdict(Evidence { flags: some("fpu hypervisor"), ..Evidence::default() }).starts_with("yes")
        );
        assert!(verdict(Evidence { flags: some("fpu sse"), ..Evidence::default() }).starts_with("no"));
        assert!(verdict(Evidence { product: some("VMware7,1"), ..Evidence::default() }).starts_with("yes"));
        let metal = Evidence {
            product: some("c5.metal"),
            vendor: some("Amazon EC2"),
            flags: some("fpu"),
            ..Evidence::default()
        };
        assert!(verdict(metal).starts_with("no"));
        assert_eq!(Evidence::default().verdict(), None);
    }

    #[test]
    fn this_machine_has_a_kernel() {
        let mut identity = Identity::default();
        describe(&mut identity);
        assert!(identity.kernel.unwrap().starts_with("Linux "));
        assert!(identity.processors.unwrap() >= 1);
    }
}
