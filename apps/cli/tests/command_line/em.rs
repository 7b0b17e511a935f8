//! `flashlab em`: files are sorted and verified, experiments print predicted and measured, and bad input changes nothing.

use std::fs;

use flashlab_base::Seed;
use flashlab_em::graph::{random_graph, write_graph};
use serde_json::Value;

use crate::support::{Directory, LoopDevice, Mount, program};

/// Records of 16 bytes in a pseudo-random order, the key first.
fn records(count: u32) -> Vec<u8> {
    let record = |index: u32| {
        let key = index.wrapping_mul(2_654_435_761).rotate_left(7);
        let mut record = [0u8; 16];
        record[..4].copy_from_slice(&key.to_be_bytes());
        record[8..12].copy_from_slice(&index.to_be_bytes());
        record
    };
    (0..count).flat_map(record).collect()
}

fn sorted(records: &[u8]) -> Vec<u8> {
    let mut all: Vec<&[u8]> = records.chunks(16).collect();
    all.sort_by_key(|record| &record[..8]);
    all.concat()
}

#[test]
fn a_file_is_sorted_with_and_without_runs_whatever_its_length() {
    let directory = Directory::new();
    for (count, memory) in [(0, "1MiB"), (1, "1MiB"), (33, "1MiB"), (100_003, "1MiB"), (100_003, "64MiB")] {
        let input = records(count);
        directory.write("in", &input);
        let arguments =
            ["em", "sort", "in", "out", "--record", "16B", "--key", "0..8", "--memory", memory, "--json"];
        let ran = directory.succeeds(&arguments);
        let document: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&document["records"], &document["verified"]), (&count.into(), &true.into()));
        let passes = u64::from(count > 50_000 && memory == "1MiB");
        assert_eq!(document["merge_passes"], passes, "{document}");
        assert!(fs::read(directory.path("out")).unwrap() == sorted(&input), "{count} records in {memory}");
        assert!(fs::read(directory.path("in")).unwrap() == input);
        assert_eq!(directory.names(), ["in", "out"]);
        fs::remove_file(directory.path("out")).unwrap();
    }
}

/// Passes that leave some runs where they are need space for three copies.
#[test]
fn a_file_is_sorted_in_several_passes() {
    let directory = Directory::new();
    let input = records(400_000);
    directory.write("in", &input);
    for (memory, least) in [("44KiB", 3), ("64KiB", 3), ("128KiB", 2)] {
        let arguments =
            ["em", "sort", "in", "out", "--record", "16B", "--key", "0..8", "--memory", memory, "--json"];
        let document: Value = serde_json::from_str(&directory.succeeds(&arguments).out).unwrap();
        assert!(document["merge_passes"].as_u64() >= Some(least), "{document}");
        assert!(fs::read(directory.path("out")).unwrap() == sorted(&input), "in {memory}");
        fs::remove_file(directory.path("out")).unwrap();
    }
}

