//! Who may decide about which trigger, and until when.

use runtime_core::{
    definition::{Overlap, TaskSpec, TriggerSpec},
    ids::ProjectId,
    ports::definitions::{Missed, PauseCommand, PublishCommand},
    schedule::{ClaimCommand, ClaimPage, CommitOutcome, ScheduleCommit, Verdict},
};

use super::super::kit::{LEASE_MS, MINUTE, World, assert_unchanged, code, operator, project, set, task, today, trigger, trigger_id, world};
use crate::{Fixture, start};

fn ids(page: &ClaimPage) -> Vec<&str> {
    page.claims.iter().map(|claim| claim.candidate.trigger.id.as_str()).collect()
}

/// `n` triggers that are due every minute, named `<prefix>00` and so on.
fn many(prefix: &str, n: usize) -> Vec<TriggerSpec> {
    (0..n).map(|i| trigger(&format!("{prefix}{i:02}"), "a", "* * * * *")).collect()
}

/// A new trigger has no cursor: it is claimed, found not to be due, and has one then.
pub async fn a_fresh_trigger_is_initialised(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![trigger("t", "a", "* * * * *")]).await;
    let page = w.claim(16).await;
    assert_eq!(ids(&page), ["t"]);
    let candidate = &page.claims[0].candidate;
    assert_eq!((candidate.next_fire_at, candidate.last_scheduled_at, candidate.activated_at), (None, None, start()));
    assert_eq!(w.commit(&page.claims).await, [CommitOutcome::Initialized]);
    assert_eq!(w.row("t").await.next_fire_at, Some(today("12:01")));
    assert_eq!(w.count_runs().await, 0);
}

/// Due is due at the very instant, by the authority's clock, and not a millisecond before.
pub async fn a_trigger_is_claimed_from_the_instant_it_is_due(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "* * * * *")).await;
    let page = w.claim(16).await;
    assert_eq!((ids(&page), page.next_due_ms, page.saturated), (vec![], Some(30_000), false));
    fixture.elapse(29_999).await;
    assert_eq!(w.claim(16).await.next_due_ms, Some(1));
    fixture.elapse(1).await;
    let page = w.claim(16).await;
    assert_eq!((ids(&page), page.observed_at), (vec!["t"], today("12:01")));
}

/// One observation judges and stamps all claims of a page.
pub async fn one_observation_stamps_the_page(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], many("t", 3)).await;
    fixture.elapse(123).await;
    let command = w.claim_command("scheduler-a");
    let page = w.store.claim_due(&command, 16).await.unwrap();
    assert_eq!(page.observed_at, start().plus_ms(123));
    assert_eq!(page.claims.len(), 3);
    for claim in &page.claims {
        assert_eq!((claim.acquired_at, claim.expires_at), (page.observed_at, page.observed_at.plus_ms(LEASE_MS)));
        assert_eq!((&claim.owner_id, claim.token), (&command.owner_id, command.claim_token));
    }
}

/// A claim shows everything that the decision and the admission need, as it is now.
pub async fn a_candidate_shows_current_revisions(fixture: &impl Fixture) {
    let w = world(fixture);
    let spec = trigger("t", "a", "* * * * *");
    w.publish(vec![task("a")], vec![spec.clone()]).await;
    let named = TaskSpec { name: Some("Nightly".into()), priority: 7, ..task("a") };
    w.publish(vec![named.clone()], vec![spec.clone()]).await;
    let claim = w.claim(16).await.claims.remove(0);
    let c = claim.candidate;
    assert_eq!((c.project_id, &c.trigger, c.trigger_revision, c.trigger_digest), (project(), &spec, 1, spec.digest()));
    assert_eq!((c.task_revision, c.task_digest, c.task_name.as_str(), c.priority), (2, named.digest(), "Nightly", 7));
    assert_eq!(c.state_version, w.row("t").await.state_version);
}

pub async fn claims_come_by_due_time_then_project_then_trigger(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![trigger("b", "a", "2 * * * *"), trigger("a", "a", "2 * * * *"), trigger("z", "a", "1 * * * *")]).await;
    let other =
        PublishCommand { project_id: ProjectId::new("another").unwrap(), ..set(vec![task("a")], vec![trigger("c", "a", "2 * * * *")]) };
    w.store.publish(&other).await.unwrap();
    assert_eq!(w.cycle().await.len(), 4);
    w.until("12:03").await;
    let page = w.claim(16).await;
    assert_eq!(ids(&page), ["z", "c", "a", "b"]);
    assert!(page.claims.is_sorted_by_key(|c| (c.candidate.next_fire_at, c.candidate.project_id.clone(), c.candidate.trigger.id.clone())));
}

/// Nobody else gets a claimed trigger until the lease is over, and then under a higher claim version.
pub async fn a_claim_keeps_others_out_until_it_expires(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![trigger("t", "a", "* * * * *")]).await;
    let first = w.claim_as("scheduler-a", 16).await.claims.remove(0);
    assert!(w.claim_as("scheduler-b", 16).await.claims.is_empty());
    fixture.elapse(LEASE_MS - 1).await;
    assert!(w.claim_as("scheduler-b", 16).await.claims.is_empty());
    fixture.elapse(1).await;
    let second = w.claim_as("scheduler-b", 16).await.claims.remove(0);
    assert!(second.claim_version > first.claim_version);
    assert_eq!(second.owner_id.as_str(), "scheduler-b");
}

