//! What `flashlab model tune` writes is loaded by the programs that it is for: PostgreSQL, fio, systemd-hwdb, RocksDB and, where it
//! can be reached, the kernel. Where there is no program, a strict parser takes its place, written from its documentation.

use std::collections::BTreeMap;
use std::fs;

use flashlab_skip::{Need, skip};
use serde_json::Value;

use crate::files::{Place, postgresql, run_as};
use crate::support::{Directory, program};

/// The settings for a program, of a small drive whose throughput grows with the queue depth.
fn tuned(directory: &Directory, name: &str, more: &[&str]) -> String {
    let fit = ["model", "fit", "sim:nvme-consumer", "--size", "128MiB", "--output", "fitted"];
    directory.succeeds(&fit);
    let tune = ["model", "tune", "fitted", "--for", name, "--output", "settings"];
    directory.succeeds(&[&tune, more].concat());
    fs::read_to_string(directory.path("settings")).unwrap()
}

#[test]
fn postgresql_starts_with_its_settings() {
    let Some(bin) = postgresql() else { return };
    let (directory, place) = (Directory::new(), Place::new());
    let settings = tuned(&directory, "postgresql", &[]);
    let data = place.path("pg");
    program("sh", &["-c", &format!("mkdir -m 700 {data} && chown postgres {data}")]).unwrap();
    let postgres = |command: &str| run_as("postgres", &format!("{bin}/{command}"));
    postgres(&format!("initdb -D {data} -A trust -N")).unwrap();
    let file = format!("{data}/postgresql.conf");
    let usual = fs::read_to_string(&file).unwrap();
    fs::write(&file, usual + &settings).unwrap();
    let mut found = 0;
    for line in settings.lines() {
        let (name, value) = line.split_once(" = ").unwrap();
        // It reads the whole configuration as at its start, and refuses names and values that it does not know.
        assert_eq!(postgres(&format!("postgres -D {data} -C {name}")).unwrap(), value, "{settings}");
        found += 1;
    }
    assert_eq!(found, 3, "{settings}");
    postgres(&format!("pg_ctl -D {data} -l {data}/log -o '-h \"\" -k {data}' -w start")).unwrap();
    let shown = run_as("postgres", &format!("{bin}/psql -h {data} -Atc 'SHOW random_page_cost' postgres"));
    postgres(&format!("pg_ctl -D {data} -m fast -w stop")).unwrap();
    assert_eq!(settings.lines().next().unwrap(), format!("random_page_cost = {}", shown.unwrap()));
}

#[test]
fn fio_runs_its_job_file() {
    if program("fio", &["--version"]).is_err() {
        return skip(Need::Programs, "fio is not installed");
    }
    let directory = Directory::new();
    let jobs = tuned(&directory, "fio", &[]);
    // The whole measurement takes minutes on a disk: here each job has two requests.
    let mut size = 0;
    let short: String = jobs
        .lines()
        .map(|line| {
            size = line.strip_prefix("bs=").map_or(size, |size| size.parse().unwrap());
            match line.starts_with("io_size=") {
                true => format!("io_size={}\n", 2 * size),
                false => format!("{line}\n"),
            }
        })
        .collect();
    let job_file = directory.write("short.fio", short);
    let (target, out) = (directory.file("target", 128 << 20), directory.path("fio.json"));
    let target = format!("--filename={}", target.display());
    let out_option = format!("--output={}", out.display());
    program("fio", &[&target, "--output-format=json", &out_option, job_file.to_str().unwrap()]).unwrap();
    let document: Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    let ran: Vec<&Value> = document["jobs"].as_array().unwrap().iter().collect();
    assert_eq!(ran.len(), jobs.matches("\n[run-").count());
    for job in ran {
        assert_eq!(job["error"], 0, "{job}");
        let bytes = [&job["read"], &job["write"]].map(|half| half["io_bytes"].as_u64().unwrap());
        let size: u64 = job["job options"]["bs"].as_str().unwrap().parse().unwrap();
        assert_eq!(bytes[0] + bytes[1], 2 * size, "{job}");
        let rw = job["job options"]["rw"].as_str().unwrap();
        assert!(rw.ends_with("rw") || (bytes[0] > 0) == rw.ends_with("read"), "{job}");
    }
}