#[test]
fn what_cannot_be_sorted_is_refused_and_leaves_everything_as_it_was() {
    let directory = Directory::new();
    directory.write("in", records(4096));
    directory.write("odd", [1; 100]);
    directory.write("there", "kept");
    let refused = |input: &str, output: &str, more: &[&str]| {
        let words = ["em", "sort", input, output, "--record", "16B"];
        let key = ["--key", "0..8"];
        let has_key = more.contains(&"--key");
        let arguments: Vec<&str> = words
            .into_iter()
            .chain(if has_key { [].iter() } else { key.iter() }.copied())
            .chain(more.iter().copied())
            .collect();
        let ran = directory.flashlab(&arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran}");
        ran.err.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(
        refused("odd", "out", &[]),
        "flashlab: odd has 100 bytes, which is not a multiple of the record of 16 bytes: 4 bytes are left over at its end"
    );
    assert_eq!(refused("in", "in", &[]), "flashlab: in is the input: give the output another name");
    assert_eq!(refused("in", "./in", &[]), "flashlab: ./in is the input: give the output another name");
    assert_eq!(refused("in", "there", &[]), "flashlab: there exists: give the output another name");
    assert_eq!(refused("in", "nowhere/out", &[]), "flashlab: nowhere is no directory: make it first");
    assert!(refused("missing", "out", &[]).starts_with("flashlab: cannot read missing: "));
    assert!(refused(".", "out", &[]).ends_with("Is a directory (os error 21); give a file of records"));
    assert!(
        refused("in", "out", &["--memory", "16KiB"])
            .contains("a sort of such records with a fan-in of 2 needs ")
    );
    assert!(
        refused("in", "out", &["--key", "9..17"]).contains("the key 9..17 is not within a record of 16 B")
    );
    assert_eq!(directory.names(), ["in", "odd", "there"]);
    assert_eq!(fs::read(directory.path("there")).unwrap(), b"kept");
    assert!(fs::read(directory.path("in")).unwrap() == records(4096));
}

#[test]
fn an_interrupted_and_a_killed_sort_leave_nothing_behind() {
    let directory = Directory::new();
    directory.file("in", 192 << 20);
    let arguments = ["em", "sort", "in", "out", "--record", "16B", "--key", "0..8", "--memory", "4MiB"];
    let ran = directory.start(&arguments).until("sorting").signal("INT");
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(
        ran.err.ends_with(
            "flashlab: interrupted: no output was made, the temporary files are removed, in is as it was\n"
        ),
        "{ran}"
    );
    assert_eq!(directory.names(), ["in"]);
    directory.start(&arguments).until("sorting").signal("KILL");
    let names: Vec<String> = directory.names();
    // Without nameless files, scratch files are left, which the next start names.
    assert!(names.iter().all(|name| name == "in" || name.starts_with("flashlab-scratch-")), "{names:?}");
}

/// The keys that issue 26 defines, and no others.
const KEYS: [&str; 9] = [
    "algorithm",
    "elements",
    "verified",
    "ios",
    "bytes",
    "time_ns",
    "host_ns",
    "predicted",
    "bandwidth_bound_ratio",
];

#[test]
fn experiments_are_verified_recorded_and_compared_with_their_predictions() {
    let directory = Directory::new();
    for algorithm in ["scan", "sort", "search"] {
        let arguments = |folder| {
            [
                "em",
                "run",
                algorithm,
                "sim:nvme-consumer",
                "--elements",
                "100000",
                "--memory",
                "1MiB",
                "--output",
                folder,
                "--json",
            ]
        };
        let document: Value = serde_json::from_str(&directory.succeeds(&arguments(algorithm)).out).unwrap();
        let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, KEYS);
        assert_eq!(document["ios"]["planned"], document["ios"]["issued"], "{algorithm}");
        assert_eq!(document["verified"], true);
        let models: Vec<&String> = document["predicted"].as_object().unwrap().keys().collect();
        assert_eq!(models.len(), 6, "{models:?}");
        let again = format!("{algorithm}-again");
        let second: Value = serde_json::from_str(&directory.succeeds(&arguments(&again)).out).unwrap();
        assert_eq!(document, second, "the same seed gives the same document");
        let report = directory.succeeds(&["report", algorithm]);
        let phase = if algorithm == "sort" { "merge 1: " } else { algorithm };
        assert!(report.out.contains(phase), "{report}");
    }
}

