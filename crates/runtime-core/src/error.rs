//! One error for every store, with a code that never changes its meaning (docs/errors.md has a section for each).

use crate::{Invalid, run::IllegalTransition};

/// Why a store did not do as asked. No message holds SQL, a parameter, a secret or a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another Run of the project has this idempotency key.
    #[error("a Run of this project already has this idempotency key")]
    DuplicateIdempotencyKey,
    /// The Run already has an attempt of this number.
    #[error("this Run already has an attempt of this number")]
    DuplicateAttemptNumber,
    /// The Run already has an event of this sequence.
    #[error("this Run already has an event of this sequence")]
    DuplicateEventSequence,
    /// The Run already has an event with this dedupe key.
    #[error("this Run already has an event with this dedupe key")]
    DuplicateEventDedupeKey,
    /// Any other integrity rule of the schema.
    #[error("the stored data do not allow this: {rule}")]
    Constraint {
        /// Name of the constraint, or its kind where the store gives no name.
        rule: String,
    },
    /// Somebody else is writing, or the wait for them was cut short. Nothing was changed.
    #[error("the store is busy: {cause}")]
    Busy {
        /// Lock, deadlock, serialization, statement timeout.
        cause: String,
    },
    /// The store cannot be used right now: full, read-only, gone. Nothing was changed.
    #[error("the store is unavailable: {cause}")]
    Unavailable {
        /// What the system answered.
        cause: String,
    },
    /// COMMIT was sent and its answer was lost: the change is either whole or absent.
    #[error("the answer to COMMIT was lost: the change is either whole or absent")]
    CommitUnknown,
    /// A stored value cannot be what the product wrote.
    #[error("corrupt value in {table}.{column}, row {row}")]
    Corrupt {
        /// Table.
        table: &'static str,
        /// Column, or `*` for the row as a whole.
        column: &'static str,
        /// Key of the row.
        row: String,
    },
    /// Refused before anything was stored.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The command does not fit the state that the record is in.
    #[error(transparent)]
    Illegal(#[from] IllegalTransition),
    /// No such record.
    #[error("there is no {what} `{id}`")]
    NotFound {
        /// `run`, `task`, `trigger`.
        what: &'static str,
        /// As it was asked for.
        id: String,
    },
    /// The migration history is not one that this program wrote.
    #[error("the migration history is not this program's: {detail}")]
    MigrationHistory {
        /// File, and stored and expected checksum where they differ.
        detail: String,
    },
    /// The schema was written by a newer program.
    #[error("the schema is newer than this program: it holds {found}, this program knows {known}")]
    SchemaNewer {
        /// Newest migration that is stored.
        found: String,
        /// Newest migration that this program knows.
        known: String,
    },
    /// Another process is the single scheduler of this store.
    #[error("already running: {holder}")]
    AlreadyRunning {
        /// What is known of the holder.
        holder: String,
    },
    /// The handle was closed, or its owner is gone.
    #[error("the store is closed")]
    Closed,
}

/// Stable, append-only codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// See [`StoreError::DuplicateIdempotencyKey`].
    DuplicateIdempotencyKey,
    /// See [`StoreError::DuplicateAttemptNumber`].
    DuplicateAttemptNumber,
    /// See [`StoreError::DuplicateEventSequence`].
    DuplicateEventSequence,
    /// See [`StoreError::DuplicateEventDedupeKey`].
    DuplicateEventDedupeKey,
    /// See [`StoreError::Constraint`].
    Constraint,
    /// See [`StoreError::Busy`].
    Busy,
    /// See [`StoreError::Unavailable`].
    Unavailable,
    /// See [`StoreError::CommitUnknown`].
    CommitUnknown,
    /// See [`StoreError::Corrupt`].
    Corrupt,
    /// See [`StoreError::Invalid`].
    InvalidInput,
    /// See [`StoreError::Illegal`].
    IllegalTransition,
    /// See [`StoreError::NotFound`].
    NotFound,
    /// See [`StoreError::MigrationHistory`].
    MigrationHistoryInvalid,
    /// See [`StoreError::SchemaNewer`].
    SchemaNewer,
    /// See [`StoreError::AlreadyRunning`].
    AlreadyRunning,
    /// See [`StoreError::Closed`].
    Closed,
}

