//! An export of a Qinglong panel: the list of its scheduled tasks as JSON.
//!
//! The panel has two engines. Five fields go to the system's cron; six fields, and tasks with extra schedules, go to `cron-parser`. They
//! read some expressions differently, so each schedule is read by the rules of the engine that ran it.

use std::collections::BTreeMap;

use runtime_core::{
    cron::TimeZone,
    definition::{TaskSpec, TriggerSpec},
    ids::TriggerId,
    limits::NAME_BYTES_MAX,
    ports::executor::Command,
};
use serde_json::{Map, Value};

use super::{
    Imported, Job, Kind, Refusal, Row, Verdict,
    fields::{DAY_OF_MONTH, DAY_OF_WEEK, Engine, HOUR, MINUTE, MONTH},
    ids::{self, Ids},
    schedule::{self, Translation},
};

/// What the panel knows of a task besides its definition: state and history, which are not moved.
const STATE_KEYS: [&str; 18] = [
    "id",
    "_id",
    "status",
    "timestamp",
    "saved",
    "isSystem",
    "pid",
    "isPinned",
    "log_path",
    "log_name",
    "last_running_time",
    "last_execution_time",
    "sub_id",
    "createdAt",
    "updatedAt",
    "created",
    "position",
    "userId",
];
const KEYS: [&str; 9] =
    ["name", "command", "schedule", "isDisabled", "labels", "extra_schedules", "task_before", "task_after", "allow_multiple_instances"];

/// The list of tasks in an export: the list itself, or an answer of the panel's API around it.
pub fn list(text: &str) -> Result<Vec<Value>, Refusal> {
    let hint = "export the list of scheduled tasks: the answer of the panel's API at /open/crons, or its `data`";
    let mut value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| Refusal::new(format!("this is not JSON: line {}, column {}", error.line(), error.column()), hint))?;
    // {"code":200,"data":{"data":[…],"total":n}}, or less of it.
    for _ in 0..2 {
        if let Some(data) = value.get_mut("data") {
            value = data.take();
        }
    }
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(Refusal::new("there is no list of tasks in it", hint)),
    }
}

/// Reads a list of tasks.
pub fn read(items: &[Value], zone: Option<&TimeZone>) -> Imported {
    let mut out = Imported::default();
    let mut ids = Ids::default();
    let mut wrapped = 0;
    for (index, item) in items.iter().enumerate() {
        let schedule = item.get("schedule").and_then(Value::as_str).unwrap_or_default();
        let row = Row::new(index + 1, Kind::Entry, schedule.split_whitespace().collect::<Vec<_>>().join(" "));
        let read = if let Some(zone) = zone {
            entry(row.clone(), item, zone, &mut ids)
        } else {
            out.needs_zone.get_or_insert(index + 1);
            Err(Refusal::new("it has no zone", "name the panel's zone with --tz"))
        };
        match read {
            Ok((row, job)) => {
                wrapped += usize::from(runs_task(&job.task.command));
                out.rows.push(row);
                out.jobs.push(job);
            }
            Err(refusal) => out.rows.push(row.refused(refusal)),
        }
    }
    out.notes.push("the panel's variables, scripts and dependencies are not part of this list".to_owned());
    out.notes.push("what a job prints is kept, see `ql3 run logs`".to_owned());
    out.notes
        .push("around a change of daylight saving, times follow docs/scheduling.md; the panel's engines differ in such a night".to_owned());
    if wrapped > 0 {
        out.notes.push(format!(
            "{wrapped} of the commands run the panel's `task`, which loads its variables and writes its logs: run `ql3 up` where `task` \
             is, or write the command that `task` starts (`node xx.js`) and the variables that it needs"
        ));
    }
    out
}

