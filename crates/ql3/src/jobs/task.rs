//! Keys of `[[task]]`, here or in `[defaults]`.

use std::ops::Range;

use runtime_core::{
    Invalid,
    definition::TaskSpec,
    ids::TaskId,
    limits::{ATTEMPTS_MAX, MAX_CONCURRENT_MAX, PRIORITY_ABS_MAX},
    ports::executor::Command,
    run::{Backoff, RetrySpec, Safety},
};

use super::{
    keys::{Places, Reader, Value},
    source::Problem,
};

/// Every key but `trigger`.
pub const TASK_KEYS: [&str; 15] = [
    "id",
    "name",
    "enabled",
    "command",
    "shell",
    "env",
    "env_file",
    "cwd",
    "stdin",
    "priority",
    "timeout",
    "max_concurrent",
    "retry",
    "on_failure",
    "labels",
];
const RETRY_KEYS: [&str; 5] = ["max_attempts", "backoff", "max_backoff", "on_lost", "safety"];
/// Without `max_backoff`, delays stop doubling here.
const MAX_BACKOFF_DEFAULT_MS: u64 = 3_600_000;

/// A task while its keys are taken; starts as a copy of what `[defaults]` says.
#[derive(Clone)]
pub struct TaskDraft {
    id: Option<TaskId>,
    command: Option<Command>,
    /// Everything else; its id and command are placeholders.
    spec: TaskSpec,
    backoff_ms: Option<u64>,
    max_backoff_ms: Option<u64>,
    places: Places,
    /// Something in it was refused.
    faulty: bool,
}

impl Default for TaskDraft {
    fn default() -> Self {
        let placeholder = TaskId::new("unnamed").expect("a constant within the alphabet");
        Self {
            id: None,
            command: None,
            spec: TaskSpec::new(placeholder, Command::Argv(Vec::new())),
            backoff_ms: None,
            max_backoff_ms: None,
            places: Places::new(),
            faulty: false,
        }
    }
}

impl TaskDraft {
    /// Takes one key; false: it is not a key of a task.
    pub fn take(&mut self, reader: &mut Reader<'_>, whose: &str, key: &str, value: &Value<'_>) -> bool {
        let field = if whose.is_empty() { key.to_owned() } else { format!("{whose}: {key}") };
        let before = reader.problems.len();
        let spec = &mut self.spec;
        match key {
            "id" => {
                self.id = reader.string(&field, value).and_then(|id| TaskId::new(id).map_err(|e| reader.refuse(&field, value, e)).ok());
            }
            "name" => spec.name = reader.string(&field, value).or(spec.name.take()),
            "enabled" => spec.enabled = reader.boolean(&field, value).unwrap_or(true),
            "command" => self.command = reader.strings(&field, value).map(Command::Argv).or(self.command.take()),
            "shell" => self.command = reader.string(&field, value).map(Command::Shell).or(self.command.take()),
            "env" => {
                reader.hide(value);
                reader.string_map(&field, value, &mut spec.env, &mut self.places);
            }
            "labels" => reader.string_map(&field, value, &mut spec.labels, &mut self.places),
            "env_file" => spec.env_file = reader.string(&field, value),
            "cwd" => spec.cwd = reader.string(&field, value),
            "stdin" => spec.stdin = reader.string(&field, value),
            "priority" => {
                spec.priority = reader.integer(&field, value, &format!("-{PRIORITY_ABS_MAX} ..= {PRIORITY_ABS_MAX}")).unwrap_or(0);
            }
            "timeout" => spec.timeout_ms = reader.duration_ms(&field, value),
            "max_concurrent" => spec.max_concurrent = reader.integer(&field, value, &format!("1 ..= {MAX_CONCURRENT_MAX}")),
            "on_failure" => spec.on_failure = reader.strings(&field, value),
            "retry" => self.retry(reader, whose, &field, value),
            _ => return false,
        }
        self.faulty |= reader.problems.len() > before;
        self.places.insert(key.to_owned(), value.span());
        true
    }

