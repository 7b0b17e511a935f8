//! `flashlab completions`: a script with which a shell completes flashlab's verbs and options.

use anyhow::Result;
use clap::{Args, Command, ValueEnum};
use clap_complete::{Shell, generate};

use crate::output;

/// Print completions for a shell: source <(flashlab completions bash)
#[derive(Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: CompletedShell,
}

/// The shells that are tested.
#[derive(Clone, Copy, ValueEnum)]
enum CompletedShell {
    Bash,
    Fish,
    Zsh,
}

impl Completions {
    /// Prints the script.
    pub fn run(self, mut command: Command) -> Result<()> {
        let shell = match self.shell {
            CompletedShell::Bash => Shell::Bash,
            CompletedShell::Fish => Shell::Fish,
            CompletedShell::Zsh => Shell::Zsh,
        };
        let mut script = Vec::new();
        generate(shell, &mut command, "flashlab", &mut script);
        output::text(&String::from_utf8(script)?)
    }
}
