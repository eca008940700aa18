//! A database with many triggers whose cursors are set, and the scheduler's cycle on it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use edge_control::RandomIds;
use edge_sqlite::{Authority, SqliteOptions, SqliteStore};
use runtime_core::{
    TimestampMs,
    cron::{CronExpr, TimeZone},
    definition::{TaskSpec, TriggerSpec},
    ids::{ClaimToken, OwnerId, ProjectId, TaskId, TriggerId},
    limits::{CLAIM_PAGE_MAX, LEASE_MS_DEFAULT, MISFIRE_GRACE_MS_DEFAULT},
    ports::{
        definitions::{DefinitionStore, Operator, PublishCommand},
        executor::Command,
        schedules::ScheduleStore,
    },
    run::AdmissionIds,
    schedule::{Action, ClaimCommand, CommitOutcome, ScheduleClaim, ScheduleCommit, Verdict},
};
use store_contract::ManualClock;

/// Triggers in one set: what publishing a set costs grows faster than the set.
const PUBLISHED_AT_ONCE: usize = 5_000;

/// Where the clock stands when the seed is written: 30 s before the next minute.
pub fn start() -> TimestampMs {
    store_contract::start()
}

/// An open database under a clock that stands still.
pub struct Place {
    pub store: SqliteStore,
    pub clock: Arc<ManualClock>,
    ids: Arc<RandomIds>,
    owner: OwnerId,
}

impl Place {
    pub async fn open(path: &Path, at: TimestampMs) -> Self {
        let (clock, ids) = (Arc::new(ManualClock::new(at)), Arc::new(RandomIds::default()));
        let authority = Authority { clock: clock.clone(), ids: ids.clone() };
        let store = SqliteStore::open_or_create(SqliteOptions::new(path), authority).await.unwrap();
        store.become_scheduler().await.unwrap();
        Self { store, clock, ids, owner: OwnerId::new("bench").unwrap() }
    }

    /// One cycle as the engine does it: claim, decide, commit. Answers how many Runs were admitted and how many rows were claimed.
    pub async fn cycle(&self, page: u32) -> (usize, usize) {
        let claims = self.claim(page).await;
        if claims.is_empty() {
            return (0, 0);
        }
        let claimed = claims.len();
        let commits = claims.into_iter().map(|claim| self.decide(claim)).collect();
        let outcomes = self.store.commit(commits).await.unwrap();
        let admitted = outcomes.iter().filter(|outcome| matches!(outcome, CommitOutcome::Admitted { .. })).count();
        (admitted, claimed)
    }

    pub async fn claim(&self, page: u32) -> Vec<ScheduleClaim> {
        let at = runtime_core::AuthorityClock::now(&*self.clock);
        let claim_token = ClaimToken::generate(&*self.ids, at);
        let command = ClaimCommand { owner_id: self.owner.clone(), claim_token, lease_ms: LEASE_MS_DEFAULT };
        self.store.claim_due(&command, page).await.unwrap().claims
    }

    fn decide(&self, claim: ScheduleClaim) -> ScheduleCommit {
        // The engine keeps parsed schedules; parsing here counts against the figure.
        let decision = claim.decide(&claim.candidate.trigger.schedule().unwrap(), MISFIRE_GRACE_MS_DEFAULT);
        let admits = matches!(decision.action, Action::Admit { .. });
        let ids = admits.then(|| AdmissionIds::generate(&*self.ids, decision.observed_at));
        ScheduleCommit::new(claim, Verdict::Decided(decision, ids)).unwrap()
    }
}

/// Writes a database with so many triggers of one expression, each with its cursor, and closes it.
pub async fn write(folder: &Path, triggers: usize, cron: &str) -> PathBuf {
    let path = folder.join("seed.db");
    let place = Place::open(&path, start()).await;
    let task = TaskSpec::new(TaskId::new("job").unwrap(), Command::Argv(vec!["true".to_owned()]));
    let (cron, zone) = (CronExpr::parse(cron).unwrap(), TimeZone::parse("UTC").unwrap());
    let trigger = |n| TriggerSpec::new(TriggerId::new(format!("job-{n:06}")).unwrap(), task.id.clone(), &cron, &zone);
    let specs: Vec<TriggerSpec> = (0..triggers).map(trigger).collect();
    for part in specs.chunks(PUBLISHED_AT_ONCE) {
        let set = PublishCommand {
            project_id: ProjectId::new("default").unwrap(),
            triggers: part.to_vec(),
            tasks: vec![task.clone()],
            archive_absent: false,
            dry_run: false,
            by: Operator { name: "bench".to_owned(), reason: None },
        };
        place.store.publish(&set).await.unwrap();
    }
    let mut initialized = 0;
    while initialized < triggers {
        let (admitted, claimed) = place.cycle(CLAIM_PAGE_MAX).await;
        assert!(admitted == 0 && claimed > 0, "{initialized} of {triggers} cursors are set");
        initialized += claimed;
    }
    place.store.close().await;
    path
}

/// A runtime like the program's own.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
