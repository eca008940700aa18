//! What the scheduler admits, and what it does when things go wrong.

use runtime_core::{
    StoreError,
    clock::ClockState,
    definition::{Misfire, TriggerSpec},
    ports::control::ControlStore,
    run::RunStatus,
    schedule::{LedgerReason, ScheduleCommit, Verdict},
};
use runtime_engine::EngineEvent;
use store_contract::Fault;

use crate::{
    hooked::{Hooked, Moment},
    world::{HOUR, MINUTE, NOON, World, minute, task, trigger},
};

async fn outage(misfire: Misfire) -> (World, runtime_engine::scheduler::CycleSummary) {
    let world = World::at(NOON - 50_000);
    world.publish(vec![task("a")], vec![TriggerSpec { misfire, ..trigger("a", "a", "* * * * *") }]).await;
    let (mut scheduler, _) = world.scheduler();
    assert_eq!(scheduler.cycle().await.unwrap().initialized, 1);
    world.pass(50_000).await;
    assert_eq!(scheduler.cycle().await.unwrap().admitted, 1);
    drop(scheduler);
    // Two hours and 20 seconds without a scheduler: 120 occurrences are outstanding.
    world.clock.suspend(120 * MINUTE + 20_000);
    let (mut scheduler, _) = world.scheduler();
    let summary = scheduler.cycle().await.unwrap();
    (world, summary)
}

/// C20. The last of them is 20 seconds old and within the grace, so it is admitted whatever the policy.
#[tokio::test(start_paused = true)]
async fn a_long_outage_admits_one_and_records_the_rest() {
    for misfire in [Misfire::Skip, Misfire::FireOnce] {
        let (world, summary) = outage(misfire).await;
        assert_eq!((summary.claimed, summary.admitted, summary.skipped), (1, 1, 0));
        let runs = world.runs().await;
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[1].scheduled_for, Some(minute(120)));
        let ledger = world.ledger("a").await;
        assert_eq!((ledger[0].stretch.count, ledger[0].stretch.reason), (119, LedgerReason::Collapsed));
        assert_eq!(ledger[0].stretch.run_id, Some(runs[1].id));
        // What is told is what is stored.
        assert!(world.saw(|event| matches!(event, EngineEvent::Recorded { stretch, .. } if *stretch == ledger[0].stretch)));
        assert!(world.saw(|event| matches!(event, EngineEvent::Admitted { lateness_ms: 20_000, .. })));
        assert_eq!(summary.next_due_ms, Some(40_000));
    }
}

#[tokio::test(start_paused = true)]
async fn each_minute_is_one_run_at_its_minute() {
    let world = World::new();
    world.schedule("a", "* * * * *").await;
    let engine = world.start();
    world.pass(10 * MINUTE + 5_000).await;
    engine.stop().await;
    let runs = world.runs().await;
    let scheduled: Vec<_> = runs.iter().map(|run| run.scheduled_for.unwrap()).collect();
    assert_eq!(scheduled, (0..=10).map(minute).collect::<Vec<_>>());
    for run in &runs {
        assert_eq!(run.status, RunStatus::Succeeded);
        assert!(
            run.created_at.since_ms(run.scheduled_for.unwrap()) < 50,
            "{} was admitted at {}",
            run.scheduled_for.unwrap(),
            run.created_at
        );
    }
    assert_eq!(world.executor.started(), 11);
}

