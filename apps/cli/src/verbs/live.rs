//! `flashlab live`: sends commands to a running `flashlab serve`.

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use flashlab_base::{Bytes, Nanos};
use flashlab_export::{ControlClient, ControlReply};
use flashlab_host::is_running;
use flashlab_sim::Statistics;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::JsonOption;
use crate::exit::Usage;
use crate::{flash_statistics, output};

/// Ask a running server what it did, arm faults, fail its power, end it
#[derive(Args)]
pub struct Live {
    #[command(subcommand)]
    action: LiveAction,
}

#[derive(Subcommand)]
enum LiveAction {
    /// Print what the server did: rates, response times, errors, the flash
    Status {
        #[command(flatten)]
        server: ServerOption,
        /// Print it again each second, until the server ends
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        json: JsonOption,
    },
    /// Arm faults
    Fault {
        #[command(flatten)]
        server: ServerOption,
        /// KIND[,KEY=VALUE]..., as error,on=write,share=0.01 (see docs/serve.md)
        #[arg(required = true, value_name = "FAULT")]
        faults: Vec<String>,
    },
    /// Disarm all faults
    ClearFaults(ServerOption),
    /// Fail the power: what was not flushed is lost
    PowerLoss(ServerOption),
    /// Bring the power back
    PowerOn(ServerOption),
    /// End the server, as Ctrl-C does, and wait until it has ended
    Stop(ServerOption),
}

/// Which server.
#[derive(Args)]
struct ServerOption {
    /// The control socket of the server, which it prints when it is ready
    #[arg(value_name = "SOCKET")]
    control: PathBuf,
}

impl Live {
    /// Sends the command to the server, and prints the answer.
    pub fn run(self) -> Result<()> {
        match self.action {
            LiveAction::Status { server, watch, json } => status(&mut server.connect()?, watch, json.json),
            LiveAction::Fault { server, faults } => {
                let mut server = server.connect()?;
                faults.iter().try_for_each(|fault| say(&mut server, &format!("fault {fault}")).map(drop))
            }
            LiveAction::ClearFaults(server) => say(&mut server.connect()?, "clear-faults").map(drop),
            LiveAction::PowerLoss(server) => say(&mut server.connect()?, "power-loss").map(drop),
            LiveAction::PowerOn(server) => say(&mut server.connect()?, "power-on").map(drop),
            LiveAction::Stop(server) => server.stop(),
        }
    }
}

impl ServerOption {
    fn connect(&self) -> Result<ControlClient> {
        let control = &self.control;
        ControlClient::connect(control).with_context(|| {
            Usage(format!(
                "no flashlab serve listens on {}: give the control socket that it printed when it was ready",
                control.display()
            ))
        })
    }

    fn stop(&self) -> Result<()> {
        let mut server = self.connect()?;
        let process = server.server_process();
        say(&mut server, "stop")?;
        let begun = Instant::now();
        while ControlClient::connect(&self.control).is_ok() || process.is_some_and(is_running) {
            if begun.elapsed() > STOP_PATIENCE {
                bail!(
                    "the disk is in use: it is served until it is unmounted and the last program has closed it; stop it \
                     again to end it at once, and what is not flushed is lost"
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// How long a server may take to end before it counts as in use.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

fn say(server: &mut ControlClient, command: &str) -> Result<Value> {
    match server.ask(command).context("the server does not answer")? {
        ControlReply::Done(answer) => Ok(answer),
        ControlReply::Refused(reason) => bail!(Usage(reason)),
    }
}

fn status(server: &mut ControlClient, watch: bool, json: bool) -> Result<()> {
    let mut before = say(server, "status")?;
    if json && !watch {
        return output::json(&before);
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = match server.ask("status") {
            Ok(ControlReply::Done(now)) => now,
            // The server has ended, so there is nothing more to watch.
            Err(error)
                if watch && matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) =>
            {
                return Ok(());
            }
            Ok(ControlReply::Refused(reason)) => bail!(Usage(reason)),
            Err(error) => return Err(error).context("the server does not answer"),
        };
        match json {
            true => output::json_line(&now)?,
            false if watch => output::page(&page(&before, &now))?,
            false => output::text(&page(&before, &now))?,
        }
        if !watch {
            return Ok(());
        }
        before = now;
    }
}

/// The status as a text; rates are those between two statuses.
fn page(before: &Value, now: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let seconds = (number(&now["uptime_s"]) - number(&before["uptime_s"])).max(1e-9);
    let mut page = String::new();
    let up = Nanos::from_secs_f64(number(&now["uptime_s"]).round());
    let size = Bytes(now["capacity_bytes"].as_u64().unwrap_or(0));
    let target = flashlab_report::printable(now["target"].as_str().unwrap_or("?"));
    let _ = writeln!(page, "{target}, {size}, served for {up}; {} IOs in flight", now["served"]["in_flight"]);
    let _ = writeln!(
        page,
        "{:<8} {:>9} {:>9} {:>12} {:>21} {:>21} {:>8} {:>7} {:>7}",
        "", "IO/s", "MiB/s", "IOs", "asked p50 / p99", "delivered p50 / p99", "too fast", "late", "errors"
    );
    let empty = Vec::new();
    let classes = |status: &Value| status["served"]["classes"].as_array().unwrap_or(&empty).clone();
    for (class, earlier) in classes(now).iter().zip(classes(before).iter()) {
        let rate = |name: &str| (number(&class[name]) - number(&earlier[name])) / seconds;
        let times = |name: &str| {
            let time = |percentile: &str| Nanos(class[name][percentile].as_u64().unwrap_or(0)).to_string();
            format!("{} / {}", time("p50_ns"), time("p99_ns"))
        };
        let ios = number(&class["ios"]);
        let share = |name: &str| match ios > 0.0 {
            true => format!("{:.1}%", number(&class[name]) / ios * 100.0),
            false => String::new(),
        };
        let _ = writeln!(
            page,
            "{:<8} {:>9.0} {:>9.1} {:>12} {:>21} {:>21} {:>8} {:>7} {:>7}",
            class["class"].as_str().unwrap_or("?"),
            rate("ios"),
            rate("bytes") / f64::from(1 << 20),
            ios,
            times("asked"),
            times("delivered"),
            share("faster_than_the_transport"),
            share("late"),
            class["errors"],
        );
    }
    // A server of another version may have other counters.
    if let Ok(device) = Statistics::deserialize(&now["device"]) {
        page += &flash_statistics::text(&device);
    }
    for fault in now["faults"].as_array().unwrap_or(&empty) {
        let _ = writeln!(page, "fault {fault}");
    }
    page
}
