use proptest::prelude::*;

use super::*;
use crate::cron::{CronExpr, TimeZone};

fn at(text: &str) -> TimestampMs {
    TimestampMs::parse(text).unwrap()
}

fn schedule(cron: &str, zone: &str) -> Schedule {
    Schedule::new(CronExpr::parse(cron).unwrap(), TimeZone::parse(zone).unwrap()).unwrap()
}

fn input<'a>(schedule: &'a Schedule, next_fire_at: Option<&str>, observed_at: &str) -> DecisionInput<'a> {
    DecisionInput {
        schedule,
        misfire: Misfire::Skip,
        overlap: Overlap::Allow,
        unfinished_run: None,
        activated_at: at("2026-01-01T00:00:00Z"),
        next_fire_at: next_fire_at.map(at),
        last_scheduled_at: None,
        observed_at: at(observed_at),
        grace_ms: 120_000,
    }
}

#[test]
fn a_fresh_schedule_gets_its_cursor() {
    let minutely = schedule("* * * * *", "UTC");
    let decision = decide(&DecisionInput { activated_at: at("2026-01-01T10:00:30Z"), ..input(&minutely, None, "2026-01-01T10:00:30Z") });
    assert_eq!(decision.action, Action::Initialize);
    assert_eq!(decision.next_fire_at, Some(at("2026-01-01T10:01:00Z")));
    assert_eq!(decision.ledger, None);
}

#[test]
fn an_occurrence_at_the_activation_belongs_to_the_new_revision_unless_it_was_admitted() {
    let minutely = schedule("* * * * *", "UTC");
    let fresh = DecisionInput { activated_at: at("2026-01-01T10:00:00Z"), ..input(&minutely, None, "2026-01-01T10:00:00Z") };
    assert_eq!(decide(&fresh).action, Action::Admit { scheduled_for: at("2026-01-01T10:00:00Z") });
    let admitted = DecisionInput { last_scheduled_at: Some(at("2026-01-01T10:00:00Z")), ..fresh };
    assert_eq!(decide(&admitted).action, Action::Initialize);
}

/// A clock that was set back (and accepted) stands before what was admitted; nothing of that is owed again under a new revision.
#[test]
fn a_cursor_never_stands_before_what_was_admitted() {
    let minutely = schedule("* * * * *", "UTC");
    let edited = DecisionInput {
        activated_at: at("2026-01-01T10:02:00Z"),
        last_scheduled_at: Some(at("2026-01-01T10:05:00Z")),
        ..input(&minutely, None, "2026-01-01T10:02:10Z")
    };
    let decision = decide(&edited);
    assert_eq!((decision.action, decision.next_fire_at), (Action::Initialize, Some(at("2026-01-01T10:06:00Z"))));
    // An activation ahead of the clock is kept too.
    let ahead = DecisionInput { activated_at: at("2026-01-01T10:08:30Z"), ..edited };
    assert_eq!(decide(&ahead).next_fire_at, Some(at("2026-01-01T10:09:00Z")));
}

/// C20: 120 outstanding minutes, by policy.
#[test]
fn a_long_outage_admits_at_most_one_and_records_all_others() {
    let minutely = schedule("* * * * *", "UTC");
    let back = input(&minutely, Some("2026-01-01T10:01:00Z"), "2026-01-01T12:00:20Z");
    // Within the grace, both policies admit the latest.
    for misfire in [Misfire::Skip, Misfire::FireOnce] {
        let decision = decide(&DecisionInput { misfire, ..back });
        assert_eq!(decision.action, Action::Admit { scheduled_for: at("2026-01-01T12:00:00Z") });
        assert_eq!(decision.next_fire_at, Some(at("2026-01-01T12:01:00Z")));
        let ledger = decision.ledger.unwrap();
        assert_eq!((ledger.count, ledger.reason), (119, LedgerReason::Collapsed));
        assert_eq!((ledger.from, ledger.to), (at("2026-01-01T10:01:00Z"), at("2026-01-01T11:59:00Z")));
    }
}

