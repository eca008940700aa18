//! The coordinator: claim what is due, decide, commit, sleep.
//!
//! Any number of schedulers may run against one store. Nothing here is elected or remembered: a claim is the right to decide about a
//! trigger for a while, and a decision depends on nothing but the claim.

mod commit;
mod evaluators;
mod summary;

use std::{sync::Arc, time::Duration};

use runtime_core::{
    MonotonicClock, StoreError, TimestampMs,
    ids::{ClaimToken, IdSource},
    limits::CLAIM_PAGE_MAX,
    ports::{runs::RunReader, schedules::ScheduleStore},
    run::AdmissionIds,
    schedule::{Action, ClaimCommand, CommitOutcome, ScheduleClaim, ScheduleCommit, Verdict},
};

pub use self::summary::CycleSummary;
use self::{evaluators::Evaluators, summary::count};
use crate::{
    ClockGuard, EngineHandle, EngineOptions, POLL_MS, Ports,
    event::{EngineEvent, Observer},
    lifecycle::Phase,
    retries::Retries,
};

/// One scheduler. Its cycles do not overlap.
pub struct Scheduler {
    store: Arc<dyn ScheduleStore>,
    runs: Arc<dyn RunReader>,
    monotonic: Arc<dyn MonotonicClock>,
    ids: Arc<dyn IdSource>,
    observer: Observer,
    clock: Arc<ClockGuard>,
    handle: EngineHandle,
    options: EngineOptions,
    evaluators: Evaluators,
    /// Size of the next page.
    page: u32,
    /// Claims that could not be given back yet: at most a page, because nothing is claimed before they are.
    unreturned: Vec<ScheduleClaim>,
    observed_at: TimestampMs,
}

impl Scheduler {
    /// A scheduler that has claimed nothing yet.
    pub fn new(ports: &Ports, clock: Arc<ClockGuard>, handle: EngineHandle, options: EngineOptions) -> Self {
        Self {
            store: Arc::clone(&ports.schedules),
            runs: Arc::clone(&ports.runs),
            monotonic: Arc::clone(&ports.monotonic),
            ids: Arc::clone(&ports.ids),
            observer: Arc::clone(&ports.observer),
            clock,
            handle,
            evaluators: Evaluators::default(),
            page: options.page,
            unreturned: Vec::new(),
            observed_at: TimestampMs::EPOCH,
            options,
        }
    }

    /// One cycle. An error leaves nothing behind but claims that end by themselves.
    pub async fn cycle(&mut self) -> Result<CycleSummary, StoreError> {
        self.give_back(Vec::new()).await?;
        let command = ClaimCommand {
            owner_id: self.options.owner_id.clone(),
            claim_token: ClaimToken::generate(self.ids.as_ref(), self.observed_at),
            lease_ms: self.options.lease_ms,
        };
        let sent_ms = self.monotonic.now_ms();
        let page = self.store.claim_due(&command, self.page).await?;
        self.observed_at = page.observed_at;
        self.page = if page.saturated { (self.page * 2).min(CLAIM_PAGE_MAX) } else { self.options.page };
        let mut summary = CycleSummary::of(&page);
        let trusted = self.clock.observe(page.observed_at, sent_ms, page.clock_mark).trusted();
        if page.claims.is_empty() {
            return Ok(summary);
        }
        if self.lapsed(sent_ms) {
            // The machine was suspended, or the answer took too long: whatever these claims allowed is over.
            summary.released = summary.claimed;
            return Ok(summary);
        }
        if !trusted || self.handle.stopping() {
            summary.released = summary.claimed;
            self.give_back(page.claims).await?;
            return Ok(summary);
        }
        let commits: Vec<_> = page.claims.into_iter().map(|claim| self.decide(claim)).collect();
        match self.commit(&commits, sent_ms).await {
            Ok(outcomes) => {
                for (commit, outcome) in commits.iter().zip(&outcomes) {
                    self.account(commit, outcome, &mut summary);
                }
                Ok(summary)
            }
            Err(error) => {
                // The failure that led here is the one to report.
                let _ = self.give_back(commits.into_iter().map(|commit| commit.claim().clone()).collect()).await;
                Err(error)
            }
        }
    }

    /// Runs cycles until the engine is asked to stop; then gives back what is left.
    pub(crate) async fn run(&mut self) -> Result<(), StoreError> {
        let mut retries = self.retries("schedule");
        while !self.handle.stopping() {
            let began_ms = self.monotonic.now_ms();
            let pause = match self.cycle().await {
                Ok(summary) => {
                    retries.succeeded();
                    if summary.claimed > 0 {
                        tracing::debug!(?summary, "cycle");
                    }
                    if summary.admitted > 0 {
                        self.handle.wake_dispatcher();
                    }
                    if summary.saturated && summary.progressed() {
                        continue;
                    }
                    let spent_ms = self.monotonic.now_ms().saturating_sub(began_ms);
                    Duration::from_millis(summary.next_due_ms.unwrap_or(POLL_MS).saturating_sub(spent_ms).min(POLL_MS))
                }
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(error) => retries.failed(&error),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.handle.scheduler_woken() => {}
                () = self.handle.reached(Phase::Drain) => {}
            }
        }
        self.give_back(Vec::new()).await
    }

