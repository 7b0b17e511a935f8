//! Replays traces on simulated devices and on files, and checks the output, the recordings and the errors.

use std::fmt::Write;
use std::process::Command;

use flashlab_base::Nanos;

use crate::support::{Directory, SMALL_PROFILE};

/// Flash of 16 MiB whose garbage collection begins soon.
const FLASH: &str = "version = 2\nname = \"flash\"\ntitle = \"Flash\"\nsource = \"none\"\nfit = \"none\"\n\
    capacity = \"16MiB\"\nblock = \"4KiB\"\n[flash]\nover_provisioning = 0.2\ndies = 2\n";

/// 3000 IOs of 4 KiB, 200 us apart: two of three write.
fn mixed() -> String {
    (0..3000).fold(String::new(), |mut text, n: u64| {
        let sector = n * 7919 % 4096 * 8;
        writeln!(text, "{} {} {sector} 8 {}", n * 200_000, n % 2, u64::from(n.is_multiple_of(3))).unwrap();
        text
    })
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn classes_and_what_the_flash_did() {
    let directory = Directory::new();
    directory.write("flash.toml", FLASH);
    directory.write("mixed.trace", mixed());
    let ran = directory.succeeds(&["sim", "run", "./flash.toml", "--trace", "mixed.trace"]);
    insta::assert_snapshot!(ran.err, @r"
    the flash is new: reads of what was never written take it no time; flashlab sim precondition fills a device
    3000 IOs, as they arrived, on sim:./flash.toml: 3.9 MiB to read, 7.8 MiB to write
    its 2 sources share the device (--source takes one of them): 0, 1
    ");
    insta::assert_snapshot!(ran.out, @r"
    trace: 600 ms, 1.11 unfinished IOs on average, 1.11 of them in the device
                                    IOs      IOPS     MiB/s      mean       p50       p95       p99     p99.9       max     queue
    read                          1 000      1666      6.51   20.0 us   20.0 us   20.0 us   20.0 us   20.0 us   20.0 us     0.033
      random, to 4 KiB            1 000      1666      6.51   20.0 us   20.0 us   20.0 us   20.0 us   20.0 us   20.0 us     0.033
    write                         2 000      3333      13.0    322 us    322 us    322 us    322 us    322 us    322 us      1.07
      random, to 4 KiB            2 000      3333      13.0    322 us    322 us    322 us    322 us    322 us    322 us      1.07

    flash                          pages read      programmed   blocks erased
      host                                  0           2 000               0
    write amplification: 1.00; erases of a block: 0 to 0, mean 0.00
    busy: controller 10.0 %, link 0.00 %, dies 50.4 % (50.4 % to 50.4 %), channels 34.1 %
    energy: 0.020 J
    ");
}

#[test]
fn recorded_samples_are_a_trace_of_the_same_ios() {
    let directory = Directory::new();
    directory.write("small.toml", SMALL_PROFILE);
    directory.write("mixed.trace", mixed());
    let arguments = ["sim", "run", "./small.toml", "--json", "--trace"];
    let first = directory.succeeds(&[&arguments[..], &["mixed.trace", "--output", "samples-1"]].concat());
    let again = directory.succeeds(&[&arguments[..], &["samples-1"]].concat());
    let (first, again) = (json(&first.out), json(&again.out));
    assert_eq!(first["trace"]["sources"], serde_json::json!(["0", "1"]));
    assert_eq!(first["runs"][0]["rows"][0]["response"]["count"], 1000);
    // All sources are one process of the replay, so another order of IOs counts as sequential.
    assert_eq!(first["runs"][0]["rows"][0], again["runs"][0]["rows"][0]);
    assert_eq!(first["device"], serde_json::Value::Null);
    let ran = directory.flashlab(&[&arguments[..], &["mixed.trace", "--output", "samples-1"]].concat());
    assert_eq!(ran.code, Some(2), "{ran}");
    let report = json(&directory.succeeds(&["report", "samples-1", "--json"]).out);
    assert_eq!(report["target"], "sim:./small.toml");
    assert_eq!(report["runs"][0]["name"], "trace");
    assert_eq!(report["runs"][0]["rows"][0]["response"], again["runs"][0]["rows"][0]["response"]);
    let refused = directory.flashlab(&["compare", "samples-1", "samples-1"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.err.contains("is a recording"), "{refused}");
}

#[test]
fn a_trace_that_was_compressed_or_is_faster_is_the_same_trace() {
    let directory = Directory::new();
    directory.write("small.toml", SMALL_PROFILE);
    directory.write("mixed.trace", mixed());
    let run = |more: &[&str]| {
        let arguments = ["sim", "run", "sim:./small.toml", "--json", "--trace"];
        json(&directory.succeeds(&[&arguments[..], more].concat()).out)["runs"][0].clone()
    };
    let plain = run(&["mixed.trace"]);
    let compressed =
        Command::new("gzip").args(["--keep", "mixed.trace"]).current_dir(directory.path(".")).status();
    match compressed {
        Ok(status) if status.success() => assert_eq!(run(&["mixed.trace.gz"]), plain),
        other => flashlab_skip::skip(flashlab_skip::Need::Programs, format_args!("no gzip here ({other:?})")),
    }
    let ns = |run: &serde_json::Value| run["duration_ns"].as_u64().unwrap();
    let slower = run(&["mixed.trace", "--speed", "0.01x"]);
    // The last IO arrives after 59.98 s, when the device is idle.
    assert_eq!(Nanos(ns(&slower)), Nanos(59_980_908_000));
    // One at a time: each begins when the previous one is done, without the waiting times of the trace.
    let closed = run(&["mixed.trace", "--as-fast-as-possible", "--depth", "1"]);
    assert_eq!(closed["queue_mean"], 1.0);
    assert_eq!(closed["device_queue_mean"], 1.0);
    let one = run(&["mixed.trace", "--source", "1"]);
    assert_eq!(one["rows"][0]["response"]["count"], 500);
}

#[test]
fn ignored_ios_are_recorded_and_not_counted() {
    let directory = Directory::new();
    directory.write("flash.toml", FLASH);
    let run = |io_ignore: u64| {
        let plan = format!(
            "version = 1\nname = \"plan\"\ntitle = \"Plan\"\nmode = \"write\"\nlocation = \"random\"\nio_size = \"4KiB\"\n\
             io_ignore = {io_ignore}\nio_count = 5000\n"
        );
        directory.write("plan.toml", plan);
        let folder = format!("run-{io_ignore}");
        let ran = directory.succeeds(&[
            "sim",
            "run",
            "./flash.toml",
            "--plan",
            "plan.toml",
            "--json",
            "--output",
            &folder,
        ]);
        json(&ran.out)["runs"][0].clone()
    };
    let (all, late) = (run(0), run(4000));
    assert_eq!(all["rows"][0]["response"]["count"], 5000);
    assert_eq!(late["rows"][0]["response"]["count"], 1000);
    // Garbage collection has begun, so the late writes are slower. Their rate is over their own time.
    let mean = |run: &serde_json::Value| run["rows"][0]["response"]["mean_ns"].as_f64().unwrap();
    assert!(mean(&late) > 1.05 * mean(&all), "{late} {all}");
    let rate = late["rows"][0]["ios_per_s"].as_f64().unwrap();
    assert!((rate * mean(&late) / 1e9 - 1.0).abs() < 0.05, "{late}");
}

#[test]
fn a_plan_is_run_value_by_value() {
    let directory = Directory::new();
    directory.write("flash.toml", FLASH);
    let plan = "version = 1\nname = \"depths\"\ntitle = \"Depths\"\nvary = \"QueueDepth\"\nvalues = [1, 4]\n\
        mode = \"write\"\nlocation = \"random\"\nio_size = \"4KiB\"\nio_count = 5000\n";
    directory.write("depths.toml", plan);
    let ran = directory.succeeds(&["sim", "run", "./flash.toml", "--plan", "depths.toml"]);
    insta::assert_snapshot!(ran.out, @r"
    depths depths 1: 1.65 s, 1.00 unfinished IOs on average, 1.00 of them in the device
                                    IOs      IOPS     MiB/s      mean       p50       p95       p99     p99.9       max     queue
    write                         5 000      3031      11.8    330 us    322 us    322 us    322 us    322 us   10.4 ms      1.00
      random, to 4 KiB            5 000      3031      11.8    330 us    322 us    322 us    322 us    322 us   10.4 ms      1.00

    depths depths 4: 1.94 s, 4.00 unfinished IOs on average, 4.00 of them in the device
                                    IOs      IOPS     MiB/s      mean       p50       p95       p99     p99.9       max     queue
    write                         5 000      2573      10.1   1.55 ms    605 us   11.0 ms   12.8 ms   19.8 ms   21.5 ms      4.00
      random, to 4 KiB            5 000      2573      10.1   1.55 ms    605 us   11.0 ms   12.8 ms   19.8 ms   21.5 ms      4.00

    flash                          pages read      programmed   blocks erased
      host                                  0          10 000               0
      reclaim                           2 447           2 447             119
    write amplification: 1.24; erases of a block: 1 to 3, mean 1.53
    busy: controller 5.57 %, link 0.00 %, dies 59.7 % (59.1 % to 60.4 %), channels 42.5 %
    energy: 0.13 J
    ");
    let same = directory.succeeds(&["sim", "run", "./flash.toml", "--plan", "depths.toml"]);
    assert_eq!(ran.out, same.out);
    let other = directory.succeeds(&["sim", "run", "./flash.toml", "--plan", "depths.toml", "--seed", "2"]);
    assert_ne!(ran.out, other.out);
}

#[test]
fn what_cannot_be_replayed_is_refused_with_its_line() {
    let directory = Directory::new();
    directory.write("small.toml", SMALL_PROFILE);
    directory.write("far.trace", "0 0 0 8 1\n5 0 131072 16 0\n");
    directory.write("wrong.trace", "0 0 0 8 1\n5 0 8 8 2\n");
    directory.write("text", "hello\n");
    let wrong = |arguments: &[&str]| {
        let ran = directory.flashlab(&[&["sim", "run"], arguments].concat());
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.err
    };
    let small = "./small.toml";
    insta::assert_snapshot!(wrong(&[small, "--trace", "far.trace"]), @"flashlab: far.trace:2: a write of 8KiB at offset 64MiB ends behind the device of 64MiB; the trace needs 65544KiB; give --fit wrap or --fit scale, or a --capacity as large");
    insta::assert_snapshot!(wrong(&[small, "--trace", "wrong.trace"]), @"flashlab: wrong.trace:2: expected NANOSECONDS DEVICE SECTOR SECTORS TYPE, where TYPE is 0 (write) or 1 (read), found `5 0 8 8 2`");
    insta::assert_snapshot!(wrong(&[small, "--trace", "nowhere"]), @"flashlab: cannot read the trace nowhere: No such file or directory (os error 2)");
    insta::assert_snapshot!(wrong(&[small, "--trace", "text"]), @r"
    flashlab: text:1: `hello` begins no known trace; known are:
      fio       `fio version 2 iolog` or `fio version 3 iolog`
      blkparse  MAJOR,MINOR CPU SEQUENCE SECONDS.NANOSECONDS PID ACTION RWBS SECTOR + SECTORS [COMMAND]
      msr       TIMESTAMP,HOST,DISK,Read or Write,OFFSET,SIZE,RESPONSETIME
      mqsim     NANOSECONDS DEVICE SECTOR SECTORS TYPE, where TYPE is 0 (write) or 1 (read)
    ");
    insta::assert_snapshot!(wrong(&[small, "--trace", "text", "--format", "samples"]), @"flashlab: text: no samples: EOF: Parquet file too small. Size is 6 but need 8");
    insta::assert_snapshot!(wrong(&[small, "--trace", "far.trace", "--source", "7"]), @"flashlab: --source 7: far.trace has no IO of it; its sources are 0");
    insta::assert_snapshot!(wrong(&[small, "--trace", "far.trace", "--fit", "wrap", "--as-fast-as-possible", "--depth", "4000"]), @r"
    2 IOs, 4000 in flight, on sim:./small.toml: 4 KiB to read, 8 KiB to write
    IOs that were moved into the device: 1
    flashlab: queue_depth = 4000: must be from 1 to 1024: the device accepts no more IOs at the same time
    ");
    let ran = directory.flashlab(&["replay", "far.trace", "sim:zeus"]);
    insta::assert_snapshot!(ran, @r"
    exit 2
    flashlab: sim:zeus has no real time: replay in virtual time with: flashlab sim run sim:zeus --trace far.trace; or serve it, and give the path of the disk
    ");
    insta::assert_snapshot!(wrong(&[small, "--trace", "far.trace", "--speed", "fast"]), @r"
    error: invalid value 'fast' for '--speed <FACTOR>': must be a factor from 0.001x to 1000000x, as 2x or 0.5x

    For more information, try '--help'.
    ");
    directory.succeeds(&["sim", "run", small, "--trace", "far.trace", "--fit", "scale"]);
    directory.succeeds(&["sim", "run", small, "--trace", "far.trace", "--size", "65MiB"]);
}

#[test]
fn a_file_is_replayed_on_in_real_time_with_consent() {
    let directory = Directory::new();
    let file = directory.file("disk", 1 << 20);
    directory.write(
        "log",
        "fio version 2 iolog\na write 0 4096\na wait 100 0\na read 4096 8192\na datasync 0 0\n",
    );
    let arguments = ["replay", "log", "disk"];
    let ran = directory.flashlab(&arguments);
    assert_eq!(ran.code, Some(3), "{ran}");
    assert!(std::fs::read(&file).unwrap().iter().all(|&byte| byte == 0), "it was written to");
    let ran = directory.succeeds(&[&arguments[..], &["--overwrite-file", "--json"]].concat());
    let document = json(&ran.out);
    let counts: Vec<_> =
        document["runs"][0]["rows"].as_array().unwrap().iter().map(|row| &row["bytes"]).collect();
    assert_eq!(counts, [8192, 8192, 4096, 4096, 0]);
    assert!(std::fs::read(&file).unwrap()[..4096].iter().any(|&byte| byte != 0), "it was not written to");
}
