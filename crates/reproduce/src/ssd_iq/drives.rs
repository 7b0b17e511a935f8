//! The real drives, and their models in the zoo.

use flashlab_base::Bytes;

/// A drive that somebody measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealDrive {
    /// Its name in the rows.
    pub name: &'static str,
    /// Its model in the zoo.
    pub zoo: &'static str,
    /// Its capacity in GiB.
    pub gib: u64,
    /// The sequential writes of its data sheet, in MB/s (SSD-iq's list of devices).
    pub sheet_mb_s: u64,
}

impl RealDrive {
    /// Its capacity.
    pub fn capacity(&self) -> Bytes {
        Bytes::gib(self.gib)
    }
}

const fn drive(name: &'static str, zoo: &'static str, gib: u64, sheet_mb_s: u64) -> RealDrive {
    RealDrive { name, zoo, gib, sheet_mb_s }
}

/// Every drive that rows may name.
pub const REAL_DRIVES: [RealDrive; 7] = [
    drive("SK Hynix PE8110 960 GB", "sk-hynix-pe8110", 894, 1700),
    drive("Samsung PM9A3 960 GB", "samsung-pm9a3", 894, 1500),
    drive("Solidigm D7-P5520 1.92 TB", "solidigm-p5520", 1788, 1900),
    drive("Micron 7450 PRO 960 GB", "micron-7450-pro", 894, 1400),
    drive("Micron 7450 MAX 800 GB", "micron-7450-max", 745, 1400),
    drive("Kioxia CM7-R 3.84 TB", "kioxia-cm7-r", 3576, 6750),
    drive("WD DC 960 GB (PCIe 3)", "wd-dc-pcie3", 894, 1190),
];