impl ErrorCode {
    /// Every code, in the order in which they came to be.
    pub const ALL: [Self; 16] = [
        Self::DuplicateIdempotencyKey,
        Self::DuplicateAttemptNumber,
        Self::DuplicateEventSequence,
        Self::DuplicateEventDedupeKey,
        Self::Constraint,
        Self::Busy,
        Self::Unavailable,
        Self::CommitUnknown,
        Self::Corrupt,
        Self::InvalidInput,
        Self::IllegalTransition,
        Self::NotFound,
        Self::MigrationHistoryInvalid,
        Self::SchemaNewer,
        Self::AlreadyRunning,
        Self::Closed,
    ];

    /// The code as it stands in `--json` and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DuplicateIdempotencyKey => "duplicate_idempotency_key",
            Self::DuplicateAttemptNumber => "duplicate_attempt_number",
            Self::DuplicateEventSequence => "duplicate_event_sequence",
            Self::DuplicateEventDedupeKey => "duplicate_event_dedupe_key",
            Self::Constraint => "constraint",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::CommitUnknown => "commit_unknown",
            Self::Corrupt => "corrupt",
            Self::InvalidInput => "invalid_input",
            Self::IllegalTransition => "illegal_transition",
            Self::NotFound => "not_found",
            Self::MigrationHistoryInvalid => "migration_history_invalid",
            Self::SchemaNewer => "schema_newer",
            Self::AlreadyRunning => "already_running",
            Self::Closed => "closed",
        }
    }
}

/// What a caller may do with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same command fails again.
    Never,
    /// The same command may succeed later.
    WithBackoff,
    /// Read what became of it first.
    AfterVerify,
}

impl StoreError {
    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::DuplicateIdempotencyKey => ErrorCode::DuplicateIdempotencyKey,
            Self::DuplicateAttemptNumber => ErrorCode::DuplicateAttemptNumber,
            Self::DuplicateEventSequence => ErrorCode::DuplicateEventSequence,
            Self::DuplicateEventDedupeKey => ErrorCode::DuplicateEventDedupeKey,
            Self::Constraint { .. } => ErrorCode::Constraint,
            Self::Busy { .. } => ErrorCode::Busy,
            Self::Unavailable { .. } => ErrorCode::Unavailable,
            Self::CommitUnknown => ErrorCode::CommitUnknown,
            Self::Corrupt { .. } => ErrorCode::Corrupt,
            Self::Invalid(_) => ErrorCode::InvalidInput,
            Self::Illegal(_) => ErrorCode::IllegalTransition,
            Self::NotFound { .. } => ErrorCode::NotFound,
            Self::MigrationHistory { .. } => ErrorCode::MigrationHistoryInvalid,
            Self::SchemaNewer { .. } => ErrorCode::SchemaNewer,
            Self::AlreadyRunning { .. } => ErrorCode::AlreadyRunning,
            Self::Closed => ErrorCode::Closed,
        }
    }

    /// What a caller may do next.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Busy { .. } | Self::Unavailable { .. } => Retry::WithBackoff,
            Self::CommitUnknown => Retry::AfterVerify,
            Self::DuplicateIdempotencyKey
            | Self::DuplicateAttemptNumber
            | Self::DuplicateEventSequence
            | Self::DuplicateEventDedupeKey
            | Self::Constraint { .. }
            | Self::Corrupt { .. }
            | Self::Invalid(_)
            | Self::Illegal(_)
            | Self::NotFound { .. }
            | Self::MigrationHistory { .. }
            | Self::SchemaNewer { .. }
            | Self::AlreadyRunning { .. }
            | Self::Closed => Retry::Never,
        }
    }

    /// A stored value that cannot be what the product wrote.
    pub fn corrupt(table: &'static str, column: &'static str, row: impl std::fmt::Display) -> Self {
        Self::Corrupt { table, column, row: row.to_string() }
    }

    /// A record that is not there.
    pub fn not_found(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes are append-only: this list only grows at its end.
    #[test]
    fn codes_never_change() {
        let known = [
            "duplicate_idempotency_key",
            "duplicate_attempt_number",
            "duplicate_event_sequence",
            "duplicate_event_dedupe_key",
            "constraint",
            "busy",
            "unavailable",
            "commit_unknown",
            "corrupt",
            "invalid_input",
            "illegal_transition",
            "not_found",
            "migration_history_invalid",
            "schema_newer",
            "already_running",
            "closed",
        ];
        assert_eq!(ErrorCode::ALL.map(ErrorCode::as_str), known);
    }

    #[test]
    fn every_code_is_documented() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md")).unwrap();
        for code in ErrorCode::ALL {
            assert!(page.contains(&format!("### `{}`", code.as_str())), "docs/errors.md has no section for {}", code.as_str());
        }
    }
}
