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
        ErrorCode::NotADatabase => unavailable("the file is not a SQLite database"),
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
