//! Claiming what is due and committing what was decided about it.

use async_trait::async_trait;
use runtime_core::{
    StoreError,
    cron::zone_data_version,
    definition::Overlap,
    limits::{CLAIM_PAGE_MAX, SUMMARY_BYTES_MAX},
    ports::schedules::{MovedCursor, ScheduleStore},
    run::{Admission, Run},
    schedule::{
        Action, Candidate, ClaimCommand, ClaimPage, CommitOutcome, Decision, ScheduleClaim, ScheduleCommit, ScheduleRow, SetAside, Verdict,
        refresh_zone,
    },
};

use super::{Facts, MemoryStore, TriggerKey, Turn, check_page, page};

impl Facts {
    /// A trigger as its claim shows it; `None` if it is archived or its task does not exist.
    pub(super) fn candidate(&self, key: &TriggerKey) -> Option<Candidate> {
        let head = self.trigger(key).filter(|head| !head.archived)?;
        let task = self.task(&key.0, &head.spec.task_id)?;
        let row = self.schedules.get(key)?;
        Some(Candidate {
            project_id: key.0.clone(),
            trigger: head.spec.clone(),
            trigger_revision: head.revision,
            trigger_digest: head.digest.clone(),
            task_revision: task.revision,
            task_digest: task.digest.clone(),
            task_name: task.spec.display_name().to_owned(),
            priority: task.spec.priority,
            retry: task.spec.retry,
            state_version: row.state_version,
            activated_at: row.activated_at,
            next_fire_at: row.next_fire_at,
            last_scheduled_at: row.last_scheduled_at,
        })
    }

    pub(super) fn schedulable(&self, key: &TriggerKey, row: &ScheduleRow) -> bool {
        let live = self.trigger(key).is_some_and(|head| !head.archived && head.spec.enabled && self.task_live(head));
        live && row.paused.is_none() && row.set_aside.is_none()
    }
}

