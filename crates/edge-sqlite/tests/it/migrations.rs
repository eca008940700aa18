//! Whose history a file holds, and what is refused before anything is written.

use std::{fs, path::Path, sync::Arc};

use edge_sqlite::{Authority, SqliteOptions, SqliteStore};
use runtime_core::{StoreError, digest::Digest};
use rusqlite::Connection;
use store_contract::{Fixture, ManualClock, SeededIds, start};

use crate::fixture::{SqliteFixture, raw, rows};

const RUN_CORE: &str = include_str!("../../migrations/sqlite-0002-run-core.sql");

fn authority() -> Authority {
    Authority { clock: Arc::new(ManualClock::new(start())), ids: Arc::new(SeededIds::new(1)) }
}

/// Opens a file after `damage` was done to it, and asserts that the refusal wrote nothing.
async fn refused(damage: impl FnOnce(&Connection)) -> StoreError {
    let fixture = SqliteFixture::fresh().await;
    fixture.store.close().await;
    let conn = fixture.raw();
    damage(&conn);
    conn.execute_batch("PRAGMA journal_mode = DELETE").unwrap();
    conn.close().unwrap();
    let before = fs::read(fixture.path()).unwrap();
    let refusal = SqliteStore::open_or_create(fixture.options(), fixture.authority.clone()).await.err();
    assert_eq!(fs::read(fixture.path()).unwrap(), before, "something was written");
    refusal.expect("the file is refused")
}

fn detail(error: StoreError) -> String {
    match error {
        StoreError::MigrationHistory { detail } => detail,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn opening_twice_changes_nothing() {
    let fixture = SqliteFixture::fresh().await;
    let before = rows(&fixture.raw());
    fixture.clock.advance(1_000);
    fixture.another().await.close().await;
    assert_eq!(rows(&fixture.raw()), before);
    let history = before.iter().filter(|row| row.starts_with("schema_migrations")).count();
    assert_eq!(history, fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap().count(), "every file is applied");
}

#[tokio::test]
async fn the_file_says_what_it_is() {
    let fixture = SqliteFixture::fresh().await;
    let raw = fixture.raw();
    let pragma = |name: &str| raw.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
    assert_eq!(pragma("application_id"), rusqlite::types::Value::Integer(0x716c_3301));
    assert_eq!(pragma("journal_mode"), rusqlite::types::Value::Text("wal".to_owned()));
}

/// Definitions hold secrets, and whoever may open the lock may hold it.
#[tokio::test]
async fn a_new_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = SqliteFixture::fresh().await;
    for file in ["ql3.db", "ql3.db-wal", "ql3.db.lock"] {
        let mode = fs::metadata(fixture.folder.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

/// C32: only a comment was edited.
#[tokio::test]
async fn an_edited_comment_is_refused_with_file_and_both_checksums() {
    let edited = Digest::of(RUN_CORE.replacen("-- Runs", "-- All Runs", 1).as_bytes());
    let stored = edited.clone();
    let error = refused(move |conn| {
        conn.execute("UPDATE schema_migrations SET checksum = ?1 WHERE position = 2", [stored.as_str()]).unwrap();
    });
    let detail = detail(error.await);
    for part in ["sqlite-0002-run-core.sql", edited.as_str(), Digest::of(RUN_CORE.as_bytes()).as_str()] {
        assert!(detail.contains(part), "{part} is not in: {detail}");
    }
}

/// C32: only line endings were.
#[tokio::test]
async fn other_line_endings_are_refused() {
    let stored = Digest::of(RUN_CORE.replace('\n', "\r\n").as_bytes());
    let error = refused(move |conn| {
        conn.execute("UPDATE schema_migrations SET checksum = ?1 WHERE position = 2", [stored.as_str()]).unwrap();
    });
    assert!(detail(error.await).contains("was edited"));
}

#[tokio::test]
async fn an_unknown_migration_is_refused() {
    let error = refused(|conn| {
        conn.execute_batch("UPDATE schema_migrations SET id = 'sqlite-0002-something' WHERE position = 2").unwrap();
    });
    assert!(detail(error.await).contains("sqlite-0002-something.sql (sqlite-main) at position 2 is unknown"));
}

#[tokio::test]
async fn another_order_is_refused() {
    let error = refused(|conn| {
        conn.execute_batch(
            "UPDATE schema_migrations SET position = 9 WHERE position = 2;
             UPDATE schema_migrations SET position = 2 WHERE position = 3;
             UPDATE schema_migrations SET position = 3 WHERE position = 9;",
        )
        .unwrap();
    });
    assert!(detail(error.await).contains("is out of order"));
}

#[tokio::test]
async fn a_gap_is_refused() {
    let error = refused(|conn| {
        conn.execute_batch("DELETE FROM schema_migrations WHERE position = 2").unwrap();
    });
    assert!(detail(error.await).contains("there is a gap before sqlite-0003-definitions-schedules.sql"));
}

#[tokio::test]
async fn a_history_of_another_dialect_is_refused() {
    let error = refused(|conn| {
        conn.execute_batch("UPDATE schema_migrations SET dialect = 'postgresql-main'").unwrap();
    });
    assert!(detail(error.await).contains("(postgresql-main)"));
}

#[tokio::test]
async fn a_capability_that_contradicts_the_history_is_refused() {
    let error = refused(|conn| {
        conn.execute_batch("UPDATE schema_capabilities SET contract_version = 1").unwrap();
    });
    assert!(detail(error.await).contains("capability"));
}

/// C32: the old program meets the newer schema.
#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let error = refused(|conn| {
        let newer =
            "INSERT INTO schema_migrations SELECT max(position) + 1, 'sqlite-9999-future', 'sqlite-main', ?1, 0 FROM schema_migrations";
        conn.execute(newer, [Digest::of(b"").as_str()]).unwrap();
    });
    let (found, known) = ("sqlite-9999-future".to_owned(), "sqlite-0005-retention".to_owned());
    assert_eq!(error.await, StoreError::SchemaNewer { found, known });
}

#[tokio::test]
async fn files_of_other_programs_are_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| SqliteStore::open_or_create(SqliteOptions::new(path), authority());
    let other = folder.path().join("other.db");
    raw(&other).execute_batch("CREATE TABLE notes (text)").unwrap();
    let before = fs::read(&other).unwrap();
    assert!(detail(open(&other).await.err().unwrap()).contains("another program"));
    assert_eq!(fs::read(&other).unwrap(), before);
    let text = folder.path().join("notes.txt");
    fs::write(&text, "not a database, and long enough to hold a header of one, had it been one: it has none").unwrap();
    let refused = open(&text).await.err().unwrap();
    assert!(refused.to_string().contains("not a SQLite database"), "{refused}");
}

