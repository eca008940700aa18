//! An executor whose commands do as the test says, in virtual time, and which notices what must never happen.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use runtime_core::{
    ids::{AttemptId, RunId},
    ports::executor::{Command, EndCause, Executor, ExecutorError, Job, Prepared, ProcessEnd, Recovered, Running},
};
use tokio::{sync::watch, time::Instant};

/// What a command does.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// Exits with `code` after `ms`.
    Exits { ms: u64, code: i32 },
    /// Dies of a signal after `ms`.
    Dies { ms: u64, signal: i32 },
    /// Runs until it is stopped.
    Stays,
    /// Runs until it is killed: it ignores TERM.
    Defies,
    /// Like `Defies`, and its guard does not notice that its lease has ended.
    Outstays,
    /// There is no such program.
    CannotStart,
    /// The guard cannot be started.
    NoGuard,
    /// Its guard is killed after `ms`.
    GuardDies { ms: u64 },
    /// Like `Exits`, but its guard takes `prepare_ms` to get ready.
    Slow { prepare_ms: u64 },
}

/// What the executor was asked to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Prepared(AttemptId),
    /// A guard was dropped before the order to start.
    Dropped(AttemptId),
    Go {
        attempt: AttemptId,
        lease_ms: u64,
    },
    Extended(AttemptId),
    Stopped {
        attempt: AttemptId,
        grace_ms: u64,
    },
    Ended(AttemptId),
}

#[derive(Default)]
struct World {
    scripts: HashMap<String, Vec<Does>>,
    asked: Vec<Asked>,
    /// What runs now.
    running: HashMap<AttemptId, RunId>,
    records: HashMap<AttemptId, ProcessEnd>,
    unproven: HashMap<RunId, String>,
    jobs: Vec<Job>,
    most_at_once: usize,
}

#[derive(Clone, Default)]
pub struct FakeExecutor(Arc<Mutex<World>>);

impl FakeExecutor {
    /// The n-th attempt of `task` does the n-th thing, later ones the last.
    pub fn script(&self, task: &str, does: impl IntoIterator<Item = Does>) {
        self.world().scripts.insert(task.to_owned(), does.into_iter().collect());
    }

    /// Recovery cannot prove anything about this Run.
    pub fn cannot_prove(&self, run_id: RunId) {
        self.world().unproven.insert(run_id, "its group cannot be examined".to_owned());
    }

    pub fn can_prove(&self, run_id: RunId) {
        self.world().unproven.remove(&run_id);
    }

    /// The guard's record was not written, or not kept.
    pub fn forget_records(&self) {
        self.world().records.clear();
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.world().asked.clone()
    }

    pub fn jobs(&self) -> Vec<Job> {
        self.world().jobs.clone()
    }

    pub fn running(&self) -> usize {
        self.world().running.len()
    }

    pub fn most_at_once(&self) -> usize {
        self.world().most_at_once
    }

    /// How many commands were let go.
    pub fn started(&self) -> usize {
        self.world().asked.iter().filter(|asked| matches!(asked, Asked::Go { .. })).count()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, asked: Asked) {
        self.world().asked.push(asked);
    }

    fn does(&self, job: &Job) -> Does {
        let world = self.world();
        if job.attempt == 0 {
            return Does::Exits { ms: 5, code: 0 };
        }
        let script = world.scripts.get(job.task_id.as_str()).cloned().unwrap_or_default();
        let nth = usize::try_from(job.attempt - 1).unwrap();
        script.get(nth).or(script.last()).copied().unwrap_or(Does::Exits { ms: 10, code: 0 })
    }
}

#[async_trait]
impl Executor for FakeExecutor {
    async fn prepare(&self, job: &Job) -> Result<Box<dyn Prepared>, ExecutorError> {
        let does = self.does(job);
        match does {
            Does::NoGuard => return Err(ExecutorError { what: "start guard".into(), cause: "no memory".into() }),
            Does::Slow { prepare_ms } => tokio::time::sleep(Duration::from_millis(prepare_ms)).await,
            _ => {}
        }
        self.ask(Asked::Prepared(job.attempt_id));
        self.world().jobs.push(job.clone());
        Ok(Box::new(Guard {
            executor: self.clone(),
            job: job.clone(),
            does,
            handle: format!("guard-of-{}", job.attempt_id),
            let_go: false,
        }))
    }

    async fn recover(
        &self,
        run_id: RunId,
        attempt_id: AttemptId,
        _attempt: u32,
        _handle: Option<&str>,
    ) -> Result<Recovered, ExecutorError> {
        let world = self.world();
        if let Some(reason) = world.unproven.get(&run_id) {
            return Ok(Recovered::Unproven(reason.clone()));
        }
        assert!(!world.running.contains_key(&attempt_id), "a command outlived its guard's pipe");
        Ok(world.records.get(&attempt_id).cloned().map_or(Recovered::Gone, Recovered::Ended))
    }
}

struct Guard {
    executor: FakeExecutor,
    job: Job,
    does: Does,
    handle: String,
    let_go: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.let_go {
            self.executor.ask(Asked::Dropped(self.job.attempt_id));
        }
    }
}

