//! What became, or will become, of one instant of one trigger, and why: explained from what the store holds and nothing else.

use crate::{
    Invalid, TimestampMs,
    cron::{Occurrence, Schedule},
    definition::{Head, TaskSpec, TriggerSpec},
    ports::instants::InstantFacts,
    run::Run,
    schedule::{LedgerEntry, Pause, SetAside},
};

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It is a Run.
    Admitted {
        /// Which.
        run: &'a Run,
        /// Between the occurrence and its admission.
        late_ms: u64,
    },
    /// It is in the ledger, with the reason.
    Recorded(&'a LedgerEntry),
    /// The revision of the time does not occur then.
    NotAnOccurrence {
        /// The nearest occurrence before.
        before: Option<Occurrence>,
        /// The nearest occurrence after.
        after: Option<Occurrence>,
    },
    /// The trigger did not exist: before the activation of this, its first revision.
    NotYetDefined(Option<&'a Head<TriggerSpec>>),
    /// The trigger was archived: this tombstone was current.
    Archived(&'a Head<TriggerSpec>),
    /// This revision has it disabled.
    Disabled(&'a Head<TriggerSpec>),
    /// Its task was disabled or archived by this revision.
    TaskResting(&'a Head<TaskSpec>),
    /// The revision cannot be evaluated by this program.
    Unreadable(Invalid),
    /// It is paused, and what is due meanwhile is recorded when the pause ends.
    Paused(&'a Pause),
    /// It is left alone until it is edited.
    SetAside(&'a SetAside),
    /// It lies ahead; the trigger's next occurrence is this.
    Future {
        /// The cursor.
        next: Option<TimestampMs>,
    },
    /// It is due, and nothing is scheduled while the clock is behind this mark.
    ClockBehind {
        /// The highest time that was committed.
        mark: TimestampMs,
    },
    /// It is due and will be decided by the scheduler's next look.
    Due,
    /// It was owed, and history before this instant may have been removed.
    Pruned(TimestampMs),
    /// It was owed, and neither Run nor reason is stored.
    Unrecorded,
}

impl Verdict<'_> {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Admitted { .. } => "admitted",
            Self::Recorded(entry) => entry.stretch.reason.as_str(),
            Self::NotAnOccurrence { .. } => "not_an_occurrence",
            Self::NotYetDefined(_) => "not_yet_defined",
            Self::Archived(_) => "archived",
            Self::Disabled(_) => "disabled",
            Self::TaskResting(_) => "task_disabled",
            Self::Unreadable(_) => "unreadable",
            Self::Paused(_) => "paused",
            Self::SetAside(_) => "set_aside",
            Self::Future { .. } => "future",
            Self::ClockBehind { .. } => "clock_behind",
            Self::Due => "due",
            Self::Pruned(_) => "pruned",
            Self::Unrecorded => "unrecorded",
        }
    }
}

/// Explains the instant `at`, which `instants` is about. What was written comes first, then what the definitions of the time say, then
/// where the schedule stands now.
pub fn explain(facts: &InstantFacts, at: TimestampMs) -> Verdict<'_> {
    if let Some(run) = &facts.run {
        return Verdict::Admitted { run, late_ms: run.created_at.since_ms(at) };
    }
    let Some(head) = &facts.in_force else { return Verdict::NotYetDefined(facts.followed_by.as_ref()) };
    if head.archived {
        return Verdict::Archived(head);
    }
    let schedule = match head.spec.schedule() {
        Ok(schedule) => schedule,
        Err(refused) => return Verdict::Unreadable(refused),
    };
    if !schedule.matches(at) {
        let occurrence = |at| schedule.occurrence(at);
        let before = schedule.latest_at_or_before(at).map(occurrence);
        return Verdict::NotAnOccurrence { before, after: schedule.next_after(at).map(occurrence) };
    }
    if let Some(entry) = &facts.recorded {
        return Verdict::Recorded(entry);
    }
    if !head.spec.enabled {
        return Verdict::Disabled(head);
    }
    if let Some(task) = facts.task.as_ref().filter(|task| task.archived || !task.spec.enabled) {
        return Verdict::TaskResting(task);
    }
    match &facts.followed_by {
        None => standing(facts, &schedule, at),
        // Archived in this very instant, and nothing was owed: its task rested until then.
        Some(next) if next.archived && next.created_at == at => Verdict::Archived(next),
        Some(_) => unrecorded(facts, at),
    }
}

fn unrecorded(facts: &InstantFacts, at: TimestampMs) -> Verdict<'_> {
    facts.pruned_before.filter(|before| at < *before).map_or(Verdict::Unrecorded, Verdict::Pruned)
}

/// What the current revision's schedule says about an occurrence that nothing was written about.
fn standing<'a>(facts: &'a InstantFacts, schedule: &Schedule, at: TimestampMs) -> Verdict<'a> {
    let row = &facts.trigger.schedule;
    let next = row.next_owed(schedule);
    if next.is_some_and(|next| at < next) {
        // Before the cursor everything is admitted or recorded.
        return unrecorded(facts, at);
    }
    if let Some(aside) = &row.set_aside {
        return Verdict::SetAside(aside);
    }
    if let Some(pause) = &row.paused {
        return Verdict::Paused(pause);
    }
    if at > facts.observed_at {
        return Verdict::Future { next };
    }
    match facts.clock_mark.filter(|mark| *mark > facts.observed_at) {
        Some(mark) => Verdict::ClockBehind { mark },
        None => Verdict::Due,
    }
}
