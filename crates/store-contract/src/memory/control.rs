//! What operators do to Runs.

use async_trait::async_trait;
use runtime_core::{
    Invalid, StoreError, TimestampMs,
    definition::{Head, TaskSpec},
    ids::RunId,
    limits::LIST_PAGE_MAX,
    ports::{
        control::{CancelOutcome, ControlStore, OperatorAct, StartCommand, StartOutcome},
        definitions::Operator,
    },
    run::{Actor, ActorType, AdmissionIds, CancelReason, Command, IllegalTransition, NewRun, RunStatus, TriggerType, check_caller_key},
};

use super::{MemoryStore, Turn, check_page, page};

impl Turn<'_> {
    fn new_run(&self, task: &Head<TaskSpec>, trigger_type: TriggerType, by: &Operator) -> NewRun {
        NewRun::asked_for(task, trigger_type, &by.name, &self.shared.execution_owner, self.shared.executor_type)
    }

    fn admit_new(&mut self, new: NewRun) -> Result<RunId, StoreError> {
        let ids = AdmissionIds::generate(self.ids(), self.now);
        self.facts.admit(&new.admit(&ids, self.now))?;
        Ok(ids.run)
    }

    fn start(&mut self, command: &StartCommand) -> Result<StartOutcome, StoreError> {
        let StartCommand { project_id, task_id, trigger_type, idempotency_key, by } = command;
        let first = self.facts.runs.values().find(|run| run.project_id == *project_id && run.idempotency_key == *idempotency_key);
        if let Some(first) = first.filter(|_| idempotency_key.is_some()) {
            if first.task_id != *task_id {
                return Err(StoreError::DuplicateIdempotencyKey);
            }
            return Ok(StartOutcome { run_id: first.id, created: false });
        }
        let task = self.facts.task(project_id, task_id).filter(|task| !task.archived);
        let task = task.ok_or_else(|| StoreError::not_found("task", task_id))?.clone();
        if !task.spec.enabled {
            return Err(Invalid::new("task", format!("`{task_id}` is disabled")).into());
        }
        let new = NewRun { idempotency_key: idempotency_key.clone(), ..self.new_run(&task, *trigger_type, by) };
        let run_id = self.admit_new(new)?;
        self.act("start", Some(project_id), task_id.as_str(), format!("run {run_id}"), by);
        Ok(StartOutcome { run_id, created: true })
    }

    fn cancel(&mut self, run_id: RunId, reason: CancelReason, by: &Operator) -> Result<CancelOutcome, StoreError> {
        let run = self.facts.runs.get(&run_id).cloned().ok_or_else(|| StoreError::not_found("run", run_id))?;
        if run.status.is_final() {
            return Ok(CancelOutcome::AlreadyFinal(run.status));
        }
        if run.cancel_requested_at.is_some() {
            return Ok(CancelOutcome::AlreadyRequested);
        }
        let command = Command::RequestCancel { reason, note: by.reason.clone() };
        let status = self.carry(run_id, &command, &Actor::named(ActorType::User, &by.name))?;
        self.act("cancel", Some(&run.project_id), &run_id.to_string(), reason.to_string(), by);
        Ok(if status == RunStatus::Cancelled { CancelOutcome::Cancelled } else { CancelOutcome::Requested })
    }

    fn retry(&mut self, run_id: RunId, by: &Operator) -> Result<RunId, StoreError> {
        let state = self.facts.run_state(run_id).ok_or_else(|| StoreError::not_found("run", run_id))?;
        let run = state.run;
        if !run.status.is_final() {
            return Err(IllegalTransition { run: run.status, attempt: state.attempt.status, command: "be retried" }.into());
        }
        let task = self.facts.task_at(&run.project_id, &run.task_id, run.task_revision);
        let task = task.ok_or_else(|| StoreError::not_found("task", &run.task_id))?.clone();
        let new = NewRun { retry_of_run_id: Some(run_id), ..self.new_run(&task, TriggerType::Retry, by) };
        let new_id = self.admit_new(new)?;
        self.act("retry", Some(&run.project_id), &run_id.to_string(), format!("run {new_id}"), by);
        Ok(new_id)
    }

    fn accept_clock(&mut self, by: &Operator) -> Option<TimestampMs> {
        let before = self.facts.clock_mark;
        let later: Vec<_> = self.facts.schedules.iter().filter(|(_, row)| row.updated_at > self.now).map(|(key, _)| key.clone()).collect();
        for key in later {
            self.claims.remove(&key);
            if let Some(row) = self.facts.schedules.get_mut(&key) {
                // Only the stamp: cursor, activation and latest admission never go back.
                row.updated_at = self.now;
                row.state_version += 1;
                row.claim_version += 1;
            }
        }
        for policy in self.facts.policies.values_mut().filter(|policy| policy.updated_at > self.now) {
            if let Some(next) = policy.next_attempt_at {
                // The delay stays what it was.
                policy.next_attempt_at = Some(self.now.plus_ms(next.since_ms(policy.updated_at)));
                policy.version += 1;
                policy.updated_at = self.now;
            }
        }
        let shown = before.map_or_else(|| "none".to_owned(), |mark| mark.to_string());
        self.act("clock_accept", None, "clock", format!("the mark was {shown}"), by);
        self.facts.clock_mark = Some(self.now);
        before
    }
}

#[async_trait]
impl ControlStore for MemoryStore {
    async fn start(&self, command: &StartCommand) -> Result<StartOutcome, StoreError> {
        command.by.check()?;
        command.idempotency_key.as_deref().map_or(Ok(()), check_caller_key)?;
        if !matches!(command.trigger_type, TriggerType::Manual | TriggerType::Api) {
            return Err(Invalid::new("trigger_type", format!("is {}, manual or api is allowed", command.trigger_type)).into());
        }
        self.write(|turn| turn.start(command)).await
    }

    async fn cancel(&self, run_id: RunId, reason: CancelReason, by: &Operator) -> Result<CancelOutcome, StoreError> {
        by.check()?;
        self.write(|turn| turn.cancel(run_id, reason, by)).await
    }

    async fn retry(&self, run_id: RunId, by: &Operator) -> Result<RunId, StoreError> {
        by.check()?;
        self.write(|turn| turn.retry(run_id, by)).await
    }

    async fn accept_clock(&self, by: &Operator) -> Result<Option<TimestampMs>, StoreError> {
        by.check()?;
        // Not `write`: this is the one command that may lower the mark.
        self.turn(|turn| Ok(turn.accept_clock(by))).await
    }

    async fn clock_mark(&self) -> Result<Option<TimestampMs>, StoreError> {
        Ok(self.read(|facts| facts.clock_mark))
    }

    async fn acts(&self, limit: u32) -> Result<Vec<OperatorAct>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        Ok(self.read(|facts| facts.acts.iter().rev().take(page(limit)).cloned().collect()))
    }
}
