//! An event as a line for people.

use std::fmt::Display;

use edge_control::EngineEvent;
use runtime_core::{
    TimestampMs,
    clock::ClockState,
    ids::RunId,
    run::{AttemptOutcome, RunStatus},
    schedule::Stretch,
};

use crate::{
    duration, moment,
    output::{Paint, harmless},
    reference::short,
};

/// When, a mark, what happened to what, and the details.
fn line(at: TimestampMs, paint: Paint, mark: &str, what: impl Display, details: impl Display) -> String {
    // What the system or a program said goes into details.
    let details = harmless(&details.to_string(), &[]);
    let details = if details.is_empty() { details } else { format!("  {}", paint.dim(details)) };
    format!("{} {mark} {what}{details}", paint.dim(moment::time_of_day(at)))
}

pub fn of(event: &EngineEvent, at: TimestampMs, paint: Paint) -> String {
    let (good, bad, note) = (paint.green("✓"), paint.red("✗"), paint.yellow("!"));
    match event {
        EngineEvent::Ready { settled, unproven } => {
            let found = match (settled, unproven) {
                (0, 0) => String::new(),
                _ => format!("{settled} attempts of an earlier start settled, {unproven} not yet"),
            };
            line(at, paint, &good, "ready", found)
        }
        EngineEvent::Admitted { run_id, trigger_id, lateness_ms, .. } => {
            line(at, paint, &good, format_args!("{trigger_id} admitted"), format_args!("run {} ({lateness_ms} ms late)", short(*run_id)))
        }
        EngineEvent::Started { run_id, task_id, attempt, .. } => {
            line(at, paint, &paint.dim("▸"), format_args!("{task_id} started"), format_args!("run {}{}", short(*run_id), nth(*attempt)))
        }
        EngineEvent::Finished { run_id, attempt, task_id, outcome, status, duration_ms, output_dropped_bytes, .. } => {
            let (mark, what) = ending(*status, paint);
            let details = outcome_text(*run_id, *attempt, outcome, *duration_ms, *output_dropped_bytes);
            line(at, paint, &mark, format_args!("{task_id} {what}"), details)
        }
        EngineEvent::Recorded { trigger_id, stretch, .. } => {
            line(at, paint, &note, format_args!("{trigger_id} skipped"), stretch_text(stretch))
        }
        EngineEvent::SetAside { trigger_id, reason, .. } => {
            line(at, paint, &bad, format_args!("{trigger_id} set aside until it is edited"), reason)
        }
        EngineEvent::CursorMoved(moved) => {
            let moved_to = format!("{} -> {}", moment::utc(moved.from), moment::utc(moved.to));
            line(at, paint, &note, format_args!("{} moved by new zone data", moved.trigger_id), moved_to)
        }
        EngineEvent::NotStarted { run_id, reason, .. } => run_line(at, paint, &note, "not started", *run_id, reason),
        EngineEvent::ExecutorTrouble { run_id, error, .. } => {
            run_line(at, paint, &bad, "waits: its guard cannot be started", *run_id, &error.to_string())
        }
        EngineEvent::LateResult { run_id, .. } => run_line(at, paint, &note, "late result recorded", *run_id, "nothing else changed"),
        EngineEvent::Left { run_id, reason, .. } => run_line(at, paint, &note, "stopped without a result", *run_id, reason),
        EngineEvent::Settled { run_id, finding, status, .. } => run_line(at, paint, &note, &format!("settled: {status}"), *run_id, finding),
        EngineEvent::Unproven { run_id, reason, .. } => run_line(at, paint, &bad, "cannot be settled yet", *run_id, reason),
        EngineEvent::FailureCommand { run_id, ended: Ok(()) } => run_line(at, paint, &good, "on_failure command ran", *run_id, ""),
        EngineEvent::FailureCommand { run_id, ended: Err(error) } => run_line(at, paint, &bad, "on_failure command failed", *run_id, error),
        EngineEvent::Clock(state) => clock(*state, at, paint),
        EngineEvent::StoreTrouble { doing, error } => {
            line(at, paint, &bad, format_args!("cannot {doing}"), format_args!("{error}; trying again"))
        }
        EngineEvent::StoreRecovered { doing } => line(at, paint, &good, format_args!("can {doing} again"), ""),
        EngineEvent::Draining { running: 0 } => line(at, paint, &note, "stopping", ""),
        EngineEvent::Draining { running } => line(
            at,
            paint,
            &note,
            "stopping",
            format_args!("nothing new begins; {running} running may finish (a second signal stops them)"),
        ),
        EngineEvent::Stopping { running } => {
            line(at, paint, &note, format_args!("stopping {running} running"), "the next start settles them")
        }
    }
}

fn run_line(at: TimestampMs, paint: Paint, mark: &str, what: &str, run_id: RunId, why: &str) -> String {
    line(at, paint, mark, format_args!("run {} {what}", short(run_id)), why)
}

fn nth(attempt: u32) -> String {
    if attempt == 1 { String::new() } else { format!(", attempt {attempt}") }
}

/// How a Run stands after an attempt.
fn ending(status: RunStatus, paint: Paint) -> (String, String) {
    match status {
        RunStatus::Succeeded => (paint.green("✓"), "succeeded".to_owned()),
        RunStatus::RetryWait => (paint.yellow("!"), "failed, will be tried again".to_owned()),
        RunStatus::Cancelled => (paint.dim("✗"), "cancelled".to_owned()),
        other => (paint.red("✗"), other.to_string().replace('_', " ")),
    }
}

