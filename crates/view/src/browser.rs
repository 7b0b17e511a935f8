//! Drives a browser without a window, to take a picture of a page and to measure it.
//!
//! # Model
//! Chromium takes commands and gives answers as JSON documents that a zero byte ends, on the file descriptors 3 and 4 (its DevTools
//! protocol). A shell connects them to the pipes of this process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::error::ViewError;

/// The names under which it is installed.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// How long an answer may take. A page with 10^8 IOs is ready in a few seconds.
const ANSWER_MOST: Duration = Duration::from_secs(120);

/// A browser with one page. It ends when it is dropped.
pub struct Browser {
    process: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser with an empty page of `width` by `height` CSS pixels, each of `ratio` by `ratio` pixels of a picture.
    ///
    /// # Errors
    /// [`ViewError::NoBrowser`] if none is installed, [`ViewError::Browser`] if it does not start.
    pub fn start(width: u32, height: u32, ratio: u32) -> Result<Browser, ViewError> {
        let starts = |name: &&&str| {
            let mut version = Command::new(name);
            version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            version.status().is_ok_and(|status| status.success())
        };
        let name = NAMES.iter().find(starts).ok_or(ViewError::NoBrowser)?;
        let failed = |error: std::io::Error| ViewError::Browser(error.to_string());
        let profile = TempDir::new().map_err(failed)?;
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 1>&2", name])
            .args(["--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
            .args(["--remote-debugging-pipe", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()));
        if rustix::process::geteuid().is_root() {
            // Its sandbox refuses to run for root. It opens nothing but this program's own page.
            command.arg("--no-sandbox");
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (Some(commands), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(ViewError::Browser("it has no pipes".to_owned()));
        };
        let (send, answers) = channel();
        std::thread::spawn(move || {
            // Ends with the browser, or when nobody waits any more.
            for document in BufReader::new(output).split(0).map_while(Result::ok) {
                let answer = serde_json::from_slice(&document).unwrap_or(Value::Null);
                if send.send(answer).is_err() {
                    break;
                }
            }
        });
        let mut browser =
            Browser { process, commands, answers, session: None, last_id: 0, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser.set_size(width, height, ratio)?;
        Ok(browser)
    }

    /// Sets the size of the page's window.
    pub fn set_size(&mut self, width: u32, height: u32, ratio: u32) -> Result<(), ViewError> {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": ratio, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics).map(|_| ())
    }

    /// Opens an address and waits until everything is painted.
    ///
    /// # Errors
    /// [`ViewError::Browser`] with the page's own words if it cannot show the view.
    pub fn open(&mut self, url: &str) -> Result<(), ViewError> {
        let opened = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(error) = opened["errorText"].as_str() {
            return Err(ViewError::Browser(format!("it cannot open the page: {error}")));
        }
        self.wait_until_ready()
    }

    /// Waits until nothing finer is to come and the frame with it is painted.
    pub fn wait_until_ready(&mut self) -> Result<(), ViewError> {
        let state = self.evaluate(
            "new Promise((done) => {
                let calm = 0;
                const look = () => {
                    const state = document.body?.dataset.state;
                    calm = state === 'ready' && !document.body.dataset.comparing ? calm + 1 : 0;
                    if (state === 'error' || calm > 3) done([state, document.getElementById('notices')?.innerText ?? '']);
                    else setTimeout(look, 40);
                };
                look();
            })",
        )?;
        match state[0].as_str() {
            Some("ready") => Ok(()),
            _ => Err(ViewError::Browser(
                state[1].as_str().unwrap_or("the page has no state").trim().to_owned(),
            )),
        }
    }

    /// The value of an expression of JavaScript; a promise is waited for.
    ///
    /// # Errors
    /// [`ViewError::Browser`] with what it threw.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value, ViewError> {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", parameters)?;
        match answer.get("exceptionDetails") {
            Some(thrown) => Err(ViewError::Browser(
                thrown["exception"]["description"].as_str().unwrap_or("an error of the page").to_owned(),
            )),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// A PNG of the whole page as it is printed, below the window's edge as well.
    pub fn picture(&mut self, width: u32, ratio: u32) -> Result<Vec<u8>, ViewError> {
        self.call("Emulation.setEmulatedMedia", json!({ "media": "print" }))?;
        self.wait_until_ready()?;
        let height = self.evaluate("document.documentElement.scrollHeight")?;
        let height = height.as_u64().unwrap_or(1000).clamp(100, 10_000) as u32;
        // All of it in the window, so that all of it is painted.
        self.set_size(width, height, ratio)?;
        self.wait_until_ready()?;
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }))?;
        let data = picture["data"].as_str().and_then(|data| BASE64.decode(data).ok());
        data.ok_or_else(|| ViewError::Browser("it gave no picture".to_owned()))
    }

    /// A command of the DevTools protocol, and its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, ViewError> {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        let ended = || ViewError::Browser("it ended".to_owned());
        self.commands.write_all(&bytes).and_then(|()| self.commands.flush()).map_err(|_| ended())?;
        loop {
            let mut answer = self.answers.recv_timeout(ANSWER_MOST).map_err(|_| ended())?;
            // Others are events.
            if answer["id"] != json!(self.last_id) {
                continue;
            }
            if let Some(error) = answer["error"]["message"].as_str() {
                return Err(ViewError::Browser(format!("{method}: {error}")));
            }
            return Ok(answer["result"].take());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.call("Browser.close", json!({}));
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
