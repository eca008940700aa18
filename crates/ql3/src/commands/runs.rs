//! `runs`: a page of them, newest first.

use runtime_core::{
    TimestampMs,
    ports::history::{HistoryStore, RunCursor, RunFilter, RunListItem, RunPage},
    run::RunStatus,
};
use serde_json::{Value, json};

use super::{project, with_db};
use crate::{
    cli::{Global, Runs},
    duration,
    failure::{Exit, Failure},
    moment,
    output::Out,
    reference::short,
    shapes,
    table::{Cell, Table},
};

/// What somebody may have to look at.
const FAILING: [RunStatus; 3] = [RunStatus::Failed, RunStatus::TimedOut, RunStatus::RetryWait];

pub async fn run(args: Runs, global: &Global, out: &Out) -> Result<(), Failure> {
    let now = moment::now();
    let filter = RunFilter {
        project_id: Some(project(global)),
        statuses: args.status,
        task_id: args.task,
        trigger_id: args.trigger,
        since: args.since.map(|since| since.instant(now)),
    };
    let after = args.after.as_deref().map(parse_cursor).transpose()?;
    let page = with_db(global, async |db| {
        if args.failing_first {
            return failing_first(db.history(), &filter, args.limit).await;
        }
        Ok(db.history().runs(&filter, after, args.limit).await?)
    })
    .await?;
    let next = page.next.map(show_cursor);
    if out.json {
        let runs: Vec<Value> = page.runs.iter().map(shapes::run_item).collect();
        out.json(&json!({ "runs": runs, "next": next }));
        return Ok(());
    }
    if page.runs.is_empty() {
        out.line("no Runs");
        return Ok(());
    }
    print(&page.runs, now, out);
    if let Some(next) = next {
        out.line(out.paint.dim(format_args!("older ones: --after {next}")));
    }
    Ok(())
}

/// What went wrong, newest first, then the newest others; one page, because the order is not that of a cursor.
async fn failing_first(history: &dyn HistoryStore, filter: &RunFilter, limit: u32) -> Result<RunPage, Failure> {
    let wanted = |status: &RunStatus| filter.statuses.is_empty() || filter.statuses.contains(status);
    let statuses: Vec<_> = FAILING.into_iter().filter(wanted).collect();
    let mut runs = Vec::new();
    if !statuses.is_empty() {
        runs = history.runs(&RunFilter { statuses, ..filter.clone() }, None, limit).await?.runs;
    }
    let others = history.runs(filter, None, limit).await?.runs;
    runs.extend(others.into_iter().filter(|item| !FAILING.contains(&item.run.status)));
    runs.truncate(limit as usize);
    Ok(RunPage { runs, next: None })
}

fn print(items: &[RunListItem], now: TimestampMs, out: &Out) {
    let mut table = Table::new(&["RUN", "TASK", "TRIGGER", "STATUS", "SCHEDULED FOR", "CREATED", "TOOK", "ATTEMPTS", "ERROR"]);
    for RunListItem { run, attempts } in items {
        let took = run.started_at.map(|start| duration::show(run.finished_at.unwrap_or(now).since_ms(start)));
        table.row([
            short(run.id).into(),
            run.task_id.as_str().into(),
            Cell::option(run.trigger_id.as_ref().map(runtime_core::ids::TriggerId::as_str)),
            shapes::status(run.status),
            Cell::option(run.scheduled_for.map(moment::utc)),
            moment::relative(run.created_at, now).into(),
            Cell::option(took),
            attempts.to_string().into(),
            Cell::option(run.error_code.as_deref()),
        ]);
    }
    table.print(out);
}

/// Where a page ended, as text: `1774746000000.<id>`.
fn show_cursor(cursor: RunCursor) -> String {
    format!("{}.{}", cursor.created_at.get(), cursor.id)
}

fn parse_cursor(text: &str) -> Result<RunCursor, Failure> {
    let parsed = text.split_once('.').and_then(|(ms, id)| {
        let created_at = TimestampMs::new(ms.parse().ok()?).ok()?;
        Some(RunCursor { created_at, id: id.parse().ok()? })
    });
    parsed.ok_or_else(|| {
        Failure::new(Exit::Usage, "usage", format!("--after: `{}` is not a cursor", text.escape_debug()))
            .hint("copy `next` of the page before")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text() {
        let cursor = RunCursor { created_at: TimestampMs::new(7).unwrap(), id: "0199c5f4-7b1e-7c3d-8f00-0123456789ab".parse().unwrap() };
        assert_eq!(parse_cursor(&show_cursor(cursor)).unwrap(), cursor);
        for bad in ["", "7", "7.x", "x.0199c5f4-7b1e-7c3d-8f00-0123456789ab", "-1.0199c5f4-7b1e-7c3d-8f00-0123456789ab"] {
            assert_eq!(parse_cursor(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }
}
