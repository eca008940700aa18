//! The jobs file: TOML in, definitions out, or every error of the file at once, each at its place.

mod keys;
mod source;
mod suggest;
mod task;
mod trigger;

use std::{collections::BTreeMap, ops::Range, path::Path};

use runtime_core::{
    definition::{TaskSpec, TriggerSpec},
    ids::{ProjectId, TaskId},
};
use toml::de::DeTable;

use crate::failure::Failure;
pub use keys::position_in;
use keys::{Reader, Value};
use source::{Problem, Source};
use task::{TASK_KEYS, TaskDraft};
use trigger::{TRIGGER_KEYS, TriggerDraft};

const FILE_KEYS: [&str; 3] = ["project", "defaults", "task"];

/// What a jobs file says: the whole of its project.
#[derive(Debug, PartialEq, Eq)]
pub struct JobsFile {
    /// `project`, if it is named.
    pub project: Option<ProjectId>,
    pub tasks: Vec<TaskSpec>,
    pub triggers: Vec<TriggerSpec>,
}

/// Reads and checks a file; `-` is standard input.
pub fn read(path: &Path) -> Result<JobsFile, Failure> {
    parse(Source::read(path)?)
}

fn parse(mut source: Source) -> Result<JobsFile, Failure> {
    let text = source.text().to_owned();
    let (table, errors) = DeTable::parse_recoverable(&text);
    if !errors.is_empty() {
        let problems = syntax(&mut source, &errors);
        return Err(source.failure(problems));
    }
    let mut file = FileReader { reader: Reader { source: &mut source, problems: Vec::new() }, tasks: Vec::new(), triggers: Vec::new() };
    let project = file.read(table.get_ref());
    let FileReader { reader, tasks, triggers } = file;
    let mut problems = reader.problems;
    if problems.is_empty() && tasks.is_empty() && project.is_none() {
        // What a generator that failed leaves behind must not archive everything.
        let hint = "write a [[task]]; if everything of a project is to be archived, name it: project = \"default\"";
        problems.push(Problem::new(0..0, "", "defines no task").hint(hint));
    }
    if problems.is_empty() {
        let (tasks, triggers) = (tasks.into_iter().flatten().collect(), triggers.into_iter().map(|(spec, _)| spec).collect());
        return Ok(JobsFile { project, tasks, triggers });
    }
    Err(source.failure(problems))
}

/// Syntax errors: the first of each section, since one missing quote makes many.
fn syntax(source: &mut Source, errors: &[toml::de::Error]) -> Vec<Problem> {
    let text = source.text().to_owned();
    let mut problems = BTreeMap::new();
    let mut errors: Vec<_> = errors.iter().map(|error| (error.span().unwrap_or(text.len()..text.len()), error)).collect();
    errors.sort_by_key(|(span, _)| span.start);
    for (span, error) in errors {
        let at = text.floor_char_boundary(span.start.min(text.len()));
        let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let section = section_start(&text[..line_end]);
        let (before, line) = (&text[section.min(line_start)..line_start], &text[line_start..line_end]);
        if let Some(value) = value_to_hide(before, line) {
            source.hide(line_start + value..line_end);
        }
        let hint = "this is not TOML; the fault may be in a line above";
        problems.entry(section).or_insert_with(|| Problem::new(span, "", error.message()).hint(hint));
    }
    problems.into_values().collect()
}

/// Where in a line something begins that could be a secret. The parser could not tell what is a value, so only headers and values of known
/// keys are shown, and those only if no `env` stands before them in their section.
fn value_to_hide(section_before: &str, line: &str) -> Option<usize> {
    let has_env = |text: &str| text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == "env");
    let key = line.split_once('=').map(|(key, _)| key);
    let known = key.is_some_and(|key| FILE_KEYS.iter().chain(&TASK_KEYS).chain(&TRIGGER_KEYS).any(|known| *known == key.trim()));
    let header = key.is_none() && line.trim_start().starts_with('[');
    let value = key.filter(|_| known).map_or(0, |key| key.len() + 1);
    (!(known || header) || has_env(section_before) || has_env(line)).then_some(value)
}

/// Where the last header of the text begins.
fn section_start(text: &str) -> usize {
    let is_header = |line: &str| {
        let line = line.trim();
        let name = line.trim_start_matches('[').trim_end_matches(']');
        let known = name.trim_start().starts_with("task") || name.trim_start().starts_with("defaults");
        line.starts_with('[') && line.ends_with(']') && known && name.chars().all(|c| c.is_alphanumeric() || "._- \"".contains(c))
    };
    let mut lines = text.split_inclusive('\n').scan(0, |at, line| {
        *at += line.len();
        Some((*at - line.len(), line))
    });
    lines.by_ref().filter(|(_, line)| is_header(line)).last().map_or(0, |(at, _)| at)
}

struct FileReader<'s> {
    reader: Reader<'s>,
    /// `None` for a task that has errors.
    tasks: Vec<Option<TaskSpec>>,
    triggers: Vec<(TriggerSpec, Range<usize>)>,
}