#[test]
fn every_algorithm_is_predicted_from_a_device_and_from_a_run() {
    let directory = Directory::new();
    let json = |arguments: &str| -> Value {
        let words: Vec<&str> = arguments.split(' ').collect();
        serde_json::from_str(&directory.succeeds(&words).out).unwrap()
    };
    let fit = "model fit sim:nvme-consumer --size 1GiB --output fitted".split(' ').collect::<Vec<_>>();
    directory.succeeds(&fit);
    for (algorithm, options) in [
        ("scan", "--elements 100000"),
        ("sort", "--elements 500000"),
        ("search", "--elements 500000 --structure cached"),
        ("rank", "--elements 20000 --algorithm hopping"),
        ("rank", "--elements 20000"),
        ("bfs", "--nodes 20000"),
        ("bfs", "--graph random --nodes 20000 --algorithm mr"),
    ] {
        for source in ["sim:nvme-consumer", "fitted", "fitted/model.json"] {
            let document = json(&format!("em predict {algorithm} {source} {options} --memory 1MiB --json"));
            assert_eq!(document["algorithm"], algorithm);
            let models = document["predicted"].as_object().unwrap();
            assert_eq!(models.len(), 6, "{document}");
            assert!(models["affine"]["time_ns"].as_u64().unwrap() > 1000, "{document}");
        }
    }
    let refused = |arguments: &str, code| {
        let words: Vec<&str> = "em predict".split(' ').chain(arguments.split(' ')).collect();
        let ran = directory.flashlab(&words);
        assert_eq!(ran.code, Some(code), "{arguments}: {ran}");
        ran.err.lines().last().unwrap_or_default().to_owned()
    };
    let no_formula = refused("bfs sim:hama --graph random --nodes 2000", 2);
    assert!(no_formula.contains("no formula knows the clusters"), "{no_formula}");
    for options in ["--structure sim:hama --pool sim:nvme-consumer", "sim:hama sim:nvme-consumer --by-role"] {
        let document = json(&format!("em predict bfs --nodes 20000 {options} --json"));
        assert!(document["predicted"]["affine"]["time_ns"].as_u64().unwrap() > 1000, "{document}");
    }
    let several = refused("scan fitted sim:hama --elements 1000", 2);
    assert!(several.contains("fitted is what was measured of one device"), "{several}");
    let devices = refused("bfs fitted --nodes 2000 --structure sim:hama --pool sim:hama", 2);
    assert!(devices.contains("leave --structure TARGET and --pool out"), "{devices}");
    let missing = refused("scan sim:hama", 2);
    assert!(missing.contains("--elements N is missing"), "{missing}");
}

/// Data that is large against the memory, and the records of the issue: the space follows from the plan, and so does the rehearsal's.
#[test]
fn sorts_of_much_data_in_little_memory_find_their_space() {
    let directory = Directory::new();
    directory.file("disk", 48 << 20);
    for arguments in [
        "run sort --elements 400000 --memory 128KiB",
        "run sort --elements 200000 --memory 192KiB --record 24B",
        "run sort disk --overwrite-file --elements 5000 --memory 2MiB --record 1000B",
        "predict sort disk --overwrite-file --elements 400000 --memory 128KiB",
    ] {
        let words: Vec<&str> = "em".split(' ').chain(arguments.split(' ')).chain(["--json"]).collect();
        let ran = directory.succeeds(&words);
        assert!(!ran.err.contains("could not be rehearsed"), "{arguments}: {ran}");
    }
    // Records of 24 bytes in little memory: the runs once did not fit into their scratch file.
    let input: Vec<u8> = (0..300_000u32)
        .flat_map(|index| [index.wrapping_mul(2_654_435_761).to_be_bytes(); 6].concat())
        .collect();
    directory.write("in", &input);
    let sort =
        ["em", "sort", "in", "out", "--record", "24B", "--key", "0..8", "--memory", "400KiB", "--json"];
    let document: Value = serde_json::from_str(&directory.succeeds(&sort).out).unwrap();
    assert!(document["merge_passes"].as_u64() >= Some(1), "{document}");
    let mut expected: Vec<&[u8]> = input.chunks(24).collect();
    expected.sort();
    assert!(fs::read(directory.path("out")).unwrap() == expected.concat());
}

