//! A saved state in which a number was changed, with its checksum mended, as a bug or a hand may do it: it is refused
//! with a reason, or the device serves what it is asked. Never a panic.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Buffer, Device, Operation, Request};
use flashlab_sim::flash_device::StateError;
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice};

const CAPACITY: u64 = 2 << 20;
const HEAD: &str = "version = 2\nname = \"t\"\ntitle = \"t\"\nsource = \"none\"\nfit = \"none\"\n\
                    capacity = \"2MiB\"\n[flash]\npages_per_block = 16\nover_provisioning = 0.5\n";
/// What is behind [`HEAD`] in a profile: every layer, and whatever else a device remembers.
const DEVICES: [&str; 15] = [
    "[translation.page_map]\n",
    "dies = 2\nplanes = 2\n[translation.page_map]\npolicy = \"cost-benefit\"\nstreams = 2\nhot_within = 100\n",
    "[translation.page_map]\npolicy = \"fifo\"\nwear_spread = 4\n",
    "[translation.page_map]\npolicy = { choices = 4 }\ncollect_apart = true\n",
    "[translation.page_map]\nrefresh_reads = 1000\nretention = \"1s\"\n",
    "[flash.reliability]\nendurance = 40\n[translation.page_map]\n",
    "[translation.demand_map]\ncached_entries = 64\nentry_bytes = 64\n",
    "[translation.log_blocks]\nlogs = 3\nreplacement = \"least-recently-used\"\n",
    "dies = 2\n[translation.log_blocks]\nlogs = 2\norder = \"adjoining\"\ndisordered_after = 8\n",
    "[translation.log_blocks]\nlogs = 2\norder = \"next\"\n",
    "[flash.reliability]\nendurance = 40\n[translation.shared_logs]\nlogs = 4\n",
    "[translation.zones]\nactive_zones = 4\n",
    "[translation.page_map]\n[flash.slc_cache]\nsize = \"512KiB\"\nread = \"20us\"\nprogram = \"50us\"\nerase = \"1ms\"\n",
    "dies = 2\n[translation.log_blocks]\n[flash.slc_cache]\nsize = \"512KiB\"\nread = \"20us\"\nprogram = \"50us\"\nerase = \"1ms\"\n",
    "zeros_program_share = 0.5\n[noise]\nsigma = 0.1\n[controller]\nread_buffer = { size = \"64KiB\", read_ahead = \"16KiB\" }\n\
     write_buffer = { size = \"64KiB\", flush = \"when-full\" }\nsegment_groups = { count = 2, span = \"1MiB\", switch = \"1ms\" }\n",
];

fn flash_device(profile: &Profile) -> FlashDevice {
    match profile.device().unwrap() {
        SimulatedDevice::Flash(device) => *device,
        _ => panic!("the profile has flash"),
    }
}

/// Random IOs, which may fail.
fn use_it(device: &mut FlashDevice, count: u32, seed: u64) {
    let mut random = Prng::new(Seed(seed));
    for _ in 0..count {
        let operation = match random.below(64) {
            0 => Operation::Discard,
            1 => Operation::Flush,
            2..16 => Operation::Read,
            _ => Operation::Write,
        };
        // Some begin where a zone does, or are two zones.
        let size = if random.below(8) == 0 { 128 << 10 } else { 512 * (1 + random.below(64)) };
        let offset = 512 * random.below((CAPACITY - size) / 512);
        let offset = if random.below(2) == 0 { offset >> 16 << 16 } else { offset };
        let (offset, size) = (Bytes(offset), Bytes(size));
        device.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
        assert!(device.wait(Nanos::MAX).is_some());
    }
}

/// The state with another number in the place of one of its numbers, and with the right length and checksum.
fn damaged(state: &[u8], random: &mut Prng) -> Vec<u8> {
    const HEADER: usize = 32;
    let mut payload = state[HEADER..].to_vec();
    // A number of the encoding ends with a byte below 128.
    let mut from = random.below(payload.len() as u64) as usize;
    while from > 0 && payload[from - 1] >= 128 {
        from -= 1;
    }
    let length = 1 + payload[from..].iter().take_while(|&&byte| byte >= 128).count();
    let to = (from + length).min(payload.len());
    let other = match random.below(8) {
        0 => 0,
        1 => u64::from(u32::MAX),
        2 => u64::MAX,
        3 => random.next_u64(),
        4 => random.below(1 << 32),
        5 => random.below(1000),
        _ => random.below(40),
    };
    payload.splice(from..to, varint(other));
    let mut bytes = state[..HEADER].to_vec();
    bytes[20..28].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    bytes[28..32].copy_from_slice(&crc32fast::hash(&payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// Seven bits a byte, the lowest first.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

#[test]
fn a_damaged_state_is_refused_or_serves() {
    let (mut served, mut reasons) = (0, Vec::new());
    for (number, text) in (0..).zip(DEVICES) {
        let block = if text.contains("zones") { "4KiB" } else { "512B" };
        let profile = Profile::parse(&format!("block = \"{block}\"\n{HEAD}{text}"), "t.toml").unwrap();
        let mut device = flash_device(&profile);
        use_it(&mut device, 3000, number);
        let state = device.save();
        FlashDevice::restore(&profile, &state).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut random = Prng::new(Seed(100 + number));
        for trial in 0..300 {
            match FlashDevice::restore(&profile, &damaged(&state, &mut random)) {
                Ok(mut device) => {
                    use_it(&mut device, 10_000, trial);
                    served += 1;
                }
                Err(StateError::Inconsistent(reason)) => reasons.push(reason),
                Err(error) => assert_eq!(error, StateError::Damaged),
            }
        }
    }
    // Both happen, so the test tests both.
    assert!(served > 50 && reasons.len() > 500, "{served} served, {} refused", reasons.len());
    assert!(reasons.iter().all(|reason| reason.len() > 10));
}
