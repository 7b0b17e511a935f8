//! The fitters and the formats on published measurements of real drives: what was published comes back.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flashlab_model::{
    IoCostLine, IoCostModel, IoProperties, MixedFrontier, PerformanceModel, append_and_pack, random_page_cost,
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

#[test]
fn the_random_page_cost_of_real_drives_is_no_constant() {
    let Some(models) = io_costs() else { return };
    let cost = |model: &IoCostModel| {
        let b_ns_per_byte = 1e9 / model.rbps as f64;
        let a_ns = model.line(ThroughputClass::RandomRead).map_or(0.0, |line: IoCostLine| line.a_ns);
        random_page_cost(a_ns + 8192.0 * b_ns_per_byte, b_ns_per_byte)
    };
    let mut costs: Vec<f64> = models.iter().map(cost).collect();
    costs.sort_by(f64::total_cmp);
    let middle = costs[costs.len() / 2];
    let found = format!("{:.1} {middle:.1} {:.1}", costs[0], costs[costs.len() - 1]);
    assert_eq!(found, "1.0 1.8 4.7");
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
    let mut instances = 0;
    for file in ["aws", "azure", "gcp", "oci"] {
        let Some(text) = shared(&format!("data/scylla-io/{file}_io_params.yaml")) else { return };
        let mut entry = String::new();
        for line in text.lines().chain(["end:"]) {
            if line.starts_with(' ') {
                entry += &format!("{line}\n");
            } else if line.ends_with(':') {
                if let Ok(properties) = IoProperties::parse(&entry) {
                    let file = properties.file("/var/lib/scylla");
                    assert!(
                        file.starts_with("disks:\n  - mountpoint: /var/lib/scylla\n    read_iops: "),
                        "{file}"
                    );
                    assert_eq!(IoProperties::parse(&file).unwrap(), properties);
                    instances += 1;
                } else {
                    assert!(!entry.contains("read_iops"), "{entry}");
                }
                entry.clear();
            }
        }
    }
    assert!(instances > 150, "{instances}");
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
