//! The state in which a device was inferred, and what the findings therefore cannot say.
//!
//! An inference never makes a device steady: it writes at most twice the capacity, most of it sequentially.

use flashlab_analysis::inference::Inference;
use flashlab_base::Bytes;

use crate::advice::family;

/// The state in two or three words, and the sentences that say what it restricts.
pub fn device_state(inference: &Inference) -> (&'static str, String) {
    let Inference { written, capacity, filled, .. } = inference;
    let is_flash = inference.not_flash.is_none();
    // A device that maps blocks has no pool of erased ones that could postpone the cost of random writes.
    let limits = if !is_flash {
        "In a long run writes may take longer: a cache in front of the disk fills up, or a host limits them"
    } else if family(inference).is_some_and(|family| !family.maps_pages()) {
        "It merges from the first writes on, which the findings show; a long run of random writes may still take longer"
    } else {
        "Garbage collection may not have limited it yet: once it does, writes, above all random ones, may take several times as \
         long as the findings say"
    };
    if *written == Bytes::ZERO {
        let unread = if is_flash {
            ", and space that was never written may have been read without the flash"
        } else {
            ""
        };
        let sentence = format!(
            "The device was only read, in the state in which it was found: how it writes is not known{unread}."
        );
        return ("as found", sentence);
    }
    let measure = format!("{limits}. `flashlab bench --state steady` measures the steady state.");
    if filled >= capacity {
        let sentence = format!(
            "The probes filled the device from end to end and wrote {written} in all: it is not known to be steady. {measure}"
        );
        ("filled once", sentence)
    } else {
        let sentence = format!(
            "The probes wrote {written} to a device of {capacity} and did not fill it: some of it may never have been written. \
             {measure}"
        );
        ("filled in part", sentence)
    }
}

#[cfg(test)]
mod tests {
    use flashlab_analysis::inference::{Finding, Parameter};
    use flashlab_base::Identity;

    use super::*;

    #[test]
    fn the_state_follows_from_what_was_written() {
        let mut inference = Inference::begun("sim:x", Identity::default(), Bytes::mib(1));
        assert_eq!(device_state(&inference).0, "as found");
        inference.written = Bytes::kib(512);
        assert_eq!(device_state(&inference).0, "filled in part");
        inference.written = Bytes::kib(1536);
        inference.filled = Bytes::mib(1);
        let (state, sentence) = device_state(&inference);
        assert_eq!(state, "filled once");
        assert!(sentence.contains("in all: it is not known to be steady"), "{sentence}");
        assert!(
            sentence.ends_with("`flashlab bench --state steady` measures the steady state."),
            "{sentence}"
        );
        assert!(sentence.contains("Garbage collection may not have limited it yet"), "{sentence}");
        let disk = Inference { not_flash: Some("A head moves".to_owned()), ..inference.clone() };
        assert!(
            !device_state(&disk).1.contains("arbage"),
            "a hard disk collects none: {}",
            device_state(&disk).1
        );
        inference.findings.push(Finding::found(Parameter::TranslationFamily, "log-block", 0.96, "measured"));
        let (_, sentence) = device_state(&inference);
        assert!(sentence.contains("It merges from the first writes on"), "{sentence}");
    }
}
