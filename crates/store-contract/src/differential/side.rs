//! One store under the commands, with what it has answered so far.

use std::sync::Arc;

use runtime_core::{
    TimestampMs,
    ids::{ClaimToken, OwnerId, ProjectId, RequestId, RunId, SessionId, TaskId, TriggerId, WorkerId},
    limits::LIST_PAGE_MAX,
    ports::{
        control::{OperatorAct, StartCommand},
        definitions::{Operator, PauseCommand, PublishCommand},
        dispatch::{DispatchClaim, Evidence, Lease, Session},
        history::{RunFilter, TriggerItem},
    },
    run::{AdmissionIds, AttemptOutcome, AttemptResult, Started, TriggerType},
    schedule::{Action, ClaimCommand, ScheduleClaim, ScheduleCommit, ScheduleRow, Verdict},
};

use super::{
    command::{Command, How, Say},
    text::answer,
};
use crate::{Fixture, SeededIds, Store, start};

const GRACE_MS: u64 = 120_000;
const LEASE_MS: u64 = 30_000;

pub(super) struct Side<F> {
    fixture: F,
    store: Arc<dyn Store>,
    ids: SeededIds,
    now: TimestampMs,
    claims: Vec<ScheduleClaim>,
    commits: Vec<ScheduleCommit>,
    sessions: Vec<Session>,
    requests: Vec<DispatchClaim>,
    leases: Vec<Lease>,
}

/// The item of that place, counted from the newest.
fn newest<T: Clone>(items: &[T], pick: u64) -> Option<T> {
    let len = items.len() as u64;
    let back = pick.checked_rem(len)?;
    items.get(usize::try_from(len - 1 - back).ok()?).cloned()
}

fn project() -> ProjectId {
    ProjectId::new("default").expect("letters")
}

fn by() -> Operator {
    Operator { name: "ada".to_owned(), reason: None }
}

fn trigger(id: &str) -> TriggerId {
    TriggerId::new(id).expect("letters")
}