/// Needs shared claims: what one handle holds, another does not get.
pub async fn two_handles_never_hold_the_same_trigger(fixture: &impl Fixture) {
    let w = world(fixture);
    let second = fixture.second_handle().await;
    w.publish(vec![task("a")], many("t", 40)).await;
    let (a, b) = (w.claim_command("scheduler-a"), w.claim_command("scheduler-b"));
    let (a, b) = tokio::join!(w.store.claim_due(&a, 256), second.claim_due(&b, 256));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(a.claims.len() + b.claims.len(), 40);
    assert!(ids(&a).iter().all(|id| !ids(&b).contains(id)));
}

/// A page is 1 ..= 256 rows, a lease 1 ..= 60 s; nothing is claimed by a command that is refused.
pub async fn claim_pages_and_leases_are_bounded(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], many("t", 2)).await;
    let good = w.claim_command("scheduler-a");
    for page in [0, 257, u32::MAX] {
        assert_eq!(code(w.store.claim_due(&good, page).await), "invalid_input", "{page}");
    }
    for lease_ms in [0, 999, 60_001, u64::MAX] {
        assert_eq!(code(w.store.claim_due(&ClaimCommand { lease_ms, ..good.clone() }, 1).await), "invalid_input", "{lease_ms}");
    }
    assert_eq!(w.store.claim_due(&ClaimCommand { lease_ms: 60_000, ..good.clone() }, 1).await.unwrap().claims.len(), 1);
    assert_eq!(w.store.claim_due(&ClaimCommand { lease_ms: 1_000, ..good }, 256).await.unwrap().claims.len(), 1);
}

/// The same token again is the same page going on.
pub async fn a_page_goes_on_with_the_same_token(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], many("t", 5)).await;
    let command = w.claim_command("scheduler-a");
    let mut seen = Vec::new();
    for (expected, saturated) in [(2, true), (2, true), (1, false), (0, false)] {
        let page = w.store.claim_due(&command, 2).await.unwrap();
        assert_eq!((page.claims.len(), page.saturated), (expected, saturated));
        seen.extend(page.claims);
    }
    assert_eq!(w.commit(&seen).await, vec![CommitOutcome::Initialized; 5]);
}

/// An apply of a great many triggers does not starve those that are due: those without a cursor get a quarter of a page while others are
/// due. What is left out for that reason counts as more to come.
pub async fn rows_without_a_cursor_take_a_quarter_while_others_are_due(fixture: &impl Fixture) {
    let w = world(fixture);
    let due = many("due", 10);
    w.publish(vec![task("a")], due.clone()).await;
    w.cycle().await;
    w.publish(vec![task("a")], [due, many("a", 30)].concat()).await;
    fixture.elapse(MINUTE).await;
    let page = w.claim(16).await;
    assert_eq!(ids(&page)[..10].iter().filter(|id| id.starts_with("due")).count(), 10, "due rows first: {:?}", ids(&page));
    assert_eq!(ids(&page)[10..], ["a00", "a01", "a02", "a03"]);
    assert!(page.saturated);
    w.store.release_claims(&page.claims).await.unwrap();
    let page = w.claim(8).await;
    assert!(ids(&page).iter().all(|id| id.starts_with("due")), "a full page of due rows has no room for others");
}

pub async fn rows_without_a_cursor_fill_the_page_when_nothing_is_due(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], many("a", 20)).await;
    let page = w.claim(16).await;
    assert_eq!((page.claims.len(), page.saturated), (16, true));
    let page = w.claim(16).await;
    assert_eq!((page.claims.len(), page.saturated), (4, false));
}

/// Paused, disabled, archived, set aside, or of a task that is disabled: the scheduler does not see it, nor its cursor.
pub async fn what_rests_is_not_claimed(fixture: &impl Fixture) {
    let w = world(fixture);
    let tasks = || vec![task("a"), task("off")];
    let triggers: Vec<_> = ["aside", "disabled", "gone", "live", "paused"].map(|id| trigger(id, "a", "* * * * *")).into();
    let resting = trigger("resting", "off", "* * * * *");
    w.publish(tasks(), [&triggers[..], std::slice::from_ref(&resting)].concat()).await;
    w.cycle().await;
    fixture.elapse(MINUTE).await;
    let claims = w.claim(16).await.claims;
    let aside = claims.iter().find(|c| c.candidate.trigger.id.as_str() == "aside").unwrap();
    let commit = ScheduleCommit::new(aside.clone(), Verdict::SetAside("unreadable".into())).unwrap();
    w.store.commit(vec![commit]).await.unwrap();
    w.store.release_claims(&claims).await.unwrap();
    pause(&w, "paused").await;
    let mut changed = vec![triggers[0].clone(), TriggerSpec { enabled: false, ..triggers[1].clone() }, triggers[3].clone()];
    changed.extend([triggers[4].clone(), resting]);
    w.publish(vec![task("a"), TaskSpec { enabled: false, ..task("off") }], changed).await;
    let page = w.claim(16).await;
    assert_eq!(ids(&page), ["live"]);
    w.commit(&page.claims).await;
    assert_eq!(w.claim(16).await.next_due_ms, Some(30_000));
    w.publish(tasks(), vec![]).await;
    assert_eq!(w.claim(16).await.next_due_ms, None);
}

