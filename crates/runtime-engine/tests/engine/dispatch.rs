//! From a queued Run to its result.

use runtime_core::{
    TimestampMs,
    definition::TaskSpec,
    ids::SessionId,
    ports::{
        control::{CancelOutcome, ControlStore},
        dispatch::DispatchStore,
        executor::Command,
    },
    run::{AttemptStatus, Backoff, CancelReason, RetrySpec, RunStatus, Safety},
};
use runtime_engine::EngineEvent;
use store_contract::{Fault, SeededIds};

use crate::{
    executor::{Asked, Does},
    world::{HOUR, World, me, task},
};

fn retried(name: &str, max_attempts: u32) -> TaskSpec {
    let retry = RetrySpec { max_attempts, on_lost: true, safety: Safety::Idempotent, backoff: Backoff { base_ms: 2_000, max_ms: 3_000 } };
    TaskSpec { retry, ..task(name) }
}

#[tokio::test(start_paused = true)]
async fn each_end_is_recorded_as_what_it_is() {
    let world = World::new();
    let cases = [
        ("fine", Does::Exits { ms: 5, code: 0 }, RunStatus::Succeeded, AttemptStatus::Succeeded, None),
        ("bad", Does::Exits { ms: 5, code: 3 }, RunStatus::Failed, AttemptStatus::Failed, Some("exit_code")),
        ("dies", Does::Dies { ms: 5, signal: 11 }, RunStatus::Failed, AttemptStatus::Failed, Some("signal")),
        ("absent", Does::CannotStart, RunStatus::Failed, AttemptStatus::Failed, Some("spawn_failed")),
    ];
    let engine = world.start();
    for (name, does, status, attempt_status, code) in cases {
        world.publish(vec![task(name)], vec![]).await;
        world.executor.script(name, [does]);
        let id = world.start_run(name).await;
        world.until_status(id, status).await;
        let facts = world.facts(id).await;
        assert_eq!((facts.attempts.len(), facts.attempts[0].status), (1, attempt_status), "{name}");
        assert_eq!(facts.attempts[0].error_code.as_deref(), code, "{name}");
        assert_eq!(facts.attempts[0].exit_code, if let Does::Exits { code, .. } = does { Some(code) } else { None }, "{name}");
    }
    engine.stop().await;
}

/// The machine's trouble is not the command's: no attempt is used up, the operator is told once, and work goes on by itself.
#[tokio::test(start_paused = true)]
async fn a_guard_that_cannot_be_started_is_tried_again_until_it_can() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    world.executor.script("a", [Does::NoGuard]);
    let engine = world.start();
    let id = world.start_run("a").await;
    let told = || world.events().iter().filter(|e| matches!(e, EngineEvent::ExecutorTrouble { .. })).count();
    world.until("the trouble is told", || told() == 1).await;
    // Longer than the lease: it is kept alive meanwhile.
    world.pass(90_000).await;
    assert_eq!((told(), world.facts(id).await.run.status), (1, RunStatus::Dispatching));
    world.executor.script("a", [Does::Exits { ms: 5, code: 0 }]);
    world.until_status(id, RunStatus::Succeeded).await;
    assert_eq!(world.facts(id).await.attempts.len(), 1);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_before_its_identity_is_durable() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    let id = world.start_run("a").await;
    world.faulty.script("started", std::iter::repeat_n(Some(Fault::Unavailable), 5));
    let engine = world.start();
    world.until("prepared", || !world.executor.asked().is_empty()).await;
    while world.faulty.fired().len() < 5 {
        assert_eq!(world.executor.started(), 0);
        world.pass(5).await;
    }
    world.until_status(id, RunStatus::Succeeded).await;
    assert_eq!(world.executor.started(), 1);
    engine.stop().await;
}