/// Records that cross blocks need some buffers of a record and a page: a block of whole records was 16 MiB for the first one.
#[test]
fn odd_records_are_sorted_in_little_memory() {
    let directory = Directory::new();
    for (record, count, memory) in [(4099, 300u32, "256KiB"), (65_535, 60, "2MiB"), (511, 5_000, "160KiB")] {
        let with_key = |index: u32| {
            let key = (index.wrapping_mul(2_654_435_761) >> 24).to_be_bytes();
            let mut bytes = vec![0; record];
            bytes[..4].copy_from_slice(&key);
            bytes[record - 4..].copy_from_slice(&index.to_be_bytes());
            bytes
        };
        let input: Vec<u8> = (0..count).flat_map(with_key).collect();
        directory.write("in", &input);
        let size = format!("{record}B");
        let sort =
            ["em", "sort", "in", "out", "--record", &size, "--key", "0..4", "--memory", memory, "--json"];
        let document: Value = serde_json::from_str(&directory.succeeds(&sort).out).unwrap();
        assert!(document["merge_passes"].as_u64() >= Some(1), "{document}");
        let mut expected: Vec<&[u8]> = input.chunks(record).collect();
        expected.sort_by_key(|record| &record[..4]);
        assert!(fs::read(directory.path("out")).unwrap() == expected.concat(), "records of {record} B");
        fs::remove_file(directory.path("out")).unwrap();
    }
}

#[test]
fn records_that_cut_lines_of_text_are_warned_about() {
    let directory = Directory::new();
    directory.write("lines", "seven,1\nthirteen,27\nthree\n".repeat(160));
    directory.write("records", "0000017,abcdefg\n".repeat(256));
    for (name, record, is_warned) in [("lines", "16B", true), ("records", "16B", false)] {
        let length = fs::metadata(directory.path(name)).unwrap().len();
        assert!(length.is_multiple_of(16), "{length}");
        let ran = directory.succeeds(&["em", "sort", name, "out", "--record", record, "--key", "0..8"]);
        assert_eq!(ran.err.contains("looks like lines of text"), is_warned, "{name}: {ran}");
        fs::remove_file(directory.path("out")).unwrap();
    }
}

#[test]
fn on_a_real_device_the_models_count_the_cpu() {
    let directory = Directory::new();
    for arguments in ["run scan", "run sort", "run search --queries 2000", "predict sort"] {
        let words = format!("em {arguments} --elements 200000 --memory 1MiB --json");
        let words: Vec<&str> = words.split(' ').collect();
        let document: Value = serde_json::from_str(&directory.succeeds(&words).out).unwrap();
        let time = |model: &str| document["predicted"][model]["time_ns"].as_u64().unwrap();
        assert!(time("ram") > 0 && time("affine") >= time("ram"), "{arguments}: {document}");
    }
}

/// Runs an experiment and returns its document, whose keys are those of the issue.
fn experiment(directory: &Directory, arguments: &str) -> Value {
    let words: Vec<&str> = "em run --json --memory 1MiB".split(' ').chain(arguments.split(' ')).collect();
    let document: Value = serde_json::from_str(&directory.succeeds(&words).out).unwrap();
    let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, KEYS);
    assert_eq!((&document["verified"], document["predicted"].as_object().unwrap().len()), (&true.into(), 6));
    document
}

/// How far the planned number of IOs is from the issued one, as a share of that.
fn off(document: &Value) -> f64 {
    let ios = |kind: &str| document["ios"][kind].as_f64().unwrap();
    (ios("planned") / ios("issued") - 1.0).abs()
}

#[test]
fn lists_are_ranked_by_both_methods() {
    let directory = Directory::new();
    let hopping = experiment(&directory, "rank sim:hama --elements 20000 --algorithm hopping");
    let ios = &hopping["ios"];
    assert_eq!(ios["planned"], ios["issued"]);
    assert!(ios["issued"].as_u64().unwrap() > 19_000, "{ios}");
    assert!(hopping["predicted"]["affine"]["error"].as_f64().unwrap().abs() < 0.1, "{hopping}");
    let contraction = experiment(&directory, "rank sim:hama --elements 200000 --algorithm contraction");
    assert!(off(&contraction) < 0.15, "{contraction}");
    assert_eq!(contraction["algorithm"], "rank");
}

