//! `apply`: a file's definitions become the project's.

use std::path::Path;

use runtime_core::{
    StoreError, TimestampMs,
    definition::{self, Change, Heads, PlannedChange},
    ids::ProjectId,
    ports::definitions::{DefinitionStore, PublishCommand, Published},
};
use serde_json::{Value, json};

use super::{check::project_of, operator};
use crate::{
    cli::Global,
    failure::Failure,
    jobs::{self, JobsFile},
    moment,
    output::Out,
    shapes,
    store::Db,
    table::{Cell, Table, Tone},
};

pub async fn run(path: &Path, dry_run: bool, global: &Global, out: &Out) -> Result<(), Failure> {
    let file = jobs::read(path)?;
    let project = project_of(&file, global)?;
    let published = if dry_run && !global.db.exists() {
        against_nothing(&project, &file)?
    } else {
        let db = if dry_run { Db::open_existing(&global.db).await? } else { Db::open_or_create(&global.db).await? };
        let published = publish(db.definitions(), &project, file, dry_run).await;
        db.close().await;
        published?
    };
    if out.json {
        out.json(&to_json(&project, dry_run, &published));
    } else {
        print(&project, dry_run, &published, out);
    }
    Ok(())
}

/// Publishes a file as the whole of its project.
pub async fn publish(store: &dyn DefinitionStore, project: &ProjectId, file: JobsFile, dry_run: bool) -> Result<Published, Failure> {
    let command = PublishCommand {
        project_id: project.clone(),
        tasks: file.tasks,
        triggers: file.triggers,
        archive_absent: true,
        dry_run,
        by: operator(None)?,
    };
    Ok(store.publish(&command).await?)
}

/// What would change in a database that does not exist: everything is new.
fn against_nothing(project: &ProjectId, file: &JobsFile) -> Result<Published, Failure> {
    let at: TimestampMs = moment::now();
    let plan = definition::plan(project, &Heads::default(), &file.tasks, &file.triggers, true, at).map_err(StoreError::from)?;
    Ok(Published { changes: plan.changes, ledger: Vec::new(), at })
}

/// `2 created, 1 updated, 5 unchanged`.
pub fn summary(changes: &[PlannedChange]) -> String {
    let count = |wanted: &str| changes.iter().filter(|change| change.change.as_str() == wanted).count();
    let parts: Vec<_> = ["created", "updated", "archived", "unchanged"]
        .into_iter()
        .map(|what| (count(what), what))
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    if parts.is_empty() { "nothing defined".to_owned() } else { parts.join(", ") }
}

fn to_json(project: &ProjectId, dry_run: bool, published: &Published) -> Value {
    let changes: Vec<_> = published.changes.iter().map(change_json).collect();
    let recorded: Vec<_> = published.ledger.iter().map(shapes::ledger).collect();
    let any = published.changes.iter().any(|change| change.change != Change::Unchanged);
    json!({
        "project": project, "dryRun": dry_run, "at": published.at.to_string(), "changed": any, "changes": changes, "recorded": recorded,
    })
}

fn change_json(planned: &PlannedChange) -> Value {
    let fields: Vec<_> = match &planned.change {
        Change::Updated(fields) => fields
            .iter()
            .map(|(field, before, after)| json!({ "field": field, "before": shown(field, before), "after": shown(field, after) }))
            .collect(),
        _ => Vec::new(),
    };
    json!({
        "kind": planned.key.kind.as_str(), "id": planned.key.id, "change": planned.change.as_str(), "revision": planned.revision,
        "fields": fields,
    })
}

fn print(project: &ProjectId, dry_run: bool, published: &Published, out: &Out) {
    let mut table = Table::new(&["", "KIND", "ID", "REVISION", "FIELDS"]);
    for planned in &published.changes {
        let (tone, fields) = match &planned.change {
            Change::Created => (Tone::Good, String::new()),
            Change::Updated(fields) => (Tone::Warn, fields.iter().map(field).collect::<Vec<_>>().join("; ")),
            Change::Archived => (Tone::Bad, String::new()),
            Change::Unchanged => continue,
        };
        let what = Cell::toned(planned.change.as_str(), tone);
        table.row([
            what,
            planned.key.kind.as_str().into(),
            planned.key.id.as_str().into(),
            planned.revision.to_string().into(),
            fields.into(),
        ]);
    }
    if !table.is_empty() {
        table.print(out);
    }
    for entry in &published.ledger {
        let stretch = &entry.stretch;
        let count = format!("{}{}", stretch.count, if stretch.capped { "+" } else { "" });
        out.line(format_args!(
            "trigger `{}`: {count} due since {} recorded as {}",
            entry.trigger_id,
            moment::utc(stretch.from),
            stretch.reason
        ));
    }
    let would = if dry_run { " (dry run: nothing was written)" } else { "" };
    out.line(format_args!("project `{project}`: {}{would}", summary(&published.changes)));
}

fn field((field, before, after): &(String, String, String)) -> String {
    format!("{field}: {} -> {}", shown(field, before), shown(field, after))
}

/// What is fed to a command may be as secret as its environment, whose values core has left out.
fn shown<'a>(field: &str, value: &'a str) -> &'a str {
    if field == "stdin" && value != "none" { "…" } else { value }
}
