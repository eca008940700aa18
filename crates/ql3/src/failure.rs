//! What a command answers when it did not do as asked: a stable code, a sentence, what to do next, and an exit code.

use runtime_core::{ErrorCode, Invalid, StoreError};
use serde_json::{Value, json};

use crate::output::Paint;

/// Exit codes of the program. Stable; docs/cli.md lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, and the answer is no: `verify` found something.
    Findings = 1,
    /// The command line is not one.
    Usage = 2,
    /// A file, an expression or a value was refused.
    Invalid = 3,
    /// There is no such file, database, task, trigger or Run.
    NotFound = 4,
    /// Busy, full, read-only, or an answer was lost: try again later.
    Unavailable = 5,
    /// Another process schedules on this database.
    AlreadyRunning = 6,
    /// The database is not one that this program may write: damaged, foreign, or newer.
    Refused = 7,
    /// The state of the object does not allow it: cancelling what has ended, retrying what has not.
    Conflict = 8,
}

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    /// Exit code.
    pub exit: Exit,
    code: &'static str,
    message: String,
    hint: Option<String>,
    report: Option<String>,
    details: Vec<Value>,
}

impl Failure {
    pub fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self { exit, code, message: message.into(), hint: None, report: None, details: Vec::new() }
    }

    pub fn not_found(what: &str, id: &str) -> Self {
        Self::new(Exit::NotFound, "not_found", format!("there is no {what} `{}`", id.escape_debug()))
    }

    /// What to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A longer text for people instead of the message, and what it says for programs.
    #[must_use]
    pub fn report(mut self, text: String, details: Vec<Value>) -> Self {
        self.report = Some(text);
        self.details = details;
        self
    }

    /// The object on stderr with `--json`.
    pub fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message, "hint": self.hint });
        if !self.details.is_empty() {
            error["details"] = Value::from(self.details.clone());
        }
        json!({ "error": error })
    }

    /// The text on stderr without `--json`.
    pub fn to_text(&self, paint: Paint) -> String {
        if let Some(report) = &self.report {
            return report.clone();
        }
        let mut text = format!("{} {}", paint.red("error:"), self.message);
        if let Some(hint) = &self.hint {
            text.push_str("\n  hint: ");
            text.push_str(hint);
        }
        text
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        let failure = Self::new(Exit::Invalid, "invalid_input", invalid.to_string());
        Self { hint: invalid.hint, ..failure }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (exit, hint) = match error.code() {
            ErrorCode::InvalidInput => (Exit::Invalid, None),
            ErrorCode::NotFound => (Exit::NotFound, Some("`ql3 tasks`, `ql3 triggers` and `ql3 runs` list what there is")),
            ErrorCode::Busy => (Exit::Unavailable, Some("another program is writing; try again")),
            ErrorCode::Unavailable => (
                Exit::Unavailable,
                Some("mend what the message names (a path, a permission, a full disk; a damaged file needs a backup), then try again"),
            ),
            ErrorCode::CommitUnknown => (Exit::Unavailable, Some("look whether it happened before you repeat it")),
            ErrorCode::Closed => (Exit::Unavailable, Some("try again")),
            ErrorCode::AlreadyRunning => (Exit::AlreadyRunning, Some("stop it first, or use another database with --db")),
            ErrorCode::Corrupt => (Exit::Refused, Some("run `ql3 verify`; restore a backup if it finds more")),
            ErrorCode::MigrationHistoryInvalid => {
                (Exit::Refused, Some("the file was changed by another program, or is not a ql3 database"))
            }
            ErrorCode::SchemaNewer => (Exit::Refused, Some("use the newer ql3 that wrote it")),
            ErrorCode::IllegalTransition => (Exit::Conflict, Some("`ql3 run show RUN` tells where it stands")),
            ErrorCode::DuplicateIdempotencyKey
            | ErrorCode::DuplicateAttemptNumber
            | ErrorCode::DuplicateEventSequence
            | ErrorCode::DuplicateEventDedupeKey
            | ErrorCode::Constraint => (Exit::Conflict, None),
        };
        let own = match &error {
            StoreError::Invalid(invalid) => invalid.hint.clone(),
            _ => None,
        };
        let failure = Self::new(exit, error.code().as_str(), error.to_string());
        Self { hint: own.or_else(|| hint.map(str::to_owned)), ..failure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/cli.md and scripts know these numbers.
    #[test]
    fn every_kind_of_store_error_has_its_exit_code() {
        let exit = |error: StoreError| Failure::from(error).exit as u8;
        let (cause, detail) = (|| "x".to_owned(), || "x".to_owned());
        assert_eq!(exit(Invalid::new("a", "b").into()), 3);
        assert_eq!(exit(StoreError::not_found("run", "x")), 4);
        assert_eq!(exit(StoreError::Busy { cause: cause() }), 5);
        assert_eq!(exit(StoreError::Unavailable { cause: cause() }), 5);
        assert_eq!(exit(StoreError::CommitUnknown), 5);
        assert_eq!(exit(StoreError::Closed), 5);
        assert_eq!(exit(StoreError::AlreadyRunning { holder: detail() }), 6);
        assert_eq!(exit(StoreError::corrupt("runs", "id", 1)), 7);
        assert_eq!(exit(StoreError::MigrationHistory { detail: detail() }), 7);
        assert_eq!(exit(StoreError::SchemaNewer { found: detail(), known: detail() }), 7);
        assert_eq!(exit(StoreError::Constraint { rule: detail() }), 8);
        assert_eq!(exit(StoreError::DuplicateIdempotencyKey), 8);
    }

    #[test]
    fn a_store_error_keeps_its_code_and_says_what_next() {
        let failure = Failure::from(StoreError::AlreadyRunning { holder: "pid 7".into() });
        assert_eq!(failure.exit as u8, 6);
        assert_eq!(failure.to_json()["error"]["code"], "already_running");
        assert!(failure.to_text(Paint::plain()).contains("hint: stop it first"));
        let refused = Failure::from(StoreError::from(Invalid::new("limit", "is 0").hint("1 to 500")));
        assert_eq!((refused.exit as u8, refused.to_json()["error"]["hint"].as_str()), (3, Some("1 to 500")));
    }
}
