//! RocksDB's readahead of compactions, and how much it writes between two syncs.
//!
//! A compaction reads its inputs one after the other, with one read of `compaction_readahead_size` in flight. So the smallest size
//! that nearly reaches the bandwidth is enough; a larger one takes memory for each input. The kernel splits larger reads.
//! On a hard disk each of them begins with a move of the heads, because a compaction alternates between its inputs.
//! With `bytes_per_sync` a file is passed to the disk while it is written. RocksDB leaves its last 1 MiB out
//! (`kBytesNotSyncRange` in file/writable_file_writer.cc), so parts below 1 MiB bound nothing more and only cost calls.

use flashlab_base::Bytes;
use flashlab_sim::profile::ThroughputClass;

use super::report::{TuneReport, TuneSurroundings, TuneTarget, TunedValue};
use crate::class_model::{ClassModel, SizeEquation};
use crate::device_model::DeviceModel;

/// The share of the bandwidth that a request should reach.
const SHARE: f64 = 0.9;
/// RocksDB loads no options file without this section, and without options of the default column family. Versions after this one
/// load it, too.
const VERSION: &str = "[Version]\n  rocksdb_version=7.8.3\n  options_file_version=1.1\n\n";
/// What RocksDB never passes on before a file's end, see above; its tuning guide sets bytes_per_sync to the same.
const NOT_SYNCED: Bytes = Bytes::mib(1);
/// Within these powers of two a size is looked for.
const SIZES: [u32; 2] = [12, 26];

pub(super) fn report(model: &DeviceModel, surroundings: &TuneSurroundings) -> TuneReport {
    let mut report = TuneReport::new(TuneTarget::Rocksdb, "OPTIONS");
    let largest = surroundings.largest_request.or(model.fitted_to.identity.largest_request);
    for (name, class, least, cap) in [
        ("compaction_readahead_size", ThroughputClass::SequentialRead, Bytes::ZERO, largest),
        ("bytes_per_sync", ThroughputClass::SequentialWrite, NOT_SYNCED, None),
    ] {
        let (class, cap) = match class {
            // Between two reads of an input the heads move to another one; the kernel's parts follow each other.
            ThroughputClass::SequentialRead if moves_heads(model) => (ThroughputClass::RandomRead, None),
            _ => (class, cap),
        };
        match model
            .class(class)
            .map_err(|error| error.to_string())
            .and_then(|fitted| saturation(fitted, class, largest_measured(model, class)))
        {
            Err(reason) => report.refuse(name, reason),
            Ok(size) => {
                let capped = cap.map_or(size.max(least), |cap| size.min(cap));
                let bound = if capped < size {
                    format!(", but the kernel passes on at most {capped} in one piece")
                } else if capped > size {
                    format!(", and RocksDB keeps the last {NOT_SYNCED} of a file back in any case")
                } else {
                    String::new()
                };
                report.values.push(TunedValue {
                    name,
                    value: capped.0.to_string(),
                    interval: None,
                    reason: format!("{}s of {size} reach 90 % of the bandwidth{bound}", class.words()),
                    effect: effect(name, model, class, capped),
                    undo: format!("remove {name}: RocksDB then has its own value"),
                });
            }
        }
    }
    if !report.values.is_empty() {
        let lines: String =
            report.values.iter().map(|value| format!("  {}={}\n", value.name, value.value)).collect();
        report.text = format!("{VERSION}[DBOptions]\n{lines}\n[CFOptions \"default\"]\n");
    }
    report
}

/// Whether a random read takes so much longer than a sequential one that heads have to move: on flash both are within a factor of a few,
/// at 1 MiB nearly equal.
fn moves_heads(model: &DeviceModel) -> bool {
    const SIZE: Bytes = Bytes::mib(1);
    let time = |class| model.class(class).ok().map(|fitted| fitted.means.predict(SIZE).estimate);
    match (time(ThroughputClass::RandomRead), time(ThroughputClass::SequentialRead)) {
        (Some(random), Some(sequential)) => random > 1.5 * sequential,
        _ => false,
    }
}

fn largest_measured(model: &DeviceModel, class: ThroughputClass) -> Bytes {
    let points = model.fitted_to.points.iter().filter(|point| point.workload.class == class);
    points.map(|point| point.workload.size).max().unwrap_or(Bytes::ZERO)
}

fn effect(name: &str, model: &DeviceModel, class: ThroughputClass, size: Bytes) -> String {
    let rate = |size: Bytes| {
        model.class(class).ok().map(|fitted| size.0 as f64 * 1e3 / fitted.means.predict(size).estimate)
    };
    let rate = rate(size).map_or(String::new(), |rate| format!(" at {rate:.0} MB/s"));
    match name {
        "compaction_readahead_size" => format!("compactions read in requests of this size{rate}"),
        _ => format!(
            "data is passed to the disk in parts of this size{rate}, in place of one burst at the end"
        ),
    }
}

/// The smallest power of two whose throughput is 90 % of the largest.
fn saturation(fitted: &ClassModel, class: ThroughputClass, largest: Bytes) -> Result<Bytes, String> {
    if let SizeEquation::Max(model) = &fitted.means.equation
        && model.byte_ns <= 0.0
    {
        return Err(format!("{}s of all sizes take the same time: larger ones always win", class.words()));
    }
    let rate = |size: Bytes| size.0 as f64 / fitted.means.predict(size).estimate;
    let sizes = (SIZES[0]..=SIZES[1]).map(|power| Bytes(1 << power));
    let most = if matches!(fitted.means.equation, SizeEquation::Between(_)) {
        // Beyond what was measured nothing is known.
        sizes.clone().filter(|size| *size <= largest).map(rate).fold(0.0, f64::max)
    } else {
        rate(Bytes(1 << 40))
    };
    sizes
        .clone()
        .find(|&size| rate(size) >= SHARE * most)
        .ok_or_else(|| format!("{}s of 64 MiB still win throughput", class.words()))
}
