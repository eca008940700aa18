//! An engine in virtual time: one clock drives the store's authority, the monotonic clock and tokio's timers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use runtime_core::{
    AuthorityClock, MonotonicClock, StoreError, TimestampMs,
    cron::{CronExpr, TimeZone},
    definition::{TaskSpec, TriggerSpec},
    ids::{OwnerId, ProjectId, RunId, TaskId, TriggerId, WorkerId},
    ports::{
        control::{ControlStore, StartCommand},
        definitions::{DefinitionStore, Operator, PublishCommand},
        history::{HistoryStore, RunFacts, RunFilter},
        runs::RunReader,
        schedules::ScheduleStore,
    },
    run::{Run, RunStatus, TriggerType},
    schedule::LedgerEntry,
};
use runtime_engine::{ClockGuard, Engine, EngineEvent, EngineHandle, EngineOptions, Observer, Ports, scheduler::Scheduler};
use store_contract::{FaultyStore, MemoryStore, SeededIds};
use tokio::{task::JoinHandle, time::Instant};

use crate::executor::{FakeExecutor, command};

/// 2026-01-05T12:00:00Z.
pub const NOON: i64 = 1_767_614_400_000;
/// A minute and an hour in milliseconds.
pub const MINUTE: u64 = 60_000;
pub const HOUR: i64 = 3_600_000;

pub struct SimClock {
    began: Instant,
    start_ms: i64,
    skew_ms: AtomicI64,
    suspended_ms: AtomicU64,
}

