//! Whole devices: what a person sees who sends requests and reads the clock.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Buffer, Conditioning, Device, Health, IoError, Operation, Request, Telemetry};
use flashlab_sim::flash::Cause;
use flashlab_sim::flash_device::StateError;
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice};

const HEAD: &str =
    "version = 2\nname = \"t\"\ntitle = \"t\"\nsource = \"none\"\nfit = \"none\"\ncapacity = \"16MiB\"\n";

fn profile(text: &str) -> Profile {
    Profile::parse(&format!("{HEAD}{text}"), "t.toml").unwrap()
}

fn device(text: &str) -> FlashDevice {
    flash_device(&profile(text))
}

fn flash_device(profile: &Profile) -> FlashDevice {
    match profile.device().unwrap() {
        SimulatedDevice::Flash(device) => *device,
        _ => panic!("the profile has flash"),
    }
}

fn submit(device: &mut FlashDevice, operation: Operation, offset: u64, size: u64) {
    let (offset, size) = (Bytes(offset), Bytes(size));
    device.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
}

/// One IO's response time in nanoseconds.
fn timed(device: &mut FlashDevice, operation: Operation, offset: u64, size: u64) -> u64 {
    submit(device, operation, offset, size);
    let done = device.wait(Nanos::MAX).unwrap();
    done.result.unwrap();
    done.completed.since(done.submitted).0
}

/// 4 KiB pages over a channel of 40.96 MB/s: 100 us for each.
const PLAIN: &str = "[flash]\nchannel_bandwidth = \"40960KB/s\"\nread = \"25us\"\nprogram = \"200us\"\nerase = \"1ms\"\n\
                     over_provisioning = 0.2\n";

#[test]
fn one_page_takes_command_array_and_transfer() {
    // El Maghraoui et al., equation 1, with the controller's 20 us.
    let mut device = device(PLAIN);
    assert_eq!(timed(&mut device, Operation::Write, 0, 4096), 20_000 + 100_000 + 200_000);
    assert_eq!(timed(&mut device, Operation::Read, 0, 4096), 20_000 + 25_000 + 100_000);
    // What was never written is not read from the flash.
    assert_eq!(timed(&mut device, Operation::Read, 8192, 4096), 20_000);
}

#[test]
fn pages_in_cache_mode_take_the_time_of_equation_3() {
    let mut device = device(&format!("{PLAIN}cache_mode = true\nregister_move = \"3us\"\n"));
    timed(&mut device, Operation::Write, 0, 4 * 4096);
    let expected = 25_000 + 4 * 3_000 + 3 * 100_000 + 100_000;
    assert_eq!(timed(&mut device, Operation::Read, 0, 4 * 4096), 20_000 + expected);
}

#[test]
fn requests_on_different_dies_overlap_and_share_their_channel() {
    let mut device = device(&format!("{PLAIN}dies = 2\n"));
    submit(&mut device, Operation::Write, 0, 4096);
    submit(&mut device, Operation::Write, 4096, 4096);
    let ends: Vec<u64> = (0..2).map(|_| device.wait(Nanos::MAX).unwrap().completed.0).collect();
    // The second transfer waits for the first; the programs overlap.
    assert_eq!(ends, [320_000, 420_000]);
    let mut device = self::device(&format!("{PLAIN}dies = 2\nchannels = 2\n"));
    submit(&mut device, Operation::Write, 0, 4096);
    submit(&mut device, Operation::Write, 4096, 4096);
    let ends: Vec<u64> = (0..2).map(|_| device.wait(Nanos::MAX).unwrap().completed.0).collect();
    assert_eq!(ends, [320_000, 340_000]);
}

#[test]
fn a_write_buffer_hides_programs_until_it_is_full() {
    let mut device = device(&format!("{PLAIN}[controller]\nwrite_buffer = {{ size = \"16KiB\" }}\n"));
    let times: Vec<u64> = (0..8).map(|i| timed(&mut device, Operation::Write, i * 4096, 4096)).collect();
    assert_eq!(times[..4], [20_000; 4]);
    assert!(times[4..].iter().all(|&time| time > 200_000), "{times:?}");
    assert!(timed(&mut device, Operation::Flush, 0, 0) > 0);
}

