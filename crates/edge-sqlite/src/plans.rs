//! The plans of every page: ordered ranges of the right index, whatever the size of the tables. Counted in SQLite's own steps,
//! never in time.

use runtime_core::{
    TimestampMs,
    ids::{ProjectId, RunId, TaskId, TriggerId},
    ports::history::{RunCursor, RunFilter},
    run::RunStatus,
};
use rusqlite::{Connection, Params, StatementStatus, params};

use crate::{claims, dispatch, history, leases, lists, migrate, retention, schedules};

const TRIGGERS: i64 = 100_000;
const RUNS: i64 = 100_000;

/// A schema without data but for what the test puts there.
fn schema() -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    for migration in migrate::MIGRATIONS {
        conn.execute_batch(migration.sql).unwrap();
    }
    conn.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").unwrap();
    conn
}

/// One task with so many triggers; trigger n is due at 1000 + n.
fn with_triggers() -> Connection {
    let conn = schema();
    let series = format!("WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < {TRIGGERS})");
    conn.execute_batch(&format!(
        "INSERT INTO task_revisions VALUES ('p', 'a', 1, 'd', '{{}}', 0, 0);
         INSERT INTO task_definitions VALUES ('p', 'a', 1, 0);
         {series} INSERT INTO trigger_revisions SELECT 'p', printf('t%06d', n), 1, 'd', '{{}}', 0, 0 FROM n;
         {series} INSERT INTO trigger_definitions SELECT 'p', printf('t%06d', n), 1, 'a', 0 FROM n;
         {series} INSERT INTO trigger_schedules (project_id, trigger_id, trigger_revision, activated_at_ms, next_fire_at_ms, schedulable,
             state_version, claim_version, zone_data_version, updated_at_ms)
           SELECT 'p', printf('t%06d', n), 1, 0, 1000 + n, 1, 1, 0, '2026a', 0 FROM n;"
    ))
    .unwrap();
    conn
}

/// So many queued Runs of one task, all of one state otherwise.
fn with_runs() -> Connection {
    let conn = schema();
    conn.execute_batch(&format!(
        "WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < {RUNS})
         INSERT INTO runs (id, project_id, task_id, task_revision, task_digest, task_name, trigger_id, trigger_type, execution_origin,
             execution_owner, scheduled_for_ms, status, version, event_sequence, priority, created_at_ms, queued_at_ms)
           SELECT printf('%036d', n), 'p', 'a', 1, 'd', 'a', 't', 'cron', 'scheduled_system', 'runtime', n, 'queued', 2, 2, 0, n, n FROM n;"
    ))
    .unwrap();
    conn
}

/// Steps of SQLite's machine until `rows` rows were read: a scan or a sort of 100,000 rows would take more than 100,000.
fn steps(conn: &Connection, sql: &str, params: impl Params, rows: usize) -> i32 {
    let mut statement = conn.prepare(sql).unwrap();
    let mut found = statement.query(params).unwrap();
    for row in 0..rows {
        assert!(found.next().unwrap().is_some(), "row {row} of {rows}: {sql}");
    }
    if rows == 0 {
        assert!(found.next().unwrap().is_none(), "{sql}");
    }
    drop(found);
    statement.get_status(StatementStatus::VmStep)
}

