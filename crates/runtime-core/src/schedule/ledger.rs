//! Why an occurrence did not run: a durable reason for each, kept as stretches.

use crate::{
    TimestampMs,
    cron::Schedule,
    ids::{ProjectId, RunId, TriggerId},
    limits::LEDGER_COUNT_MAX,
    run::text_enum,
};

text_enum!(
    /// Why.
    LedgerReason, "reason", {
        /// A later occurrence of the same cycle was admitted in their stead; `run_id` names its Run.
        Collapsed = "collapsed",
        /// Noticed later than the grace allows, and the policy is to skip.
        Misfired = "misfired",
        /// The Run `run_id` of the same trigger was unfinished, and the policy is to skip.
        Overlap = "overlap",
        /// Due but not yet admitted when the definition was edited.
        Superseded = "superseded",
        /// The trigger was paused.
        Paused = "paused",
        /// Due but not yet admitted when the trigger was archived.
        Archived = "archived",
    }
);

/// Some occurrences of a trigger, all of one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first occurrence.
    pub from: TimestampMs,
    /// The last occurrence; everything that matches in between is meant too.
    pub to: TimestampMs,
    /// How many, at most 1000.
    pub count: u32,
    /// There are more than `count`.
    pub capped: bool,
    /// Why.
    pub reason: LedgerReason,
    /// The Run that `reason` speaks of.
    pub run_id: Option<RunId>,
}

/// One row of `schedule_ledger`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Namespace.
    pub project_id: ProjectId,
    /// Whose occurrences.
    pub trigger_id: TriggerId,
    /// Under which revision.
    pub trigger_revision: u32,
    /// Which, and why.
    pub stretch: Stretch,
    /// Authority time; of the latest extension, if it was extended.
    pub recorded_at: TimestampMs,
}

impl Stretch {
    /// The occurrences in `[from, to_exclusive)`, if there is one.
    pub fn between(
        schedule: &Schedule,
        from: TimestampMs,
        to_exclusive: TimestampMs,
        reason: LedgerReason,
        run_id: Option<RunId>,
    ) -> Option<Self> {
        if from >= to_exclusive {
            return None;
        }
        let (first, count, capped) = schedule.count_between(from, to_exclusive, LEDGER_COUNT_MAX);
        let first = first?;
        let to = schedule.latest_at_or_before(to_exclusive.minus_ms(1)).unwrap_or(first);
        Some(Self { from: first, to, count, capped, reason, run_id })
    }
}

impl LedgerEntry {
    /// `self`, the trigger's newest entry, grown by `next`, if both are one stretch: the same reason, Run and revision, and nothing
    /// was admitted since.
    pub fn extended_by(&self, next: &Self, last_scheduled_at: Option<TimestampMs>) -> Option<Self> {
        let (a, b) = (&self.stretch, &next.stretch);
        let same = a.reason == b.reason && a.run_id == b.run_id && self.trigger_revision == next.trigger_revision;
        let open = last_scheduled_at.is_none_or(|last| last < a.from) && a.to < b.from;
        (same && open).then(|| Self {
            stretch: Stretch {
                to: b.to,
                count: (a.count + b.count).min(LEDGER_COUNT_MAX),
                capped: a.capped || b.capped || a.count + b.count > LEDGER_COUNT_MAX,
                ..a.clone()
            },
            recorded_at: next.recorded_at,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron::{CronExpr, TimeZone};

    fn at(text: &str) -> TimestampMs {
        TimestampMs::parse(text).unwrap()
    }

    fn minutely() -> Schedule {
        Schedule::new(CronExpr::parse("* * * * *").unwrap(), TimeZone::parse("UTC").unwrap()).unwrap()
    }

    fn entry(from: &str, to: &str, reason: LedgerReason) -> LedgerEntry {
        LedgerEntry {
            project_id: ProjectId::new("p").unwrap(),
            trigger_id: TriggerId::new("t").unwrap(),
            trigger_revision: 1,
            stretch: Stretch::between(&minutely(), at(from), at(to), reason, None).unwrap(),
            recorded_at: at(to),
        }
    }

    #[test]
    fn bounds_are_occurrences_and_the_end_is_exclusive() {
        let stretch = entry("2026-01-01T10:00:30Z", "2026-01-01T10:03:00Z", LedgerReason::Paused).stretch;
        assert_eq!((stretch.from, stretch.to), (at("2026-01-01T10:01:00Z"), at("2026-01-01T10:02:00Z")));
        assert_eq!((stretch.count, stretch.capped), (2, false));
        let (from, to) = (at("2026-01-01T10:00:01Z"), at("2026-01-01T10:01:00Z"));
        assert_eq!(Stretch::between(&minutely(), from, to, LedgerReason::Paused, None), None);
    }

    #[test]
    fn counts_are_capped_and_say_so() {
        let stretch = entry("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", LedgerReason::Misfired).stretch;
        assert_eq!((stretch.count, stretch.capped, stretch.to), (1_000, true, at("2026-01-01T23:59:00Z")));
        let exact = entry("2026-01-01T00:00:00Z", "2026-01-01T16:40:00Z", LedgerReason::Misfired).stretch;
        assert_eq!((exact.count, exact.capped), (1_000, false));
    }

    #[test]
    fn only_an_open_stretch_of_the_same_reason_grows() {
        let first = entry("2026-01-01T10:00:00Z", "2026-01-01T10:02:00Z", LedgerReason::Misfired);
        let next = entry("2026-01-01T10:02:00Z", "2026-01-01T10:03:00Z", LedgerReason::Misfired);
        let grown = first.extended_by(&next, Some(at("2026-01-01T09:59:00Z"))).unwrap();
        assert_eq!((grown.stretch.from, grown.stretch.to, grown.stretch.count), (first.stretch.from, next.stretch.to, 3));
        assert!(first.extended_by(&next, Some(at("2026-01-01T10:01:30Z"))).is_none(), "something was admitted in between");
        let other = entry("2026-01-01T10:02:00Z", "2026-01-01T10:03:00Z", LedgerReason::Paused);
        assert!(first.extended_by(&other, None).is_none());
    }
}
