//! Removing history: what goes, what stays, and what is never admitted again.

use runtime_core::{
    TimestampMs,
    definition::{Misfire, TriggerSpec},
    ids::RunId,
    ports::{
        definitions::Operator,
        history::RunCursor,
        retention::{PruneCommand, PrunedLedger, PrunedRuns},
    },
    run::{CancelReason, RunStatus},
    schedule::CommitOutcome,
    verify::verify,
    why::{Verdict, explain},
};

use super::kit::{
    MINUTE, World, assert_unchanged, code, failed, operator, project, retried, succeeded, task, today, trigger, trigger_id, world,
};
use crate::{Fixture, start};

fn timer() -> TriggerSpec {
    trigger("t", "a", "* * * * *")
}

/// What ended before today's `time`, by nobody, in the largest pages.
fn before(time: &str) -> PruneCommand {
    PruneCommand { before: today(time), page: 500, dry_run: false, by: None }
}

fn rehearsed(command: &PruneCommand) -> PruneCommand {
    PruneCommand { dry_run: true, ..command.clone() }
}

/// Every page, one after the other; the Runs in the order in which they went.
async fn prune<F: Fixture>(w: &World<'_, F>, command: &PruneCommand) -> Vec<RunId> {
    let (mut gone, mut after): (_, Option<RunCursor>) = (Vec::new(), None);
    loop {
        let PrunedRuns { runs, next } = w.store.prune_runs(command, after).await.unwrap();
        gone.extend(runs);
        match next {
            Some(next) => after = Some(next),
            None => return gone,
        }
    }
}

/// A Run that was admitted by hand and has ended.
async fn ended<F: Fixture>(w: &World<'_, F>) -> RunId {
    let id = w.start("a").await;
    w.store.cancel(id, CancelReason::User, &operator()).await.unwrap();
    id
}

/// With attempts, events, policy and leases; whatever else is stored stays as it was.
pub async fn a_finished_run_goes_whole(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(retried(task("a"), 2)).await;
    w.store.finish(&lease.fence, &failed()).await.unwrap();
    fixture.elapse(1_000).await;
    let second = w.dispatch(&lease.fence.session, 1).await.leases.remove(0);
    w.started(&second).await;
    w.store.finish(&second.fence, &succeeded()).await.unwrap();
    fixture.elapse(MINUTE).await;
    assert_eq!(w.store.facts(lease.run.id).await.unwrap().unwrap().attempts.len(), 2);
    assert_eq!(prune(&w, &before("12:31")).await, [lease.run.id]);
    assert_eq!(w.store.facts(lease.run.id).await.unwrap(), None);
    assert_eq!(w.store.attempts(lease.run.id).await.unwrap(), []);
    assert_eq!(w.store.attempt(second.attempt.id).await.unwrap(), None);
    assert_eq!(w.store.retry_policy(lease.run.id).await.unwrap(), None);
    assert_eq!(w.store.events(lease.run.id, 0, 500).await.unwrap(), []);
    assert_eq!(prune(&w, &before("12:31")).await, []);
    assert_eq!(verify(&*w.store).await.unwrap().findings, []);
    let next = w.start("a").await;
    assert_eq!(w.dispatch(&lease.fence.session, 1).await.leases[0].run.id, next, "work goes on");
}

/// What has not ended, however old, and what ended at the instant or after it.
pub async fn what_is_unfinished_or_young_stays(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let waiting = w.start("a").await;
    let long = w.start("a").await;
    let old = ended(&w).await;
    w.until("12:05").await;
    w.store.cancel(long, CancelReason::User, &operator()).await.unwrap();
    let young = ended(&w).await;
    w.until("13:00").await;
    assert_eq!(prune(&w, &before("12:05")).await, [old], "an end at the instant is not before it");
    let mut stay = w.store.run_ids(None, 500).await.unwrap();
    stay.sort_unstable();
    let mut expected = [waiting, long, young];
    expected.sort_unstable();
    assert_eq!(stay, expected);
    assert_eq!(w.status(waiting).await, RunStatus::Queued);
    assert_eq!(w.store.pruned_before().await.unwrap(), Some(today("12:05")));
}

/// Nothing ends ahead of the clock, whatever is asked for.
pub async fn an_instant_ahead_counts_as_now(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let now = ended(&w).await;
    assert_eq!(prune(&w, &before("23:00")).await, [], "it has ended now, not before now");
    fixture.elapse(1).await;
    assert_eq!(prune(&w, &before("23:00")).await, [now]);
    assert_eq!(w.store.pruned_before().await.unwrap(), Some(start().plus_ms(1)));
}

