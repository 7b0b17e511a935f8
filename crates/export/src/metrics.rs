//! The status of a live disk as Prometheus metrics, in the OpenMetrics text format.
//!
//! # Invariants
//! - every name begins with `flashlab_`, carries its unit, and ends with `_total` if it is a counter.
//! - names, labels and helps are part of the program (`&'static str`): no text from outside is in a metric, because the library
//!   writes labels without escapes.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::statistics::{ClassSummary, Percentiles};
use crate::status::Status;

/// The content type of [`open_metrics`].
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of a status.
pub fn open_metrics(status: Status) -> String {
    let mut registry = Registry::with_prefix("flashlab");
    registry.register_collector(Box::new(StatusMetrics(status)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a String does not fail");
    text
}

#[derive(Debug)]
struct StatusMetrics(Status);

impl Collector for StatusMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Status { uptime_s, served, device, .. } = &self.0;
        let classes = &served.classes;
        counter(&mut encoder, "ios", "IOs that were answered", classes, |class| class.ios)?;
        let help = "Bytes of the IOs that were answered";
        counter(&mut encoder, "bytes", help, classes, |class| class.bytes)?;
        counter(&mut encoder, "errors", "IOs that failed", classes, |class| class.errors)?;
        let help = "IOs that were answered more than 5 us after they were due";
        counter(&mut encoder, "late", help, classes, |class| class.late)?;
        let help = "IOs that the model completes faster than the transport can deliver";
        let name = "faster_than_the_transport";
        counter(&mut encoder, name, help, classes, |class| class.faster_than_the_transport)?;
        let help = "Response times that the model asked for, since the start";
        percentiles(&mut encoder, "response_asked", help, classes, |class| class.asked)?;
        let help = "Response times that programs saw, since the start";
        percentiles(&mut encoder, "response_delivered", help, classes, |class| class.delivered)?;
        gauge(&mut encoder, "in_flight", "IOs that wait for their answer", None, served.in_flight as f64)?;
        let help = "Time since the start";
        gauge(&mut encoder, "uptime", help, Some(Unit::Seconds), *uptime_s)?;
        let Some(device) = device else { return Ok(()) };
        if let Some(amplification) = device.write_amplification {
            let help = "Pages programmed for each page written";
            gauge(&mut encoder, "write_amplification", help, None, amplification)?;
        }
        let help = "Erases of the blocks of the flash";
        let mut family = encoder.encode_descriptor("block_erases", help, None, MetricType::Gauge)?;
        for (of, erases) in [
            ("min", f64::from(device.block_erases_min)),
            ("mean", device.block_erases_mean),
            ("max", f64::from(device.block_erases_max)),
        ] {
            labelled(&mut family, &[("of", of)], &ConstGauge::new(erases))?;
        }
        Ok(())
    }
}

/// A counter for each class of IOs.
fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &'static str,
    classes: &[ClassSummary],
    value: fn(&ClassSummary) -> u64,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    classes.iter().try_for_each(|class| {
        labelled(&mut family, &[("class", class.class)], &ConstCounter::new(value(class)))
    })
}

/// A gauge in seconds for each class of IOs and percentile.
fn percentiles(
    encoder: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &'static str,
    classes: &[ClassSummary],
    value: fn(&ClassSummary) -> Percentiles,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
    for class in classes {
        let times = value(class);
        for (percentile, ns) in [("50", times.p50_ns), ("99", times.p99_ns), ("99.9", times.p999_ns)] {
            let labels = [("class", class.class), ("percentile", percentile)];
            labelled(&mut family, &labels, &ConstGauge::new(ns as f64 / 1e9))?;
        }
    }
    Ok(())
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    value: f64,
) -> fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?)
}

fn labelled<const COUNT: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &[(&'static str, &'static str); COUNT],
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(family.encode_family(labels)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::LiveDisk;

    #[test]
    fn the_names_follow_the_rules_of_open_metrics() {
        let mut profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == "sdcard").unwrap();
        profile = profile.resized(flashlab_base::Bytes::mib(64)).unwrap();
        let disk = LiveDisk::new(Box::new(profile.device().unwrap()), None);
        let mut status = Status::of(&disk);
        status.uptime_s = 1.5;
        let text = open_metrics(status);
        let read_only = |line: &&str| !line.contains("class=") || line.contains("class=\"read\"");
        let shown: Vec<&str> = text.lines().filter(read_only).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        # HELP flashlab_ios IOs that were answered
        # TYPE flashlab_ios counter
        flashlab_ios_total{class="read"} 0
        # HELP flashlab_bytes Bytes of the IOs that were answered
        # TYPE flashlab_bytes counter
        flashlab_bytes_total{class="read"} 0
        # HELP flashlab_errors IOs that failed
        # TYPE flashlab_errors counter
        flashlab_errors_total{class="read"} 0
        # HELP flashlab_late IOs that were answered more than 5 us after they were due
        # TYPE flashlab_late counter
        flashlab_late_total{class="read"} 0
        # HELP flashlab_faster_than_the_transport IOs that the model completes faster than the transport can deliver
        # TYPE flashlab_faster_than_the_transport counter
        flashlab_faster_than_the_transport_total{class="read"} 0
        # HELP flashlab_response_asked_seconds Response times that the model asked for, since the start
        # TYPE flashlab_response_asked_seconds gauge
        # UNIT flashlab_response_asked_seconds seconds
        flashlab_response_asked_seconds{class="read",percentile="50"} 0.0
        flashlab_response_asked_seconds{class="read",percentile="99"} 0.0
        flashlab_response_asked_seconds{class="read",percentile="99.9"} 0.0
        # HELP flashlab_response_delivered_seconds Response times that programs saw, since the start
        # TYPE flashlab_response_delivered_seconds gauge
        # UNIT flashlab_response_delivered_seconds seconds
        flashlab_response_delivered_seconds{class="read",percentile="50"} 0.0
        flashlab_response_delivered_seconds{class="read",percentile="99"} 0.0
        flashlab_response_delivered_seconds{class="read",percentile="99.9"} 0.0
        # HELP flashlab_in_flight IOs that wait for their answer
        # TYPE flashlab_in_flight gauge
        flashlab_in_flight 0.0
        # HELP flashlab_uptime_seconds Time since the start
        # TYPE flashlab_uptime_seconds gauge
        # UNIT flashlab_uptime_seconds seconds
        flashlab_uptime_seconds 1.5
        # HELP flashlab_block_erases Erases of the blocks of the flash
        # TYPE flashlab_block_erases gauge
        flashlab_block_erases{of="min"} 0.0
        flashlab_block_erases{of="mean"} 0.0
        flashlab_block_erases{of="max"} 0.0
        # EOF
        "#);
    }
}
