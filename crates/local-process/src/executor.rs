//! Starting guards.

use std::{
    collections::BTreeMap,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use runtime_core::{
    ids::{AttemptId, RunId},
    ports::executor::{Executor, ExecutorError, Job, Prepared, Recovered},
};
use tokio::net::unix::pipe;

use crate::{
    files::AttemptFiles,
    group::ATTEMPT_ID_VAR,
    guard::GUARD_ARG,
    protocol::{self, Report, Spec},
    recover,
    running::{Blocked, Graveyard, GuardProcess, Reports},
};

/// A guard answers within milliseconds; one that needs this long is not a guard.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// Where output goes and what a guard is.
#[derive(Clone, Debug)]
pub struct LocalProcessOptions {
    /// Directory of output and exit records, made when needed. It must be UTF-8, and on a file system of this machine.
    pub log_dir: PathBuf,
    /// A program whose `main` begins with [`crate::run_if_guard`].
    pub guard_program: PathBuf,
    /// When a log file has this many bytes, it becomes `.log.1`: up to twice as much output of an attempt is kept.
    pub output_bytes_max: u64,
}

impl LocalProcessOptions {
    /// Logs under `log_dir`, 8 MiB a file, and this very program as the guard, even if its file has been replaced since it started.
    pub fn new(log_dir: impl Into<PathBuf>) -> Self {
        Self { log_dir: log_dir.into(), guard_program: "/proc/self/exe".into(), output_bytes_max: 8 << 20 }
    }
}

/// The executor of this machine. It owns no thread and no task: an attempt costs its process one descriptor pair.
#[derive(Debug)]
pub struct LocalProcess {
    options: LocalProcessOptions,
    graveyard: Arc<Graveyard>,
}

impl LocalProcess {
    /// Touches nothing yet.
    pub fn new(options: LocalProcessOptions) -> Self {
        Self { options, graveyard: Arc::default() }
    }

    /// Starts a guard and hands it the job; it blocks then.
    async fn start_guard(&self, job: &Job) -> io::Result<Blocked> {
        let spec = protocol::encode(&self.spec(job))?;
        let mut child = Command::new(&self.options.guard_program)
            .arg0("ql3")
            .arg(GUARD_ARG)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C at the executor's terminal is the executor's to handle.
            .process_group(0)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let guard = GuardProcess::new(child, Arc::clone(&self.graveyard));
        let (stdin, stdout) = pipes.expect("both were asked for");
        let control = pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?;
        let mut reports = Reports::new(pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?);
        match write_all(&control, &spec).await {
            // Gone already: what follows says so.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => other?,
        }
        let Some(Report::Ready { handle }) = reports.next().await? else {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended before it was ready; is it a program that can be a guard?"));
        };
        let files = AttemptFiles::new(&self.options.log_dir, job.run_id, job.attempt);
        Ok(Blocked { guard, control, reports, handle, files, attempt_id: job.attempt_id })
    }

    fn spec(&self, job: &Job) -> Spec {
        Spec {
            log_dir: self.options.log_dir.clone(),
            output_bytes_max: self.options.output_bytes_max,
            run_id: job.run_id,
            attempt_id: job.attempt_id,
            attempt: job.attempt,
            command: job.command.clone(),
            identity_env: identity_env(job),
            env: job.env.clone(),
            env_file: job.env_file.clone(),
            cwd: job.cwd.clone(),
            stdin: job.stdin.clone(),
        }
    }
}

#[async_trait]
impl Executor for LocalProcess {
    async fn prepare(&self, job: &Job) -> Result<Box<dyn Prepared>, ExecutorError> {
        self.graveyard.sweep();
        let started = tokio::time::timeout(READY_LIMIT, self.start_guard(job)).await;
        let blocked = started.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer")));
        blocked.map(|blocked| Box::new(blocked) as Box<dyn Prepared>).map_err(|error| ExecutorError {
            what: format!("start guard `{}`", self.options.guard_program.display()),
            cause: error.to_string(),
        })
    }

    /// For attempts of this machine only: another boot id means that this machine has restarted.
    async fn recover(&self, run_id: RunId, attempt_id: AttemptId, attempt: u32, handle: Option<&str>) -> Result<Recovered, ExecutorError> {
        let files = AttemptFiles::new(&self.options.log_dir, run_id, attempt);
        recover::recover(&files, attempt_id, handle)
            .await
            .map_err(|error| ExecutorError { what: format!("recover attempt {attempt_id} of run {run_id}"), cause: error.to_string() })
    }
}

async fn write_all(control: &pipe::Sender, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        control.writable().await?;
        match control.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn identity_env(job: &Job) -> BTreeMap<String, String> {
    let always = [
        ("QL3_RUN_ID", job.run_id.to_string()),
        (ATTEMPT_ID_VAR, job.attempt_id.to_string()),
        ("QL3_ATTEMPT", job.attempt.to_string()),
        ("QL3_TASK_ID", job.task_id.to_string()),
    ];
    let triggered = [
        ("QL3_TRIGGER_ID", job.trigger_id.as_ref().map(ToString::to_string)),
        ("QL3_SCHEDULED_FOR", job.scheduled_for.as_ref().map(ToString::to_string)),
    ];
    let triggered = triggered.into_iter().filter_map(|(name, value)| Some((name, value?)));
    always.into_iter().chain(triggered).map(|(name, value)| (name.to_owned(), value)).collect()
}
