//! Opens the page in a real browser: every chart is drawn, in both themes, without an error.
//!
//! Set `FLASHLAB_SCREENSHOTS` to a folder to look at the pages.

use std::fs;
use std::path::{Path, PathBuf};

use flashlab_base::Seed;
use flashlab_report::{compare_html, html};
use flashlab_skip::{chromium, headless};

use crate::{comparison, inference, page, synthetic};

/// The test appends this to the page. It checks the pixels of each chart, because a chart may be marked as
/// drawn and be empty. `data-unseen` names the series whose colour fewer than ten pixels have. (uPlot draws
/// before the next script begins; `charts` and `colour` are the page's own.)
const LOOK_AT_PIXELS: &str = r#"<script>
  const milliseconds = Math.round(performance.now());
  function isSeen(pixels, [r, g, b]) {
    let count = 0;
    for (let i = 0; i < pixels.length && count < 10; i += 4) {
      const distance = Math.abs(pixels[i] - r) + Math.abs(pixels[i + 1] - g) + Math.abs(pixels[i + 2] - b);
      if (pixels[i + 3] > 150 && distance < 12) count++;
    }
    return count === 10;
  }
  for (const { figure, drawing } of charts) {
    const canvas = figure.querySelector('canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const unseen = drawing.series.filter((series) => !isSeen(data, colour(series.colour).match(/\d+/g).map(Number)));
    figure.dataset.unseen = unseen.map((series) => series.name).join(' ');
  }
  document.body.dataset.milliseconds = milliseconds;
  document.body.dataset.ink = colour('ink');
</script>"#;

/// Appended to a page in a frame: reports how far the page extends beyond the edge of the frame.
const REPORT_WIDTH: &str = r#"<script>
  document.querySelectorAll('details').forEach((one) => { one.open = true; });
  const { scrollWidth, clientWidth } = document.documentElement;
  parent.postMessage(`${scrollWidth - clientWidth} over ${innerWidth}`, '*');
</script>"#;

/// A document with a page in a frame as wide as a phone. Chromium's own windows are at least 500 px wide.
const PHONE: &str = r#"<body><iframe src="framed.html" style="width:400px;height:800px;border:0"></iframe><script>
  addEventListener('message', (event) => { document.body.dataset.pixels = event.data; });
</script></body>"#;

/// Appended by another test: operates a chart and a table as a reader does, and records the results in
/// `data-step` attributes. uPlot acts in microtasks, hence the pauses.
const USE_THE_PAGE: &str = r#"<script>
(async () => {
  const settle = async () => { for (let i = 0; i < 20; i++) await null; };
  const note = (text) => {
    const made = document.createElement('i');
    made.dataset.step = text;
    document.body.append(made);
  };
  const figure = document.querySelector('#granularity .chart');
  const plot = figure.querySelector('.plot');
  const readout = figure.querySelector('.readout');
  const press = async (key) => { plot.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); await settle(); };
  const click = async (target) => { target.click(); await settle(); };
  const shown = () => [...figure.querySelectorAll('.readout .name')].map((name) => name.textContent).join(' ');

  await press('End');
  note('last ' + figure.querySelector('.readout b').textContent);
  await press('ArrowLeft');
  note('before it ' + figure.querySelector('.readout b').textContent);
  await click(figure.querySelectorAll('.key')[1]);
  await press('Home');
  note('without RR ' + shown());

  const reset = [...figure.querySelectorAll('.tool')].find((tool) => tool.textContent === 'reset zoom');
  const over = figure.querySelector('.u-over');
  const box = over.getBoundingClientRect();
  const mouse = (type, x, on) => on.dispatchEvent(new MouseEvent(type, { clientX: box.left + x, clientY: box.top + 50, movementX: 9, bubbles: true, button: 0 }));
  note('reset hidden ' + reset.hidden);
  mouse('mousemove', 200, over); mouse('mousedown', 200, over); mouse('mousemove', 500, over); mouse('mouseup', 500, document);
  await settle();
  note('zoomed, reset hidden ' + reset.hidden);
  await click(document.getElementById('theme'));
  note('theme ' + document.documentElement.dataset.theme + ', reset hidden ' + reset.hidden);
  await click(reset);
  note('reset hidden ' + reset.hidden);

  const scale = [...figure.querySelectorAll('.tool')].find((tool) => tool.textContent.endsWith('axis'));
  await click(scale);
  note(scale.textContent);

  document.querySelector('.runs').open = true;
  const table = document.querySelector('table.sortable');
  const heading = [...table.tHead.rows[0].cells].find((cell) => cell.textContent === 'Mean us');
  const values = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[heading.cellIndex].textContent));
  const ascends = (list) => list.every((value, index) => index === 0 || list[index - 1] <= value);
  note('unsorted ' + ascends(values()));
  await click(heading.firstChild);
  note(heading.getAttribute('aria-sort') + ' ' + ascends(values()));
  await click(heading.firstChild);
  note(heading.getAttribute('aria-sort') + ' ' + ascends(values().reverse()));
})();
</script>"#;

