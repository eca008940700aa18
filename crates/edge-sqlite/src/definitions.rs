//! `DefinitionStore`.

use async_trait::async_trait;
use runtime_core::{
    StoreError,
    definition::{Change, DefinitionKey, DefinitionKind, Head, Heads, Plan, PlannedChange, TaskSpec, TriggerSpec, plan},
    ids::{ProjectId, TaskId, TriggerId},
    ports::definitions::{DefinitionStore, Operator, PauseCommand, PauseOutcome, PublishCommand, Published},
    schedule::{Edit, EditKind, LedgerEntry, ScheduleRow, edit},
};
use rusqlite::{Connection, params};

use crate::{
    control, pause,
    schedule_rows::{TASKS, TRIGGERS, put_schedule, record, revision_columns, schedule, task_head, task_revision, trigger_head},
    sql::{all, execute},
    store::SqliteStore,
    tx::{self, Command},
};

#[async_trait]
impl DefinitionStore for SqliteStore {
    async fn publish(&self, command: &PublishCommand) -> Result<Published, StoreError> {
        command.by.check()?;
        let publishing = command.clone();
        self.on_writer(move |writer| {
            let publish = |tx: &Command<'_>| publish(tx, &publishing);
            if publishing.dry_run { tx::rehearse(writer, publish) } else { tx::write(writer, publish) }
        })
        .await
    }

    async fn archive(&self, project_id: &ProjectId, keys: &[DefinitionKey], by: &Operator) -> Result<Published, StoreError> {
        by.check()?;
        let (project_id, keys, by) = (project_id.clone(), keys.to_vec(), by.clone());
        self.write(move |tx| archive(tx, &project_id, &keys, &by)).await
    }

    async fn set_paused(&self, command: &PauseCommand) -> Result<PauseOutcome, StoreError> {
        command.by.check()?;
        let command = command.clone();
        self.write(move |tx| pause::set_paused(tx, &command)).await
    }

    async fn heads(&self, project_id: &ProjectId) -> Result<Heads, StoreError> {
        let project_id = project_id.clone();
        self.read(move |conn| heads(conn, &project_id)).await
    }

    async fn task_revision(&self, project_id: &ProjectId, task_id: &TaskId, revision: u32) -> Result<Option<TaskSpec>, StoreError> {
        let (project_id, task_id) = (project_id.clone(), task_id.clone());
        self.read(move |conn| Ok(task_revision(conn, &project_id, &task_id, revision)?.map(|head| head.spec))).await
    }
}

fn publish(tx: &Command<'_>, command: &PublishCommand) -> Result<Published, StoreError> {
    let PublishCommand { project_id, tasks, triggers, archive_absent, by, .. } = command;
    let plan = plan(project_id, &heads(tx.conn, project_id)?, tasks, triggers, *archive_absent, tx.at)?;
    let published = Published { changes: plan.changes.clone(), ledger: carry_out(tx, project_id, &plan)?, at: tx.at };
    if published.changes.iter().any(changed) {
        control::act(tx, "apply", Some(project_id), project_id.as_str(), &count(&published), by)?;
    }
    Ok(published)
}

fn archive(tx: &Command<'_>, project_id: &ProjectId, keys: &[DefinitionKey], by: &Operator) -> Result<Published, StoreError> {
    let heads = heads(tx.conn, project_id)?;
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
    let task_stays = |id: &TaskId| !named(DefinitionKind::Task, id.as_str());
    let trigger_stays = |spec: &TriggerSpec| !named(DefinitionKind::Trigger, spec.id.as_str()) && task_stays(&spec.task_id);
    let tasks: Vec<TaskSpec> = live(heads.tasks.values()).filter(|spec| task_stays(&spec.id)).cloned().collect();
    let triggers: Vec<TriggerSpec> = live(heads.triggers.values()).filter(|spec| trigger_stays(spec)).cloned().collect();
    let plan = plan(project_id, &heads, &tasks, &triggers, true, tx.at)?;
    let changes = plan.changes.iter().filter(|change| changed(change)).cloned().collect();
    let published = Published { changes, ledger: carry_out(tx, project_id, &plan)?, at: tx.at };
    if !published.changes.is_empty() {
        let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
        control::act(tx, "archive", Some(project_id), &ids.join(", "), &count(&published), by)?;
    }
    Ok(published)
}

