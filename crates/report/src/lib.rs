//! Findings to HTML, terminal tables, JSON and advice.
