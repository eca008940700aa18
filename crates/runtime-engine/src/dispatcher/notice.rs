//! A task's `on_failure` command: run once after the final failure.
//!
//! It is a message, not work: it is at most once and best effort, no Run records it, and what it prints is kept beside the Run's
//! output as attempt 0. A program that dies at the wrong moment does not send it.

use std::collections::BTreeMap;

use runtime_core::{
    TimestampMs,
    definition::TaskSpec,
    ids::{AttemptId, RunId},
    ports::executor::{Command, EndCause, ExecutorError, Job, ProcessEnd},
    run::{Run, RunStatus},
};

use super::Shared;
use crate::event::EngineEvent;

/// Its guard ends it after so long.
const LIMIT_MS: u64 = 60_000;

/// Runs the command if `status` is a final failure and the task has one.
pub(super) async fn run(shared: &Shared, run: &Run, task: &TaskSpec, status: RunStatus) {
    let Some(argv) = task.on_failure.as_ref().filter(|_| matches!(status, RunStatus::Failed | RunStatus::TimedOut)) else { return };
    let job = Job {
        run_id: run.id,
        attempt_id: AttemptId::generate(shared.ports.ids.as_ref(), TimestampMs::EPOCH),
        attempt: 0,
        task_id: run.task_id.clone(),
        trigger_id: run.trigger_id.clone(),
        scheduled_for: run.scheduled_for,
        command: Command::Argv(argv.clone()),
        env: task.env.iter().map(|(key, value)| (key.clone(), value.clone())).chain(status_env(status)).collect(),
        env_file: task.env_file.clone(),
        cwd: task.cwd.clone(),
        stdin: None,
    };
    let ended = match execute(shared, &job).await {
        Ok(ProcessEnd { cause: EndCause::Exited, exit_code: Some(0), .. }) => Ok(()),
        Ok(end) => Err(describe(&end)),
        Err(error) => Err(error.to_string()),
    };
    shared.tell(&EngineEvent::FailureCommand { run_id: run.id, ended });
}

/// For a Run that became final outside of its attempt's own task.
pub(super) async fn look_up_and_run(shared: &Shared, run_id: RunId, status: RunStatus) {
    if !matches!(status, RunStatus::Failed | RunStatus::TimedOut) {
        return;
    }
    let Ok(Some(failed)) = shared.ports.runs.run(run_id).await else { return };
    let revision = shared.ports.definitions.task_revision(&failed.project_id, &failed.task_id, failed.task_revision).await;
    match revision {
        Ok(Some(task)) => run(shared, &failed, &task, status).await,
        Ok(None) => {}
        Err(error) => tracing::warn!(%run_id, %error, "the on_failure command is not known"),
    }
}

async fn execute(shared: &Shared, job: &Job) -> Result<ProcessEnd, ExecutorError> {
    let prepared = shared.ports.executor.prepare(job).await?;
    let running = prepared.go(LIMIT_MS).await?;
    running.wait().await
}

fn status_env(status: RunStatus) -> BTreeMap<String, String> {
    BTreeMap::from([("QL3_STATUS".to_owned(), status.to_string())])
}

fn describe(end: &ProcessEnd) -> String {
    let ProcessEnd { cause, exit_code, signal, detail, .. } = end;
    match (cause, exit_code, signal) {
        (EndCause::Exited, Some(code), _) => format!("exit status {code}"),
        (EndCause::Exited, _, Some(signal)) => format!("ended by signal {signal}"),
        (EndCause::Abandoned, ..) => format!("ended after {LIMIT_MS} ms"),
        _ => detail.clone().unwrap_or_else(|| "could not be started".to_owned()),
    }
}
