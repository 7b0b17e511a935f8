//! `flashlab view`: every IO of runs as linked pictures in a browser.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use flashlab_samples::RunFolder;
use flashlab_view::browser::Browser;
use flashlab_view::view::View as ShownView;
use flashlab_view::{LiveRecording, LookAgain, Server, ViewedRecording, page_file};

use crate::exit::{Refused, Usage};
use crate::files::NewFile;
use crate::progress::Bar;
use crate::{files, interrupt, output, viewed};

/// The most runs on one page.
pub const RUNS_MOST: usize = 8;

/// Look at every IO of runs in a browser, until Ctrl-C
#[derive(Args)]
pub struct View {
    /// The folder of a run, finished or still measured, a Parquet file of samples, a latency log of fio, or blkparse's text; up to 8 of them on one page
    #[arg(value_name = "RUN", required = true, num_args = 1..)]
    runs: Vec<PathBuf>,
    /// The port on 127.0.0.1; a free one if not given
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the page in the desktop's browser
    #[arg(long)]
    open: bool,
    /// Write the page with the runs in it to a file of at most 5 MB that needs neither them nor flashlab, and serve nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "open"])]
    html: Option<PathBuf>,
    /// Write a picture of the page to a new file, by an installed Chromium, and serve nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "open"])]
    png: Option<PathBuf>,
    /// What is shown first: what follows # in the address of the page
    #[arg(long, value_name = "VIEW", default_value = "", hide_default_value = true)]
    state: String,
}

/// The width of a picture in CSS pixels, as a page of two columns has.
const PICTURE_WIDTH: u32 = 1400;
/// Pixels of a picture for each of those.
const PICTURE_RATIO: u32 = 2;

impl View {
    /// Serves the page.
    pub fn run(self) -> Result<()> {
        // Several logs of fio are one recording.
        let given = viewed::given(&self.runs)?;
        if given.len() > RUNS_MOST {
            bail!(Usage(format!(
                "a page shows {RUNS_MOST} runs, and {} are given: leave some out",
                given.len()
            )));
        }
        let is_written = self.html.is_some() || self.png.is_some();
        let state = self.state.trim_start_matches('#');
        ShownView::check_state(state).map_err(|error| Usage(format!("--state: {error}")))?;
        for file in self.html.iter().chain(&self.png) {
            refuse_within_run(file)?;
        }
        if let Some(file) = &self.html {
            files::check_output(file, files::Output::ViewPage)?;
        }
        raise_file_limit();
        let picture = match &self.png {
            Some(file) => {
                Some((NewFile::begin(file)?, Browser::start(PICTURE_WIDTH, PICTURE_WIDTH, PICTURE_RATIO)?))
            }
            None => None,
        };
        let bar = Bar::new();
        let opened: Vec<(ViewedRecording, Option<LookAgain>)> =
            given.iter().map(|given| open(given, &bar)).collect::<Result<_>>()?;
        let (mut recordings, looks): (Vec<ViewedRecording>, Vec<Option<LookAgain>>) =
            opened.into_iter().unzip();
        if let Some(file) = &self.html {
            let progress = |what: &str, done, all| bar.part(what, done, all);
            let page = page_file::page_file(&mut recordings, state, &progress)?;
            files::write_output(file, files::Output::ViewPage, &page)?;
            tell!("{} has {} bytes", file.display(), page.len());
        }
        let live =
            recordings.into_iter().zip(looks).map(|(recording, look)| LiveRecording::new(recording, look));
        let server = Server::start(live.collect(), self.port)?;
        drop(bar);
        if let Some((file, mut browser)) = picture {
            browser.open(&format!("{}?theme=light#{state}", server.url()))?;
            file.file().write_all(&browser.picture(PICTURE_WIDTH, PICTURE_RATIO)?)?;
            file.finish()?;
        }
        if is_written {
            return Ok(());
        }
        // Until here a signal ends the program as any other: nothing is lost.
        let interrupted = interrupt::interrupt()?;
        // A program that waits for the address reads it at once.
        let url =
            if state.is_empty() { server.url().to_owned() } else { format!("{}#{state}", server.url()) };
        output::text(&format!("{url}\n"))?;
        tell!("the page is at the address above until Ctrl-C; nobody else can read it without the address");
        if self.open {
            open_browser(&url);
        }
        while !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// A run's folder has the run's own files, and a page of other runs is none of them.
fn refuse_within_run(file: &Path) -> Result<()> {
    let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    let of_run = folder.ancestors().find(|folder| RunFolder::any_manifest(folder).is_ok());
    if let Some(run) = of_run {
        let (file, run) = (file.display(), run.display());
        bail!(Refused(format!(
            "{file} would lie in the run {run}, to which nothing is added: name a file elsewhere"
        )));
    }
    Ok(())
}

fn open(given: &viewed::Given, bar: &Bar) -> Result<(ViewedRecording, Option<LookAgain>)> {
    let name = given.name();
    given.open(&|what: &str, done, all| bar.part(&format!("{what} of {name}"), done, all))
}

/// Allows as many open files as the system lets this program have: a long run has thousands of segments, and many shells allow 1,024.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, opening the file that is one too many says so.
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
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