fn live<'a, T: 'a>(heads: impl Iterator<Item = &'a Head<T>>) -> impl Iterator<Item = &'a T> {
    heads.filter(|head| !head.archived).map(|head| &head.spec)
}

fn changed(change: &PlannedChange) -> bool {
    change.change != Change::Unchanged
}

fn count(published: &Published) -> String {
    let of = |change: &str| published.changes.iter().filter(|c| c.change.as_str() == change).count();
    format!("{} created, {} updated, {} archived", of("created"), of("updated"), of("archived"))
}

fn heads(conn: &Connection, project_id: &ProjectId) -> Result<Heads, StoreError> {
    const TASK_HEADS: &str = concat!(
        "-- task_definitions.heads\nSELECT ",
        revision_columns!(),
        ", r.task_id FROM task_definitions d JOIN task_revisions r USING (project_id, task_id, revision) WHERE d.project_id = ?1"
    );
    const TRIGGER_HEADS: &str = concat!(
        "-- trigger_definitions.heads\nSELECT ",
        revision_columns!(),
        ", r.trigger_id FROM trigger_definitions d JOIN trigger_revisions r USING (project_id, trigger_id, revision)
         WHERE d.project_id = ?1"
    );
    let tasks = all(conn, &TASKS, TASK_HEADS, [project_id.as_str()], task_head)?;
    let triggers = all(conn, &TRIGGERS, TRIGGER_HEADS, [project_id.as_str()], trigger_head)?;
    Ok(Heads {
        tasks: tasks.into_iter().map(|head| (head.spec.id.clone(), head)).collect(),
        triggers: triggers.into_iter().map(|head| (head.spec.id.clone(), head)).collect(),
    })
}

/// Writes the new revisions and what follows for the schedules.
fn carry_out(tx: &Command<'_>, project_id: &ProjectId, plan: &Plan) -> Result<Vec<LedgerEntry>, StoreError> {
    plan.tasks.iter().try_for_each(|head| put_task(tx.conn, head))?;
    plan.triggers.iter().try_for_each(|head| put_trigger(tx.conn, head))?;
    let mut ledger = Vec::new();
    for change in &plan.schedules {
        let owing = change.owing.as_ref().and_then(|spec| spec.schedule().ok());
        let Some(row) = schedule(tx.conn, project_id, &change.trigger_id)? else {
            if let EditKind::Republish { revision } | EditKind::Archive { revision } = change.kind {
                put_schedule(tx.conn, &first_row(tx, project_id, &change.trigger_id, revision), change.live)?;
            }
            continue;
        };
        let zone_data_version = &tx.options.zone_data_version;
        let (edited, entry) = edit(&row, &Edit { kind: &change.kind, owing: owing.as_ref(), at: tx.at, zone_data_version });
        put_schedule(tx.conn, &edited, change.live)?;
        if let Some(entry) = entry {
            record(tx.conn, &entry, row.last_scheduled_at)?;
            ledger.push(entry);
        }
    }
    Ok(ledger)
}

/// A trigger that never had a row is activated now.
fn first_row(tx: &Command<'_>, project_id: &ProjectId, trigger_id: &TriggerId, revision: u32) -> ScheduleRow {
    ScheduleRow {
        project_id: project_id.clone(),
        trigger_id: trigger_id.clone(),
        trigger_revision: revision,
        activated_at: tx.at,
        next_fire_at: None,
        last_scheduled_at: None,
        paused: None,
        set_aside: None,
        state_version: 1,
        claim_version: 0,
        zone_data_version: tx.options.zone_data_version.clone(),
        updated_at: tx.at,
    }
}

fn put_task(conn: &Connection, head: &Head<TaskSpec>) -> Result<(), StoreError> {
    let (project_id, task_id) = (head.project_id.as_str(), head.spec.id.as_str());
    execute(
        conn,
        "-- task_revisions.insert
         INSERT INTO task_revisions (project_id, task_id, revision, digest, canonical, archived, created_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![project_id, task_id, head.revision, head.digest.as_str(), head.spec.canonical(), head.archived, head.created_at.get()],
    )?;
    execute(
        conn,
        "-- task_definitions.put
         INSERT INTO task_definitions (project_id, task_id, revision, archived) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (project_id, task_id) DO UPDATE SET (revision, archived) = (?3, ?4)",
        params![project_id, task_id, head.revision, head.archived],
    )
    .map(|_| ())
}

fn put_trigger(conn: &Connection, head: &Head<TriggerSpec>) -> Result<(), StoreError> {
    let (project_id, trigger_id) = (head.project_id.as_str(), head.spec.id.as_str());
    execute(
        conn,
        "-- trigger_revisions.insert
         INSERT INTO trigger_revisions (project_id, trigger_id, revision, digest, canonical, archived, created_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![project_id, trigger_id, head.revision, head.digest.as_str(), head.spec.canonical(), head.archived, head.created_at.get()],
    )?;
    execute(
        conn,
        "-- trigger_definitions.put
         INSERT INTO trigger_definitions (project_id, trigger_id, revision, task_id, archived) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (project_id, trigger_id) DO UPDATE SET (revision, task_id, archived) = (?3, ?4, ?5)",
        params![project_id, trigger_id, head.revision, head.spec.task_id.as_str(), head.archived],
    )
    .map(|_| ())
}
