//! The policies by their names.

use crate::append_and_pack::AppendAndPackPolicy;
use crate::cost_benefit::CostBenefit;
use crate::layout::VolumeLayout;
use crate::mdc::Mdc;
use crate::multi_log::MultiLog;
use crate::policy::Policy;
use crate::sepbit::SepBit;
use crate::single_log::SingleLog;

/// Makes a policy for a volume with this number of segments.
pub type MakePolicy = fn(u32) -> Box<dyn Policy>;

/// Every policy by its name, with what makes it.
pub const POLICIES: &[(&str, MakePolicy)] = &[
    // Logs by update frequency (Stoica and Ailamaki, PVLDB 2013), packed by minimum declining cost.
    (DEFAULT_POLICY, |segments| Box::new(MultiLog::new(segments))),
    // Hot and cold log, packed from their heads (Stoica et al., DaMoN 2009), hot log adapted.
    ("append-and-pack", |segments| Box::new(AppendAndPackPolicy::new(segments))),
    // Minimum declining cost with penultimate updates (Lomet and Luo, ICDE 2021).
    ("mdc", |segments| Box::new(Mdc::new(segments))),
    // Six classes by inferred invalidation time (Wang et al., FAST 2022).
    ("sepbit", |_| Box::new(SepBit::default())),
    // Cost-benefit, copies in a log of their own (Rosenblum and Ousterhout, TOCS 1992).
    ("cost-benefit", |_| Box::new(CostBenefit::default())),
    // One log, the segment with the fewest live pages.
    ("greedy", |_| Box::new(SingleLog::Greedy)),
    // One log, the oldest segment.
    ("fifo", |_| Box::new(SingleLog::Fifo)),
];

/// The policy that costs least on most workloads (docs/repair-policies.md).
pub const DEFAULT_POLICY: &str = "multi-log";

/// What makes the policy of this name. `None`: there is none.
pub fn policy_named(name: &str) -> Option<MakePolicy> {
    POLICIES.iter().find(|(known, _)| *known == name).map(|&(_, make)| make)
}

/// The default policy of a volume. A volume so small that the open segments and the reserve of many logs would take a quarter of
/// the slack has a single log, and so has one whose segments are so small that the headers of many logs would.
pub fn default_policy(layout: &VolumeLayout) -> Box<dyn Policy> {
    let policy = policy_of_size(layout.segment_count, layout.spare_segments());
    match layout.suits(policy.log_count()) {
        true => policy,
        false => Box::new(SingleLog::Greedy),
    }
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
        for (name, make) in POLICIES {
            assert_eq!(make(1024).name(), *name);
            assert_eq!(policy_named(name).map(|make| make(1024).name()), Some(*name));
        }
        assert!(policy_named("lru").is_none());
        assert_eq!(policy_of_size(8192, 1000).name(), DEFAULT_POLICY);
        assert_eq!(policy_of_size(64, 12).name(), "greedy");
    }
}