#[test]
fn writes_to_the_same_page_meet_in_a_buffer_that_flushes_when_full() {
    let text = format!("{PLAIN}[controller]\nwrite_buffer = {{ size = \"64KiB\", flush = \"when-full\" }}\n");
    let mut device = device(&text);
    for _ in 0..1000 {
        timed(&mut device, Operation::Write, 0, 4096);
    }
    assert_eq!(device.flash().counts().programs(), 0);
    timed(&mut device, Operation::Flush, 0, 0);
    assert_eq!(device.flash().counts().programs(), 1);
}

#[test]
fn part_of_a_page_is_written_by_reading_the_rest() {
    let mut device = device(PLAIN);
    timed(&mut device, Operation::Write, 0, 4096);
    // Read 25 + 100, write 100 + 200, and the command.
    assert_eq!(timed(&mut device, Operation::Write, 512, 512), 20_000 + 125_000 + 300_000);
    // Two halves of pages.
    timed(&mut device, Operation::Write, 4096, 4096);
    assert_eq!(
        timed(&mut device, Operation::Write, 2048, 4096),
        20_000 + 3 * 100_000 + 125_000 + 425_000 - 300_000 + 25_000 + 275_000
    );
}

#[test]
fn a_segment_group_is_left_at_a_price() {
    let groups = "[controller]\nsegment_groups = { count = 2, span = \"8MiB\", switch = \"250us\" }\n";
    let mut device = device(&format!("{PLAIN}{groups}"));
    assert_eq!(timed(&mut device, Operation::Read, 0, 512), 20_000);
    assert_eq!(timed(&mut device, Operation::Read, 8 << 20, 512), 270_000);
    assert_eq!(timed(&mut device, Operation::Read, 9 << 20, 512), 20_000);
}

#[test]
fn a_write_may_leave_a_segment_group_at_another_price() {
    let groups = "[controller]\nwrite_bandwidth = \"512MB/s\"\nsegment_groups = { count = 2, span = \"8MiB\", \
                  switch = \"250us\", write_switch = \"3ms\" }\n";
    let mut device = device(&format!("{PLAIN}{groups}"));
    let stay = timed(&mut device, Operation::Write, 0, 4096);
    let leave = timed(&mut device, Operation::Write, 8 << 20, 4096);
    assert_eq!(leave - stay, 3_000_000);
    assert_eq!(timed(&mut device, Operation::Read, 1 << 20, 512), 270_000);
}

#[test]
fn a_large_request_comes_as_several_commands() {
    let mut whole = device(PLAIN);
    let mut commands = device(&format!("{PLAIN}[controller]\nlargest_command = \"64KiB\"\n"));
    // Nothing was written, so only the commands take time.
    assert_eq!(timed(&mut whole, Operation::Read, 4096, 160 << 10), 20_000);
    assert_eq!(timed(&mut commands, Operation::Read, 4096, 160 << 10), 60_000);
    for device in [&mut whole, &mut commands] {
        timed(device, Operation::Write, 4096, 160 << 10);
    }
    let pages = |device: &FlashDevice| device.flash().counts().pages_programmed(Cause::Host);
    assert_eq!((pages(&whole), pages(&commands)), (40, 40));
}

#[test]
fn a_request_beyond_reach_of_the_one_before_costs_a_jump() {
    let jumps = "[controller]\nread_jump = \"30us\"\nwrite_jump = \"50us\"\njump_reach = \"4KiB\"\n";
    let mut device = device(&format!("{PLAIN}{jumps}"));
    let mut times = |operation| [0, 8192, 40960].map(|offset| timed(&mut device, operation, offset, 4096));
    assert_eq!(times(Operation::Write), [320_000, 320_000, 370_000]);
    assert_eq!(times(Operation::Read), [145_000, 145_000, 175_000]);
}

