//! The page in a real browser: it paints what the server answers, without an error.
//!
//! Set `FLASHLAB_SCREENSHOTS` to a folder to look at the pages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use flashlab_skip::{chromium, headless};

use crate::shared::{LARGE, SMALL, open, serve};

/// The browser for a page that fetches: virtual time passes only while nothing is fetched, so that the page is complete when it is read.
fn command(browser: &str, profile: &Path) -> Command {
    let mut command = headless(browser, profile);
    command.arg("--virtual-time-budget=20000");
    command
}

/// The page's document after its first pictures, and the complaints on the console.
fn document(browser: &str, url: &str) -> (String, Vec<String>) {
    let profile = tempfile::tempdir().unwrap();
    let output = command(browser, profile.path())
        .args(["--window-size=1400,1000", "--dump-dom"])
        .arg(url)
        .output()
        .unwrap();
    let console = String::from_utf8_lossy(&output.stderr).into_owned();
    let complaints = console.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8(output.stdout).unwrap(), complaints)
}

/// The value of `data-NAME` of the page's body.
fn data<'a>(document: &'a str, name: &str) -> &'a str {
    let body = document.split("<body").nth(1).unwrap();
    let value = body.split(&format!("data-{name}=\"")).nth(1).unwrap_or_default();
    value.split('"').next().unwrap()
}

#[test]
fn views_are_painted_without_an_error() {
    let Some(browser) = chromium() else { return };
    let server = serve(vec![
        Arc::clone(&LARGE.recording),
        Arc::clone(&SMALL.recording),
        open(flashlab_view::Source::default()),
    ]);
    let end = LARGE.recording.overview.time_end_ns;
    for view in [
        String::new(),
        format!("#time_ns={},{}", end / 4, end / 2),
        "#offset_bytes=100000000,200000000&modes=write&layout=overlay".to_owned(),
        "#errors=only&sizes=12".to_owned(),
    ] {
        let (document, complaints) = document(browser, &format!("{}{view}", server.url()));
        assert_eq!(complaints, Vec::<String>::new(), "{view}");
        assert_eq!(data(&document, "state"), "ready", "{view}");
        assert!(data(&document, "painted").parse::<u32>().unwrap() >= 1, "{view}");
    }
}

/// Not a test: makes pictures to look at.
#[test]
fn pictures_are_taken_when_asked_for() {
    let Some(target) = std::env::var_os("FLASHLAB_SCREENSHOTS").map(PathBuf::from) else { return };
    let Some(browser) = chromium() else { return };
    std::fs::create_dir_all(&target).unwrap();
    let server = serve(vec![Arc::clone(&LARGE.recording)]);
    for (name, view) in [("all", ""), ("few", "#time_ns=1000000,900000000")] {
        for (theme, width) in [("light", 1400), ("dark", 1400), ("light", 500)] {
            let profile = tempfile::tempdir().unwrap();
            let picture = target.join(format!("view-{name}-{theme}-{width}.png"));
            let status = command(browser, profile.path())
                .arg(format!("--screenshot={}", picture.display()))
                .arg(format!("--window-size={width},2600"))
                .arg(format!("{}?theme={theme}{view}", server.url()))
                .status()
                .unwrap();
            assert!(status.success());
        }
    }
}
