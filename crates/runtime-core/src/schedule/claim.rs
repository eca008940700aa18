//! A claim and the commit under it: who may decide about a trigger, and what becomes of the decision.

use super::{
    decision::{Action, Decision, DecisionInput},
    ledger::{LedgerEntry, Stretch},
};
use crate::{
    Invalid, TimestampMs,
    cron::Schedule,
    definition::TriggerSpec,
    digest::Digest,
    ids::{ClaimToken, OwnerId, ProjectId, RunId, TaskId},
    limits::{LEASE_MS_MAX, LEASE_MS_MIN},
    run::{Actor, ActorType, Admission, AdmissionIds, ExecutionOrigin, ExecutorType, NewRun, RetrySpec, TriggerType, occurrence_key},
};

/// Who claims, and for how long. It carries no time: the store observes its authority's clock.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimCommand {
    /// Unique per process start.
    pub owner_id: OwnerId,
    /// A new one for every page.
    pub claim_token: ClaimToken,
    /// 1000 ..= 60000.
    pub lease_ms: u64,
}

impl ClaimCommand {
    /// Checks the lease.
    pub fn check(&self) -> Result<(), Invalid> {
        if (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&self.lease_ms) {
            return Ok(());
        }
        Err(Invalid::new("leaseMs", format!("is {}, {LEASE_MS_MIN} ..= {LEASE_MS_MAX} is allowed", self.lease_ms)))
    }
}

/// A trigger that may be due, as it was when it was claimed. Every field is compared again at commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Namespace.
    pub project_id: ProjectId,
    /// The trigger; its id, expression, zone and policies.
    pub trigger: TriggerSpec,
    /// Its current revision.
    pub trigger_revision: u32,
    /// Digest of that revision.
    pub trigger_digest: Digest,
    /// The current revision of its task.
    pub task_revision: u32,
    /// Digest of that revision.
    pub task_digest: Digest,
    /// Display name of the task.
    pub task_name: String,
    /// Priority of the task.
    pub priority: i32,
    /// Retry policy of the task.
    pub retry: RetrySpec,
    /// Durable version of the schedule row under this claim.
    pub state_version: u64,
    /// See `ScheduleRow::activated_at`.
    pub activated_at: TimestampMs,
    /// See `ScheduleRow::next_fire_at`.
    pub next_fire_at: Option<TimestampMs>,
    /// See `ScheduleRow::last_scheduled_at`.
    pub last_scheduled_at: Option<TimestampMs>,
}

impl Candidate {
    /// What the trigger executes.
    pub fn task_id(&self) -> &TaskId {
        &self.trigger.task_id
    }
}

/// The right to decide about one trigger until `expires_at` by the authority's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleClaim {
    /// The trigger.
    pub candidate: Candidate,
    /// Whose claim.
    pub owner_id: OwnerId,
    /// Of which page.
    pub token: ClaimToken,
    /// Of this row.
    pub claim_version: u64,
    /// The observation that judged the row due; the decision uses it and nothing else.
    pub acquired_at: TimestampMs,
    /// `acquired_at` + lease.
    pub expires_at: TimestampMs,
    /// An unfinished Run of the trigger, looked up under the claim if its policy is to skip overlaps.
    pub unfinished_run: Option<RunId>,
    /// Where the adapter finds the row again; means nothing to anybody else.
    pub locator: u64,
}

impl ScheduleClaim {
    /// Decides about the trigger. `schedule` is the evaluator of `candidate.trigger`.
    pub fn decide(&self, schedule: &Schedule, grace_ms: u64) -> Decision {
        super::decide(&DecisionInput {
            schedule,
            misfire: self.candidate.trigger.misfire,
            overlap: self.candidate.trigger.overlap,
            unfinished_run: self.unfinished_run,
            activated_at: self.candidate.activated_at,
            next_fire_at: self.candidate.next_fire_at,
            last_scheduled_at: self.candidate.last_scheduled_at,
            observed_at: self.acquired_at,
            grace_ms,
        })
    }
}

/// One page of claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPage {
    /// The authority's clock, read once for the page.
    pub observed_at: TimestampMs,
    /// The highest authority time that was committed before; see [`crate::clock`].
    pub clock_mark: Option<TimestampMs>,
    /// Ordered by due time, project, trigger; those without a cursor last.
    pub claims: Vec<ScheduleClaim>,
    /// Until the earliest cursor that is not yet due; `None` if there is none.
    pub next_due_ms: Option<u64>,
    /// The page is full: there may be more.
    pub saturated: bool,
}