#[test]
fn without_pages_in_flight_the_host_waits_for_what_leaves_a_full_buffer() {
    let buffer = "[controller.write_buffer]\nsize = \"8KiB\"\nflush = \"when-full\"\nin_flight = \"0B\"\n";
    let mut device = device(&format!("{PLAIN}{buffer}"));
    let times = [0, 4096, 8192, 12288].map(|offset| timed(&mut device, Operation::Write, offset, 4096));
    // All three leave together.
    assert_eq!(times, [20_000, 20_000, 20_000 + 3 * 300_000, 20_000]);
}

/// What the write that needs a second merge takes, on one die with one log, after an idle time.
fn second_merge(flash: &str, background: &str, idle: Nanos) -> u64 {
    let layer = "[translation.log_blocks]\nlogs = 1\nstripe_pages = 4\n";
    let mut device = device(&format!("{PLAIN}pages_per_block = 4\n{flash}{background}{layer}"));
    let block = 4 * 4096;
    for offset in [0, block] {
        timed(&mut device, Operation::Write, offset, block);
    }
    // Each of these pages begins a log; the second and the third one need the log of the one before.
    timed(&mut device, Operation::Write, 0, 4096);
    timed(&mut device, Operation::Write, block, 4096);
    let until = device.now().saturating_add(idle);
    device.wait(until);
    timed(&mut device, Operation::Write, 0, 4096)
}

#[test]
fn a_backlog_is_done_in_idle_time_unless_the_profile_says_otherwise() {
    let one = "[controller.background]\nmax_backlog = 1\n";
    let (none, long) = (Nanos::ZERO, Nanos::from_secs(1));
    assert_eq!(second_merge("", one, long), 320_000);
    let waits = second_merge("", one, none);
    assert!(waits > 1_320_000, "a merge is an erase at the least: {waits}");
    assert_eq!(second_merge("", &format!("{one}while_idle = false\n"), long), waits);
}

#[test]
fn the_controller_takes_its_time_for_each_page_that_is_copied() {
    let plain = second_merge("", "", Nanos::ZERO);
    // The log begins with the first of four pages; the other three are copied.
    assert_eq!(second_merge("copy = \"10us\"\n", "", Nanos::ZERO), plain + 3 * 10_000);
}

#[test]
fn repeated_reads_and_read_ahead_come_from_the_buffer() {
    let buffer = "[controller]\nread_buffer = { size = \"32KiB\", read_ahead = \"16KiB\" }\n";
    let mut device = device(&format!("{PLAIN}{buffer}"));
    timed(&mut device, Operation::Write, 0, 1 << 20);
    let first = timed(&mut device, Operation::Read, 0, 512);
    assert_eq!(first, 145_000);
    assert_eq!(timed(&mut device, Operation::Read, 0, 512), 20_000);
    timed(&mut device, Operation::Read, 512, 4096 - 512);
    // The pages behind it are on their way.
    let now = device.now() + Nanos::from_millis(10);
    assert!(device.wait(now).is_none());
    assert_eq!(timed(&mut device, Operation::Read, 4096, 4096), 20_000);
}

#[test]
fn what_makes_an_answer_late_is_no_rest() {
    // Half of all answers are late, some very, and nobody waits between them.
    let noise = "[noise]\nsigma = 0.05\noutlier_share = 0.05\noutlier_factor = 10.0\n";
    let mut device = device(&format!("{PLAIN}{}{noise}", LAYERS[0]));
    let folded = |device: &FlashDevice| device.flash().counts().pages_programmed(Cause::Fold);
    for page in 0..200 {
        timed(&mut device, Operation::Write, 4096 * page, 4096);
    }
    assert_eq!(folded(&device), 0);
    let until = device.now() + Nanos::from_millis(1);
    assert!(device.wait(until).is_none());
    timed(&mut device, Operation::Write, 4096 * 200, 4096);
    assert!(folded(&device) > 0);
}

