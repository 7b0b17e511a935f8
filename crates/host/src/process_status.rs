//! The state and the parent of a process.

use std::fs;

/// What `/proc/PID/stat` has of a process.
pub(crate) struct ProcessStatus {
    state: char,
    pub(crate) parent: u32,
}

impl ProcessStatus {
    /// `None`: there is no such process.
    pub(crate) fn of(process: u32) -> Option<ProcessStatus> {
        ProcessStatus::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<ProcessStatus> {
        // The name before them may contain anything.
        let mut fields = text.rsplit_once(") ")?.1.split(' ');
        Some(ProcessStatus { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
    }
}

/// Whether a process has not ended yet. A process that its parent has not waited for has ended.
pub fn is_running(process: u32) -> bool {
    ProcessStatus::of(process).is_some_and(|status| !matches!(status.state, 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_parent_follow_a_name_that_may_contain_anything() {
        let status = ProcessStatus::parse("77 (a) Z 9 (b)) S 12 77 77 0 -1").unwrap();
        assert_eq!((status.state, status.parent), ('S', 12));
        assert!(ProcessStatus::parse("77 (cut").is_none());
        let own = ProcessStatus::of(std::process::id()).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(is_running(std::process::id()) && !is_running(u32::MAX));
    }
}
