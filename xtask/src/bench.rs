//! `cargo xtask bench edge`: what the edge costs, measured on a release build. Figures are for people; nothing here gates.

use crate::args::Args;
use crate::repo::Fallible;
use crate::shell;

/// `--json` for one JSON object instead of a table. False when something could not be measured.
pub fn run(args: &[&str]) -> Fallible<bool> {
    let args = Args::parse(args, &[], &["--json"])?;
    let mut command = shell::cargo(&["bench", "--quiet", "--locked", "-p", "ql3-tests", "--bench", "edge", "--"])?;
    if args.has("--json") {
        command.arg("--json");
    }
    // Its table is this command's output, and its progress goes to standard error.
    Ok(command.status()?.success())
}
