//! The fitters and the formats on published measurements of real drives: what was published comes back.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flashlab_model::{
    IoCostModel, IoProperties, MixedFrontier, PerformanceModel, append_and_pack, random_page_cost,
};
use flashlab_sim::profile::ThroughputClass;

/// A file of the published data, or a printed reason why the test does nothing.
fn shared(file: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) => {
            flashlab_skip::skip(flashlab_skip::Need::Reference, format!("{}: {error}", path.display()));
            None
        }
    }
}

/// The rows of a CSV file, each by its columns' names.
fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

fn number(row: &BTreeMap<String, String>, key: &str) -> f64 {
    row[key].parse().unwrap_or_else(|_| panic!("{key} of {row:?}"))
}

fn io_costs() -> Option<Vec<IoCostModel>> {
    let text = shared("data/iocost/params.csv")?;
    let whole = |row: &BTreeMap<String, String>, key: &str| row[key].parse::<u64>().unwrap();
    let model = |row: &BTreeMap<String, String>| IoCostModel {
        rbps: whole(row, "rbps"),
        rseqiops: whole(row, "rseqiops"),
        rrandiops: whole(row, "rrandiops"),
        wbps: whole(row, "wbps"),
        wseqiops: whole(row, "wseqiops"),
        wrandiops: whole(row, "wrandiops"),
    };
    Some(rows(&text).iter().map(model).collect())
}

#[test]
fn io_cost_fits_of_36_drives_come_back_and_the_negative_ones_do_not_hold() {
    let Some(models) = io_costs() else { return };
    assert_eq!(models.len(), 63);
    let mut refused = 0;
    for model in models {
        // The kernel's line.
        let line = model.kernel_line("259:0");
        assert!(line.starts_with("259:0 ctrl=user model=linear rbps="), "{line}");
        assert_eq!(line.parse::<IoCostModel>().unwrap(), model);
        // A and B, and back.
        let lines = ThroughputClass::ALL.map(|class| model.line(class));
        for line in &lines {
            if let Err(error) = line {
                refused += 1;
                assert!(error.to_string().contains("does not hold here"), "{error}");
            }
        }
        if let [Ok(sr), Ok(rr), Ok(sw), Ok(rw)] = lines {
            assert_eq!(IoCostModel::of_lines([sr, rr, sw, rw]), model);
        }
    }
    assert_eq!(refused, 19, "of 252 fits");
}

/// Half of the drives was held out: the hash of its name was chosen before anybody looked at a row of it.
fn is_held_out(name: &str) -> bool {
    // FNV-1a of 64 bits.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash & 1 == 1
}

/// What experts set on SSDs: PostgreSQL's manual names 1.1, and 2.0 is usual where less is cached.
const EXPERTS: std::ops::RangeInclusive<f64> = 1.0..=2.0;
/// The kernel's read-ahead, in pages of 8 KiB.
const WINDOW_PAGES: f64 = 16.0;

#[test]
fn the_random_page_cost_of_36_drives_is_what_experts_use() {
    let Some(text) = shared("data/iocost/params.csv") else { return };
    let mut costs: [Vec<f64>; 2] = Default::default();
    let mut drives = std::collections::BTreeSet::new();
    for row in rows(&text) {
        let byte_ns = 1e9 / number(&row, "rbps");
        drives.insert(row["model"].clone());
        // The rows have bandwidth and rates at depth 64. The response time of a lone read is not in them: flash reads take 50 to
        // 200 us with a controller (Optane: 10). Sequential and random reads cost the same beside their bytes, as in io.cost.
        for alone_us in [10.0, 50.0, 80.0, 120.0, 200.0] {
            let time = |bytes: f64| alone_us * 1e3 + bytes * byte_ns;
            let cost = random_page_cost(time(8192.0), time(WINDOW_PAGES * 8192.0) / WINDOW_PAGES, 0.9);
            assert!(EXPERTS.contains(&cost), "{}: {cost} at {alone_us} us", row["model"]);
            costs[usize::from(is_held_out(&row["model"]))].push(cost);
        }
        // With 64 queries at once the disk is busy, and the ratio is smaller still.
        let busy = 8192.0f64.mul_add(byte_ns, (1e9 / number(&row, "rrandiops") - 4096.0 * byte_ns).max(0.0));
        let ratio = random_page_cost(busy, 8192.0 * byte_ns, 0.0);
        assert!(
            ratio < 5.0 && random_page_cost(busy, 8192.0 * byte_ns, 0.9) == 1.0,
            "{}: {ratio}",
            row["model"]
        );
    }
    assert_eq!(drives.len(), 36);
    for (half, costs) in ["looked at", "held out"].iter().zip(&mut costs) {
        costs.sort_by(f64::total_cmp);
        let [first, middle, last] = [0, costs.len() / 2, costs.len() - 1].map(|index| costs[index]);
        println!("{half}: {} costs, {first:.2} to {last:.2}, in the middle {middle:.2}", costs.len());
    }
    let held_out = drives.iter().filter(|name| is_held_out(name)).count();
    assert!((12..=24).contains(&held_out), "{held_out} of 36 are held out");
}