/// The page's document after its scripts ran, and the output of the console.
fn open(browser: &str, folder: &Path, page: &str, script: &str, theme: &str) -> (String, String) {
    let file = folder.join("page.html");
    fs::write(&file, page.replace("</body>", &format!("{script}</body>"))).unwrap();
    let output = headless(browser, &folder.join("profile"))
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
    assert_eq!(data(document, "unseen"), vec![""; charts], "series that were not drawn");
    let complaints: Vec<&str> = console.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(complaints, Vec::<&str>::new());
}

#[test]
fn every_chart_is_drawn_in_both_themes() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (findings, traces) = synthetic::findings(Seed(1));
    let page = html(&findings, &traces);
    let mut inks = Vec::new();
    for theme in ["light", "dark"] {
        let (document, console) = open(browser, folder.path(), &page, LOOK_AT_PIXELS, theme);
        println!("{theme}: charts drawn after {} ms", data(&document, "milliseconds")[0]);
        check(&document, &console, 4 + 1 + 9);
        inks.push(data(&document, "ink")[0].to_owned());
    }
    assert_ne!(inks[0], inks[1], "dark is drawn as light is");
}

#[test]
fn a_page_without_charts_has_no_errors() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (findings, traces) = page::empty();
    let (document, console) = open(browser, folder.path(), &html(&findings, &traces), LOOK_AT_PIXELS, "dark");
    check(&document, &console, 0);
}

#[test]
fn a_comparison_is_drawn_too() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = compare_html(&comparison::three_runs());
    let (document, console) = open(browser, folder.path(), &page, LOOK_AT_PIXELS, "light");
    // Ratios of the patterns of the nine micro-benchmarks, 4 + 4 + 2 + 2 + 2 + 4 + 6 + 4 + 4; and the distributions of
    // these and of the four baselines.
    check(&document, &console, 32 + 36);
}

#[test]
fn a_reader_can_use_charts_and_tables() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (findings, traces) = synthetic::findings(Seed(1));
    let page = html(&findings, &traces);
    let (document, _) = open(browser, folder.path(), &page, USE_THE_PAGE, "light");
    assert_eq!(data(&document, "errors"), Vec::<&str>::new());
    let steps = [
        "last IOSize 256KiB",
        "before it IOSize 128KiB",
        "without RR SR SW RW",
        "reset hidden true",
        "zoomed, reset hidden false",
        "theme dark, reset hidden false",
        "reset hidden true",
        "linear axis",
        "unsorted false",
        "ascending true",
        "descending true",
    ];
    assert_eq!(data(&document, "step"), steps);
}

#[test]
fn no_page_is_wider_than_a_phone() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (findings, traces) = synthetic::findings(Seed(1));
    let (bare, none) = page::empty();
    let pages = [
        ("report", html(&findings, &traces)),
        ("empty report", html(&bare, &none)),
        ("comparison", compare_html(&comparison::three_runs())),
        ("inference", inference::page()),
    ];
    for (name, page) in pages {
        let framed = page.replace("</body>", &format!("{REPORT_WIDTH}</body>"));
        fs::write(folder.path().join("framed.html"), framed).unwrap();
        let (document, _) = open(browser, folder.path(), PHONE, "", "light");
        assert_eq!(data(&document, "pixels"), ["0 over 400"], "{name}");
    }
}

#[test]
fn an_inference_is_drawn_too() {
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (document, console) = open(browser, folder.path(), &inference::page(), LOOK_AT_PIXELS, "light");
    check(&document, &console, 5);
}

/// Not a test: makes pictures to look at.
#[test]
fn pictures_are_taken_when_asked_for() {
    let Some(target) = std::env::var_os("FLASHLAB_SCREENSHOTS").map(PathBuf::from) else { return };
    let Some(browser) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(&target).unwrap();
    let (findings, traces) = synthetic::findings(Seed(1));
    let pages = [
        ("report", html(&findings, &traces)),
        ("comparison", compare_html(&comparison::three_runs())),
        ("inference", inference::page()),
    ];
    for (name, page) in pages {
        let file = target.join(format!("{name}.html"));
        fs::write(&file, page).unwrap();
        let file = fs::canonicalize(file).unwrap();
        for (theme, width, height) in [("light", 1400, 7400), ("dark", 1600, 7400), ("light", 500, 11000)] {
            let picture = target.join(format!("{name}-{theme}-{width}.png"));
            let status = headless(browser, &folder.path().join("profile"))
                .arg(format!("--screenshot={}", picture.display()))
                .arg(format!("--window-size={width},{height}"))
                .arg(format!("file://{}?theme={theme}", file.display()))
                .status()
                .unwrap();
            assert!(status.success());
        }
    }
}