impl<F: Fixture> Side<F> {
    pub(super) async fn fresh() -> Self {
        let fixture = F::fresh().await;
        Self {
            store: fixture.store(),
            fixture,
            ids: SeededIds::new(9),
            now: start(),
            claims: vec![],
            commits: vec![],
            sessions: vec![],
            requests: vec![],
            leases: vec![],
        }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Carries the command out and answers with the store's answer as text.
    pub(super) async fn apply(&mut self, command: &Command) -> String {
        match command {
            Command::Elapse { .. } | Command::StepBack { .. } | Command::AcceptClock => self.clock(command).await,
            Command::Publish { .. } | Command::Archive { .. } | Command::Pause { .. } => self.define(command).await,
            Command::Cycle { page } => {
                let before = self.claims.len();
                let claimed = self.schedule(&Command::ClaimDue { page: *page }).await;
                let picks = (0..self.claims.len() - before).map(|place| (place as u64, Say::Decided)).collect();
                claimed + &self.schedule(&Command::Commit { picks }).await
            }
            Command::ClaimDue { .. } | Command::Commit { .. } | Command::ReleaseClaims { .. } | Command::RefreshZone { .. } => {
                self.schedule(command).await
            }
            Command::Work { session, slots } => {
                let before = self.leases.len();
                let mut said = self.execute(&Command::Dispatch { session: *session, slots: *slots }).await;
                for place in 0..self.leases.len() - before {
                    said += &self.execute(&Command::Started { lease: place as u64, timeout: false }).await;
                }
                said
            }
            Command::Start { .. } | Command::Cancel { .. } | Command::Retry { .. } => self.control(command).await,
            Command::List { .. } | Command::Trigger { .. } | Command::Overview => self.read(command).await,
            _ => self.execute(command).await,
        }
    }

    async fn clock(&mut self, command: &Command) -> String {
        self.now = match command {
            Command::Elapse { ms } => self.now.plus_ms(*ms),
            Command::StepBack { ms } => self.now.minus_ms(*ms),
            _ => return answer(self.store.accept_clock(&by()).await),
        };
        self.fixture.set_clock(self.now).await;
        self.now.to_string()
    }

    async fn define(&mut self, command: &Command) -> String {
        match command {
            Command::Publish { tasks, triggers, archive_absent, dry_run } => {
                let command = PublishCommand {
                    project_id: project(),
                    tasks: tasks.clone(),
                    triggers: triggers.clone(),
                    archive_absent: *archive_absent,
                    dry_run: *dry_run,
                    by: by(),
                };
                answer(self.store.publish(&command).await)
            }
            Command::Archive { key } => answer(self.store.archive(&project(), std::slice::from_ref(key), &by()).await),
            Command::Pause { trigger: id, paused, missed } => {
                let command = PauseCommand { project_id: project(), trigger_id: trigger(id), paused: *paused, missed: *missed, by: by() };
                answer(self.store.set_paused(&command).await)
            }
            other => unreachable!("{other:?} defines nothing"),
        }
    }

    async fn schedule(&mut self, command: &Command) -> String {
        match command {
            Command::ClaimDue { page } => {
                let claim_token = ClaimToken::generate(&self.ids, self.now);
                let owner_id = OwnerId::new("scheduler").expect("letters");
                let page = self.store.claim_due(&ClaimCommand { owner_id, claim_token, lease_ms: LEASE_MS }, *page).await;
                let shown = page.clone().map(|mut page| {
                    for claim in &mut page.claims {
                        // The adapter's own.
                        (claim.claim_version, claim.locator) = (0, 0);
                    }
                    page
                });
                self.claims.extend(page.into_iter().flat_map(|page| page.claims));
                answer(shown)
            }
            Command::Commit { picks } => {
                let mut seen = Vec::new();
                let mut commits: Vec<ScheduleCommit> = Vec::new();
                for (pick, say) in picks {
                    let commit = self.commit(*pick, *say);
                    // One commit a trigger and page, as a scheduler does it.
                    if let Some(commit) = commit.filter(|commit| !seen.contains(&commit.claim().candidate.trigger.id)) {
                        seen.push(commit.claim().candidate.trigger.id.clone());
                        commits.push(commit);
                    }
                }
                self.commits.extend(commits.iter().cloned());
                answer(self.store.commit(commits).await)
            }
            Command::ReleaseClaims { picks } => {
                let claims: Vec<_> = picks.iter().filter_map(|pick| newest(&self.claims, *pick)).collect();
                answer(self.store.release_claims(&claims).await)
            }
            Command::RefreshZone { version, page } => answer(self.store.refresh_zone_data(&format!("2099{version}"), *page).await),
            other => unreachable!("{other:?} schedules nothing"),
        }
    }

    fn commit(&self, pick: u64, say: Say) -> Option<ScheduleCommit> {
        if let Say::Again = say {
            return newest(&self.commits, pick);
        }
        let claim = newest(&self.claims, pick)?;
        let verdict = match (say, claim.candidate.trigger.schedule()) {
            (Say::Decided, Ok(schedule)) => {
                let decision = claim.decide(&schedule, GRACE_MS);
                let admits = matches!(decision.action, Action::Admit { .. });
                let ids = admits.then(|| AdmissionIds::generate(&self.ids, claim.acquired_at));
                Verdict::Decided(decision, ids)
            }
            _ => Verdict::SetAside("by chance".to_owned()),
        };
        Some(ScheduleCommit::new(claim, verdict).expect("decided from this claim"))
    }

    async fn execute(&mut self, command: &Command) -> String {
        match command {
            Command::OpenSession { worker } => {
                let session_id = SessionId::generate(&self.ids, self.now);
                let opened = self.store.open_session(&WorkerId::new(*worker).expect("letters"), session_id, 64).await;
                self.sessions.extend(opened.clone());
                answer(opened)
            }
            Command::CloseSession { pick } => match newest(&self.sessions, *pick) {
                Some(session) => answer(self.store.close_session(&session).await),
                None => String::new(),
            },
            Command::Dispatch { session, slots } => {
                let Some(session) = newest(&self.sessions, *session) else { return String::new() };
                let request_id = RequestId::generate(&self.ids, self.now);
                let claim = DispatchClaim { session, slots: *slots, lease_ms: LEASE_MS, request_id };
                self.requests.push(claim.clone());
                let page = self.store.claim(&claim).await;
                self.leases.extend(page.iter().flat_map(|page| page.leases.clone()));
                answer(page)
            }
            Command::Replay { pick } => match newest(&self.requests, *pick) {
                Some(claim) => answer(self.store.claim(&claim).await),
                None => String::new(),
            },
            Command::Expire { page } => answer(self.store.expire(*page).await),
            Command::Settle { session, how } => self.settle(*session, *how).await,
            _ => self.hold(command).await,
        }
    }

    /// What the holder of a lease does.
    async fn hold(&mut self, command: &Command) -> String {
        if let Command::Renew { session, leases } = command {
            let Some(session) = newest(&self.sessions, *session) else { return String::new() };
            let mut fences: Vec<_> = leases.iter().filter_map(|pick| newest(&self.leases, *pick)).map(|lease| lease.fence).collect();
            fences.sort_by_key(|fence| (fence.attempt_id, fence.lease_generation));
            fences.dedup_by_key(|fence| fence.attempt_id);
            return answer(self.store.renew(&session, &fences, LEASE_MS).await);
        }
        let (Command::Started { lease: pick, .. } | Command::Finish { lease: pick, .. } | Command::Release { lease: pick }) = command
        else {
            unreachable!("{command:?} is not about a lease")
        };
        let Some(lease) = newest(&self.leases, *pick) else { return String::new() };
        match command {
            Command::Started { timeout, .. } => {
                let handle = format!("pid:17 attempt:{}", lease.attempt.attempt);
                let started = Started { executor_handle: handle, pid: 17, deadline_at: None, log_artifact_id: None };
                answer(self.store.started(&lease.fence, &started, timeout.then_some(90_000)).await)
            }
            Command::Finish { outcome, .. } => answer(self.store.finish(&lease.fence, outcome).await),
            _ => answer(self.store.release(&lease.fence, "by chance").await),
        }
    }

    async fn settle(&mut self, pick: u64, how: How) -> String {
        let Some(session) = newest(&self.sessions, pick) else { return String::new() };
        let open = match self.store.earlier_leases(&session, 256).await {
            Ok(open) => open,
            Err(error) => return answer::<()>(Err(error)),
        };
        let Some(lease) = open.first() else { return answer(Ok(open)) };
        let evidence = match how {
            How::NeverStarted => Evidence::NeverStarted,
            How::Finished => {
                let failed = AttemptResult::Failed;
                Evidence::Finished(AttemptOutcome { result: failed, exit_code: Some(1), error_code: None, error_summary: None })
            }
            How::Gone => Evidence::Gone { summary: "by chance".to_owned() },
        };
        let settled = self.store.settle(&session, lease, &evidence).await;
        format!("{open:?} {}", answer(settled))
    }

    async fn runs(&self) -> Vec<RunId> {
        self.store.run_ids(None, LIST_PAGE_MAX).await.expect("ids are readable")
    }

    async fn control(&mut self, command: &Command) -> String {
        match command {
            Command::Start { task, key } => {
                let command = StartCommand {
                    project_id: project(),
                    task_id: TaskId::new(*task).expect("letters"),
                    trigger_type: TriggerType::Manual,
                    idempotency_key: key.map(|key| format!("key-{key}")),
                    by: by(),
                };
                answer(self.store.start(&command).await)
            }
            Command::Cancel { run, reason } => match newest(&self.runs().await, *run) {
                Some(run) => answer(self.store.cancel(run, *reason, &by()).await),
                None => String::new(),
            },
            Command::Retry { run } => match newest(&self.runs().await, *run) {
                Some(run) => answer(self.store.retry(run, &by()).await),
                None => String::new(),
            },
            other => unreachable!("{other:?} controls nothing"),
        }
    }

    async fn read(&self, command: &Command) -> String {
        match command {
            Command::List { limit } => self.lists(*limit).await,
            Command::Trigger { trigger: id } => {
                let shown = |item: TriggerItem| TriggerItem { schedule: ScheduleRow { claim_version: 0, ..item.schedule }, ..item };
                let item = self.store.trigger(&project(), &trigger(id)).await.map(|item| item.map(shown));
                let ledger = self.store.ledger(&project(), &trigger(id), start(), LIST_PAGE_MAX).await;
                let runs = self.store.occurrences(&project(), &trigger(id), start(), self.now, LIST_PAGE_MAX).await;
                let runs = runs.map(|runs| runs.into_iter().map(|run| (run.id, run.scheduled_for)).collect::<Vec<_>>());
                format!("{} {} {}", answer(item), answer(ledger), answer(runs))
            }
            _ => answer(self.store.overview().await),
        }
    }

    async fn lists(&self, limit: u32) -> String {
        let page = self.store.runs(&RunFilter::default(), None, limit).await;
        let page = page.map(|page| {
            let shown: Vec<_> = page.runs.iter().map(|item| (item.run.id, item.run.status, item.attempts, item.run.version)).collect();
            (shown, page.next)
        });
        let acts = self.store.acts(limit).await.map(|acts| {
            let shown = acts.into_iter().map(|OperatorAct { at, by, act, project_id, .. }| (at, by, act, project_id));
            shown.collect::<Vec<_>>()
        });
        let cancellations = self.store.cancellations(self.now, limit).await.map(|runs| runs.iter().map(|run| run.id).collect::<Vec<_>>());
        let tasks = self.store.tasks(&project(), None, limit).await;
        format!("{} {} {} {}", answer(page), answer(acts), answer(cancellations), answer(tasks))
    }
}
