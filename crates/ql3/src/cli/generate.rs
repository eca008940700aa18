//! What is generated from the command line's own description, and how it is read.

use std::{env, path::PathBuf};

use clap::{Args, CommandFactory as _, FromArgMatches as _};
use clap_complete::aot::Shell;

use super::Cli;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ql3 completions bash > ~/.local/share/bash-completion/completions/ql3
  ql3 completions zsh > ~/.zfunc/_ql3
  ql3 completions fish > ~/.config/fish/completions/ql3.fish")]
pub struct Completions {
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ql3 man | man -l -
  ql3 man /usr/local/share/man/man1     a page for each command")]
pub struct Man {
    /// Write a page for each command here [default: print the first page]
    pub dir: Option<PathBuf>,
}

impl Cli {
    /// Reads the command line. A variable that is empty is as good as none, since it is easier to empty one than to unset it.
    pub fn read() -> Result<Self, clap::Error> {
        let mut command = Self::command();
        for (option, variable) in [("db", "QL3_DB"), ("project", "QL3_PROJECT")] {
            if env::var_os(variable).is_some_and(|value| value.is_empty()) {
                command = command.mut_arg(option, |arg| arg.env(None));
            }
        }
        let mut matches = command.try_get_matches_from_mut(env::args_os())?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }
}
