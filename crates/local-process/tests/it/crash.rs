//! SIGKILL of the executor's process and of guards.

use std::{
    env, fs,
    process::{Command, Stdio},
};

use runtime_core::ports::executor::{EndCause, Executor, Job, Recovered};

use crate::support::{Bystander, Fixture, LONG_MS, fixture, kill, runs, shell, until};

/// Starts a process that prepares `job` in an executor of its own, and lets it go if asked to.
fn parent(fixture: &Fixture, job: &Job, go: bool) -> Bystander {
    let runtime_core::ports::executor::Command::Shell(line) = &job.command else { panic!("only shell jobs") };
    // `cargo test` builds the examples beside the tests.
    let example = env::current_exe().unwrap().parent().unwrap().with_file_name("examples").join("run");
    let mut command = Command::new(example);
    command
        .arg(fixture.log_dir())
        .args([&job.run_id.to_string(), &job.attempt_id.to_string(), line])
        // What an outer attempt would have left in the environment.
        .env("QL3_TRIGGER_ID", "outer")
        .stdout(fs::File::create(fixture.path(HANDLE)).unwrap());
    if go {
        command.stdin(Stdio::null());
    } else {
        command.stdin(Stdio::piped());
    }
    Bystander::start_with(&mut command)
}

/// Where the parent's first line, the handle, goes.
const HANDLE: &str = "handle";

async fn handle(fixture: &Fixture) -> String {
    let read = || fs::read_to_string(fixture.path(HANDLE)).unwrap_or_default();
    until("the parent prepares", || read().contains('\n')).await;
    read().lines().next().unwrap().to_owned()
}

/// The pid in a handle, and in the file that names the command.
fn pid_of(handle: &str) -> &str {
    handle.split(':').nth(1).unwrap()
}

async fn recover(fixture: &Fixture, job: &Job, handle: &str) -> Recovered {
    fixture.executor.recover(job.run_id, job.attempt_id, job.attempt, Some(handle)).await.unwrap()
}

#[tokio::test]
async fn a_killed_executor_takes_its_command_along_and_the_record_stays() {
    let fixture = fixture();
    let job = shell("env | grep ^QL3_TRIGGER; echo $$; exec sleep 1000");
    let parent = parent(&fixture, &job, true);
    let handle = handle(&fixture).await;
    // One line: the outer trigger id did not come through.
    let command = fixture.lines(&job, 1).await.remove(0);
    assert!(runs(&command));
    drop(parent);
    let Recovered::Ended(end) = recover(&fixture, &job, &handle).await else { panic!("no exit record") };
    assert_eq!((end.cause, end.signal), (EndCause::Abandoned, Some(15)));
    assert!(end.detail.unwrap().contains("disappeared"));
    assert!(!runs(&command));
    until("the guard exits", || !runs(pid_of(&handle))).await;
}

#[tokio::test]
async fn an_executor_killed_before_go_has_started_nothing() {
    let fixture = fixture();
    let marker = fixture.path("ran");
    let job = shell(format!("touch {}", marker.display()));
    let parent = parent(&fixture, &job, false);
    let handle = handle(&fixture).await;
    assert!(runs(pid_of(&handle)));
    drop(parent);
    assert_eq!(recover(&fixture, &job, &handle).await, Recovered::Gone);
    assert!(!runs(pid_of(&handle)));
    assert!(!marker.exists());
}

/// A command with a helper in the background that minds no TERM and cannot be recognised by its environment.
const WITH_HELPER: &str = "env -i /bin/sh -c 'trap \"\" TERM; echo $$; while :; do /bin/sleep 0.1; done' & while :; do sleep 0.1; done & echo $$; exec sleep 1000";

#[tokio::test]
async fn a_killed_guard_takes_its_command_along_and_wait_ends_the_group() {
    let fixture = fixture();
    let job = shell(WITH_HELPER);
    let prepared = fixture.executor.prepare(&job).await.unwrap();
    let guard = prepared.pid().to_string();
    let running = prepared.go(LONG_MS).await.unwrap();
    let pids = fixture.lines(&job, 2).await;
    assert!(pids.iter().all(|pid| runs(pid)));
    let child = fs::read_to_string(fixture.file(&job, "child")).unwrap();
    let command = pid_of(&child);
    assert!(pids.iter().any(|pid| pid == command));
    kill("KILL", &guard);
    // The kernel does that; nobody waits or recovers yet.
    until("the command dies with its guard", || !runs(command)).await;
    let end = running.wait().await.unwrap();
    assert!(!pids.iter().any(|pid| runs(pid)), "{pids:?}");
    assert_eq!((end.cause, end.detail.as_deref()), (EndCause::Abandoned, Some("the guard was killed")));
    assert!(end.output_kept_bytes > 0);
    assert!(!fs::exists(format!("/proc/{guard}")).unwrap());
}

#[tokio::test]
async fn recovery_ends_the_group_of_a_guard_that_died_with_its_executor() {
    let fixture = fixture();
    let job = shell(WITH_HELPER);
    let parent = parent(&fixture, &job, true);
    let handle = handle(&fixture).await;
    let pids = fixture.lines(&job, 2).await;
    // Frozen, so that it cannot clean up before it is killed itself.
    kill("STOP", &parent.pid());
    kill("KILL", pid_of(&handle));
    drop(parent);
    assert_eq!(recover(&fixture, &job, &handle).await, Recovered::Gone);
    assert!(!pids.iter().any(|pid| runs(pid)), "{pids:?}");
}

#[tokio::test]
async fn a_dropped_running_is_an_abandoned_command() {
    let fixture = fixture();
    let job = shell("echo $$; exec sleep 1000");
    let prepared = fixture.executor.prepare(&job).await.unwrap();
    let handle = prepared.handle().to_owned();
    let running = prepared.go(LONG_MS).await.unwrap();
    let command = fixture.lines(&job, 1).await.remove(0);
    drop(running);
    let Recovered::Ended(end) = recover(&fixture, &job, &handle).await else { panic!("no exit record") };
    assert_eq!(end.cause, EndCause::Abandoned);
    assert!(!runs(&command));
    until("the guard exits", || !runs(pid_of(&handle))).await;
    // The next attempt reaps it.
    fixture.run(&shell("exit 0")).await;
    assert!(!fs::exists(format!("/proc/{}", pid_of(&handle))).unwrap());
}

#[tokio::test]
async fn a_guard_that_died_before_go_cannot_be_let_go() {
    let fixture = fixture();
    let marker = fixture.path("ran");
    let prepared = fixture.executor.prepare(&shell(format!("touch {}", marker.display()))).await.unwrap();
    let guard = prepared.pid().to_string();
    kill("KILL", &guard);
    until("the guard dies", || !runs(&guard)).await;
    assert!(prepared.go(LONG_MS).await.is_err());
    assert!(!fs::exists(format!("/proc/{guard}")).unwrap());
    assert!(!marker.exists());
}
