//! Publishing definitions, and pausing triggers.

use async_trait::async_trait;
use runtime_core::{
    Invalid, StoreError,
    cron::{Schedule, zone_data_version},
    definition::{Change, DefinitionKey, DefinitionKind, Head, Heads, Overlap, Plan, TaskSpec, TriggerSpec, plan},
    ids::{ClaimToken, OwnerId, ProjectId, RunId, TaskId},
    ports::{
        control::OperatorAct,
        definitions::{DefinitionStore, Missed, Operator, PauseCommand, PauseOutcome, PublishCommand, Published},
    },
    run::{Actor, ActorType, AdmissionIds},
    schedule::{Action, Decision, Edit, EditKind, LedgerEntry, ScheduleClaim, ScheduleCommit, ScheduleRow, Stretch, Verdict, edit},
};

use super::{Facts, MemoryStore, TriggerKey, Turn};

impl Facts {
    pub(super) fn task(&self, project_id: &ProjectId, task_id: &TaskId) -> Option<&Head<TaskSpec>> {
        self.tasks.get(&(project_id.clone(), task_id.clone()))?.last()
    }

    pub(super) fn task_at(&self, project_id: &ProjectId, task_id: &TaskId, revision: u32) -> Option<&Head<TaskSpec>> {
        self.tasks.get(&(project_id.clone(), task_id.clone()))?.iter().find(|head| head.revision == revision)
    }

    pub(super) fn trigger(&self, key: &TriggerKey) -> Option<&Head<TriggerSpec>> {
        self.triggers.get(key)?.last()
    }

    pub(super) fn task_live(&self, head: &Head<TriggerSpec>) -> bool {
        self.task(&head.project_id, &head.spec.task_id).is_some_and(|task| !task.archived && task.spec.enabled)
    }

    /// What a trigger that does not rest is evaluated with.
    fn owing(&self, key: &TriggerKey) -> Option<Schedule> {
        let head = self.trigger(key).filter(|head| !head.archived && head.spec.enabled && self.task_live(head))?;
        head.spec.schedule().ok()
    }

    fn heads(&self, project_id: &ProjectId) -> Heads {
        let tasks = self.tasks.iter().filter(|((project, _), _)| project == project_id);
        let triggers = self.triggers.iter().filter(|((project, _), _)| project == project_id);
        Heads {
            tasks: tasks.filter_map(|((_, id), revisions)| Some((id.clone(), revisions.last()?.clone()))).collect(),
            triggers: triggers.filter_map(|((_, id), revisions)| Some((id.clone(), revisions.last()?.clone()))).collect(),
        }
    }

    /// Writes an entry, or lets the trigger's newest one grow by it.
    pub(super) fn record(&mut self, entry: &LedgerEntry, row: &ScheduleRow) {
        let newest = self.ledger.iter_mut().rfind(|e| (&e.project_id, &e.trigger_id) == (&row.project_id, &row.trigger_id));
        match newest.map(|newest| (newest.extended_by(entry, row.last_scheduled_at), newest)) {
            Some((Some(grown), newest)) => *newest = grown,
            _ => self.ledger.push(entry.clone()),
        }
    }
}

