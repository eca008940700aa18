//! A file of its own for each case, and hands that reach around the store.

use std::{path::PathBuf, sync::Arc};

use edge_sqlite::{Authority, SqliteOptions, SqliteStore};
use runtime_core::TimestampMs;
use rusqlite::{Connection, types::Value};
use store_contract::{Capabilities, Corruption, Fixture, ManualClock, SeededIds, Store, start};
use tempfile::TempDir;

/// A store on a file in a folder of its own; its first handle is the scheduler.
pub struct SqliteFixture {
    pub store: SqliteStore,
    pub clock: Arc<ManualClock>,
    pub authority: Authority,
    pub folder: TempDir,
    owner: &'static str,
}

impl SqliteFixture {
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("ql3.db")
    }

    pub fn options(&self) -> SqliteOptions {
        SqliteOptions { execution_owner: self.owner.to_owned(), ..SqliteOptions::new(self.path()) }
    }

    async fn owned_by(owner: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(start()));
        let authority = Authority { clock: clock.clone(), ids: Arc::new(SeededIds::new(1)) };
        let options = SqliteOptions { execution_owner: owner.to_owned(), ..SqliteOptions::new(folder.path().join("ql3.db")) };
        let store = SqliteStore::open_or_create(options, authority.clone()).await.unwrap();
        store.become_scheduler().await.unwrap();
        Self { store, clock, authority, folder, owner }
    }

    /// Another handle, as another process would have it.
    pub async fn another(&self) -> SqliteStore {
        SqliteStore::open_existing(self.options(), self.authority.clone()).await.unwrap()
    }

    /// A connection without any of the store's rules.
    pub fn raw(&self) -> Connection {
        raw(&self.path())
    }
}

pub fn raw(path: &std::path::Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").unwrap();
    conn
}

/// Every row of every table, as the file holds it.
pub fn rows(conn: &Connection) -> Vec<String> {
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let tables: Vec<String> = conn.prepare(tables).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut out = Vec::new();
    for table in tables {
        let mut statement = conn.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect::<rusqlite::Result<Vec<Value>>>();
        let rows: Vec<Vec<Value>> = statement.query_map([], row).unwrap().map(Result::unwrap).collect();
        out.extend(rows.into_iter().map(|row| format!("{table} {row:?}")));
    }
    out
}

impl Fixture for SqliteFixture {
    async fn fresh() -> Self {
        Self::owned_by("runtime").await
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn second_handle(&self) -> Arc<dyn Store> {
        Arc::new(self.another().await)
    }

    async fn elapse(&self, ms: u64) {
        self.clock.advance(ms);
    }

    async fn set_clock(&self, at: TimestampMs) {
        self.clock.set(at);
    }

    fn capabilities() -> Capabilities {
        // Claims are in the memory of the one scheduler.
        Capabilities { shared_claims: false, corruptible: true }
    }

    fn execution_owner(&self) -> &str {
        self.owner
    }

    async fn corrupt(&self, damage: Corruption) {
        let raw = self.raw();
        let changed = match damage {
            Corruption::VersionOutOfRange(id) => raw.execute("UPDATE runs SET version = 9007199254740992 WHERE id = ?1", [id.to_string()]),
            Corruption::UnknownStatus(id) => raw.execute("UPDATE runs SET status = 'resting' WHERE id = ?1", [id.to_string()]),
            Corruption::PayloadNotObject(id) => {
                raw.execute("UPDATE run_events SET payload = '[]' WHERE run_id = ?1 AND sequence = 1", [id.to_string()])
            }
            Corruption::TwoPolicies(id) => {
                raw.execute_batch(
                    "CREATE TABLE damaged AS SELECT * FROM run_retry_policies;
                     DROP TABLE run_retry_policies;
                     ALTER TABLE damaged RENAME TO run_retry_policies;",
                )
                .unwrap();
                let twice = "INSERT INTO run_retry_policies SELECT * FROM run_retry_policies WHERE run_id = ?1";
                raw.execute(twice, [id.to_string()])
            }
        };
        assert_eq!(changed.unwrap(), 1, "{damage:?}");
    }

    async fn dump(&self) -> Vec<String> {
        rows(&self.raw())
    }
}

/// A store whose Runs belong to another runtime than the product's.
pub struct LegacyOwner(SqliteFixture);

impl Fixture for LegacyOwner {
    async fn fresh() -> Self {
        Self(SqliteFixture::owned_by("legacy").await)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.0.store()
    }

    async fn second_handle(&self) -> Arc<dyn Store> {
        self.0.second_handle().await
    }

    async fn elapse(&self, ms: u64) {
        self.0.elapse(ms).await;
    }

    async fn set_clock(&self, at: TimestampMs) {
        self.0.set_clock(at).await;
    }

    fn capabilities() -> Capabilities {
        SqliteFixture::capabilities()
    }

    fn execution_owner(&self) -> &str {
        self.0.execution_owner()
    }

    async fn corrupt(&self, damage: Corruption) {
        self.0.corrupt(damage).await;
    }

    async fn dump(&self) -> Vec<String> {
        self.0.dump().await
    }
}
