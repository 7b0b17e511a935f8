//! Shows progress on standard error, as a bar with the remaining time.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use flashlab_analysis::findings::Regime;
use flashlab_base::{Bytes, Nanos};
use flashlab_bench::{Progress, Schedule};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Draws a bar on a terminal. Without a terminal, it prints a line from time to time.
pub struct Bar {
    bar: ProgressBar,
    draws: bool,
    /// When the last line was printed without a terminal.
    told: Mutex<Instant>,
}

const SHARES: u64 = 1000;
/// The least time between two lines without a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

impl Bar {
    pub fn new() -> Bar {
        let draws = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
        // A message wider than the terminal would take a second line.
        let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| width.0);
        let length = if width < 80 { 8 } else { 30 };
        let template =
            format!("{{elapsed:>4}} {{bar:{length}}} {{percent:>3}} % left: {{eta:<5}} {{wide_msg}}");
        let style = ProgressStyle::with_template(&template).expect("the template is right");
        bar.set_style(style.progress_chars("━╸ "));
        Bar { bar, draws, told: Mutex::new(Instant::now()) }
    }

    /// A part with this number of steps.
    fn begin(&self, what: &str, length: u64) {
        self.bar.reset();
        self.bar.set_length(length);
        self.bar.set_message(what.to_owned());
    }

    /// Without a terminal, prints a line if it is wanted now or the last one is long ago.
    fn tell_seldom(&self, now: bool, line: impl FnOnce() -> String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.draws && (now || told.elapsed() >= BETWEEN_LINES) {
            *told = Instant::now();
            tell!("{}", line());
        }
    }

    /// Shows how much of a part is done, which other threads also report.
    pub fn part(&self, what: &str, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_message(what.to_owned());
        self.bar.set_position(done);
        self.tell_seldom(false, || format!("{what}: {} %", 100 * done / all.max(1)));
    }

    /// Prints a line that stays.
    pub fn say(&self, line: &str) {
        if self.draws {
            self.bar.suspend(|| tell!("{line}"));
        } else {
            tell!("{line}");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn step(&self, what: &str) {
        self.begin(what, SHARES);
        self.bar.enable_steady_tick(Duration::from_millis(500));
        if !self.draws {
            tell!("{what}");
        }
    }

    fn round(&self, what: &str) {
        self.begin(what, SHARES);
        self.tell_seldom(false, || what.to_owned());
    }

    fn share(&self, done: f64) {
        self.bar.set_position((done * SHARES as f64) as u64);
    }

    fn schedule(&self, schedule: &Schedule) {
        for warning in &schedule.left_out {
            self.say(&format!("left out: {}", warning.message));
        }
        let again = match schedule.resets {
            0 => String::new(),
            1 => ", the state enforced once more".to_owned(),
            times => format!(", the state enforced {times} times more"),
        };
        let runs = match schedule.steps.len() {
            1 => "1 run".to_owned(),
            count => format!("{count} runs"),
        };
        let time = Nanos(schedule.time.get().next_multiple_of(1_000_000_000));
        self.say(&match schedule.written {
            Bytes::ZERO => format!("plan: {runs}; at most {time}, nothing to write"),
            written => format!(
                "plan: {runs}, {} of pause after those that write{again}; at most {time}, about {written} to write",
                schedule.pause,
            ),
        });
        let regimes = [("bursts", Regime::Burst), ("the sustained regime", Regime::Sustained)];
        let in_each: Vec<String> = regimes
            .into_iter()
            .filter_map(|(name, regime)| Some(format!("{} for {name}", schedule.written_in(regime)?)))
            .collect();
        if !in_each.is_empty() {
            self.say(&format!("of these bytes {}", in_each.join(", ")));
        }
        self.bar.reset();
    }

    fn step_of(&self, what: &str, index: usize, count: usize) {
        if index == 0 || self.bar.length() != Some(count as u64) {
            self.begin(what, count as u64);
        }
        self.bar.set_position(index as u64);
        self.bar.set_message(what.to_owned());
        self.tell_seldom(index == 0, || format!("run {} of {count}: {what}", index + 1));
    }
}
