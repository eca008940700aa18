//! SQLite alone: the rows that the store wrote, written again into another copy of the same seed by plain statements.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rusqlite::{Connection, params_from_iter, types::Value};

type Row = Vec<Value>;

/// The tables of an admission in the order in which the store writes them.
const INSERTED: [&str; 4] = ["runs", "run_attempts", "run_retry_policies", "run_events"];
/// What a commit changes of a schedule, then its key.
const MOVED: &str = "next_fire_at_ms, last_scheduled_at_ms, set_aside_at_ms, set_aside_reason, schedulable, state_version, claim_version, \
                     zone_data_version, updated_at_ms";

/// All that one admission wrote.
struct Admission {
    inserts: Vec<(usize, Row)>,
    schedule: Row,
}

/// What a store wrote, by admission.
pub struct Recording {
    inserts: [String; 4],
    admissions: Vec<Admission>,
    mark: i64,
}

impl Recording {
    /// Reads it from a database that is closed.
    pub fn read(path: &Path) -> Self {
        let conn = Connection::open(path).unwrap();
        let mut inserts = INSERTED.map(|_| String::new());
        let mut admissions = Vec::new();
        let ids = rows(&conn, "SELECT id, project_id, trigger_id FROM runs ORDER BY rowid", &[]);
        let schedule = format!("SELECT {MOVED}, project_id, trigger_id FROM trigger_schedules WHERE project_id = ?1 AND trigger_id = ?2");
        for ids in ids {
            let mut admission = Admission { inserts: Vec::new(), schedule: rows(&conn, &schedule, &ids[1..]).remove(0) };
            for (table, name) in INSERTED.into_iter().enumerate() {
                let key = if name == "runs" { "id" } else { "run_id" };
                let found = rows(&conn, &format!("SELECT * FROM {name} WHERE {key} = ?1"), &ids[..1]);
                admission.inserts.extend(found.into_iter().map(|row| (table, row)));
            }
            assert_eq!(admission.inserts.len(), 5, "a Run, its attempt, its policy and two events");
            for (table, row) in &admission.inserts {
                let places: Vec<String> = (1..=row.len()).map(|place| format!("?{place}")).collect();
                inserts[*table] = format!("INSERT INTO {} VALUES ({})", INSERTED[*table], places.join(", "));
            }
            admissions.push(admission);
        }
        let mark = conn.query_row("SELECT at_ms FROM clock_mark", [], |row| row.get(0)).unwrap();
        Self { inserts, admissions, mark }
    }

    /// Writes it into a copy of the seed, `page` admissions a transaction. Opening and closing are not measured.
    pub fn replay(&self, path: &Path, page: usize) -> Duration {
        let conn = connect(path);
        let places: Vec<String> = (1..=9).map(|place| format!("?{place}")).collect();
        let places = places.join(", ");
        let update = format!("UPDATE trigger_schedules SET ({MOVED}) = ({places}) WHERE project_id = ?10 AND trigger_id = ?11");
        let began = Instant::now();
        for page in self.admissions.chunks(page) {
            conn.execute_batch("BEGIN IMMEDIATE").unwrap();
            for admission in page {
                for (table, row) in &admission.inserts {
                    conn.prepare_cached(&self.inserts[*table]).unwrap().execute(params_from_iter(row)).unwrap();
                }
                let moved = conn.prepare_cached(&update).unwrap().execute(params_from_iter(&admission.schedule)).unwrap();
                assert_eq!(moved, 1);
            }
            conn.prepare_cached("UPDATE clock_mark SET at_ms = max(at_ms, ?1)").unwrap().execute([self.mark]).unwrap();
            conn.execute_batch("COMMIT").unwrap();
        }
        began.elapsed()
    }
}

fn rows(conn: &Connection, sql: &str, params: &[Value]) -> Vec<Row> {
    let mut statement = conn.prepare_cached(sql).unwrap();
    let columns = statement.column_count();
    let read = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
    statement.query_map(params_from_iter(params), read).unwrap().map(Result::unwrap).collect()
}

/// The settings of the store's own connection.
fn connect(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; PRAGMA recursive_triggers = OFF; PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;",
    )
    .unwrap();
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    conn.pragma_update_and_check(None, "journal_size_limit", 16 * 1024 * 1024, |_| Ok(())).unwrap();
    conn
}