/// C22b: 15:00, then 17:00, then 15:01, with jobs that end right after the step. One Run a minute, noticed within one poll.
#[tokio::test(start_paused = true)]
async fn a_passing_leap_of_the_clock_admits_nothing_and_delays_nothing() {
    let world = World::new();
    world.schedule("a", "* * * * *").await;
    let engine = world.start();
    world.executor.script("a", [crate::executor::Does::Exits { ms: 2_000, code: 0 }]);
    world.pass(3 * MINUTE + 1_500).await;
    world.clock.step(2 * HOUR);
    world.pass(1_001).await;
    assert!(world.saw(|event| matches!(event, EngineEvent::Clock(ClockState::Leapt { .. }))), "noticed within one poll");
    world.pass(30_000).await;
    let mark = world.store.clock_mark().await.unwrap().unwrap();
    assert!(mark < minute(4), "nothing was stamped with the wrong time: {mark}");
    world.clock.step(-2 * HOUR);
    world.pass(3 * MINUTE).await;
    engine.stop().await;
    let scheduled: Vec<_> = world.runs().await.iter().map(|run| run.scheduled_for.unwrap()).collect();
    assert_eq!(scheduled, (0..=6).map(minute).collect::<Vec<_>>());
    assert!(world.runs().await.iter().all(|run| run.status == RunStatus::Succeeded));
    assert!(world.ledger("a").await.is_empty());
}

