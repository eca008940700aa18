//! The wall clock of the machine is set while the program runs (libfaketime; the monotonic clock stays true).

use std::{path::PathBuf, process::Stdio};

use ql3_tests::{Place, kill, wait_until};
use serde_json::Value;

const JOBS: &str = r#"
[[task]]
id = "tick"
command = ["true"]
[[task.trigger]]
cron = "* * * * * *"
timezone = "UTC"
"#;

fn libfaketime() -> Option<PathBuf> {
    let libs = std::fs::read_dir("/usr/lib").ok()?;
    let mut found = libs.filter_map(|dir| Some(dir.ok()?.path().join("faketime/libfaketimeMT.so.1"))).filter(|lib| lib.exists());
    found.next()
}

fn events(place: &Place, kind: &str) -> Vec<Value> {
    let log = place.read("up.log");
    log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(|event| event["event"] == kind).collect()
}

/// C22b: 0:00, then two hours ahead, then back. The two hours are never believed, and the seconds go on where they were.
#[test]
fn a_step_of_the_wall_clock_admits_nothing_that_is_not_due() {
    let Some(library) = libfaketime() else {
        println!("NOT RUN: libfaketime is missing (apt-get install libfaketime); the same steps are tested in virtual time");
        return;
    };
    let place = Place::new();
    place.write("jobs.toml", JOBS);
    let step = |offset: &str| {
        place.write("clock.new", offset);
        std::fs::rename(place.path("clock.new"), place.path("clock")).unwrap();
    };
    step("+0s");
    let log = std::fs::File::create(place.path("up.log")).unwrap();
    let mut up = place
        .command(&["up", "jobs.toml", "--json"])
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", place.path("clock"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .stdout(Stdio::from(log.try_clone().unwrap()))
        .stderr(Stdio::from(log))
        .spawn()
        .unwrap();
    let admitted = || events(&place, "admitted").len();
    wait_until("occurrences are admitted", || admitted() >= 2);

    step("+7200s");
    wait_until("the leap is noticed", || events(&place, "clock").iter().any(|e| e.to_string().contains("leapt")));
    let before = admitted();
    step("-3600s");
    wait_until("the regression is noticed", || events(&place, "clock").iter().any(|e| e.to_string().contains("regressed")));
    assert_eq!(admitted(), before, "something was admitted by a clock that is not trusted");
    step("+0s");
    wait_until("admission goes on", || admitted() > before + 1);
    kill("TERM", up.id());
    assert!(up.wait().unwrap().success(), "{}", place.read("up.log"));

    assert_eq!(place.json(&["verify"])["ok"], true);
    let due: Vec<String> = place.runs().iter().map(|run| run["scheduledFor"].as_str().unwrap().to_owned()).collect();
    let mut sorted = due.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), due.len(), "an occurrence was admitted twice: {due:?}");
    let status = place.json(&["status"]);
    let now = status["observedAt"].as_str().unwrap_or_else(|| panic!("{status:#}"));
    assert!(sorted.last().unwrap()[..19] <= now[..19], "the future was admitted: {due:?}, it is {now}");
}
