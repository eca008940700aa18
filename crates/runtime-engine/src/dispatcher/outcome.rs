//! What the end of a process means for its attempt.

use runtime_core::{
    ports::executor::{EndCause, ProcessEnd},
    run::{AttemptOutcome, AttemptResult, Run},
};

/// Why the engine stopped a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    TimedOut {
        timeout_ms: u64,
    },
    Cancelled,
    /// Shutdown, or a lost lease: not a result.
    Left,
}

/// The result, or `None` if the end was not the command's own and nobody ordered it for its sake.
pub(super) fn of(end: &ProcessEnd, stopped: Option<Stopped>) -> Option<AttemptOutcome> {
    let outcome = match (end.cause, stopped) {
        (EndCause::Exited, _) => own(end),
        (EndCause::SpawnFailed, _) => spawn_failed(end.detail.as_deref().unwrap_or("the command could not be started")),
        (EndCause::Stopped, Some(Stopped::TimedOut { timeout_ms })) => {
            outcome(AttemptResult::TimedOut, end, "timeout", &format!("ran longer than its timeout of {timeout_ms} ms"))
        }
        (EndCause::Stopped, Some(Stopped::Cancelled)) => outcome(AttemptResult::Cancelled, end, "cancelled", "cancelled while it ran"),
        (EndCause::Stopped, Some(Stopped::Left) | None) | (EndCause::Abandoned, _) => return None,
    };
    Some(outcome)
}

/// The result of an attempt of an earlier process, from its exit record. That process stopped it for a cancellation if one is durable;
/// whatever else made it do so, shutdown above all, is not a result.
pub(super) fn recovered(end: &ProcessEnd, run: &Run) -> Option<AttemptOutcome> {
    of(end, run.cancel_requested_at.map(|_| Stopped::Cancelled))
}

fn spawn_failed(summary: &str) -> AttemptOutcome {
    AttemptOutcome {
        result: AttemptResult::Failed,
        exit_code: None,
        error_code: Some("spawn_failed".to_owned()),
        error_summary: Some(summary.to_owned()),
    }
}

fn own(end: &ProcessEnd) -> AttemptOutcome {
    match (end.exit_code, end.signal) {
        (Some(0), _) => AttemptOutcome { result: AttemptResult::Succeeded, exit_code: Some(0), error_code: None, error_summary: None },
        (Some(code), _) => outcome(AttemptResult::Failed, end, "exit_code", &format!("exit status {code}")),
        (None, Some(signal)) => outcome(AttemptResult::Failed, end, "signal", &format!("ended by signal {signal}")),
        (None, None) => outcome(AttemptResult::Failed, end, "signal", "ended without an exit status"),
    }
}

fn outcome(result: AttemptResult, end: &ProcessEnd, code: &str, summary: &str) -> AttemptOutcome {
    let summary = end.detail.as_ref().map_or_else(|| summary.to_owned(), |detail| format!("{summary}; {detail}"));
    AttemptOutcome { result, exit_code: end.exit_code, error_code: Some(code.to_owned()), error_summary: Some(summary) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(cause: EndCause, exit_code: Option<i32>, signal: Option<i32>) -> ProcessEnd {
        ProcessEnd { cause, exit_code, signal, detail: None, output_kept_bytes: 0, output_dropped_bytes: 0 }
    }

    fn code(outcome: Option<AttemptOutcome>) -> Option<(AttemptResult, Option<String>)> {
        outcome.map(|outcome| (outcome.result, outcome.error_code))
    }

    #[test]
    fn each_end_has_one_meaning() {
        let timed_out = Some(Stopped::TimedOut { timeout_ms: 5 });
        let failed = |code: &str| Some((AttemptResult::Failed, Some(code.to_owned())));
        let cases = [
            (end(EndCause::Exited, Some(0), None), None, Some((AttemptResult::Succeeded, None))),
            (end(EndCause::Exited, Some(3), None), None, failed("exit_code")),
            (end(EndCause::Exited, None, Some(11)), None, failed("signal")),
            (end(EndCause::SpawnFailed, None, None), None, failed("spawn_failed")),
            (end(EndCause::Stopped, None, Some(15)), timed_out, Some((AttemptResult::TimedOut, Some("timeout".to_owned())))),
            (
                end(EndCause::Stopped, Some(0), None),
                Some(Stopped::Cancelled),
                Some((AttemptResult::Cancelled, Some("cancelled".to_owned()))),
            ),
            (end(EndCause::Stopped, None, Some(15)), Some(Stopped::Left), None),
            (end(EndCause::Stopped, None, Some(15)), None, None),
            (end(EndCause::Abandoned, None, Some(9)), timed_out, None),
            // The command was quicker than the order to stop it: its result is its own.
            (end(EndCause::Exited, Some(0), None), Some(Stopped::Left), Some((AttemptResult::Succeeded, None))),
        ];
        for (end, stopped, expected) in cases {
            assert_eq!(code(of(&end, stopped)), expected, "{end:?} {stopped:?}");
        }
    }
}
