//! Pages of Runs, newest first: each filter is an ordered range of the index that fits it best.

use runtime_core::{
    StoreError,
    ports::history::{RunCursor, RunFilter, RunListItem, RunPage},
    run::RunStatus,
};
use rusqlite::{Connection, ToSql};

use crate::{
    rows::{self, RUNS, run_columns},
    sql::all,
};

/// The index whose order is the page's order under the filter, and the states that need a range of their own.
fn index(filter: &RunFilter) -> (&'static str, Vec<Option<RunStatus>>) {
    let in_project = filter.project_id.is_some();
    if in_project && filter.trigger_id.is_some() {
        ("runs_trigger", vec![None])
    } else if in_project && filter.task_id.is_some() {
        ("runs_task", vec![None])
    } else if !filter.statuses.is_empty() {
        ("runs_status", filter.statuses.iter().copied().map(Some).collect())
    } else if in_project {
        ("runs_project", vec![None])
    } else {
        ("runs_created", vec![None])
    }
}

/// The statement of one range, and its parameters.
pub(crate) fn statement(
    filter: &RunFilter,
    index: &str,
    status: Option<RunStatus>,
    after: Option<RunCursor>,
    limit: usize,
) -> (String, Vec<Box<dyn ToSql>>) {
    let mut sql = format!(
        "-- runs.page\nSELECT {}, (SELECT count(*) FROM run_attempts a WHERE a.run_id = runs.id) AS attempts
         FROM runs INDEXED BY {index} WHERE 1",
        run_columns!()
    );
    let mut params: Vec<Box<dyn ToSql>> = Vec::new();
    let mut condition = |text: &str, values: Vec<Box<dyn ToSql>>| {
        sql.push_str(text);
        params.extend(values);
    };
    if let Some(project_id) = &filter.project_id {
        condition(" AND project_id = ?", vec![Box::new(project_id.to_string())]);
    }
    if let Some(task_id) = &filter.task_id {
        condition(" AND task_id = ?", vec![Box::new(task_id.to_string())]);
    }
    if let Some(trigger_id) = &filter.trigger_id {
        condition(" AND trigger_id = ?", vec![Box::new(trigger_id.to_string())]);
    }
    if let Some(status) = status {
        condition(" AND status = ?", vec![Box::new(status.as_str())]);
    } else if !filter.statuses.is_empty() {
        let places = vec!["?"; filter.statuses.len()].join(", ");
        let values = filter.statuses.iter().map(|status| Box::new(status.as_str()) as Box<dyn ToSql>).collect();
        condition(&format!(" AND status IN ({places})"), values);
    }
    if let Some(since) = filter.since {
        condition(" AND created_at_ms >= ?", vec![Box::new(since.get())]);
    }
    if let Some(RunCursor { created_at, id }) = after {
        condition(" AND (created_at_ms, id) < (?, ?)", vec![Box::new(created_at.get()), Box::new(id.to_string())]);
    }
    condition(" ORDER BY created_at_ms DESC, id DESC LIMIT ?", vec![Box::new(i64::try_from(limit).unwrap_or(i64::MAX))]);
    (sql, params)
}

/// The statements of a page, one a range.
pub(crate) fn statements(filter: &RunFilter, after: Option<RunCursor>, limit: usize) -> Vec<(String, Vec<Box<dyn ToSql>>)> {
    let (index, mut ranges) = index(filter);
    ranges.sort_unstable();
    ranges.dedup();
    ranges.into_iter().map(|status| statement(filter, index, status, after, limit)).collect()
}

pub(crate) fn runs(conn: &Connection, filter: &RunFilter, after: Option<RunCursor>, limit: usize) -> Result<RunPage, StoreError> {
    let mut runs = Vec::new();
    // One more than asked for tells whether there is a next page.
    for (sql, params) in statements(filter, after, limit + 1) {
        let item = |row: &crate::sql::Cells<'_>| Ok(RunListItem { run: rows::run(row)?, attempts: row.u32("attempts")? });
        runs.extend(all(conn, &RUNS, &sql, rusqlite::params_from_iter(params), item)?);
    }
    runs.sort_by_key(|item| std::cmp::Reverse((item.run.created_at, item.run.id)));
    let more = runs.len() > limit;
    runs.truncate(limit);
    let last = runs.last().filter(|_| more);
    let next = last.map(|item| RunCursor { created_at: item.run.created_at, id: item.run.id });
    Ok(RunPage { runs, next })
}
