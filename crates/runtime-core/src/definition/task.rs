//! What is executed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::canonical;
use crate::{
    Invalid,
    digest::Digest,
    ids::TaskId,
    limits::{MAX_CONCURRENT_MAX, NAME_BYTES_MAX, PRIORITY_ABS_MAX, TIMEOUT_MS_MAX},
    ports::executor::Command,
    run::RetrySpec,
};

const SCHEMA: &str = "ql3/task@v1";

/// A task, as its author wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// Unique in the project.
    pub id: TaskId,
    /// For people; at most 255 bytes.
    pub name: Option<String>,
    /// A disabled task admits nothing: its triggers rest.
    pub enabled: bool,
    /// What is executed.
    pub command: Command,
    /// Added to the executor's environment. Values are secrets: never shown, never logged.
    pub env: BTreeMap<String, String>,
    /// A file of `KEY=value` lines, read at every start.
    pub env_file: Option<String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Fed to the command.
    pub stdin: Option<String>,
    /// Higher runs first; -1000 ..= 1000.
    pub priority: i32,
    /// The command is ended after so long.
    pub timeout_ms: Option<u64>,
    /// So many attempts of this task run at once, at most.
    pub max_concurrent: Option<u32>,
    /// When it is tried again.
    pub retry: RetrySpec,
    /// Run after the final failure.
    pub on_failure: Option<Vec<String>>,
    /// For people and filters.
    pub labels: BTreeMap<String, String>,
}

impl TaskSpec {
    /// A task that runs `command` and says nothing else.
    pub fn new(id: TaskId, command: Command) -> Self {
        Self {
            id,
            name: None,
            enabled: true,
            command,
            env: BTreeMap::new(),
            env_file: None,
            cwd: None,
            stdin: None,
            priority: 0,
            timeout_ms: None,
            max_concurrent: None,
            retry: RetrySpec::default(),
            on_failure: None,
            labels: BTreeMap::new(),
        }
    }

    /// Checks every bound; the error names the key as a jobs file spells it.
    pub fn check(&self) -> Result<(), Invalid> {
        match &self.command {
            Command::Argv(argv) => check_argv("command", argv)?,
            Command::Shell(line) if line.trim().is_empty() => return Err(Invalid::new("shell", "is empty")),
            Command::Shell(line) => no_nul("shell", line)?,
        }
        if let Some(argv) = &self.on_failure {
            check_argv("on_failure", argv)?;
        }
        check_name("name", self.name.as_deref())?;
        for (key, value) in &self.env {
            check_env_key(key)?;
            no_nul(&format!("env.{key}"), value)?;
        }
        for (field, value) in [("env_file", &self.env_file), ("cwd", &self.cwd)] {
            if let Some(value) = value {
                no_nul(field, value)?;
                if value.is_empty() {
                    return Err(Invalid::new(field, "is empty").hint("leave it out"));
                }
            }
        }
        if let Some(stdin) = &self.stdin {
            no_nul("stdin", stdin)?;
        }
        if self.priority.abs() > PRIORITY_ABS_MAX {
            return Err(Invalid::new("priority", format!("is {}, -{PRIORITY_ABS_MAX} ..= {PRIORITY_ABS_MAX} is allowed", self.priority)));
        }
        if let Some(ms) = self.timeout_ms
            && !(1..=TIMEOUT_MS_MAX).contains(&ms)
        {
            return Err(Invalid::new("timeout", format!("is {ms} ms, 1 ms ..= 30d is allowed")));
        }
        if let Some(n) = self.max_concurrent
            && !(1..=MAX_CONCURRENT_MAX).contains(&n)
        {
            return Err(Invalid::new("max_concurrent", format!("is {n}, 1 ..= {MAX_CONCURRENT_MAX} is allowed")));
        }
        self.retry.check()?;
        canonical::check(SCHEMA, "task", &self.canonical())
    }

    /// The display name: `name`, or the id.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.as_str())
    }

    /// The canonical text, as it is stored.
    pub fn canonical(&self) -> String {
        canonical::to_text(SCHEMA, self)
    }

    /// Reads stored text.
    pub fn from_canonical(text: &str) -> Result<Self, Invalid> {
        canonical::from_text(SCHEMA, text)
    }

    /// SHA-256 of the canonical text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.canonical().as_bytes())
    }
}