/// A Run that another one repeats stays as long as that one.
pub async fn a_run_that_is_referred_to_goes_with_what_refers_to_it(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let first = ended(&w).await;
    fixture.elapse(1).await;
    let second = w.store.retry(first, &operator()).await.unwrap();
    w.store.cancel(second, CancelReason::User, &operator()).await.unwrap();
    fixture.elapse(1).await;
    let third = w.store.retry(second, &operator()).await.unwrap();
    w.until("12:10").await;
    for command in [rehearsed(&before("12:10")), before("12:10")] {
        assert_eq!(prune(&w, &command).await, [], "the last of them waits");
    }
    w.store.cancel(third, CancelReason::User, &operator()).await.unwrap();
    w.until("12:11").await;
    for command in [rehearsed(&before("12:11")), PruneCommand { page: 1, ..before("12:11") }] {
        assert_eq!(prune(&w, &command).await, [third, second, first], "a page of one too");
    }
}

/// The answer of a dry run is what would go, and nothing is written.
pub async fn a_dry_run_of_a_prune_writes_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(TriggerSpec { misfire: Misfire::FireOnce, ..timer() }).await;
    w.until("12:10").await;
    let run_id = w.admitted().await[0];
    w.store.cancel(run_id, CancelReason::User, &operator()).await.unwrap();
    w.until("13:00").await;
    let dump = fixture.dump().await;
    let dry = PruneCommand { by: Some(operator()), ..rehearsed(&before("13:00")) };
    assert_eq!(prune(&w, &dry).await, [run_id]);
    assert_eq!(w.store.prune_ledger(&dry).await.unwrap(), PrunedLedger { entries: 1, saturated: false });
    assert_unchanged!(fixture, dump);
    assert_eq!(prune(&w, &before("13:00")).await, [run_id]);
    assert_eq!(w.store.prune_ledger(&before("13:00")).await.unwrap().entries, 1);
}

/// So that scheduling goes on in between.
pub async fn pruning_goes_by_pages(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(ended(&w).await);
        fixture.elapse(1).await;
    }
    ids.reverse();
    let command = PruneCommand { page: 3, ..before("12:30") };
    let page = w.store.prune_runs(&command, None).await.unwrap();
    assert_eq!((page.runs.as_slice(), page.next.map(|next| next.id)), (&ids[..3], Some(ids[2])));
    let page = w.store.prune_runs(&command, page.next).await.unwrap();
    assert_eq!((page.runs.as_slice(), page.next.map(|next| next.id)), (&ids[3..6], Some(ids[5])));
    let page = w.store.prune_runs(&command, page.next).await.unwrap();
    assert_eq!((page.runs.as_slice(), page.next), (&ids[6..], None));
    for page in [0, 501] {
        let bad = PruneCommand { page, ..command.clone() };
        assert_eq!(code(w.store.prune_runs(&bad, None).await), "invalid_input");
        assert_eq!(code(w.store.prune_ledger(&bad).await), "invalid_input");
    }
}

/// Who removed history, with the removal; looking for nothing is no act.
pub async fn a_prune_is_an_act(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let by = Some(Operator { name: "ada".to_owned(), reason: Some("disk".to_owned()) });
    let command = PruneCommand { by, ..before("12:30") };
    assert_eq!(prune(&w, &command).await, []);
    assert_eq!(w.store.pruned_before().await.unwrap(), None);
    assert_eq!(w.store.acts(1).await.unwrap()[0].act, "apply");
    ended(&w).await;
    w.until("12:30").await;
    prune(&w, &command).await;
    let act = &w.store.acts(1).await.unwrap()[0];
    assert_eq!((act.act.as_str(), act.by.name.as_str(), act.by.reason.as_deref(), act.at), ("prune", "ada", Some("disk"), today("12:30")));
    assert!(act.detail.contains("2026-01-05T12:30:00Z"), "{act:?}");
    let nameless = PruneCommand { by: Some(Operator { name: String::new(), reason: None }), ..command };
    assert_eq!(code(w.store.prune_runs(&nameless, None).await), "invalid_input");
}

