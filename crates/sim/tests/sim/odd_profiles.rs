//! Profiles made at random from odd values: each is refused with a sentence, or describes a device that serves every
//! request or fails it with a reason.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Buffer, Device, Operation, Request};
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice};

/// A key of a section, and what it may be.
type Key = (&'static str, &'static [&'static str]);

const CHOICES: &[(&str, &[Key])] = &[
    (
        "flash",
        &[
            ("page", &["\"512B\"", "\"4KiB\"", "\"16KiB\"", "\"1MiB\"", "\"0B\""]),
            ("pages_per_block", &["1", "3", "64", "0", "1000"]),
            ("planes", &["1", "2", "7", "0"]),
            ("dies", &["1", "3", "16", "0"]),
            ("channels", &["1", "2", "5"]),
            ("over_provisioning", &["0.0", "0.07", "1.0", "-1.0", "nan", "inf"]),
            ("read", &["\"0s\"", "\"25us\"", "[]", "[\"1us\", \"2us\", \"3us\"]", "\"1000s\""]),
            (
                "program",
                &["\"200us\"", "[\"1us\", \"90s\"]", "[\"1us\", \"2us\", \"3us\", \"4us\", \"5us\"]"],
            ),
            ("erase", &["\"0s\"", "\"1ms\"", "\"100s\""]),
            ("channel_bandwidth", &["\"1KB/s\"", "\"40MB/s\"", "\"1B/s\"", "\"999GB/s\""]),
            ("cache_mode", &["true", "false"]),
            ("copy_back", &["true", "false"]),
            ("collection_pause", &["\"0s\"", "\"1ms\"", "\"1000s\""]),
            ("zeros_program_share", &["0.0", "1.0", "10.0", "11.0"]),
            ("slc_cache", &["{ size = \"1MiB\", read = \"1us\", program = \"1us\", erase = \"1us\" }"]),
            (
                "reliability",
                &["{ endurance = 3 }", "{ factory_bad_per_million = 300000 }", "{ endurance = 0 }"],
            ),
        ],
    ),
    (
        "controller",
        &[
            ("read_command", &["\"0s\"", "\"1us\""]),
            ("depth", &["0", "1", "8"]),
            ("read_bandwidth", &["\"1KB/s\"", "\"600MB/s\""]),
            (
                "write_buffer",
                &["{ size = \"16MiB\" }", "{ size = \"4KiB\", flush = \"when-full\" }", "{ size = \"0B\" }"],
            ),
            ("read_buffer", &["{ size = \"1MiB\", read_ahead = \"8MiB\" }", "{ size = \"4KiB\" }"]),
            (
                "segment_groups",
                &[
                    "{ count = 3, span = \"100B\", switch = \"1ms\" }",
                    "{ count = 0, span = \"1B\", switch = \"0s\" }",
                ],
            ),
            (
                "background",
                &[
                    "{ max_backlog = 0 }",
                    "{ max_backlog = 100, slice = \"1ms\" }",
                    "{ max_backlog = 1, idle_after = \"1s\" }",
                ],
            ),
            (
                "placement",
                &[
                    "[{ from = \"0B\", to = \"1MiB\", stream = 9 }]",
                    "[{ from = \"1B\", to = \"1B\", stream = 0 }]",
                ],
            ),
        ],
    ),
];

const TRANSLATIONS: &[&str] = &[
    "[translation.page_map]\npolicy = \"fifo\"\nhigh_watermark = 3\n",
    "[translation.page_map]\npolicy = { choices = 2 }\nstreams = 3\nwear_spread = 1\n",
    "[translation.page_map]\npolicy = \"cost-benefit\"\nhot_within = 100\nrefresh_reads = 5\nretention = \"1ms\"\n",
    "[translation.demand_map]\ncached_entries = 1\n",
    "[translation.demand_map]\nentry_bytes = 0\n",
    "[translation.log_blocks]\nlogs = 0\n",
    "[translation.log_blocks]\nlogs = 7\norder = \"forward\"\nstripe_pages = 1\n",
    "[translation.shared_logs]\nlogs = 1\n",
    "[translation.shared_logs]\nlogs = 0\n",
    "[translation.zones]\nactive_zones = 1\n",
    "[translation.zones]\nzone_blocks = 0\n",
];

fn odd_profile(random: &mut Prng) -> String {
    let capacity = ["4MiB", "5000KiB", "16MiB", "512B"][random.below(4) as usize];
    let block = ["", "block = \"4KiB\"\n"][random.below(2) as usize];
    let mut text = format!(
        "version = 2\n{block}name = \"odd\"\ntitle = \"\"\nsource = \"\"\nfit = \"\"\ncapacity = \"{capacity}\"\n"
    );
    for (section, keys) in CHOICES {
        text += &format!("[{section}]\n");
        for (key, values) in *keys {
            // Most keys are left alone, or nothing would ever fit together.
            if random.below(7) == 0 {
                text += &format!("{key} = {}\n", values[random.below(values.len() as u64) as usize]);
            }
        }
    }
    if random.below(4) > 0 {
        text += TRANSLATIONS[random.below(TRANSLATIONS.len() as u64) as usize];
    }
    text
}

#[test]
fn an_odd_profile_is_refused_or_serves() {
    let (mut refused, mut served) = (0, 0);
    for seed in 0..8000 {
        let mut random = Prng::new(Seed(seed));
        let text = odd_profile(&mut random);
        let _replay = Replay(seed, &text);
        let Ok(profile) = Profile::parse(&text, "odd.toml") else {
            refused += 1;
            continue;
        };
        let mut device = match profile.device() {
            Ok(device) => device,
            Err(error) => panic!("parsed, but cannot be built: {error}"),
        };
        served += 1;
        let capacity = device.geometry().capacity;
        for _ in 0..40 {
            let operation =
                [Operation::Write, Operation::Write, Operation::Read, Operation::Discard, Operation::Flush]
                    [random.below(5) as usize];
            let block = device.geometry().block.0;
            let size = Bytes(block * (1 + random.below(200))).min(capacity);
            let offset = Bytes(random.below((capacity.0 - size.0) / block + 1) * block);
            device.submit(Request { tag: 7, operation, offset, size, buffer: Buffer::empty() });
            let done = device.wait(Nanos::MAX).expect("a request is answered");
            assert!(done.completed >= done.submitted);
            if random.below(8) == 0 {
                let later = device.now() + Nanos::from_millis(random.below(100));
                assert!(device.wait(later).is_none());
            }
        }
        if let SimulatedDevice::Flash(device) = device {
            let restored = FlashDevice::restore(&profile, &device.save());
            assert_eq!(restored.map(drop), Ok(()), "the state that was saved");
        }
    }
    // Neither is rare, or this would test nothing.
    assert!(refused > 400 && served > 400, "{refused} refused, {served} served");
}

/// Says on a panic which profile it was.
struct Replay<'a>(u64, &'a str);

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}:\n{}", self.0, self.1);
        }
    }
}
