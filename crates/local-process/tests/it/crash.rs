//! SIGKILL of the executor's process and of guards.

use std::{env, fs, path::Path, process::Command, time::Duration};

use local_process::LocalProcess;
use runtime_core::ports::executor::{EndCause, Executor, Job, Recovered};

use crate::support::{Bystander, Fixture, LONG_MS, fixture, job, kill, options, runs, shell, until};

const HANDLE: &str = "handle";

/// Starts a process that prepares `job` in an executor of its own, and lets it go if asked to.
fn parent(fixture: &Fixture, job: &Job, go: bool) -> Bystander {
    let runtime_core::ports::executor::Command::Shell(line) = &job.command else { panic!("only shell jobs") };
    Bystander::start(
        Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "crash::parent_process"])
            .env("TEST_DIR", fixture.dir.path())
            .env("TEST_IDS", format!("{} {}", job.run_id, job.attempt_id))
            .env("TEST_LINE", line)
            .env("TEST_GO", if go { "yes" } else { "no" })
            // What an outer attempt would have left in the environment.
            .env("QL3_TRIGGER_ID", "outer"),
    )
}

#[tokio::test]
#[ignore = "not a case: the process that the cases here start and kill"]
async fn parent_process() {
    let var = |name| env::var(name).expect("started by a case");
    let dir = var("TEST_DIR");
    let dir = Path::new(&dir);
    let ids = var("TEST_IDS");
    let (run_id, attempt_id) = ids.split_once(' ').unwrap();
    let mut job = job(runtime_core::ports::executor::Command::Shell(var("TEST_LINE")));
    job.run_id = run_id.parse().unwrap();
    job.attempt_id = attempt_id.parse().unwrap();
    let prepared = LocalProcess::new(options(&dir.join("logs"))).prepare(&job).await.unwrap();
    fs::write(dir.join("handle.tmp"), prepared.handle()).unwrap();
    fs::rename(dir.join("handle.tmp"), dir.join(HANDLE)).unwrap();
    if var("TEST_GO") == "yes" {
        prepared.go(LONG_MS).await.unwrap().wait().await.unwrap();
    } else {
        tokio::time::sleep(Duration::from_millis(LONG_MS)).await;
    }
}

async fn handle(fixture: &Fixture) -> String {
    until("the parent prepares", || fixture.path(HANDLE).exists()).await;
    fs::read_to_string(fixture.path(HANDLE)).unwrap()
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
