//! Reads the identity of a SCSI, SATA or USB disk from pages that the kernel keeps in sysfs.
//!
//! # Model
//! The fields of SCSI are too short for a SATA disk: the model is cut at 16 characters and the firmware at 4.
//! Three better sources:
//! - The ATA information page (89h of SAT-3, 12.4.2) contains the answer to IDENTIFY DEVICE (ACS-3, 7.12). In
//!   its texts, the characters of each pair are swapped.
//! - The unit serial number page (80h of SPC-4, 7.8.15) has the serial number of any SCSI disk.
//! - A USB stick without either takes the name of its USB device.

use std::fs;

use crate::block_device::BlockDevice;

/// The identity of a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Disk {
    pub(crate) model: Option<String>,
    pub(crate) serial: Option<String>,
    pub(crate) firmware: Option<String>,
}

/// The identity of a disk; nothing if it is not a SCSI, SATA or USB disk.
pub(crate) fn identify(device: &BlockDevice) -> Disk {
    let mut disk = device.bytes_of("device/vpd_pg89").and_then(|page| parse_ata(&page)).unwrap_or_default();
    let number = || device.bytes_of("device/vpd_pg80").and_then(|page| parse_serial(&page));
    disk.serial = disk.serial.or_else(number).or_else(|| usb_serial(device));
    disk
}

/// The serial number of the USB device that contains the disk.
fn usb_serial(disk: &BlockDevice) -> Option<String> {
    let path = disk.link("device")?;
    let usb = path.ancestors().find(|directory| directory.join("idVendor").exists())?;
    text(fs::read(usb.join("serial")).ok()?)
}

/// The ATA information page: the answer to IDENTIFY DEVICE starts at byte 60.
fn parse_ata(page: &[u8]) -> Option<Disk> {
    const IDENTIFY_DEVICE: u8 = 0xEC;
    if page.get(1) != Some(&0x89) || page.get(56) != Some(&IDENTIFY_DEVICE) {
        return None;
    }
    let answer = page.get(60..572)?;
    let words = |first: usize, last: usize| {
        let pairs = answer[2 * first..2 * last + 2].as_chunks::<2>().0;
        text(pairs.iter().flat_map(|&[low, high]| [high, low]).collect())
    };
    Some(Disk { serial: words(10, 19), firmware: words(23, 26), model: words(27, 46) })
}

/// The unit serial number page: its length is in bytes 2 and 3.
fn parse_serial(page: &[u8]) -> Option<String> {
    let &[_, 0x80, high, low, ref rest @ ..] = page else { return None };
    let length = usize::from(u16::from_be_bytes([high, low]));
    text(rest.get(..length)?.to_vec())
}

/// Without padding; `None` if nothing is left.
fn text(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_base::{Prng, Seed};

    /// The page of a disk with these texts, each written as ATA does.
    fn ata_page(serial: &str, firmware: &str, model: &str) -> Vec<u8> {
        let mut page = vec![0; 572];
        page[..4].copy_from_slice(&[0, 0x89, 0x02, 0x38]);
        page[56] = 0xEC;
        for (text, word, length) in [(serial, 10, 20), (firmware, 23, 8), (model, 27, 40)] {
            let padded = format!("{text:length$}");
            for (place, character) in padded.bytes().enumerate() {
                page[60 + word * 2 + (place ^ 1)] = character;
            }
        }
        page
    }

    #[test]
    fn a_sata_disk_tells_its_whole_model_serial_and_firmware() {
        let page = ata_page("S2R6NX0H123456", "RVT02B6Q", "Samsung SSD 860 EVO 500GB");
        let disk = parse_ata(&page).unwrap();
        assert_eq!(disk.serial.as_deref(), Some("S2R6NX0H123456"));
        assert_eq!(disk.firmware.as_deref(), Some("RVT02B6Q"));
        assert_eq!(disk.model.as_deref(), Some("Samsung SSD 860 EVO 500GB"));
        assert_eq!(parse_ata(&ata_page("", "", "")), Some(Disk::default()));
    }

    #[test]
    fn a_page_of_another_kind_or_cut_short_tells_nothing() {
        let page = ata_page("1", "2", "3");
        assert_eq!(parse_ata(&page[..571]), None);
        for byte in [1, 56] {
            let mut other = page.clone();
            other[byte] = 0xA1;
            assert_eq!(parse_ata(&other), None);
        }
        assert_eq!(parse_serial(b"\0\x83\0\x01X"), None);
        assert_eq!(parse_serial(b"\0\x80\0\x05SHRT"), None);
        assert_eq!(parse_serial(b"\0\x80"), None);
    }

    #[test]
    fn a_serial_number_is_as_long_as_its_page_says() {
        assert_eq!(parse_serial(b"\0\x80\0\x08  WD-1  and more").as_deref(), Some("WD-1"));
        assert_eq!(parse_serial(b"\0\x80\0\x04    "), None);
    }

    #[test]
    fn no_page_makes_the_parsers_panic() {
        let seed = Seed(2009);
        let mut prng = Prng::new(seed);
        for length in (0..700).step_by(7) {
            let mut page = vec![0; length];
            prng.fill(&mut page);
            for (kind, parse) in [(0x80, true), (0x89, false)] {
                if length > 56 {
                    (page[1], page[56]) = (kind, 0xEC);
                }
                let told = if parse { parse_serial(&page).is_some() } else { parse_ata(&page).is_some() };
                assert!(parse || told == (length >= 572), "seed {seed}, length {length}");
            }
        }
    }
}
