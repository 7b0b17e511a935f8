//! Detects what a device contains from its bytes: partition tables, file systems, RAID, LVM, swap and
//! encrypted volumes.
//!
//! # Model
//! Formats have magic bytes at fixed places: near the start ([`AT_START`]), or at a distance from the end
//! ([`AT_END`]). Some places depend on the capacity or on a unit that has to be tried; such formats have a
//! function each. udev and blkid are not used, because their answers may be stale or missing.
//!
//! Invariants:
//! - A false alarm is better than a missed format. If a magic number is short, only headers that are
//!   obviously impossible are skipped.
//! - An unreadable device is an error and never "nothing found".

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use flashlab_base::Bytes;

use crate::signature_tables::{AT_END, AT_START, TABLES_AT_END, TABLES_AT_START, VOLUME, VOLUME_DISTANCE};

/// Something that a device carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// The name of the format, for example `ext4 file system`.
    pub(crate) name: &'static str,
    /// Where its magic bytes are.
    pub(crate) offset: Bytes,
    /// Whether it divides the device into partitions.
    pub(crate) is_partition_table: bool,
}

impl Signature {
    /// Whether it is a superblock of a flashlab volume.
    pub(crate) fn is_of_volume(&self) -> bool {
        self.name == VOLUME_NAME
    }
}

const VOLUME_NAME: &str = "flashlab volume";

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.name, self.offset.0)
    }
}

const KIB: usize = 1024;

/// How much of the start is read: the farthest magic bytes are VMFS's, at 2 MiB.
const START: usize = 2048 * KIB + 4096;
/// How much of the end is read: Promise's RAID has its label up to 1,544 KiB before the end.
const END: usize = 1600 * KIB;

/// Where a flashlab volume that is as large as its device has superblocks: two at each end.
fn volume_places(capacity: u64) -> impl Iterator<Item = u64> {
    let end = capacity / 4096 * 4096;
    let back = |copy: u64| end.checked_sub(copy * VOLUME_DISTANCE);
    [Some(0), Some(VOLUME_DISTANCE), back(2), back(1)].into_iter().flatten()
}

/// The superblocks of a flashlab volume in a file or on a device; other formats are not looked for.
///
/// # Errors
/// If it cannot be read there.
pub(crate) fn volume_signatures(file: &File, capacity: Bytes) -> io::Result<Vec<Signature>> {
    let mut found = Vec::new();
    for offset in volume_places(capacity.0).filter(|offset| offset + VOLUME.len() as u64 <= capacity.0) {
        let mut magic = [0; VOLUME.len()];
        file.read_exact_at(&mut magic, offset)?;
        if magic == VOLUME {
            found.push(Signature { name: VOLUME_NAME, offset: Bytes(offset), is_partition_table: false });
        }
    }
    Ok(found)
}

/// The parts of a device that are checked for signatures.
pub(crate) struct Content {
    capacity: u64,
    start: Vec<u8>,
    end: Vec<u8>,
}

impl Content {
    /// Reads the parts of `device` that can contain a signature.
    ///
    /// # Errors
    /// If the device cannot be read there.
    pub(crate) fn read(device: &File, capacity: Bytes) -> io::Result<Content> {
        let part = |length: usize| length.min(usize::try_from(capacity.0).unwrap_or(usize::MAX));
        let mut content =
            Content { capacity: capacity.0, start: vec![0; part(START)], end: vec![0; part(END)] };
        device.read_exact_at(&mut content.start, 0)?;
        let end_offset = capacity.0 - content.end.len() as u64;
        device.read_exact_at(&mut content.end, end_offset)?;
        Ok(content)
    }

    /// The first bytes, by which the content of a file is recognised.
    pub(crate) fn start(&self) -> &[u8] {
        &self.start[..self.start.len().min(flashlab_input::HEAD)]
    }

    /// Whether all parts that were read are zero, as on a device after a discard.
    pub(crate) fn is_blank(&self) -> bool {
        self.start.iter().chain(&self.end).all(|&byte| byte == 0)
    }