const LAYERS: [&str; 6] = [
    "[flash.slc_cache]\nsize = \"1MiB\"\nread = \"20us\"\nprogram = \"50us\"\nerase = \"1ms\"\n",
    "[translation.page_map]\n",
    "[translation.demand_map]\ncached_entries = 64\n",
    "[translation.log_blocks]\nlogs = 3\n",
    "[translation.log_blocks]\nlogs = 2\norder = \"next\"\n",
    "[translation.shared_logs]\nlogs = 4\n",
];

/// Random IOs of random sizes, aligned to 512 B.
fn ios(count: u32, seed: u64) -> Vec<(Operation, Bytes, Bytes)> {
    let mut random = Prng::new(Seed(seed));
    let io = |_| {
        let operation = match random.below(16) {
            0 => Operation::Discard,
            1 => Operation::Flush,
            2..5 => Operation::Read,
            _ => Operation::Write,
        };
        let size = 512 * (1 + random.below(128));
        let offset = 512 * random.below(((16 << 20) - size) / 512);
        (operation, Bytes(offset), Bytes(size))
    };
    (0..count).map(io).collect()
}

#[test]
fn conditioning_without_times_ends_in_the_same_state() {
    for layer in LAYERS {
        for buffer in ["", "[controller]\nwrite_buffer = { size = \"64KiB\", flush = \"when-full\" }\n"] {
            let profile = profile(&format!("{PLAIN}dies = 2\n{layer}{buffer}"));
            let ios = ios(3000, 1);
            let mut timed = flash_device(&profile);
            for &(operation, offset, size) in &ios {
                self::timed(&mut timed, operation, offset.0, size.0);
            }
            let mut untimed = flash_device(&profile);
            assert_eq!(untimed.condition(&mut ios.iter().copied()), Ok(()));
            assert_eq!(untimed.now(), Nanos::ZERO);
            assert!(timed.now() > Nanos::ZERO);
            assert_eq!(timed.save(), untimed.save(), "{layer}{buffer}");
        }
    }
}

/// Uniformly random writes of one page, for this number of capacities.
fn random_pages(capacities: u64, seed: u64) -> impl Iterator<Item = (Operation, Bytes, Bytes)> {
    let mut random = Prng::new(Seed(seed));
    (0..capacities * 4096).map(move |_| (Operation::Write, Bytes(4096 * random.below(4096)), Bytes(4096)))
}

#[test]
fn a_device_is_steady_when_its_write_amplification_stays_as_it_is() {
    // Three windows of 256 blocks are twelve capacities. In the first one, with twice the capacity to spare, three of
    // four capacities are written before anything is collected.
    for (spare, least) in [(0.2, 12), (2.0, 16)] {
        let mut device = device(&format!("[flash]\nover_provisioning = {spare}\n"));
        let state = device.condition_until_steady(&mut random_pages(60, 1)).unwrap();
        assert!(state.steady && state.written >= Bytes(least << 24), "{state:?}");
        let before = device.flash().counts().clone();
        device.condition(&mut random_pages(20, 2)).unwrap();
        let after = device.flash().counts().since(&before).write_amplification().unwrap();
        let ratio = after / state.write_amplification.unwrap();
        assert!((0.985..1.015).contains(&ratio), "{state:?}, and then {after}");
    }
}

#[test]
fn a_device_that_counts_what_it_writes_tells_the_host_s_pages_and_its_own() {
    let mut silent = device("[flash]\nover_provisioning = 0.2\n");
    assert_eq!(silent.media_written(), None);
    let mut device = device("[flash]\nover_provisioning = 0.2\n[controller]\ncounts_media_writes = true\n");
    device.condition(&mut random_pages(3, 1)).unwrap();
    let amplification = device.flash().counts().write_amplification().unwrap();
    let written = device.media_written().unwrap();
    assert!(amplification > 1.2);
    assert_eq!(written.0 as f64, amplification * 3.0 * f64::from(16 << 20));
}

