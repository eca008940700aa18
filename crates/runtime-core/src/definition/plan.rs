//! What publishing a set of definitions changes: compared here, persisted by the store.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde_json::Value;

use super::{Head, task::TaskSpec, trigger::TriggerSpec};
use crate::{
    Invalid, TimestampMs,
    digest::Digest,
    ids::{ProjectId, TaskId, TriggerId},
    schedule::EditKind,
};

/// The current revisions of a project, archived ones included.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// By id.
    pub tasks: BTreeMap<TaskId, Head<TaskSpec>>,
    /// By id.
    pub triggers: BTreeMap<TriggerId, Head<TriggerSpec>>,
}

/// Task or trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefinitionKind {
    /// A task.
    Task,
    /// A trigger.
    Trigger,
}

impl DefinitionKind {
    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Trigger => "trigger",
        }
    }
}

/// Names a definition in its project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionKey {
    /// Task or trigger.
    pub kind: DefinitionKind,
    /// Its id.
    pub id: String,
}

/// What becomes of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Revision 1, or the first after an archive.
    Created,
    /// A new revision; the keys that differ, as a jobs file spells them: (key, before, after), `none` for what is not said. Values of
    /// `env` and `stdin` are shown as `…`.
    Updated(Vec<(String, String, String)>),
    /// The same content: nothing is written.
    Unchanged,
    /// A tombstone.
    Archived,
}

impl Change {
    /// As it is shown.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated(_) => "updated",
            Self::Unchanged => "unchanged",
            Self::Archived => "archived",
        }
    }
}

/// One line of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    /// Which definition.
    pub key: DefinitionKey,
    /// What becomes of it.
    pub change: Change,
    /// The revision that is current afterwards.
    pub revision: u32,
}

/// Tasks first, each list in order of its ids. Stores write the revisions in this order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// New revisions and tombstones of tasks; unchanged ones are left out.
    pub tasks: Vec<Head<TaskSpec>>,
    /// New revisions and tombstones of triggers; unchanged ones are left out.
    pub triggers: Vec<Head<TriggerSpec>>,
    /// What follows for schedules, by trigger id: also for triggers whose own revision stays, when their task begins or ceases to rest.
    pub schedules: Vec<ScheduleChange>,
    /// Everything, unchanged ones included.
    pub changes: Vec<PlannedChange>,
}

/// What a plan means for one schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleChange {
    /// Whose.
    pub trigger_id: TriggerId,
    /// The edit of the row; a trigger that never had a row gets one that is activated now.
    pub kind: EditKind,
    /// The evaluator's source until now, if the trigger was live: what it owed is recorded. See `schedule::Edit::owing`.
    pub owing: Option<TriggerSpec>,
    /// Whether the scheduler looks at it afterwards, pauses aside: trigger and task are current and enabled.
    pub live: bool,
}

/// Compares `tasks` and `triggers` with the current heads. With `archive_absent`, what is not named is archived. Archiving a task
/// archives its triggers. Every spec is checked, ids must be unique, and every live trigger must name a live task.
pub fn plan(
    project_id: &ProjectId,
    heads: &Heads,
    tasks: &[TaskSpec],
    triggers: &[TriggerSpec],
    archive_absent: bool,
    at: TimestampMs,
) -> Result<Plan, Invalid> {
    let mut out = Plan::default();
    let mut live_tasks: BTreeSet<&TaskId> =
        if archive_absent { BTreeSet::new() } else { heads.tasks.iter().filter(|(_, h)| !h.archived).map(|(id, _)| id).collect() };
    let mut wanted = BTreeMap::new();
    for task in tasks {
        task.check().map_err(|e| within("task", task.id.as_str(), e))?;
        live_tasks.insert(&task.id);
        if wanted.insert(&task.id, task).is_some() {
            return Err(Invalid::new(format!("task `{}`", task.id), "is defined twice"));
        }
    }
    let mut wanted_triggers = BTreeMap::new();
    for trigger in triggers {
        trigger.check().map_err(|e| within("trigger", trigger.id.as_str(), e))?;
        if !live_tasks.contains(&trigger.task_id) {
            return Err(Invalid::new(format!("trigger `{}`: task", trigger.id), format!("there is no task `{}`", trigger.task_id)));
        }
        if wanted_triggers.insert(&trigger.id, trigger).is_some() {
            return Err(Invalid::new(format!("trigger `{}`", trigger.id), "is defined twice in the project")
                .hint("give one of them an `id`; the default is the id of its task"));
        }
    }
    let make = Maker { project_id, at };
    let ids: BTreeSet<&TaskId> = wanted.keys().copied().chain(heads.tasks.keys()).collect();
    for id in ids {
        let gone = archive_absent;
        make.one(DefinitionKind::Task, id.as_str(), heads.tasks.get(id), wanted.get(id).copied(), gone, &mut out.tasks, &mut out.changes);
    }
    let ids: BTreeSet<&TriggerId> = wanted_triggers.keys().copied().chain(heads.triggers.keys()).collect();
    for id in ids {
        let head = heads.triggers.get(id);
        let gone = archive_absent || head.is_some_and(|h| !live_tasks.contains(&h.spec.task_id));
        let wanted = wanted_triggers.get(id).copied();
        make.one(DefinitionKind::Trigger, id.as_str(), head, wanted, gone, &mut out.triggers, &mut out.changes);
    }
    out.schedules = schedule_changes(heads, &out);
    Ok(out)
}

