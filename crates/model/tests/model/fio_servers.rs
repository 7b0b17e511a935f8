//! fio's output of servers, of groups that ran at once or one after the other, and of options that concern writes only.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flashlab_model::fio_points;
use flashlab_sim::profile::ThroughputClass;
use serde_json::{Value, json};

use crate::fio::{fio, made, points, summed};

fn refused(text: &str) -> String {
    fio_points(text, "t").unwrap_err().to_string()
}

/// What fio 3.43 writes as the client of `servers` on one machine: the options are in a list.
fn of_servers(servers: &[u64], with_options: &[u64]) -> String {
    let mut document: Value =
        serde_json::from_str(&made("fio-3.43", &[("a", 0, json!({}), 1000, 1000.0, 1000.0)])).unwrap();
    let mut job = document["jobs"][0].take();
    let options = job["job options"].take();
    job["job options"] = json!({"numjobs": "1"});
    let entry = |&port: &u64| {
        let mut job = job.clone();
        (job["hostname"], job["port"]) = (json!("127.0.0.1"), json!(port));
        job
    };
    let mut stats: Vec<Value> = servers.iter().map(entry).collect();
    stats.push(json!({"jobname": "All clients", "groupid": 0, "error": 0}));
    let global = |&port: &u64| {
        let mut options = options.clone();
        (options["hostname"], options["port"]) = (json!("127.0.0.1"), json!(port));
        options
    };
    let global: Vec<Value> = with_options.iter().map(global).collect();
    json!({"fio version": "fio-3.43", "global options": global, "client_stats": stats}).to_string()
}

#[test]
fn a_server_has_its_own_options() {
    // Without them its random reads of 4 KiB would be sequential ones.
    let found = points(&of_servers(&[18801], &[18802, 18801]), "t");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].workload.class, found[0].workload.size.0), (ThroughputClass::RandomRead, 4096));
    assert!(
        refused(&of_servers(&[18801], &[18802])).contains("does not have the global options of its server")
    );
    assert!(
        refused(&of_servers(&[18801, 18802], &[18801, 18802])).contains(
            "has the results of 2 servers (127.0.0.1:18801, 127.0.0.1:18802), which measured at once"
        )
    );
}

/// A server of fio, which ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the installed fio writes as the client of a server of its own, or of two; `None` where there is no fio.
fn of_installed_servers(folder: &Path, count: usize) -> Option<String> {
    let mut servers = Vec::new();
    let mut client = Command::new("fio");
    client.current_dir(folder).args(["--output-format=json", "--output=out"]);
    let job = format!(
        "[a]\nioengine=psync\ndirect=1\nbs=4k\nrw=randread\nsize=8m\nruntime=200ms\ntime_based\nfilename={}\n",
        folder.join("scratch").display()
    );
    std::fs::write(folder.join("job"), job).unwrap();
    for _ in 0..count {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Command::new("fio");
        server.arg(format!("--server=127.0.0.1,{port}")).stdout(Stdio::null()).stderr(Stdio::null());
        match server.current_dir(folder).spawn() {
            Ok(server) => servers.push(Server(server)),
            Err(error) => {
                flashlab_skip::skip(flashlab_skip::Need::Programs, format!("fio: {error}"));
                return None;
            }
        }
        client.arg(format!("--client=127.0.0.1,{port}")).arg("job");
    }
    // A server begins to listen after a while.
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(100));
        client.output().unwrap();
        let text = std::fs::read_to_string(folder.join("out")).unwrap_or_default();
        if text.matches("\"jobname\" : \"a\"").count() == count {
            return Some(text);
        }
    }
    panic!("no client of fio reached its server: {:?}", std::fs::read_to_string(folder.join("out")));
}

#[test]
fn one_server_of_the_installed_fio_is_read_and_two_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let Some(text) = of_installed_servers(folder.path(), 1) else { return };
    match fio_points(&text, "out") {
        Ok(found) => {
            let [ios, _, iops, _] = summed(&text, "client_stats");
            let point = &found.points[0];
            assert_eq!((found.points.len(), point.ios as f64), (1, ios));
            assert_eq!((point.workload.class, point.workload.depth), (ThroughputClass::RandomRead, 1));
            assert!((point.ios_per_s / iops - 1.0).abs() < 1e-6, "{point:?}");
        }
        // Where fio waited for a CPU.
        Err(error) => assert!(error.to_string().contains("IOPS times mean latency"), "{error}"),
    }
    let Some(text) = of_installed_servers(folder.path(), 2) else { return };
    assert!(refused(&text).contains("has the results of 2 servers (127.0.0.1:"), "{text}");
}

