//! A claim that is not valid any more: whatever happened meanwhile, the commit is `Raced` and writes nothing.

use runtime_core::{
    definition::{DefinitionKey, DefinitionKind, Misfire, TaskSpec, TriggerSpec},
    digest::Digest,
    ids::{ClaimToken, OwnerId},
    ports::definitions::{Missed, PauseCommand},
    schedule::{CommitOutcome, ScheduleClaim, ScheduleCommit, Verdict},
};

use super::super::kit::{LEASE_MS, World, assert_unchanged, operator, project, spoilt, task, today, trigger, trigger_id, world};
use crate::Fixture;

fn timer() -> TriggerSpec {
    trigger("t", "a", "* * * * *")
}

/// Claims what is due, lets something happen, and commits: nobody admits, nothing is written.
async fn raced<F: Fixture>(fixture: &F, meanwhile: impl AsyncFnOnce(&World<'_, F>)) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01").await;
    let claim = w.claim_as("scheduler-a", 16).await.claims.remove(0);
    let commit = w.decide(&claim);
    meanwhile(&w).await;
    let before = fixture.dump().await;
    assert_eq!(w.store.commit(vec![commit]).await.unwrap(), [CommitOutcome::Raced]);
    assert_unchanged!(fixture, before);
    let aside = ScheduleCommit::new(claim, Verdict::SetAside("no".into())).unwrap();
    assert_eq!(w.store.commit(vec![aside]).await.unwrap(), [CommitOutcome::Raced]);
    assert_unchanged!(fixture, before);
}

async fn pause<F: Fixture>(w: &World<'_, F>, paused: bool) {
    let command = PauseCommand { project_id: project(), trigger_id: trigger_id("t"), paused, missed: Missed::Skip, by: operator() };
    w.store.set_paused(&command).await.unwrap();
}

pub async fn an_expired_claim_is_raced(fixture: &impl Fixture) {
    raced(fixture, async |w| w.fixture.elapse(LEASE_MS).await).await;
}

/// The last millisecond of a lease still counts.
pub async fn a_claim_is_good_until_its_expiry(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01").await;
    let claim = w.claim(16).await.claims.remove(0);
    fixture.elapse(LEASE_MS - 1).await;
    assert!(matches!(w.commit(&[claim]).await[..], [CommitOutcome::Admitted { .. }]));
}

pub async fn a_claim_of_an_edited_trigger_is_raced(fixture: &impl Fixture) {
    raced(fixture, async |w| {
        w.publish(vec![task("a")], vec![trigger("t", "a", "*/2 * * * *")]).await;
    })
    .await;
}

/// Also if what is published is what was there: an edit in between is an edit.
pub async fn a_claim_of_a_trigger_edited_there_and_back_is_raced(fixture: &impl Fixture) {
    raced(fixture, async |w| {
        w.publish(vec![task("a")], vec![TriggerSpec { misfire: Misfire::FireOnce, ..timer() }]).await;
        w.publish(vec![task("a")], vec![timer()]).await;
    })
    .await;
}

pub async fn a_claim_of_a_paused_trigger_is_raced(fixture: &impl Fixture) {
    raced(fixture, async |w| pause(w, true).await).await;
}

pub async fn a_claim_from_before_a_pause_is_raced_after_the_resume(fixture: &impl Fixture) {
    raced(fixture, async |w| {
        pause(w, true).await;
        pause(w, false).await;
    })
    .await;
}

pub async fn a_claim_of_an_archived_trigger_is_raced(fixture: &impl Fixture) {
    raced(fixture, async |w| {
        let key = DefinitionKey { kind: DefinitionKind::Trigger, id: "t".into() };
        w.store.archive(&project(), &[key], &operator()).await.unwrap();
    })
    .await;
}

pub async fn a_claim_of_an_archived_task_is_raced(fixture: &impl Fixture) {
    raced(fixture, async |w| {
        w.publish(vec![], vec![]).await;
    })
    .await;
}

pub async fn a_claim_of_a_disabled_trigger_is_raced(fixture: &impl Fixture) {
    raced(fixture, async |w| {
        w.publish(vec![task("a")], vec![TriggerSpec { enabled: false, ..timer() }]).await;
    })
    .await;
}

/// A Run pins the task revision that is current when it is admitted: the claim saw another one.
pub async fn a_claim_of_an_edited_task_is_raced(fixture: &impl Fixture) {
    raced(fixture, async |w| {
        w.publish(vec![TaskSpec { priority: 1, ..task("a") }], vec![timer()]).await;
    })
    .await;
}

pub async fn a_claim_of_a_disabled_task_is_raced(fixture: &impl Fixture) {
    raced(fixture, async |w| {
        w.publish(vec![TaskSpec { enabled: false, ..task("a") }], vec![timer()]).await;
    })
    .await;
}

pub async fn a_claim_that_was_taken_over_is_raced(fixture: &impl Fixture) {
    raced(fixture, async |w| {
        w.fixture.elapse(LEASE_MS).await;
        assert_eq!(w.claim_as("scheduler-b", 16).await.claims.len(), 1);
    })
    .await;
}

pub async fn a_claim_that_was_released_is_raced(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01").await;
    let claim = w.claim(16).await.claims.remove(0);
    w.store.release_claims(std::slice::from_ref(&claim)).await.unwrap();
    let before = fixture.dump().await;
    assert_eq!(w.commit(&[claim]).await, [CommitOutcome::Raced]);
    assert_unchanged!(fixture, before);
}

/// A claim is compared in every field, not only by its token: a decision that was taken from other facts is not committed.
pub async fn a_claim_that_differs_in_any_field_is_raced(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01").await;
    let claim = w.claim(16).await.claims.remove(0);
    let before = fixture.dump().await;
    let other = || ClaimToken::generate(&w.ids, today("12:00"));
    let forgeries = spoilt::<ScheduleClaim>(
        &claim,
        &[
            ("token", &|c| c.token = other()),
            ("owner", &|c| c.owner_id = OwnerId::new("scheduler-b").unwrap()),
            ("claim version", &|c| c.claim_version += 1),
            ("claim version below", &|c| c.claim_version -= 1),
            ("expiry", &|c| c.expires_at = c.expires_at.plus_ms(LEASE_MS)),
            ("state version", &|c| c.candidate.state_version += 1),
            ("state version below", &|c| c.candidate.state_version -= 1),
            ("trigger revision", &|c| c.candidate.trigger_revision += 1),
            ("trigger digest", &|c| c.candidate.trigger_digest = Digest::of(b"other")),
            ("task revision", &|c| c.candidate.task_revision += 1),
            ("task digest", &|c| c.candidate.task_digest = Digest::of(b"other")),
            ("cursor", &|c| c.candidate.next_fire_at = Some(today("12:00"))),
            ("no cursor", &|c| c.candidate.next_fire_at = None),
            ("latest admission", &|c| c.candidate.last_scheduled_at = Some(today("12:00"))),
            ("activation", &|c| c.candidate.activated_at = today("11:00")),
            ("project", &|c| c.candidate.project_id = "other".parse().unwrap()),
        ],
    );
    for (what, forged) in forgeries {
        assert_eq!(w.commit(&[forged]).await, [CommitOutcome::Raced], "{what}");
        assert_unchanged!(fixture, before, what);
    }
    assert!(matches!(w.commit(&[claim]).await[..], [CommitOutcome::Admitted { .. }]), "as it was given out it is good");
}

/// C25: A reads and stalls; B takes over, admits, and leaves the trigger idle as it was. A's plan for the same occurrence is worth nothing.
pub async fn acting_on_an_old_claim_admits_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01").await;
    let slow = w.claim_as("scheduler-a", 16).await.claims.remove(0);
    let plan = w.decide(&slow);
    fixture.elapse(LEASE_MS).await;
    let quick = w.claim_as("scheduler-b", 16).await.claims.remove(0);
    assert!(matches!(w.commit(&[quick]).await[..], [CommitOutcome::Admitted { .. }]));
    let before = fixture.dump().await;
    assert_eq!(w.store.commit(vec![plan]).await.unwrap(), [CommitOutcome::Raced]);
    assert_unchanged!(fixture, before);
    assert_eq!(w.count_runs().await, 1);
}

/// C24: two processes under one name; the token is what tells them apart.
pub async fn an_owner_of_the_same_name_is_another_owner(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01").await;
    let first = w.claim_as("scheduler", 16).await.claims.remove(0);
    fixture.elapse(LEASE_MS).await;
    let second = w.claim_as("scheduler", 16).await.claims.remove(0);
    assert_eq!(w.commit(&[first]).await, [CommitOutcome::Raced]);
    assert!(matches!(w.commit(&[second]).await[..], [CommitOutcome::Admitted { .. }]));
}

/// C23: the clock is read after the lock. A commit that waited beyond its lease is raced.
pub async fn a_commit_that_waited_beyond_its_lease_is_raced(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01").await;
    let claims = w.claim(16).await.claims;
    assert_eq!(w.after_a_wait(LEASE_MS, w.commit(&claims)).await, [CommitOutcome::Raced]);
    assert_eq!(w.row("t").await.last_scheduled_at, None);
}
