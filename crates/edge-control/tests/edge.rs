//! The edge with real files, real clocks and real processes. Its guards are this program, started again.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; without a harness it says itself what it does"
)]

use std::{
    future::Future,
    path::Path,
    pin::Pin,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use edge_control::{Edge, EdgeClient, EdgeOptions, EngineEvent, EngineHandle, SqliteStore, run_if_guard};
use runtime_core::{
    StoreError,
    cron::{CronExpr, TimeZone},
    definition::{TaskSpec, TriggerSpec},
    ids::{ProjectId, RunId, TaskId, TriggerId},
    ports::{
        control::{ControlStore, StartCommand},
        definitions::{DefinitionStore, Operator, PublishCommand},
        executor::Command,
        history::{HistoryStore, RunFilter},
        runs::RunReader,
    },
    run::{AttemptStatus, Backoff, CancelReason, RetrySpec, RunStatus, Safety, TriggerType},
};

type Scenario = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

const SCENARIOS: [Scenario; 5] = [
    ("occurrences_become_runs_and_real_processes", || Box::pin(occurrences_become_runs_and_real_processes())),
    ("a_second_scheduler_is_refused", || Box::pin(a_second_scheduler_is_refused())),
    ("a_stopped_edge_leaves_work_that_the_next_start_takes_up", || Box::pin(a_stopped_edge_leaves_work_that_the_next_start_takes_up())),
    ("another_process_starts_and_cancels", || Box::pin(another_process_starts_and_cancels())),
    ("a_timeout_ends_the_whole_group", || Box::pin(a_timeout_ends_the_whole_group())),
];

fn main() -> ExitCode {
    if let Some(code) = run_if_guard() {
        return code;
    }
    let wanted = std::env::args().nth(1).filter(|arg| !arg.starts_with('-'));
    for (name, scenario) in SCENARIOS.iter().filter(|(name, _)| wanted.as_ref().is_none_or(|part| name.contains(part))) {
        println!("{name}");
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(scenario());
    }
    ExitCode::SUCCESS
}

struct Running {
    handle: EngineHandle,
    task: tokio::task::JoinHandle<Result<(), StoreError>>,
    events: Arc<Mutex<Vec<EngineEvent>>>,
}

impl Running {
    async fn stop(self) {
        self.handle.stop();
        self.task.await.unwrap().unwrap();
    }

    fn saw(&self, wanted: impl Fn(&EngineEvent) -> bool) -> bool {
        self.events.lock().unwrap().iter().any(wanted)
    }
}

fn options(dir: &Path) -> EdgeOptions {
    EdgeOptions { drain_ms: 0, kill_grace_ms: 500, ..EdgeOptions::new(dir.join("ql3.db")) }
}

async fn start(options: &EdgeOptions) -> Running {
    let events: Arc<Mutex<Vec<EngineEvent>>> = Arc::default();
    let sink = Arc::clone(&events);
    let edge = Edge::open(options, Arc::new(move |event: &EngineEvent| sink.lock().unwrap().push(event.clone()))).await.unwrap();
    let handle = edge.handle();
    Running { handle, task: tokio::spawn(edge.run(std::future::pending())), events }
}

/// A slow machine is waited for; only what never comes fails.
async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..2_400 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

async fn status_of(store: &SqliteStore, id: RunId, status: RunStatus) {
    eventually(&format!("{id} is {status}"), async || (store.run(id).await.unwrap().unwrap().status == status).then_some(())).await;
}

fn me() -> Operator {
    Operator { name: "me".into(), reason: None }
}

fn shell(id: &str, line: &str) -> TaskSpec {
    TaskSpec::new(TaskId::new(id).unwrap(), Command::Shell(line.to_owned()))
}

async fn publish(store: &SqliteStore, task: TaskSpec, cron: Option<&str>) {
    let (id, zone) = (task.id.clone(), TimeZone::parse("UTC").unwrap());
    let trigger =
        cron.map(|cron| TriggerSpec::new(TriggerId::new(id.as_str()).unwrap(), id.clone(), &CronExpr::parse(cron).unwrap(), &zone));
    let command = PublishCommand {
        project_id: ProjectId::new("default").unwrap(),
        tasks: vec![task],
        triggers: trigger.into_iter().collect(),
        archive_absent: false,
        dry_run: false,
        by: me(),
    };
    store.publish(&command).await.unwrap();
}

async fn start_run(store: &SqliteStore, task: &str) -> RunId {
    let command = StartCommand {
        project_id: ProjectId::new("default").unwrap(),
        task_id: TaskId::new(task).unwrap(),
        trigger_type: TriggerType::Manual,
        idempotency_key: None,
        by: me(),
    };
    store.start(&command).await.unwrap().run_id
}

async fn occurrences_become_runs_and_real_processes() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let edge = start(&options).await;
    let client = EdgeClient::open(&options.db).await.unwrap();
    publish(client.store(), shell("tick", "echo \"$QL3_SCHEDULED_FOR\""), Some("* * * * * *")).await;
    let filter = RunFilter { statuses: vec![RunStatus::Succeeded], ..RunFilter::default() };
    let runs = eventually("three runs succeeded", async || {
        let page = client.store().runs(&filter, None, 100).await.unwrap();
        (page.runs.len() >= 3).then_some(page.runs)
    })
    .await;
    edge.stop().await;
    let mut scheduled: Vec<_> = runs.iter().map(|item| item.run.scheduled_for.unwrap()).collect();
    scheduled.dedup();
    assert_eq!(scheduled.len(), runs.len(), "one Run an occurrence");
    for item in &runs {
        let log = std::fs::read_to_string(client.log_dir().join(item.run.id.to_string()).join("1.log")).unwrap();
        assert_eq!(log.trim(), item.run.scheduled_for.unwrap().to_string());
    }
    client.close().await;
}

