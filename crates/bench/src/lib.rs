//! The uFLIP methodology: from a Device to findings.