#[test]
fn graphs_are_searched_by_each_algorithm_on_one_and_on_two_devices() {
    let directory = Directory::new();
    let on_one = |algorithm: &str| {
        let arguments = format!("bfs sim:nvme-consumer --graph random --nodes 20000 --algorithm {algorithm}");
        experiment(&directory, &arguments)
    };
    for algorithm in ["mr", "mm", "semi-external"] {
        let document = on_one(algorithm);
        assert!(off(&document) < 0.05, "{algorithm}: {document}");
        assert_eq!(document["elements"], 20_000);
    }
    assert_eq!(on_one("mr"), on_one("mr"), "the same seed gives the same document");
    let apart =
        "bfs --graph level-tree --nodes 20000 --structure sim:hama --pool sim:barracuda --output apart";
    let document = experiment(&directory, apart);
    assert!(off(&document) < 0.1, "{document}");
    let report = directory.succeeds(&["report", "apart"]);
    assert!(report.out.contains("search"), "{report}");
}

#[test]
fn every_algorithm_runs_striped_and_by_role() {
    let directory = Directory::new();
    let two = "sim:nvme-consumer sim:tlc-sata";
    for algorithm in [
        "scan --elements 200000",
        "sort --elements 200000",
        "sort --elements 200000 --record 12B",
        "search --elements 200000 --queries 2000",
        "search --elements 200000 --queries 2000 --structure cached",
        "rank --elements 20000",
        "rank --elements 20000 --algorithm hopping",
        "bfs --nodes 5000",
    ] {
        let (name, options) = algorithm.split_once(' ').unwrap();
        let arguments = |more: &str| format!("{name} {two} {options} {more}");
        let striped = experiment(&directory, &arguments("--output striped"));
        assert!(off(&striped) < 0.15, "{algorithm}: {striped}");
        let is_exact = ["scan", "sort", "search"].contains(&name);
        assert!(!is_exact || off(&striped) == 0.0, "{algorithm}: {striped}");
        let report = directory.succeeds(&["report", "striped"]);
        assert!(report.out.contains("sim:nvme-consumer and sim:tlc-sata, recorded by"), "{report}");
        fs::remove_dir_all(directory.path("striped")).unwrap();
        if name != "scan" {
            let by_role = experiment(&directory, &arguments("--by-role"));
            assert!(off(&by_role) < 0.15, "{algorithm}: {by_role}");
            assert_ne!(by_role["time_ns"], striped["time_ns"], "{algorithm}");
        }
    }
    let alone = experiment(&directory, "sort sim:tlc-sata --elements 200000");
    let two = experiment(&directory, "sort sim:tlc-sata sim:tlc-sata --elements 200000");
    let time = |document: &Value| document["time_ns"].as_f64().unwrap();
    assert!(time(&two) < 0.8 * time(&alone), "two devices are faster than one: {two} {alone}");
    let refused = |arguments: &str| {
        let words: Vec<&str> = "em run".split(' ').chain(arguments.split(' ')).collect();
        let ran = directory.flashlab(&words);
        assert_eq!(ran.code, Some(2), "{arguments}: {ran}");
        ran.err.lines().last().unwrap_or_default().to_owned()
    };
    let one = refused("sort sim:hama --elements 9 --by-role");
    assert_eq!(one, "flashlab: --by-role needs two TARGETs: one for each role");
    let scan = refused("scan sim:hama sim:hama --elements 9 --by-role");
    assert_eq!(scan, "flashlab: scan only reads what it is given: leave --by-role out");
    let block = refused("search sim:hama sim:hama --elements 2000 --block 1MiB");
    assert!(block.contains("blocks of 1 MiB do not divide the stripe unit"), "{block}");
}

