//! The page in a real browser: every chart is drawn, in both themes, and nothing goes wrong.
//!
//! Set `FLASHLAB_SCREENSHOTS` to a folder to look at the pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flashlab_base::Seed;
use flashlab_report::html;

use crate::{page, synthetic};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Appended to the page by this test: looks at the pixels of each chart, because a chart may be
/// called drawn and be empty. (uPlot draws before the next script begins.) For each it counts the pixels that differ from the corner's.
const LOOK_AT_PIXELS: &str = r#"<script>
  const milliseconds = Math.round(performance.now());
  for (const figure of document.querySelectorAll('.chart')) {
    const canvas = figure.querySelector('canvas');
    const { width, height } = canvas;
    const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, width, height).data.buffer);
    figure.dataset.inked = pixels.filter((pixel) => pixel !== pixels[0]).length;
    figure.dataset.colours = new Set(pixels).size;
  }
  document.body.dataset.milliseconds = milliseconds;
</script>"#;

/// A browser that starts, or `None` with a printed reason.
fn browser() -> Option<&'static str> {
    let starts = |name: &&&str| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    };
    let found = BROWSERS.iter().find(starts).copied();
    if found.is_none() {
        println!("skipped: none of {BROWSERS:?} is installed");
    }
    found
}

fn command(browser: &str, profile: &Path) -> Command {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", profile.display()));
    command
}

/// The page's document after its scripts ran, and what the console said.
fn open(browser: &str, folder: &Path, page: &str, theme: &str) -> (String, String) {
    let file = folder.join("page.html");
    fs::write(&file, page.replace("</body>", &format!("{LOOK_AT_PIXELS}</body>"))).unwrap();
    let output = command(browser, &folder.join("profile"))
        .args(["--window-size=1400,1000", "--dump-dom"])
        .arg(format!("file://{}?theme={theme}", file.display()))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// The values of `data-NAME` in the document.
fn data<'a>(document: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("data-{name}=\"");
    document.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

fn check(document: &str, console: &str, charts: usize) {
    assert_eq!(document.matches("<figure class=\"chart").count(), charts);
    assert_eq!(data(document, "errors"), Vec::<&str>::new());
    assert_eq!(data(document, "drawn"), vec!["true"; charts]);
    let inked: Vec<u32> = data(document, "inked").iter().map(|n| n.parse().unwrap()).collect();
    assert_eq!(inked.len(), charts);
    // Axes and grid alone are a few thousand pixels; colours tell that there are series as well.
    assert!(inked.iter().all(|&pixels| pixels > 5_000), "{inked:?}");
    let colours: Vec<u32> = data(document, "colours").iter().map(|n| n.parse().unwrap()).collect();
    assert!(colours.iter().all(|&colours| colours > 100), "{colours:?}");
    let complaints: Vec<&str> = console.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(complaints, Vec::<&str>::new());
}

#[test]
fn every_chart_is_drawn_in_both_themes() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (findings, traces) = synthetic::findings(Seed(1));
    let page = html(&findings, &traces);
    let mut drawn = Vec::new();
    for theme in ["light", "dark"] {
        let (document, console) = open(browser, folder.path(), &page, theme);
        println!("{theme}: charts drawn after {} ms", data(&document, "milliseconds")[0]);
        check(&document, &console, 4 + 1 + 9);
        drawn.push(data(&document, "colours").join(" "));
    }
    assert_ne!(drawn[0], drawn[1], "dark is drawn as light is");
}

#[test]
fn a_page_without_charts_has_no_errors() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (findings, traces) = page::empty();
    let (document, console) = open(browser, folder.path(), &html(&findings, &traces), "dark");
    check(&document, &console, 0);
}

/// Not a check: makes pictures to look at.
#[test]
fn pictures_are_taken_when_asked_for() {
    let Some(target) = std::env::var_os("FLASHLAB_SCREENSHOTS").map(PathBuf::from) else { return };
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(&target).unwrap();
    let (findings, traces) = synthetic::findings(Seed(1));
    let file = target.join("report.html");
    fs::write(&file, html(&findings, &traces)).unwrap();
    let file = fs::canonicalize(file).unwrap();
    for (theme, width, height) in
        [("light", 1400, 7400), ("dark", 1400, 7400), ("light", 500, 11000), ("dark", 1600, 7400)]
    {
        let picture = target.join(format!("{theme}-{width}.png"));
        let status = command(browser, &folder.path().join("profile"))
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("file://{}?theme={theme}", file.display()))
            .status()
            .unwrap();
        assert!(status.success());
    }
}
