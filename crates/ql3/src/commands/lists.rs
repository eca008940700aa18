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
/// A scheduler that runs looks at least once a second: what has been due for longer is late.
const LATE_MS: u64 = 10_000;

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

pub async fn triggers(attention_first: bool, global: &Global, out: &Out) -> Result<(), Failure> {
    let project = project(global);
    let mut items = with_db(global, async |db| {
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
    let now = moment::now();
    if attention_first {
        // Stable: within a kind they stay in the order of their ids.
        items.sort_by_key(|item| attention(item, now).map_or(usize::MAX, |(kind, _)| kind as usize));
    }
    if out.json {
        let shape = |item: &TriggerItem| -> Result<Value, StoreError> {
            let mut value = shapes::trigger(item, state(item), next(item)?);
            value["attention"] = attention(item, now).map_or(Value::Null, |(kind, _)| Value::from(kind.as_str()));
            Ok(value)
        };
        let triggers: Result<Vec<Value>, StoreError> = items.iter().map(shape).collect();
        out.json(&json!({ "triggers": triggers? }));
        return Ok(());
    }
    if items.is_empty() {
        out.line(format_args!("project `{project}` has no triggers; `ql3 apply jobs.toml` defines some"));
        return Ok(());
    }
    print_triggers(&items, attention_first, now, out)
}

/// Why somebody should look at a trigger, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attention {
    SetAside,
    Late,
    Failing,
    NeverRun,
}

impl Attention {
    fn as_str(self) -> &'static str {
        match self {
            Self::SetAside => "set_aside",
            Self::Late => "late",
            Self::Failing => "failing",
            Self::NeverRun => "never_run",
        }
    }
}

/// What calls for a look at a trigger, and the reason in words.
fn attention(item: &TriggerItem, now: TimestampMs) -> Option<(Attention, String)> {
    if let Some(aside) = &item.schedule.set_aside {
        return Some((Attention::SetAside, aside.reason.clone()));
    }
    let due = next(item).ok().flatten().filter(|due| now.since_ms(*due) >= LATE_MS);
    if let Some(due) = due {
        return Some((Attention::Late, format!("due {} and not looked at", moment::relative(due, now))));
    }
    match item.last_run {
        Some((_, status @ (RunStatus::Failed | RunStatus::TimedOut | RunStatus::RetryWait))) => {
            Some((Attention::Failing, format!("its last Run is {status}")))
        }
        None if item.schedule.last_scheduled_at.is_none() => Some((Attention::NeverRun, "it has never run".to_owned())),
        _ => None,
    }
}

fn print_triggers(items: &[TriggerItem], attention_first: bool, now: TimestampMs, out: &Out) -> Result<(), Failure> {
    let mut headers = vec!["TRIGGER", "TASK", "CRON", "ZONE", "STATE", "NEXT", "", "LAST OCCURRENCE", "LAST RUN"];
    headers.extend(attention_first.then_some("ATTENTION"));
    let mut table = Table::new(&headers);
    for item in items {
        let spec = &item.head.spec;
        let schedule = spec.schedule()?;
        let local = |at: TimestampMs| moment::spaced(&schedule.occurrence(at).local);
        let next = next(item)?;
        let state = match state(item) {
            "active" => Cell::from("active"),
            resting => Cell::toned(resting, Tone::Warn),
        };
        let reason = attention(item, now).filter(|_| attention_first).map(|(_, reason)| Cell::toned(reason, Tone::Warn));
        let cells = [
            spec.id.as_str().into(),
            spec.task_id.as_str().into(),
            spec.cron.as_str().into(),
            spec.timezone.as_str().into(),
            state,
            Cell::option(next.map(local)),
            Cell::dim(next.map(|at| moment::relative(at, now)).unwrap_or_default()),
            Cell::option(item.schedule.last_scheduled_at.map(local)),
            last(item.last_run),
        ];
        table.row(cells.into_iter().chain(reason));
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
    use runtime_core::{
        cron::{CronExpr, TimeZone},
        definition::{Head, TriggerSpec},
        ids::{ProjectId, TaskId, TriggerId},
        schedule::{ScheduleRow, SetAside},
    };

    use super::*;

    /// Minutely, activated at 0 ms, and never looked at.
    fn item() -> TriggerItem {
        let (cron, zone) = (CronExpr::parse("* * * * *").unwrap(), TimeZone::parse("UTC").unwrap());
        let spec = TriggerSpec::new(TriggerId::new("t").unwrap(), TaskId::new("a").unwrap(), &cron, &zone);
        let (project_id, at) = (ProjectId::new("p").unwrap(), TimestampMs::EPOCH);
        let schedule = ScheduleRow {
            project_id: project_id.clone(),
            trigger_id: spec.id.clone(),
            trigger_revision: 1,
            activated_at: at.plus_ms(1),
            next_fire_at: None,
            last_scheduled_at: None,
            paused: None,
            set_aside: None,
            state_version: 1,
            claim_version: 0,
            zone_data_version: "a".into(),
            updated_at: at,
        };
        let head = Head { project_id, revision: 1, digest: spec.digest(), spec, archived: false, created_at: at };
        TriggerItem { head, schedule, task_live: true, last_run: None }
    }

    #[test]
    fn what_calls_for_a_look_is_told_by_the_most_urgent_reason() {
        let kind = |item: &TriggerItem, ms: u64| attention(item, TimestampMs::EPOCH.plus_ms(ms)).map(|(kind, _)| kind);
        let fresh = item();
        assert_eq!(kind(&fresh, 60_000), Some(Attention::NeverRun));
        assert_eq!(kind(&fresh, 69_999), Some(Attention::NeverRun), "a scheduler may take a moment");
        assert_eq!(kind(&fresh, 70_000), Some(Attention::Late));
        let resting = TriggerItem { task_live: false, ..fresh.clone() };
        assert_eq!(kind(&resting, 70_000), Some(Attention::NeverRun), "what rests is not late");
        let id = "0199c5f4-7b1e-7c3d-8f00-0123456789ab".parse().unwrap();
        for (status, expected) in [(RunStatus::Failed, Some(Attention::Failing)), (RunStatus::Succeeded, None), (RunStatus::Queued, None)] {
            assert_eq!(kind(&TriggerItem { last_run: Some((id, status)), ..fresh.clone() }, 60_000), expected);
        }
        let mut pruned = fresh.clone();
        pruned.schedule.last_scheduled_at = Some(TimestampMs::EPOCH.plus_ms(60_000));
        assert_eq!(kind(&pruned, 60_000), None, "it ran, also where its Runs were pruned");
        let mut aside = fresh;
        aside.schedule.set_aside = Some(SetAside { at: TimestampMs::EPOCH, reason: "why".into() });
        assert_eq!(attention(&aside, TimestampMs::EPOCH.plus_ms(70_000)), Some((Attention::SetAside, "why".into())));
    }

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