impl SimClock {
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap() + self.suspended_ms.load(Ordering::Relaxed)
    }

    /// Somebody sets the wall clock.
    pub fn step(&self, ms: i64) {
        self.skew_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// The machine sleeps: both clocks go on, timers do not.
    pub fn suspend(&self, ms: u64) {
        self.suspended_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl AuthorityClock for SimClock {
    fn now(&self) -> TimestampMs {
        let elapsed = i64::try_from(self.elapsed_ms()).unwrap();
        TimestampMs::clamped(self.start_ms + elapsed + self.skew_ms.load(Ordering::Relaxed))
    }
}

impl MonotonicClock for SimClock {
    fn now_ms(&self) -> u64 {
        1_000_000 + self.elapsed_ms()
    }
}

pub struct World {
    pub clock: Arc<SimClock>,
    /// The truth, without faults.
    pub store: MemoryStore,
    /// What the engine sees.
    pub faulty: Arc<FaultyStore<MemoryStore>>,
    pub executor: FakeExecutor,
    pub options: EngineOptions,
    /// The engine may ask the authority's clock directly, as on the edge.
    pub local_authority: bool,
    events: Arc<Mutex<Vec<EngineEvent>>>,
    ids: Arc<SeededIds>,
}

pub struct RunningEngine {
    pub handle: EngineHandle,
    task: JoinHandle<Result<(), StoreError>>,
}

impl RunningEngine {
    pub async fn stop(self) {
        self.handle.stop();
        self.ended().await.unwrap();
    }

    pub async fn ended(self) -> Result<(), StoreError> {
        self.task.await.unwrap()
    }

    /// SIGKILL: no code of the engine runs any more.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

impl World {
    /// Starts at noon.
    pub fn new() -> Self {
        Self::at(NOON)
    }

    pub fn at(start_ms: i64) -> Self {
        let clock = Arc::new(SimClock { began: Instant::now(), start_ms, skew_ms: AtomicI64::new(0), suspended_ms: AtomicU64::new(0) });
        let ids = Arc::new(SeededIds::new(7));
        let store = MemoryStore::new(clock.clone(), Arc::new(SeededIds::new(1)));
        let options = EngineOptions::new(OwnerId::new("one").unwrap(), WorkerId::new("edge").unwrap());
        Self {
            faulty: Arc::new(FaultyStore::new(Arc::new(store.clone()))),
            clock,
            store,
            executor: FakeExecutor::default(),
            options,
            local_authority: true,
            events: Arc::default(),
            ids,
        }
    }

    pub fn ports(&self) -> Ports {
        let events = Arc::clone(&self.events);
        let observer: Observer = Arc::new(move |event: &EngineEvent| events.lock().unwrap().push(event.clone()));
        Ports {
            schedules: self.faulty.clone(),
            dispatch: self.faulty.clone(),
            runs: self.faulty.clone(),
            definitions: self.faulty.clone(),
            control: self.faulty.clone(),
            executor: Arc::new(self.executor.clone()),
            monotonic: self.clock.clone(),
            authority: self.local_authority.then(|| self.clock.clone() as Arc<dyn AuthorityClock>),
            ids: self.ids.clone(),
            observer,
        }
    }

    pub fn start(&self) -> RunningEngine {
        let engine = Engine::new(self.ports(), self.options.clone()).unwrap();
        RunningEngine { handle: engine.handle(), task: tokio::spawn(engine.run()) }
    }

    /// A scheduler that the test turns by hand.
    pub fn scheduler(&self) -> (Scheduler, EngineHandle) {
        self.scheduler_over(self.faulty.clone())
    }

    /// The same over another store.
    pub fn scheduler_over(&self, schedules: Arc<dyn ScheduleStore>) -> (Scheduler, EngineHandle) {
        let ports = Ports { schedules, ..self.ports() };
        let handle = EngineHandle::new();
        let guard = ClockGuard::new(ports.monotonic.clone(), ports.authority.clone(), self.options.clock, ports.observer.clone());
        (Scheduler::new(&ports, Arc::new(guard), handle.clone(), self.options.clone()), handle)
    }

    pub async fn publish(&self, tasks: Vec<TaskSpec>, triggers: Vec<TriggerSpec>) {
        let command = PublishCommand { project_id: project(), tasks, triggers, archive_absent: false, dry_run: false, by: me() };
        self.store.publish(&command).await.unwrap();
    }

    /// A task with a trigger of the same name.
    pub async fn schedule(&self, name: &str, cron: &str) {
        self.publish(vec![task(name)], vec![trigger(name, name, cron)]).await;
    }

    /// Starts a task by hand.
    pub async fn start_run(&self, name: &str) -> RunId {
        let command = StartCommand {
            project_id: project(),
            task_id: TaskId::new(name).unwrap(),
            trigger_type: TriggerType::Manual,
            idempotency_key: None,
            by: me(),
        };
        self.store.start(&command).await.unwrap().run_id
    }

    pub async fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut after = None;
        loop {
            let page = self.store.runs(&RunFilter::default(), after, 500).await.unwrap();
            runs.extend(page.runs.into_iter().map(|item| item.run));
            after = page.next;
            if after.is_none() {
                runs.reverse();
                return runs;
            }
        }
    }

    pub async fn run(&self, id: RunId) -> Run {
        RunReader::run(&self.store, id).await.unwrap().unwrap()
    }

    pub async fn facts(&self, id: RunId) -> RunFacts {
        self.store.facts(id).await.unwrap().unwrap()
    }

    pub async fn ledger(&self, name: &str) -> Vec<LedgerEntry> {
        self.store.ledger(&project(), &TriggerId::new(name).unwrap(), TimestampMs::EPOCH, 500).await.unwrap()
    }

    pub fn events(&self) -> Vec<EngineEvent> {
        self.events.lock().unwrap().clone()
    }

    pub fn saw(&self, wanted: impl Fn(&EngineEvent) -> bool) -> bool {
        self.events().iter().any(wanted)
    }

    /// Virtual time passes; everything that is due happens.
    pub async fn pass(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Waits for a condition on stored facts, in virtual time.
    pub async fn until_status(&self, id: RunId, status: RunStatus) {
        for _ in 0..100_000 {
            if self.run(id).await.status == status {
                return;
            }
            self.pass(10).await;
        }
        panic!("{id} is {} and never became {status}: {:#?}", self.run(id).await.status, self.events());
    }

    pub async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        for _ in 0..100_000 {
            if condition() {
                return;
            }
            self.pass(10).await;
        }
        panic!("never: {what}: {:#?}", self.events());
    }
}

pub fn project() -> ProjectId {
    ProjectId::new("default").unwrap()
}

pub fn me() -> Operator {
    Operator { name: "me".into(), reason: None }
}

pub fn task(name: &str) -> TaskSpec {
    TaskSpec::new(TaskId::new(name).unwrap(), command())
}

pub fn trigger(id: &str, task: &str, cron: &str) -> TriggerSpec {
    let (cron, zone) = (CronExpr::parse(cron).unwrap(), TimeZone::parse("UTC").unwrap());
    TriggerSpec::new(TriggerId::new(id).unwrap(), TaskId::new(task).unwrap(), &cron, &zone)
}

/// Minutes and seconds after noon.
pub fn minute(n: u64) -> TimestampMs {
    TimestampMs::clamped(NOON).plus_ms(n * MINUTE)
}
