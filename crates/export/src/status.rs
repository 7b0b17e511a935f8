//! The status of a live disk, as a JSON document.

use flashlab_sim::Statistics;
use serde::Serialize;

use crate::fault_rules::FaultRule;
use crate::live::LiveDisk;
use crate::statistics::IoSummary;
use crate::transport_latency::TransportLatency;

/// The version of the document.
pub const STATUS_VERSION: u32 = 2;

/// Statistics of a live disk since it started.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// [`STATUS_VERSION`].
    pub version: u32,
    /// The simulated device.
    pub target: String,
    /// The capacity of the disk.
    pub capacity_bytes: u64,
    /// The time since the start.
    pub uptime_s: f64,
    /// The transport latency that is subtracted from each response time.
    pub transport_latency: TransportLatency,
    /// The IOs, by class.
    pub served: IoSummary,
    /// The counters of the device; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Statistics>,
    /// What else the device reports of itself: a repaired volume describes its logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
    /// The armed fault rules.
    pub faults: Vec<ArmedFault>,
}

/// An armed fault rule.
#[derive(Clone, Debug, Serialize)]
pub struct ArmedFault {
    /// The rule.
    #[serde(flatten)]
    pub fault: FaultRule,
    /// The number of IOs that it affected.
    pub struck: u64,
}

impl Status {
    /// The status of this disk now.
    pub fn of(disk: &LiveDisk) -> Status {
        let faults = disk.with_faults(|faults| {
            let armed = faults.armed().map(|(rule, struck)| ArmedFault { fault: rule.clone(), struck });
            armed.collect()
        });
        Status {
            version: STATUS_VERSION,
            target: disk.identity().target.clone(),
            capacity_bytes: disk.geometry().capacity.0,
            uptime_s: disk.clock().now().as_secs_f64(),
            transport_latency: disk.transport_latency(),
            served: disk.summary(),
            device: disk.device_statistics(),
            details: disk.device_details(),
            faults,
        }
    }
}