/// The lines for the kernel and the entry of the hardware database.
fn io_cost(directory: &Directory) -> (Vec<String>, String) {
    let text = tuned(directory, "io-cost", &["--device", "259:0"]);
    let kernel = text.lines().filter(|line| line.starts_with("259:0 ")).map(str::to_owned).collect();
    let entry = text.lines().skip_while(|line| !line.starts_with("block:"));
    (kernel, entry.map(|line| format!("{line}\n")).collect())
}

#[test]
fn systemd_finds_its_entry() {
    if program("systemd-hwdb", &["--version"]).is_err() {
        return skip(Need::Programs, "systemd-hwdb is not installed");
    }
    let directory = Directory::new();
    let (kernel, entry) = io_cost(&directory);
    fs::create_dir_all(directory.path("etc/udev/hwdb.d")).unwrap();
    directory.write("etc/udev/hwdb.d/90-flashlab-iocost.hwdb", &entry);
    let root = directory.path("");
    let root = format!("--root={}", root.display());
    program("systemd-hwdb", &["update", "--strict", &root]).unwrap();
    // As 90-iocost.rules asks, with the firmware of some drive.
    let asked = entry.lines().next().unwrap().replace("fwrev:*:", "fwrev:1.04:");
    let found = program("systemd-hwdb", &["query", &root, &asked]).unwrap();
    let value = |name: &str| {
        let line = found.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name} in {found}")).to_owned()
    };
    let solution = value("IOCOST_SOLUTIONS").to_uppercase();
    assert!(kernel[0].ends_with(&value(&format!("IOCOST_MODEL_{solution}"))), "{kernel:?} {found}");
    assert!(kernel[1].ends_with(&value(&format!("IOCOST_QOS_{solution}"))), "{kernel:?} {found}");
    let other = program("systemd-hwdb", &["query", &root, "block::name:another drive:fwrev:1:"]).unwrap();
    assert_eq!(other, "");
}

/// A line of io.cost.model or io.cost.qos by Documentation/admin-guide/cgroup-v2.rst: the device, then nested keys, each once and
/// each known.
fn kernel_line<'a>(line: &'a str, known: &[&str]) -> BTreeMap<&'a str, &'a str> {
    let mut words = line.split(' ');
    let (major, minor) = words.next().unwrap().split_once(':').unwrap();
    assert!(major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok(), "{line}");
    let mut keys = BTreeMap::new();
    for word in words {
        let (key, value) = word.split_once('=').unwrap();
        assert!(known.contains(&key) && !value.is_empty(), "{word} in {line}");
        assert_eq!(keys.insert(key, value), None, "{key} twice in {line}");
    }
    keys
}

#[test]
fn the_kernel_takes_its_lines() {
    let (lines, _) = io_cost(&Directory::new());
    let rates = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];
    let model = kernel_line(&lines[0], &[&["ctrl", "model"][..], &rates].concat());
    assert_eq!((model["ctrl"], model["model"]), ("user", "linear"));
    assert!(rates.iter().all(|rate| model[rate].parse::<u64>().unwrap() > 0), "{model:?}");
    let limits = ["rpct", "wpct", "min", "max"];
    let qos = kernel_line(&lines[1], &[&["enable", "ctrl", "rlat", "wlat"][..], &limits].concat());
    assert_eq!((qos["enable"], qos["ctrl"]), ("1", "user"));
    assert!(["rlat", "wlat"].iter().all(|key| qos[key].parse::<u64>().unwrap() > 0), "{qos:?}");
    // The kernel's parser of fractions takes two digits behind the point.
    let percent = |key: &str| {
        let (_, digits) = qos[key].split_once('.').unwrap();
        assert_eq!(digits.len(), 2, "{qos:?}");
        qos[key].parse::<f64>().unwrap()
    };
    assert!(percent("rpct") <= 100.0 && percent("wpct") <= 100.0, "{qos:?}");
    assert!(1.0 <= percent("min") && percent("min") <= percent("max") && percent("max") <= 10_000.0);
}

