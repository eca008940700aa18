//! Reading what happened.

use runtime_core::{
    TimestampMs,
    definition::{DefinitionKey, DefinitionKind, TaskSpec, TriggerSpec},
    digest::Digest,
    ids::{ProjectId, RunId},
    ports::{
        definitions::{Missed, PauseCommand, PublishCommand},
        history::RunFilter,
    },
    run::{CancelReason, RunStatus},
    schedule::{LedgerReason, ScheduleCommit, Verdict},
    verify::verify,
};

use super::kit::{
    LEASE_MS, MINUTE, World, code, failed, operator, project, retried, set, succeeded, task, task_id, today, trigger, trigger_id, world,
};
use crate::{Fixture, start};

fn timer() -> TriggerSpec {
    trigger("t", "a", "* * * * *")
}

async fn listed<F: Fixture>(w: &World<'_, F>, filter: &RunFilter) -> Vec<RunId> {
    w.store.runs(filter, None, 500).await.unwrap().runs.into_iter().map(|item| item.run.id).collect()
}

/// Newest first; the cursor stays where it was while new Runs arrive, so that nothing is shown twice or left out.
pub async fn runs_are_paged_newest_first_while_others_arrive(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let mut started = Vec::new();
    for n in 0..7 {
        started.push(w.start("a").await);
        // Some in the same millisecond: then the id decides.
        fixture.elapse(u64::from(n % 3 == 0)).await;
    }
    let mut expected = started.clone();
    let created = async |id: RunId| w.store.run(id).await.unwrap().unwrap().created_at;
    let mut keyed = Vec::new();
    for id in &expected {
        keyed.push((created(*id).await, *id));
    }
    keyed.sort_unstable();
    expected = keyed.into_iter().rev().map(|(_, id)| id).collect();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = w.store.runs(&RunFilter::default(), after, 3).await.unwrap();
        assert!(page.runs.len() <= 3);
        seen.extend(page.runs.iter().map(|item| item.run.id));
        fixture.elapse(1).await;
        w.start("a").await;
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, expected);
}

/// A page that ends with the last Run has no next one.
pub async fn the_last_page_says_that_it_is_the_last(fixture: &impl Fixture) {
    let w = world(fixture);
    assert_eq!(w.store.runs(&RunFilter::default(), None, 1).await.unwrap().next, None);
    w.publish(vec![task("a")], vec![]).await;
    w.start("a").await;
    w.start("a").await;
    let page = w.store.runs(&RunFilter::default(), None, 2).await.unwrap();
    assert_eq!((page.runs.len(), page.next), (2, None));
    let page = w.store.runs(&RunFilter::default(), None, 1).await.unwrap();
    let page = w.store.runs(&RunFilter::default(), page.next, 1).await.unwrap();
    assert_eq!((page.runs.len(), page.next), (1, None));
}

/// Each filter alone, and all of them together.
pub async fn runs_are_filtered(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a"), task("b")], vec![timer()]).await;
    w.cycle().await;
    let other = ProjectId::new("other").unwrap();
    w.store.publish(&PublishCommand { project_id: other.clone(), ..set(vec![task("b")], vec![]) }).await.unwrap();
    let by_hand = w.start("b").await;
    let cancelled = w.start("b").await;
    w.store.cancel(cancelled, CancelReason::User, &operator()).await.unwrap();
    w.until("12:01").await;
    let by_trigger = w.admitted().await[0];
    let base = RunFilter::default;
    let sorted = |mut ids: Vec<RunId>| {
        ids.sort_unstable();
        ids
    };
    let filtered = async |filter: RunFilter| sorted(listed(&w, &filter).await);
    assert_eq!(filtered(base()).await, sorted(vec![by_hand, cancelled, by_trigger]));
    assert_eq!(filtered(RunFilter { project_id: Some(other), ..base() }).await, []);
    assert_eq!(filtered(RunFilter { task_id: Some(task_id("b")), ..base() }).await, sorted(vec![by_hand, cancelled]));
    assert_eq!(filtered(RunFilter { trigger_id: Some(trigger_id("t")), ..base() }).await, [by_trigger]);
    assert_eq!(filtered(RunFilter { statuses: vec![RunStatus::Cancelled], ..base() }).await, [cancelled]);
    let two = vec![RunStatus::Queued, RunStatus::Cancelled];
    assert_eq!(filtered(RunFilter { statuses: two.clone(), ..base() }).await.len(), 3);
    assert_eq!(filtered(RunFilter { since: Some(today("12:01")), ..base() }).await, [by_trigger], "at or after");
    assert_eq!(filtered(RunFilter { since: Some(today("12:01").plus_ms(1)), ..base() }).await, []);
    let all = RunFilter { project_id: Some(project()), statuses: two, task_id: Some(task_id("b")), trigger_id: None, since: Some(start()) };
    assert_eq!(filtered(all).await, sorted(vec![by_hand, cancelled]));
}

