//! Starting the command.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, PipeReader, Seek, Write},
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, Stdio},
};

use runtime_core::ports::executor::Command as JobCommand;
use rustix::{
    fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create},
    process::{Pid, PidfdFlags, getpid, pidfd_open},
};

use super::{SHIM_ARG, env_file};
use crate::protocol::Spec;

/// Variables that speak of somebody else.
const NOT_INHERITED: [&str; 9] = [
    // An outer attempt's identity must not show through where this one has none (a Run without a trigger).
    "QL3_RUN_ID",
    "QL3_ATTEMPT_ID",
    "QL3_ATTEMPT",
    "QL3_TASK_ID",
    "QL3_TRIGGER_ID",
    "QL3_SCHEDULED_FOR",
    // A service manager's words to the scheduler: a command that took them for its own would speak in its name.
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// A command on its way: the shim has been started and becomes the command, or says why not.
pub(super) struct Started {
    pub child: Child,
    pub pid: Pid,
    pub pidfd: OwnedFd,
    /// stdout and stderr, non-blocking.
    pub output: PipeReader,
    /// Closed by `exec`; carries the reason if that fails.
    pub failure: PipeReader,
}

/// The error is what to tell the operator; it names the program, directory or file and never a value of the environment.
pub(super) fn start(spec: &Spec, child_file: &Path) -> Result<Started, String> {
    let (program, args) = match &spec.command {
        JobCommand::Argv(argv) => argv.split_first().ok_or("the command is empty")?,
        JobCommand::Shell(line) => (&"/bin/sh".to_owned(), &["-c".to_owned(), line.clone()][..]),
    };
    let mut file_env = BTreeMap::new();
    if let Some(path) = &spec.env_file {
        let text = fs::read(path).map_err(|error| format!("env_file `{path}`: {error}"))?;
        file_env = env_file::parse(&text).map_err(|(line, problem)| format!("env_file `{path}`, line {line}: {problem}"))?;
    }
    let stdin = match &spec.stdin {
        Some(text) => Stdio::from(stdin_file(text).map_err(|error| format!("stdin: {error}"))?),
        None => Stdio::null(),
    };
    let cannot_start = |error: io::Error| format!("cannot start `{program}`: {error}");
    let (output, output_writer) = io::pipe().map_err(cannot_start)?;
    let (failure, failure_writer) = io::pipe().map_err(cannot_start)?;
    let flags = fcntl_getfl(&output).map_err(|error| cannot_start(error.into()))?;
    fcntl_setfl(&output, flags | OFlags::NONBLOCK).map_err(|error| cannot_start(error.into()))?;

    let mut shim = Command::new("/proc/self/exe");
    shim.arg(SHIM_ARG).arg(getpid().as_raw_nonzero().to_string()).arg(child_file);
    shim.arg(spec.cwd.as_deref().unwrap_or_default()).arg(program).args(args);
    for own in NOT_INHERITED {
        shim.env_remove(own);
    }
    shim.envs(file_env).envs(&spec.env).envs(&spec.identity_env);
    shim.stdin(stdin).stdout(output_writer).stderr(failure_writer);
    let mut child = shim.spawn().map_err(cannot_start)?;
    let opened = Pid::from_raw(child.id().cast_signed())
        .ok_or_else(|| io::Error::other("no pid"))
        .and_then(|pid| Ok((pid, pidfd_open(pid, PidfdFlags::empty())?)));
    match opened {
        Ok((pid, pidfd)) => Ok(Started { child, pid, pidfd, output, failure }),
        Err(error) => {
            // Not supervised, so not allowed to run.
            let _ = child.kill();
            let _ = child.wait();
            Err(cannot_start(error))
        }
    }
}

/// The whole input as a file in memory: nobody has to feed a pipe, and a command that does not read it disturbs nothing.
fn stdin_file(text: &str) -> io::Result<File> {
    let open = |flags| memfd_create("stdin", MemfdFlags::CLOEXEC | flags);
    // Kernels from 6.3 on may insist on NOEXEC_SEAL; older ones do not know it.
    let mut file = File::from(open(MemfdFlags::NOEXEC_SEAL).or_else(|_| open(MemfdFlags::empty()))?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}