fn entry(mut row: Row, item: &Value, zone: &TimeZone, ids: &mut Ids) -> Result<(Row, Job), Refusal> {
    let item = item.as_object().ok_or_else(|| Refusal::new("it is no task", "an element has `name`, `command` and `schedule`"))?;
    let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let command = text("command").ok_or_else(|| Refusal::new("it has no command", "write one, or remove it"))?;
    let schedules = schedules(item)?;
    let engine = if schedules.len() > 1 || schedules[0].len() > 5 { Engine::Panel } else { Engine::Cron };
    let mut crons = Vec::new();
    for words in &schedules {
        let Translation { cron, why, remarks } = translate(engine, words)?;
        row.why.extend(why);
        row.warnings.extend(remarks);
        crons.push(cron);
    }
    row.cron = (row.source != crons[0].as_str()).then(|| crons[0].as_str().to_owned());
    if crons.len() > 1 {
        row.why.push("its extra schedules are triggers of the same task".to_owned());
    }
    let command = command_line(engine, command, &mut row.why)?;
    let name = name(text("name"), &mut row.why);
    let suggested = name.as_deref().and_then(ids::slug).or_else(|| ids::of_command(text("command").unwrap_or_default()));
    let id = ids.take(suggested.as_deref().unwrap_or("job"), None);
    let task = TaskSpec {
        name,
        enabled: !is_true(item.get("isDisabled")),
        env: hooks(item, &mut row.why),
        labels: labels(item),
        ..TaskSpec::new(id.clone(), command)
    };
    left_out(item, &mut row.why);
    let trigger = |(number, cron): (usize, _)| {
        let trigger_id = if number == 0 { id.to_string() } else { format!("{id}:{}", number + 1) };
        TriggerSpec::new(TriggerId::new(trigger_id).expect("a slug and a number"), id.clone(), cron, zone)
    };
    let triggers: Vec<_> = crons.iter().enumerate().map(trigger).collect();
    task.check()?;
    triggers.iter().try_for_each(TriggerSpec::check)?;
    row.verdict = if row.why.is_empty() { Verdict::Exact } else { Verdict::Translated };
    row.task = Some(id.to_string());
    Ok((row, Job { task, triggers, comments: Vec::new() }))
}

/// The schedule and the extra ones, in words.
fn schedules(item: &Map<String, Value>) -> Result<Vec<Vec<&str>>, Refusal> {
    let extra = item.get("extra_schedules").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let extra = extra.iter().map(|extra| extra.get("schedule").unwrap_or(extra));
    let all = item.get("schedule").into_iter().chain(extra);
    let mut schedules = Vec::new();
    for schedule in all {
        let words: Vec<&str> = schedule.as_str().unwrap_or_default().split_whitespace().collect();
        if words.is_empty() {
            return Err(Refusal::new("a schedule is empty", "write one, or remove it"));
        }
        schedules.push(words);
    }
    if schedules.is_empty() {
        return Err(Refusal::new("it has no schedule", "write one, or remove it; `ql3 run start` runs a task without a trigger"));
    }
    Ok(schedules)
}

fn translate(engine: Engine, words: &[&str]) -> Result<Translation, Refusal> {
    match (engine, words) {
        (Engine::Panel, [word]) if word.starts_with('@') && *word != "@midnight" => {
            let Some(fields) = schedule::nickname(word) else { return Err(unknown_word(word)) };
            let mut translation = schedule::translate(Engine::Cron, &fields.split(' ').collect::<Vec<_>>())?;
            translation.why.push(format!("`{word}` is written `{fields}`, as the panel expands it"));
            Ok(translation)
        }
        (_, [word]) if word.starts_with('@') => Err(unknown_word(word)),
        (Engine::Panel, [_, _, _, _, _] | [_, _, _, _, _, _]) => schedule::translate(engine, words),
        (Engine::Cron, [_, _, _, _, _]) => {
            both_crons_agree(words)?;
            schedule::translate(engine, words)
        }
        _ => Err(Refusal::new(format!("{} fields are no schedule", words.len()), "write five fields, or six with seconds first")),
    }
}

fn unknown_word(word: &str) -> Refusal {
    let hint = match (word, schedule::nickname(word)) {
        (_, Some(fields)) => format!("write `{fields}` if it should run"),
        ("@once" | "@boot" | "@reboot", None) => {
            "`ql3 run start` starts a task by hand; there is no trigger for a start of the machine".to_owned()
        }
        _ => "write five fields, or six with seconds first".to_owned(),
    };
    Refusal::new(format!("the panel does not run `{}` on a schedule", word.escape_debug()), hint)
}

