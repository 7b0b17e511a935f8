//! Recognises commands of earlier versions, and answers with the present command.
//!
//! Only the words of the command are compared, so that no verb has to know its earlier names.
//!
//! | earlier | now |
//! | --- | --- |
//! | `bench --resume RUN`, `infer --resume RUN` | `resume RUN` |
//! | `infer TARGET --wear-out N` | `wear-out TARGET --rounds N` |
//! | `sim run --live TARGET --trace FILE` | `replay FILE TARGET` |
//! | `serve --control SOCKET --status`, `--fault`, ... | `live status SOCKET`, `live fault SOCKET FAULT`, ... |
//! | `report RUN RUN RUN...` (two are a device and its twin) | `compare RUN RUN RUN...` |
//! | `--out`, `--record` | `--output` |

use flashlab_report::shell_word;

/// The present command for the words of an earlier one after `flashlab`; `None` if it is not an earlier one.
pub fn present_command(command: &[String]) -> Option<String> {
    let mut words = Words(command.to_vec());
    let verb: Vec<&str> = command.iter().take(2).map(String::as_str).collect();
    let commands = match verb.as_slice() {
        ["bench" | "infer", ..] if words.has("--resume") => {
            let run = words.take_value("--resume")?;
            vec![words.with_verb(1, &["resume", &run])]
        }
        ["infer", ..] if words.has("--wear-out") => {
            words.take_flag("--write");
            words.rename("--wear-out", "--rounds");
            words.rename("--out", "--output");
            vec![words.with_verb(1, &["wear-out"])]
        }
        ["infer", ..] if words.rename("--out", "--output") => vec![words.0],
        ["sim", "run"] if words.take_flag("--live") => {
            let trace = words.take_value("--trace")?;
            words.rename("--record", "--output");
            vec![words.with_verb(2, &["replay", &trace])]
        }
        ["sim", "run"] | ["serve", ..] if words.rename("--record", "--output") => vec![words.0],
        ["sim", "precondition"] if words.rename("--out", "--output") => vec![words.0],
        ["report", ..] if words.names_three(&["--output", "-o", "--expect", "--junit"]) => {
            vec![words.with_verb(1, &["compare"])]
        }
        ["serve", ..] if words.asks_a_server() => words.live_commands()?,
        _ => return None,
    };
    let line = |words: Vec<String>| {
        let words: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
        format!("flashlab {}", words.join(" "))
    };
    Some(commands.into_iter().map(line).collect::<Vec<_>>().join(" && "))
}

struct Words(Vec<String>);

impl Words {
    /// Whether the option is given, as `--option VALUE` or `--option=VALUE`.
    fn has(&self, option: &str) -> bool {
        self.0.iter().any(|word| is_option(word, option))
    }

    /// Removes an option without a value. Returns whether it was given.
    fn take_flag(&mut self, option: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| word != option);
        self.0.len() < before
    }

    /// Removes an option with its value.
    fn take_value(&mut self, option: &str) -> Option<String> {
        let index = self.0.iter().position(|word| is_option(word, option))?;
        let word = self.0.remove(index);
        match word.split_once('=') {
            Some((_, value)) => Some(value.to_owned()),
            None if index < self.0.len() => Some(self.0.remove(index)),
            None => None,
        }
    }

    /// Renames an option. Returns whether it was given.
    fn rename(&mut self, option: &str, present: &str) -> bool {
        let has = self.has(option);
        for word in self.0.iter_mut().filter(|word| is_option(word, option)) {
            word.replace_range(..option.len(), present);
        }
        has
    }

    /// The words, with the first `count` replaced.
    fn with_verb(self, count: usize, verb: &[&str]) -> Vec<String> {
        verb.iter().map(|&word| word.to_owned()).chain(self.0.into_iter().skip(count)).collect()
    }

    /// Whether the verb has three arguments or more in addition to its options. `options` are those with a value.
    fn names_three(&self, options: &[&str]) -> bool {
        let mut previous = "";
        let mut count = 0;
        for word in &self.0[1..] {
            count += usize::from(!word.starts_with('-') && !options.contains(&previous));
            previous = word;
        }
        count > 2
    }

    /// Whether `serve` was used to send a command to a running server: there is a socket, and nothing to
    /// serve.
    fn asks_a_server(&self) -> bool {
        let options = ["--status", "--clear-faults", "--power-loss", "--power-on"];
        let has_target = self.0.iter().any(|word| word.starts_with("sim:"));
        self.has("--control") && (!has_target || options.iter().any(|option| self.has(option)))
    }

    /// One command for each request to the server; `None` if there is none.
    fn live_commands(mut self) -> Option<Vec<Vec<String>>> {
        let control = self.take_value("--control")?;
        let command = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let mut commands = Vec::new();
        for action in ["clear-faults", "power-loss", "power-on"] {
            if self.take_flag(&format!("--{action}")) {
                commands.push(command(&["live", action, &control]));
            }
        }
        while let Some(fault) = self.take_value("--fault") {
            commands.push(command(&["live", "fault", &control, &fault]));
        }
        if self.take_flag("--status") {
            let mut status = command(&["live", "status", &control]);
            status.extend(self.0.into_iter().skip(1));
            commands.push(status);
        }
        (!commands.is_empty()).then_some(commands)
    }
}

fn is_option(word: &str, option: &str) -> bool {
    word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(command: &str) -> Option<String> {
        present_command(&command.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn each_earlier_command_has_its_present_one() {
        for (earlier, now) in [
            ("bench --resume run --json", "resume run --json"),
            ("infer --advise --resume=run", "resume run --advise"),
            (
                "infer sim:zeus --write --wear-out 3 --full-writes 10 --out=worn",
                "wear-out sim:zeus --rounds 3 --full-writes 10 --output=worn",
            ),
            ("infer sim:zeus --out run", "infer sim:zeus --output run"),
            (
                "sim run --live disk --trace log --overwrite-file --record r",
                "replay log disk --overwrite-file --output r",
            ),
            ("sim run zeus --trace log --record r", "sim run zeus --trace log --output r"),
            ("sim precondition zeus --out state", "sim precondition zeus --output state"),
            ("serve sim:zeus --loop --record r", "serve sim:zeus --loop --output r"),
            ("serve --control s --status --watch", "live status s --watch"),
            (
                "serve --fault torn --power-loss --control s --fault dead",
                "live power-loss s && flashlab live fault s torn && flashlab live fault s dead",
            ),
        ] {
            assert_eq!(present(earlier), Some(format!("flashlab {now}")), "{earlier}");
        }
    }

    #[test]
    fn present_commands_are_left_alone() {
        for command in [
            "",
            "bench sim:zeus --output run",
            "infer sim:zeus",
            "resume run",
            "sim run zeus --trace log --output r",
            "serve sim:zeus --loop --control s --fault torn",
            "serve --control s",
            "live status s",
        ] {
            assert_eq!(present(command), None, "{command}");
        }
    }
}