#[test]
fn writes_that_end_too_early_leave_a_device_that_is_not_steady() {
    let mut device = device("[flash]\nover_provisioning = 2.0\n");
    let state = device.condition_until_steady(&mut random_pages(1, 1)).unwrap();
    assert_eq!((state.written, state.write_amplification, state.steady), (Bytes::mib(16), Some(1.0), false));
    let state = device.condition_until_steady(&mut std::iter::empty()).unwrap();
    assert_eq!((state.written, state.write_amplification, state.steady), (Bytes::ZERO, None, false));
    // An IO beyond the end fails, and those before it were served.
    let wrong = (Operation::Write, Bytes::mib(16), Bytes(4096));
    let mut ios = random_pages(1, 1).take(3).chain([wrong]).chain(random_pages(1, 1));
    let before = device.flash().counts().clone();
    assert_eq!(device.condition_until_steady(&mut ios), Err(IoError::OUT_OF_RANGE));
    assert_eq!(device.flash().counts().since(&before).pages_programmed(Cause::Host), 3);
}

#[test]
fn a_saved_device_goes_on_as_if_it_had_not_been_saved() {
    for layer in LAYERS {
        let profile = profile(&format!("{PLAIN}{layer}"));
        let mut first = flash_device(&profile);
        first.condition(&mut ios(2000, 2).into_iter()).unwrap();
        let mut second = FlashDevice::restore(&profile, &first.save()).unwrap();
        for (operation, offset, size) in ios(500, 3) {
            let times = [&mut first, &mut second].map(|device| timed(device, operation, offset.0, size.0));
            assert_eq!(times[0], times[1], "{layer}");
        }
        assert_eq!(first.save(), second.save());
    }
}

#[test]
fn bytes_that_are_no_state_are_refused() {
    let profile = profile(PLAIN);
    let other = self::profile(&PLAIN.replace("25us", "26us"));
    let bytes = flash_device(&profile).save();
    let error = |profile: &Profile, bytes: &[u8]| FlashDevice::restore(profile, bytes).unwrap_err();
    assert_eq!(error(&profile, b"hello"), StateError::NoState);
    assert_eq!(error(&other, &bytes), StateError::OtherProfile);
    assert_eq!(error(&profile, &bytes[..bytes.len() - 1]), StateError::Damaged);
    let mut version = bytes.clone();
    version[8] = 9;
    assert_eq!(error(&profile, &version), StateError::Version(9));
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        assert!(FlashDevice::restore(&profile, &damaged).is_err(), "byte {at}");
    }
}

#[test]
fn every_request_is_served_or_fails_with_a_reason() {
    // Twelve blocks' worth of a thousand random writes with the least over-provisioning that is allowed.
    let mut device = device("[flash]\nover_provisioning = 0.04\n");
    let mut random = Prng::new(Seed(5));
    for _ in 0..20_000 {
        submit(&mut device, Operation::Write, 4096 * random.below(4096), 4096);
        let done = device.wait(Nanos::MAX).unwrap();
        assert!(
            done.result.is_ok() || done.result == Err(IoError::READ_ONLY) && device.exhausted().is_some()
        );
    }
    assert_eq!(device.exhausted(), None);
    assert!(device.statistics().write_amplification.unwrap() > 3.0);
}

