//! Measures a recording's page in a browser: from the files to its first picture, and from an input to the painted answer of the server where
//! a reader zooms, pans and chooses windows.
//!
//!     cargo run --release -p flashlab-view --example browser_speed FOLDER [TRIES]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use flashlab_view::browser::Browser;
use flashlab_view::{Server, Source, ViewError, ViewedRecording};
use serde_json::json;

/// Gestures from the whole recording until the next begins there: each zooms to two thirds.
const IN_A_ROW: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("the folder of a recording")?);
    let tries: usize = arguments.next().map_or(Ok(40), |text| text.parse())?;
    let mut segments: Vec<PathBuf> = std::fs::read_dir(folder.join("samples"))?
        .map(|file| Ok(file?.path()))
        .collect::<std::io::Result<_>>()?;
    segments.sort();
    let pyramid_files = vec![folder.join("samples.pyramid")];
    let source = Source { segments, pyramid_files, ..Source::default() };
    let open = || ViewedRecording::open(source.clone(), &|_, _, _| {});
    // Where there is no pyramid yet, it is made here.
    drop(open()?);

    let mut first = Vec::new();
    for _ in 0..5 {
        let mut browser = Browser::start(1400, 1000, 1)?;
        let begin = Instant::now();
        let server = Server::start(vec![Arc::new(open()?)], 0)?;
        browser.call("Page.navigate", json!({ "url": server.url() }))?;
        wait_for(&mut browser, "document.body && Number(document.body.dataset.painted)")?;
        first.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    report("first picture, the files opened and the pyramid loaded", &mut first);

    let server = Server::start(vec![Arc::new(open()?)], 0)?;
    let mut reader = Reader { browser: Browser::start(1400, 1000, 1)?, plot: [0.0; 4] };
    reader.browser.open(server.url())?;
    reader.find_plot()?;
    println!("input to painted answer, {tries} of each:");
    let mut all = Vec::new();
    for (name, gesture) in [
        ("zoom", Reader::zoom as fn(&mut Reader, usize) -> _),
        ("pan", Reader::pan),
        ("brush", Reader::brush),
    ] {
        let mut milliseconds = reader.measure(tries, gesture)?;
        all.extend(&milliseconds);
        report(name, &mut milliseconds);
    }
    report("all", &mut all);
    Ok(())
}

/// Who looks at the page.
struct Reader {
    browser: Browser,
    /// Left, top, width and height of the panel of response times over time.
    plot: [f64; 4],
}

impl Reader {
    fn find_plot(&mut self) -> Result<(), ViewError> {
        let script = "(() => { const { left, top, width, height } = document.querySelector('#time-response .u-over').getBoundingClientRect();
            return [left, top, width, height]; })()";
        let found = self.browser.evaluate(script)?;
        self.plot = std::array::from_fn(|index| found[index].as_f64().unwrap_or(0.0));
        Ok(())
    }

    /// From the input of each gesture to the first answer of the server for it that is painted, in milliseconds.
    fn measure(
        &mut self,
        tries: usize,
        gesture: fn(&mut Reader, usize) -> Result<(), ViewError>,
    ) -> Result<Vec<f64>, ViewError> {
        let mut milliseconds = Vec::new();
        for step in 0..tries {
            if step % IN_A_ROW == 0 {
                self.browser.evaluate("flashlab.reset()")?;
                self.browser.wait_until_ready()?;
                // There is nothing to pan to from all of it.
                self.wheel(0.5, -300.0)?;
                self.wait_until_still()?;
            }
            self.browser.evaluate("delete document.body.dataset.milliseconds")?;
            gesture(self, step % IN_A_ROW)?;
            milliseconds.push(wait_for(&mut self.browser, "Number(document.body.dataset.milliseconds)")?);
            self.wait_until_still()?;
        }
        Ok(milliseconds)
    }

    /// A reader looks before the next gesture.
    fn wait_until_still(&mut self) -> Result<(), ViewError> {
        self.browser.evaluate("new Promise((done) => setTimeout(done, 400))")?;
        self.browser.wait_until_ready()
    }

    fn mouse(&mut self, kind: &str, at: [f64; 2], wheel: f64) -> Result<(), ViewError> {
        let [left, top, width, height] = self.plot;
        let is_drag = kind != "mouseWheel";
        let event = json!({
            "type": kind,
            "x": left + at[0] * width,
            "y": top + at[1] * height,
            "button": if is_drag { "left" } else { "none" },
            "buttons": i32::from(is_drag),
            "clickCount": i32::from(is_drag),
            "deltaX": 0,
            "deltaY": wheel,
        });
        self.browser.call("Input.dispatchMouseEvent", event).map(|_| ())
    }

    fn wheel(&mut self, at: f64, by: f64) -> Result<(), ViewError> {
        self.mouse("mouseWheel", [at, 0.5], by)
    }

    fn zoom(&mut self, step: usize) -> Result<(), ViewError> {
        self.wheel(0.2 + 0.07 * step as f64, -180.0)
    }

    fn pan(&mut self, step: usize) -> Result<(), ViewError> {
        let by = if step.is_multiple_of(2) { 0.2 } else { -0.25 };
        self.browser.evaluate(&format!("flashlab.pan('time', {by}, performance.now())")).map(|_| ())
    }

    fn brush(&mut self, step: usize) -> Result<(), ViewError> {
        let from = 0.1 + 0.02 * step as f64;
        self.mouse("mousePressed", [from, 0.1], 0.0)?;
        self.mouse("mouseMoved", [from + 0.3, 0.5], 0.0)?;
        self.mouse("mouseMoved", [from + 0.6, 0.9], 0.0)?;
        self.mouse("mouseReleased", [from + 0.6, 0.9], 0.0)
    }
}

/// The value of an expression as soon as it is a number above zero.
fn wait_for(browser: &mut Browser, expression: &str) -> Result<f64, ViewError> {
    let script = format!(
        "new Promise((done) => {{ const look = () => {{ const value = {expression}; if (value > 0) done(value); else setTimeout(look, 5); }}; look(); }})"
    );
    loop {
        // While a page opens, the promise of the page before is lost.
        match browser.evaluate(&script) {
            Ok(value) => return Ok(value.as_f64().unwrap_or(f64::NAN)),
            Err(ViewError::Browser(text)) if text.contains("context") || text.contains("navigated") => {}
            Err(error) => return Err(error),
        }
    }
}

fn report(name: &str, milliseconds: &mut [f64]) {
    milliseconds.sort_by(f64::total_cmp);
    let at = |share: f64| milliseconds[((milliseconds.len() - 1) as f64 * share).round() as usize];
    println!("{name}: median {:.0} ms, p95 {:.0} ms, longest {:.0} ms", at(0.5), at(0.95), at(1.0));
}
