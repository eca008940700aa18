//! Executing Runs: sessions and leases.

use async_trait::async_trait;
use runtime_core::{
    Invalid, StoreError, TimestampMs,
    digest::Digest,
    ids::{AttemptId, RunId, SessionId, WorkerId},
    limits::CLAIM_PAGE_MAX,
    ports::dispatch::{
        DispatchClaim, DispatchPage, DispatchStore, Evidence, Expired, Fenced, Lease, LeaseFence, OpenLease, Renewal, Session, check_lease,
    },
    run::{Actor, ActorType, AttemptOutcome, AttemptStatus, Command, EventType, Run, RunAttempt, RunState, RunStatus, Started, decide},
};

use super::{
    MemoryStore, Turn, check_page,
    leases::{LeaseRow, LeaseState, SessionRow, matches},
    page,
};

/// Follows from the request, so that a replay answers with the same one and nobody keeps it.
fn token(claim: &DispatchClaim, attempt: &RunAttempt, generation: u64) -> String {
    Digest::of(format!("{}:{}:{generation}", claim.request_id, attempt.id).as_bytes()).to_string()
}

impl Turn<'_> {
    /// Carries a command out and answers with the state of the Run after it.
    pub(super) fn carry(&mut self, run_id: RunId, command: &Command, actor: &Actor) -> Result<RunStatus, StoreError> {
        let state = self.facts.run_state(run_id).ok_or_else(|| StoreError::not_found("run", run_id))?;
        self.carry_from(&state, command, actor)
    }

    fn carry_from(&mut self, state: &RunState, command: &Command, actor: &Actor) -> Result<RunStatus, StoreError> {
        let mut status = state.run.status;
        for transition in decide(state, command, actor, self.now, self.ids())? {
            status = transition.run.run.status;
            // Nobody else writes during this turn, so a compare-and-set from what was just read wins.
            self.facts.transition(&transition)?;
        }
        Ok(status)
    }

    fn close_lease(&mut self, attempt_id: AttemptId, state: LeaseState) {
        if let Some(lease) = self.facts.leases.get_mut(&attempt_id) {
            lease.state = state;
        }
    }

    fn dispatch(&mut self, claim: &DispatchClaim) -> Result<DispatchPage, StoreError> {
        self.facts.check_current(&claim.session)?;
        let mut answer = DispatchPage { observed_at: self.now, leases: vec![], next_retry_ms: None, saturated: false };
        if self.behind() {
            return Ok(answer);
        }
        let request = Digest::of(claim.request_id.to_string().as_bytes());
        let made = |lease: &LeaseRow| lease.session == claim.session && lease.request == request;
        let replayed = self.facts.leases.values().any(made);
        if !replayed {
            self.queue_retries()?;
            self.lease_page(claim, &request)?;
        }
        let held = self.facts.open_leases().filter(|(_, lease)| made(lease) && self.now < lease.expires_at);
        answer.leases = held.filter_map(|(id, lease)| self.lease(claim, &self.facts.attempts[id], lease)).collect();
        answer.leases.sort_by_key(|lease| dispatch_order(&lease.run));
        answer.saturated = answer.leases.len() == page(claim.slots);
        let waiting = self.facts.policies.values().filter_map(|policy| policy.next_attempt_at).filter(|at| *at > self.now);
        answer.next_retry_ms = waiting.min().map(|at| at.since_ms(self.now));
        Ok(answer)
    }

    /// Queues the retries that have become due.
    fn queue_retries(&mut self) -> Result<(), StoreError> {
        let mut due: Vec<(TimestampMs, RunId)> =
            self.facts.policies.values().filter_map(|policy| Some((policy.next_attempt_at?, policy.run_id))).collect();
        due.retain(|(at, _)| *at <= self.now);
        due.sort_unstable();
        for (_, run_id) in due.into_iter().take(page(CLAIM_PAGE_MAX)) {
            self.carry(run_id, &Command::Requeue, &Actor::of(ActorType::Scheduler))?;
        }
        Ok(())
    }

    fn lease_page(&mut self, claim: &DispatchClaim, request: &Digest) -> Result<(), StoreError> {
        let waits = |run: &&Run| run.status == RunStatus::Queued && run.cancel_requested_at.is_none();
        let mut waiting: Vec<Run> = self.facts.runs.values().filter(waits).cloned().collect();
        waiting.sort_by_key(dispatch_order);
        let mut slots = claim.slots;
        for run in waiting {
            if slots == 0 {
                break;
            }
            let known = self.facts.task_at(&run.project_id, &run.task_id, run.task_revision).is_some();
            if !known || self.facts.at_limit(&run.project_id, &run.task_id) {
                continue;
            }
            let Some(state) = self.facts.run_state(run.id) else { continue };
            let generation = self.facts.leases.get(&state.attempt.id).map_or(1, |lease| lease.generation + 1);
            let (token, expires_at) = (Digest::of(token(claim, &state.attempt, generation).as_bytes()), self.now.plus_ms(claim.lease_ms));
            let worker_id = claim.session.worker_id.clone();
            let actor = Actor::named(ActorType::Worker, worker_id.as_str());
            let command = Command::Dispatch { worker_id, lease_token: token.clone(), lease_expires_at: expires_at };
            self.carry_from(&state, &command, &actor)?;
            let lease = LeaseRow {
                session: claim.session.clone(),
                run_id: run.id,
                generation,
                token,
                request: request.clone(),
                acquired_at: self.now,
                expires_at,
                state: LeaseState::Open,
            };
            self.facts.leases.insert(state.attempt.id, lease);
            slots -= 1;
        }
        Ok(())
    }

    fn lease(&self, claim: &DispatchClaim, attempt: &RunAttempt, lease: &LeaseRow) -> Option<Lease> {
        let run = self.facts.runs.get(&lease.run_id)?.clone();
        let task = self.facts.task_at(&run.project_id, &run.task_id, run.task_revision)?.spec.clone();
        let fence = LeaseFence {
            session: claim.session.clone(),
            attempt_id: attempt.id,
            run_id: run.id,
            lease_generation: lease.generation,
            token: token(claim, attempt, lease.generation),
        };
        Some(Lease { fence, run, attempt: attempt.clone(), task, expires_at: lease.expires_at })
    }

    fn started(&mut self, fence: &LeaseFence, started: &Started, timeout_ms: Option<u64>) -> Result<Fenced<RunAttempt>, StoreError> {
        let held = self.facts.fenced(fence).is_some_and(|lease| self.now < lease.expires_at);
        let Some(state) = self.facts.run_state(fence.run_id).filter(|_| held) else { return Ok(Fenced::Stale) };
        let attempt = &state.attempt;
        if attempt.status == AttemptStatus::Running && attempt.executor_handle.as_deref() == Some(&started.executor_handle) {
            // The answer to the first one was lost.
            return Ok(Fenced::Applied(attempt.clone()));
        }
        let actor = Actor::named(ActorType::Worker, fence.session.worker_id.as_str());
        if state.run.cancel_requested_at.is_some() {
            self.carry_from(&state, &Command::Release { reason: "cancelled".to_owned() }, &actor)?;
            self.close_lease(fence.attempt_id, LeaseState::Taken);
            return Ok(Fenced::Stale);
        }
        let deadline_at = timeout_ms.map(|ms| self.now.plus_ms(ms));
        self.carry_from(&state, &Command::Start(Started { deadline_at, ..started.clone() }), &actor)?;
        Ok(Fenced::Applied(self.facts.attempts[&fence.attempt_id].clone()))
    }

    fn renew(&mut self, session: &Session, fences: &[LeaseFence], lease_ms: u64) -> Renewal {
        let mut answer = Renewal::default();
        if self.behind() {
            return answer;
        }
        for fence in fences {
            let held = self.facts.fenced(fence).is_some_and(|lease| &fence.session == session && self.now < lease.expires_at);
            let (true, Some(lease)) = (held, self.facts.leases.get_mut(&fence.attempt_id)) else {
                answer.lost.push(fence.attempt_id);
                continue;
            };
            lease.expires_at = self.now.plus_ms(lease_ms);
            if let Some(attempt) = self.facts.attempts.get_mut(&fence.attempt_id) {
                attempt.lease_expires_at = Some(lease.expires_at);
            }
            answer.renewed.push(fence.attempt_id);
            if self.facts.runs.get(&fence.run_id).is_some_and(|run| run.cancel_requested_at.is_some()) {
                answer.cancel_requested.push(fence.attempt_id);
            }
        }
        answer
    }

    fn finish(&mut self, fence: &LeaseFence, outcome: &AttemptOutcome) -> Result<Fenced<RunStatus>, StoreError> {
        if self.facts.fenced(fence).is_none() {
            self.record_late(fence, outcome)?;
            return Ok(Fenced::Stale);
        }
        let actor = Actor::named(ActorType::Worker, fence.session.worker_id.as_str());
        let status = self.carry(fence.run_id, &Command::Finish(outcome.clone()), &actor)?;
        self.close_lease(fence.attempt_id, LeaseState::Finished);
        Ok(Fenced::Applied(status))
    }

    /// Records a result that came after somebody else had ended the attempt, once.
    fn record_late(&mut self, fence: &LeaseFence, outcome: &AttemptOutcome) -> Result<(), StoreError> {
        let lease = self.facts.leases.get(&fence.attempt_id).filter(|lease| matches(lease, fence));
        let attempt = self.facts.attempts.get(&fence.attempt_id).filter(|attempt| attempt.status.is_final());
        let (Some(lease), Some(attempt)) = (lease, attempt) else { return Ok(()) };
        let is_late = |kind, id| kind == EventType::LateCallbackIgnored && id == Some(attempt.id);
        let recorded = self.facts.events_of(fence.run_id, 0).any(|event| is_late(event.kind, event.attempt_id));
        if lease.state == LeaseState::Finished || recorded {
            return Ok(());
        }
        let Some(state) = self.facts.run_state(fence.run_id) else { return Ok(()) };
        let state = RunState { attempt: attempt.clone(), ..state };
        let actor = Actor::named(ActorType::Worker, fence.session.worker_id.as_str());
        self.carry_from(&state, &Command::RecordLateCallback(outcome.clone()), &actor)?;
        Ok(())
    }

    fn expire(&mut self, limit: u32) -> Result<Expired, StoreError> {
        let mut answer = Expired::default();
        if self.behind() {
            return Ok(answer);
        }
        let over = self.facts.open_leases().filter(|(_, lease)| lease.expires_at <= self.now);
        let mut over: Vec<_> = over.map(|(id, lease)| (lease.expires_at, *id, lease.run_id)).collect();
        over.sort_unstable();
        over.truncate(page(limit));
        answer.saturated = over.len() == page(limit);
        for (expired_at, attempt_id, run_id) in over {
            let summary = format!("its lease ended at {expired_at} without a result");
            let command = Command::Lose { error_code: "lease_expired".to_owned(), summary };
            let status = self.carry(run_id, &command, &Actor::of(ActorType::Reconciler))?;
            self.close_lease(attempt_id, LeaseState::Taken);
            answer.lost.push((attempt_id, run_id, status));
        }
        Ok(answer)
    }

    fn earlier_leases(&self, session: &Session, limit: u32) -> Vec<OpenLease> {
        let earlier = |lease: &LeaseRow| lease.session.worker_id == session.worker_id && lease.session.generation < session.generation;
        let mut rows: Vec<_> = self.facts.open_leases().filter(|(_, lease)| earlier(lease)).collect();
        rows.sort_by_key(|(id, lease)| (lease.acquired_at, **id));
        let open = |(id, lease): (&AttemptId, &LeaseRow)| OpenLease {
            session: lease.session.clone(),
            run: self.facts.runs[&lease.run_id].clone(),
            attempt: self.facts.attempts[id].clone(),
            lease_generation: lease.generation,
        };
        rows.into_iter().take(page(limit)).map(open).collect()
    }

    fn settle(&mut self, session: &Session, lease: &OpenLease, evidence: &Evidence) -> Result<Fenced<RunStatus>, StoreError> {
        let id = lease.attempt.id;
        let same = |row: &LeaseRow| row.session == lease.session && row.generation == lease.lease_generation;
        let earlier = lease.session.worker_id == session.worker_id && lease.session.generation < session.generation;
        let open = self.facts.open_leases().any(|(attempt, row)| *attempt == id && same(row));
        if !(open && earlier) {
            return Ok(Fenced::Stale);
        }
        let actor = Actor::named(ActorType::Reconciler, session.worker_id.as_str());
        let run_id = lease.run.id;
        let (status, state) = match evidence {
            Evidence::NeverStarted => {
                let release = Command::Release { reason: "never started".to_owned() };
                (self.carry(run_id, &release, &actor)?, LeaseState::Released)
            }
            Evidence::Finished(outcome) => (self.carry(run_id, &Command::Finish(outcome.clone()), &actor)?, LeaseState::Taken),
            Evidence::Gone { summary } => {
                let command = Command::Lose { error_code: "worker_restarted".to_owned(), summary: summary.clone() };
                (self.carry(run_id, &command, &actor)?, LeaseState::Taken)
            }
        };
        self.close_lease(id, state);
        Ok(Fenced::Applied(status))
    }
}

