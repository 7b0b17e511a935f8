//! Reads an NVMe device's identity and health log, with admin commands.
//!
//! # Model
//! An admin command returns one data structure, and pure functions parse its bytes. Three structures follow the NVM
//! Express base specification 2.0: identify controller (CNS 01h), identify namespace (CNS 00h, in the NVM command set
//! specification), and SMART / health information (log page 02h). The fourth structure, SMART / health information extended
//! (log page C0h), follows OCP's Datacenter NVMe SSD specification 2.0. Some vendors use page C0h for their own logs, so
//! the code checks the GUID in it. Numbers are little endian; texts are padded with blanks.
//!
//! Invariant: only commands that change nothing on the device are sent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use flashlab_base::Bytes;

use crate::system::checked;

const IDENTIFY: u8 = 0x06;
const GET_LOG_PAGE: u8 = 0x02;
const NAMESPACE: u32 = 0;
const CONTROLLER: u32 = 1;
const HEALTH_LOG: u32 = 0x02;
const CLOUD_LOG: u32 = 0xC0;
/// The GUID of OCP's log, AFD514C9-7C6F-4F9C-A4F2-BFEA2810AFC5, in its last 16 bytes.
const CLOUD_LOG_GUID: u128 = 0xAFD5_14C9_7C6F_4F9C_A4F2_BFEA_2810_AFC5;
const ALL_NAMESPACES: u32 = 0xFFFF_FFFF;

/// `struct nvme_admin_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_and_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_length: u32,
    data_length: u32,
    words_10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

// _IOWR('N', 0x41, struct nvme_admin_cmd) and _IO('N', 0x40).
const NVME_IOCTL_ADMIN_CMD: libc::c_ulong = 0xC048_4E41;
const NVME_IOCTL_ID: libc::c_ulong = 0x4E40;
const _: () = assert!(size_of::<AdminCommand>() == 0x48);

/// What a controller reports about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Controller {
    pub(crate) model: Option<String>,
    pub(crate) serial: Option<String>,
    pub(crate) firmware: Option<String>,
}

/// What a namespace reports about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Namespace {
    /// The size of its logical block; `None` if the reported size is not from 512 bytes to 64 KiB.
    pub(crate) logical_block: Option<Bytes>,
}

/// Asks the controller of an open namespace for its identity.
pub(crate) fn identify_controller(device: &File) -> io::Result<Controller> {
    admin_read::<4096>(device, IDENTIFY, 0, CONTROLLER).map(|page| parse_controller(&page))
}

/// Asks an open namespace for its format.
pub(crate) fn identify_namespace(device: &File) -> io::Result<Namespace> {
    // SAFETY: the request takes no argument.
    let number = checked(unsafe { libc::ioctl(device.as_raw_fd(), NVME_IOCTL_ID as _) })?;
    let number = u32::try_from(number).map_err(io::Error::other)?;
    admin_read::<4096>(device, IDENTIFY, number, NAMESPACE).map(|page| parse_namespace(&page))
}

/// Reads the health log of the controller of an open namespace.
pub(crate) fn health(device: &File) -> io::Result<BTreeMap<String, String>> {
    log(device, HEALTH_LOG).map(|page| parse_health(&page))
}

/// The bytes that the controller of an open namespace wrote to its flash, if it has OCP's log.
pub(crate) fn media_written(device: &File) -> Option<Bytes> {
    parse_media_written(&log(device, CLOUD_LOG).ok()?)
}

fn log(device: &File, log: u32) -> io::Result<[u8; 512]> {
    // The low half of the word is the log page, the high half the number of 32-bit words to return, minus
    // one.
    admin_read(device, GET_LOG_PAGE, ALL_NAMESPACES, log | (512 / 4 - 1) << 16)
}

fn admin_read<const N: usize>(
    device: &File,
    opcode: u8,
    namespace: u32,
    word_10: u32,
) -> io::Result<[u8; N]> {
    let mut page = [0u8; N];
    let mut command = AdminCommand {
        opcode,
        namespace,
        address: page.as_mut_ptr() as u64,
        data_length: u32::try_from(N).expect("a page is short"),
        words_10_to_15: [word_10, 0, 0, 0, 0, 0],
        timeout_ms: 5_000,
        ..AdminCommand::default()
    };
    // SAFETY: the command points to `data_length` writable bytes, and the driver copies to no others.
    let status =
        checked(unsafe { libc::ioctl(device.as_raw_fd(), NVME_IOCTL_ADMIN_CMD as _, &mut command) })?;
    if status == 0 { Ok(page) } else { Err(io::Error::other(format!("NVMe status {status:#x}"))) }
}

fn parse_controller(page: &[u8; 4096]) -> Controller {
    Controller { serial: text(&page[4..24]), model: text(&page[24..64]), firmware: text(&page[64..72]) }
}

fn parse_namespace(page: &[u8; 4096]) -> Namespace {
    // The low four bits of the index of the format in use, and its two high bits, which came when the limit rose from 16 to
    // 64 formats.
    let format = usize::from(page[26] & 0xF) | usize::from(page[26] >> 5 & 0x3) << 4;
    let block_shift = page[128 + format * 4 + 2];
    Namespace { logical_block: (9..=16).contains(&block_shift).then(|| Bytes(1 << block_shift)) }
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u128::from(byte))
}