impl Turn<'_> {
    /// Writes the new revisions and what follows for the schedules.
    fn carry_out(&mut self, project_id: &ProjectId, plan: Plan) -> Vec<LedgerEntry> {
        for head in plan.tasks {
            self.facts.tasks.entry((project_id.clone(), head.spec.id.clone())).or_default().push(head);
        }
        for head in plan.triggers {
            self.facts.triggers.entry((project_id.clone(), head.spec.id.clone())).or_default().push(head);
        }
        let mut ledger = Vec::new();
        for change in plan.schedules {
            let key = (project_id.clone(), change.trigger_id);
            let owing = change.owing.and_then(|spec| spec.schedule().ok());
            ledger.extend(self.edit_schedule(&key, &change.kind, owing.as_ref()));
        }
        ledger
    }

    fn edit_schedule(&mut self, key: &TriggerKey, kind: &EditKind, owing: Option<&Schedule>) -> Option<LedgerEntry> {
        self.claims.remove(key);
        let Some(row) = self.facts.schedules.get(key).cloned() else {
            let revision = self.facts.trigger(key)?.revision;
            self.facts.schedules.insert(key.clone(), self.first_row(key, revision));
            return None;
        };
        let (edited, entry) = edit(&row, &Edit { kind, owing, at: self.now, zone_data_version: zone_data_version() });
        self.facts.schedules.insert(key.clone(), edited);
        if let Some(entry) = &entry {
            self.facts.record(entry, &row);
        }
        entry
    }

    fn first_row(&self, key: &TriggerKey, revision: u32) -> ScheduleRow {
        ScheduleRow {
            project_id: key.0.clone(),
            trigger_id: key.1.clone(),
            trigger_revision: revision,
            activated_at: self.now,
            next_fire_at: None,
            last_scheduled_at: None,
            paused: None,
            set_aside: None,
            state_version: 1,
            claim_version: 0,
            zone_data_version: zone_data_version().to_owned(),
            updated_at: self.now,
        }
    }

    pub(super) fn act(&mut self, act: &str, project_id: Option<&ProjectId>, object: &str, detail: String, by: &Operator) {
        let act = OperatorAct {
            at: self.now,
            by: by.clone(),
            act: act.to_owned(),
            project_id: project_id.cloned(),
            object: object.to_owned(),
            detail,
        };
        self.facts.acts.push(act);
    }

    fn set_paused(&mut self, command: &PauseCommand) -> Result<PauseOutcome, StoreError> {
        let PauseCommand { project_id, trigger_id, paused, missed, by } = command;
        let key = (project_id.clone(), trigger_id.clone());
        let live = self.facts.trigger(&key).is_some_and(|head| !head.archived);
        let row = self.facts.schedules.get(&key).filter(|_| live).ok_or_else(|| StoreError::not_found("trigger", trigger_id))?;
        if row.paused.is_some() == *paused {
            return Ok(PauseOutcome { changed: false, ledger: None, admitted: None });
        }
        let pause = || EditKind::Pause { by: by.name.clone(), reason: by.reason.clone() };
        let kind = if *paused { pause() } else { EditKind::Resume };
        let owing = self.facts.owing(&key);
        let recorded = self.facts.ledger.clone();
        let mut ledger = self.edit_schedule(&key, &kind, owing.as_ref());
        let mut admitted = None;
        if let (Missed::One, false, Some(entry), Some(schedule)) = (missed, paused, &ledger, &owing)
            && let Some(commit) = self.catch_up(&key, entry)?
        {
            self.facts.ledger = recorded;
            ledger = self.admit_missed(&key, &commit, entry.clone(), schedule, by)?;
            let Verdict::Decided(_, Some(ids)) = commit.verdict() else { return Err(StoreError::Closed) };
            admitted = Some(ids.run);
        }
        let detail = format!("{trigger_id} {}", if *paused { "paused" } else { "resumed" });
        self.act(if *paused { "pause" } else { "resume" }, Some(project_id), trigger_id.as_str(), detail, by);
        Ok(PauseOutcome { changed: true, ledger, admitted })
    }

    /// The admission of the latest occurrence that a pause kept back, unless the trigger's policy is to skip overlaps and it has one.
    fn catch_up(&self, key: &TriggerKey, missed: &LedgerEntry) -> Result<Option<ScheduleCommit>, StoreError> {
        let candidate = self.facts.candidate(key).ok_or_else(|| StoreError::not_found("trigger", &key.1))?;
        if candidate.trigger.overlap == Overlap::Skip && self.facts.unfinished_run(key).is_some() {
            return Ok(None);
        }
        let claim = ScheduleClaim {
            candidate,
            owner_id: OwnerId::new("resume")?,
            token: ClaimToken::generate(self.ids(), self.now),
            claim_version: 0,
            acquired_at: self.now,
            expires_at: self.now.plus_ms(1),
            unfinished_run: None,
            locator: 0,
        };
        let decision = Decision {
            observed_at: self.now,
            action: Action::Admit { scheduled_for: missed.stretch.to },
            next_fire_at: None,
            ledger: None,
        };
        let ids = AdmissionIds::generate(self.ids(), self.now);
        Ok(Some(ScheduleCommit::new(claim, Verdict::Decided(decision, Some(ids)))?))
    }

    /// Admits it on the operator's account, and records what is left of the stretch.
    fn admit_missed(
        &mut self,
        key: &TriggerKey,
        commit: &ScheduleCommit,
        missed: LedgerEntry,
        schedule: &Schedule,
        by: &Operator,
    ) -> Result<Option<LedgerEntry>, StoreError> {
        let shared = self.shared;
        let admission = commit.admission(&shared.execution_owner, shared.executor_type, self.now);
        let mut admission = admission.ok_or_else(|| Invalid::new("missed", "admits nothing"))?;
        admission.run.triggered_by = Some(by.name.clone());
        for event in &mut admission.events {
            event.actor = Actor::named(ActorType::User, &by.name);
        }
        self.facts.admit(&admission)?;
        let Stretch { from, to, reason, .. } = missed.stretch;
        let rest = Stretch::between(schedule, from, to, reason, None).map(|stretch| LedgerEntry { stretch, ..missed });
        let row = self.facts.schedules.get_mut(key).ok_or_else(|| StoreError::not_found("trigger", &key.1))?;
        let before = row.clone();
        row.last_scheduled_at = row.last_scheduled_at.max(Some(to));
        if let Some(rest) = &rest {
            self.facts.record(rest, &before);
        }
        Ok(rest)
    }
}