pub(super) fn check_name(field: &str, name: Option<&str>) -> Result<(), Invalid> {
    match name {
        Some(name) if name.is_empty() || name.len() > NAME_BYTES_MAX => {
            Err(Invalid::new(field, format!("is {} bytes long, 1 ..= {NAME_BYTES_MAX} are allowed", name.len())))
        }
        Some(name) if name.chars().any(char::is_control) => Err(Invalid::new(field, "holds a control character")),
        _ => Ok(()),
    }
}

fn check_argv(field: &str, argv: &[String]) -> Result<(), Invalid> {
    match argv.first() {
        None => return Err(Invalid::new(field, "is empty").hint("write the program and its arguments: [\"echo\", \"hello\"]")),
        Some(program) if program.is_empty() => return Err(Invalid::new(field, "names an empty program")),
        Some(_) => {}
    }
    argv.iter().try_for_each(|part| no_nul(field, part))
}

fn check_env_key(key: &str) -> Result<(), Invalid> {
    if key.is_empty() || key.contains(['=', '\0']) {
        return Err(Invalid::new("env", format!("`{}` cannot be the name of a variable", key.escape_debug())));
    }
    if key.starts_with("QL3_") {
        return Err(Invalid::new("env", format!("`{key}` is the product's own: names that begin with QL3_ are set for each attempt")));
    }
    Ok(())
}

fn no_nul(field: &str, text: &str) -> Result<(), Invalid> {
    if text.contains('\0') { Err(Invalid::new(field, "holds the NUL character, which no process can take")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> TaskSpec {
        TaskSpec::new(TaskId::new("backup").unwrap(), Command::Argv(vec!["pg_dump".into(), "app".into()]))
    }

    /// Golden: these bytes and this digest never change for `ql3/task@v1`.
    #[test]
    fn golden_digest() {
        let mut task = task();
        task.env.insert("PGUSER".into(), "app".into());
        task.timeout_ms = Some(600_000);
        assert_eq!(
            task.canonical(),
            concat!(
                r#"{"command":{"argv":["pg_dump","app"]},"cwd":null,"enabled":true,"env":{"PGUSER":"app"},"env_file":null,"#,
                r#""id":"backup","labels":{},"max_concurrent":null,"name":null,"on_failure":null,"priority":0,"#,
                r#""retry":{"backoff":{"base_ms":0,"max_ms":0},"max_attempts":1,"on_lost":false,"safety":"unknown"},"#,
                r#""schema":"ql3/task@v1","stdin":null,"timeout_ms":600000}"#
            )
        );
        assert_eq!(task.digest().as_str(), "0fefb72e4d77aed9d536cf2058e6e70c1b9988bc2c757e719dbcca7dcc480a04");
        assert_eq!(TaskSpec::from_canonical(&task.canonical()).unwrap(), task);
    }

    #[test]
    fn refusals_name_the_key() {
        let field = |change: fn(&mut TaskSpec)| {
            let mut task = task();
            change(&mut task);
            task.check().unwrap_err().field
        };
        assert_eq!(field(|t| t.command = Command::Argv(vec![])), "command");
        assert_eq!(field(|t| t.command = Command::Shell("  ".into())), "shell");
        assert_eq!(field(|t| t.command = Command::Argv(vec!["a\0".into()])), "command");
        assert_eq!(field(|t| t.priority = 1_001), "priority");
        assert_eq!(field(|t| t.timeout_ms = Some(0)), "timeout");
        assert_eq!(field(|t| t.max_concurrent = Some(0)), "max_concurrent");
        assert_eq!(field(|t| t.retry.max_attempts = 17), "retry.max_attempts");
        assert_eq!(field(|t| t.name = Some(String::new())), "name");
        assert_eq!(field(|t| t.on_failure = Some(vec![])), "on_failure");
        assert_eq!(
            field(|t| {
                t.env.insert("QL3_DB".into(), String::new());
            }),
            "env"
        );
        assert_eq!(field(|t| t.stdin = Some("x".repeat(65_536))), "task");
        assert!(task().check().is_ok());
    }
}
