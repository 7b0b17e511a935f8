//! The magic bytes of partition tables, file systems, RAID, LVM and encrypted volumes, by their places.
//!
//! The formats whose places or checks need more than a table are in [`signature`](crate::signature).
//! The places are those of the formats' own descriptions, as util-linux's libblkid and the kernel know
//! them too.

/// What it is, where its magic bytes are, and what they are.
pub(crate) type Magic = (&'static str, usize, &'static [u8]);

/// Magic bytes at fixed places from the start.
pub(crate) const AT_START: &[Magic] = &[
    ("XFS file system", 0, b"XFSB"),
    ("XFS log", 0, b"\xFE\xED\xBA\xBE"),
    ("Btrfs file system", 0x10040, b"_BHRfS_M"),
    (
        "Bcachefs or bcache device",
        0x1018,
        b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81",
    ),
    ("Bcachefs file system", 0x1018, b"\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF"),
    ("F2FS file system", 0x400, b"\x10\x20\xF5\xF2"),
    ("NTFS file system", 3, b"NTFS    "),
    ("exFAT file system", 3, b"EXFAT   "),
    ("ReFS file system", 0, b"\0\0\0ReFS\0"),
    ("BitLocker volume", 3, b"-FVE-FS-"),
    ("FAT file system", 0x52, b"FAT32   "),
    ("FAT file system", 0x52, b"MSWIN"),
    ("FAT file system", 0x36, b"FAT12   "),
    ("FAT file system", 0x36, b"FAT16   "),
    ("FAT file system", 0x36, b"FAT     "),
    ("FAT file system", 0x36, b"MSDOS"),
    ("ISO 9660 file system", 0x8001, b"CD001"),
    ("High Sierra file system", 0x8009, b"CDROM"),
    ("UDF file system", 0x8001, b"BEA01"),
    ("UDF file system", 0x8001, b"NSR02"),
    ("UDF file system", 0x8001, b"NSR03"),
    ("UDF file system", 0x8801, b"NSR02"),
    ("UDF file system", 0x8801, b"NSR03"),
    ("LUKS volume", 0, b"LUKS\xBA\xBE"),
    ("LUKS2 second header", 0x4000, b"SKUL\xBA\xBE"),
    ("LUKS2 second header", 0x8000, b"SKUL\xBA\xBE"),
    ("LUKS2 second header", 0x1_0000, b"SKUL\xBA\xBE"),
    ("LUKS2 second header", 0x2_0000, b"SKUL\xBA\xBE"),
    ("LUKS2 second header", 0x4_0000, b"SKUL\xBA\xBE"),
    ("LUKS2 second header", 0x8_0000, b"SKUL\xBA\xBE"),
    ("LUKS2 second header", 0x10_0000, b"SKUL\xBA\xBE"),
    ("LUKS2 second header", 0x20_0000, b"SKUL\xBA\xBE"),
    ("LVM physical volume", 0, b"LABELONE"),
    ("LVM physical volume", 512, b"LABELONE"),
    ("LVM physical volume", 1024, b"LABELONE"),
    ("LVM physical volume", 1536, b"LABELONE"),
    ("dm-integrity volume", 0, b"integrt\0"),
    ("dm-verity volume", 0, b"verity\0\0"),
    ("VDO volume", 0, b"dmvdo001"),
    ("Stratis pool member", 516, b"!Stra0tis\x86\xFF\x02^\x41rh"),
    ("Stratis pool member", 0x1204, b"!Stra0tis\x86\xFF\x02^\x41rh"),
    ("md RAID member (1.1)", 0, b"\xFC\x4E\x2B\xA9"),
    ("md RAID member (1.2)", 4096, b"\xFC\x4E\x2B\xA9"),
    ("ReiserFS file system", 0x10034, b"ReIsErFs"),
    ("ReiserFS file system", 0x10034, b"ReIsEr2Fs"),
    ("ReiserFS file system", 0x10034, b"ReIsEr3Fs"),
    ("ReiserFS file system", 0x2034, b"ReIsErFs"),
    ("Reiser4 file system", 0x10000, b"ReIsEr4"),
    ("JFS file system", 0x8000, b"JFS1"),
    ("SquashFS file system", 0, b"hsqs"),
    ("SquashFS file system", 0, b"sqsh"),
    ("EROFS file system", 1024, b"\xE2\xE1\xF5\xE0"),
    ("OCFS2 file system", 0x400, b"OCFSV2"),
    ("OCFS2 file system", 0x800, b"OCFSV2"),
    ("OCFS2 file system", 0x1000, b"OCFSV2"),
    ("OCFS2 file system", 0x2000, b"OCFSV2"),
    ("GFS2 file system", 0x10000, b"\x01\x16\x19\x70"),
    ("APFS container", 32, b"NXSB"),
    ("cramfs file system", 0, b"\x45\x3D\xCD\x28"),
    ("romfs file system", 0, b"-rom1fs-"),
    ("UFS file system", 0x2000 + 1372, b"\x54\x19\x01\x00"),
    ("UFS file system", 0x2000 + 1372, b"\x19\x01\x54\x19"),
    ("UFS file system", 0x10000 + 1372, b"\x19\x01\x54\x19"),
    ("BeFS file system", 32, b"1SFB"),
    ("BeFS file system", 544, b"1SFB"),
    ("VMFS volume", 0x10_0000, b"\x0D\xD0\x01\xC0"),
    ("VMFS file system", 0x20_0000, b"\x5E\xF1\xAB\x2F"),
    ("Ceph BlueStore device", 0, b"bluestore block device"),
    ("Oracle ASM disk", 32, b"ORCLDISK"),
];

/// Magic bytes of partition tables, from the start.
pub(crate) const TABLES_AT_START: &[Magic] = &[
    ("GPT partition table", 512, b"EFI PART"),
    ("GPT partition table", 1024, b"EFI PART"),
    ("GPT partition table", 2048, b"EFI PART"),
    ("GPT partition table", 4096, b"EFI PART"),
    // Also in the boot sector of a FAT file system: there is something here either way.
    ("MBR partition table or boot sector", 510, b"\x55\xAA"),
    ("Sun partition table", 508, b"\xDA\xBE"),
    ("SGI partition table", 0, b"\x0B\xE5\xA9\x41"),
    ("BSD disk label", 512, b"\x57\x45\x56\x82"),
    ("Atari or Apple driver map", 0, b"ER\x02\x00"),
    ("Apple partition map", 512, b"PM\0\0"),
];

/// Magic bytes by their distance from the end.
pub(crate) const AT_END: &[Magic] = &[
    ("Intel RAID member", 1024, b"Intel Raid ISM Cfg Sig. "),
    ("DDF RAID member", 512, b"\xDE\x11\xDE\x11"),
    ("DDF RAID member", 257 * 512, b"\xDE\x11\xDE\x11"),
    ("NVIDIA RAID member", 1024, b"NVIDIA"),
];

/// Magic bytes of partition tables by their distance from the end.
pub(crate) const TABLES_AT_END: &[Magic] = &[
    ("GPT backup partition table", 512, b"EFI PART"),
    ("GPT backup partition table", 1024, b"EFI PART"),
    ("GPT backup partition table", 2048, b"EFI PART"),
    ("GPT backup partition table", 4096, b"EFI PART"),
];
