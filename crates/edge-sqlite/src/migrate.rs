//! Migrations: which the program knows, which the file holds, and what is refused before anything is written.

use runtime_core::{StoreError, digest::Digest};
use rusqlite::{Connection, params};

use crate::{
    error::store_error,
    open::Authority,
    sql::{Table, all, execute, one},
    tx::{self, Transaction},
};

/// Marks the file as ql3's; `file` and the sqlite3 shell show it. ASCII "ql3" and the version of the mark.
const APPLICATION_ID: i32 = 0x716c_3301;
const DIALECT: &str = "sqlite-main";
const CONTRACT: &str = "control-core";

const HISTORY: Table = Table { name: "schema_migrations", key: &["position"] };
const CAPABILITIES: Table = Table { name: "schema_capabilities", key: &["contract_name"] };

/// One file of the stream, and what the schema can do after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    id: &'static str,
    pub sql: &'static str,
    capabilities: &'static str,
}

macro_rules! migration {
    ($id:literal, $capabilities:literal) => {
        Migration { id: $id, sql: include_str!(concat!("../migrations/", $id, ".sql")), capabilities: $capabilities }
    };
}

/// The list is the order.
pub(crate) const MIGRATIONS: &[Migration] = &[
    migration!("sqlite-0001-schema-capability", r"{}"),
    migration!("sqlite-0002-run-core", r#"{"run_core":1,"run_retry_policy":1}"#),
    migration!("sqlite-0003-definitions-schedules", r#"{"definitions":1,"run_core":1,"run_retry_policy":1,"schedules":1}"#),
    migration!(
        "sqlite-0004-dispatch-control",
        r#"{"control":1,"definitions":1,"dispatch":1,"run_core":1,"run_retry_policy":1,"schedules":1}"#
    ),
    migration!(
        "sqlite-0005-retention",
        r#"{"control":1,"definitions":1,"dispatch":1,"retention":1,"run_core":1,"run_retry_policy":1,"schedules":1}"#
    ),
];

/// Checks in one snapshot that the file is new or holds a history that this program wrote. Writes nothing.
pub(crate) fn check(conn: &Connection) -> Result<(), StoreError> {
    tx::read(conn, |conn| applied(conn, MIGRATIONS).map(|_| ()))
}

/// Applies what is missing. Each migration becomes durable together with its row of the history; of several openers one applies
/// it and the others find it applied.
pub(crate) fn migrate(conn: &Connection, authority: &Authority) -> Result<(), StoreError> {
    loop {
        let tx = Transaction::immediate(conn)?;
        let at = authority.clock.now();
        let done = applied(conn, MIGRATIONS)?;
        let Some(next) = MIGRATIONS.get(done) else { return Ok(()) };
        if done == 0 {
            conn.pragma_update(None, "application_id", APPLICATION_ID).map_err(store_error)?;
        }
        conn.execute_batch(next.sql).map_err(store_error)?;
        let position = i64::try_from(done + 1).expect("a short list");
        execute(
            conn,
            "-- schema_migrations.insert
             INSERT INTO schema_migrations (position, id, dialect, checksum, applied_at_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![position, next.id, DIALECT, Digest::of(next.sql.as_bytes()).as_str(), at.get()],
        )?;
        execute(
            conn,
            "-- schema_capabilities.raise
             INSERT INTO schema_capabilities (contract_name, contract_version, migration_id, capabilities, updated_at_ms)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (contract_name) DO UPDATE SET contract_version = excluded.contract_version,
                 migration_id = excluded.migration_id, capabilities = excluded.capabilities, updated_at_ms = excluded.updated_at_ms",
            params![CONTRACT, position, next.id, next.capabilities, at.get()],
        )?;
        tx.commit()?;
    }
}

/// How many of `known` the file holds; an error if it holds anything else.
fn applied(conn: &Connection, known: &[Migration]) -> Result<usize, StoreError> {
    let refuse = |detail: String| Err(StoreError::MigrationHistory { detail });
    let application: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(store_error)?;
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(store_error);
    if count("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'")? == 0 {
        if application != 0 || count("SELECT count(*) FROM sqlite_schema")? != 0 {
            return refuse("the file is a database of another program: it holds tables but no history".to_owned());
        }
        return Ok(0);
    }
    let stored = all(
        conn,
        &HISTORY,
        "-- schema_migrations.all
         SELECT position, id, dialect, checksum FROM schema_migrations ORDER BY position",
        [],
        |row| Ok((row.u32("position")?, row.text("id")?, row.text("dialect")?, row.text("checksum")?)),
    )?;
    for (index, (position, id, dialect, checksum)) in stored.iter().enumerate() {
        if usize::try_from(*position).ok() != Some(index + 1) {
            return refuse(format!("there is a gap before {id}.sql: it stands at position {position} instead of {}", index + 1));
        }
        let Some(migration) = known.get(index) else {
            let last = |id: Option<&str>| id.unwrap_or("nothing").to_owned();
            return Err(StoreError::SchemaNewer {
                found: last(stored.last().map(|row| row.1.as_str())),
                known: last(known.last().map(|migration| migration.id)),
            });
        };
        if id != migration.id || dialect != DIALECT {
            let known_elsewhere = known.iter().any(|migration| migration.id == id);
            let what = if known_elsewhere { "out of order" } else { "unknown to this program" };
            return refuse(format!("{id}.sql ({dialect}) at position {position} is {what}; {}.sql belongs there", migration.id));
        }
        let expected = Digest::of(migration.sql.as_bytes());
        if checksum != expected.as_str() {
            return refuse(format!(
                "{id}.sql was edited: the file was made with checksum {checksum}, this program holds checksum {expected}"
            ));
        }
    }
    check_capability(conn, known, stored.len())?;
    Ok(stored.len())
}

/// The capability row says what the history says.
fn check_capability(conn: &Connection, known: &[Migration], applied: usize) -> Result<(), StoreError> {
    let Some(last) = applied.checked_sub(1).and_then(|index| known.get(index)) else {
        return Err(StoreError::MigrationHistory { detail: "the history is empty".to_owned() });
    };
    let found = one(
        conn,
        &CAPABILITIES,
        "-- schema_capabilities.one
         SELECT contract_name, contract_version, migration_id, capabilities FROM schema_capabilities WHERE contract_name = ?1",
        [CONTRACT],
        |row| Ok((row.u64("contract_version")?, row.text("migration_id")?, row.text("capabilities")?)),
    )?;
    if found == Some((applied as u64, last.id.to_owned(), last.capabilities.to_owned())) {
        return Ok(());
    }
    Err(StoreError::MigrationHistory { detail: format!("the capability row {CONTRACT} does not say what {}.sql made of it", last.id) })
}
