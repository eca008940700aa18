//! What an edit makes of a schedule: under the row's lock, with the authority's clock read after it.
//!
//! An edit clears the claim, so an older claim can never commit; sets the cursor to `None` and the activation to now, so it never
//! fires the past; keeps `last_scheduled_at`, so it never doubles an occurrence under the key of a new revision; and records every
//! occurrence that was due but not admitted.

use super::{
    Pause, ScheduleRow,
    ledger::{LedgerEntry, LedgerReason, Stretch},
};
use crate::{TimestampMs, cron::Schedule};

/// What is done to a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditKind {
    /// A new revision became current.
    Republish {
        /// Which.
        revision: u32,
    },
    /// A tombstone became current.
    Archive {
        /// Which.
        revision: u32,
    },
    /// Occurrences from now on are recorded, not run.
    Pause {
        /// Who.
        by: String,
        /// Why.
        reason: Option<String>,
    },
    /// Occurrences from now on are run again.
    Resume,
}

/// An edit of one schedule.
#[derive(Clone, Copy, Debug)]
pub struct Edit<'a> {
    /// What is done.
    pub kind: &'a EditKind,
    /// The evaluator of the revision that was current until now. `None` if it rested: archived, disabled, or its task was; then no
    /// occurrence was owed.
    pub owing: Option<&'a Schedule>,
    /// The authority's clock, read after the row was locked.
    pub at: TimestampMs,
    /// The zone data that the new cursor will be computed with.
    pub zone_data_version: &'a str,
}

/// The row after the edit, and what was due but not admitted.
pub fn edit(row: &ScheduleRow, edit: &Edit<'_>) -> (ScheduleRow, Option<LedgerEntry>) {
    let reason = match (edit.kind, &row.paused) {
        // Whatever is done to a paused trigger: what was due meanwhile was not run because of the pause.
        (_, Some(_)) | (EditKind::Pause { .. }, None) => LedgerReason::Paused,
        (EditKind::Archive { .. }, None) => LedgerReason::Archived,
        (EditKind::Republish { .. } | EditKind::Resume, None) => LedgerReason::Superseded,
    };
    // An occurrence at this very instant belongs to what follows, if anything follows.
    let end = if matches!(edit.kind, EditKind::Archive { .. }) { edit.at.plus_ms(1) } else { edit.at };
    let stretch = edit.owing.and_then(|schedule| {
        let from = row.next_owed(schedule)?;
        Stretch::between(schedule, from, end, reason, None)
    });
    let entry = stretch.map(|stretch| LedgerEntry {
        project_id: row.project_id.clone(),
        trigger_id: row.trigger_id.clone(),
        trigger_revision: row.trigger_revision,
        stretch,
        recorded_at: edit.at,
    });
    let mut next = row.clone();
    match edit.kind {
        EditKind::Republish { revision } | EditKind::Archive { revision } => next.trigger_revision = *revision,
        EditKind::Pause { by, reason } => {
            let pause = Pause { at: edit.at, by: by.clone(), reason: reason.clone() };
            next.paused.get_or_insert(pause);
        }
        EditKind::Resume => next.paused = None,
    }
    // The activation never goes back, even if the clock did: what is before it has been recorded. What was recorded in this very
    // millisecond, or before the clock was set back, shows only in the cursor behind it; what was admitted is known anyway.
    let decided = edit.owing.zip(row.next_fire_at).and_then(|(schedule, cursor)| schedule.latest_at_or_before(cursor.minus_ms(1)));
    let recorded = decided.filter(|decided| row.last_scheduled_at < Some(*decided));
    next.activated_at = end.max(row.activated_at).max(recorded.map_or(end, |last| last.plus_ms(1)));
    next.next_fire_at = None;
    next.set_aside = None;
    next.state_version += 1;
    next.claim_version += 1;
    edit.zone_data_version.clone_into(&mut next.zone_data_version);
    next.updated_at = edit.at;
    (next, entry)
}

