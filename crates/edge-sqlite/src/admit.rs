//! Admitting an occurrence, of which somebody may have been first.

use runtime_core::{
    StoreError,
    ids::{ProjectId, RunId},
    run::{Admission, Run},
};
use rusqlite::Connection;

use crate::{
    rows::{self, RUNS, run_columns},
    sql::one,
    write,
};

/// The key of an admission belongs to another Run.
pub(crate) struct Taken {
    pub holder: RunId,
    /// It is the same occurrence of the same definitions.
    pub same_facts: bool,
}

/// Writes the records of an admission, unless its key is taken.
pub(crate) fn admit(conn: &Connection, admission: &Admission) -> Result<Option<Taken>, StoreError> {
    match write::admission(conn, admission) {
        // The Run is written first, so nothing else was.
        Err(StoreError::DuplicateIdempotencyKey) => {
            let run = &admission.run;
            let key = run.idempotency_key.as_deref().unwrap_or_default();
            let holder = key_holder(conn, &run.project_id, key)?.ok_or(StoreError::DuplicateIdempotencyKey)?;
            Ok(Some(Taken { same_facts: same_facts(run, &holder), holder: holder.id }))
        }
        written => written.map(|()| None),
    }
}

/// The Run of a project that has an idempotency key.
pub(crate) fn key_holder(conn: &Connection, project_id: &ProjectId, key: &str) -> Result<Option<Run>, StoreError> {
    const SQL: &str = concat!("-- runs.key_holder\nSELECT ", run_columns!(), " FROM runs WHERE project_id = ?1 AND idempotency_key = ?2");
    one(conn, &RUNS, SQL, [project_id.as_str(), key], rows::run)
}

/// What two admissions of one occurrence have in common, whoever made them and when.
fn same_facts(a: &Run, b: &Run) -> bool {
    (&a.task_id, a.task_revision, &a.task_digest) == (&b.task_id, b.task_revision, &b.task_digest)
        && (&a.trigger_id, a.trigger_revision, &a.trigger_digest) == (&b.trigger_id, b.trigger_revision, &b.trigger_digest)
        && a.scheduled_for == b.scheduled_for
}
