//! What is stored about one instant, and what it explains.

use runtime_core::{
    TimestampMs,
    cron::{CronExpr, TimeZone},
    definition::{Misfire, Overlap, TaskSpec, TriggerSpec},
    ids::ProjectId,
    ports::{
        definitions::{Missed, Operator, PauseCommand},
        instants::InstantFacts,
    },
    run::{CancelReason, RunStatus},
    why::{Verdict, explain},
};

use super::kit::{MINUTE, World, operator, project, set, task, task_id, today, trigger, trigger_id, world};
use crate::{Fixture, start};

fn timer() -> TriggerSpec {
    trigger("t", "a", "* * * * *")
}

async fn about<F: Fixture>(w: &World<'_, F>, at: TimestampMs) -> InstantFacts {
    w.store.instant(&project(), &trigger_id("t"), at).await.unwrap().unwrap()
}

/// The code of the verdict about an instant of today.
async fn why<F: Fixture>(w: &World<'_, F>, time: &str) -> &'static str {
    let at = today(time);
    explain(&about(w, at).await, at).code()
}

async fn set_paused<F: Fixture>(w: &World<'_, F>, paused: bool, name: &str, reason: &str) {
    let by = Operator { name: name.to_owned(), reason: Some(reason.to_owned()) };
    let command = PauseCommand { project_id: project(), trigger_id: trigger_id("t"), paused, missed: Missed::Skip, by };
    assert!(w.store.set_paused(&command).await.unwrap().changed);
}

/// The Run, the revisions that it pins, and how late it was.
pub async fn an_admitted_instant_has_its_run(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01:07").await;
    let run_id = w.admitted().await[0];
    let facts = about(&w, today("12:01")).await;
    let Verdict::Admitted { run, late_ms } = explain(&facts, today("12:01")) else { panic!("{facts:?}") };
    assert_eq!((run.id, late_ms, run.trigger_revision, run.task_revision), (run_id, 7_000, Some(1), 1));
    assert_eq!(facts.in_force.as_ref().map(|head| &head.digest), run.trigger_digest.as_ref());
    assert_eq!(facts.task.as_ref().map(|head| &head.digest), Some(&run.task_digest));
    w.store.cancel(run_id, CancelReason::User, &operator()).await.unwrap();
    assert_eq!(about(&w, today("12:01")).await.run.map(|run| run.status), Some(RunStatus::Cancelled));
}

/// What waits, what comes, and what the clock holds up.
pub async fn an_instant_ahead_is_not_due_and_a_due_one_is_not_lost(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![timer()]).await;
    assert_eq!(why(&w, "12:01").await, "future", "also before the first look");
    w.cycle().await;
    let facts = about(&w, today("12:03")).await;
    assert_eq!(explain(&facts, today("12:03")), Verdict::Future { next: Some(today("12:01")) });
    w.until("12:01:05").await;
    assert_eq!(why(&w, "12:01").await, "due");
    assert_eq!(why(&w, "12:02").await, "future");
    // Somebody writes, and the clock is set back behind that.
    w.until("12:30").await;
    w.store.publish(&set(vec![TaskSpec { priority: 1, ..task("a") }], vec![timer()])).await.unwrap();
    w.until("12:10").await;
    let facts = about(&w, today("12:01")).await;
    assert_eq!(explain(&facts, today("12:01")), Verdict::ClockBehind { mark: today("12:30") });
}

/// Reasons of the ledger, each with the Run that it speaks of.
pub async fn a_recorded_instant_has_its_reason(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(TriggerSpec { misfire: Misfire::FireOnce, ..timer() }).await;
    w.until("12:04:30").await;
    let run_id = w.admitted().await[0];
    for (time, reason) in [("12:01", "collapsed"), ("12:03", "collapsed"), ("12:04", "admitted"), ("12:03:30", "not_an_occurrence")] {
        assert_eq!(why(&w, time).await, reason, "{time}");
    }
    assert_eq!(about(&w, today("12:01")).await.recorded_run.map(|run| run.id), Some(run_id));
    w.publish(vec![task("a")], vec![TriggerSpec { overlap: Overlap::Skip, ..timer() }]).await;
    w.until("12:05").await;
    w.cycle().await;
    assert_eq!(why(&w, "12:05").await, "overlap");
    assert_eq!(about(&w, today("12:05")).await.recorded_run.map(|run| run.id), Some(run_id));
    w.store.cancel(run_id, CancelReason::User, &operator()).await.unwrap();
    w.publish(vec![task("a")], vec![trigger("t", "a", "0 * * * *")]).await;
    w.cycle().await;
    w.until("13:50").await;
    w.cycle().await;
    assert_eq!(why(&w, "13:00").await, "misfired");
}