#[test]
fn groups_that_ran_at_once_are_no_measurements_of_one_job_alone() {
    let none = || json!({});
    let two = [("a", 0, none(), 3000, 1000.0, 1000.0), ("b", 1, json!({"bs": "4096"}), 3000, 1000.0, 1000.0)];
    let with = |set: &dyn Fn(usize, &mut Value)| {
        let mut document: Value = serde_json::from_str(&made("fio-3.38", &two)).unwrap();
        for (index, job) in document["jobs"].as_array_mut().unwrap().iter_mut().enumerate() {
            job["read"]["runtime"] = json!(3000);
            set(index, job);
        }
        document.to_string()
    };
    let depths = |text: &str| points(text, "t").iter().map(|point| point.workload.depth).collect::<Vec<_>>();
    // fio counts seconds: two groups of 3 s that ended after 3 s ran at once, and after 6 s one after the other.
    assert!(refused(&with(&|_, job| job["elapsed"] = json!(3))).contains("they ran at once (new_group)"));
    assert_eq!(depths(&with(&|index, job| job["elapsed"] = json!(3 + 3 * index))), [1, 1]);
    // Where one second decides, the whole seconds of fio tell nothing, and a note says so.
    let notes = |runtime: u64, elapsed: u64| {
        let text = with(&move |_, job| {
            job["read"]["runtime"] = json!(runtime);
            job["elapsed"] = json!(elapsed);
        });
        fio_points(&text, "t").unwrap().notes
    };
    assert!(notes(1000, 2).concat().contains("too short to tell whether all ran one after the other"));
    assert_eq!(notes(1000, 3), [""; 0]);
    assert_eq!(notes(3000, 6), [""; 0]);
    // From fio 3.37 on, `job_start` says it.
    let began = |ms: u64| {
        with(&move |index, job| job["job_start"] = json!(1_790_604_276_284_u64 + ms * index as u64))
    };
    assert_eq!(depths(&began(3000)), [1, 1]);
    assert_eq!(depths(&began(0)), [2]);
    assert_eq!(depths(&began(1500)), [2]);
}

#[test]
fn jobs_of_two_disks_are_no_measurement_of_one() {
    let of = |options: [Value; 2], group: u64| {
        let [a, b] = options;
        made("fio-3.38", &[("a", 0, a, 1000, 10_000.0, 100.0), ("b", group, b, 1000, 10_000.0, 100.0)])
    };
    let file = |name: &str| json!({"filename": name});
    let two = || [file("/dev/nvme0n1"), file("/dev/nvme1n1")];
    assert!(
        refused(&of(two(), 0)).contains("at once on /dev/nvme0n1 and /dev/nvme1n1, which may be two disks")
    );
    assert!(refused(&of(two(), 1)).contains("used /dev/nvme0n1, /dev/nvme1n1, which may be several disks"));
    let directories = [json!({"directory": "/mnt/a"}), json!({"directory": "/mnt/b"})];
    assert!(refused(&of(directories, 0)).contains("at once on /mnt/a and /mnt/b"));
    // Two files of one directory are on one disk, however they are named.
    let files = [file("/mnt/a/one"), json!({"directory": "/mnt/a/", "filename": "two"})];
    assert_eq!(points(&of(files, 0), "t")[0].workload.depth, 2);
    assert_eq!(points(&of([file("/dev/sda"), file("/dev/sda")], 1), "t").len(), 2);
}

#[test]
fn jobs_that_ran_at_once_for_different_times_are_no_measurement() {
    let jobs = [("a", 0, json!({}), 95_000, 9500.0, 100.0), ("b", 0, json!({}), 5000, 5000.0, 200.0)];
    let mut document: Value = serde_json::from_str(&made("fio-3.38", &jobs)).unwrap();
    document["jobs"][0]["read"]["runtime"] = json!(10_000);
    assert!(
        refused(&document.to_string()).contains("ran 1.0 to 10.0 s"),
        "{}",
        refused(&document.to_string())
    );
}

#[test]
fn a_clock_that_was_switched_off_is_missed() {
    let mut document: Value =
        serde_json::from_str(&made("fio-3.38", &[("a", 0, json!({}), 1000, 12_000.0, 1.0)])).unwrap();
    document["jobs"][0]["read"]["lat_ns"] = json!({"mean": 82_000.0});
    let error = refused(&document.to_string());
    assert!(
        error.contains("submission and completion take 1.0 us together: repeat it without disable_slat"),
        "{error}"
    );
}

#[test]
fn new_group_of_the_installed_fio_is_no_stonewall() {
    let folder = tempfile::tempdir().unwrap();
    let options = "--direct=1 --rw=randread --time_based --runtime=3s --ioengine=psync --bs=4k --name=a --name=b --new_group \
                   --rw=randread --bs=64k --direct=1 --ioengine=psync --time_based --runtime=3s";
    let Some(text) = fio(folder.path(), "json", options) else { return };
    assert!(refused(&text).contains("they ran at once (new_group)"), "{text}");
}

#[test]
fn options_of_writes_do_not_concern_reads() {
    let job = |options: Value| made("fio-3.40", &[("a", 0, options, 1000, 1000.0, 1000.0)]);
    for (option, value) in [
        ("sync", "1"),
        ("fsync", "1"),
        ("fdatasync", "1"),
        ("zero_buffers", "1"),
        ("writefua", "1"),
        ("sprandom", "1"),
    ] {
        assert_eq!(points(&job(json!({option: value})), "t").len(), 1, "{option}");
        assert!(
            refused(&job(json!({option: value, "rw": "randrw"}))).contains(&format!("{option}={value}: ")),
            "{option}"
        );
    }
    assert!(refused(&job(json!({"readfua": "1"}))).contains("readfua=1: its reads pass by the cache"));
    // Options of fio 3.34 to 3.42 that change nothing that is measured.
    for option in ["ramp_size", "job_start_clock_id", "comm", "end_syncfs", "filetype", "log_issue_time"] {
        assert_eq!(points(&job(json!({option: "1"})), "t").len(), 1, "{option}");
    }
    assert!(refused(&job(json!({"random_distribution": "sequence:0,5,2"}))).contains("not uniformly random"));
}
