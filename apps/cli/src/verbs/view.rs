//! `flashlab view`: every IO of runs as linked pictures in a browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use flashlab_view::{Server, ViewedRecording};

use crate::exit::Usage;
use crate::progress::Bar;
use crate::{interrupt, output, viewed};

/// The most runs on one page.
const RUNS_MOST: usize = 8;

/// Look at every IO of runs in a browser, until Ctrl-C
#[derive(Args)]
pub struct View {
    /// The folder of a run, whatever verb made it, or a Parquet file of samples; up to 8 of them on one page
    #[arg(value_name = "RUN", required = true, num_args = 1..)]
    runs: Vec<PathBuf>,
    /// The port on 127.0.0.1; a free one if not given
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the page in the desktop's browser
    #[arg(long)]
    open: bool,
}

impl View {
    /// Serves the page.
    pub fn run(self) -> Result<()> {
        if self.runs.len() > RUNS_MOST {
            bail!(Usage(format!(
                "a page shows {RUNS_MOST} runs, and {} are given: leave some out",
                self.runs.len()
            )));
        }
        let interrupted = interrupt::interrupt()?;
        let recordings: Vec<Arc<ViewedRecording>> = {
            let bar = Bar::new();
            let open = |run: &PathBuf| open(run, &bar);
            self.runs.iter().map(open).collect::<Result<_>>()?
        };
        let server = Server::start(recordings, self.port)?;
        // A program that waits for the address reads it at once.
        output::text(&format!("{}\n", server.url()))?;
        tell!("the page is at the address above until Ctrl-C; nobody else can read it without the address");
        if self.open {
            open_browser(server.url());
        }
        while !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn open(run: &Path, bar: &Bar) -> Result<Arc<ViewedRecording>> {
    let source = viewed::source(run)?;
    let name = source.name.clone();
    let progress = |what: &str, done, all| bar.part(&format!("{what} of {name}"), done, all);
    Ok(Arc::new(ViewedRecording::open(source, &progress)?))
}

/// Asks the desktop to show the page. Without a desktop the address is printed anyway.
fn open_browser(url: &str) {
    let opened = Command::new("xdg-open")
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = opened {
        tell!("cannot open a browser: xdg-open: {error}; open the address above in one");
    }
}
