//! `status`: everything on one screen.

use runtime_core::{cron, ports::history::Overview, run::RunStatus};
use serde_json::{Map, Value, json};

use super::with_db;
use crate::{cli::Global, failure::Failure, moment, output::Out, shapes};

pub async fn run(global: &Global, out: &Out) -> Result<(), Failure> {
    let (overview, scheduler) = with_db(global, async |db| Ok((db.history().overview().await?, db.scheduler()?))).await?;
    if out.json {
        out.json(&to_json(global, &overview, scheduler.as_deref()));
    } else {
        print(global, &overview, scheduler.as_deref(), out);
    }
    Ok(())
}

/// Runs that nobody sees to: they had begun, and no `up` runs. (Their processes are ended without it.)
fn interrupted(overview: &Overview, scheduler: Option<&str>) -> u64 {
    let begun = |status: RunStatus| matches!(status, RunStatus::Dispatching | RunStatus::Running);
    let runs = overview.runs.iter().filter(|(status, _)| scheduler.is_none() && begun(*status));
    runs.map(|(_, n)| n).sum()
}

fn to_json(global: &Global, overview: &Overview, scheduler: Option<&str>) -> Value {
    let runs: Map<_, _> = overview.runs.iter().map(|(status, n)| (status.as_str().to_owned(), Value::from(*n))).collect();
    json!({
        "database": global.db.display().to_string(),
        "observedAt": shapes::at(overview.observed_at),
        "clockMark": shapes::at(overview.clock_mark),
        "triggers": {
            "total": overview.triggers, "paused": overview.paused, "setAside": overview.set_aside, "due": overview.due,
            "nextFireAt": shapes::at(overview.next_fire_at),
        },
        "runs": runs,
        "scheduler": scheduler,
        "interrupted": interrupted(overview, scheduler),
        "zoneData": cron::zone_data_version(),
    })
}

fn print(global: &Global, overview: &Overview, scheduler: Option<&str>, out: &Out) {
    let paint = out.paint;
    let now = overview.observed_at.unwrap_or_else(moment::now);
    let line = |name: &str, value: String| out.line(format_args!("{} {value}", paint.dim(format_args!("{name:<10}"))));
    line("database", global.db.display().to_string());
    let running = scheduler.map_or_else(|| paint.yellow("not running: `ql3 up` schedules and runs"), |holder| format!("running, {holder}"));
    line("scheduler", running);
    let mark = match overview.clock_mark {
        Some(mark) if mark > now => {
            paint.red(format_args!("{} BEHIND what was recorded: see `ql3 help clock`", moment::relative(mark, now)))
        }
        _ => "not behind what was recorded".to_owned(),
    };
    line("clock", format!("{}, {mark}", moment::utc(now)));
    let next = overview
        .next_fire_at
        .map_or_else(|| "nothing planned yet".to_owned(), |at| format!("next {} ({})", moment::utc(at), moment::relative(at, now)));
    let mut triggers = vec![overview.triggers.to_string()];
    for (n, what) in [(overview.due, "due now"), (overview.paused, "paused"), (overview.set_aside, "set aside")] {
        if n > 0 {
            triggers.push(paint.yellow(format_args!("{n} {what}")));
        }
    }
    triggers.push(next);
    line("triggers", triggers.join(", "));
    let count = |(status, n): &(RunStatus, u64)| format!("{n} {}", shapes::status_text(*status, paint));
    let runs: Vec<_> = overview.runs.iter().map(count).collect();
    line("runs", if runs.is_empty() { "none yet".to_owned() } else { runs.join(", ") });
    match interrupted(overview, scheduler) {
        0 => {}
        n => line("", paint.yellow(format_args!("{n} interrupted: the next `ql3 up` settles them"))),
    }
    line("zone data", cron::zone_data_version().to_owned());
}