/// An edit: what was due goes with the revision that replaced it, an occurrence in the instant of the edit is the new one's.
pub async fn an_instant_is_judged_by_the_revision_of_its_time(fixture: &impl Fixture) {
    let w = world(fixture);
    assert_eq!(w.store.instant(&project(), &trigger_id("t"), start()).await.unwrap(), None);
    w.scheduled(timer()).await;
    w.until("12:02").await;
    w.publish(vec![task("a")], vec![trigger("t", "a", "*/2 * * * *")]).await;
    let facts = about(&w, today("12:01")).await;
    assert_eq!(explain(&facts, today("12:01")).code(), "superseded");
    assert_eq!((facts.in_force.map(|head| head.revision), facts.recorded_under.map(|head| head.revision)), (Some(1), Some(2)));
    assert_eq!(facts.followed_by.map(|head| (head.revision, head.created_at)), Some((2, today("12:02"))));
    assert_eq!(why(&w, "12:02").await, "due", "it is the new revision's");
    assert_eq!(why(&w, "12:03").await, "not_an_occurrence", "of the new one");
    let before = about(&w, today("11:00")).await;
    let Verdict::NotYetDefined(Some(first)) = explain(&before, today("11:00")) else { panic!("{before:?}") };
    assert_eq!((first.revision, first.created_at), (1, start()));
}

/// Who paused, when and why: while it lasts, and from the ledger afterwards, also after another pause.
pub async fn a_paused_instant_names_who_paused(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01:30").await;
    w.admitted().await;
    set_paused(&w, true, "ada", "disk full").await;
    w.until("12:03:30").await;
    let facts = about(&w, today("12:03")).await;
    let Verdict::Paused(pause) = explain(&facts, today("12:03")) else { panic!("{facts:?}") };
    assert_eq!((pause.by.as_str(), pause.reason.as_deref(), pause.at), ("ada", Some("disk full"), today("12:01:30")));
    assert_eq!((why(&w, "12:01").await, why(&w, "12:09").await), ("admitted", "paused"), "also what is ahead");
    set_paused(&w, false, "ada", "new disk").await;
    w.cycle().await;
    w.until("12:04:30").await;
    w.admitted().await;
    set_paused(&w, true, "bob", "holiday").await;
    let facts = about(&w, today("12:03")).await;
    assert_eq!(explain(&facts, today("12:03")).code(), "paused");
    let act = facts.pause.unwrap();
    assert_eq!((act.by.name.as_str(), act.by.reason.as_deref(), act.at), ("ada", Some("disk full"), today("12:01:30")));
    assert_eq!((why(&w, "12:04").await, why(&w, "12:05").await), ("admitted", "paused"));
}

/// What rested by its definition, and between which revisions.
pub async fn a_resting_instant_names_the_revision_that_rested(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:10:30").await;
    w.publish(vec![task("a")], vec![TriggerSpec { enabled: false, ..timer() }]).await;
    w.until("12:20:30").await;
    w.publish(vec![TaskSpec { enabled: false, ..task("a") }], vec![timer()]).await;
    w.until("12:30").await;
    w.publish(vec![task("a")], vec![]).await;
    w.until("12:40:30").await;
    w.publish(vec![task("a")], vec![timer()]).await;
    w.cycle().await;
    let expected = [
        ("12:05", "superseded"),
        ("12:11", "disabled"),
        ("12:20", "disabled"),
        ("12:21", "task_disabled"),
        ("12:30", "archived"),
        ("12:31", "archived"),
        ("12:41", "future"),
    ];
    for (time, reason) in expected {
        assert_eq!(why(&w, time).await, reason, "{time}");
    }
    let facts = about(&w, today("12:15")).await;
    let Verdict::Disabled(head) = explain(&facts, today("12:15")) else { panic!("{facts:?}") };
    assert_eq!((head.revision, head.created_at, facts.followed_by.as_ref().map(|head| head.revision)), (2, today("12:10:30"), Some(3)));
    w.until("12:41:30").await;
    w.publish(vec![], vec![]).await;
    assert_eq!((why(&w, "12:41").await, why(&w, "12:42").await), ("archived", "archived"), "what was due, and what was not");
    assert!(about(&w, today("12:41")).await.recorded.is_some());
}