fn schedule_changes(heads: &Heads, plan: &Plan) -> Vec<ScheduleChange> {
    let tasks: BTreeMap<&TaskId, &Head<TaskSpec>> = heads.tasks.values().chain(&plan.tasks).map(|head| (&head.spec.id, head)).collect();
    let triggers: BTreeMap<&TriggerId, &Head<TriggerSpec>> =
        heads.triggers.values().chain(&plan.triggers).map(|head| (&head.spec.id, head)).collect();
    let on = |archived: bool, enabled: bool| !archived && enabled;
    let mut out = Vec::new();
    for (id, head) in triggers {
        let task_now = tasks.get(&head.spec.task_id).is_some_and(|t| on(t.archived, t.spec.enabled));
        let live = on(head.archived, head.spec.enabled) && task_now;
        let before = heads.triggers.get(id);
        let owing = before.filter(|b| {
            let task = heads.tasks.get(&b.spec.task_id);
            on(b.archived, b.spec.enabled) && task.is_some_and(|t| on(t.archived, t.spec.enabled))
        });
        let edited = before.is_none_or(|b| b.revision != head.revision);
        if edited || live != owing.is_some() {
            let revision = head.revision;
            let kind = if edited && head.archived { EditKind::Archive { revision } } else { EditKind::Republish { revision } };
            out.push(ScheduleChange { trigger_id: id.clone(), kind, owing: owing.map(|b| b.spec.clone()), live });
        }
    }
    out
}

fn within(kind: &str, id: &str, mut refused: Invalid) -> Invalid {
    refused.field = format!("{kind} `{id}`: {}", refused.field);
    refused
}

/// What tasks and triggers have in common here.
trait Spec: Clone + PartialEq {
    fn digest(&self) -> Digest;
    fn canonical(&self) -> String;
}

impl Spec for TaskSpec {
    fn digest(&self) -> Digest {
        TaskSpec::digest(self)
    }
    fn canonical(&self) -> String {
        TaskSpec::canonical(self)
    }
}

impl Spec for TriggerSpec {
    fn digest(&self) -> Digest {
        TriggerSpec::digest(self)
    }
    fn canonical(&self) -> String {
        TriggerSpec::canonical(self)
    }
}

struct Maker<'a> {
    project_id: &'a ProjectId,
    at: TimestampMs,
}

impl Maker<'_> {
    #[expect(clippy::too_many_arguments, reason = "one private function with two callers; a struct would say the same twice")]
    fn one<T: Spec>(
        &self,
        kind: DefinitionKind,
        id: &str,
        head: Option<&Head<T>>,
        wanted: Option<&T>,
        archive_if_absent: bool,
        out: &mut Vec<Head<T>>,
        changes: &mut Vec<PlannedChange>,
    ) {
        let next = head.map_or(1, |h| h.revision + 1);
        let live = head.filter(|h| !h.archived);
        let (change, spec) = match (live, wanted) {
            (Some(head), Some(spec)) if head.digest == spec.digest() => (Change::Unchanged, None),
            (Some(head), Some(spec)) => (Change::Updated(differences(&head.spec.canonical(), &spec.canonical())), Some(spec)),
            (None, Some(spec)) => (Change::Created, Some(spec)),
            (Some(head), None) if archive_if_absent => (Change::Archived, Some(&head.spec)),
            (_, None) => return,
        };
        let revision = if spec.is_some() { next } else { next - 1 };
        if let Some(spec) = spec {
            out.push(Head {
                project_id: self.project_id.clone(),
                revision,
                digest: spec.digest(),
                spec: spec.clone(),
                archived: change == Change::Archived,
                created_at: self.at,
            });
        }
        changes.push(PlannedChange { key: DefinitionKey { kind, id: id.to_owned() }, change, revision });
    }
}