fn outcome_text(run_id: RunId, attempt: u32, outcome: &AttemptOutcome, duration_ms: u64, output_dropped_bytes: u64) -> String {
    let mut text = format!("run {}{}, took {}", short(run_id), nth(attempt), duration::show(duration_ms));
    // The summary says what the code says, in words.
    if let Some(error) = outcome.error_summary.as_ref().or(outcome.error_code.as_ref()) {
        text.push_str(", ");
        text.push_str(error);
    }
    if output_dropped_bytes > 0 {
        text.push_str(", more output than is kept");
    }
    text
}

fn stretch_text(stretch: &Stretch) -> String {
    let count = match stretch.count {
        1 => moment::utc(stretch.from),
        n => format!("{n}{} from {} to {}", if stretch.capped { "+" } else { "" }, moment::utc(stretch.from), moment::utc(stretch.to)),
    };
    let because = stretch.run_id.map(|run| format!(", run {}", short(run))).unwrap_or_default();
    format!("{}: {count}{because}", stretch.reason)
}

fn clock(state: ClockState, at: TimestampMs, paint: Paint) -> String {
    let bad = paint.red("✗");
    let by = |ms: u64| duration::show(ms);
    match state {
        ClockState::Trusted => line(at, paint, &paint.green("✓"), "the clock is trusted again", ""),
        ClockState::Behind { by_ms } => line(
            at,
            paint,
            &paint.yellow("!"),
            "the clock is behind what was recorded",
            format_args!("by {}; nothing is scheduled until it has caught up", by(by_ms)),
        ),
        ClockState::Regressed { by_ms } => {
            let what = format!("by {}; nothing is scheduled until it has caught up. If it is right now: `ql3 clock accept`", by(by_ms));
            line(at, paint, &bad, "the clock went back (clock_regressed)", what)
        }
        ClockState::Leapt { by_ms } => {
            let what = format!("by {}; nothing is scheduled until that has lasted a minute", by(by_ms));
            line(at, paint, &bad, "the clock leapt ahead (clock_leapt)", what)
        }
        ClockState::Gap { by_ms } => {
            let what = format!("{} since the last record. If the clock is right: `ql3 clock accept`", by(by_ms));
            line(at, paint, &bad, "the clock is far ahead (clock_gap)", what)
        }
    }
}

#[cfg(test)]
mod tests {
    use runtime_core::{run::AttemptResult, schedule::LedgerReason};

    use super::*;

    fn at() -> TimestampMs {
        TimestampMs::parse("2026-03-29T12:00:00.004Z").unwrap()
    }

    fn run() -> RunId {
        "0199c5f4-7b1e-7c3d-8f00-01233fa9c1d2".parse().unwrap()
    }

    fn admitted() -> EngineEvent {
        EngineEvent::Admitted {
            run_id: run(),
            project_id: "default".parse().unwrap(),
            task_id: "backup".parse().unwrap(),
            trigger_id: "nightly".parse().unwrap(),
            scheduled_for: at().minus_ms(4),
            lateness_ms: 4,
        }
    }

    fn finished(status: RunStatus, code: Option<&str>) -> EngineEvent {
        EngineEvent::Finished {
            run_id: run(),
            attempt_id: "0199c5f4-7b1e-7c3d-8f00-000000000001".parse().unwrap(),
            attempt: 2,
            task_id: "backup".parse().unwrap(),
            outcome: AttemptOutcome {
                result: AttemptResult::Failed,
                exit_code: Some(1),
                error_code: code.map(str::to_owned),
                error_summary: code.map(|_| "exit status 1".to_owned()),
            },
            status,
            duration_ms: 1_250,
            output_dropped_bytes: 0,
        }
    }

    fn skipped(count: u32) -> EngineEvent {
        let stretch =
            Stretch { from: at(), to: at().plus_ms(60_000), count, capped: false, reason: LedgerReason::Overlap, run_id: Some(run()) };
        EngineEvent::Recorded { project_id: "default".parse().unwrap(), trigger_id: "nightly".parse().unwrap(), stretch }
    }

    #[test]
    fn a_line_says_what_happened_to_what() {
        let line = |event: &EngineEvent| of(event, at(), Paint::plain());
        assert_eq!(line(&admitted()), "12:00:00.004Z ✓ nightly admitted  run …3fa9c1d2 (4 ms late)");
        assert_eq!(
            line(&finished(RunStatus::Failed, Some("exit_code"))),
            "12:00:00.004Z ✗ backup failed  run …3fa9c1d2, attempt 2, took 1s 250ms, exit status 1"
        );
        assert_eq!(
            line(&skipped(2)),
            "12:00:00.004Z ! nightly skipped  overlap: 2 from 2026-03-29 12:00:00Z to 2026-03-29 12:01:00Z, run …3fa9c1d2"
        );
        assert_eq!(line(&EngineEvent::Clock(ClockState::Trusted)), "12:00:00.004Z ✓ the clock is trusted again");
    }

    #[test]
    fn counts_speak_of_runs_and_of_occurrences() {
        let mut counts = super::super::Counts::default();
        let events = [
            admitted(),
            finished(RunStatus::RetryWait, Some("exit_code")),
            finished(RunStatus::Succeeded, None),
            finished(RunStatus::TimedOut, Some("timeout")),
            skipped(3),
        ];
        for event in &events {
            counts.count(event);
        }
        assert_eq!(counts, super::super::Counts { admitted: 1, succeeded: 1, failed: 1, cancelled: 0, skipped: 3 });
        assert_eq!(counts.to_string(), "1 admitted, 1 succeeded, 1 failed, 3 skipped");
    }
}