#[tokio::test]
async fn a_missing_file_is_not_made_for_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ql3.db");
    let missing = SqliteStore::open_existing(SqliteOptions::new(&path), authority()).await.err().unwrap();
    assert_eq!(missing, StoreError::not_found("database", path.display()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_a_clear_error() {
    let refused = SqliteStore::open_or_create(SqliteOptions::new("/nowhere/ql3.db"), authority()).await.err().unwrap();
    assert!(matches!(&refused, StoreError::Unavailable { cause } if cause.contains("/nowhere/ql3.db")), "{refused:?}");
}

/// Of eight that open a new file at once, one applies each migration.
#[test]
fn concurrent_openers_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ql3.db");
    let open = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let options = SqliteOptions { busy_timeout_ms: 60_000, ..SqliteOptions::new(&path) };
        runtime.block_on(SqliteStore::open_or_create(options, authority())).unwrap()
    };
    let stores: Vec<SqliteStore> = std::thread::scope(|scope| {
        let openers: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).collect()
    });
    assert_eq!(stores.len(), 8);
    let history = rows(&raw(&path)).into_iter().filter(|row| row.starts_with("schema_migrations")).count();
    assert_eq!(history, fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap().count());
}

/// A stored plan of the schema: what a fresh file holds is what the migrations say, with every foreign key satisfied.
#[tokio::test]
async fn a_fresh_file_is_sound() {
    let fixture = SqliteFixture::fresh().await;
    let raw = fixture.raw();
    let check: String = raw.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let broken: i64 = raw.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)).unwrap();
    assert_eq!(broken, 0);
    let strict = "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%' AND strict = 0";
    assert_eq!(raw.query_row(strict, [], |row| row.get::<_, i64>(0)).unwrap(), 0, "every table is STRICT");
}

/// Deleting a Run whole must not scan its children: every foreign key that pruning walks has an index that begins with its columns.
#[tokio::test]
async fn children_of_runs_and_attempts_are_found_by_an_index() {
    let fixture = SqliteFixture::fresh().await;
    let raw = fixture.raw();
    let keys = "SELECT t.name, f.\"from\" FROM pragma_table_list t, pragma_foreign_key_list(t.name) f
                WHERE t.schema = 'main' AND f.\"table\" IN ('runs', 'run_attempts')";
    let keys: Vec<(String, String)> =
        raw.prepare(keys).unwrap().query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
    assert_eq!(keys.len(), 8, "{keys:?}");
    for (table, column) in keys {
        let plan = format!("EXPLAIN QUERY PLAN SELECT 1 FROM {table} WHERE {column} = 'x'");
        let plan: String = raw.query_row(&plan, [], |row| row.get("detail")).unwrap();
        assert!(plan.starts_with("SEARCH"), "{table}.{column}: {plan}");
    }
}