/// Every list is 1 ..= 500.
pub async fn lists_are_bounded(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![timer()]).await;
    let (project, t) = (project(), trigger_id("t"));
    for limit in [0, 501, u32::MAX] {
        assert_eq!(code(w.store.runs(&RunFilter::default(), None, limit).await), "invalid_input");
        assert_eq!(code(w.store.tasks(&project, None, limit).await), "invalid_input");
        assert_eq!(code(w.store.triggers(&project, None, limit).await), "invalid_input");
        assert_eq!(code(w.store.ledger(&project, &t, start(), limit).await), "invalid_input");
        assert_eq!(code(w.store.run_ids(None, limit).await), "invalid_input");
        assert_eq!(code(w.store.all_triggers(None, limit).await), "invalid_input");
        assert_eq!(code(w.store.occurrences(&project, &t, start(), start(), limit).await), "invalid_input");
    }
    assert!(w.store.runs(&RunFilter::default(), None, 500).await.is_ok());
}

pub async fn attempts_are_counted_and_listed(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(retried(task("a"), 3)).await;
    w.store.finish(&lease.fence, &failed()).await.unwrap();
    fixture.elapse(1_000).await;
    w.dispatch(&lease.fence.session, 1).await;
    let page = w.store.runs(&RunFilter::default(), None, 10).await.unwrap();
    assert_eq!(page.runs.iter().map(|item| item.attempts).collect::<Vec<_>>(), [2]);
    let attempts = w.store.attempts(lease.run.id).await.unwrap();
    assert_eq!(attempts.iter().map(|a| a.attempt).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(w.store.attempts(RunId::generate(&w.ids, start())).await.unwrap(), []);
}

/// Live ones only, by id, with how the newest Run stands.
pub async fn tasks_and_triggers_are_listed_with_their_newest_run(fixture: &impl Fixture) {
    let w = world(fixture);
    let triggers = || vec![timer(), trigger("u", "b", "0 0 1 1 *")];
    w.publish(vec![task("a"), task("b"), task("c")], [triggers(), vec![trigger("v", "c", "* * * * *")]].concat()).await;
    w.publish(vec![task("a"), task("b")], triggers()).await;
    w.cycle().await;
    w.until("12:01").await;
    let first = w.admitted().await[0];
    w.store.cancel(first, CancelReason::User, &operator()).await.unwrap();
    let item = w.item("t").await;
    assert_eq!((item.last_run, item.task_live, item.schedulable()), (Some((first, RunStatus::Cancelled)), true, true));
    fixture.elapse(MINUTE).await;
    let second = w.admitted().await[0];
    let by_hand = {
        fixture.elapse(1).await;
        w.start("a").await
    };

    let tasks = w.store.tasks(&project(), None, 500).await.unwrap();
    let seen: Vec<_> = tasks.iter().map(|item| (item.head.spec.id.as_str(), item.last_run)).collect();
    assert_eq!(seen, [("a", Some((by_hand, RunStatus::Queued))), ("b", None)]);
    let triggers = w.store.triggers(&project(), None, 500).await.unwrap();
    let seen: Vec<_> = triggers.iter().map(|item| (item.head.spec.id.as_str(), item.last_run)).collect();
    assert_eq!(seen, [("t", Some((second, RunStatus::Queued))), ("u", None)]);
    assert_eq!(triggers[0].schedule, w.row("t").await);

    let after = w.store.tasks(&project(), Some(&task_id("a")), 500).await.unwrap();
    assert_eq!(after.iter().map(|item| item.head.spec.id.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(w.store.triggers(&project(), None, 1).await.unwrap(), triggers[..1]);
    assert_eq!(w.store.triggers(&project(), Some(&trigger_id("t")), 1).await.unwrap(), triggers[1..]);
    assert_eq!(w.store.triggers(&ProjectId::new("other").unwrap(), None, 1).await.unwrap(), []);
}

/// One trigger, archived or not; and why the scheduler does not look at it.
pub async fn a_trigger_is_found_also_when_it_is_archived(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![timer()]).await;
    w.publish(vec![TaskSpec { enabled: false, ..task("a") }], vec![timer()]).await;
    let item = w.item("t").await;
    assert_eq!((item.task_live, item.schedulable(), item.head.archived), (false, false, false));
    w.publish(vec![], vec![]).await;
    let item = w.item("t").await;
    assert_eq!((item.task_live, item.schedulable(), item.head.archived, item.head.revision), (false, false, true, 2));
    assert_eq!(w.store.trigger(&project(), &trigger_id("absent")).await.unwrap(), None);
    assert_eq!(w.store.trigger(&ProjectId::new("other").unwrap(), &trigger_id("t")).await.unwrap(), None);
}

/// What ends at or after an instant, newest first.
pub async fn the_ledger_is_read_newest_first(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "0 * * * *")).await;
    for time in ["13:50", "14:00", "15:50", "16:00", "18:50"] {
        w.until(time).await;
        w.cycle().await;
    }
    let read = async |since: &str, limit| -> Vec<TimestampMs> {
        let entries = w.store.ledger(&project(), &trigger_id("t"), today(since), limit).await.unwrap();
        entries.iter().map(|entry| entry.stretch.to).collect()
    };
    let [first, second, third] = ["13:00", "15:00", "18:00"].map(today);
    assert_eq!(read("00:00", 500).await, [third, second, first]);
    assert_eq!(read("00:00", 2).await, [third, second]);
    assert_eq!(read("15:00", 500).await, [third, second]);
    assert_eq!(read("17:30", 500).await, [third], "a stretch that began before and ends after");
    assert_eq!(read("18:01", 500).await, []);
}

