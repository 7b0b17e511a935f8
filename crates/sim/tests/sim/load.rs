//! Reads and writes under load: pipelines, reads that interrupt their die's work, and reads behind writes, against formulas.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Buffer, Completion, Device, Operation, Request};
use flashlab_sim::{Profile, SimulatedDevice};

/// One die: 100 us for the transfer of a page, 200 us for its program, 25 us for its read, 10 us for a command.
const PLAIN: &str = "version = 2\nname = \"t\"\ntitle = \"t\"\nsource = \"none\"\nfit = \"none\"\ncapacity = \"16MiB\"\n\
                     [flash]\nchannel_bandwidth = \"40960KB/s\"\nread = \"25us\"\nprogram = \"200us\"\nerase = \"1ms\"\n\
                     over_provisioning = 0.2\n";
const CONTROLLER: &str = "[controller]\nread_command = \"10us\"\nwrite_command = \"10us\"\n";
const PAGE: Bytes = Bytes::kib(4);

fn device(more: &str) -> SimulatedDevice {
    Profile::parse(&format!("{PLAIN}{more}"), "t.toml").unwrap().device().unwrap()
}

fn submit(device: &mut SimulatedDevice, tag: u64, operation: Operation, page: u64) {
    let request = Request { tag, operation, offset: PAGE * page, size: PAGE, buffer: Buffer::empty() };
    device.submit(request);
}

fn drain(device: &mut SimulatedDevice) -> Vec<Completion> {
    std::iter::from_fn(|| device.wait(Nanos::MAX)).collect()
}

fn response(done: &Completion) -> u64 {
    done.completed.since(done.submitted).0
}

#[test]
fn a_pipeline_makes_single_requests_slower_and_changes_no_rate() {
    let pipeline = "[controller.pipeline]\nread = \"5us\"\nwrite = \"7us\"\nwrite_bandwidth = \"1GB/s\"\n";
    let mut slow = device(&format!("{CONTROLLER}{pipeline}"));
    submit(&mut slow, 0, Operation::Write, 0);
    // 10 us of command, 300 us of flash, 7 us and 4096 B at 1 GB/s of pipeline.
    assert_eq!(response(&drain(&mut slow)[0]), 310_000 + 7_000 + 4_096);
    submit(&mut slow, 0, Operation::Read, 0);
    assert_eq!(response(&drain(&mut slow)[0]), 10_000 + 125_000 + 5_000);
    let last = |device: &mut SimulatedDevice| {
        let begin = device.now();
        (0..32).for_each(|page| submit(device, 0, Operation::Write, page));
        drain(device).last().unwrap().completed.since(begin).0
    };
    let mut fast = device(CONTROLLER);
    assert_eq!(last(&mut slow), last(&mut fast) + 11_096);
}

#[test]
fn reads_behind_writes_wait_until_the_buffer_has_taken_those() {
    let read = |key: &str| {
        let mut device = device(&format!("{CONTROLLER}{key}write_buffer = {{ size = \"4KiB\" }}\n"));
        (0..3).for_each(|page| submit(&mut device, 0, Operation::Write, page));
        // A page that was never written takes its command only.
        submit(&mut device, 1, Operation::Read, 100);
        let done = drain(&mut device);
        let writes_taken = done.iter().filter(|done| done.tag == 0).map(response).max().unwrap();
        (response(done.iter().find(|done| done.tag == 1).unwrap()), writes_taken)
    };
    assert_eq!(read("").0, 40_000);
    let (read, writes_taken) = read("reads_behind_writes = true\n");
    // The third write is taken when the second is programmed: 10 us of command and two programs of 300 us.
    assert_eq!(writes_taken, 10_000 + 2 * 300_000);
    assert_eq!(read, writes_taken + 10_000);
}

#[test]
fn a_read_that_interrupts_waits_for_half_a_step_in_the_mean() {
    const STEP: u64 = 50_000;
    // 10 us of command, 25 us of array, 100 us of transfer.
    const ALONE: u64 = 135_000;
    let waits = |key: &str| -> Vec<u64> {
        let mut device = device(&format!("{key}{CONTROLLER}"));
        let mut random = Prng::new(Seed(1));
        let mut waits = Vec::new();
        for _ in 0..400 {
            // The die is busy for 31 x 300 us.
            let begin = device.now();
            (0..31).for_each(|page| submit(&mut device, 0, Operation::Write, page));
            let until = begin + Nanos(500_000 + random.below(8_000_000));
            while device.wait(until).is_some() {}
            submit(&mut device, 1, Operation::Read, 0);
            let done = drain(&mut device);
            waits.push(response(done.iter().find(|done| done.tag == 1).unwrap()) - ALONE);
        }
        waits
    };
    let mean = |waits: &[u64]| waits.iter().sum::<u64>() / waits.len() as u64;
    let interrupting = waits("read_interrupts = \"50us\"\n");
    assert!(interrupting.iter().all(|&wait| wait <= STEP));
    assert!((STEP * 46 / 100..STEP * 54 / 100).contains(&mean(&interrupting)), "{}", mean(&interrupting));
    // In order a read waits for all writes before it: from 0.8 to 8.8 ms.
    assert!((4_300_000..5_300_000).contains(&mean(&waits(""))), "{}", mean(&waits("")));
}

#[test]
fn a_step_has_a_length_and_no_pause_of_collections_beside_it() {
    let refused = |key: &str| Profile::parse(&format!("{PLAIN}{key}"), "t.toml").unwrap_err().to_string();
    assert!(refused("read_interrupts = \"0us\"\n").contains("flash.read_interrupts"));
    let both = refused("read_interrupts = \"50us\"\ncollection_pause = \"1us\"\n");
    assert!(both.contains("without `flash.collection_pause`"), "{both}");
}
