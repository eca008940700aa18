//! The guard process: one thread, no runtime, a few pages of memory.

mod command;
mod control;
mod env_file;
mod output;
mod shim;
mod supervise;

use std::{env, io, process::ExitCode};

use runtime_core::ports::executor::{EndCause, ProcessEnd};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::{
    files::AttemptFiles,
    identity::Identity,
    protocol::{self, Order, Report, Spec, boottime_ms},
};
use control::Control;
use output::Output;

/// First argument of a guard; its executor talks to its stdin and stdout.
pub(crate) const GUARD_ARG: &str = "guard";
/// First argument of the shim that becomes the command.
const SHIM_ARG: &str = "guard-exec";

/// Runs the guard if this process was started as one, and gives what `main` must return then.
///
/// Call it before anything else: a guard reads its job from stdin, answers on stdout and should stay small.
pub fn run_if_guard() -> Option<ExitCode> {
    let mut args = env::args_os().skip(1);
    match args.next()?.to_str()? {
        GUARD_ARG if args.len() == 0 => Some(if main().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        SHIM_ARG => Some(shim::main(args)),
        _ => None,
    }
}

fn main() -> io::Result<()> {
    let mut control = Control::default();
    let Some(spec) = control.receive::<Spec>()? else { return Ok(()) };
    // Found out now and not after the start: a kernel without pidfds cannot be worked with.
    pidfd_open(getpid(), PidfdFlags::empty())?;
    report(&Report::Ready { handle: Identity::of_self()?.to_string() })?;
    // The executor makes the identity durable before it says go; if it dies first, nothing has run.
    let Some(Order::Go { deadline_ms }) = control.receive()? else { return Ok(()) };

    let files = AttemptFiles::new(&spec.log_dir, spec.run_id, spec.attempt);
    let mut end = execute(&spec, &files, deadline_ms, control);
    match files.create_dir().and_then(|()| files.write_exit(spec.attempt_id, &end)) {
        // Whoever finds an exit record does not look for the child. It may never have been written.
        Ok(()) => drop(std::fs::remove_file(files.child())),
        Err(error) => note(&mut end.detail, &format!("no exit record: {error}")),
    }
    report(&Report::Ended(end))
}

fn execute(spec: &Spec, files: &AttemptFiles, deadline_ms: u64, control: Control) -> ProcessEnd {
    let unstarted = |cause, detail: String| ProcessEnd {
        cause,
        exit_code: None,
        signal: None,
        detail: Some(detail),
        output_kept_bytes: 0,
        output_dropped_bytes: 0,
    };
    if boottime_ms() >= deadline_ms {
        return unstarted(EndCause::Abandoned, "the lease ran out before the start".to_owned());
    }
    let signals = match control::end_signals() {
        Ok(signals) => signals,
        Err(error) => return unstarted(EndCause::SpawnFailed, format!("cannot install the guard's signal handlers: {error}")),
    };
    // Output that cannot be kept is counted and said; it is no reason not to run.
    let output = Output::create(files, spec.output_bytes_max);
    match command::start(spec, &files.child()) {
        Ok(command) => supervise::run(command, control, signals, output, deadline_ms),
        Err(detail) => unstarted(EndCause::SpawnFailed, detail),
    }
}

fn report(report: &Report) -> io::Result<()> {
    let frame = protocol::encode(report)?;
    let mut rest = &frame[..];
    while !rest.is_empty() {
        let count = rustix::io::retry_on_intr(|| rustix::io::write(io::stdout(), rest))?;
        rest = &rest[count..];
    }
    Ok(())
}

fn note(detail: &mut Option<String>, text: &str) {
    match detail {
        Some(detail) => {
            detail.push_str("; ");
            detail.push_str(text);
        }
        None => *detail = Some(text.to_owned()),
    }
}
