//! The groups of probes, and their order.

use flashlab_analysis::inference::Parameter;

use crate::groups;
use crate::halt::Halt;
use crate::session::Session;

/// Probes that answer a few parameters by one signal.
pub struct Group {
    /// As in the names of its probes: `large-reads`.
    pub name: &'static str,
    /// What it looks for and by which signal, in a sentence.
    pub about: &'static str,
    /// What it answers.
    pub parameters: &'static [Parameter],
    /// What it is run for although a later group answers it: of this it supposes all, if only that it is undetermined. It may
    /// suppose more.
    pub supposes: &'static [Parameter],
    /// The share of the write budget that it may use, beside what the groups before it leave; 0: it only reads.
    pub write_share: f64,
    /// Runs its probes and concludes its parameters. Those that it leaves are undetermined.
    pub(crate) probe: fn(&mut Session<'_, '_>) -> Result<(), Halt>,
}

impl Group {
    /// The name under which the group draws its random numbers. Three groups were renamed; each keeps the random numbers that
    /// the figures of docs/infer-score.md were measured with.
    pub(crate) fn seed_label(&self) -> &'static str {
        match self.name {
            "over-provisioning" => "spare-space",
            "read-cache" => "rereads",
            "buffered-writes" => "absorbed-writes",
            name => name,
        }
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        self.write_share > 0.0
    }
}

/// All groups, in the order in which they run. What only reads comes behind the fill: what holds no data may be read
/// without the flash, and what was written in order lies in order. Without consent nothing is written, and the device is
/// read as it is.
pub const GROUPS: &[Group] = &[
    groups::write_buffer::GROUP,
    groups::fill::GROUP,
    groups::large_writes::GROUP,
    groups::segment_groups::SEGMENT_GROUPS,
    groups::structure::STRUCTURE,
    groups::rereads::REREADS,
    groups::queue_depth::QUEUE_DEPTH,
    groups::large_reads::LARGE_READS,
    groups::spare::GROUP,
    groups::absorbed::GROUP,
    groups::write_page::GROUP,
    groups::translation::GROUP,
    groups::erase_block::GROUP,
    groups::open_blocks::GROUP,
    groups::physical::GROUP,
    groups::misalignment::GROUP,
    groups::content::GROUP,
    groups::startup::GROUP,
    groups::lingering::GROUP,
    groups::recovery::GROUP,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_groups_follow_the_fill_and_the_shares_of_the_budget_add_up() {
        let turns = GROUPS.chunk_by(|one, next| one.writes() == next.writes()).count();
        let first = GROUPS.iter().position(|group| !group.writes()).unwrap();
        assert_eq!((turns, GROUPS[first - 1].name), (3, "large-writes"));
        let shares: f64 = GROUPS.iter().map(|group| group.write_share).sum();
        assert!(shares <= 1.0, "{shares}");
    }

    #[test]
    fn each_parameter_is_answered_by_one_group() {
        for &parameter in Parameter::ALL {
            let answered = GROUPS.iter().filter(|group| group.parameters.contains(&parameter)).count();
            assert_eq!(answered, 1, "{parameter}");
        }
    }
}
