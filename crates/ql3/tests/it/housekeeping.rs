//! `prune`, `up --keep` and `backup`.

use std::{fs, os::unix::fs::PermissionsExt, process::Stdio};

use serde_json::{Value, json};

use crate::Place;

const JOBS: &str = "[[task]]\nid = \"tick\"\nshell = \"echo tock\"\n[[task.trigger]]\ncron = \"* * * * * *\"\ntimezone = \"UTC\"\n";

/// Some Runs that have ended, with output.
fn ran() -> Place {
    let place = Place::with_jobs(JOBS);
    place.ok(&["up", "jobs.toml", "--for", "3s"]);
    // One may have been admitted as `up` ended.
    for run in runs(&place).iter().filter(|run| run["status"] == "queued") {
        place.ok(&["run", "cancel", run["id"].as_str().unwrap()]);
    }
    place
}

fn runs(place: &Place) -> Vec<Value> {
    place.json(&["runs", "--limit", "500"])["runs"].as_array().unwrap().clone()
}

fn log_dirs(place: &Place) -> usize {
    fs::read_dir(place.path("ql3.db.logs")).map_or(0, Iterator::count)
}

/// Runs go with their output; what was admitted is not admitted again; `verify` finds nothing; the act is recorded.
#[test]
fn what_is_old_goes_with_its_output_and_nothing_runs_again() {
    let place = ran();
    let before = runs(&place);
    let started = before.iter().filter(|run| run["startedAt"].is_string()).count();
    assert!(started > 0 && before.iter().all(|run| run["finishedAt"].is_string()), "{before:?}");
    assert_eq!(log_dirs(&place), started);
    let last = place.json(&["triggers"])["triggers"][0]["lastScheduledFor"].clone();

    let dry = place.json(&["prune", "--older-than", "0s", "--dry-run"]);
    assert_eq!((&dry["dryRun"], dry["runs"].as_u64()), (&json!(true), Some(before.len() as u64)), "{dry}");
    assert_eq!((runs(&place).len(), log_dirs(&place)), (before.len(), started));
    assert_eq!(place.json(&["prune", "--older-than", "1h"])["runs"], 0, "nothing is that old");

    let orphan = place.path("ql3.db.logs/0199c5f4-7b1e-7c3d-8f00-0123456789ab");
    fs::create_dir(&orphan).unwrap();
    fs::create_dir(place.path("ql3.db.logs/mine")).unwrap();
    let pruned = place.json(&["prune", "--older-than", "0s", "--reason", "disk full"]);
    assert_eq!(pruned["runs"].as_u64(), Some(before.len() as u64), "{pruned}");
    assert_eq!((pruned["logDirs"].as_u64(), &pruned["logDirsLeft"]), (Some(started as u64 + 1), &json!(0)), "with one left behind earlier");
    assert!(!orphan.exists() && place.path("ql3.db.logs/mine").exists(), "what is not a Run's stays");
    assert!(runs(&place).is_empty());

    let act = place.json(&["acts", "--limit", "1"])["acts"][0].clone();
    assert_eq!((&act["act"], &act["operator"], &act["reason"]), (&json!("prune"), &json!("tester"), &json!("disk full")));
    assert_eq!(place.json(&["verify"])["ok"], true);
    assert_eq!(place.json(&["triggers"])["triggers"][0]["lastScheduledFor"], last, "the proof stays");
    assert_eq!(place.json(&["why", "tick", last.as_str().unwrap()])["verdict"], "pruned");
    place.ok(&["up", "--for", "2s"]);
    let after = runs(&place);
    let last = last.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(after.iter().all(|run| run["scheduledFor"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap() > last), "{after:?}");
    assert_eq!(place.json(&["verify"])["ok"], true);
}

/// A process of its own prunes while another schedules, again and again, and not one occurrence is lost or doubled.
#[test]
fn pruning_beside_a_running_scheduler_disturbs_nothing() {
    let place = Place::with_jobs(JOBS);
    let up = place.command(&["up", "jobs.toml", "--for", "5s", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut pruned = 0;
    while pruned < 2 {
        // Until `up` has made its database there is nothing to prune.
        let answer = place.run(&["prune", "--older-than", "1s", "--json"]);
        if answer.code == 0 {
            pruned += serde_json::from_str::<Value>(&answer.stdout).unwrap()["runs"].as_u64().unwrap();
        }
    }
    let lines = String::from_utf8(up.wait_with_output().unwrap().stdout).unwrap();
    let admitted: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).filter(|event: &Value| event["event"] == "admitted").collect();
    let mut instants: Vec<_> = admitted.iter().map(|event| event["scheduledFor"].as_str().unwrap().to_owned()).collect();
    let count = instants.len();
    instants.dedup();
    assert_eq!(instants.len(), count, "each once");
    assert_eq!(runs(&place).len() as u64 + pruned, count as u64);
    assert_eq!(place.json(&["verify"])["ok"], true);
}

#[test]
fn up_prunes_by_itself_where_that_is_asked_for() {
    let place = ran();
    let first: Vec<Value> = runs(&place).iter().map(|run| run["id"].clone()).collect();
    // Longer than the drain of the first `up` took, so that all of its Runs are old.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let lines = place.ok(&["up", "--for", "4s", "--keep", "1s", "--json"]).stdout;
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pruned = events.iter().find(|event| event["event"] == "pruned").unwrap_or_else(|| panic!("{lines}"));
    assert!(pruned["runs"].as_u64() >= Some(first.len() as u64), "{pruned}");
    let left = runs(&place);
    assert!(!left.is_empty() && left.iter().all(|run| !first.contains(&run["id"])), "the new ones stay: {left:?}");
    let acts = place.json(&["acts"])["acts"].clone();
    let act = acts.as_array().unwrap().iter().find(|act| act["act"] == "prune").unwrap();
    assert_eq!(act["reason"], "up --keep 1s");
    assert_eq!(place.json(&["verify"])["ok"], true);
}

/// The copy is taken while `up` writes; it opens, verifies, and goes on where the original stood.
#[test]
fn a_backup_of_a_database_in_use_is_a_database() {
    let place = Place::with_jobs(JOBS);
    let mut up = place.command(&["up", "jobs.toml", "--for", "5m"]).stdout(Stdio::null()).spawn().unwrap();
    let answer = loop {
        let answer = place.run(&["backup", "copy.db", "--json"]);
        match answer.code {
            0 => break serde_json::from_str::<Value>(&answer.stdout).unwrap(),
            code => assert!(code == 4 || code == 5, "{}", answer.stderr),
        }
    };
    assert!(up.try_wait().unwrap().is_none(), "it still runs");
    let copy = fs::metadata(place.path("copy.db")).unwrap();
    assert_eq!((answer["bytes"].as_u64(), copy.permissions().mode() & 0o777), (Some(copy.len()), 0o600));
    rustix::process::kill_process(rustix::process::Pid::from_child(&up), rustix::process::Signal::TERM).unwrap();
    up.wait().unwrap();
    assert_eq!(place.json(&["verify", "--db", "copy.db"])["ok"], true);

    let again = place.run(&["backup", "copy.db", "--json"]);
    assert_eq!((again.code, again.error()["code"].as_str()), (8, Some("file_exists")), "{}", again.stderr);
    assert!(again.error()["hint"].as_str().unwrap().contains("--force"));
    place.ok(&["backup", "copy.db", "--force"]);
    assert_eq!(place.json(&["runs", "--limit", "500", "--db", "copy.db"])["runs"], json!(runs(&place)));
    assert_eq!(place.run(&["backup", "ql3.db", "--force"]).code, 3, "onto itself");
    place.ok(&["up", "--for", "1s", "--db", "copy.db"]);
    assert_eq!(place.json(&["verify", "--db", "copy.db"])["ok"], true);
}