async fn pause<F: Fixture>(w: &World<'_, F>, id: &str) {
    let command = PauseCommand { project_id: project(), trigger_id: trigger_id(id), paused: true, missed: Missed::Skip, by: operator() };
    assert!(w.store.set_paused(&command).await.unwrap().changed);
}

/// C22: below the highest committed time nothing is claimed; the page says where the clock and the mark stand.
pub async fn below_the_mark_nothing_is_claimed(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "* * * * *")).await;
    w.until("12:05").await;
    assert_eq!(w.admitted().await.len(), 1);
    w.until("12:06:30").await;
    w.publish(vec![task("a")], vec![trigger("t", "a", "* * * * *"), trigger("new", "a", "* * * * *")]).await;
    w.until("12:06:20").await;
    let page = w.claim(16).await;
    assert_eq!((ids(&page), page.observed_at, page.clock_mark), (vec![], today("12:06:20"), Some(today("12:06:30"))));
    w.until("12:06:30").await;
    assert_eq!(ids(&w.claim(16).await), ["t", "new"]);
}

/// The mark is raised by what is committed, never by looking.
pub async fn looking_does_not_raise_the_mark(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "0 0 1 1 *")).await;
    let before = fixture.dump().await;
    w.until("18:00").await;
    assert_eq!(w.claim(16).await.clock_mark, Some(start()));
    assert_eq!(w.store.commit(vec![]).await.unwrap(), []);
    assert_eq!(w.store.clock_mark().await.unwrap(), Some(start()));
    assert_unchanged!(fixture, before);
}

/// Under the claim, because only its holder can admit: from then on the fact can only change towards finished.
pub async fn an_unfinished_run_is_looked_up_where_the_policy_skips_overlaps(fixture: &impl Fixture) {
    let w = world(fixture);
    let skip = TriggerSpec { overlap: Overlap::Skip, ..trigger("skip", "a", "* * * * *") };
    w.publish(vec![task("a")], vec![trigger("allow", "a", "* * * * *"), skip]).await;
    assert!(w.claim(16).await.claims.iter().all(|claim| claim.unfinished_run.is_none()), "there is none");
    fixture.elapse(MINUTE).await;
    let runs = w.admitted().await;
    fixture.elapse(MINUTE).await;
    let claims = w.claim(16).await.claims;
    let unfinished: Vec<_> = claims.iter().map(|c| (c.candidate.trigger.id.as_str(), c.unfinished_run)).collect();
    assert_eq!(unfinished, [("allow", None), ("skip", Some(runs[1]))]);
}

/// C36: what will not be used is given back and is free at once; what is given back cannot be committed any more.
pub async fn a_released_claim_is_free_at_once_and_worth_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], many("t", 3)).await;
    let before = fixture.dump().await;
    let page = w.claim_as("scheduler-a", 16).await;
    assert_eq!(w.store.release_claims(&page.claims[..2]).await.unwrap(), 2);
    assert_eq!(w.store.release_claims(&page.claims[..2]).await.unwrap(), 0, "once");
    assert_unchanged!(fixture, before);
    let outcomes = w.commit(&page.claims).await;
    assert_eq!(outcomes, [CommitOutcome::Raced, CommitOutcome::Raced, CommitOutcome::Initialized]);
    let again = w.claim_as("scheduler-b", 16).await;
    assert_eq!(ids(&again), ["t00", "t01"]);
    assert_eq!(w.store.release_claims(&page.claims).await.unwrap(), 0, "an old claim releases nobody else's");
    assert_eq!(w.commit(&again.claims).await, [CommitOutcome::Initialized, CommitOutcome::Initialized]);
}

/// An expired claim is not anybody's to give back.
pub async fn an_expired_claim_is_not_released(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], many("t", 1)).await;
    let page = w.claim(16).await;
    fixture.elapse(LEASE_MS).await;
    assert_eq!(w.store.release_claims(&page.claims).await.unwrap(), 0);
}

/// An edit ends a claim: the trigger need not wait for the lease of whoever saw the revision before.
pub async fn an_edit_frees_a_claimed_trigger(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], many("t", 2)).await;
    assert_eq!(w.claim_as("scheduler-a", 16).await.claims.len(), 2);
    assert!(w.claim_as("scheduler-b", 16).await.claims.is_empty());
    w.publish(vec![task("a")], vec![trigger("t00", "a", "*/5 * * * *"), many("t", 2).remove(1)]).await;
    let page = w.claim_as("scheduler-b", 16).await;
    assert_eq!(ids(&page), ["t00"]);
    assert_eq!(w.commit(&page.claims).await, [CommitOutcome::Initialized]);
}
