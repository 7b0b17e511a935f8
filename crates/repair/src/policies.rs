//! The policies by their names.

use crate::append_and_pack::AppendAndPackPolicy;
use crate::cost_benefit::CostBenefit;
use crate::layout::VolumeLayout;
use crate::mdc::Mdc;
use crate::multi_log::MultiLog;
use crate::policy::Policy;
use crate::sepbit::SepBit;
use crate::single_log::SingleLog;

/// Every policy by its name, with its source.
pub const POLICIES: &[(&str, &str)] = &[
    (
        "multi-log",
        "logs by update frequency (Stoica and Ailamaki, PVLDB 2013), packed by minimum declining cost",
    ),
    (
        "append-and-pack",
        "hot and cold log, packed from their heads (Stoica et al., DaMoN 2009), hot log adapted",
    ),
    ("mdc", "minimum declining cost with penultimate updates (Lomet and Luo, ICDE 2021)"),
    ("sepbit", "six classes by inferred invalidation time (Wang et al., FAST 2022)"),
    ("cost-benefit", "cost-benefit, copies in a log of their own (Rosenblum and Ousterhout, TOCS 1992)"),
    ("greedy", "one log, the segment with the fewest live pages"),
    ("fifo", "one log, the oldest segment"),
];

/// The policy that costs least on most workloads (docs/repair-policies.md).
pub const DEFAULT_POLICY: &str = "multi-log";

/// The policy of this name for a volume with so many segments. `None`: there is none.
pub fn policy_named(name: &str, segment_count: u32) -> Option<Box<dyn Policy>> {
    Some(match name {
        "multi-log" => Box::new(MultiLog::new(segment_count)),
        "append-and-pack" => Box::new(AppendAndPackPolicy::new(segment_count)),
        "mdc" => Box::new(Mdc::new(segment_count)),
        "sepbit" => Box::new(SepBit::default()),
        "cost-benefit" => Box::new(CostBenefit::default()),
        "greedy" => Box::new(SingleLog::Greedy),
        "fifo" => Box::new(SingleLog::Fifo),
        _ => return None,
    })
}

/// The default policy of a volume. A volume so small that the open segments and the reserve of many logs would take a quarter of
/// the slack has a single log.
pub fn default_policy(layout: &VolumeLayout) -> Box<dyn Policy> {
    policy_of_size(layout.segment_count, layout.spare_segments())
}

/// The same, from the number of segments and of those that are not needed for the logical pages.
fn policy_of_size(segment_count: u32, spare: u32) -> Box<dyn Policy> {
    const SEGMENTS_PER_LOG: u32 = 8;
    let policy = MultiLog::new(segment_count);
    match spare >= SEGMENTS_PER_LOG * u32::from(policy.log_count()) {
        true => Box::new(policy),
        false => Box::new(SingleLog::Greedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_its_own_name() {
        for (name, _) in POLICIES {
            assert_eq!(policy_named(name, 1024).map(|policy| policy.name()), Some(*name));
        }
        assert!(policy_named("lru", 1024).is_none());
        assert_eq!(policy_of_size(8192, 1000).name(), DEFAULT_POLICY);
        assert_eq!(policy_of_size(64, 12).name(), "greedy");
        assert!(POLICIES.iter().any(|(name, _)| *name == DEFAULT_POLICY));
    }
}