/// One screen: Runs by state, triggers by how they stand, what is due and what comes next.
pub async fn the_overview_counts(fixture: &impl Fixture) {
    let w = world(fixture);
    let all = ["aside", "disabled", "due", "gone", "later", "paused"];
    let cron = |id: &str| if id == "later" { "30 12 * * *" } else { "* * * * *" };
    let triggers =
        |ids: &[&str]| ids.iter().map(|id| TriggerSpec { enabled: *id != "disabled", ..trigger(id, "a", cron(id)) }).collect::<Vec<_>>();
    w.publish(vec![task("a")], triggers(&all)).await;
    w.cycle().await;
    let [first, _] = [w.start("a").await, w.start("a").await];
    w.store.cancel(first, CancelReason::User, &operator()).await.unwrap();
    w.publish(vec![task("a")], triggers(&["aside", "disabled", "due", "later", "paused"])).await;
    let by = operator();
    let pause = PauseCommand { project_id: project(), trigger_id: trigger_id("paused"), paused: true, missed: Missed::Skip, by };
    w.store.set_paused(&pause).await.unwrap();
    w.until("12:01").await;
    let claims = w.claim(16).await.claims;
    let aside = claims.iter().find(|c| c.candidate.trigger.id.as_str() == "aside").unwrap().clone();
    w.store.commit(vec![ScheduleCommit::new(aside, Verdict::SetAside("no".into())).unwrap()]).await.unwrap();
    w.until("12:01:01").await;
    let overview = w.store.overview().await.unwrap();
    assert_eq!((overview.observed_at, overview.clock_mark), (Some(today("12:01:01")), Some(today("12:01"))));
    assert_eq!(overview.runs, [(RunStatus::Queued, 1), (RunStatus::Cancelled, 1)]);
    assert_eq!((overview.triggers, overview.paused, overview.set_aside), (5, 1, 1));
    assert_eq!((overview.due, overview.next_fire_at), (1, Some(today("12:01"))));
}

/// Runs of a trigger by occurrence, both bounds included.
pub async fn occurrences_are_found_by_their_time(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    for _ in 0..5 {
        fixture.elapse(MINUTE).await;
        w.admitted().await;
    }
    w.start("a").await;
    let read = async |from: &str, to: &str, limit| -> Vec<TimestampMs> {
        let runs = w.store.occurrences(&project(), &trigger_id("t"), today(from), today(to), limit).await.unwrap();
        runs.iter().map(|run| run.scheduled_for.unwrap()).collect()
    };
    assert_eq!(read("12:02", "12:04", 500).await, ["12:02", "12:03", "12:04"].map(today));
    assert_eq!(read("12:02", "12:04", 2).await, ["12:02", "12:03"].map(today));
    assert_eq!(read("12:06", "12:30", 500).await, []);
    assert_eq!(read("12:04", "12:02", 500).await, [], "an empty range is empty");
}

/// In order of the id, with no Run twice.
pub async fn run_ids_are_walked_in_order(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let mut started = Vec::new();
    for _ in 0..5 {
        started.push(w.start("a").await);
    }
    started.sort_unstable();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = w.store.run_ids(after, 2).await.unwrap();
        after = page.last().copied();
        if after.is_none() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen, started);
    assert_eq!(w.store.facts(RunId::generate(&w.ids, start())).await.unwrap(), None);
}