/// The same where the clock is a server's and is only seen on its pages.
#[tokio::test(start_paused = true)]
async fn a_leap_that_only_pages_show_releases_the_claims() {
    let mut world = World::new();
    world.local_authority = false;
    world.schedule("a", "* * * * *").await;
    let (mut scheduler, _) = world.scheduler();
    scheduler.cycle().await.unwrap();
    world.clock.step(2 * HOUR);
    let leapt = scheduler.cycle().await.unwrap();
    assert_eq!((leapt.claimed, leapt.released, leapt.admitted), (1, 1, 0));
    world.clock.step(-2 * HOUR);
    world.pass(MINUTE).await;
    let back = scheduler.cycle().await.unwrap();
    assert_eq!((back.admitted, back.raced), (1, 0), "a released claim is in nobody's way");
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_holds_everything_until_the_mark() {
    let world = World::new();
    world.schedule("a", "* * * * *").await;
    let engine = world.start();
    world.pass(3 * MINUTE + 500).await;
    world.clock.step(-90_000);
    world.pass(1_001).await;
    assert!(world.saw(|event| matches!(event, EngineEvent::Clock(ClockState::Regressed { .. }))));
    world.pass(4 * MINUTE).await;
    engine.stop().await;
    let scheduled: Vec<_> = world.runs().await.iter().map(|run| run.scheduled_for.unwrap()).collect();
    assert_eq!(scheduled, (0..=5).map(minute).collect::<Vec<_>>(), "no occurrence twice, none left out");
}

/// A board without a battery boots in 1970 and is told the time later.
#[tokio::test(start_paused = true)]
async fn nothing_begins_before_the_clock_is_right() {
    let world = World::new();
    world.schedule("a", "* * * * *").await;
    world.clock.step(-NOON);
    let engine = world.start();
    world.pass(5 * MINUTE).await;
    assert!(world.runs().await.is_empty());
    assert!(!world.saw(|event| matches!(event, EngineEvent::Ready { .. })), "not even recovery writes by such a clock");
    world.clock.step(NOON);
    world.pass(MINUTE + 2_000).await;
    assert!(world.saw(|event| matches!(event, EngineEvent::Ready { .. })));
    engine.stop().await;
    assert_eq!(world.runs().await.len(), 2, "the latest missed one within the grace, and the next");
}

#[tokio::test(start_paused = true)]
async fn an_early_wake_admits_nothing() {
    let world = World::at(NOON + 1_000);
    world.schedule("a", "* * * * *").await;
    let engine = world.start();
    for _ in 0..200 {
        world.pass(250).await;
        engine.handle.wake();
    }
    assert!(world.runs().await.is_empty());
    world.pass(MINUTE).await;
    engine.stop().await;
    assert_eq!(world.runs().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_suspend_between_claim_and_commit_drops_the_claims() {
    let world = World::at(NOON - 1_000);
    world.schedule("a", "* * * * *").await;
    let (mut scheduler, _) = world.scheduler();
    scheduler.cycle().await.unwrap();
    world.pass(1_000).await;
    // The store is busy for the first commit; the machine sleeps through the pause before the second.
    world.faulty.script("commit", [Some(Fault::Busy)]);
    let cycle = scheduler.cycle();
    let sleep = async {
        tokio::task::yield_now().await;
        world.clock.suspend(31_000);
    };
    let (cycled, ()) = tokio::join!(cycle, sleep);
    assert!(cycled.is_ok_and(|summary| summary.raced == 1 && summary.admitted == 0));
    let again = scheduler.cycle().await.unwrap();
    assert_eq!(again.admitted, 1, "claimed anew, it is admitted once");
    assert_eq!(world.runs().await.len(), 1);
}

/// The answer came so late that nothing of it holds any more.
#[tokio::test(start_paused = true)]
async fn a_suspend_while_claims_are_taken_drops_them() {
    let world = World::new();
    world.schedule("a", "* * * * *").await;
    let clock = world.clock.clone();
    let asleep = Hooked::new(world.ports().schedules, move |moment| match moment {
        Moment::Claimed => {
            clock.suspend(31_000);
            Ok(())
        }
        Moment::Claim => Ok(()),
        Moment::Commit(_) => panic!("nothing may be committed under claims that are over"),
    });
    let (mut scheduler, _) = world.scheduler_over(asleep);
    let summary = scheduler.cycle().await.unwrap();
    assert_eq!((summary.claimed, summary.released), (1, 1));
}

/// A definition that nobody can read, among others that are due.
#[tokio::test(start_paused = true)]
async fn a_trigger_that_cannot_be_stored_delays_nobody() {
    let world = World::at(NOON - 1_000);
    for name in ["a", "b", "c"] {
        world.schedule(name, "* * * * *").await;
    }
    let (mut scheduler, _) = world.scheduler();
    assert_eq!(scheduler.cycle().await.unwrap().initialized, 3);
    world.pass(1_000).await;
    let of_b =
        |commit: &ScheduleCommit| commit.claim().candidate.trigger.id.as_str() == "b" && matches!(commit.verdict(), Verdict::Decided(..));
    let poisoned = Hooked::new(world.ports().schedules, move |moment| match moment {
        Moment::Commit(commits) if commits.iter().any(of_b) => Err(StoreError::corrupt("trigger_schedules", "next_fire_at_ms", "b")),
        _ => Ok(()),
    });
    let (mut scheduler, _) = world.scheduler_over(poisoned);
    let summary = scheduler.cycle().await.unwrap();
    assert_eq!((summary.claimed, summary.admitted, summary.set_aside), (3, 2, 1));
    assert!(world.saw(|event| matches!(event, EngineEvent::SetAside { trigger_id, .. } if trigger_id.as_str() == "b")));
    world.pass(MINUTE).await;
    let next = scheduler.cycle().await.unwrap();
    assert_eq!((next.claimed, next.admitted), (2, 2), "it is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_saturated_page_doubles_up_to_the_maximum() {
    let world = World::new();
    let tasks = vec![task("a")];
    let triggers = (0..700).map(|n| trigger(&format!("t{n:03}"), "a", "0 0 1 1 *")).collect();
    world.publish(tasks, triggers).await;
    let (mut scheduler, _) = world.scheduler();
    let mut claimed = Vec::new();
    loop {
        let summary = scheduler.cycle().await.unwrap();
        claimed.push(summary.claimed);
        if !summary.saturated {
            break;
        }
    }
    assert_eq!(claimed, [16, 32, 64, 128, 256, 204]);
    let idle = scheduler.cycle().await.unwrap();
    assert_eq!((idle.first_claim_acquired_at, idle.last_claim_acquired_at, idle.claimed), (None, None, 0));
}

/// The answer is lost before, and after, the commit; each is repeated with the same identities.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_commit_makes_one_run_and_is_told_once() {
    for fault in [Fault::CommitLost, Fault::AnswerLost] {
        let world = World::new();
        world.schedule("a", "* * * * *").await;
        let (mut scheduler, _) = world.scheduler();
        world.faulty.script("commit", [Some(fault), Some(fault)]);
        let summary = scheduler.cycle().await.unwrap();
        assert_eq!((summary.admitted, summary.raced), (1, 0), "{fault:?}");
        let runs = world.runs().await;
        assert_eq!(runs.len(), 1);
        let told: Vec<_> = world.events().into_iter().filter(|event| matches!(event, EngineEvent::Admitted { .. })).collect();
        assert!(matches!(&told[..], [EngineEvent::Admitted { run_id, .. }] if *run_id == runs[0].id), "{told:?}");
    }
}

/// Not a single repeat is answered: what was committed is found by its identity.
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_never_answered_is_looked_up() {
    let world = World::new();
    world.schedule("a", "* * * * *").await;
    let (mut scheduler, _) = world.scheduler();
    world.faulty.script("commit", [Some(Fault::AnswerLost)]);
    world.faulty.script("commit", std::iter::repeat_n(Some(Fault::Unavailable), 10_000));
    let summary = scheduler.cycle().await.unwrap();
    assert_eq!((summary.admitted, summary.raced), (1, 0));
    assert_eq!(world.runs().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_errors_loses_and_doubles_nothing() {
    for seed in 0..8 {
        let world = World::new();
        world.schedule("a", "* * * * *").await;
        world.schedule("b", "*/2 * * * *").await;
        world.faulty.seed(seed, 3);
        let engine = world.start();
        world.pass(20 * MINUTE + 30_000).await;
        world.faulty.heal();
        world.pass(MINUTE).await;
        engine.stop().await;
        assert!(world.faulty.fired().len() > 100, "it was a storm");
        let runs = world.runs().await;
        // A page whose answer was lost twice holds its triggers for a minute; then a later occurrence stands for the earlier one.
        for (name, every, expected) in [("a", 1, 22), ("b", 2, 11)] {
            let mut covered: Vec<_> = runs.iter().filter(|run| run.task_id.as_str() == name).filter_map(|run| run.scheduled_for).collect();
            for entry in world.ledger(name).await {
                assert_eq!(entry.stretch.reason, LedgerReason::Collapsed);
                covered.extend((0..u64::from(entry.stretch.count)).map(|n| entry.stretch.from.plus_ms(n * every * MINUTE)));
            }
            covered.sort_unstable();
            assert_eq!(covered, (0..expected).map(|n| minute(n * every)).collect::<Vec<_>>(), "seed {seed}");
        }
        for run in &runs {
            assert_eq!(world.facts(run.id).await.attempts.len(), 1, "no attempt was lost to it: seed {seed}, {:?}", run.status);
            assert_eq!(run.status, RunStatus::Succeeded, "seed {seed}");
        }
        assert_eq!(world.executor.started(), runs.len(), "seed {seed}");
        assert!(world.saw(|event| matches!(event, EngineEvent::StoreTrouble { .. })));
    }
}

/// C36c: asked to stop between claim and admission.
#[tokio::test(start_paused = true)]
async fn claims_that_will_not_be_used_are_given_back() {
    let world = World::new();
    world.schedule("a", "* * * * *").await;
    let (mut scheduler, handle) = world.scheduler();
    handle.stop();
    let summary = scheduler.cycle().await.unwrap();
    assert_eq!((summary.claimed, summary.released, summary.admitted), (1, 1, 0));
    let (mut other, _) = world.scheduler();
    assert_eq!(other.cycle().await.unwrap().admitted, 1, "another scheduler has it at once");
}

/// By a leapt clock they would be in the way for two hours.
#[tokio::test(start_paused = true)]
async fn claims_that_could_not_be_given_back_are_given_back_first() {
    let mut world = World::at(NOON - 1_000);
    world.local_authority = false;
    world.schedule("a", "* * * * *").await;
    let (mut scheduler, _) = world.scheduler();
    assert_eq!(scheduler.cycle().await.unwrap().initialized, 1);
    world.pass(1_000).await;
    world.clock.step(2 * HOUR);
    world.faulty.script("release_claims", [Some(Fault::Busy), Some(Fault::Busy)]);
    for _ in 0..2 {
        assert!(matches!(scheduler.cycle().await, Err(StoreError::Busy { .. })));
    }
    world.clock.step(-2 * HOUR);
    assert_eq!(scheduler.cycle().await.unwrap().admitted, 1);
}