    fn retry(&mut self, reader: &mut Reader<'_>, whose: &str, path: &str, value: &Value<'_>) {
        let Some(table) = reader.table(path, value, "write retry = { max_attempts = 3, backoff = \"10s\" }") else { return };
        for (key, value) in table {
            let name = format!("retry.{}", key.get_ref());
            let field = if whose.is_empty() { name.clone() } else { format!("{whose}: {name}") };
            let retry = &mut self.spec.retry;
            match key.get_ref().as_ref() {
                "max_attempts" => retry.max_attempts = reader.integer(&field, value, &format!("1 ..= {ATTEMPTS_MAX}")).unwrap_or(1),
                "backoff" => self.backoff_ms = reader.duration_ms(&field, value),
                "max_backoff" => self.max_backoff_ms = reader.duration_ms(&field, value),
                "on_lost" => retry.on_lost = reader.boolean(&field, value).unwrap_or(false),
                "safety" => {
                    let safety = reader.string(&field, value);
                    retry.safety =
                        safety.and_then(|text| Safety::parse(&text).map_err(|e| reader.refuse(&field, value, e)).ok()).unwrap_or_default();
                }
                _ => reader.unknown(whose, key, value, &RETRY_KEYS, &[]),
            }
            self.places.insert(name, value.span());
        }
    }

    /// The task, if it has an id and a command; `header` is where its table begins.
    pub fn finish(mut self, reader: &mut Reader<'_>, whose: &str, header: &Range<usize>) -> Option<TaskSpec> {
        let missing = |reader: &mut Reader<'_>, what: &str, hint: &str| {
            reader.push(Problem::new(header.clone(), whose, format!("{what} is missing")).hint(hint));
        };
        if !self.places.contains_key("id") {
            missing(reader, "`id`", "give it a name that is unique in the project: id = \"backup\"");
        }
        if self.command.is_none() && !self.places.contains_key("command") && !self.places.contains_key("shell") {
            missing(reader, "`command`", "write command = [\"program\", \"argument\"], or shell = \"one line for /bin/sh -c\"");
        }
        self.check(reader, whose, header);
        let (id, command) = (self.id?, self.command?);
        (!self.faulty).then_some(TaskSpec { id, command, ..self.spec })
    }

    /// Reports what core refuses, and goes on as if it had not been said.
    pub fn check(&mut self, reader: &mut Reader<'_>, whose: &str, header: &Range<usize>) {
        let backoff_ms = self.backoff_ms.unwrap_or(0);
        self.spec.retry.backoff = match (self.backoff_ms, self.max_backoff_ms) {
            (None, None) => RetrySpec::default().backoff,
            (_, max_ms) => Backoff { base_ms: backoff_ms, max_ms: max_ms.unwrap_or(MAX_BACKOFF_DEFAULT_MS.max(backoff_ms)) },
        };
        // A key that could not be read stands as its default now: what is judged is everything else.
        self.spec.command = self.command.clone().unwrap_or(Command::Shell("true".to_owned()));
        // Core names one fault at a time: each is taken out until nothing is left to say.
        while let Err(invalid) = self.spec.check() {
            self.faulty = true;
            let span = self.place(&invalid.field).unwrap_or_else(|| header.clone());
            let field = format!("{whose}: {}", invalid.field);
            let known = self.clear(&invalid);
            let problem = reader.located(span, None, &field, invalid);
            reader.push(problem);
            if !known {
                return;
            }
        }
    }

    /// Where the value of a field stands; the nearest table around it, if it has none of its own.
    pub fn place(&self, field: &str) -> Option<Range<usize>> {
        let parent = field.split_once('.').map(|(parent, _)| parent);
        self.places.get(field).or_else(|| self.places.get(parent?)).cloned()
    }

    /// Replaces what was refused by what is always allowed; false: nothing is known of the field.
    fn clear(&mut self, invalid: &Invalid) -> bool {
        let spec = &mut self.spec;
        match invalid.field.as_str() {
            "command" | "shell" => {
                self.command = None;
                spec.command = Command::Shell("true".to_owned());
            }
            "on_failure" => spec.on_failure = None,
            "name" => spec.name = None,
            "env_file" => spec.env_file = None,
            "cwd" => spec.cwd = None,
            "stdin" => spec.stdin = None,
            "priority" => spec.priority = 0,
            "timeout" => spec.timeout_ms = None,
            "max_concurrent" => spec.max_concurrent = None,
            "retry.max_attempts" => spec.retry.max_attempts = 1,
            "retry.backoff" | "retry.max_backoff" => {
                (self.backoff_ms, self.max_backoff_ms) = (None, None);
                spec.retry.backoff = RetrySpec::default().backoff;
            }
            "retry.on_lost" => spec.retry.on_lost = false,
            field if field == "env" || field.starts_with("env.") => spec.env.clear(),
            _ => return false,
        }
        true
    }

    pub fn id(&self) -> Option<&TaskId> {
        self.id.as_ref()
    }

    /// Begins the keys of one task after those of `[defaults]`, whose faults are not the task's.
    pub fn begin(&mut self) {
        self.faulty = false;
    }
}