#[async_trait]
impl Prepared for Guard {
    fn pid(&self) -> u32 {
        4_711
    }

    fn handle(&self) -> &str {
        &self.handle
    }

    async fn go(mut self: Box<Self>, lease_ms: u64) -> Result<Box<dyn Running>, ExecutorError> {
        self.let_go = true;
        let Job { attempt_id, run_id, .. } = self.job;
        self.executor.ask(Asked::Go { attempt: attempt_id, lease_ms });
        let mut world = self.executor.world();
        if self.job.attempt > 0 {
            assert!(!world.running.values().any(|running| *running == run_id), "two attempts of one Run at once");
        }
        world.running.insert(attempt_id, run_id);
        world.most_at_once = world.most_at_once.max(world.running.len());
        drop(world);
        let now = Instant::now();
        let orders = Orders { deadline: now + Duration::from_millis(lease_ms), term: None, kill: None };
        Ok(Box::new(Process {
            executor: self.executor.clone(),
            attempt_id,
            does: self.does,
            began: now,
            orders: watch::Sender::new(orders),
        }))
    }
}

#[derive(Clone, Copy)]
struct Orders {
    deadline: Instant,
    term: Option<Instant>,
    kill: Option<Instant>,
}

struct Process {
    executor: FakeExecutor,
    attempt_id: AttemptId,
    does: Does,
    began: Instant,
    orders: watch::Sender<Orders>,
}

impl Process {
    fn end(&self, end: &ProcessEnd) {
        let mut world = self.executor.world();
        if world.running.remove(&self.attempt_id).is_some() {
            world.asked.push(Asked::Ended(self.attempt_id));
            // A guard that was killed wrote no record.
            if !(matches!(self.does, Does::GuardDies { .. }) && end.cause == EndCause::Abandoned) {
                world.records.insert(self.attempt_id, end.clone());
            }
        }
    }

    /// When and how it ends, as things stand.
    fn fate(&self, orders: Orders) -> (Instant, ProcessEnd) {
        let after = |ms| self.began + Duration::from_millis(ms);
        let own = match self.does {
            Does::Exits { ms, code } => Some((after(ms), exited(Some(code), None))),
            Does::Slow { .. } => Some((after(10), exited(Some(0), None))),
            Does::Dies { ms, signal } => Some((after(ms), exited(None, Some(signal)))),
            Does::CannotStart => {
                Some((after(1), ProcessEnd { detail: Some("no such program".into()), ..ended(EndCause::SpawnFailed, None) }))
            }
            Does::GuardDies { ms } => Some((after(ms), ended(EndCause::Abandoned, Some(9)))),
            Does::Stays | Does::Defies | Does::Outstays | Does::NoGuard => None,
        };
        let stop = if matches!(self.does, Does::Defies | Does::Outstays) { orders.kill } else { orders.term };
        let stopped = stop.map(|at| (at, ended(EndCause::Stopped, Some(15))));
        let abandoned = (!matches!(self.does, Does::Outstays)).then(|| (orders.deadline, ended(EndCause::Abandoned, Some(9))));
        let never = (self.began + Duration::from_hours(24), ended(EndCause::Abandoned, None));
        [own, stopped, abandoned].into_iter().flatten().chain([never]).min_by_key(|(at, _)| *at).unwrap()
    }
}

impl Drop for Process {
    /// The pipe closes: the guard ends its command.
    fn drop(&mut self) {
        self.end(&ended(EndCause::Abandoned, Some(9)));
    }
}

fn exited(exit_code: Option<i32>, signal: Option<i32>) -> ProcessEnd {
    ProcessEnd { exit_code, ..ended(EndCause::Exited, signal) }
}

fn ended(cause: EndCause, signal: Option<i32>) -> ProcessEnd {
    ProcessEnd { cause, exit_code: None, signal, detail: None, output_kept_bytes: 0, output_dropped_bytes: 0 }
}

#[async_trait]
impl Running for Process {
    async fn wait(&self) -> Result<ProcessEnd, ExecutorError> {
        let mut orders = self.orders.subscribe();
        loop {
            let (at, end) = self.fate(*orders.borrow_and_update());
            tokio::select! {
                () = tokio::time::sleep_until(at) => {
                    self.end(&end);
                    return Ok(end);
                }
                _ = orders.changed() => {}
            }
        }
    }

    fn extend(&self, lease_ms: u64) {
        self.executor.ask(Asked::Extended(self.attempt_id));
        self.orders.send_modify(|orders| orders.deadline = Instant::now() + Duration::from_millis(lease_ms));
    }

    fn stop(&self, grace_ms: u64) {
        self.executor.ask(Asked::Stopped { attempt: self.attempt_id, grace_ms });
        self.orders.send_modify(|orders| {
            let now = Instant::now();
            let kill = now + Duration::from_millis(grace_ms);
            orders.term.get_or_insert(now);
            orders.kill = Some(orders.kill.map_or(kill, |before| before.min(kill)));
        });
    }
}

/// A command for a task; what it does is scripted by the task's name.
pub fn command() -> Command {
    Command::Argv(vec!["work".into()])
}