#[test]
fn the_random_page_cost_of_instances_with_measured_latencies_is_what_experts_use() {
    let (Some(latencies), Some(sets)) =
        (shared("data/diskplorer/mix_latency.csv"), shared("data/scylla-io/aws_io_params.yaml"))
    else {
        return;
    };
    let latencies = rows(&latencies);
    let sets = IoProperties::parse_all(&sets);
    // Both have one disk, and the sets of larger ones are for each disk.
    for (name, set) in [("i3.2xlarge", "i3.ALL"), ("i3en.3xlarge", "i3en.ALL")] {
        let of_device = |row: &&BTreeMap<String, String>| row["device"] == name && row["percentile"] == "p50";
        let alone_ns = latencies.iter().filter(of_device).map(|row| number(row, "read_latency_ms") * 1e6);
        // The shortest is that of the idle disk.
        let alone_ns = alone_ns.filter(|ns| *ns > 0.0).fold(f64::INFINITY, f64::min);
        let (_, set) = sets.iter().find(|(known, _)| known == set).expect("it is published");
        let time = |bytes: f64| alone_ns + bytes * 1e9 / set.read_bandwidth as f64;
        let cost = random_page_cost(time(8192.0), time(WINDOW_PAGES * 8192.0) / WINDOW_PAGES, 0.9);
        println!("{name}: {:.0} us alone, random_page_cost {cost:.2}", alone_ns / 1e3);
        assert!(EXPERTS.contains(&cost), "{name}: {cost}");
    }
}

#[test]
fn postgresqls_own_derivation_comes_out() {
    assert!((random_page_cost(40.0, 1.0, 0.9) - 4.0).abs() < 1e-9);
    assert_eq!(random_page_cost(5.0, 1.0, 0.9), 1.0, "the planner takes no less for sensible");
}

/// The frontier of a device's grid: for each write bandwidth the middle between the largest read rate that was reached and the
/// next one of the grid, which was not.
fn frontier(rows: &[BTreeMap<String, String>], device: &str) -> Vec<(f64, f64)> {
    let mut columns: BTreeMap<u64, f64> = BTreeMap::new();
    let mut rates: Vec<f64> = Vec::new();
    for row in rows.iter().filter(|row| row["device"] == device && row["percentile"] == "p50") {
        let writes = number(row, "write_bw_Bps").max(0.0) as u64;
        let reads = number(row, "read_iops").max(0.0);
        rates.push(reads);
        let most = columns.entry(writes).or_default();
        *most = most.max(reads);
    }
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let step = rates[1] - rates[0];
    columns.into_iter().map(|(writes, reads)| (reads + step / 2.0, writes as f64)).collect()
}

#[test]
fn the_frontier_describes_mixed_loads_of_three_ssds_and_a_hard_disk() {
    let Some(text) = shared("data/diskplorer/mix_latency.csv") else { return };
    let rows = rows(&text);
    for device in ["gcp-pd-SSD-2TB", "i3.2xlarge", "i3en.3xlarge", "hdd-toshiba-DT01ACA200"] {
        let points = frontier(&rows, device);
        // Writes are counted in requests of 128 KiB, as they were done.
        let measured: Vec<_> =
            points.iter().map(|(reads, bytes)| MixedFrontier::measured(*reads, bytes / 131_072.0)).collect();
        let model = MixedFrontier::fit(&measured).unwrap();
        let (fitted, held_out) = (model.error(&measured), model.hold_out_error.unwrap());
        println!("{device}: k {:.2}, error {fitted:.3}, hold-out {held_out:.3}", model.interference);
        assert!(fitted <= 0.1 && held_out <= 0.1, "{device}: {fitted} {held_out}");
        if device.starts_with("hdd") {
            assert!(model.interference > 0.5, "a disk that seeks between reads and writes: {model:?}");
        }
    }
}

#[test]
fn io_properties_of_cloud_instances_come_back() {
    let mut sets = Vec::new();
    for file in ["aws", "azure", "gcp", "oci"] {
        let Some(text) = shared(&format!("data/scylla-io/{file}_io_params.yaml")) else { return };
        sets.extend(IoProperties::parse_all(&text));
    }
    assert_eq!(sets.len(), 198);
    let mut doubted = Vec::new();
    for (name, properties) in sets {
        let file = properties.file("/var/lib/scylla");
        assert!(file.starts_with("disks:\n  - mountpoint: /var/lib/scylla\n    read_iops: "), "{file}");
        assert_eq!(IoProperties::parse(&file).unwrap(), properties);
        assert_eq!(IoProperties::parse_all(&file), [("/var/lib/scylla".to_owned(), properties)]);
        doubted.extend(properties.doubts().into_iter().map(|doubt| format!("{name}: {doubt}")));
    }
    // Their bandwidth is the rate times 4 KiB, within 1 %.
    let names: Vec<&str> = doubted.iter().filter_map(|doubt| doubt.split(':').next()).collect();
    assert_eq!(
        names,
        [
            "m5ad.xlarge",
            "Standard_L8s_v3",
            "Standard_L32s_v3",
            "Standard_L48as_v3",
            "Standard_L48s_v3",
            "Standard_L64s_v3"
        ],
        "{doubted:#?}"
    );
    assert!(doubted[1].contains("write_bandwidth 2494925312 is write_iops 607182 x 4 KiB"), "{}", doubted[1]);
}

#[test]
fn stoicas_predictions_come_out_to_the_printed_digit() {
    let Some(text) = shared("reference/append_and_pack.csv") else { return };
    let rows = rows(&text);
    assert_eq!(rows.len(), 5);
    for row in rows {
        let model = append_and_pack::AppendAndPack::PAPER;
        let predicted = model.speed_up(number(&row, "read_pct") / 100.0, number(&row, "alpha"));
        assert_eq!(format!("{predicted:.1}"), row["predicted_speedup"], "{row:?}");
    }
}

#[test]
fn write_amplification_follows_the_theory() {
    let Some(text) = shared("reference/waf_theory.csv") else { return };
    for row in rows(&text) {
        let (alpha, fifo) = (number(&row, "alpha"), number(&row, "fifo"));
        let found = flashlab_model::write_amplification(alpha);
        assert!((found / fifo - 1.0).abs() < 1e-4, "{alpha}: {found} {fifo}");
        assert!((flashlab_model::fill_of(found) - alpha).abs() < 1e-6);
    }
}