/// What differs between two canonical texts, in the words of a jobs file.
fn differences(before: &str, after: &str) -> Vec<(String, String, String)> {
    let (before, after) = (as_written(before), as_written(after));
    let show = |field: &str, value: Option<&Value>| match value {
        None => "none".to_owned(),
        Some(_) if field == "stdin" || field.starts_with("env.") => "…".to_owned(),
        Some(value) => value.to_string(),
    };
    let fields: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    fields
        .into_iter()
        .filter(|f| before.get(*f) != after.get(*f))
        .map(|f| (f.clone(), show(f, before.get(f)), show(f, after.get(f))))
        .collect()
}

/// A canonical text as a jobs file says it: `retry.backoff`, and `10m` instead of 600000. What is not said is left out.
fn as_written(canonical: &str) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    for (key, value) in serde_json::from_str::<serde_json::Map<_, _>>(canonical).unwrap_or_default() {
        write_key(key, value, &mut out);
    }
    out
}

fn write_key(key: String, value: Value, out: &mut BTreeMap<String, Value>) {
    let (key, value) = match (key.as_str(), value) {
        // The number of fields follows from `cron`.
        (_, Value::Null) | ("fields", _) => return,
        (_, Value::Object(table)) => {
            return table.into_iter().for_each(|(name, value)| write_key(format!("{key}.{name}"), value, out));
        }
        ("command.argv", argv) => ("command".to_owned(), argv),
        ("command.shell", line) => ("shell".to_owned(), line),
        ("task_id", task) => ("task".to_owned(), task),
        ("timeout_ms", ms) => ("timeout".to_owned(), duration(&ms)),
        ("retry.backoff.base_ms", ms) => ("retry.backoff".to_owned(), duration(&ms)),
        ("retry.backoff.max_ms", ms) => ("retry.max_backoff".to_owned(), duration(&ms)),
        (_, value) => (key, value),
    };
    out.insert(key, value);
}

