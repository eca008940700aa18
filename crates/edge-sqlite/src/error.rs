//! What SQLite answers, as the errors of the ports. No message holds SQL or a parameter.

use runtime_core::{Invalid, StoreError};
use rusqlite::{Error, ErrorCode};

/// The columns of the unique indexes that have an error of their own. SQLite reports an index by its columns.
const UNIQUE: &[(&str, StoreError)] = &[
    ("runs.project_id, runs.idempotency_key", StoreError::DuplicateIdempotencyKey),
    ("run_attempts.run_id, run_attempts.attempt", StoreError::DuplicateAttemptNumber),
    ("run_events.run_id, run_events.sequence", StoreError::DuplicateEventSequence),
    ("run_events.run_id, run_events.dedupe_key", StoreError::DuplicateEventDedupeKey),
];

#[expect(clippy::needless_pass_by_value, reason = "the argument of map_err")]
pub(crate) fn store_error(error: Error) -> StoreError {
    match &error {
        Error::SqliteFailure(failure, message) => from_code(failure.code, failure.extended_code, message.as_deref().unwrap_or_default()),
        Error::SqlInputError { .. } => unavailable("the schema is not the one that this program made"),
        _ => unavailable("SQLite was asked for something it cannot do"),
    }
}

/// The error of a COMMIT. After an I/O error nobody knows how much of it reached the disk.
pub(crate) fn commit_error(error: Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) => StoreError::CommitUnknown,
        _ => store_error(error),
    }
}

fn from_code(code: ErrorCode, extended: i32, message: &str) -> StoreError {
    match code {
        ErrorCode::ConstraintViolation => constraint(message),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Busy { cause: "another process is writing to the file".to_owned() }
        }
        ErrorCode::DiskFull => unavailable("the disk is full"),
        ErrorCode::ReadOnly => unavailable("the file or its directory is read-only"),
        ErrorCode::CannotOpen => unavailable("the file cannot be opened"),
        ErrorCode::PermissionDenied => unavailable("access to the file is denied"),
        ErrorCode::SystemIoFailure => unavailable(&format!("reading or writing the file failed (SQLite code {extended})")),
        ErrorCode::DatabaseCorrupt => unavailable("the file is damaged: restore a backup"),
        // No wait makes it one.
        ErrorCode::NotADatabase => StoreError::MigrationHistory { detail: "the file is not a SQLite database".to_owned() },
        ErrorCode::OutOfMemory => unavailable("out of memory"),
        _ => unavailable(&format!("SQLite answered with code {extended}")),
    }
}

fn constraint(message: &str) -> StoreError {
    // "UNIQUE constraint failed: runs.project_id, runs.idempotency_key", "CHECK constraint failed: runs_version"
    let (kind, rule) = message.split_once(" constraint failed: ").unwrap_or((message, ""));
    if kind == "UNIQUE"
        && let Some((_, error)) = UNIQUE.iter().find(|(columns, _)| *columns == rule)
    {
        return error.clone();
    }
    let rule = if rule.is_empty() { kind.trim_end_matches(" constraint failed") } else { rule };
    StoreError::Constraint { rule: rule.to_owned() }
}

pub(crate) fn unavailable(cause: &str) -> StoreError {
    StoreError::Unavailable { cause: cause.to_owned() }
}

/// Passes over a record that cannot be read, where one bad record must not hold up all others. It is logged each time; whoever
/// asks for the record itself gets the error.
pub(crate) fn readable<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error @ StoreError::Corrupt { .. }) => {
            tracing::error!(%error, "passed over");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Refuses a page that is empty or too large.
pub(crate) fn check_page(limit: u32, max: u32) -> Result<(), Invalid> {
    if (1..=max).contains(&limit) { Ok(()) } else { Err(Invalid::new("limit", format!("is {limit}, 1 ..= {max} is allowed"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violated(sql: &str) -> StoreError {
        let conn = rusqlite::Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE runs (id INTEGER PRIMARY KEY, project_id TEXT, idempotency_key TEXT,
                 version INTEGER CONSTRAINT runs_version CHECK (version > 0)) STRICT;
             CREATE UNIQUE INDEX runs_idempotency_key ON runs (project_id, idempotency_key);
             CREATE UNIQUE INDEX runs_other ON runs (idempotency_key);
             INSERT INTO runs VALUES (1, 'p', 'k', 1);",
        )
        .unwrap();
        store_error(conn.execute_batch(sql).unwrap_err())
    }

    /// Any other rule keeps its name; a duplicate is one by its index and by nothing else.
    #[test]
    fn a_duplicate_is_told_by_its_index_alone() {
        let constraint = |rule: &str| StoreError::Constraint { rule: rule.to_owned() };
        assert_eq!(violated("DROP INDEX runs_other; INSERT INTO runs VALUES (2, 'p', 'k', 1)"), StoreError::DuplicateIdempotencyKey);
        assert_eq!(violated("INSERT INTO runs VALUES (2, 'q', 'k', 1)"), constraint("runs.idempotency_key"));
        assert_eq!(violated("INSERT INTO runs VALUES (1, 'q', 'l', 1)"), constraint("runs.id"));
        assert_eq!(violated("INSERT INTO runs VALUES (2, 'q', 'l', 0)"), constraint("runs_version"));
    }

    #[test]
    fn no_message_holds_sql() {
        for sql in ["INSERT INTO runs VALUES ('secret', 'q', 'l', 1)", "SELECT secret FROM runs", "secret"] {
            let shown = violated(sql).to_string();
            assert!(!shown.contains("secret") && !shown.contains("INSERT"), "{shown}");
        }
    }
}