    /// All signatures of the device, in the order of the tables.
    pub(crate) fn signatures(&self) -> Vec<Signature> {
        let mut found = Vec::new();
        for (list, is_partition_table) in [(TABLES_AT_START, true), (AT_START, false)] {
            for &(name, offset, magic) in list {
                self.expect(&mut found, name, offset as u64, magic, is_partition_table);
            }
        }
        for (list, is_partition_table) in [(TABLES_AT_END, true), (AT_END, false)] {
            for &(name, distance, magic) in list {
                if let Some(offset) = self.capacity.checked_sub(distance as u64) {
                    self.expect(&mut found, name, offset, magic, is_partition_table);
                }
            }
        }
        for offset in volume_places(self.capacity) {
            self.expect(&mut found, VOLUME_NAME, offset, VOLUME, false);
        }
        self.extended(&mut found);
        self.minix(&mut found);
        self.nilfs(&mut found);
        self.hierarchical(&mut found);
        self.swap(&mut found);
        self.md(&mut found);
        self.zfs(&mut found);
        self.unix(&mut found);
        self.file_vault(&mut found);
        self.checked_raid(&mut found);
        found
    }

    /// `length` bytes from `offset`, if they were read.
    fn at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let within = |part: &'_ [u8], start: u64| -> Option<std::ops::Range<usize>> {
            let first = usize::try_from(offset.checked_sub(start)?).ok()?;
            let last = first.checked_add(length)?;
            (last <= part.len()).then_some(first..last)
        };
        let end_offset = self.capacity - self.end.len() as u64;
        within(&self.start, 0)
            .map(|range| &self.start[range])
            .or_else(|| within(&self.end, end_offset).map(|range| &self.end[range]))
    }

    fn number<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        self.at(offset, N)?.try_into().ok()
    }

    fn expect(
        &self,
        found: &mut Vec<Signature>,
        name: &'static str,
        offset: u64,
        magic: &[u8],
        is_partition_table: bool,
    ) {
        if self.at(offset, magic.len()) == Some(magic) {
            found.push(Signature { name, offset: Bytes(offset), is_partition_table });
        }
    }

    /// ext2, ext3 and ext4: two magic bytes, and a block of at most 64 KiB.
    fn extended(&self, found: &mut Vec<Signature>) {
        let block_shift = self.number(1024 + 24).map(u32::from_le_bytes);
        if block_shift.is_some_and(|shift| shift <= 6) {
            self.expect(found, "ext2, ext3 or ext4 file system", 1024 + 56, b"\x53\xEF", false);
        }
    }

    /// Minix: two magic bytes, and a zone that is not absurdly larger than a block.
    fn minix(&self, found: &mut Vec<Signature>) {
        let zone_shift = self.number(1024 + 10).map(u16::from_le_bytes);
        if zone_shift.is_some_and(|shift| shift <= 6) {
            for magic in [[0x7F, 0x13], [0x8F, 0x13], [0x68, 0x24], [0x78, 0x24]] {
                let [low, high] = magic;
                self.expect(found, "Minix file system", 1024 + 16, &magic, false);
                self.expect(found, "Minix file system", 1024 + 16, &[high, low], false);
            }
            self.expect(found, "Minix file system", 1024 + 24, b"\x5A\x4D", false);
            self.expect(found, "Minix file system", 1024 + 24, b"\x4D\x5A", false);
        }
    }

    /// NILFS2: two magic bytes and revision 2, at the start and in the last whole 4 KiB but one.
    fn nilfs(&self, found: &mut Vec<Signature>) {
        let second = (self.capacity / 4096).saturating_sub(1) * 4096;
        for superblock in [1024, second] {
            if self.number(superblock).map(u32::from_le_bytes) == Some(2) {
                self.expect(found, "NILFS2 file system", superblock + 6, b"\x34\x34", false);
            }
        }
    }

    /// HFS and HFS+: two magic bytes, and a version or an allocation unit.
    fn hierarchical(&self, found: &mut Vec<Signature>) {
        let version = self.number(1024 + 2).map(u16::from_be_bytes);
        if matches!(version, Some(4 | 5)) {
            self.expect(found, "HFS+ file system", 1024, b"H+", false);
            self.expect(found, "HFS+ file system", 1024, b"HX", false);
        }
        let unit = self.number(1024 + 20).map(u32::from_be_bytes);
        if unit.is_some_and(|unit| unit != 0 && unit.is_multiple_of(512)) {
            self.expect(found, "HFS file system", 1024, b"BD", false);
        }
    }

    /// Swap and hibernation: ten bytes at the end of the first page, for every page size.
    fn swap(&self, found: &mut Vec<Signature>) {
        for page in [4096, 8192, 16384, 32768, 65536] {
            for magic in [b"SWAPSPACE2", b"SWAP-SPACE"] {
                self.expect(found, "swap space", page - 10, magic, false);
            }
            for magic in [&b"S1SUSPEND"[..], b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"] {
                self.expect(found, "hibernated system", page - 10, magic, false);
            }
        }
    }

    /// md superblocks near the end: 0.90 in the last whole 64 KiB, in either byte order, and 1.0 in
    /// the last 8 to 12 KiB.
    fn md(&self, found: &mut Vec<Signature>) {
        const RESERVED: u64 = 64 * KIB as u64;
        if let Some(offset) = (self.capacity / RESERVED * RESERVED).checked_sub(RESERVED) {
            self.expect(found, "md RAID member (0.90)", offset, b"\xFC\x4E\x2B\xA9", false);
            self.expect(found, "md RAID member (0.90)", offset, b"\xA9\x2B\x4E\xFC", false);
        }
        if let Some(sector) = (self.capacity / 512).checked_sub(16) {
            self.expect(found, "md RAID member (1.0)", (sector & !7) * 512, b"\xFC\x4E\x2B\xA9", false);
        }
    }

    /// UFS and System V: a number in either byte order, at one of four places.
    fn unix(&self, found: &mut Vec<Signature>) {
        const UFS: [u32; 6] = [0x1954_0119, 0x0001_1954, 0x0019_5612, 0x0009_5014, 0x0061_2195, 0x0523_1994];
        const SYSTEM_V: u32 = 0xFD18_7E20;
        let both_orders = |number: u32| [number.to_le_bytes(), number.to_be_bytes()];
        for kib in [0, 8, 64, 256] {
            for magic in UFS.into_iter().flat_map(both_orders) {
                self.expect(found, "UFS file system", kib * KIB as u64 + 1372, &magic, false);
            }
        }
        for kib in [0, 9, 15, 18] {
            for magic in both_orders(SYSTEM_V) {
                self.expect(found, "System V file system", kib * KIB as u64 + 512 + 504, &magic, false);
            }
        }
    }

    /// FileVault 2: two magic bytes, and version 1.
    fn file_vault(&self, found: &mut Vec<Signature>) {
        if self.number(8).map(u16::from_le_bytes) == Some(1) {
            self.expect(found, "FileVault volume", 88, b"CS", false);
        }
    }

    /// JMicron and VIA RAID: two magic bytes in the last sector, and a checksum.
    fn checked_raid(&self, found: &mut Vec<Signature>) {
        let Some(offset) = (self.capacity / 512).checked_sub(1).map(|sector| sector * 512) else { return };
        let Some(label) = self.at(offset, 128) else { return };
        let words = label.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        if matches!(words.fold(0, u16::wrapping_add), 0 | 1) {
            self.expect(found, "JMicron RAID member", offset, b"JM", false);
        }
        let sum = label[..50].iter().fold(0, |sum: u8, &byte| sum.wrapping_add(byte));
        if label[2] <= 2 && sum == label[50] {
            self.expect(found, "VIA RAID member", offset, b"\x55\xAA", false);
        }
    }

    /// ZFS: an uberblock in the second half of any of the four labels, of which two are at the start
    /// and two at the end of the last whole 256 KiB.
    fn zfs(&self, found: &mut Vec<Signature>) {
        const LABEL: u64 = 256 * KIB as u64;
        const UBERBLOCK: u64 = 0x00BA_B10C;
        let last = self.capacity / LABEL * LABEL;
        let labels = [Some(0), Some(LABEL), last.checked_sub(2 * LABEL), last.checked_sub(LABEL)];
        for label in labels.into_iter().flatten() {
            let mut slots = (label + LABEL / 2..label + LABEL).step_by(KIB);
            let is_uberblock = |offset: &u64| {
                self.number(*offset).is_some_and(|magic| {
                    u64::from_le_bytes(magic) == UBERBLOCK || u64::from_be_bytes(magic) == UBERBLOCK
                })
            };
            if let Some(offset) = slots.find(is_uberblock) {
                found.push(Signature {
                    name: "ZFS pool member",
                    offset: Bytes(offset),
                    is_partition_table: false,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_base::{Prng, Seed};

    const CAPACITY: u64 = (8 << 20) + 12_288 + 512;

    /// Bytes at an offset.
    type Piece<'a> = (u64, &'a [u8]);

    /// A device of zeros that carries these bytes.
    fn content(pieces: &[Piece]) -> Content {
        let mut device = vec![0; CAPACITY as usize];
        for (offset, bytes) in pieces {
            device[*offset as usize..*offset as usize + bytes.len()].copy_from_slice(bytes);
        }
        cut(&device)
    }

    fn cut(device: &[u8]) -> Content {
        let start = device[..START.min(device.len())].to_vec();
        let end = device[device.len() - END.min(device.len())..].to_vec();
        Content { capacity: device.len() as u64, start, end }
    }

    fn names(content: &Content) -> Vec<&'static str> {
        content.signatures().iter().map(|signature| signature.name).collect()
    }

    #[test]
    fn every_signature_of_the_tables_is_found_where_it_is() {
        let start = TABLES_AT_START.iter().chain(AT_START).map(|&(n, offset, m)| (n, offset as u64, m));
        let end = TABLES_AT_END.iter().chain(AT_END).map(|&(n, back, m)| (n, CAPACITY - back as u64, m));
        for (name, offset, magic) in start.chain(end) {
            let found = content(&[(offset, magic)]).signatures();
            let is_it = |signature: &Signature| signature.name == name && signature.offset.0 == offset;
            assert!(found.iter().any(is_it), "{name} at {offset}: {found:?}");
            let mut broken = magic.to_vec();
            broken[0] ^= 0x80;
            let found = content(&[(offset, &broken)]).signatures();
            assert!(!found.iter().any(is_it), "{name} at {offset}");
        }
    }

    #[test]
    fn signatures_with_a_header_are_found() {
        let last_64k = CAPACITY / 65536 * 65536 - 65536;
        let md_1_0 = (CAPACITY / 512 - 16) / 8 * 8 * 512;
        let nilfs = CAPACITY / 4096 * 4096 - 4096;
        let zfs = 0x00BA_B10C_u64.to_be_bytes();
        let last_label = CAPACITY / (256 << 10) * (256 << 10) - (256 << 10);
        let last_sector = CAPACITY - 512;
        let whole = CAPACITY / 4096 * 4096;
        let cases: [(&str, &[Piece]); 24] = [
            ("flashlab volume", &[(0, VOLUME)]),
            ("flashlab volume", &[(65536, VOLUME)]),
            ("flashlab volume", &[(whole - 65536, VOLUME)]),
            ("flashlab volume", &[(whole - 131072, VOLUME)]),
            ("ext2, ext3 or ext4 file system", &[(1080, b"\x53\xEF")]),
            ("Minix file system", &[(1040, b"\x8F\x13")]),
            ("NILFS2 file system", &[(1024, b"\x02\0\0\0"), (1030, b"\x34\x34")]),
            ("NILFS2 file system", &[(nilfs, b"\x02\0\0\0"), (nilfs + 6, b"\x34\x34")]),
            ("HFS+ file system", &[(1024, b"H+\0\x04")]),
            ("HFS file system", &[(1024, b"BD"), (1044, b"\0\0\x02\0")]),
            ("swap space", &[(4086, b"SWAPSPACE2")]),
            ("swap space", &[(65526, b"SWAPSPACE2")]),
            ("hibernated system", &[(4086, b"S1SUSPEND\0")]),
            ("md RAID member (0.90)", &[(last_64k, b"\xFC\x4E\x2B\xA9")]),
            ("md RAID member (0.90)", &[(last_64k, b"\xA9\x2B\x4E\xFC")]),
            ("md RAID member (1.0)", &[(md_1_0, b"\xFC\x4E\x2B\xA9")]),
            ("ZFS pool member", &[(128 << 10, &zfs)]),
            ("ZFS pool member", &[((512 << 10) - 1024, &zfs)]),
            ("UFS file system", &[(0x2000 + 1372, b"\x54\x19\x01\x00")]),
            ("System V file system", &[(9 * 1024 + 1016, b"\xFD\x18\x7E\x20")]),
            ("FileVault volume", &[(8, b"\x01\0"), (88, b"CS")]),
            ("JMicron RAID member", &[(last_sector, b"JM\0\0\xB6\xB2")]),
            ("VIA RAID member", &[(last_sector, b"\x55\xAA\x01"), (last_sector + 50, b"\0")]),
            ("ZFS pool member", &[(last_label + (200 << 10), &zfs)]),
        ];
        for (name, pieces) in cases {
            let found = names(&content(pieces));
            assert!(found.contains(&name), "{name}: {found:?}");
        }
        let absurd_block = content(&[(1048, b"\x20\0\0\0"), (1080, b"\x53\xEF")]);
        assert!(names(&absurd_block).is_empty());
    }

    /// What `blkid -k` calls the formats, and what they are called here.
    const LIBBLKID: &[(&str, &str)] = &[
        ("linux_raid_member", "md RAID member (1.0)"),
        ("ddf_raid_member", "DDF RAID member"),
        ("isw_raid_member", "Intel RAID member"),
        ("lsi_mega_raid_member", "LSI MegaRAID member"),
        ("via_raid_member", "VIA RAID member"),
        ("silicon_medley_raid_member", "Silicon Image RAID member"),
        ("nvidia_raid_member", "NVIDIA RAID member"),
        ("promise_fasttrack_raid_member", "Promise RAID member"),
        ("hpt45x_raid_member", "HighPoint RAID member"),
        ("hpt37x_raid_member", "HighPoint RAID member"),
        ("adaptec_raid_member", "Adaptec RAID member"),
        ("jmicron_raid_member", "JMicron RAID member"),
        ("bcache", "Bcachefs or bcache device"),
        ("bcachefs", "Bcachefs file system"),
        ("ceph_bluestore", "Ceph BlueStore device"),
        ("drbd", "DRBD member"),
        ("drbdmanage_control_volume", "DRBD management volume"),
        ("drbdproxy_datalog", "DRBD proxy log"),
        ("LVM2_member", "LVM physical volume"),
        ("LVM1_member", "LVM1 physical volume"),
        ("DM_snapshot_cow", "device-mapper snapshot"),
        ("DM_verity_hash", "dm-verity volume"),
        ("DM_integrity", "dm-integrity volume"),
        ("crypto_LUKS", "LUKS volume"),
        ("VMFS_volume_member", "VMFS volume"),
        ("ubi", "UBI volume"),
        ("vdo", "VDO volume"),
        ("stratis", "Stratis pool member"),
        ("BitLocker", "BitLocker volume"),
        ("cs_fvault2", "FileVault volume"),
        ("vfat", "FAT file system"),
        ("swsuspend", "hibernated system"),
        ("swap", "swap space"),
        ("xfs", "XFS file system"),
        ("xfs_external_log", "XFS log"),
        ("exfs", "EXFS file system"),
        ("ext4dev", EXT),
        ("ext4", EXT),
        ("ext3", EXT),
        ("ext2", EXT),
        ("jbd", EXT),
        ("reiserfs", "ReiserFS file system"),
        ("reiser4", "Reiser4 file system"),
        ("jfs", "JFS file system"),
        ("udf", "UDF file system"),
        ("iso9660", "ISO 9660 file system"),
        ("zfs_member", "ZFS pool member"),
        ("hfsplus", "HFS+ file system"),
        ("hfs", "HFS file system"),
        ("ufs", "UFS file system"),
        ("hpfs", "HPFS file system"),
        ("sysv", "System V file system"),
        ("xenix", "Xenix file system"),
        ("ntfs", "NTFS file system"),
        ("ReFS", "ReFS file system"),
        ("cramfs", "cramfs file system"),
        ("romfs", "romfs file system"),
        ("minix", "Minix file system"),
        ("gfs", "GFS2 file system"),
        ("gfs2", "GFS2 file system"),
        ("ocfs", "OCFS file system"),
        ("ocfs2", "OCFS2 file system"),
        ("oracleasm", "Oracle ASM disk"),
        ("vxfs", "VxFS file system"),
        ("squashfs", "SquashFS file system"),
        ("squashfs3", "SquashFS file system"),
        ("nss", "NetWare storage (NSS)"),
        ("btrfs", "Btrfs file system"),
        ("ubifs", "UBIFS file system"),
        ("bfs", "BFS file system"),
        ("VMFS", "VMFS file system"),
        ("befs", "BeFS file system"),
        ("nilfs2", "NILFS2 file system"),
        ("exfat", "exFAT file system"),
        ("f2fs", "F2FS file system"),
        ("mpool", "Mpool device"),
        ("apfs", "APFS container"),
        ("zonefs", "zonefs file system"),
        ("erofs", "EROFS file system"),
        ("scoutfs_meta", "scoutfs device"),
        ("scoutfs_data", "scoutfs device"),
    ];
    const EXT: &str = "ext2, ext3 or ext4 file system";

    /// Formats that have a function, in addition to those of the tables.
    const BY_FUNCTION: [&str; 14] = [
        EXT,
        "Minix file system",
        "NILFS2 file system",
        "HFS+ file system",
        "HFS file system",
        "swap space",
        "hibernated system",
        "md RAID member (1.0)",
        "ZFS pool member",
        "UFS file system",
        "System V file system",
        "FileVault volume",
        "JMicron RAID member",
        "VIA RAID member",
    ];

    #[test]
    fn every_format_that_libblkid_knows_is_known() {
        let in_tables: Vec<&str> = AT_START.iter().chain(AT_END).map(|&(name, ..)| name).collect();
        for &(theirs, ours) in LIBBLKID {
            let is_known = in_tables.contains(&ours) || BY_FUNCTION.contains(&ours);
            assert!(is_known, "{theirs}");
        }
        let Ok(output) = std::process::Command::new("blkid").arg("-k").output() else {
            flashlab_skip::skip(
                flashlab_skip::Need::Programs,
                "blkid is not there: compared with the list in this test",
            );
            return;
        };
        for theirs in String::from_utf8(output.stdout).unwrap().lines() {
            assert!(LIBBLKID.iter().any(|&(name, _)| name == theirs), "blkid knows {theirs}");
        }
    }

    #[test]
    fn zeros_and_random_data_carry_nothing() {
        let blank = content(&[]);
        assert!(blank.is_blank() && blank.signatures().is_empty());
        let seed = Seed(1);
        let mut device = vec![0; CAPACITY as usize];
        Prng::new(seed).fill(&mut device);
        let random = cut(&device);
        assert!(!random.is_blank());
        assert_eq!(names(&random), [""; 0], "seed {seed}");
    }

    #[test]
    fn a_device_of_any_size_is_looked_at_without_a_panic() {
        for size in [0, 1, 511, 512, 1024, 4096, 65536, 262_144, END - 1, END + 1, START + 512] {
            assert!(cut(&vec![0; size]).signatures().is_empty(), "{size}");
            cut(&vec![0xEF; size]).signatures();
        }
    }
}