fn count(published: &Published) -> String {
    let of = |change: &str| published.changes.iter().filter(|c| c.change.as_str() == change).count();
    format!("{} created, {} updated, {} archived", of("created"), of("updated"), of("archived"))
}

fn changed(published: &Published) -> bool {
    published.changes.iter().any(|c| c.change != Change::Unchanged)
}

#[async_trait]
impl DefinitionStore for MemoryStore {
    async fn publish(&self, command: &PublishCommand) -> Result<Published, StoreError> {
        let PublishCommand { project_id, tasks, triggers, archive_absent, dry_run, by } = command;
        by.check()?;
        let publish = |turn: &mut Turn<'_>| {
            let plan = plan(project_id, &turn.facts.heads(project_id), tasks, triggers, *archive_absent, turn.now)?;
            let changes = plan.changes.clone();
            let published = Published { changes, ledger: turn.carry_out(project_id, plan), at: turn.now };
            if changed(&published) {
                turn.act("apply", Some(project_id), project_id.as_str(), count(&published), by);
            }
            Ok(published)
        };
        if *dry_run { self.rehearse(publish).await } else { self.write(publish).await }
    }

    async fn archive(&self, project_id: &ProjectId, keys: &[DefinitionKey], by: &Operator) -> Result<Published, StoreError> {
        by.check()?;
        self.write(|turn| {
            let heads = turn.facts.heads(project_id);
            for key in keys {
                let live = match key.kind {
                    DefinitionKind::Task => heads.tasks.get(key.id.as_str()).is_some_and(|head| !head.archived),
                    DefinitionKind::Trigger => heads.triggers.get(key.id.as_str()).is_some_and(|head| !head.archived),
                };
                if !live {
                    return Err(StoreError::not_found(key.kind.as_str(), &key.id));
                }
            }
            let named = |kind, id: &str| keys.iter().any(|key| key.kind == kind && key.id == id);
            let tasks: Vec<TaskSpec> = heads.tasks.values().filter(|head| !head.archived).map(|head| head.spec.clone()).collect();
            let tasks: Vec<TaskSpec> = tasks.into_iter().filter(|spec| !named(DefinitionKind::Task, spec.id.as_str())).collect();
            let stays = |spec: &TriggerSpec| {
                !named(DefinitionKind::Trigger, spec.id.as_str()) && !named(DefinitionKind::Task, spec.task_id.as_str())
            };
            let triggers: Vec<TriggerSpec> =
                heads.triggers.values().filter(|head| !head.archived && stays(&head.spec)).map(|head| head.spec.clone()).collect();
            let plan = plan(project_id, &heads, &tasks, &triggers, true, turn.now)?;
            let changes = plan.changes.iter().filter(|c| c.change != Change::Unchanged).cloned().collect();
            let published = Published { changes, ledger: turn.carry_out(project_id, plan), at: turn.now };
            if changed(&published) {
                let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
                turn.act("archive", Some(project_id), &ids.join(", "), count(&published), by);
            }
            Ok(published)
        })
        .await
    }

    async fn set_paused(&self, command: &PauseCommand) -> Result<PauseOutcome, StoreError> {
        command.by.check()?;
        self.write(|turn| turn.set_paused(command)).await
    }

    async fn heads(&self, project_id: &ProjectId) -> Result<Heads, StoreError> {
        Ok(self.read(|facts| facts.heads(project_id)))
    }

    async fn task_revision(&self, project_id: &ProjectId, task_id: &TaskId, revision: u32) -> Result<Option<TaskSpec>, StoreError> {
        Ok(self.read(|facts| facts.task_at(project_id, task_id, revision).map(|head| head.spec.clone())))
    }
}

impl Facts {
    /// The unfinished Run of a trigger that has waited longest.
    pub(super) fn unfinished_run(&self, key: &TriggerKey) -> Option<RunId> {
        let of_trigger = self.runs.values().filter(|run| run.project_id == key.0 && run.trigger_id.as_ref() == Some(&key.1));
        of_trigger.filter(|run| !run.status.is_final()).map(|run| run.id).min()
    }
}