/// Stretches go by their last occurrence; one that is still open stays whole.
pub async fn the_ledger_goes_by_age(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "0 * * * *")).await;
    for time in ["13:50", "14:00", "15:50", "16:50"] {
        w.until(time).await;
        w.cycle().await;
    }
    assert_eq!(w.ledger("t").await.len(), 2, "13:00, and 15:00 with 16:00");
    let none = PrunedLedger { entries: 0, saturated: false };
    assert_eq!(w.store.prune_ledger(&before("13:00")).await.unwrap(), none);
    let one = PruneCommand { page: 1, ..before("16:00") };
    assert_eq!(w.store.prune_ledger(&one).await.unwrap(), PrunedLedger { entries: 1, saturated: true });
    assert_eq!(w.store.prune_ledger(&one).await.unwrap(), none);
    assert_eq!(w.ledger("t").await.iter().map(|(_, from, to, _)| (*from, *to)).collect::<Vec<_>>(), [(today("15:00"), today("16:00"))]);
    assert_eq!(verify(&*w.store).await.unwrap().findings, []);
}

/// Everything that can go is gone: what was admitted is not admitted again, not by the scheduler, not by a repeated commit, not by an
/// edit, and `verify` misses nothing.
pub async fn no_occurrence_is_admitted_again_after_all_history_is_gone(fixture: &impl Fixture) {
    let w = world(fixture);
    let timer = || TriggerSpec { misfire: Misfire::FireOnce, ..timer() };
    w.scheduled(timer()).await;
    let mut commits = Vec::new();
    for time in ["12:01", "12:02", "12:07:10", "12:08"] {
        w.until(time).await;
        let page = w.claim(256).await;
        commits.push(page.claims.iter().map(|claim| w.decide(claim)).collect::<Vec<_>>());
        for outcome in w.store.commit(commits.last().cloned().unwrap()).await.unwrap() {
            let CommitOutcome::Admitted { run_id } = outcome else { panic!("{outcome:?}") };
            w.store.cancel(run_id, CancelReason::User, &operator()).await.unwrap();
        }
    }
    w.until("12:08:20").await;
    let row = w.row("t").await;
    assert_eq!(prune(&w, &before("12:08:20")).await.len(), 4);
    assert_eq!(w.store.prune_ledger(&before("12:08:20")).await.unwrap().entries, 1);
    assert_eq!((w.count_runs().await, w.ledger("t").await), (0, vec![]));
    assert_eq!(w.row("t").await, row, "the proof of admission stays");
    assert_eq!(verify(&*w.store).await.unwrap().findings, []);
    for commits in commits {
        assert_eq!(w.store.commit(commits).await.unwrap(), [CommitOutcome::Raced]);
    }
    assert_eq!(w.cycle().await, []);
    // A clock that was set back, and an edit, owe nothing of it either.
    w.until("12:04:30").await;
    assert_eq!(w.cycle().await, []);
    w.until("12:08:30").await;
    w.publish(vec![task("a")], vec![TriggerSpec { name: Some("edited".to_owned()), ..timer() }]).await;
    assert_eq!(w.cycle().await, [CommitOutcome::Initialized]);
    assert_eq!(w.count_runs().await, 0);
    w.until("12:09").await;
    assert_eq!(w.admitted().await.len(), 1, "the next one is admitted");
    assert_eq!(verify(&*w.store).await.unwrap().findings, []);
    let facts = w.store.instant(&project(), &trigger_id("t"), today("12:02")).await.unwrap().unwrap();
    assert_eq!(explain(&facts, today("12:02")), Verdict::Pruned(today("12:08:20")));
}

/// What is younger stays, and has its answer; what is older has none any more, and nothing is missed.
pub async fn a_prune_ends_where_it_was_asked_to(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    let mut last = None;
    for time in ["12:01", "12:02", "12:03"] {
        w.until(time).await;
        let id = w.admitted().await[0];
        w.store.cancel(id, CancelReason::User, &operator()).await.unwrap();
        last = Some(id);
    }
    w.until("12:03:30").await;
    assert_eq!(prune(&w, &before("12:02:30")).await.len(), 2);
    assert_eq!(verify(&*w.store).await.unwrap().findings, []);
    assert_eq!(w.store.run(last.unwrap()).await.unwrap().unwrap().scheduled_for, Some(today("12:03")));
    let why = async |at: TimestampMs| {
        let facts = w.store.instant(&project(), &trigger_id("t"), at).await.unwrap().unwrap();
        explain(&facts, at).code()
    };
    assert_eq!((why(today("12:02")).await, why(today("12:03")).await), ("pruned", "admitted"));
}
