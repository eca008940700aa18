//! Moving in: what a crontab or a Qinglong export says, as definitions, with a verdict on every line.
//!
//! Nothing changes its meaning silently. A line is *exact*, *translated* with the reason why that means the same, or *refused* with the
//! reason and what to do. Schedules are proved: what the source means is computed from the source's own rules, and compared with what
//! the evaluator makes of the translation.

mod command;
pub mod crontab;
mod fields;
mod ids;
mod jobs_toml;
pub mod qinglong;
pub mod report;
mod schedule;
#[cfg(test)]
mod tests;
mod variables;

use runtime_core::{
    Invalid,
    definition::{TaskSpec, TriggerSpec},
};

pub use jobs_toml::render;

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is kept as written.
    Exact,
    /// It is written differently, or means something that must be known; the row says why.
    Translated,
    /// It is not imported; the row says why, and what to do.
    Refused,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Translated => "translated",
            Self::Refused => "refused",
        }
    }
}

/// What a row speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A schedule with a command.
    Entry,
    /// A variable for the lines below it.
    Variable,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Variable => "variable",
        }
    }
}

/// One line of a crontab, or one element of an export.
#[derive(Clone, Debug)]
pub struct Row {
    /// 1-based: the line of a crontab, the element of an export.
    pub line: usize,
    pub kind: Kind,
    pub verdict: Verdict,
    /// The schedule as written, or the name of the variable. Never a value.
    pub source: String,
    /// The schedule here, if it is written differently.
    pub cron: Option<String>,
    /// The task that it became.
    pub task: Option<String>,
    /// What was kept, changed or refused, and why.
    pub why: Vec<String>,
    /// What to do about a refusal.
    pub hint: Option<String>,
    /// What its author may not have meant, though it is what is written.
    pub warnings: Vec<String>,
}

/// A task with its triggers.
#[derive(Clone, Debug)]
pub struct Job {
    pub task: TaskSpec,
    pub triggers: Vec<TriggerSpec>,
    /// Lines that are kept as comments.
    pub comments: Vec<String>,
}

/// Everything that was read.
#[derive(Debug, Default)]
pub struct Imported {
    pub rows: Vec<Row>,
    pub jobs: Vec<Job>,
    /// How many lines are comments or blank.
    pub comments: usize,
    /// What differs for all of them.
    pub notes: Vec<String>,
    /// The first line whose trigger has no zone, because neither the file nor the caller names one.
    pub needs_zone: Option<usize>,
}

impl Imported {
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    pub fn warnings(&self) -> usize {
        self.rows.iter().filter(|row| !row.warnings.is_empty()).count()
    }
}

/// Why something is not imported, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub why: String,
    pub hint: String,
}

impl Refusal {
    pub fn new(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { why: why.into(), hint: hint.into() }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        let hint = invalid.hint.clone().unwrap_or_else(|| "write the task by hand; docs/cli.md explains every key".to_owned());
        Self::new(invalid.to_string(), hint)
    }
}

impl Row {
    fn new(line: usize, kind: Kind, source: impl Into<String>) -> Self {
        let source = source.into();
        Self { line, kind, verdict: Verdict::Exact, source, cron: None, task: None, why: Vec::new(), hint: None, warnings: Vec::new() }
    }

    fn translated(mut self, why: impl Into<String>) -> Self {
        self.verdict = Verdict::Translated;
        self.why.push(why.into());
        self
    }

    fn refused(mut self, refusal: Refusal) -> Self {
        self.verdict = Verdict::Refused;
        self.why = vec![refusal.why];
        self.hint = Some(refusal.hint);
        self
    }
}