#[test]
fn a_graph_file_is_searched_and_a_wrong_one_refused() {
    let directory = Directory::new();
    let graph = random_graph(2000, 5000, Seed(3));
    let mut bytes = Vec::new();
    write_graph(&graph, Seed(3), |part| {
        bytes.extend_from_slice(part);
        Ok::<(), ()>(())
    })
    .unwrap();
    directory.write("graph", &bytes);
    for algorithm in ["mr", "mm"] {
        let document = experiment(&directory, &format!("bfs sim:hama --graph graph --algorithm {algorithm}"));
        assert_eq!(document["elements"], 2000);
    }
    directory.write("magic", [&b"GRAPHFL"[..], &bytes[7..]].concat());
    directory.write("short", &bytes[..bytes.len() - 4]);
    let refused = |arguments: &str| {
        let words: Vec<&str> = "em run".split(' ').chain(arguments.split(' ')).collect();
        let ran = directory.flashlab(&words);
        assert_eq!(ran.code, Some(2), "{arguments}: {ran}");
        ran.err.lines().last().unwrap_or_default().to_owned()
    };
    assert!(refused("bfs sim:hama --graph magic").contains("magic cannot be used: it does not begin with"));
    assert!(refused("bfs sim:hama --graph short").contains("the file is cut off"));
    assert!(refused("bfs sim:hama --graph none").contains("cannot read the graph none: "));
    assert!(refused("bfs sim:hama --graph graph --source 2000").contains("the nodes 0 to 1999"));
    assert!(refused("bfs sim:hama --nodes 20000 --memory 64KiB").contains("give more memory"));
    assert!(refused("rank sim:hama --elements 200000 --memory 64KiB").contains("give more memory"));
    assert!(refused("bfs sim:hama").contains("needs --nodes N"));
    assert!(refused("bfs --nodes 9 --structure sim:hama").contains("are given together"));
    assert!(refused("rank sim:hama --elements 9 --algorithm mm").contains("hopping or contraction"));
    assert!(refused("scan sim:hama --elements 9 --structure sim:hama").contains("only bfs has devices"));
}