impl Turn<'_> {
    fn claimable(&self, key: &TriggerKey, row: &ScheduleRow) -> bool {
        let free = self.claims.get(key).is_none_or(|claim| claim.expires_at <= self.now);
        free && row.updated_at <= self.now && self.facts.schedulable(key, row)
    }

    fn claim_due(&mut self, command: &ClaimCommand, limit: u32) -> ClaimPage {
        let mut answer =
            ClaimPage { observed_at: self.now, clock_mark: self.facts.clock_mark, claims: vec![], next_due_ms: None, saturated: false };
        if self.behind() {
            return answer;
        }
        let claimable: Vec<(TriggerKey, ScheduleRow)> = self
            .facts
            .schedules
            .iter()
            .filter(|(key, row)| self.claimable(key, row))
            .map(|(key, row)| (key.clone(), row.clone()))
            .collect();
        let mut due: Vec<_> = claimable.iter().filter(|(_, row)| row.next_fire_at.is_some_and(|at| at <= self.now)).collect();
        due.sort_by_key(|(key, row)| (row.next_fire_at, key));
        let new: Vec<_> = claimable.iter().filter(|(_, row)| row.next_fire_at.is_none()).collect();
        let room = page(limit);
        let quota = if due.is_empty() { room } else { room / 4 };
        let wanted = due.len() + new.len();
        due.truncate(room);
        let left = room - due.len();
        let page: Vec<TriggerKey> = due.into_iter().chain(new.into_iter().take(quota.min(left))).map(|(key, _)| key.clone()).collect();
        answer.saturated = page.len() == room || page.len() < wanted;
        answer.claims = page.iter().filter_map(|key| self.claim_trigger(key, command)).collect();
        let cursors = self.facts.schedules.iter().filter(|(key, row)| self.facts.schedulable(key, row));
        let next = cursors.filter_map(|(_, row)| row.next_fire_at).filter(|at| *at > self.now).min();
        answer.next_due_ms = next.map(|at| at.since_ms(self.now));
        answer
    }

    fn claim_trigger(&mut self, key: &TriggerKey, command: &ClaimCommand) -> Option<ScheduleClaim> {
        let candidate = self.facts.candidate(key)?;
        let overlap = candidate.trigger.overlap;
        let unfinished_run = self.facts.unfinished_run(key).filter(|_| overlap == Overlap::Skip);
        let row = self.facts.schedules.get_mut(key)?;
        row.claim_version += 1;
        let claim = ScheduleClaim {
            candidate,
            owner_id: command.owner_id.clone(),
            token: command.claim_token,
            claim_version: row.claim_version,
            acquired_at: self.now,
            expires_at: self.now.plus_ms(command.lease_ms),
            unfinished_run,
            locator: 0,
        };
        self.claims.insert(key.clone(), claim.clone());
        Some(claim)
    }

    /// Whether it is the claim that was given out, unexpired, of a row that is as it was then.
    fn holds(&self, key: &TriggerKey, claim: &ScheduleClaim) -> bool {
        let row = self.facts.schedules.get(key);
        self.claims.get(key) == Some(claim)
            && self.now < claim.expires_at
            && self.facts.candidate(key).as_ref() == Some(&claim.candidate)
            && row.is_some_and(|row| row.claim_version == claim.claim_version && self.facts.schedulable(key, row))
    }

    fn commit(&mut self, commit: &ScheduleCommit) -> Result<CommitOutcome, StoreError> {
        let claim = commit.claim();
        let key = (claim.candidate.project_id.clone(), claim.candidate.trigger.id.clone());
        if !self.holds(&key, claim) {
            return Ok(CommitOutcome::Raced);
        }
        match commit.verdict() {
            Verdict::SetAside(reason) => Ok(self.set_aside(&key, reason)),
            Verdict::Decided(decision, _) => self.decided(&key, commit, decision),
        }
    }

    fn decided(&mut self, key: &TriggerKey, commit: &ScheduleCommit, decision: &Decision) -> Result<CommitOutcome, StoreError> {
        let admission = commit.admission(&self.shared.execution_owner, self.shared.executor_type, self.now);
        let taken = admission.as_ref().and_then(|admission| self.key_holder(&admission.run)).cloned();
        let outcome = match (&admission, &taken) {
            (Some(Admission { run, .. }), Some(other)) if !same_facts(run, other) => {
                return Ok(
                    self.set_aside(key, &format!("the key of the occurrence is taken by the Run {}, which has other facts", other.id))
                );
            }
            (_, Some(other)) => CommitOutcome::AlreadyAdmitted { run_id: other.id },
            (Some(admission), None) => {
                self.facts.admit(admission)?;
                CommitOutcome::Admitted { run_id: admission.run.id }
            }
            (None, None) if decision.action == Action::Skip => CommitOutcome::Skipped,
            (None, None) => CommitOutcome::Initialized,
        };
        let (now, Some(row)) = (self.now, self.facts.schedules.get_mut(key)) else { return Ok(CommitOutcome::Raced) };
        let before = row.clone();
        row.next_fire_at = decision.next_fire_at;
        if let Action::Admit { scheduled_for } = decision.action {
            row.last_scheduled_at = row.last_scheduled_at.max(Some(scheduled_for));
        }
        if decision.next_fire_at.is_none() {
            row.set_aside = Some(SetAside { at: now, reason: "no further occurrence".to_owned() });
        }
        row.state_version += 1;
        zone_data_version().clone_into(&mut row.zone_data_version);
        row.updated_at = now;
        self.claims.remove(key);
        if let Some(mut entry) = commit.ledger_entry(now) {
            if let Some(other) = &taken {
                entry.stretch.run_id = Some(other.id);
            }
            self.facts.record(&entry, &before);
        }
        Ok(outcome)
    }

    fn key_holder(&self, run: &Run) -> Option<&Run> {
        self.facts.runs.values().find(|other| (&other.project_id, &other.idempotency_key) == (&run.project_id, &run.idempotency_key))
    }

    fn set_aside(&mut self, key: &TriggerKey, reason: &str) -> CommitOutcome {
        let reason = reason[..reason.floor_char_boundary(SUMMARY_BYTES_MAX)].to_owned();
        if let Some(row) = self.facts.schedules.get_mut(key) {
            row.set_aside = Some(SetAside { at: self.now, reason: reason.clone() });
            row.state_version += 1;
            row.updated_at = self.now;
        }
        self.claims.remove(key);
        CommitOutcome::SetAside { reason }
    }

    fn refresh_zone_data(&mut self, version: &str, limit: u32) -> (Vec<MovedCursor>, bool) {
        let stale = self.facts.schedules.iter().filter(|(_, row)| row.zone_data_version != version);
        let stale: Vec<(TriggerKey, ScheduleRow)> = stale.map(|(key, row)| (key.clone(), row.clone())).take(page(limit)).collect();
        let mut moved = Vec::new();
        for (key, row) in &stale {
            let schedule = self.facts.trigger(key).and_then(|head| head.spec.schedule().ok());
            let refreshed = match schedule {
                Some(schedule) => refresh_zone(row, &schedule, self.now, version),
                // It cannot be evaluated, so its cursor says nothing; but it need not be looked at again.
                None => ScheduleRow { zone_data_version: version.to_owned(), ..row.clone() },
            };
            if let (Some(from), Some(to)) = (row.next_fire_at, refreshed.next_fire_at)
                && from != to
            {
                moved.push(MovedCursor { project_id: key.0.clone(), trigger_id: key.1.clone(), from, to });
            }
            self.facts.schedules.insert(key.clone(), refreshed);
        }
        (moved, stale.len() == page(limit))
    }
}