/// Physical media units written, in bytes; `None` for another log.
fn parse_media_written(page: &[u8; 512]) -> Option<Bytes> {
    if number(&page[496..]) != CLOUD_LOG_GUID {
        return None;
    }
    u64::try_from(number(&page[..16])).ok().map(Bytes)
}

/// The health log by field, each with its unit.
fn parse_health(page: &[u8; 512]) -> BTreeMap<String, String> {
    let number = |offset: usize, length: usize| number(&page[offset..offset + length]);
    // A data unit is a thousand blocks of 512 bytes.
    let data = |offset| number(offset, 16).saturating_mul(512_000).to_string();
    let count = |offset| number(offset, 16).to_string();
    let celsius = i64::try_from(number(1, 2)).expect("two bytes fit") - 273;
    let fields = [
        ("critical_warning", format!("{:#04x}", page[0])),
        ("temperature_celsius", celsius.to_string()),
        ("available_spare_percent", page[3].to_string()),
        ("available_spare_threshold_percent", page[4].to_string()),
        ("endurance_used_percent", page[5].to_string()),
        ("data_read_bytes", data(32)),
        ("data_written_bytes", data(48)),
        ("host_read_commands", count(64)),
        ("host_write_commands", count(80)),
        ("controller_busy_minutes", count(96)),
        ("power_cycles", count(112)),
        ("power_on_hours", count(128)),
        ("unsafe_shutdowns", count(144)),
        ("media_errors", count(160)),
        ("error_log_entries", count(176)),
        ("warning_temperature_minutes", number(192, 4).to_string()),
        ("critical_temperature_minutes", number(196, 4).to_string()),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_base::{Prng, Seed};

    #[test]
    fn a_controller_is_read_from_its_page() {
        let mut page = [0; 4096];
        page[4..24].copy_from_slice(b"S4EWNX0R123456      ");
        page[24..64].copy_from_slice(b"Some SSD 970 EVO Plus 1TB               ");
        page[64..72].copy_from_slice(b"2B2QEXM7");
        let controller = parse_controller(&page);
        assert_eq!(controller.serial.as_deref(), Some("S4EWNX0R123456"));
        assert_eq!(controller.model.as_deref(), Some("Some SSD 970 EVO Plus 1TB"));
        assert_eq!(controller.firmware.as_deref(), Some("2B2QEXM7"));
        assert_eq!(parse_controller(&[0; 4096]), Controller::default());
    }

    #[test]
    fn a_namespace_has_the_block_of_the_format_in_use() {
        let mut page = [0; 4096];
        page[128 + 2] = 9;
        page[128 + 3 * 4 + 2] = 12;
        page[128 + 17 * 4 + 2] = 13;
        for (format, expected) in [(0, Some(512)), (3, Some(4096)), (0x21, Some(8192)), (1, None)] {
            page[26] = format;
            assert_eq!(parse_namespace(&page).logical_block, expected.map(Bytes), "format {format:#x}");
        }
    }

    #[test]
    fn the_health_log_is_read_with_its_units() {
        let mut page = [0; 512];
        page[0] = 4;
        page[1..3].copy_from_slice(&313u16.to_le_bytes());
        page[5] = 250;
        page[48..64].copy_from_slice(&1_000_001u128.to_le_bytes());
        page[128..144].copy_from_slice(&u128::MAX.to_le_bytes());
        page[196..200].copy_from_slice(&7u32.to_le_bytes());
        let health = parse_health(&page);
        assert_eq!(health["critical_warning"], "0x04");
        assert_eq!(health["temperature_celsius"], "40");
        assert_eq!(health["endurance_used_percent"], "250");
        assert_eq!(health["data_written_bytes"], "512000512000");
        assert_eq!(health["power_on_hours"], u128::MAX.to_string());
        assert_eq!(health["critical_temperature_minutes"], "7");
    }

    #[test]
    fn what_was_written_to_the_flash_is_read_from_the_cloud_log_and_from_no_other() {
        let mut page = [0; 512];
        page[..16].copy_from_slice(&123_456_789_012u128.to_le_bytes());
        assert_eq!(parse_media_written(&page), None);
        // As in the specification's table.
        page[496..].copy_from_slice(&[
            0xC5, 0xAF, 0x10, 0x28, 0xEA, 0xBF, 0xF2, 0xA4, 0x9C, 0x4F, 0x6F, 0x7C, 0xC9, 0x14, 0xD5, 0xAF,
        ]);
        assert_eq!(parse_media_written(&page), Some(Bytes(123_456_789_012)));
        page[..16].copy_from_slice(&u128::MAX.to_le_bytes());
        assert_eq!(parse_media_written(&page), None);
    }

    #[test]
    fn no_page_makes_the_parsers_panic() {
        let seed = Seed(2009);
        let mut prng = Prng::new(seed);
        let mut page = [0; 4096];
        for _ in 0..200 {
            prng.fill(&mut page);
            parse_controller(&page);
            let block = parse_namespace(&page).logical_block;
            assert!(block.is_none_or(|block| block.0.is_power_of_two()), "seed {seed}");
            let log = page[..512].try_into().unwrap();
            assert_eq!(parse_health(log).len(), 17);
            parse_media_written(log);
        }
    }

    #[test]
    fn what_is_no_nvme_device_says_so() {
        let file = File::open("/dev/null").unwrap();
        assert!(identify_controller(&file).is_err());
        assert!(identify_namespace(&file).is_err());
        assert!(health(&file).is_err());
        assert_eq!(media_written(&file), None);
    }
}
