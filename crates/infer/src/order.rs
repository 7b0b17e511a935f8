//! The list of the probes, in the order in which they run. No other file names them all.

use crate::halt::Halt;
use crate::probe::Probe;
use crate::probes;
use crate::session::Session;

/// Runs a probe: its patterns, its decisions, and its findings. The parameters that it leaves are undetermined.
type ProbeFunction = fn(&mut Session<'_, '_>) -> Result<(), Halt>;

macro_rules! list_probes {
    ($($module:ident)*) => {
        /// All probes, in the order in which they run. The probes that only read follow the fill: space that holds no data may
        /// be read without the flash, and what was written in order lies in order. Without consent nothing is written, and the
        /// device is read as it is.
        pub const PROBES: &[Probe] = &[$(probes::$module::PROBE),*];

        const FUNCTIONS: &[ProbeFunction] = &[$(probes::$module::probe),*];
    };
}

list_probes! {
    write_buffer
    fill
    large_writes
    segment_groups
    structure
    read_cache
    queue_depth
    rate_limit
    large_reads
    over_provisioning
    buffered_writes
    write_page
    translation
    erase_block
    open_blocks
    physical_capacity
    misalignment
    content
    startup
    lingering
    recovery
}

/// The function of a listed probe.
///
/// # Panics
/// If it is not in the list.
pub(crate) fn function_of(probe: &Probe) -> ProbeFunction {
    let index = PROBES.iter().position(|listed| listed.name == probe.name);
    FUNCTIONS[index.expect("every probe is in the list")]
}

#[cfg(test)]
mod tests {
    use flashlab_analysis::inference::Parameter;

    use super::*;

    #[test]
    fn reading_groups_follow_the_fill_and_the_shares_of_the_budget_add_up() {
        let turns = PROBES.chunk_by(|one, next| one.writes() == next.writes()).count();
        let first = PROBES.iter().position(|probe| !probe.writes()).unwrap();
        assert_eq!((turns, PROBES[first - 1].name), (3, "large-writes"));
        let shares: f64 = PROBES.iter().map(|probe| probe.write_share).sum();
        assert!(shares <= 1.0, "{shares}");
    }

    #[test]
    fn each_parameter_is_answered_by_one_group() {
        for &parameter in Parameter::ALL {
            let answered = PROBES.iter().filter(|probe| probe.parameters.contains(&parameter)).count();
            assert_eq!(answered, 1, "{parameter}");
        }
    }
}