fn dispatch_order(run: &Run) -> (std::cmp::Reverse<i32>, Option<TimestampMs>, RunId) {
    (std::cmp::Reverse(run.priority), run.queued_at, run.id)
}

#[async_trait]
impl DispatchStore for MemoryStore {
    async fn open_session(&self, worker_id: &WorkerId, session_id: SessionId, _capacity: u32) -> Result<Session, StoreError> {
        self.write(|turn| {
            let last = turn.facts.sessions.get(worker_id);
            if let Some(row) = last.filter(|row| row.session.session_id == session_id && !row.closed) {
                return Ok(row.session.clone());
            }
            let generation = last.map_or(1, |row| row.session.generation + 1);
            let session = Session { worker_id: worker_id.clone(), session_id, generation };
            turn.facts.sessions.insert(worker_id.clone(), SessionRow { session: session.clone(), closed: false });
            Ok(session)
        })
        .await
    }

    async fn close_session(&self, session: &Session) -> Result<(), StoreError> {
        self.write(|turn| {
            if !turn.facts.current(session) {
                return Ok(());
            }
            let held = turn.facts.open_leases().filter(|(_, lease)| &lease.session == session).count();
            if held > 0 {
                return Err(Invalid::new("session", format!("still holds {held} leases")).into());
            }
            if let Some(row) = turn.facts.sessions.get_mut(&session.worker_id) {
                row.closed = true;
            }
            Ok(())
        })
        .await
    }

