//! `tasks` and `triggers`.

use runtime_core::{
    StoreError, TimestampMs,
    limits::LIST_PAGE_MAX,
    ports::{
        executor::Command,
        history::{TaskItem, TriggerItem},
    },
    run::RunStatus,
};
use serde_json::{Value, json};

use super::{project, with_db};
use crate::{
    cli::Global,
    duration,
    failure::Failure,
    moment,
    output::{Out, harmless},
    reference::short,
    shapes,
    table::{Cell, Table, Tone},
};

/// Longer commands are cut in tables.
const COMMAND_SHOWN: usize = 48;

pub async fn tasks(global: &Global, out: &Out) -> Result<(), Failure> {
    let project = project(global);
    let items = with_db(global, async |db| {
        let mut items: Vec<TaskItem> = Vec::new();
        loop {
            let page = db.history().tasks(&project, items.last().map(|item| &item.head.spec.id), LIST_PAGE_MAX).await?;
            let more = page.len() == LIST_PAGE_MAX as usize;
            items.extend(page);
            if !more {
                return Ok(items);
            }
        }
    })
    .await?;
    if out.json {
        let tasks: Vec<_> = items.iter().map(|item| shapes::task(&item.head, item.last_run)).collect();
        out.json(&json!({ "tasks": tasks }));
        return Ok(());
    }
    if items.is_empty() {
        out.line(format_args!("project `{project}` has no tasks; `ql3 apply jobs.toml` defines some"));
        return Ok(());
    }
    let mut table = Table::new(&["TASK", "REVISION", "COMMAND", "TIMEOUT", "ATTEMPTS", "LAST RUN"]);
    for item in &items {
        let spec = &item.head.spec;
        let id = if spec.enabled { spec.id.as_str().into() } else { Cell::dim(format!("{} (disabled)", spec.id)) };
        table.row([
            id,
            item.head.revision.to_string().into(),
            command(&spec.command).into(),
            Cell::option(spec.timeout_ms.map(duration::show)),
            spec.retry.max_attempts.to_string().into(),
            last(item.last_run),
        ]);
    }
    table.print(out);
    Ok(())
}

pub async fn triggers(global: &Global, out: &Out) -> Result<(), Failure> {
    let project = project(global);
    let items = with_db(global, async |db| {
        let mut items: Vec<TriggerItem> = Vec::new();
        loop {
            let page = db.history().triggers(&project, items.last().map(|item| &item.head.spec.id), LIST_PAGE_MAX).await?;
            let more = page.len() == LIST_PAGE_MAX as usize;
            items.extend(page);
            if !more {
                return Ok(items);
            }
        }
    })
    .await?;
    if out.json {
        let triggers: Result<Vec<Value>, StoreError> =
            items.iter().map(|item| Ok(shapes::trigger(item, state(item), next(item)?))).collect();
        out.json(&json!({ "triggers": triggers? }));
        return Ok(());
    }
    if items.is_empty() {
        out.line(format_args!("project `{project}` has no triggers; `ql3 apply jobs.toml` defines some"));
        return Ok(());
    }
    print_triggers(&items, out)
}

fn print_triggers(items: &[TriggerItem], out: &Out) -> Result<(), Failure> {
    let now = moment::now();
    let mut table = Table::new(&["TRIGGER", "TASK", "CRON", "ZONE", "STATE", "NEXT", "", "LAST OCCURRENCE", "LAST RUN"]);
    for item in items {
        let spec = &item.head.spec;
        let schedule = spec.schedule()?;
        let local = |at: TimestampMs| moment::spaced(&schedule.occurrence(at).local);
        let next = next(item)?;
        let state = match state(item) {
            "active" => Cell::from("active"),
            resting => Cell::toned(resting, Tone::Warn),
        };
        table.row([
            spec.id.as_str().into(),
            spec.task_id.as_str().into(),
            spec.cron.as_str().into(),
            spec.timezone.as_str().into(),
            state,
            Cell::option(next.map(local)),
            Cell::dim(next.map(|at| moment::relative(at, now)).unwrap_or_default()),
            Cell::option(item.schedule.last_scheduled_at.map(local)),
            last(item.last_run),
        ]);
    }
    table.print(out);
    for item in items {
        if let Some(why) = resting(item) {
            out.line(out.paint.yellow(format_args!("{} {why}", item.head.spec.id)));
        }
    }
    Ok(())
}

/// Who or what made a trigger rest, beyond what its definition says.
fn resting(item: &TriggerItem) -> Option<String> {
    let row = &item.schedule;
    let text = match (&row.set_aside, &row.paused) {
        (Some(aside), _) => format!("was set aside {}: {}", moment::utc(aside.at), aside.reason),
        (None, Some(pause)) => super::pause::described(pause),
        (None, None) => return None,
    };
    Some(harmless(&text, &[]))
}

/// Whether a trigger is looked at, and if not, why.
pub fn state(item: &TriggerItem) -> &'static str {
    let row = &item.schedule;
    match () {
        () if item.head.archived => "archived",
        () if row.set_aside.is_some() => "set_aside",
        () if row.paused.is_some() => "paused",
        () if !item.head.spec.enabled => "disabled",
        () if !item.task_live => "task_disabled",
        () => "active",
    }
}

/// The next occurrence, if the trigger does not rest.
fn next(item: &TriggerItem) -> Result<Option<TimestampMs>, StoreError> {
    if !item.schedulable() {
        return Ok(None);
    }
    Ok(item.schedule.next_owed(&item.head.spec.schedule()?))
}

fn last(last: Option<(runtime_core::ids::RunId, RunStatus)>) -> Cell {
    match last {
        Some((id, status)) => Cell::toned(format!("{status} {}", short(id)), shapes::tone(status)),
        None => Cell::dim("-"),
    }
}

fn command(command: &Command) -> String {
    let text = match command {
        Command::Argv(argv) => argv.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(" "),
        Command::Shell(line) => line.clone(),
    };
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.char_indices().nth(COMMAND_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn quoted(part: &str) -> String {
    let plain = !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || "-_./:=@%+,".contains(c));
    if plain { part.to_owned() } else { format!("'{}'", part.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_a_shell_would_take_them() {
        let argv = |parts: &[&str]| command(&Command::Argv(parts.iter().map(ToString::to_string).collect()));
        assert_eq!(argv(&["echo", "a b", ""]), "echo 'a b' ''");
        assert_eq!(argv(&["echo", "it's"]), "echo 'it'\\''s'");
        assert_eq!(command(&Command::Shell("a\nb".into())), "a b");
        let long = argv(&["x".repeat(100).as_str()]);
        assert_eq!((long.chars().count(), long.ends_with('…')), (COMMAND_SHOWN + 1, true));
    }
}