/// Every trigger there ever was, of every project, in order.
pub async fn all_triggers_are_walked_in_order(fixture: &impl Fixture) {
    let w = world(fixture);
    for name in ["default", "another"] {
        let whole = |triggers| PublishCommand { project_id: ProjectId::new(name).unwrap(), ..set(vec![task("a")], triggers) };
        w.store.publish(&whole(vec![timer(), trigger("b", "a", "* * * * *")])).await.unwrap();
        w.store.publish(&whole(vec![timer()])).await.unwrap();
    }
    let (mut seen, mut last) = (Vec::new(), None);
    loop {
        let after = last.as_ref().map(|(project, trigger)| (project, trigger));
        let page = w.store.all_triggers(after, 3).await.unwrap();
        let Some(item) = page.last() else { break };
        last = Some((item.head.project_id.clone(), item.head.spec.id.clone()));
        seen.extend(page.into_iter().map(|item| format!("{} {} {}", item.head.project_id, item.head.spec.id, item.head.archived)));
    }
    assert_eq!(seen, ["another b true", "another t false", "default b true", "default t false"]);
}

/// What is stored is the canonical text that the digest was taken over, of every revision, tombstones included.
pub async fn the_text_of_a_revision_fits_its_digest(fixture: &impl Fixture) {
    let w = world(fixture);
    let mut spec = task("a");
    spec.env.insert("NAME".into(), "\u{e4}\u{1f680} \"quoted\" \\ 1e3 1.0".into());
    w.publish(vec![spec.clone()], vec![timer()]).await;
    w.publish(vec![TaskSpec { priority: 1, ..spec.clone() }], vec![timer()]).await;
    w.publish(vec![], vec![]).await;
    let read = async |kind, id: &str, revision| {
        let key = DefinitionKey { kind, id: id.to_owned() };
        w.store.revision_text(&project(), &key, revision).await.unwrap()
    };
    let (text, digest) = read(DefinitionKind::Task, "a", 1).await.unwrap();
    assert_eq!((&text, &digest), (&spec.canonical(), &spec.digest()));
    assert_eq!(TaskSpec::from_canonical(&text).unwrap(), spec);
    for (kind, id, revision) in [
        (DefinitionKind::Task, "a", 2),
        (DefinitionKind::Task, "a", 3),
        (DefinitionKind::Trigger, "t", 1),
        (DefinitionKind::Trigger, "t", 2),
    ] {
        let (text, digest) = read(kind, id, revision).await.unwrap();
        assert_eq!(Digest::of(text.as_bytes()), digest, "{id} {revision}");
    }
    assert_eq!(read(DefinitionKind::Task, "a", 4).await, None);
    assert_eq!(read(DefinitionKind::Trigger, "a", 1).await, None);
}

/// After a day of everything `verify` has nothing to find: one Run an occurrence, a reason for every other, contiguous events.
pub async fn an_eventful_day_verifies(fixture: &impl Fixture) {
    let w = world(fixture);
    let specs = || vec![retried(task("a"), 3), task("b")];
    let timers = |cron: &str| vec![timer(), trigger("u", "b", cron), trigger("h", "b", "0 * * * *")];
    w.publish(specs(), timers("*/2 * * * *")).await;
    w.cycle().await;
    let session = w.session("w").await;
    for n in 0..12 {
        fixture.elapse(MINUTE * (1 + n % 3 * 20)).await;
        w.store.expire(256).await.unwrap();
        w.cycle().await;
        for (i, lease) in w.dispatch(&session, 3).await.leases.into_iter().enumerate() {
            w.started(&lease).await;
            let outcome = if (n + i as u64).is_multiple_of(3) { failed() } else { succeeded() };
            if !(n + i as u64).is_multiple_of(5) {
                w.store.finish(&lease.fence, &outcome).await.unwrap();
            }
        }
        if n % 4 == 3 {
            w.publish(specs(), timers(if n % 8 == 3 { "*/3 * * * *" } else { "*/2 * * * *" })).await;
        }
        let pause =
            PauseCommand { project_id: project(), trigger_id: trigger_id("t"), paused: n % 4 == 1, missed: Missed::One, by: operator() };
        w.store.set_paused(&pause).await.unwrap();
        if let Some(id) = w.store.run_ids(None, 500).await.unwrap().last() {
            w.store.cancel(*id, CancelReason::User, &operator()).await.unwrap();
        }
    }
    fixture.elapse(LEASE_MS).await;
    w.cycle().await;
    let found = verify(&*w.store).await.unwrap();
    assert_eq!(found.findings, []);
    assert!(found.runs > 12 && found.events > found.runs && found.triggers == 3, "{found:?}");
    assert!(w.ledger("t").await.iter().any(|(reason, ..)| *reason == LedgerReason::Paused), "it was eventful");
}
