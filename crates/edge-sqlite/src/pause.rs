//! Pausing and resuming a trigger.

use runtime_core::{
    Invalid, StoreError, TimestampMs,
    cron::Schedule,
    definition::Overlap,
    ids::{ClaimToken, OwnerId},
    ports::definitions::{Missed, Operator, PauseCommand, PauseOutcome},
    run::{Actor, ActorType, AdmissionIds, ExecutorType},
    schedule::{Action, Candidate, Decision, Edit, EditKind, LedgerEntry, ScheduleClaim, ScheduleCommit, Stretch, Verdict, edit},
};

use crate::{
    claims::{candidate, unfinished_run},
    control,
    schedule_rows::{put_schedule, record, schedule, task, trigger},
    tx::Command,
    write,
};

pub(crate) fn set_paused(tx: &Command<'_>, command: &PauseCommand) -> Result<PauseOutcome, StoreError> {
    let PauseCommand { project_id, trigger_id, paused, missed, by } = command;
    let not_found = || StoreError::not_found("trigger", trigger_id);
    let head = trigger(tx.conn, project_id, trigger_id)?.filter(|head| !head.archived).ok_or_else(not_found)?;
    let row = schedule(tx.conn, project_id, trigger_id)?.ok_or_else(not_found)?;
    if row.paused.is_some() == *paused {
        return Ok(PauseOutcome { changed: false, ledger: None, admitted: None });
    }
    let task = task(tx.conn, project_id, &head.spec.task_id)?;
    let live = head.spec.enabled && task.as_ref().is_some_and(|task| !task.archived && task.spec.enabled);
    let owing = if live { head.spec.schedule().ok() } else { None };
    let kind = if *paused { EditKind::Pause { by: by.name.clone(), reason: by.reason.clone() } } else { EditKind::Resume };
    let zone_data_version = &tx.options.zone_data_version;
    let (mut edited, mut entry) = edit(&row, &Edit { kind: &kind, owing: owing.as_ref(), at: tx.at, zone_data_version });
    let mut admitted = None;
    if let (Missed::One, false, Some(kept_back), Some(schedule), Some(task)) = (missed, paused, &entry, &owing, &task) {
        let candidate = candidate(&head, task, &edited);
        if candidate.trigger.overlap != Overlap::Skip || unfinished_run(tx.conn, project_id, trigger_id)?.is_none() {
            let (run_id, rest) = catch_up(tx, candidate, kept_back, schedule, by)?;
            edited.last_scheduled_at = edited.last_scheduled_at.max(Some(kept_back.stretch.to));
            admitted = Some(run_id);
            entry = rest;
        }
    }
    put_schedule(tx.conn, &edited, live)?;
    if let Some(entry) = &entry {
        record(tx.conn, entry, row.last_scheduled_at)?;
    }
    let (act, done) = if *paused { ("pause", "paused") } else { ("resume", "resumed") };
    control::act(tx, act, Some(project_id), trigger_id.as_str(), &format!("{trigger_id} {done}"), by)?;
    Ok(PauseOutcome { changed: true, ledger: entry, admitted })
}

/// Admits the latest occurrence that the pause kept back, on the operator's account; answers what is left of the stretch.
fn catch_up(
    tx: &Command<'_>,
    candidate: Candidate,
    kept_back: &LedgerEntry,
    schedule: &Schedule,
    by: &Operator,
) -> Result<(runtime_core::ids::RunId, Option<LedgerEntry>), StoreError> {
    let Stretch { from, to, reason, .. } = kept_back.stretch;
    let commit = commit_of_one(tx, candidate, to)?;
    let admission = commit.admission(&tx.options.execution_owner, ExecutorType::LocalProcess, tx.at);
    let mut admission = admission.ok_or_else(|| Invalid::new("missed", "admits nothing"))?;
    admission.run.triggered_by = Some(by.name.clone());
    for event in &mut admission.events {
        event.actor = Actor::named(ActorType::User, &by.name);
    }
    write::admission(tx.conn, &admission)?;
    let rest = Stretch::between(schedule, from, to, reason, None).map(|stretch| LedgerEntry { stretch, ..kept_back.clone() });
    Ok((admission.run.id, rest))
}

/// The admission goes the way of the scheduler's, so that an occurrence has one key, whoever admits it.
fn commit_of_one(tx: &Command<'_>, candidate: Candidate, scheduled_for: TimestampMs) -> Result<ScheduleCommit, StoreError> {
    let claim = ScheduleClaim {
        candidate,
        owner_id: OwnerId::new("resume")?,
        token: ClaimToken::generate(tx.ids, tx.at),
        claim_version: 0,
        acquired_at: tx.at,
        expires_at: tx.at.plus_ms(1),
        unfinished_run: None,
        locator: 0,
    };
    let decision = Decision { observed_at: tx.at, action: Action::Admit { scheduled_for }, next_fire_at: None, ledger: None };
    let ids = AdmissionIds::generate(tx.ids, tx.at);
    Ok(ScheduleCommit::new(claim, Verdict::Decided(decision, Some(ids)))?)
}
