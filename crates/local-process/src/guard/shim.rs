//! The process that becomes the command. It does between `fork` and `exec` what needs no unsafe code when it is a program of its own.

use std::{
    env,
    ffi::OsString,
    fmt::Display,
    io,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setsid};

use crate::{files, identity::Identity};

/// What a shell answers for "cannot be run"; the guard reads the reason, not this.
const NOT_STARTED: u8 = 127;

/// Arguments: pid of the guard, file for the own identity, working directory (empty: as it is), program and its arguments.
/// stdin, stdout and the environment are the command's already; stderr is the pipe for the reason of a failure.
pub(super) fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    // `exec` closes this copy, so the guard sees the end of the pipe exactly when the command runs.
    if let Ok(failure) = rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3)
        && let Some(reason) = exec(&mut args)
    {
        // At most a page, so it fits the pipe whether or not the guard reads.
        let reason = reason.as_bytes();
        let _ = rustix::io::write(failure, &reason[..reason.len().min(4096)]);
    }
    ExitCode::from(NOT_STARTED)
}

/// Returns only if the command cannot run; `None` if there is nobody left to tell.
fn exec(args: &mut impl Iterator<Item = OsString>) -> Option<String> {
    let guard = args.next()?.to_str()?.parse().ok().and_then(Pid::from_raw)?;
    let (child_file, cwd, program) = (args.next()?, args.next()?, args.next()?);
    let failed = |what: &str, error: &dyn Display| Some(format!("{what}: {error}"));
    // A session, not only a group: a terminal of the executor must neither signal nor stop the command.
    if let Err(error) = setsid() {
        return failed("cannot make a session", &error);
    }
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return failed("cannot tie the command to its guard", &error);
    }
    // If the guard died before the line above, no signal comes any more.
    if getppid() != Some(guard) {
        return None;
    }
    // Who cleans up after a killed guard finds the group by this. A full disk is no reason not to run.
    let _ = Identity::of_self().and_then(|own| io::Write::write_all(&mut files::create(child_file.as_ref())?, own.to_string().as_bytes()));
    if !cwd.is_empty()
        && let Err(error) = env::set_current_dir(&cwd)
    {
        return failed(&format!("working directory `{}`", cwd.display()), &error);
    }
    let stderr = match rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3) {
        Ok(stdout) => stdout,
        Err(error) => return failed("stderr", &error),
    };
    // Looks the program up in the command's own PATH, which is this process's, and gives SIGPIPE its default back.
    let error = Command::new(&program).args(args).stderr(stderr).exec();
    failed(&format!("cannot run `{}`", program.display()), &error)
}
