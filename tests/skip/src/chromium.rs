//! The browser that tests open pages in.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Need, skip};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser that starts, or `None` with a printed reason.
pub fn chromium() -> Option<&'static str> {
    let starts = |name: &&&str| {
        let mut version = Command::new(name);
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    };
    let found = NAMES.iter().find(starts).copied();
    if found.is_none() {
        skip(Need::Chromium, format_args!("none of {NAMES:?} is installed"));
    }
    found
}

/// The browser without a window, with its files in `profile` and the page's console on standard error.
pub fn headless(browser: &str, profile: &Path) -> Command {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", profile.display()));
    command
}
