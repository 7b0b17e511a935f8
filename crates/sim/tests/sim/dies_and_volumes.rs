//! What a profile can say of dies, contents and volumes, in times computed by hand.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Arena, Device, Operation, Request};
use flashlab_sim::{Profile, SimulatedDevice};

const HEAD: &str =
    "version = 2\nname = \"t\"\ntitle = \"t\"\nsource = \"none\"\nfit = \"none\"\ncapacity = \"16MiB\"\n";
/// A command takes 10 us, a page of 4 KiB 100 us over the channel, reading 25, programming 200.
const FLASH: &str = "[flash]\nchannel_bandwidth = \"40960KB/s\"\n";
const CONTROLLER: &str = "[controller]\nread_command = \"10us\"\nwrite_command = \"10us\"\n";

fn device(text: &str) -> SimulatedDevice {
    Profile::parse(&format!("{HEAD}{text}"), "t.toml").unwrap().device().unwrap()
}

fn submit(device: &mut SimulatedDevice, operation: Operation, offset: u64, content: &[u8]) {
    let mut buffer = Arena::buffers(1, Bytes(content.len() as u64)).remove(0);
    buffer[..content.len()].copy_from_slice(content);
    let size = Bytes(content.len() as u64);
    device.submit(Request { tag: 0, operation, offset: Bytes(offset), size, buffer });
}

/// One IO's response time in microseconds.
fn timed(device: &mut SimulatedDevice, operation: Operation, offset: u64, content: &[u8]) -> u64 {
    submit(device, operation, offset, content);
    let done = device.wait(Nanos::MAX).unwrap();
    done.result.unwrap();
    done.completed.since(done.submitted).0 / 1000
}

const PAGE: [u8; 4096] = [7; 4096];

#[test]
fn a_row_waits_in_the_register_for_its_last_page() {
    let mut device = device(&format!("{FLASH}planes = 4\ngathers_multi_plane_pages = true\n{CONTROLLER}"));
    let times = [0, 1, 2, 3].map(|page| timed(&mut device, Operation::Write, page * 4096, &PAGE));
    assert_eq!(times, [110, 110, 110, 310]);
    // One and a half multi-plane pages: 6 transfers and one program; the other half pays for the second program.
    assert_eq!(timed(&mut device, Operation::Write, 4 * 4096, &[7; 6 * 4096]), 10 + 600 + 200);
    assert_eq!(timed(&mut device, Operation::Write, 10 * 4096, &[7; 2 * 4096]), 10 + 200 + 200);
}

#[test]
fn a_die_keeps_the_row_that_it_read_until_it_does_something_else() {
    let mut device = device(&format!("{FLASH}planes = 2\nreuses_page_register = true\n{CONTROLLER}"));
    timed(&mut device, Operation::Write, 0, &[7; 4 * 4096]);
    let mut read = |page: u64| timed(&mut device, Operation::Read, page * 4096, &PAGE);
    assert_eq!([read(0), read(1), read(2), read(3), read(2)], [135, 110, 135, 110, 110]);
    timed(&mut device, Operation::Write, 16 * 4096, &PAGE);
    assert_eq!(timed(&mut device, Operation::Read, 3 * 4096, &PAGE), 135);
}

#[test]
fn each_page_is_programmed_as_its_own_content_takes() {
    let mut device =
        device(&format!("{FLASH}zeros_program_share = 0.1\nones_program_share = 0.5\n{CONTROLLER}"));
    let pages = |contents: &[u8]| contents.iter().flat_map(|&byte| [byte; 4096]).collect::<Vec<u8>>();
    assert_eq!(timed(&mut device, Operation::Write, 0, &pages(&[0])), 10 + 100 + 20);
    assert_eq!(timed(&mut device, Operation::Write, 4096, &pages(&[0xFF])), 10 + 100 + 100);
    assert_eq!(timed(&mut device, Operation::Write, 8192, &pages(&[0, 7])), 10 + 200 + 220);
    assert_eq!(timed(&mut device, Operation::Write, 16384, &pages(&[7, 0, 0xFF])), 10 + 300 + 320);
}

#[test]
fn a_write_elsewhere_costs_its_jump() {
    let mut device = device(&format!("{FLASH}{CONTROLLER}write_jump = \"50us\"\n"));
    let times = [0, 1, 5, 6].map(|page| timed(&mut device, Operation::Write, page * 4096, &PAGE));
    assert_eq!(times, [310, 310, 360, 310]);
}

#[test]
fn a_volume_is_let_through_at_its_rate_and_its_latency_is_added() {
    let limit = "limit = { read_iops = 1000, write_bandwidth = \"4096KB/s\", burst = \"3ms\", latency = \"500us\" }\n";
    let mut device = device(&format!("{FLASH}{CONTROLLER}{limit}"));
    // Nothing was written: a read takes its command and the way. What was saved up lets the first ones through
    // at once, one more than the three of the burst; the others come a millisecond apart.
    for page in 0..8 {
        submit(&mut device, Operation::Read, page * 4096, &PAGE);
    }
    let ends: Vec<u64> = (0..8).map(|_| device.wait(Nanos::MAX).unwrap().completed.0 / 1000).collect();
    assert_eq!(ends, [510, 520, 530, 540, 1510, 2510, 3510, 4510]);
    // 4 KiB at 4096 KB/s are a millisecond as well, of the same bucket.
    let later = device.now() + Nanos::from_secs(1);
    assert!(device.wait(later).is_none());
    for page in 0..6 {
        submit(&mut device, Operation::Write, page * 4096, &PAGE);
    }
    let started = device.now();
    let last = (0..6).map(|_| device.wait(Nanos::MAX).unwrap().completed).last().unwrap();
    assert_eq!(last.since(started).0 / 1000, 2000 + 310 + 500);
}

#[test]
fn a_limit_of_nothing_is_refused() {
    let text = format!("{HEAD}{FLASH}[controller]\nlimit = {{ read_iops = 0 }}\n");
    let error = Profile::parse(&text, "t.toml").unwrap_err().to_string();
    insta::assert_snapshot!(error, @"profile t.toml: `controller.limit.read_iops` is 0; it may be at least 1, or absent");
}