/// The nearest occurrences, by the evaluator that decides.
pub async fn what_is_no_occurrence_has_neighbours(fixture: &impl Fixture) {
    let w = world(fixture);
    let (cron, zone) = (CronExpr::parse("30 2 * * *").unwrap(), TimeZone::parse("Europe/Berlin").unwrap());
    w.publish(vec![task("a")], vec![TriggerSpec::new(trigger_id("t"), task_id("a"), &cron, &zone)]).await;
    let at = |text: &str| TimestampMs::parse(text).unwrap();
    let asked = at("2026-03-29T00:30:00Z");
    let facts = about(&w, asked).await;
    let Verdict::NotAnOccurrence { before: Some(before), after: Some(after) } = explain(&facts, asked) else { panic!("{facts:?}") };
    assert_eq!((before.at, before.note), (at("2026-03-28T01:30:00Z"), None));
    assert_eq!((after.at, after.note), (at("2026-03-29T01:00:00Z"), Some(runtime_core::cron::Note::Gap)));
    assert_eq!(explain(&about(&w, after.at).await, after.at).code(), "future");
}

/// Other triggers and projects are not spoken of.
pub async fn an_instant_is_its_triggers_own(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![timer(), trigger("u", "a", "* * * * *")]).await;
    let other = ProjectId::new("other").unwrap();
    let elsewhere = runtime_core::ports::definitions::PublishCommand { project_id: other.clone(), ..set(vec![task("a")], vec![timer()]) };
    w.store.publish(&elsewhere).await.unwrap();
    w.cycle().await;
    let pause = PauseCommand { project_id: other, trigger_id: trigger_id("t"), paused: true, missed: Missed::Skip, by: operator() };
    w.store.set_paused(&pause).await.unwrap();
    w.store.set_paused(&PauseCommand { project_id: project(), trigger_id: trigger_id("u"), ..pause }).await.unwrap();
    w.until("12:01:10").await;
    assert_eq!(why(&w, "12:01").await, "due");
    w.admitted().await;
    assert_eq!(why(&w, "12:01").await, "admitted");
}

/// Whatever happens to a trigger, there is an answer to every instant of it.
pub async fn every_instant_of_an_eventful_day_is_explained(fixture: &impl Fixture) {
    let w = world(fixture);
    let mut timers = [timer(), trigger("t", "a", "*/2 * * * *"), TriggerSpec { misfire: Misfire::FireOnce, ..timer() }].into_iter().cycle();
    w.publish(vec![task("a")], timers.by_ref().take(1).collect()).await;
    for n in 0_u64..40 {
        fixture.elapse(MINUTE / 2 * (1 + n % 5)).await;
        match n % 10 {
            1 => drop(w.publish(vec![task("a")], timers.by_ref().take(1).collect()).await),
            3 => set_paused(&w, true, "ada", "why").await,
            5 => set_paused(&w, false, "ada", "why").await,
            7 => drop(w.publish(vec![TaskSpec { enabled: n > 10, ..task("a") }], vec![timer()]).await),
            8 => drop(w.publish(vec![], vec![]).await),
            9 => drop(w.publish(vec![task("a")], vec![timer()]).await),
            _ => drop(w.cycle().await),
        }
    }
    w.cycle().await;
    let end = about(&w, start()).await.observed_at;
    let mut seen = std::collections::BTreeMap::<_, u32>::new();
    let mut at = start().minus_ms(MINUTE / 2);
    while at <= end.plus_ms(2 * MINUTE) {
        let code = explain(&about(&w, at).await, at).code();
        assert_ne!(code, "unrecorded", "{at}");
        *seen.entry(code).or_default() += 1;
        at = at.plus_ms(MINUTE / 2);
    }
    for code in ["admitted", "paused", "superseded", "archived", "task_disabled", "not_an_occurrence", "future", "not_yet_defined"] {
        assert!(seen.contains_key(code), "{code}: {seen:?}");
    }
}