#[test]
fn graph_files_are_generated_and_made_of_edge_lists() {
    let directory = Directory::new();
    directory.write("edges.txt", "# a square and a loop\n0 1 1\n1,2,1\n2\t3 0.5\n3 0 2\n3 3 1\n");
    directory.write("wrong.txt", "0 1\n1 two\n");
    // 32 GiB of offsets: more memory than the machines of CI have.
    directory.write("far.txt", "0 4294967293\n");
    for (arguments, nodes, edges) in [
        ("grid grid --nodes 12 --width 4", 12, 17),
        ("edges square --from edges.txt", 4, 4),
        ("level-tree tree --nodes 2000 --levels 20", 1981, 1980),
        ("random drawn --nodes 500 --edges 1000", 500, 994),
    ] {
        let words: Vec<&str> = "em graph".split(' ').chain(arguments.split(' ')).chain(["--json"]).collect();
        let written: Value = serde_json::from_str(&directory.succeeds(&words).out).unwrap();
        let found = (written["nodes"].as_u64().unwrap(), written["edges"].as_u64().unwrap());
        assert_eq!(found.0, nodes, "{written}");
        assert!(found.1.abs_diff(edges) <= 10, "{written}");
        let name = arguments.split(' ').nth(1).unwrap();
        assert_eq!(fs::metadata(directory.path(name)).unwrap().len(), written["bytes"]);
        let document = experiment(&directory, &format!("bfs sim:hama --graph {name} --algorithm mm"));
        assert_eq!(document["elements"], nodes);
        fs::remove_dir_all(directory.path("flashlab-runs")).unwrap();
    }
    assert_eq!(directory.names(), ["drawn", "edges.txt", "far.txt", "grid", "square", "tree", "wrong.txt"]);
    let refused = |arguments: &str| {
        let words: Vec<&str> = "em graph".split(' ').chain(arguments.split(' ')).collect();
        let ran = directory.flashlab(&words);
        assert_eq!(ran.code, Some(2), "{arguments}: {ran}");
        ran.err.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(
        refused("edges new --from wrong.txt"),
        "flashlab: wrong.txt: line 2 is `1 two`: an edge is the numbers of two nodes, each from 0 to 4294967293"
    );
    let far = refused("edges new --from far.txt");
    assert!(far.contains("far.txt: line 1 names the node 4294967293"), "{far}");
    assert!(refused("grid grid --nodes 4").contains("grid exists: give the graph another name"));
    assert!(refused("grid new").contains("--nodes N is missing"));
    assert!(refused("grid new --nodes 4 --levels 2").contains("--levels is no option of this graph"));
    assert!(refused("edges new").contains("--from FILE is missing"));
    assert!(refused("edges new --from none").contains("cannot read the edges none"));
    assert!(refused("grid nowhere/new --nodes 4").contains("nowhere is no directory"));
    assert!(refused("level-tree new --nodes 5 --levels 20").contains("give at least 21 --nodes"));
    assert!(!directory.path("new").exists());
}

/// A graph file with right checksums, so that what its lists say is looked at.
fn with_checksums(mut bytes: Vec<u8>) -> Vec<u8> {
    let content = crc32fast::hash(&bytes[64..]);
    bytes[40..44].copy_from_slice(&content.to_le_bytes());
    let header = crc32fast::hash(&bytes[16..48]);
    bytes[12..16].copy_from_slice(&header.to_le_bytes());
    bytes
}

#[test]
fn a_graph_file_with_odd_offsets_or_edges_to_nowhere_is_refused() {
    let directory = Directory::new();
    directory.succeeds(&["em", "graph", "grid", "grid", "--nodes", "9"]);
    let whole = fs::read(directory.path("grid")).unwrap();
    let damaged = |name: &str, at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        directory.write(name, with_checksums(bytes));
    };
    // The offset of node 2, the first neighbour of node 0 as no node, and as one that has no arc back.
    damaged("odd", 64 + 8 * 2, 0);
    damaged("nowhere", 64 + 8 * 10, 200);
    damaged("one-way", 64 + 8 * 10, 2);
    let refused = |name: &str| {
        let ran = directory.flashlab(&["em", "run", "bfs", "sim:hama", "--graph", name]);
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.err.lines().last().unwrap_or_default().to_owned()
    };
    assert!(refused("odd").contains("the offset of node 2 (byte 80) is 0"), "{}", refused("odd"));
    assert!(refused("nowhere").contains("(byte 144)"), "{}", refused("nowhere"));
    assert!(refused("one-way").contains("the graph is directed"), "{}", refused("one-way"));
}

#[test]
fn a_graph_is_striped_over_several_devices() {
    let directory = Directory::new();
    let document = experiment(&directory, "bfs sim:barracuda sim:barracuda --nodes 20000 --output striped");
    assert!(off(&document) < 0.1, "{document}");
    let alone = experiment(&directory, "bfs sim:barracuda --nodes 20000");
    let time = |document: &Value| document["time_ns"].as_f64().unwrap();
    assert!(time(&document) < time(&alone), "two disks take longer than one: {document} {alone}");
}

/// A sort into a file system whose disk is smaller than it says: writes fail half-way.
#[test]
fn a_disk_that_becomes_full_half_way_loses_nothing() {
    let directory = Directory::new();
    directory.write("in", records(1 << 20));
    let Some(backing) = Mount::new(&["-t", "tmpfs", "-o", "size=24m", "none"], &directory.path("backing"))
    else {
        return;
    };
    let image = directory.file("backing/image", 256 << 20);
    if let Err(reason) = program("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]) {
        flashlab_skip::skip(flashlab_skip::Need::Programs, reason);
        return;
    }
    let Some(device) = LoopDevice::over(&image, &[]) else { return };
    let Some(mounted) = Mount::new(&[&device.0], &directory.path("small")) else { return };
    let arguments = ["em", "sort", "in", "small/out", "--record", "16B", "--key", "0..8", "--memory", "2MiB"];
    let ran = directory.flashlab(&arguments);
    assert_eq!(ran.code, Some(1), "{ran}");
    let last = ran.err.lines().last().unwrap_or_default();
    assert!(last.contains(" failed: ") && last.contains("no output was made"), "{ran}");
    assert!(fs::read(directory.path("in")).unwrap() == records(1 << 20));
    let left: Vec<_> =
        fs::read_dir(directory.path("small")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["lost+found"]);
    drop(mounted);
    drop(device);
    drop(backing);
}

