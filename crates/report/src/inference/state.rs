//! The state in which a device was inferred, and what the findings therefore cannot say.
//!
//! An inference never makes a device steady: it writes at most twice the capacity, most of it sequentially.

use flashlab_analysis::inference::Inference;
use flashlab_base::Bytes;

use crate::method::target_words;

/// The state in two or three words, and the sentences that say what it restricts.
pub fn device_state(inference: &Inference) -> (&'static str, String) {
    let Inference { written, capacity, filled, .. } = inference;
    let limits = "Garbage collection may not have limited it yet: once it does, writes, above all random ones, may take \
                  several times as long as the findings say";
    if *written == Bytes::ZERO {
        let sentence = "The device was only read, in the state in which it was found: how it writes is not known, and space that \
                        was never written may have been read without the flash.";
        return ("as found", sentence.to_owned());
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

/// The command that measures the device in its steady state, with these micro-benchmarks.
pub fn steady_command(inference: &Inference, only: &[&str]) -> String {
    let mut words = vec!["flashlab bench".to_owned()];
    words.extend(target_words(&inference.identity.target));
    words.push(format!("--state steady --only {}", only.join(",")));
    words.join(" ")
}

#[cfg(test)]
mod tests {
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
    }
}