/// What is committed about a claimed trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The decision, with identities if and only if it admits.
    Decided(Decision, Option<AdmissionIds>),
    /// The trigger cannot be evaluated: it is left alone until it is edited, and delays nobody else.
    SetAside(String),
}

/// A verdict under a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleCommit {
    claim: ScheduleClaim,
    verdict: Verdict,
}

impl ScheduleCommit {
    /// Refuses a decision that was not taken from this claim.
    pub fn new(claim: ScheduleClaim, verdict: Verdict) -> Result<Self, Invalid> {
        let refuse = |reason: &str| Err(Invalid::new("decision", reason));
        if let Verdict::Decided(decision, ids) = &verdict {
            if decision.observed_at != claim.acquired_at {
                return refuse("was not taken from the claim's observation");
            }
            if decision.next_fire_at.is_some_and(|next| next <= decision.observed_at) {
                return refuse("has a cursor that is not after its observation");
            }
            match decision.action {
                Action::Admit { scheduled_for } if scheduled_for > decision.observed_at => return refuse("admits the future"),
                Action::Admit { .. } if ids.is_none() => return refuse("admits without identities"),
                Action::Initialize | Action::Skip if ids.is_some() => return refuse("has identities but admits nothing"),
                _ => {}
            }
        }
        Ok(Self { claim, verdict })
    }

    /// The claim.
    pub fn claim(&self) -> &ScheduleClaim {
        &self.claim
    }

    /// The verdict.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// The records of the admission at the commit's authority time, if the verdict admits.
    pub fn admission(&self, execution_owner: &str, executor_type: ExecutorType, at: TimestampMs) -> Option<Admission> {
        let Verdict::Decided(Decision { action: Action::Admit { scheduled_for }, .. }, Some(ids)) = &self.verdict else { return None };
        let c = &self.claim.candidate;
        let occurrence = (c.trigger.id.clone(), c.trigger_revision, c.trigger_digest.clone(), *scheduled_for);
        let run = NewRun {
            project_id: c.project_id.clone(),
            task_id: c.task_id().clone(),
            task_revision: c.task_revision,
            task_digest: c.task_digest.clone(),
            task_name: c.task_name.clone(),
            priority: c.priority,
            retry: c.retry,
            idempotency_key: Some(occurrence_key(&c.trigger.id, c.trigger_revision, *scheduled_for)),
            occurrence: Some(occurrence),
            trigger_type: TriggerType::Cron,
            execution_origin: ExecutionOrigin::ScheduledSystem,
            execution_owner: execution_owner.to_owned(),
            executor_type,
            triggered_by: None,
            request_id: None,
            retry_of_run_id: None,
            actor: Actor::named(ActorType::Scheduler, self.claim.owner_id.as_str()),
        };
        Some(run.admit(ids, at))
    }

    /// The ledger entry of the decision at the commit's authority time. A collapsed stretch names the Run that stands for it.
    pub fn ledger_entry(&self, at: TimestampMs) -> Option<LedgerEntry> {
        let Verdict::Decided(decision, ids) = &self.verdict else { return None };
        let stretch = decision.ledger.clone()?;
        let c = &self.claim.candidate;
        Some(LedgerEntry {
            project_id: c.project_id.clone(),
            trigger_id: c.trigger.id.clone(),
            trigger_revision: c.trigger_revision,
            stretch: Stretch { run_id: ids.map(|ids| ids.run).or(stretch.run_id), ..stretch },
            recorded_at: at,
        })
    }
}

/// What became of a commit, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The Run is durable.
    Admitted {
        /// Which.
        run_id: RunId,
    },
    /// A Run with this key and identical facts was durable before; only the cursor moved.
    AlreadyAdmitted {
        /// Which.
        run_id: RunId,
    },
    /// The cursor is durable.
    Initialized,
    /// The ledger entry is durable.
    Skipped,
    /// The claim was not valid any more: expired, edited, taken over. Nothing was written.
    Raced,
    /// The trigger is left alone until it is edited.
    SetAside {
        /// Why.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_command_carries_no_time() {
        let good = r#"{"ownerId":"a","claimToken":"0199c5f4-7b1e-7c3d-8f00-0123456789ab","leaseMs":30000}"#;
        let command: ClaimCommand = serde_json::from_str(good).unwrap();
        assert!(command.check().is_ok());
        let timed = good.replace('}', r#","observedAtMs":1}"#);
        assert!(serde_json::from_str::<ClaimCommand>(&timed).unwrap_err().to_string().contains("observedAtMs"));
        assert!(ClaimCommand { lease_ms: 999, ..command.clone() }.check().is_err());
        assert!(ClaimCommand { lease_ms: 60_001, ..command }.check().is_err());
    }
}