impl FileReader<'_> {
    fn read(&mut self, table: &DeTable<'_>) -> Option<ProjectId> {
        let mut project = None;
        let (mut task, mut trigger) = (TaskDraft::default(), TriggerDraft::default());
        if let Some((key, value)) = table.get_key_value("defaults") {
            self.defaults(value, &mut task, &mut trigger);
            task.check(&mut self.reader, "defaults", &key.span());
        }
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "defaults" => {}
                "project" => {
                    let text = self.reader.string("project", value);
                    project = text.and_then(|id| ProjectId::new(id).map_err(|e| self.reader.refuse("project", value, e)).ok());
                }
                "task" => self.tasks(value, &task, &trigger),
                _ => {
                    let elsewhere: [(&[&str], &str); 3] = [
                        (&TASK_KEYS, "[[task]] or [defaults]"),
                        (&TRIGGER_KEYS, "[[task.trigger]] or [defaults]"),
                        (&["trigger"], "a task: write [[task.trigger]] below its [[task]]"),
                    ];
                    self.reader.unknown("", key, value, &FILE_KEYS, &elsewhere);
                }
            }
        }
        project
    }

    fn defaults(&mut self, value: &Value<'_>, task: &mut TaskDraft, trigger: &mut TriggerDraft) {
        let Some(table) = self.reader.table("defaults", value, "write [defaults] on a line of its own") else { return };
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if name == "id" || name == "name" {
                let problem = Problem::new(key.span(), "defaults", format!("`{name}` belongs to one task or trigger, not to all of them"));
                self.reader.push(problem);
            } else if !task.take(&mut self.reader, "defaults", name, value) && !trigger.take(&mut self.reader, "defaults", name, value) {
                let known: Vec<&str> = TASK_KEYS.iter().chain(&TRIGGER_KEYS).copied().filter(|key| !["id", "name"].contains(key)).collect();
                self.reader.unknown("defaults", key, value, &known, &[]);
            }
        }
    }

    fn tasks(&mut self, value: &Value<'_>, task: &TaskDraft, trigger: &TriggerDraft) {
        let Some(tasks) = self.reader.array("task", value, "write [[task]], with two brackets on each side") else { return };
        let mut ids: BTreeMap<TaskId, Range<usize>> = BTreeMap::new();
        for (index, value) in tasks.iter().enumerate() {
            let Some(table) = self.reader.table("task", value, "write [[task]] on a line of its own") else { continue };
            let name = table
                .get("id")
                .and_then(|id| id.get_ref().as_str())
                .map_or(format!("task {}", index + 1), |id| format!("task `{}`", id.escape_debug()));
            let mut draft = task.clone();
            draft.begin();
            for (key, value) in table {
                let key_name = key.get_ref().as_ref();
                if key_name == "trigger" || draft.take(&mut self.reader, &name, key_name, value) {
                    continue;
                }
                let known: Vec<&str> = TASK_KEYS.iter().copied().chain(["trigger"]).collect();
                self.reader.unknown(&name, key, value, &known, &[(&TRIGGER_KEYS, "[[task.trigger]]")]);
            }
            self.one_of_command_and_shell(&name, table);
            if let (Some(id), Some(place)) = (draft.id().cloned(), draft.place("id")) {
                self.unique(&mut ids, id, &name, place, "give one of them another id");
            }
            let id = draft.id().cloned();
            if let Some(triggers) = table.get("trigger") {
                self.triggers(triggers, &name, id.as_ref(), trigger);
            }
            let finished = draft.finish(&mut self.reader, &name, &value.span());
            self.tasks.push(finished);
        }
        self.unique_triggers();
    }

    fn one_of_command_and_shell(&mut self, name: &str, table: &DeTable<'_>) {
        if let (Some((_, first)), Some((key, _))) = (table.get_key_value("command"), table.get_key_value("shell")) {
            let mut problem = Problem::new(key.span(), name, "has both `command` and `shell`").hint("keep one of them");
            problem.other = Some((first.span(), "`command` is here".to_owned()));
            self.reader.push(problem);
        }
    }

    fn triggers(&mut self, value: &Value<'_>, task_name: &str, task_id: Option<&TaskId>, defaults: &TriggerDraft) {
        let Some(triggers) =
            self.reader.array(&format!("{task_name}: trigger"), value, "write [[task.trigger]], with two brackets on each side")
        else {
            return;
        };
        for (index, value) in triggers.iter().enumerate() {
            let Some(table) = self.reader.table(&format!("{task_name}: trigger"), value, "write [[task.trigger]] on a line of its own")
            else {
                continue;
            };
            let name = match table.get("id").and_then(|id| id.get_ref().as_str()) {
                Some(id) => format!("trigger `{}`", id.escape_debug()),
                None if triggers.len() == 1 => format!("trigger of {task_name}"),
                None => format!("trigger {} of {task_name}", index + 1),
            };
            let mut draft = defaults.clone();
            for (key, value) in table {
                if !draft.take(&mut self.reader, &name, key.get_ref(), value) {
                    self.reader.unknown(&name, key, value, &TRIGGER_KEYS, &[(&TASK_KEYS, "[[task]]")]);
                }
            }
            let trigger = draft.finish(&mut self.reader, &name, &value.span(), task_id);
            self.triggers.extend(trigger);
        }
    }

    fn unique_triggers(&mut self) {
        let mut ids = BTreeMap::new();
        for (trigger, place) in std::mem::take(&mut self.triggers) {
            let name = format!("trigger `{}`", trigger.id);
            self.unique(
                &mut ids,
                trigger.id.clone(),
                &name,
                place.clone(),
                "give one of them another `id`; the default is the id of its task",
            );
            self.triggers.push((trigger, place));
        }
    }

    fn unique<K: Ord>(&mut self, seen: &mut BTreeMap<K, Range<usize>>, id: K, name: &str, place: Range<usize>, hint: &str) {
        match seen.get(&id) {
            Some(first) => {
                let mut problem = Problem::new(place, name, "is defined twice").hint(hint);
                problem.other = Some((first.clone(), "the first one is here".to_owned()));
                self.reader.push(problem);
            }
            None => {
                seen.insert(id, place);
            }
        }
    }
}

#[cfg(test)]
mod tests;