    async fn claim(&self, claim: &DispatchClaim) -> Result<DispatchPage, StoreError> {
        claim.check()?;
        self.write(|turn| turn.dispatch(claim)).await
    }

    async fn started(&self, fence: &LeaseFence, started: &Started, timeout_ms: Option<u64>) -> Result<Fenced<RunAttempt>, StoreError> {
        self.write(|turn| turn.started(fence, started, timeout_ms)).await
    }

    async fn renew(&self, session: &Session, fences: &[LeaseFence], lease_ms: u64) -> Result<Renewal, StoreError> {
        check_lease(lease_ms)?;
        self.write(|turn| Ok(turn.renew(session, fences, lease_ms))).await
    }

    async fn finish(&self, fence: &LeaseFence, outcome: &AttemptOutcome) -> Result<Fenced<RunStatus>, StoreError> {
        self.write(|turn| turn.finish(fence, outcome)).await
    }

    async fn release(&self, fence: &LeaseFence, reason: &str) -> Result<Fenced<()>, StoreError> {
        self.write(|turn| {
            if turn.facts.fenced(fence).is_none() {
                return Ok(Fenced::Stale);
            }
            let actor = Actor::named(ActorType::Worker, fence.session.worker_id.as_str());
            turn.carry(fence.run_id, &Command::Release { reason: reason.to_owned() }, &actor)?;
            turn.close_lease(fence.attempt_id, LeaseState::Released);
            Ok(Fenced::Applied(()))
        })
        .await
    }

    async fn expire(&self, page: u32) -> Result<Expired, StoreError> {
        check_page(page, CLAIM_PAGE_MAX)?;
        self.write(|turn| turn.expire(page)).await
    }

    async fn earlier_leases(&self, session: &Session, page: u32) -> Result<Vec<OpenLease>, StoreError> {
        check_page(page, CLAIM_PAGE_MAX)?;
        self.write(|turn| {
            turn.facts.check_current(session)?;
            Ok(turn.earlier_leases(session, page))
        })
        .await
    }

    async fn settle(&self, session: &Session, lease: &OpenLease, evidence: &Evidence) -> Result<Fenced<RunStatus>, StoreError> {
        self.write(|turn| {
            turn.facts.check_current(session)?;
            turn.settle(session, lease, evidence)
        })
        .await
    }
}