#[test]
fn a_full_disk_is_an_error_before_anything_is_sorted() {
    let directory = Directory::new();
    directory.write("in", records(1 << 20));
    let Some(_mounted) = Mount::new(&["-t", "tmpfs", "-o", "size=20m", "none"], &directory.path("small"))
    else {
        return;
    };
    let arguments = ["em", "sort", "in", "small/out", "--record", "16B", "--key", "0..8", "--memory", "2MiB"];
    let ran = directory.flashlab(&arguments);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(!ran.err.contains("sorting "), "{ran}");
    assert_eq!(fs::read_dir(directory.path("small")).unwrap().count(), 0, "{ran}");
    assert!(fs::read(directory.path("in")).unwrap() == records(1 << 20));
}

#[test]
fn what_a_killed_sort_left_over_is_named_at_the_next_start() {
    let directory = Directory::new();
    directory.write("in", records(100));
    // No process has the largest number that a process can have plus one.
    let name = format!("flashlab-scratch-{}.bin", 1 << 22);
    directory.write(&name, "left over");
    let ran = directory.succeeds(&["em", "sort", "in", "out", "--record", "16B", "--key", "0..8"]);
    assert!(
        ran.err.contains(&format!("{name} was left by a flashlab that was killed; remove it with: rm ")),
        "{ran}"
    );
    assert!(directory.path(&name).exists(), "the user removes it");
}

#[test]
fn an_experiment_that_does_not_fit_is_refused() {
    let directory = Directory::new();
    let run = |more: &[&str]| {
        let words = ["em", "run", "sort", "sim:zeus"];
        let arguments: Vec<&str> = words.into_iter().chain(more.iter().copied()).collect();
        let ran = directory.flashlab(&arguments);
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.err.lines().last().unwrap_or_default().to_owned()
    };
    assert!(run(&["--elements", "100000000000"]).contains(" of memory, and "));
    assert!(run(&["--elements", "100000", "--memory", "8KiB"]).contains("give more memory"));
    assert!(run(&["--elements", "4000000", "--size", "64MiB"]).contains("has no free extent of"));
    assert!(run(&["--elements", "100", "--record", "1MiB"]).contains("a record has 1 byte to 64 KiB"));
    assert!(run(&["--elements", "100", "--write-cost", "0.1"]).contains("a write costs 1 to 1000 reads"));
}

#[test]
fn options_that_an_algorithm_does_not_use_are_refused() {
    let directory = Directory::new();
    for (algorithm, option, value) in [
        ("rank", "--record", "16B"),
        ("bfs", "--record", "16B"),
        ("scan", "--runs", "replacement"),
        ("search", "--write-cost", "5"),
        ("sort", "--structure", "tree"),
        ("sort", "--queries", "10"),
        ("scan", "--in-flight", "4"),
        ("sort", "--block", "4KiB"),
        ("rank", "--graph", "random"),
        ("search", "--cluster", "8"),
    ] {
        for verb in ["run", "predict"] {
            let words = ["em", verb, algorithm, "sim:zeus", "--elements", "100", option, value];
            let ran = directory.flashlab(&words);
            let is_refused =
                ran.err.contains(option) && ran.err.contains(&format!("{algorithm} does not use it"));
            assert!(ran.code == Some(2) && is_refused, "{words:?}: {ran}");
        }
    }
    let sort = ["em", "run", "sort", "sim:zeus", "--elements", "100", "--write-cost", "5"];
    assert!(directory.flashlab(&sort).err.contains("--write-cost is for --runs write-saving"));
    assert_eq!(directory.names(), Vec::<String>::new(), "nothing is left behind");
}
