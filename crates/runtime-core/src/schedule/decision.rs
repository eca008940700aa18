//! What becomes of a due trigger: decided from one observation of the authority's clock and nothing else.

use super::ledger::{LedgerReason, Stretch};
use crate::{
    TimestampMs,
    cron::Schedule,
    definition::{Misfire, Overlap},
    ids::RunId,
};

/// Everything that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct DecisionInput<'a> {
    /// The trigger's evaluator.
    pub schedule: &'a Schedule,
    /// Its policy for lateness.
    pub misfire: Misfire,
    /// Its policy for overlap.
    pub overlap: Overlap,
    /// An unfinished Run of the trigger, if there is one.
    pub unfinished_run: Option<RunId>,
    /// See `ScheduleRow::activated_at`.
    pub activated_at: TimestampMs,
    /// See `ScheduleRow::next_fire_at`.
    pub next_fire_at: Option<TimestampMs>,
    /// See `ScheduleRow::last_scheduled_at`.
    pub last_scheduled_at: Option<TimestampMs>,
    /// The authority's clock when the claim was taken.
    pub observed_at: TimestampMs,
    /// How late an occurrence may be admitted before it counts as a misfire.
    pub grace_ms: u64,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing is due: the cursor is stored.
    Initialize,
    /// One Run.
    Admit {
        /// The occurrence that it stands for.
        scheduled_for: TimestampMs,
    },
    /// No Run; the ledger says why.
    Skip,
}

/// The decision. Every occurrence up to `observed_at` is in `action` or in `ledger`, never both, never neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The observation that it was taken from.
    pub observed_at: TimestampMs,
    /// What becomes of the trigger.
    pub action: Action,
    /// The new cursor: the first owed occurrence after `observed_at`; `None` if there is none within the horizon.
    pub next_fire_at: Option<TimestampMs>,
    /// All due occurrences that are not admitted. The Run of a `collapsed` stretch is the one that is being admitted.
    pub ledger: Option<Stretch>,
}

/// Decides.
pub fn decide(input: &DecisionInput<'_>) -> Decision {
    let DecisionInput { schedule, observed_at, .. } = *input;
    // A clock that was set back stands before what was admitted; the cursor never does.
    let after = input.last_scheduled_at.map_or(observed_at, |last| last.max(observed_at));
    let decided = |action, ledger| Decision { observed_at, action, next_fire_at: schedule.next_after(after), ledger };
    let due = input.next_fire_at.or_else(|| first_owed(schedule, input.activated_at, input.last_scheduled_at));
    // The latest occurrence is found backwards: a long backlog costs nothing here. With changed zone data a stored cursor may no
    // longer be an occurrence; then nothing may be left of what was due.
    let last = due.filter(|due| *due <= observed_at).and_then(|due| schedule.latest_at_or_before(observed_at).filter(|last| *last >= due));
    let (Some(due), Some(last)) = (due, last) else {
        let ahead = due.filter(|due| *due > observed_at);
        let initialized = decided(Action::Initialize, None);
        return Decision { next_fire_at: ahead.or(initialized.next_fire_at), ..initialized };
    };
    let beyond_last = last.plus_ms(1);
    let late = observed_at.since_ms(last) > input.grace_ms;
    if late && input.misfire == Misfire::Skip {
        return decided(Action::Skip, Stretch::between(schedule, due, beyond_last, LedgerReason::Misfired, None));
    }
    if input.overlap == Overlap::Skip && input.unfinished_run.is_some() {
        return decided(Action::Skip, Stretch::between(schedule, due, beyond_last, LedgerReason::Overlap, input.unfinished_run));
    }
    let collapsed = Stretch::between(schedule, due, last, LedgerReason::Collapsed, None);
    decided(Action::Admit { scheduled_for: last }, collapsed)
}

/// The first occurrence that a schedule without a cursor owes: at or after its activation, and after the last admitted one.
pub(super) fn first_owed(schedule: &Schedule, activated_at: TimestampMs, last: Option<TimestampMs>) -> Option<TimestampMs> {
    match last {
        Some(last) if last >= activated_at => schedule.next_after(last),
        _ => schedule.first_at_or_after(activated_at),
    }
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