/// The row after new zone data. A future cursor is computed again; a due one is left to the decision. What is before the cursor was decided under
/// the old data and is not judged again: the activation moves up to it. A row without a cursor only takes the version.
pub fn refresh_zone(row: &ScheduleRow, schedule: &Schedule, at: TimestampMs, zone_data_version: &str) -> ScheduleRow {
    let mut next = row.clone();
    if let Some(cursor) = row.next_fire_at {
        next.activated_at = cursor.min(at).max(row.activated_at);
        if cursor > at {
            next.next_fire_at = schedule.next_after(row.last_scheduled_at.map_or(at, |last| last.max(at)));
        }
    }
    zone_data_version.clone_into(&mut next.zone_data_version);
    next.state_version += 1;
    next.updated_at = at;
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cron::{CronExpr, TimeZone},
        ids::{ProjectId, TriggerId},
        schedule::{SetAside, decision::first_owed},
    };

    fn at(text: &str) -> TimestampMs {
        TimestampMs::parse(text).unwrap()
    }

    fn weekly() -> Schedule {
        Schedule::new(CronExpr::parse("45 20 * * 5").unwrap(), TimeZone::parse("Europe/Moscow").unwrap()).unwrap()
    }

    fn row(activated_at: &str) -> ScheduleRow {
        ScheduleRow {
            project_id: ProjectId::new("p").unwrap(),
            trigger_id: TriggerId::new("t").unwrap(),
            trigger_revision: 1,
            activated_at: at(activated_at),
            next_fire_at: None,
            last_scheduled_at: None,
            paused: None,
            set_aside: None,
            state_version: 1,
            claim_version: 4,
            zone_data_version: "a".into(),
            updated_at: at(activated_at),
        }
    }

    fn apply(row: &ScheduleRow, kind: &EditKind, instant: &str) -> (ScheduleRow, Option<LedgerEntry>) {
        edit(row, &Edit { kind, owing: Some(&weekly()), at: at(instant), zone_data_version: "b" })
    }

    /// C21a: paused over a Friday, resumed on Monday: nothing fires, one occurrence is recorded.
    #[test]
    fn resuming_does_not_fire_the_past() {
        let pause = EditKind::Pause { by: "me".into(), reason: None };
        let (paused, nothing) = apply(&row("2025-02-17T00:00:00Z"), &pause, "2025-02-20T00:00:00Z");
        assert!(nothing.is_none() && paused.paused.is_some() && paused.next_fire_at.is_none());
        let (resumed, missed) = apply(&paused, &EditKind::Resume, "2025-02-24T09:00:00Z");
        let missed = missed.unwrap().stretch;
        assert_eq!((missed.count, missed.reason, missed.from), (1, LedgerReason::Paused, at("2025-02-21T17:45:00Z")));
        assert_eq!(first_owed(&weekly(), resumed.activated_at, resumed.last_scheduled_at), Some(at("2025-02-28T17:45:00Z")));
        assert_eq!((resumed.state_version, resumed.claim_version), (3, 6));
    }

    /// C21c: an edit while paused keeps the pause.
    #[test]
    fn an_edit_keeps_a_pause() {
        let pause = EditKind::Pause { by: "me".into(), reason: Some("why".into()) };
        let (paused, _) = apply(&row("2025-02-17T00:00:00Z"), &pause, "2025-02-20T00:00:00Z");
        let (edited, missed) = apply(&paused, &EditKind::Republish { revision: 2 }, "2025-02-24T09:00:00Z");
        assert_eq!(missed.unwrap().stretch.reason, LedgerReason::Paused);
        assert_eq!((edited.paused, edited.trigger_revision), (paused.paused, 2));
    }

    #[test]
    fn an_instant_on_the_edge_has_one_owner() {
        let due = "2025-02-21T17:45:00Z";
        let (edited, entry) = apply(&row("2025-02-17T00:00:00Z"), &EditKind::Republish { revision: 2 }, due);
        assert!(entry.is_none(), "it is the new revision's");
        assert_eq!(first_owed(&weekly(), edited.activated_at, None), Some(at(due)));
        let (archived, entry) = apply(&row("2025-02-17T00:00:00Z"), &EditKind::Archive { revision: 2 }, due);
        assert_eq!(entry.unwrap().stretch.reason, LedgerReason::Archived);
        assert!(archived.activated_at > at(due), "a revision in the same millisecond does not get it again");
    }

    /// The ledger has it (an overlap, say), and no Run does: only the cursor shows that it was decided.
    #[test]
    fn what_was_decided_before_the_cursor_is_not_owed_again() {
        let (due, next_week) = (at("2025-02-21T17:45:00Z"), at("2025-02-28T17:45:00Z"));
        let decided = ScheduleRow { next_fire_at: Some(next_week), updated_at: due, ..row("2025-02-17T00:00:00Z") };
        // In the same millisecond, and after the clock was set back.
        for instant in ["2025-02-21T17:45:00Z", "2025-02-20T00:00:00Z"] {
            let pause = EditKind::Pause { by: "me".into(), reason: None };
            for kind in [EditKind::Republish { revision: 2 }, pause] {
                let (edited, entry) = apply(&decided, &kind, instant);
                assert!(entry.is_none());
                assert_eq!(first_owed(&weekly(), edited.activated_at, None), Some(next_week), "{kind:?} at {instant}");
            }
        }
    }

    #[test]
    fn an_activation_never_goes_back_with_the_clock() {
        let pause = EditKind::Pause { by: "me".into(), reason: None };
        let (paused, _) = apply(&row("2025-02-17T00:00:00Z"), &pause, "2025-02-17T00:00:00Z");
        let (edited, missed) = apply(&paused, &EditKind::Republish { revision: 2 }, "2025-02-24T00:00:00Z");
        assert!(missed.is_some());
        // What the pause kept back is recorded: it is not kept back, or fired, a second time.
        let (resumed, again) = apply(&edited, &EditKind::Resume, "2025-02-18T00:00:00Z");
        assert!(again.is_none());
        assert_eq!(resumed.activated_at, at("2025-02-24T00:00:00Z"));
    }

    #[test]
    fn new_zone_data_moves_future_cursors_only() {
        let now = at("2025-02-20T00:00:00Z");
        let stale = ScheduleRow { next_fire_at: Some(at("2025-02-21T18:45:00Z")), ..row("2025-02-17T00:00:00Z") };
        let fresh = refresh_zone(&stale, &weekly(), now, "b");
        assert_eq!((fresh.next_fire_at, fresh.activated_at), (Some(at("2025-02-21T17:45:00Z")), now));
        let ahead = ScheduleRow { last_scheduled_at: Some(at("2025-02-21T17:45:00Z")), ..stale.clone() };
        assert_eq!(refresh_zone(&ahead, &weekly(), now, "b").next_fire_at, Some(at("2025-02-28T17:45:00Z")));
        let due = ScheduleRow { next_fire_at: Some(at("2025-02-19T00:00:00Z")), ..stale };
        let kept = refresh_zone(&due, &weekly(), now, "b");
        assert_eq!((kept.next_fire_at, kept.activated_at), (due.next_fire_at, at("2025-02-19T00:00:00Z")));
        assert_eq!((kept.zone_data_version.as_str(), kept.state_version), ("b", 2));
    }

    #[test]
    fn a_rested_schedule_owes_nothing() {
        let kind = EditKind::Republish { revision: 2 };
        let (row, entry) =
            edit(&row("2025-02-17T00:00:00Z"), &Edit { kind: &kind, owing: None, at: at("2025-03-20T00:00:00Z"), zone_data_version: "b" });
        assert!(entry.is_none());
        assert_eq!(row.activated_at, at("2025-03-20T00:00:00Z"));
    }

    #[test]
    fn an_edit_gives_a_set_aside_trigger_another_chance() {
        let aside = ScheduleRow {
            set_aside: Some(SetAside { at: at("2025-02-18T00:00:00Z"), reason: "unreadable".into() }),
            ..row("2025-02-17T00:00:00Z")
        };
        assert_eq!(apply(&aside, &EditKind::Republish { revision: 2 }, "2025-02-19T00:00:00Z").0.set_aside, None);
    }
}