#[test]
fn profiles_that_no_device_can_have_are_refused() {
    let error = |text: &str| match Profile::parse(&format!("{HEAD}{text}"), "t.toml") {
        Ok(profile) => profile.device().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    insta::assert_snapshot!(error(""), @"profile t.toml: `flash` is absent; it may be there, or `throughput` or `disk`: a device is one of them");
    insta::assert_snapshot!(error("[flash]\npages_per_block = 0\n"), @"profile t.toml: `flash.pages_per_block` is 0; it may be 1 to 65536 with all planes together");
    insta::assert_snapshot!(error("[flash]\nover_provisioning = 0.0\n"), @"profile t.toml: `flash.over_provisioning` is 0; it may be at least 0.0157: the capacity has 4096 pages, and there may be up to 3968: die 0 of 1 has 64 blocks of 64 pages, of which 1 are open and 1 in reserve");
    insta::assert_snapshot!(error("[flash]\npage = \"3KiB\"\n"), @"profile t.toml: `flash.page` is 3 KiB; it may be a power of two from 512B to 1MiB");
    insta::assert_snapshot!(error("[flash]\nchannel_bandwidth = \"40MB\"\n"), @r#"
        profile t.toml: TOML parse error at line 8, column 21
          |
        8 | channel_bandwidth = "40MB"
          |                     ^^^^^^
        `40MB` is not a bandwidth: write bytes a second with a unit, as in 40MB/s
        "#);
    insta::assert_snapshot!(error("[flash]\n[controller]\nread_buffer = { size = \"5000B\" }\n"), @"profile t.toml: `controller.read_buffer.size` is 4.9 KiB; it may be a multiple of `flash.page` (4 KiB), 1 pages to 16777216");
    insta::assert_snapshot!(error("[flash]\n[translation.log_blocks]\nlogs = 4\nstripe_pages = 0\n"), @"profile t.toml: `translation.log_blocks.stripe_pages` is 0; it may be 1 to 4096, the pages of a die for data");
}

#[test]
fn every_refusal_names_the_key_its_value_and_what_is_legal() {
    for (text, named) in [
        ("[flash]\npage = \"15EiB\"\n", ["flash.page", "15 EiB", "512B to 1MiB"]),
        ("[flash]\npage = 0\n", ["flash.page", "0 B", "512B to 1MiB"]),
        ("[flash]\nplanes = 0\n", ["flash.planes", "0", "from 1 on"]),
        ("[flash]\nplanes = -1\n", ["planes", "-1", "from 0 to 4294967295"]),
        ("[flash]\ncopy = \"5h\"\n", ["flash.copy", "5 h", "0 to 100s"]),
        ("[flash]\nread = -1\n", ["read", "-1", "a list of one to four"]),
        ("[flash]\nchannel_bandwidth = 0\n", ["channel_bandwidth", "0", "40MB/s"]),
        ("[flash]\nover_provisioning = 1e308\n", ["flash.over_provisioning", "1e308", "0 to 100"]),
        ("[flash]\nenergy = { read_uj = nan }\n", ["flash.energy.read_uj", "NaN", "0 to 1000000000"]),
        ("[flash]\nslc_cache = { read = \"1us\" }\n", ["slc_cache", "missing field", "`size`"]),
        (
            "[flash]\nslc_cache = { size = 0, read = 0, program = 0, erase = 0 }\n",
            ["flash.slc_cache.size", "0 B", "from one page on"],
        ),
        ("[flash]\n[controller]\nread_jump = \"5h\"\n", ["controller.read_jump", "5 h", "0 to 100s"]),
        ("[flash]\n[noise]\noutlier = \"5h\"\n", ["noise.outlier", "5 h", "0 to 100s"]),
        ("[flash]\n[noise]\noutlier_factor = 0.5\n", ["noise.outlier_factor", "0.5", "1 to 1000"]),
        (
            "[flash]\n[translation.page_map]\npolicy = { choices = 0 }\n",
            ["translation.page_map.policy.choices", "0", "1 to 1024"],
        ),
        (
            "[flash]\n[translation.log_blocks]\nlogs = 4294967295\n",
            ["capacity", "16 MiB", "4294967295 pages"],
        ),
        (
            "[flash]\n[translation.zones]\n[translation.page_map]\n",
            ["translation", "zones", "one translation layer"],
        ),
        (
            "block = \"4KiB\"\n[flash]\n[translation.zones]\nzone_blocks = 3\n",
            ["translation.zones.zone_blocks", "3", "4096 pages of 4 KiB"],
        ),
        ("translation = \"zones\"\n[flash]\n", ["translation", "zones", "a section"]),
        ("[disk]\n[controller]\ndepth = 3\n", ["controller", "there", "absent"]),
    ] {
        let error = Profile::parse(&format!("{HEAD}{text}"), "t.toml").unwrap_err().to_string();
        assert!(named.iter().all(|part| error.contains(part)), "{named:?}: {error}");
    }
    let error = Profile::parse(&HEAD.replace("capacity", "#"), "t.toml").unwrap_err().to_string();
    assert!(error.contains("missing field `capacity`"), "{error}");
}

#[test]
fn what_is_said_to_be_enough_over_provisioning_is_enough_and_no_less_is() {
    for layer in ["page_map", "demand_map", "page_map]\nstreams = 7\nlow_watermark = 30\n#"] {
        let parse = |share: &str| {
            let text =
                format!("{HEAD}[flash]\ndies = 3\nover_provisioning = {share}\n[translation.{layer}]\n");
            Profile::parse(&text, "t.toml").map_err(|error| error.to_string())
        };
        let error = parse("0.0").unwrap_err();
        let least = error.split("at least ").nth(1).and_then(|rest| rest.split(':').next()).unwrap();
        assert!(parse(least).is_ok(), "{layer}: {least}");
        // Flash comes in blocks on each of the dies, so the next smaller share is one of them less.
        let less = least.parse::<f64>().unwrap() - 3.0 * 64.0 * 4096.0 / (16 << 20) as f64 - 2e-4;
        assert!(parse(&less.max(0.0).to_string()).is_err(), "{layer}: {less}");
    }
}

#[test]
fn a_zoned_device_whose_blocks_have_failed_can_only_be_read() {
    let text = "block = \"4KiB\"\n[flash]\ndies = 2\nreliability = { endurance = 2 }\n[translation.zones]\n";
    let mut device = device(text);
    let zone = 512 << 10;
    let result = |device: &mut FlashDevice, operation, offset, size| {
        submit(device, operation, offset, size);
        device.wait(Nanos::MAX).unwrap().result
    };
    let mut rounds = 0;
    let error = loop {
        if let Err(error) = result(&mut device, Operation::Write, 0, zone) {
            break error;
        }
        assert_eq!(result(&mut device, Operation::Discard, 0, zone), Ok(()));
        rounds += 1;
        assert!(rounds < 1000, "no block ever failed");
    };
    assert_eq!(error, IoError::READ_ONLY);
    let reason = device.exhausted().unwrap();
    assert!(reason.contains("have failed that none is left for zone 0"), "{reason}");
}

#[test]
fn a_zone_is_written_in_order_and_reset_as_a_whole() {
    // Zones of 2 x 64 pages: 512 KiB.
    let zone = 512 << 10;
    let text = "block = \"4KiB\"\n[flash]\ndies = 2\n[translation.zones]\nactive_zones = 2\n";
    let mut device = device(text);
    let mut result = |operation, offset, size| {
        submit(&mut device, operation, offset, size);
        device.wait(Nanos::MAX).unwrap().result
    };
    assert_eq!(result(Operation::Write, 4096, 4096), Err(IoError::IO));
    assert_eq!(result(Operation::Write, 0, 4096), Ok(()));
    assert_eq!(result(Operation::Write, 0, 4096), Err(IoError::IO));
    assert_eq!(result(Operation::Write, zone, 8192), Ok(()));
    // A third zone is one too many, until the first is full.
    assert_eq!(result(Operation::Write, 2 * zone, 4096), Err(IoError::TOO_MANY_ZONES));
    assert_eq!(result(Operation::Write, 4096, zone - 4096), Ok(()));
    assert_eq!(result(Operation::Write, 2 * zone, 4096), Ok(()));
    // Half a zone is not reset, and a whole one can be written again.
    assert_eq!(result(Operation::Discard, 0, zone / 2), Ok(()));
    assert_eq!(result(Operation::Write, 0, 4096), Err(IoError::IO));
    assert_eq!(result(Operation::Discard, 0, zone), Ok(()));
    assert_eq!(result(Operation::Write, zone + 8192, zone - 8192), Ok(()));
    assert_eq!(result(Operation::Write, 0, 2 * 4096), Ok(()));
    let counts = device.flash().counts();
    assert_eq!((counts.programs(), counts.erases()), (128 + 2 + 1 + 126 + 2, 2));
    assert_eq!(counts.write_amplification(), Some(1.0));
}

#[test]
fn placement_hints_keep_what_dies_together_apart() {
    // Nine of ten writes go to the first tenth, and one to the other nine tenths.
    let written = |hints: &str| {
        let text = format!(
            "{PLAIN}pages_per_block = 32\n{hints}[translation.page_map]\nstreams = 2\ncollect_apart = true\n"
        );
        let mut device = device(&text);
        let mut random = Prng::new(Seed(9));
        let hot = 410;
        let mut ios = (0..200_000).map(|i| {
            let page = if i % 10 < 9 { random.below(hot) } else { hot + random.below(4096 - hot) };
            (Operation::Write, Bytes(4096 * page), Bytes(4096))
        });
        device.condition(&mut ios).unwrap();
        device.statistics().write_amplification.unwrap()
    };
    let hints = "[[controller.placement]]\nfrom = \"0B\"\nto = \"1640KiB\"\nstream = 1\n";
    let (without, with) = (written(""), written(hints));
    assert!(with < 0.95 * without, "write amplification {with} with hints and {without} without");
}

#[test]
fn a_die_that_is_full_of_valid_pages_is_passed_over_while_another_one_has_room() {
    let mut device = device("[flash]\npages_per_block = 64\ndies = 2\n");
    let mut write = |page: u64, pages: u64| {
        submit(&mut device, Operation::Write, 4096 * page, 4096 * pages);
        let done = device.wait(Nanos::MAX).unwrap().result;
        assert_eq!(done, Ok(()), "{pages} from {page} on: {:?}", device.refusal());
    };
    (0..4096).for_each(|page| write(page, 1));
    // The second die takes over pages of the first one, which only writes the first page repeatedly.
    for page in (2..2048).step_by(2) {
        write(0, 1);
        write(page, 1);
    }
    (0..64).for_each(|index| write(64 * index, 64));
}

#[test]
fn a_device_that_is_worn_out_says_so() {
    let mut device = device("[flash]\nover_provisioning = 0.3\nreliability = { endurance = 5 }\n");
    assert_eq!(device.refusal(), None);
    let mut random = Prng::new(Seed(1));
    let mut results = (0..100_000).map(|_| {
        submit(&mut device, Operation::Write, 4096 * random.below(4096), 4096);
        device.wait(Nanos::MAX).unwrap().result
    });
    assert_eq!(results.find(Result::is_err), Some(Err(IoError::READ_ONLY)));
    drop(results);
    let refusal = device.refusal().unwrap();
    assert!(refusal.starts_with("takes no writes any more, because "), "{refusal}");
    submit(&mut device, Operation::Read, 0, 4096);
    assert_eq!(device.wait(Nanos::MAX).unwrap().result, Ok(()));
}

#[test]
fn a_recalled_state_gives_the_same_response_times_once_more() {
    for name in ["iodrive", "uflip-mtron", "sdcard"] {
        let profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == name).unwrap();
        let mut device = flash_device(&profile.resized(Bytes::mib(64)).unwrap());
        let (size, pages) = (Bytes::kib(16), Bytes::mib(64).0 / Bytes::kib(16).0);
        let mut random = Prng::new(Seed(9));
        let mut writes = (0..4 * pages).map(|_| (Operation::Write, size * random.below(pages), size));
        device.condition(&mut writes).unwrap();
        device.remember();
        let run = |device: &mut FlashDevice| -> Vec<u64> {
            // The kept state is that of an idle device.
            let later = device.now() + Nanos::from_secs(10);
            device.wait(later);
            let mut random = Prng::new(Seed(10));
            (0..500).map(|_| timed(device, Operation::Write, random.below(pages) * size.0, size.0)).collect()
        };
        let (first, other) = (run(&mut device), run(&mut device));
        device.recall();
        assert_eq!(run(&mut device), first, "{name}");
        assert_ne!(other, first, "{name}: without a return the state is another one");
    }
}