#[test]
fn scylla_has_the_fields_that_iotune_writes() {
    let text = tuned(&Directory::new(), "scylla", &["--mountpoint", "/mnt/scylla"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["disks:", "  - mountpoint: /mnt/scylla"], "{text}");
    let names = ["read_iops", "read_bandwidth", "write_iops", "write_bandwidth"];
    assert_eq!(lines.len(), 2 + names.len(), "{text}");
    for (line, name) in lines[2..].iter().zip(names) {
        let value = line.strip_prefix("    ").and_then(|line| line.strip_prefix(name)?.strip_prefix(": "));
        assert!(value.unwrap_or_default().parse::<u64>().unwrap_or(0) > 0, "{name} in {text}");
    }
}

#[test]
fn published_sets_that_repeat_a_figure_are_marked() {
    let directory = Directory::new();
    tuned(&directory, "scylla", &[]);
    // Two of Azure's sizes in scylla-machine-image.
    let published = "Standard_L8s_v3:\n  disks:\n  - read_iops: 894399\n    read_bandwidth: 3740749056\n    write_iops: 607182\n    \
                     write_bandwidth: 2494925312\nStandard_L8s_v4:\n  disks:\n  - read_iops: 549031\n    read_bandwidth: 2993360384\n    \
                     write_iops: 219651\n    write_bandwidth: 1498326912\n";
    directory.write("published.yaml", published);
    let tune = ["model", "tune", "fitted", "--for", "scylla", "--published", "published.yaml"];
    let ran = directory.succeeds(&tune);
    assert_eq!(ran.out.matches("doubtful: ").count(), 1, "{ran}");
    let doubt = "doubtful: Standard_L8s_v3: write_bandwidth 2494925312 is write_iops 607182 x 4 KiB";
    assert!(ran.out.contains(doubt), "{ran}");
    assert!(ran.err.contains("published.yaml: 2 sets, 1 doubtful figures"), "{ran}");
    directory.write("published.yaml", "disks: []\n");
    let ran = directory.flashlab(&tune);
    assert!(ran.code == Some(2) && ran.err.contains("has no set of read_iops"), "{ran}");
}

#[test]
fn a_hostile_model_name_is_no_rule_of_systemd() {
    if program("systemd-hwdb", &["--version"]).is_err() {
        return skip(Need::Programs, "systemd-hwdb is not installed");
    }
    let directory = Directory::new();
    let shown = directory.succeeds(&["sim", "show", "nvme-consumer"]).out;
    let title = "title = \"SSD\\n  SYSTEMD_WANTS=pwn.service\\n\\nblock::*\"";
    let lines = shown.lines().map(|line| if line.starts_with("title = ") { title } else { line });
    directory.write("hostile.toml", lines.map(|line| format!("{line}\n")).collect::<String>());
    directory.succeeds(&["model", "fit", "sim:./hostile.toml", "--size", "128MiB", "--output", "fitted"]);
    let tune = ["model", "tune", "fitted", "--for", "io-cost", "--device", "259:0", "--output", "settings"];
    directory.succeeds(&tune);
    let text = fs::read_to_string(directory.path("settings")).unwrap();
    let entry: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("block:")).collect();
    assert_eq!(entry[0], "block::name:SSD*  SYSTEMD_WANTS=pwn.service*block::?:fwrev:*:", "{text}");
    assert_eq!(entry.len(), 4, "{text}");
    fs::create_dir_all(directory.path("etc/udev/hwdb.d")).unwrap();
    directory.write("etc/udev/hwdb.d/90-flashlab-iocost.hwdb", entry.join("\n") + "\n");
    let root = format!("--root={}", directory.path("").display());
    program("systemd-hwdb", &["update", "--strict", &root]).unwrap();
    for name in ["SSD", "another drive"] {
        let asked = format!("block::name:{name}:fwrev:1:");
        assert_eq!(program("systemd-hwdb", &["query", &root, &asked]).unwrap(), "");
    }
    let own = "block::name:SSD?  SYSTEMD_WANTS=pwn.service?block::*:fwrev:1:";
    let found = program("systemd-hwdb", &["query", &root, own]).unwrap();
    assert!(found.contains("IOCOST_SOLUTIONS=flashlab") && !found.contains("SYSTEMD_WANTS"), "{found}");
}