/// Exactly so many milliseconds, as a jobs file spells them: `1h30m`.
fn duration(ms: &Value) -> Value {
    let mut rest = ms.as_u64().unwrap_or_default();
    let mut text = String::new();
    for (unit, factor) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        if rest >= factor {
            let _ = write!(text, "{}{unit}", rest / factor);
            rest %= factor;
        }
    }
    Value::from(if text.is_empty() { "0s".to_owned() } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cron::{CronExpr, TimeZone},
        ports::executor::Command,
        run::Backoff,
    };

    fn task(id: &str) -> TaskSpec {
        TaskSpec::new(TaskId::new(id).unwrap(), Command::Shell("true".into()))
    }

    fn trigger(id: &str, task: &str) -> TriggerSpec {
        let (cron, zone) = (CronExpr::parse("0 3 * * *").unwrap(), TimeZone::parse("UTC").unwrap());
        TriggerSpec::new(TriggerId::new(id).unwrap(), TaskId::new(task).unwrap(), &cron, &zone)
    }

    fn run(heads: &mut Heads, tasks: &[TaskSpec], triggers: &[TriggerSpec], archive_absent: bool) -> Result<Vec<String>, Invalid> {
        let plan = plan(&ProjectId::new("p").unwrap(), heads, tasks, triggers, archive_absent, TimestampMs::EPOCH)?;
        for head in plan.tasks {
            heads.tasks.insert(head.spec.id.clone(), head);
        }
        for head in plan.triggers {
            heads.triggers.insert(head.spec.id.clone(), head);
        }
        Ok(plan.changes.iter().map(|c| format!("{} {} {}", c.key.id, c.change.as_str(), c.revision)).collect())
    }

    #[test]
    fn same_content_again_changes_nothing() {
        let mut heads = Heads::default();
        let (tasks, triggers) = (vec![task("a"), task("b")], vec![trigger("ta", "a")]);
        assert_eq!(run(&mut heads, &tasks, &triggers, true).unwrap(), ["a created 1", "b created 1", "ta created 1"]);
        assert_eq!(run(&mut heads, &tasks, &triggers, true).unwrap(), ["a unchanged 1", "b unchanged 1", "ta unchanged 1"]);
    }

    #[test]
    fn absent_is_archived_and_numbers_never_restart() {
        let mut heads = Heads::default();
        run(&mut heads, &[task("a"), task("b")], &[trigger("ta", "a"), trigger("tb", "b")], true).unwrap();
        assert_eq!(
            run(&mut heads, &[task("b")], &[trigger("tb", "b")], true).unwrap(),
            ["a archived 2", "b unchanged 1", "ta archived 2", "tb unchanged 1"]
        );
        assert_eq!(run(&mut heads, &[task("a")], &[], false).unwrap(), ["a created 3"]);
        assert!(!run(&mut heads, &[task("a")], &[], false).unwrap().iter().any(|c| c.starts_with("ta")), "a tombstone stays one");
    }

    #[test]
    fn a_live_trigger_needs_a_live_task() {
        let mut heads = Heads::default();
        assert!(run(&mut heads, &[], &[trigger("t", "a")], true).unwrap_err().reason.contains("no task `a`"));
        run(&mut heads, &[task("a")], &[trigger("t", "a")], true).unwrap();
        assert!(run(&mut heads, &[], &[trigger("t", "a")], false).is_ok());
        assert!(run(&mut heads, &[], &[trigger("t", "a")], true).is_err());
    }

    /// A task that is switched off takes its triggers to rest, and each switch is a new activation: the past never fires.
    #[test]
    fn switching_a_task_edits_its_schedules() {
        let mut heads = Heads::default();
        let on = task("a");
        let off = TaskSpec { enabled: false, ..task("a") };
        let project = ProjectId::new("p").unwrap();
        let mut step = |tasks: &[TaskSpec]| {
            let plan = plan(&project, &heads, tasks, &[trigger("t", "a")], true, TimestampMs::EPOCH).unwrap();
            for head in plan.tasks {
                heads.tasks.insert(head.spec.id.clone(), head);
            }
            for head in plan.triggers {
                heads.triggers.insert(head.spec.id.clone(), head);
            }
            plan.schedules.into_iter().map(|s| (s.kind, s.owing.is_some(), s.live)).collect::<Vec<_>>()
        };
        let kind = EditKind::Republish { revision: 1 };
        assert_eq!(step(std::slice::from_ref(&on)), [(kind.clone(), false, true)]);
        assert_eq!(step(std::slice::from_ref(&on)), []);
        assert_eq!(step(std::slice::from_ref(&off)), [(kind.clone(), true, false)]);
        assert_eq!(step(&[TaskSpec { priority: 1, ..off }]), []);
        assert_eq!(step(&[on]), [(kind, false, true)]);
    }

    #[test]
    fn differences_are_told_in_the_words_of_a_jobs_file() {
        let mut before = task("a");
        before.timeout_ms = Some(300_000);
        before.env = [("KEPT", "x"), ("CHANGED", "s3cret"), ("DROPPED", "s3cret")].map(|(k, v)| (k.into(), v.into())).into();
        let mut after = before.clone();
        after.command = Command::Argv(vec!["true".into()]);
        after.priority = 5;
        after.timeout_ms = Some(5_400_250);
        after.retry.max_attempts = 3;
        after.retry.backoff = Backoff { base_ms: 10_000, max_ms: 86_400_000 };
        after.stdin = Some("s3cret".into());
        after.labels.insert("team".into(), "db".into());
        after.env = [("KEPT", "x"), ("CHANGED", "s3cret too"), ("ADDED", "s3cret")].map(|(k, v)| (k.into(), v.into())).into();
        let told = |before: &str, after: &str| -> Vec<String> {
            differences(before, after).into_iter().map(|(field, before, after)| format!("{field}: {before} -> {after}")).collect()
        };
        assert_eq!(
            told(&before.canonical(), &after.canonical()),
            [
                r#"command: none -> ["true"]"#,
                "env.ADDED: none -> …",
                "env.CHANGED: … -> …",
                "env.DROPPED: … -> none",
                r#"labels.team: none -> "db""#,
                "priority: 0 -> 5",
                r#"retry.backoff: "0s" -> "10s""#,
                "retry.max_attempts: 1 -> 3",
                r#"retry.max_backoff: "0s" -> "1d""#,
                r#"shell: "true" -> none"#,
                "stdin: none -> …",
                r#"timeout: "5m" -> "1h30m250ms""#,
            ]
        );
        let (five, six) = (trigger("t", "a"), TriggerSpec { cron: "0 0 3 * * *".into(), fields: 6, ..trigger("t", "b") });
        assert_eq!(told(&five.canonical(), &six.canonical()), [r#"cron: "0 3 * * *" -> "0 0 3 * * *""#, r#"task: "a" -> "b""#]);
    }
}