/// Five fields are run by the container's cron: busybox in the usual image, Debian's in the other. Where they differ, nobody can tell
/// what was meant.
fn both_crons_agree(words: &[&str]) -> Result<(), Refusal> {
    for (word, field) in words.iter().zip([MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK]) {
        let steps = word.split(',').filter_map(|item| item.split_once('/'));
        let Some((from, step)) = steps.into_iter().find(|(from, _)| !from.is_empty() && from.bytes().all(|byte| byte.is_ascii_digit()))
        else {
            continue;
        };
        let why = format!(
            "{} field: `{from}/{step}` is shown by the panel as every {step} from {from}, but with five fields cron runs it at {from} only, or not at all",
            field.name
        );
        let hint = format!("write `{from}-{}/{step}` if every {step} is meant, `{from}` for this value alone", field.max);
        return Err(Refusal::new(why, hint));
    }
    let day = DAY_OF_MONTH.read(Engine::Cron, words[2])?;
    let week = DAY_OF_WEEK.read(Engine::Cron, words[4])?;
    let (all_days, all_weekdays) = (day.values == DAY_OF_MONTH.all(), week.values == DAY_OF_WEEK.all());
    let debian_either = !day.star && !week.star;
    let busybox_either = !all_days && !all_weekdays;
    if debian_either != busybox_either && !(all_days && all_weekdays) {
        let why =
            format!("day fields `{}` and `{}`: the cron of the one panel image wants both, the other's takes either", words[2], words[4]);
        let starless = DAY_OF_MONTH.without_star(words[2]);
        let hint = format!("write the trigger by hand: for both, let one of the two begin with `*`; for either, none (`{starless}`)");
        return Err(Refusal::new(why, hint));
    }
    Ok(())
}

/// What the panel starts. It puts `task` before everything that is not one of its own commands.
fn command_line(engine: Engine, command: &str, why: &mut Vec<String>) -> Result<Command, Refusal> {
    if engine == Engine::Cron && command.contains('%') {
        let hint = "write the task by hand; in a jobs file a `%` is only a `%`";
        return Err(Refusal::new(
            "a `%` in a task with five fields: the cron of one panel image cuts the command there, the other's does not",
            hint,
        ));
    }
    let own = command.starts_with("task ") || command.starts_with("ql ");
    let line = if own { command.to_owned() } else { format!("task {command}") };
    if !own {
        why.push("`task` is written before the command, as the panel does".to_owned());
    }
    let plain = line.chars().all(|c| c.is_alphanumeric() || " _./:@=+,-".contains(c));
    if engine == Engine::Panel && !plain {
        why.push("the panel starts it with bash, so it is [\"/bin/bash\", \"-c\", …]".to_owned());
        return Ok(Command::Argv(vec!["/bin/bash".to_owned(), "-c".to_owned(), line]));
    }
    Ok(Command::Shell(line))
}

fn name(text: Option<&str>, why: &mut Vec<String>) -> Option<String> {
    let text = text?;
    let mut name: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    if name != text {
        why.push(format!("the name is kept up to {NAME_BYTES_MAX} bytes, without control characters"));
    }
    Some(name)
}

/// The panel hands its hooks to `task` in two variables.
fn hooks(item: &Map<String, Value>, why: &mut Vec<String>) -> BTreeMap<String, String> {
    let hook = |key: &'static str| {
        let text = item.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())?;
        Some((key.to_owned(), text.to_owned()))
    };
    let env: BTreeMap<_, _> = ["task_before", "task_after"].into_iter().filter_map(hook).collect();
    if !env.is_empty() {
        why.push("`task_before` and `task_after` are variables of the task, as the panel hands them to `task`".to_owned());
    }
    env
}

fn labels(item: &Map<String, Value>) -> BTreeMap<String, String> {
    let labels = item.get("labels").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let labels = labels.iter().filter_map(Value::as_str).map(str::trim).filter(|label| !label.is_empty());
    labels.map(|label| (label.to_owned(), "true".to_owned())).collect()
}

/// Says which settings have no counterpart.
fn left_out(item: &Map<String, Value>, why: &mut Vec<String>) {
    if let Some(value) = item.get("allow_multiple_instances").filter(|value| !value.is_null()) {
        why.push(format!(
            "`allow_multiple_instances` ({value}) is left out: `overlap` says what happens while a Run is unfinished, and is `allow`"
        ));
    }
    let empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    };
    let unknown = item.iter().filter(|(key, value)| !KEYS.contains(&key.as_str()) && !STATE_KEYS.contains(&key.as_str()) && !empty(value));
    for (key, _) in unknown {
        why.push(format!("`{}` is left out: it is not known here", key.escape_debug()));
    }
}

/// Whether it runs the panel's wrapper for scripts.
fn runs_task(command: &Command) -> bool {
    let line = match command {
        Command::Shell(line) => Some(line),
        Command::Argv(argv) => argv.last(),
    };
    line.is_some_and(|line| line.starts_with("task "))
}

/// The panel writes flags as 0 and 1.
fn is_true(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::Number(number)) => number.as_i64() == Some(1),
        _ => false,
    }
}