#[test]
fn rocksdb_opens_a_database_with_its_options() {
    if program("sh", &["-c", "command -v db_bench"]).is_err() {
        return skip(Need::Rocksdb, "db_bench of rocksdb-tools is not installed");
    }
    let directory = Directory::new();
    let settings = tuned(&directory, "rocksdb", &[]);
    let (options, database) = (directory.path("settings"), directory.path("db"));
    let [options, path] = [("options_file", &options), ("db", &database)]
        .map(|(name, path)| format!("--{name}={}", path.display()));
    program("db_bench", &[&options, &path, "--benchmarks=fillseq", "--num=100"]).unwrap();
    // RocksDB writes the options that it uses next to the database.
    let files = fs::read_dir(&database).unwrap().map(|entry| entry.unwrap().path());
    let used = files.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with("OPTIONS"));
    let used: String = used.map(|file| fs::read_to_string(file).unwrap()).collect();
    let values: Vec<&str> =
        settings.lines().filter(|line| line.starts_with("  bytes") || line.starts_with("  comp")).collect();
    assert_eq!(values.len(), 2, "{settings}");
    assert!(values.iter().all(|line| used.contains(&format!("\n{line}\n"))), "{settings}\n{used}");
}

/// What the calls of this name returned, or asked for as their argument before the last.
fn lengths(trace: &str, call: &str) -> Vec<u64> {
    let is_call =
        |line: &&str| line.contains(&format!("{call}(")) || line.contains(&format!("{call} resumed>"));
    let length = |line: &str| line.rsplit_once(") = ")?.0.rsplit(", ").find_map(|word| word.parse().ok());
    // The arguments end with the offset and flags, or with the length and the offset.
    match call {
        "pread64" => {
            let read = |line: &str| line.rsplit_once(" = ")?.1.parse().ok();
            trace.lines().filter(is_call).filter_map(read).collect()
        }
        _ => trace.lines().filter(is_call).filter_map(length).collect(),
    }
}

#[test]
fn rocksdb_compacts_with_reads_and_syncs_of_these_sizes() {
    if program("sh", &["-c", "command -v db_bench"]).is_err() {
        return skip(Need::Rocksdb, "db_bench of rocksdb-tools is not installed");
    }
    if program("strace", &["true"]).is_err() {
        return skip(Need::Strace, "strace is not installed, or may not trace");
    }
    let directory = Directory::new();
    let settings = tuned(&directory, "rocksdb", &[]);
    let value = |name: &str| -> u64 {
        let line = settings.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name} in {settings}")).parse().unwrap()
    };
    let (readahead, sync) = (value("compaction_readahead_size"), value("bytes_per_sync"));
    let (options, database, trace) =
        (directory.path("settings"), directory.path("db"), directory.path("trace"));
    let [options, path] = [("options_file", &options), ("db", &database)]
        .map(|(name, path)| format!("--{name}={}", path.display()));
    let fill = ["--benchmarks=fillrandom", "--num=40000", "--value_size=1000"];
    program("db_bench", &[&[options.as_str(), &path], &fill[..]].concat()).unwrap();
    let traced = ["-f", "-e", "trace=pread64,sync_file_range", "-o", trace.to_str().unwrap(), "db_bench"];
    let compact = ["--benchmarks=compact", "--use_existing_db=1"];
    program("strace", &[&traced[..], &[options.as_str(), &path], &compact[..]].concat()).unwrap();
    let trace = fs::read_to_string(trace).unwrap();
    let reads = lengths(&trace, "pread64");
    assert_eq!(reads.iter().max(), Some(&readahead), "{settings}");
    assert!(reads.iter().filter(|read| **read == readahead).count() >= 5, "{reads:?}");
    let syncs: Vec<u64> =
        lengths(&trace, "sync_file_range").into_iter().filter(|length| *length > 0).collect();
    assert!(!syncs.is_empty() && syncs.iter().all(|length| *length >= sync), "{syncs:?} {sync}");
}