/// What two admissions of one occurrence have in common, whoever made them and when.
fn same_facts(a: &Run, b: &Run) -> bool {
    let facts = |run: &Run| {
        let task = (run.task_id.clone(), run.task_revision, run.task_digest.clone());
        (run.trigger_id.clone(), run.trigger_revision, run.trigger_digest.clone(), run.scheduled_for, task)
    };
    facts(a) == facts(b)
}

#[async_trait]
impl ScheduleStore for MemoryStore {
    async fn claim_due(&self, command: &ClaimCommand, page: u32) -> Result<ClaimPage, StoreError> {
        command.check()?;
        check_page(page, CLAIM_PAGE_MAX)?;
        // A claim is no fact: it does not raise the mark.
        self.turn(|turn| Ok(turn.claim_due(command, page))).await
    }

    async fn commit(&self, commits: Vec<ScheduleCommit>) -> Result<Vec<CommitOutcome>, StoreError> {
        self.write(|turn| {
            if let Some(early) = commits.iter().find(|commit| turn.now < commit.claim().acquired_at) {
                let cause = format!("the clock shows {}, before the claim was taken at {}", turn.now, early.claim().acquired_at);
                return Err(StoreError::Unavailable { cause });
            }
            commits.iter().map(|commit| turn.commit(commit)).collect()
        })
        .await
    }

    async fn release_claims(&self, claims: &[ScheduleClaim]) -> Result<u64, StoreError> {
        self.turn(|turn| {
            let mut released = 0;
            for claim in claims {
                let key = (claim.candidate.project_id.clone(), claim.candidate.trigger.id.clone());
                if turn.holds(&key, claim) {
                    turn.claims.remove(&key);
                    released += 1;
                }
            }
            Ok(released)
        })
        .await
    }

    async fn refresh_zone_data(&self, zone_data_version: &str, page: u32) -> Result<(Vec<MovedCursor>, bool), StoreError> {
        check_page(page, CLAIM_PAGE_MAX)?;
        self.write(|turn| Ok(turn.refresh_zone_data(zone_data_version, page))).await
    }
}