/// The answer that a start is durable does not come while the lease lasts: the guard is dropped, the attempt is settled as lost, and
/// tried again.
#[tokio::test(start_paused = true)]
async fn a_start_that_cannot_be_recorded_never_runs() {
    let world = World::new();
    world.publish(vec![retried("a", 2)], vec![]).await;
    let id = world.start_run("a").await;
    world.faulty.script("started", [Some(Fault::AnswerLost)]);
    world.faulty.script("started", std::iter::repeat_n(Some(Fault::Busy), 25));
    world.faulty.script("renew", std::iter::repeat_n(Some(Fault::Busy), 40));
    let engine = world.start();
    world.until_status(id, RunStatus::Succeeded).await;
    let attempts = world.facts(id).await.attempts;
    assert_eq!(attempts.iter().map(|attempt| attempt.status).collect::<Vec<_>>(), [AttemptStatus::Lost, AttemptStatus::Succeeded]);
    assert!(world.executor.asked().contains(&Asked::Dropped(attempts[0].id)));
    assert_eq!(world.executor.started(), 1);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_start_starts_it_once() {
    for fault in [Fault::CommitLost, Fault::AnswerLost] {
        let world = World::new();
        world.publish(vec![task("a")], vec![]).await;
        let id = world.start_run("a").await;
        world.faulty.script("started", [Some(fault)]);
        world.faulty.script("finish", [Some(fault)]);
        let engine = world.start();
        world.until_status(id, RunStatus::Succeeded).await;
        world.until("told", || world.saw(|event| matches!(event, EngineEvent::Finished { status: RunStatus::Succeeded, .. }))).await;
        engine.stop().await;
        assert_eq!((world.executor.started(), world.facts(id).await.attempts.len()), (1, 1), "{fault:?}");
        assert!(!world.saw(|event| matches!(event, EngineEvent::LateResult { .. })), "{fault:?}");
    }
}

/// The leases that a lost answer named are found again, not left to run out.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_claim_is_replayed() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    let ids = [world.start_run("a").await, world.start_run("a").await];
    world.faulty.script("claim", [Some(Fault::AnswerLost), Some(Fault::Busy)]);
    let engine = world.start();
    for id in ids {
        world.until_status(id, RunStatus::Succeeded).await;
        assert_eq!(world.facts(id).await.attempts.len(), 1);
    }
    assert!(world.run(ids[0]).await.finished_at.unwrap().since_ms(world.run(ids[0]).await.created_at) < 3_000);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_backoff_until_one_succeeds() {
    let world = World::new();
    world.publish(vec![retried("a", 5)], vec![]).await;
    let bad = Does::Exits { ms: 100, code: 1 };
    world.executor.script("a", [bad, bad, bad, Does::Exits { ms: 100, code: 0 }]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Succeeded).await;
    engine.stop().await;
    let attempts = world.facts(id).await.attempts;
    assert_eq!(attempts.len(), 4);
    for (pair, backoff_ms) in attempts.windows(2).zip([2_000, 3_000, 3_000]) {
        let waited = pair[1].started_at.unwrap().since_ms(pair[0].finished_at.unwrap());
        assert!((backoff_ms..backoff_ms + 1_000).contains(&waited), "{waited} ms instead of {backoff_ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_failure_runs_the_failure_command_once() {
    let world = World::new();
    let argv = vec!["notify".to_owned(), "it failed".to_owned()];
    world.publish(vec![TaskSpec { on_failure: Some(argv.clone()), ..retried("a", 2) }], vec![]).await;
    world.executor.script("a", [Does::Exits { ms: 10, code: 1 }]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until("told", || world.saw(|event| matches!(event, EngineEvent::FailureCommand { ended: Ok(()), .. }))).await;
    world.pass(30_000).await;
    engine.stop().await;
    let jobs = world.executor.jobs();
    let notices: Vec<_> = jobs.iter().filter(|job| job.attempt == 0).collect();
    assert_eq!(notices.len(), 1);
    assert_eq!((&notices[0].command, notices[0].run_id), (&Command::Argv(argv), id));
    assert_eq!(notices[0].env.get("QL3_STATUS").map(String::as_str), Some("failed"));
    assert_eq!(world.facts(id).await.attempts.len(), 2, "it is no attempt");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_ends_the_command_and_is_retried() {
    let world = World::new();
    world.publish(vec![TaskSpec { timeout_ms: Some(90_000), ..retried("a", 2) }], vec![]).await;
    world.executor.script("a", [Does::Defies, Does::Stays]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::TimedOut).await;
    engine.stop().await;
    let facts = world.facts(id).await;
    assert_eq!(facts.attempts.iter().map(|a| a.status).collect::<Vec<_>>(), [AttemptStatus::TimedOut, AttemptStatus::TimedOut]);
    let ran: Vec<_> = facts.attempts.iter().map(|a| a.finished_at.unwrap().since_ms(a.started_at.unwrap())).collect();
    assert!((95_000..95_100).contains(&ran[0]), "ended by KILL after the grace: {ran:?}");
    assert!((90_000..90_100).contains(&ran[1]), "ended by TERM: {ran:?}");
    assert_eq!(facts.attempts[0].error_code.as_deref(), Some("timeout"));
}

/// A suspend counts: the timer does not notice it, the clock does.
#[tokio::test(start_paused = true)]
async fn a_timeout_counts_suspends() {
    let world = World::new();
    world.publish(vec![TaskSpec { timeout_ms: Some(20_000), ..task("a") }], vec![]).await;
    world.executor.script("a", [Does::Stays]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Running).await;
    let before = tokio::time::Instant::now();
    world.clock.suspend(19_000);
    world.until_status(id, RunStatus::TimedOut).await;
    assert!(before.elapsed().as_millis() < 2_100, "{:?}", before.elapsed());
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_running_command_is_cancelled_within_a_poll() {
    let world = World::new();
    world.publish(vec![retried("a", 3)], vec![]).await;
    world.executor.script("a", [Does::Stays]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Running).await;
    let outcome = world.store.cancel(id, CancelReason::User, &me()).await.unwrap();
    assert_eq!(outcome, CancelOutcome::Requested);
    let before = tokio::time::Instant::now();
    world.until_status(id, RunStatus::Cancelled).await;
    assert!(before.elapsed().as_millis() <= 1_100, "{:?}", before.elapsed());
    engine.stop().await;
    let attempts = world.facts(id).await.attempts;
    assert_eq!((attempts.len(), attempts[0].status), (1, AttemptStatus::Cancelled), "a cancelled Run is not retried");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_while_it_starts_never_runs() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    world.executor.script("a", [Does::Slow { prepare_ms: 5_000 }]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Dispatching).await;
    world.store.cancel(id, CancelReason::User, &me()).await.unwrap();
    world.until_status(id, RunStatus::Cancelled).await;
    world.pass(5_000).await;
    assert_eq!(world.executor.started(), 0);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn slots_and_task_limits_are_kept_and_everything_runs() {
    let mut world = World::new();
    world.options.max_concurrent = 3;
    world.publish(vec![TaskSpec { max_concurrent: Some(1), ..task("single") }, task("many")], vec![]).await;
    for name in ["single", "many"] {
        world.executor.script(name, [Does::Exits { ms: 700, code: 0 }]);
    }
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(world.start_run("single").await);
    }
    for _ in 0..8 {
        ids.push(world.start_run("many").await);
    }
    let engine = world.start();
    for id in &ids {
        world.until_status(*id, RunStatus::Succeeded).await;
    }
    engine.stop().await;
    assert_eq!(world.executor.most_at_once(), 3);
    let mut single: Vec<_> = Vec::new();
    for id in &ids[..4] {
        let attempt = world.facts(*id).await.attempts.remove(0);
        single.push((attempt.started_at.unwrap(), attempt.finished_at.unwrap()));
    }
    single.sort_unstable();
    assert!(single.windows(2).all(|pair| pair[0].1 <= pair[1].0), "one at a time: {single:?}");
}

#[tokio::test(start_paused = true)]
async fn higher_priority_runs_first() {
    let mut world = World::new();
    world.options.max_concurrent = 1;
    world.publish(vec![task("low"), TaskSpec { priority: 10, ..task("high") }], vec![]).await;
    let low = world.start_run("low").await;
    let high = world.start_run("high").await;
    let engine = world.start();
    world.until_status(low, RunStatus::Succeeded).await;
    engine.stop().await;
    let order: Vec<_> = world.executor.jobs().iter().map(|job| job.run_id).collect();
    assert_eq!(order, [high, low]);
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_as_long_as_the_command_runs() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    world.executor.script("a", [Does::Exits { ms: 600_000, code: 0 }]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Running).await;
    // A renewal or two may fail.
    world.faulty.script("renew", [None, Some(Fault::Busy), Some(Fault::AnswerLost), None, Some(Fault::Unavailable)]);
    world.until_status(id, RunStatus::Succeeded).await;
    engine.stop().await;
    assert_eq!(world.facts(id).await.attempts.len(), 1);
    let extended = world.executor.asked().iter().filter(|asked| matches!(asked, Asked::Extended(_))).count();
    assert!(extended >= 600 / 10 - 1, "{extended}");
}

/// The store cannot be reached any more: the command must be gone before anybody else may start it.
#[tokio::test(start_paused = true)]
async fn without_renewals_a_command_is_stopped_before_its_lease_ends() {
    let world = World::new();
    world.publish(vec![retried("a", 2)], vec![]).await;
    world.executor.script("a", [Does::Outstays, Does::Exits { ms: 10, code: 0 }]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Running).await;
    let attempt = world.facts(id).await.attempts.remove(0);
    let lease_end = attempt.lease_expires_at.unwrap();
    world.faulty.script("renew", std::iter::repeat_n(Some(Fault::Unavailable), 60));
    world.until("stopped", || world.executor.asked().contains(&Asked::Ended(attempt.id))).await;
    let now = runtime_core::AuthorityClock::now(world.clock.as_ref());
    assert!(now < lease_end, "ended at {now}, the lease at {lease_end}");
    world.until_status(id, RunStatus::Succeeded).await;
    engine.stop().await;
    let attempts = world.facts(id).await.attempts;
    assert_eq!(attempts.iter().map(|a| a.status).collect::<Vec<_>>(), [AttemptStatus::Lost, AttemptStatus::Succeeded]);
}

/// The answer to a claim may be old: what is left of its lease counts from when it was first asked for.
#[tokio::test(start_paused = true)]
async fn a_replayed_claim_is_used_no_longer_than_its_first_lease() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    let id = world.start_run("a").await;
    world.faulty.script("claim", std::iter::once(Some(Fault::AnswerLost)).chain(std::iter::repeat_n(Some(Fault::Busy), 6)));
    let engine = world.start();
    world.until_status(id, RunStatus::Succeeded).await;
    engine.stop().await;
    let attempt = world.facts(id).await.attempts.remove(0);
    let late_ms = attempt.started_at.unwrap().since_ms(world.run(id).await.queued_at.unwrap());
    assert!(late_ms > 1_000, "the answer was late: {late_ms} ms");
    let granted = world.executor.asked().into_iter().find_map(|asked| match asked {
        Asked::Go { lease_ms, .. } => Some(lease_ms),
        _ => None,
    });
    let lease_ms = world.options.lease_ms;
    assert!(granted.unwrap() + late_ms <= lease_ms - lease_ms / 20 - lease_ms / 4, "{granted:?} ms after {late_ms} ms");
}

/// Another program took over the worker: the next renewal says so.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_its_command_at_once() {
    let world = World::new();
    world.publish(vec![retried("a", 2)], vec![]).await;
    world.executor.script("a", [Does::Defies]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Running).await;
    let attempt = world.facts(id).await.attempts[0].id;
    let session = SessionId::generate(&SeededIds::new(9), TimestampMs::EPOCH);
    world.store.open_session(&world.options.worker_id, session, 1).await.unwrap();
    world.pass(10_100).await;
    assert!(world.executor.asked().contains(&Asked::Stopped { attempt, grace_ms: world.options.kill_grace_ms }));
    world.pass(world.options.kill_grace_ms).await;
    assert_eq!(world.executor.running(), 0);
    assert_eq!(world.run(id).await.status, RunStatus::Running, "what becomes of it is the other's to say");
    engine.stop().await;
}

/// Its guard was killed: what became of the command is not known, so the lease runs out and the policy decides.
#[tokio::test(start_paused = true)]
async fn a_killed_guard_is_a_lost_attempt() {
    let world = World::new();
    world.publish(vec![retried("a", 2), task("b")], vec![]).await;
    world.executor.script("a", [Does::GuardDies { ms: 50 }, Does::Exits { ms: 10, code: 0 }]);
    world.executor.script("b", [Does::GuardDies { ms: 50 }]);
    let (a, b) = (world.start_run("a").await, world.start_run("b").await);
    let engine = world.start();
    world.until_status(a, RunStatus::Succeeded).await;
    world.until_status(b, RunStatus::Failed).await;
    engine.stop().await;
    for (id, attempts) in [(a, 2), (b, 1)] {
        let facts = world.facts(id).await;
        assert_eq!((facts.attempts.len(), facts.attempts[0].status), (attempts, AttemptStatus::Lost));
        assert_eq!(facts.attempts[0].error_code.as_deref(), Some("lease_expired"));
    }
}

/// A guard died and left something behind that cannot be proved gone: the lease is kept until it is.
#[tokio::test(start_paused = true)]
async fn what_a_killed_guard_left_behind_never_overlaps() {
    let world = World::new();
    world.publish(vec![retried("a", 2)], vec![]).await;
    world.executor.script("a", [Does::GuardDies { ms: 50 }, Does::Exits { ms: 10, code: 0 }]);
    let id = world.start_run("a").await;
    world.executor.cannot_prove(id);
    let engine = world.start();
    world.pass(300_000).await;
    assert_eq!(world.run(id).await.status, RunStatus::Running);
    let unproven = |event: &EngineEvent| matches!(event, EngineEvent::Unproven { .. });
    assert_eq!(world.events().iter().filter(|event| unproven(event)).count(), 1, "told once");
    world.executor.can_prove(id);
    world.until_status(id, RunStatus::Succeeded).await;
    engine.stop().await;
}

/// A step of the clock while results come in: they wait, and nothing is stamped with a time that may be wrong.
#[tokio::test(start_paused = true)]
async fn results_wait_for_a_leapt_clock() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    world.executor.script("a", [Does::Exits { ms: 3_000, code: 0 }]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Running).await;
    world.clock.step(2 * HOUR);
    world.pass(8_000).await;
    assert_eq!((world.executor.running(), world.run(id).await.status), (0, RunStatus::Running));
    world.clock.step(-2 * HOUR);
    world.until_status(id, RunStatus::Succeeded).await;
    engine.stop().await;
}

/// A lease would carry the wrong time, and the clock's mark with it.
#[tokio::test(start_paused = true)]
async fn nothing_is_leased_by_a_leapt_clock() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    let engine = world.start();
    world.pass(2_000).await;
    world.clock.step(2 * HOUR);
    world.pass(2_000).await;
    world.clock.step(-2 * HOUR);
    let id = world.start_run("a").await;
    world.clock.step(2 * HOUR);
    world.pass(8_000).await;
    assert_eq!(world.run(id).await.status, RunStatus::Queued);
    world.clock.step(-2 * HOUR);
    world.until_status(id, RunStatus::Succeeded).await;
    engine.stop().await;
}

/// A step that stays is the truth after a while; leases that it ended are not expired before their holders could say that they live.
#[tokio::test(start_paused = true)]
async fn after_a_leap_that_lasts_work_goes_on() {
    let world = World::new();
    world.publish(vec![retried("a", 3)], vec![]).await;
    world.executor.script("a", [Does::Stays, Does::Exits { ms: 10, code: 0 }]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Running).await;
    world.clock.step(2 * HOUR);
    world.until_status(id, RunStatus::Succeeded).await;
    engine.stop().await;
    assert_eq!(world.facts(id).await.attempts[0].status, AttemptStatus::Lost);
}