    fn decide(&mut self, claim: ScheduleClaim) -> ScheduleCommit {
        let verdict = match self.evaluators.of(&claim.candidate) {
            Ok(schedule) => {
                let decision = claim.decide(&schedule, self.options.misfire_grace_ms);
                let admits = matches!(decision.action, Action::Admit { .. });
                let ids = admits.then(|| AdmissionIds::generate(self.ids.as_ref(), decision.observed_at));
                Verdict::Decided(decision, ids)
            }
            Err(unreadable) => Verdict::SetAside(unreadable.to_string()),
        };
        // A decision that does not fit its own claim is a fault of the evaluator: that trigger is set aside, the others go on.
        ScheduleCommit::new(claim.clone(), verdict).unwrap_or_else(|invalid| {
            ScheduleCommit::new(claim, Verdict::SetAside(invalid.to_string())).expect("a trigger can always be set aside")
        })
    }

    fn account(&self, commit: &ScheduleCommit, outcome: &CommitOutcome, summary: &mut CycleSummary) {
        let (candidate, observed_at) = (&commit.claim().candidate, commit.claim().acquired_at);
        let decision = match commit.verdict() {
            Verdict::Decided(decision, _) => Some(decision),
            Verdict::SetAside(_) => None,
        };
        match outcome {
            CommitOutcome::Admitted { run_id } => {
                summary.admitted += 1;
                self.tell_admitted(commit, *run_id);
            }
            // With the identity that was allocated here, the answer to the first try was lost.
            CommitOutcome::AlreadyAdmitted { run_id } if commit::allocated(commit) == Some(*run_id) => {
                summary.admitted += 1;
                self.tell_admitted(commit, *run_id);
            }
            CommitOutcome::AlreadyAdmitted { .. } => summary.already_admitted += 1,
            CommitOutcome::Initialized => summary.initialized += 1,
            CommitOutcome::Skipped => summary.skipped += 1,
            CommitOutcome::Raced => {
                summary.raced += 1;
                return;
            }
            CommitOutcome::SetAside { reason } => {
                summary.set_aside += 1;
                let (project_id, trigger_id) = (candidate.project_id.clone(), candidate.trigger.id.clone());
                (self.observer)(&EngineEvent::SetAside { project_id, trigger_id, reason: reason.clone() });
            }
        }
        if let Some(next) = decision.and_then(|decision| decision.next_fire_at) {
            summary.due_in(next.since_ms(observed_at));
        }
        // The time of recording is the store's and not told here; what was recorded is.
        if let Some(entry) = commit.ledger_entry(observed_at) {
            let (project_id, trigger_id) = (entry.project_id, entry.trigger_id);
            (self.observer)(&EngineEvent::Recorded { project_id, trigger_id, stretch: entry.stretch });
        }
    }

    fn tell_admitted(&self, commit: &ScheduleCommit, run_id: runtime_core::ids::RunId) {
        let Verdict::Decided(decision, _) = commit.verdict() else { return };
        let Action::Admit { scheduled_for } = decision.action else { return };
        let candidate = &commit.claim().candidate;
        (self.observer)(&EngineEvent::Admitted {
            run_id,
            project_id: candidate.project_id.clone(),
            task_id: candidate.task_id().clone(),
            trigger_id: candidate.trigger.id.clone(),
            scheduled_for,
            lateness_ms: decision.observed_at.since_ms(scheduled_for),
        });
    }

    /// Gives back `claims` and what could not be given back before.
    async fn give_back(&mut self, claims: Vec<ScheduleClaim>) -> Result<(), StoreError> {
        self.unreturned.extend(claims);
        if self.unreturned.is_empty() {
            return Ok(());
        }
        let released = self.store.release_claims(&self.unreturned).await?;
        tracing::debug!(released, claims = count(self.unreturned.len()), "gave claims back");
        self.unreturned.clear();
        Ok(())
    }

    /// Whether a claim asked for at `sent_ms` may have ended by now. Counts suspends.
    fn lapsed(&self, sent_ms: u64) -> bool {
        self.monotonic.now_ms().saturating_sub(sent_ms) >= self.options.lease_ms
    }

    fn retries(&self, doing: &'static str) -> Retries {
        Retries::new(doing, &self.ids, &self.observer)
    }
}