/// Every line of the plan that touches a table searches it by an index.
fn assert_plan(conn: &Connection, sql: &str, index: &str) {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let places = statement.parameter_count();
    let plan: Vec<String> = statement
        .query_map(rusqlite::params_from_iter(vec![1_i64; places]), |row| row.get("detail"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(plan.iter().any(|line| line.contains(index)), "{index} is not used: {plan:#?}");
    assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE")), "sorts: {plan:#?}");
    assert!(plan.iter().all(|line| !line.starts_with("SCAN") || line.contains(index)), "scans: {plan:#?}");
}

#[test]
fn a_claim_is_an_ordered_range_of_the_due_index() {
    let conn = with_triggers();
    for sql in [claims::DUE, claims::NEW, claims::NEXT_DUE] {
        assert_plan(&conn, sql, "trigger_schedules_due");
    }
    // None due of 100,000; then a backlog of 100,000 with a page of 256.
    assert!(steps(&conn, claims::DUE, [1_000], 0) < 100);
    assert!(steps(&conn, claims::NEW, [1_000], 0) < 100);
    assert!(steps(&conn, claims::NEXT_DUE, [1_000], 1) < 100);
    assert!(steps(&conn, claims::DUE, [1_000 + TRIGGERS], 256) < 256 * 200);
}

#[test]
fn rows_that_rest_cost_a_claim_nothing() {
    let conn = with_triggers();
    conn.execute_batch("UPDATE trigger_schedules SET schedulable = 0, next_fire_at_ms = NULL").unwrap();
    assert!(steps(&conn, claims::DUE, [i64::MAX], 0) < 100);
    assert!(steps(&conn, claims::NEW, [i64::MAX], 0) < 100);
}

#[test]
fn stale_zone_data_is_found_by_its_index() {
    let conn = with_triggers();
    assert_plan(&conn, schedules::NEXT_ZONE_DATA, "trigger_schedules_zone_data");
    assert_plan(&conn, schedules::OF_ZONE_DATA, "trigger_schedules_zone_data");
    assert!(steps(&conn, schedules::NEXT_ZONE_DATA, ["2026a"], 0) < 100);
    assert!(steps(&conn, schedules::OF_ZONE_DATA, params!["2026a", 256], 256) < 256 * 100);
}

#[test]
fn a_dispatch_is_an_ordered_range_of_the_dispatch_index() {
    let conn = with_runs();
    assert_plan(&conn, dispatch::WAITING, "runs_dispatch");
    assert!(steps(&conn, dispatch::WAITING, ["runtime"], 256) < 256 * 50);
    assert!(steps(&conn, dispatch::WAITING, ["somebody"], 0) < 100);
    for sql in [dispatch::NEXT_RETRY, dispatch::DUE_RETRIES] {
        assert_plan(&conn, sql, "run_retry_policies_due");
    }
    assert_plan(&conn, leases::EXPIRED, "run_dispatch_leases_expiry");
    assert_plan(&conn, leases::OF_WORKER, "run_dispatch_leases_worker");
    assert_plan(&conn, claims::UNFINISHED, "runs_unfinished");
}

#[test]
fn lists_are_ordered_ranges_whatever_the_filter() {
    let conn = with_runs();
    let project_id = Some(ProjectId::new("p").unwrap());
    let task_id = Some(TaskId::new("a").unwrap());
    let trigger_id = Some(TriggerId::new("t").unwrap());
    let since = Some(TimestampMs::clamped(5));
    let statuses = vec![RunStatus::Queued, RunStatus::Failed];
    let of_project = RunFilter { project_id, since, ..RunFilter::default() };
    let filters = [
        (RunFilter::default(), "runs_created"),
        (RunFilter { statuses: statuses.clone(), ..RunFilter::default() }, "runs_status"),
        (of_project.clone(), "runs_project"),
        (RunFilter { statuses, ..of_project.clone() }, "runs_status"),
        (RunFilter { task_id, ..of_project.clone() }, "runs_task"),
        (RunFilter { trigger_id, ..of_project }, "runs_trigger"),
    ];
    let after =
        RunCursor { created_at: TimestampMs::clamped(50_000), id: "00000000-0000-7000-8000-000000050000".parse::<RunId>().unwrap() };
    for (filter, index) in filters {
        for after in [None, Some(after)] {
            for (sql, params) in lists::statements(&filter, after, 50) {
                assert_plan(&conn, &sql, index);
                let rows = if params.len() > 1 && sql.contains("status = ?") { 0 } else { 50 };
                if rows > 0 {
                    assert!(steps(&conn, &sql, rusqlite::params_from_iter(params), rows) < 50 * 200, "{sql}");
                }
            }
        }
    }
}

#[test]
fn pruning_is_an_ordered_range_and_looks_for_references_by_index() {
    let conn = with_runs();
    assert_plan(&conn, retention::PAGE, "runs_created");
    assert!(steps(&conn, retention::PAGE, params![RUNS, "", 100], 100) < 100 * 200);
    assert_plan(&conn, retention::REFERRED, "runs_retry_of");
    assert!(steps(&conn, retention::REFERRED, ["x"], 0) < 100);
    assert_plan(&conn, retention::REMOVE_LEDGER, "schedule_ledger_age");
}

#[test]
fn other_pages_are_ordered_ranges() {
    let conn = with_triggers();
    assert_plan(&conn, history::LEDGER_PAGE, "schedule_ledger_trigger");
    assert_plan(&conn, history::OCCURRENCES, "runs_occurrence");
    assert_plan(&conn, history::LIVE_TRIGGERS, "sqlite_autoindex_trigger_revisions_1");
    assert_plan(&conn, history::ALL_TRIGGERS, "sqlite_autoindex_trigger_revisions_1");
    assert!(steps(&conn, history::ALL_TRIGGERS, params!["p", "t050000", 50], 50) < 50 * 200);
}
