//! `ql3`: cron triggers as durable Runs, exactly once each.

mod cli;
mod commands;
mod duration;
mod failure;
mod import;
mod jobs;
mod live;
mod log;
mod moment;
mod output;
mod reference;
mod service;
mod shapes;
mod store;
mod table;

use std::process::ExitCode;

use clap::error::ErrorKind;

use cli::Cli;
use failure::{Exit, Failure};
use output::{Out, Paint, complain};

fn main() -> ExitCode {
    // Guards of attempts are this program, started again. They must stay small, so this comes before everything else.
    if let Some(code) = edge_control::run_if_guard() {
        return code;
    }
    let Cli { global, command } = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let out = Out::new(global.json);
    let Some(command) = command else {
        commands::getting_started(&out);
        return ExitCode::SUCCESS;
    };
    let log = match log::start(global.json) {
        Ok(log) => log,
        Err(failure) => return fail(&failure, global.json),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Failure::new(Exit::Unavailable, "runtime", format!("cannot start: {error}")), global.json),
    };
    let done = runtime.block_on(commands::run(command, &global, &out));
    log.finish();
    match done {
        Ok(code) => match out.error() {
            None => code,
            Some(error) => {
                fail(&Failure::new(Exit::Unavailable, "output", format!("cannot write to standard output: {error}")), global.json)
            }
        },
        Err(failure) => fail(&failure, global.json),
    }
}

fn fail(failure: &Failure, json: bool) -> ExitCode {
    if json {
        complain(failure.to_json());
    } else {
        complain(failure.to_text(Paint::stderr()));
    }
    ExitCode::from(failure.exit as u8)
}

/// Help goes to stdout and is no failure; a command line that is none is one, in JSON if that was asked for.
fn usage(error: &clap::Error) -> ExitCode {
    let asked_for_json = std::env::args_os().any(|arg| arg == "--json");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {}
        _ if asked_for_json => {
            let text = error.render().to_string();
            let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            return fail(&Failure::new(Exit::Usage, "usage", message).hint("`ql3 help` lists the commands"), true);
        }
        _ => {}
    }
    // A closed pipe is no reason to complain.
    let _ = error.print();
    ExitCode::from(if error.exit_code() == 0 { 0 } else { Exit::Usage as u8 })
}
