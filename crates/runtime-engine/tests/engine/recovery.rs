//! What a new start makes of what an earlier one left behind.

use runtime_core::{
    definition::TaskSpec,
    ids::RunId,
    ports::control::ControlStore,
    run::{AttemptStatus, Backoff, CancelReason, RetrySpec, RunStatus, Safety},
};
use runtime_engine::EngineEvent;

use crate::{
    executor::Does,
    world::{MINUTE, World, me, task},
};

fn retried(name: &str) -> TaskSpec {
    let retry = RetrySpec { max_attempts: 3, on_lost: true, safety: Safety::Idempotent, backoff: Backoff { base_ms: 0, max_ms: 0 } };
    TaskSpec { retry, ..task(name) }
}

/// Killed while the command runs.
async fn killed_while_running(world: &World, task: TaskSpec, first: Does) -> RunId {
    world.executor.script(task.id.as_str(), [first, Does::Exits { ms: 10, code: 0 }]);
    let name = task.id.to_string();
    world.publish(vec![task], vec![]).await;
    let id = world.start_run(&name).await;
    let engine = world.start();
    world.until_status(id, RunStatus::Running).await;
    engine.kill().await;
    id
}

async fn statuses(world: &World, id: RunId) -> Vec<AttemptStatus> {
    world.facts(id).await.attempts.iter().map(|attempt| attempt.status).collect()
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_attempt_is_lost_and_its_policy_decides() {
    let world = World::new();
    let retried = killed_while_running(&world, retried("a"), Does::Stays).await;
    let single = killed_while_running(&world, task("b"), Does::Stays).await;
    let engine = world.start();
    world.until_status(retried, RunStatus::Succeeded).await;
    world.until_status(single, RunStatus::Failed).await;
    engine.stop().await;
    assert_eq!(statuses(&world, retried).await, [AttemptStatus::Lost, AttemptStatus::Succeeded]);
    assert_eq!(statuses(&world, single).await, [AttemptStatus::Lost]);
    assert_eq!(world.facts(single).await.attempts[0].error_code.as_deref(), Some("worker_restarted"));
    let waited =
        world.facts(retried).await.attempts[1].started_at.unwrap().since_ms(world.facts(retried).await.attempts[0].finished_at.unwrap());
    assert!(waited < 100, "the new start does not wait for the lease to run out: {waited}");
}

/// It ended, but its program died before the result was durable. The guard's record has it.
#[tokio::test(start_paused = true)]
async fn a_result_that_the_guard_kept_is_not_lost() {
    for (code, status) in [(0, RunStatus::Succeeded), (4, RunStatus::Failed)] {
        let world = World::new();
        world.publish(vec![task("a")], vec![]).await;
        world.executor.script("a", [Does::Exits { ms: 100, code }]);
        let id = world.start_run("a").await;
        world.faulty.script("finish", std::iter::repeat_n(Some(store_contract::Fault::Unavailable), 1_000));
        let engine = world.start();
        world.until("ended", || world.executor.started() == 1 && world.executor.running() == 0).await;
        world.pass(1_000).await;
        engine.kill().await;
        assert_eq!(world.run(id).await.status, RunStatus::Running);
        let engine = world.start();
        world.until_status(id, status).await;
        engine.stop().await;
        let attempts = world.facts(id).await.attempts;
        assert_eq!((attempts.len(), attempts[0].exit_code), (1, Some(code)));
        assert_eq!(world.executor.started(), 1);
    }
}

/// Killed between the lease and the start: no attempt is used up.
#[tokio::test(start_paused = true)]
async fn what_never_started_waits_again() {
    let world = World::new();
    world.publish(vec![task("a")], vec![]).await;
    world.executor.script("a", [Does::Slow { prepare_ms: 5_000 }]);
    let id = world.start_run("a").await;
    let engine = world.start();
    world.until_status(id, RunStatus::Dispatching).await;
    engine.kill().await;
    let engine = world.start();
    world.until_status(id, RunStatus::Succeeded).await;
    engine.stop().await;
    assert_eq!(statuses(&world, id).await, [AttemptStatus::Succeeded]);
    assert_eq!(world.executor.started(), 1);
}

/// The order to start was never given, although the start was durable: lost, because nobody can know.
#[tokio::test(start_paused = true)]
async fn without_a_record_a_durable_start_is_lost() {
    let world = World::new();
    let id = killed_while_running(&world, retried("a"), Does::Stays).await;
    world.executor.forget_records();
    let engine = world.start();
    world.until_status(id, RunStatus::Succeeded).await;
    engine.stop().await;
    assert_eq!(statuses(&world, id).await, [AttemptStatus::Lost, AttemptStatus::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_proved_is_told_kept_and_never_overlaps() {
    let world = World::new();
    let stuck = killed_while_running(&world, retried("a"), Does::Stays).await;
    world.executor.cannot_prove(stuck);
    let other = killed_while_running(&world, retried("b"), Does::Stays).await;
    let engine = world.start();
    world.until_status(other, RunStatus::Succeeded).await;
    world.pass(10 * MINUTE).await;
    assert_eq!(statuses(&world, stuck).await, [AttemptStatus::Running], "not even when its lease has run out");
    let told = world.events().into_iter().filter(|event| matches!(event, EngineEvent::Unproven { run_id, .. } if *run_id == stuck)).count();
    assert_eq!(told, 2, "once a start: this one, and the one for the other Run");
    world.executor.can_prove(stuck);
    world.until_status(stuck, RunStatus::Succeeded).await;
    engine.stop().await;
    assert_eq!(statuses(&world, stuck).await, [AttemptStatus::Lost, AttemptStatus::Succeeded]);
}

/// Cancelled while no program ran, or right before it was killed.
#[tokio::test(start_paused = true)]
async fn a_cancellation_survives_the_program() {
    let world = World::new();
    let id = killed_while_running(&world, retried("a"), Does::Stays).await;
    world.store.cancel(id, CancelReason::User, &me()).await.unwrap();
    let engine = world.start();
    world.until_status(id, RunStatus::Cancelled).await;
    engine.stop().await;
    assert_eq!(world.executor.started(), 1, "a cancelled Run is not tried again");
}

#[tokio::test(start_paused = true)]
async fn recovery_comes_before_admission() {
    let world = World::new();
    killed_while_running(&world, retried("a"), Does::Stays).await;
    world.schedule("b", "* * * * *").await;
    let engine = world.start();
    world.pass(2 * MINUTE).await;
    engine.stop().await;
    let events = world.events();
    let last = |wanted: fn(&EngineEvent) -> bool| events.iter().rposition(wanted).unwrap();
    let first = |wanted: fn(&EngineEvent) -> bool| events.iter().position(wanted).unwrap();
    let ready = last(|event| matches!(event, EngineEvent::Ready { settled: 1, unproven: 0 }));
    assert!(last(|event| matches!(event, EngineEvent::Settled { .. })) < ready);
    assert!(ready < first(|event| matches!(event, EngineEvent::Admitted { .. })));
}

/// Faults at every step of recovery, at many moments.
#[tokio::test(start_paused = true)]
async fn kills_at_any_moment_under_faults_lose_and_double_nothing() {
    for seed in 0..12 {
        let world = World::new();
        let mut task = retried("a");
        task.retry.max_attempts = 16;
        world.publish(vec![task], vec![crate::world::trigger("a", "a", "* * * * * *")]).await;
        world.executor.script("a", [Does::Exits { ms: 700, code: 0 }]);
        world.faulty.seed(seed, 12);
        for round in 0..8 {
            let engine = world.start();
            world.pass(1_000 + (seed * 7 + round * 13) % 97 * 37).await;
            engine.kill().await;
        }
        world.faulty.heal();
        let engine = world.start();
        world.pass(120_000).await;
        engine.stop().await;
        let mut seen = std::collections::BTreeSet::new();
        for run in world.runs().await {
            assert!(seen.insert(run.scheduled_for.unwrap()), "seed {seed}: {:?} twice", run.scheduled_for);
            let facts = world.facts(run.id).await;
            // The last ones may still have run at the end.
            assert!(
                run.status.is_final() || run.scheduled_for.unwrap().since_ms(facts.run.created_at) < 5_000,
                "seed {seed}: {}",
                run.status
            );
            let last = facts.attempts.last().unwrap();
            assert!(facts.attempts.iter().all(|a| a.id == last.id || a.status == AttemptStatus::Lost), "seed {seed}");
        }
        assert!(seen.len() > 100, "seed {seed}: {}", seen.len());
    }
}