#[test]
fn a_misfire_is_skipped_or_made_up_for_once() {
    let hourly = schedule("0 * * * *", "UTC");
    let back = input(&hourly, Some("2026-01-01T10:00:00Z"), "2026-01-01T12:30:00Z");
    let skipped = decide(&back);
    assert_eq!(skipped.action, Action::Skip);
    let ledger = skipped.ledger.unwrap();
    assert_eq!((ledger.count, ledger.reason), (3, LedgerReason::Misfired));
    let fired = decide(&DecisionInput { misfire: Misfire::FireOnce, ..back });
    assert_eq!(fired.action, Action::Admit { scheduled_for: at("2026-01-01T12:00:00Z") });
    assert_eq!(fired.ledger.unwrap().count, 2);
    // The grace is inclusive.
    let edge = DecisionInput { observed_at: at("2026-01-01T12:02:00Z"), ..back };
    assert_eq!(decide(&edge).action, Action::Admit { scheduled_for: at("2026-01-01T12:00:00Z") });
    assert_eq!(decide(&DecisionInput { observed_at: at("2026-01-01T12:02:00.001Z"), ..back }).action, Action::Skip);
}

#[test]
fn an_unfinished_run_blocks_only_if_the_policy_says_so() {
    let run = RunId::from_uuid(uuid::Uuid::from_u128(7));
    let minutely = schedule("* * * * *", "UTC");
    let busy = DecisionInput { unfinished_run: Some(run), ..input(&minutely, Some("2026-01-01T10:01:00Z"), "2026-01-01T10:02:01Z") };
    assert!(matches!(decide(&busy).action, Action::Admit { .. }));
    let decision = decide(&DecisionInput { overlap: Overlap::Skip, ..busy });
    assert_eq!(decision.action, Action::Skip);
    let ledger = decision.ledger.unwrap();
    assert_eq!((ledger.reason, ledger.run_id, ledger.count), (LedgerReason::Overlap, Some(run), 2));
}

fn any_schedule() -> impl Strategy<Value = Schedule> {
    let cron = prop::sample::select(vec![
        "* * * * *",
        "*/7 * * * *",
        "0 * * * *",
        "30 2 * * *",
        "0,15,30 1-3 * * *",
        "*/20 * * * * *",
        "0 0 1 * *",
        "15 2 * * 0",
        "5 4 29 2 *",
    ]);
    let zone = prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca"]);
    (cron, zone).prop_map(|(cron, zone)| schedule(cron, zone))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every occurrence in [due, observed] is admitted or in the ledger, never both, never neither; the cursor goes on behind it.
    #[test]
    fn every_due_occurrence_has_exactly_one_fate(
        schedule in any_schedule(),
        start in 1_700_000_000_000_i64..1_900_000_000_000,
        gap in 0_u64..7_200_000,
        fire_once: bool,
        skip_overlap: bool,
        busy: bool,
        grace_ms in 0_u64..300_000,
    ) {
        let start = TimestampMs::clamped(start);
        let due = schedule.first_at_or_after(start).unwrap();
        let observed_at = due.plus_ms(gap);
        let run = RunId::from_uuid(uuid::Uuid::from_u128(1));
        let decision = decide(&DecisionInput {
            schedule: &schedule,
            misfire: if fire_once { Misfire::FireOnce } else { Misfire::Skip },
            overlap: if skip_overlap { Overlap::Skip } else { Overlap::Allow },
            unfinished_run: busy.then_some(run),
            activated_at: start,
            next_fire_at: Some(due),
            last_scheduled_at: None,
            observed_at,
            grace_ms,
        });
        let mut owed = Vec::new();
        let mut t = Some(due);
        while let Some(at) = t.filter(|t| *t <= observed_at) {
            owed.push(at);
            t = schedule.next_after(at);
        }
        let admitted: Vec<_> = match decision.action {
            Action::Admit { scheduled_for } => vec![scheduled_for],
            Action::Skip => vec![],
            Action::Initialize => return Err(TestCaseError::fail("something was due")),
        };
        let recorded: Vec<_> = decision.ledger.iter()
            .flat_map(|s| owed.iter().copied().filter(|at| (s.from..=s.to).contains(at)))
            .collect();
        if let Some(stretch) = &decision.ledger {
            prop_assert_eq!(stretch.count as usize, recorded.len().min(1_000));
            prop_assert_eq!(stretch.capped, recorded.len() > 1_000);
        }
        let mut all = recorded;
        all.extend(&admitted);
        all.sort_unstable();
        prop_assert_eq!(all, owed);
        prop_assert_eq!(decision.next_fire_at, t);
    }
}