async fn a_second_scheduler_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let edge = start(&options).await;
    let second = Edge::open(&options, Arc::new(|_: &EngineEvent| ())).await;
    assert!(matches!(second.err(), Some(StoreError::AlreadyRunning { .. })));
    edge.stop().await;
    let third = start(&options).await;
    third.stop().await;
}

async fn a_stopped_edge_leaves_work_that_the_next_start_takes_up() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let marker = dir.path().join("started");
    let edge = start(&options).await;
    let client = EdgeClient::open(&options.db).await.unwrap();
    // The first attempt stays for as long as it may, the second finds that it is the second.
    let line = format!("echo $$ >> {0}; test $QL3_ATTEMPT = 2 || exec sleep 600", marker.display());
    let retry = RetrySpec { max_attempts: 2, on_lost: true, safety: Safety::Idempotent, backoff: Backoff { base_ms: 0, max_ms: 0 } };
    publish(client.store(), TaskSpec { retry, ..shell("stays", &line) }, None).await;
    let id = start_run(client.store(), "stays").await;
    let pid = eventually("it runs", async || std::fs::read_to_string(&marker).ok().filter(|pid| pid.ends_with('\n'))).await;
    edge.stop().await;
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "nothing outlives the edge");
    assert_eq!(client.store().run(id).await.unwrap().unwrap().status, RunStatus::Running, "as after a kill");
    let edge = start(&options).await;
    status_of(client.store(), id, RunStatus::Succeeded).await;
    assert!(edge.saw(|event| matches!(event, EngineEvent::Settled { status: RunStatus::RetryWait, .. })));
    edge.stop().await;
    let attempts = client.store().attempts(id).await.unwrap();
    assert_eq!(attempts.iter().map(|attempt| attempt.status).collect::<Vec<_>>(), [AttemptStatus::Lost, AttemptStatus::Succeeded]);
    client.close().await;
}

async fn another_process_starts_and_cancels() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let edge = start(&options).await;
    let client = EdgeClient::open(&options.db).await.unwrap();
    publish(client.store(), shell("stays", "exec sleep 600"), None).await;
    let id = start_run(client.store(), "stays").await;
    status_of(client.store(), id, RunStatus::Running).await;
    client.store().cancel(id, CancelReason::User, &me()).await.unwrap();
    status_of(client.store(), id, RunStatus::Cancelled).await;
    edge.stop().await;
    client.close().await;
}

async fn a_timeout_ends_the_whole_group() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let marker = dir.path().join("child");
    let edge = start(&options).await;
    let client = EdgeClient::open(&options.db).await.unwrap();
    let line = format!("sleep 600 & echo $! > {}; trap '' TERM; wait", marker.display());
    publish(client.store(), TaskSpec { timeout_ms: Some(1_500), ..shell("stays", &line) }, None).await;
    let id = start_run(client.store(), "stays").await;
    status_of(client.store(), id, RunStatus::TimedOut).await;
    if let Ok(child) = std::fs::read_to_string(&marker) {
        eventually("its child is gone", async || (!Path::new("/proc").join(child.trim()).exists()).then_some(())).await;
    }
    edge.stop().await;
    client.close().await;
}
