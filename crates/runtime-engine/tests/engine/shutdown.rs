//! Stopping: within its limits, and never worse than a kill.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use runtime_core::{
    StoreError,
    definition::TaskSpec,
    ids::RunId,
    run::{AttemptStatus, Backoff, RetrySpec, RunStatus, Safety},
};
use runtime_engine::EngineEvent;
use store_contract::Fault;
use tokio::time::Instant;

use crate::{
    executor::{Asked, Does},
    hooked::Hooked,
    world::{MINUTE, World, task},
};

fn retried(name: &str) -> TaskSpec {
    let retry = RetrySpec { max_attempts: 3, on_lost: true, safety: Safety::Idempotent, backoff: Backoff { base_ms: 0, max_ms: 0 } };
    TaskSpec { retry, ..task(name) }
}

async fn running(world: &World, does: Does) -> (RunId, crate::world::RunningEngine) {
    world.publish(vec![retried("a")], vec![]).await;
    world.executor.script("a", [does, Does::Exits { ms: 10, code: 0 }]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Running).await;
    (id, engine)
}

#[tokio::test(start_paused = true)]
async fn a_command_that_ends_within_the_limit_finishes() {
    let world = World::new();
    let (id, engine) = running(&world, Does::Exits { ms: 8_000, code: 0 }).await;
    engine.handle.stop();
    let late = world.start_run("a").await;
    engine.ended().await.unwrap();
    assert_eq!(world.run(id).await.status, RunStatus::Succeeded);
    assert_eq!(world.run(late).await.status, RunStatus::Queued, "nothing new begins");
    assert!(world.saw(|event| matches!(event, EngineEvent::Draining { running: 1 })));
    assert!(!world.saw(|event| matches!(event, EngineEvent::Stopping { .. })));
}

/// C36 a and b: a stop and a kill end alike.
#[tokio::test(start_paused = true)]
async fn a_stop_leaves_what_a_kill_leaves() {
    let mut ends = Vec::new();
    for kill in [false, true] {
        let world = World::new();
        let (id, engine) = running(&world, Does::Defies).await;
        let began = Instant::now();
        if kill {
            engine.kill().await;
        } else {
            engine.stop().await;
            assert!(began.elapsed().as_millis() <= 15_100, "drain and grace: {:?}", began.elapsed());
            assert!(world.saw(|event| matches!(event, EngineEvent::Left { .. })));
        }
        assert_eq!(world.executor.running(), 0, "nothing outlives the program");
        assert_eq!(world.run(id).await.status, RunStatus::Running);
        let engine = world.start();
        world.until_status(id, RunStatus::Succeeded).await;
        engine.stop().await;
        let facts = world.facts(id).await;
        let attempts: Vec<_> = facts.attempts.iter().map(|a| (a.attempt, a.status, a.error_code.clone())).collect();
        let events: Vec<_> = facts.events.iter().map(|event| event.kind).collect();
        ends.push((attempts, events));
    }
    assert_eq!(ends[0], ends[1]);
    assert_eq!(ends[0].0[0].1, AttemptStatus::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_does_not_wait() {
    let world = World::new();
    let (_, engine) = running(&world, Does::Stays).await;
    let began = Instant::now();
    engine.handle.stop();
    engine.handle.stop();
    world.pass(500).await;
    engine.handle.stop_now();
    engine.handle.stop();
    engine.ended().await.unwrap();
    assert!(began.elapsed().as_millis() < 700, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_not_started_is_given_back() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    world.executor.script("a", [Does::Slow { prepare_ms: 3_000 }]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Dispatching).await;
    engine.stop().await;
    assert_eq!(world.run(id).await.status, RunStatus::Queued);
    let facts = world.facts(id).await;
    assert_eq!((facts.attempts.len(), facts.attempts[0].status), (1, AttemptStatus::Claimed));
    assert!(matches!(world.executor.asked()[..], [Asked::Prepared(_), Asked::Dropped(_)]));
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_bounded_whatever_the_store_does() {
    let world = World::new();
    world.schedule("b", "* * * * * *").await;
    let (_, engine) = running(&world, Does::Stays).await;
    for operation in ["claim_due", "commit", "renew", "finish", "close_session", "release_claims"] {
        world.faulty.script(operation, std::iter::repeat_n(Some(Fault::Hangs), 100));
    }
    world.pass(3_000).await;
    let began = Instant::now();
    engine.stop().await;
    assert!(began.elapsed().as_millis() <= 10_000 + 5_000 + 5_000 + 5_000 + 100, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_closes_ends_the_engine_with_its_error() {
    let world = World::new();
    world.schedule("a", "* * * * *").await;
    let closed = Arc::new(AtomicBool::new(false));
    let is_closed = Arc::clone(&closed);
    let schedules =
        Hooked::new(world.ports().schedules, move |_| if is_closed.load(Ordering::Relaxed) { Err(StoreError::Closed) } else { Ok(()) });
    let ports = runtime_engine::Ports { schedules, ..world.ports() };
    let engine = runtime_engine::Engine::new(ports, world.options.clone()).unwrap();
    let running = tokio::spawn(engine.run());
    world.pass(MINUTE).await;
    closed.store(true, Ordering::Relaxed);
    assert_eq!(running.await.unwrap(), Err(StoreError::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_store_cannot_be_reached_at_the_start_ends() {
    for operation in ["clock_mark", "refresh_zone_data", "open_session", "earlier_leases"] {
        let world = World::new();
        world.faulty.script(operation, std::iter::repeat_n(Some(Fault::Unavailable), 100_000));
        let engine = world.start();
        world.pass(60_000).await;
        assert!(!world.saw(|event| matches!(event, EngineEvent::Admitted { .. })));
        engine.stop().await;
    }
}

/// It may be durable: given back unstarted, a recorded start would be a lost attempt.
#[tokio::test(start_paused = true)]
async fn a_start_whose_answer_was_lost_is_carried_through_a_stop() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    let faults = [Fault::AnswerLost, Fault::Busy, Fault::Busy, Fault::Busy];
    world.faulty.script("started", faults.map(Some));
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Running).await;
    assert_eq!(world.executor.started(), 0, "the answer is still under way");
    engine.stop().await;
    assert_eq!(world.run(id).await.status, RunStatus::Succeeded);
    assert_eq!(world.executor.started(), 1);
}

/// Whoever gets the lease next may start at once.
#[tokio::test(start_paused = true)]
async fn a_guard_is_gone_before_its_lease_is_given_back() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    world.faulty.script("started", std::iter::repeat_n(Some(Fault::Busy), 1_000));
    world.faulty.script("release", [Some(Fault::Hangs)]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Dispatching).await;
    engine.handle.stop();
    world.until_status(id, RunStatus::Queued).await;
    assert!(matches!(world.executor.asked()[..], [Asked::Prepared(_), Asked::Dropped(_)]), "{:?}", world.executor.asked());
    engine.stop().await;
}
