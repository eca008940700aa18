//! `completions` and `man`: made from the description of the command line, so they cannot be behind it.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::aot::Shell;
use clap_mangen::Man;
use serde_json::json;

use crate::{
    cli::Cli,
    failure::{Exit, Failure},
    output::Out,
};

pub fn completions(shell: Shell, out: &Out) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ql3", &mut script);
    if out.json {
        out.json(&json!({ "shell": shell.to_string(), "text": String::from_utf8_lossy(&script) }));
    } else {
        out.text(script);
    }
}

pub fn man(dir: Option<&Path>, out: &Out) -> Result<(), Failure> {
    let cannot = |what: &str, error| Failure::new(Exit::Unavailable, "file_unwritable", format!("cannot write {what}: {error}"));
    let Some(dir) = dir else {
        let mut page = Vec::new();
        Man::new(Cli::command().disable_help_subcommand(true)).render(&mut page).map_err(|error| cannot("the page", error))?;
        if out.json {
            out.json(&json!({ "text": String::from_utf8_lossy(&page) }));
        } else {
            out.text(page);
        }
        return Ok(());
    };
    let written = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    written.map_err(|error| cannot(&format!("pages to {}", dir.display()), error))?;
    if out.json {
        out.json(&json!({ "dir": dir.display().to_string() }));
    } else {
        out.line(format_args!("pages written to {}; try `man {}/ql3.1`", dir.display(), dir.display()));
    }
    Ok(())
}
