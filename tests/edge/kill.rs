//! `kill -9` of the scheduler and of guards at random moments under load.

use std::{collections::BTreeMap, thread, time::Duration};

use ql3_tests::{Moments, Place, children, kill, wait_until};
use serde_json::Value;

/// Each attempt takes a lock that ends with its last process. A second attempt of the same Run that finds it taken would say so.
const JOBS: &str = r#"
[defaults]
timezone = "UTC"

[[task]]
id = "quick"
shell = "exec 9>lock.$QL3_RUN_ID; flock -n 9 || echo $QL3_RUN_ID >> overlaps; echo $QL3_RUN_ID $QL3_ATTEMPT >> started; sleep 0.2"
retry = { max_attempts = 16, backoff = "100ms", max_backoff = "100ms", on_lost = true, safety = "idempotent" }
[[task.trigger]]
cron = "* * * * * *"

[[task]]
id = "long"
shell = "exec 9>lock.$QL3_RUN_ID; flock -n 9 || echo $QL3_RUN_ID >> overlaps; echo $QL3_RUN_ID $QL3_ATTEMPT >> started; sleep 1.5 & wait"
retry = { max_attempts = 16, backoff = "0s", max_backoff = "0s", on_lost = true, safety = "deduplicated" }
[[task.trigger]]
cron = "*/2 * * * * *"
misfire = "fire_once"

[[task]]
id = "once"
shell = "echo $QL3_RUN_ID $QL3_ATTEMPT >> started; sleep 0.7"
[[task.trigger]]
cron = "* * * * * *"
overlap = "skip"
"#;

fn unfinished(place: &Place) -> usize {
    let open = ["created", "queued", "dispatching", "running", "retry_wait", "lost"];
    place.runs().iter().filter(|run| open.contains(&run["status"].as_str().unwrap())).count()
}

#[test]
fn killed_at_random_moments_nothing_is_doubled_lost_or_overlapping() {
    let seed = std::env::var("QL3_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(2_026);
    let rounds: u32 = std::env::var("QL3_TEST_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(50);
    println!("seed {seed}, {rounds} rounds");
    let mut moments = Moments::new(seed);
    let place = Place::new();
    place.write("jobs.toml", JOBS);
    place.ok(&["apply", "jobs.toml"]);
    let mut up = None;
    for _ in 0..rounds {
        let running = up.get_or_insert_with(|| place.up(&[]));
        thread::sleep(Duration::from_millis(moments.below(1_500)));
        let guards = children(running.id());
        if !guards.is_empty() && moments.below(3) == 0 {
            let index = usize::try_from(moments.below(guards.len() as u64)).unwrap();
            kill("KILL", guards[index]);
        } else {
            kill("KILL", running.id());
            running.wait().unwrap();
            up = None;
        }
    }
    // Quiet the triggers, and let everything that was admitted come to its end.
    place.write("jobs.toml", &JOBS.replace("cron =", "enabled = false\ncron ="));
    place.ok(&["apply", "jobs.toml"]);
    let mut running = up.unwrap_or_else(|| place.up(&[]));
    wait_until("every Run has ended", || unfinished(&place) == 0);
    kill("TERM", running.id());
    assert!(running.wait().unwrap().success(), "{}", place.read("up.log"));

    let verified = place.json(&["verify"]);
    assert_eq!(verified["ok"], true, "seed {seed}: {verified:#}");
    assert_eq!(place.read("overlaps"), "", "seed {seed}: two attempts of a Run ran at once");
    check_runs(&place, seed);
}

fn check_runs(place: &Place, seed: u64) {
    let runs = place.runs();
    assert!(runs.len() > 20, "seed {seed}: only {} Runs", runs.len());
    let mut started: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for line in place.read("started").lines() {
        let (run, attempt) = line.split_once(' ').unwrap();
        started.entry(run.to_owned()).or_default().push(attempt.parse().unwrap());
    }
    let mut lost = 0;
    for run in &runs {
        let id = run["id"].as_str().unwrap();
        let show = place.json(&["run", "show", id]);
        let attempts = show["attempts"].as_array().unwrap();
        let numbers = started.remove(id).unwrap_or_default();
        let mut unique = numbers.clone();
        unique.dedup();
        assert_eq!(numbers, unique, "seed {seed}: an attempt of {id} started twice");
        for attempt in attempts {
            lost += u32::from(attempt["status"] == "lost");
        }
        check_policy(id, run, attempts, seed);
    }
    assert!(started.is_empty(), "seed {seed}: ran without a Run: {started:?}");
    assert!(lost > 0, "seed {seed}: nothing was interrupted");
}

/// Every interrupted attempt is followed by another, or the Run failed as its policy says.
fn check_policy(id: &str, run: &Value, attempts: &[Value], seed: u64) {
    let last = attempts.last().unwrap();
    for attempt in &attempts[..attempts.len() - 1] {
        assert!(["lost", "failed"].contains(&attempt["status"].as_str().unwrap()), "seed {seed}: {id}: {attempt}");
    }
    if run["taskId"] == "once" {
        assert_eq!(attempts.len(), 1, "seed {seed}: {id} is not safe to repeat");
        let expected = if last["status"] == "lost" { "failed" } else { "succeeded" };
        assert_eq!(run["status"], expected, "seed {seed}: {id}");
    } else {
        let exhausted = run["status"] == "failed" && attempts.len() == 16;
        assert!(run["status"] == "succeeded" || exhausted, "seed {seed}: {id} is {} after {}", run["status"], attempts.len());
    }
}
