//! The command line itself: help, usage errors, exit codes without a database, closed pipes.

use std::{io::Read as _, process::Stdio};

use crate::Place;

/// Every command that needs a database and does not make one.
const LOOKING: [&[&str]; 20] = [
    &["status"],
    &["tasks"],
    &["triggers"],
    &["runs"],
    &["verify"],
    &["next", "--trigger", "t"],
    &["run", "show", "latest"],
    &["run", "events", "latest"],
    &["run", "logs", "latest"],
    &["run", "start", "t"],
    &["run", "cancel", "latest"],
    &["run", "retry", "latest"],
    &["clock", "accept"],
    &["why", "t", "2026-03-29T02:30"],
    &["pause", "t"],
    &["resume", "t"],
    &["acts"],
    &["prune", "--older-than", "1d"],
    &["backup", "copy.db"],
    &["runs", "--json"],
];

#[test]
fn alone_it_helps_to_get_started() {
    let shown = Place::new().ok(&[]).stdout;
    assert!(shown.contains("ql3 up jobs.toml") && shown.contains("[[task]]"), "{shown}");
}

#[test]
fn the_example_of_the_first_help_is_a_jobs_file() {
    let shown = Place::new().ok(&[]).stdout;
    let file: String = shown
        .lines()
        .skip_while(|line| !line.contains("[[task]]"))
        .take_while(|line| !line.trim().is_empty())
        .map(|l| l.trim().to_owned() + "\n")
        .collect();
    let place = Place::with_jobs(&file);
    assert_eq!(place.json(&["check", "jobs.toml"])["triggers"], 1);
}

#[test]
fn usage_errors_are_2_and_json_if_asked_for() {
    let place = Place::new();
    for args in [
        &["nonsense"][..],
        &["next"],
        &["runs", "--limit", "0"],
        &["runs", "--status", "done"],
        &["run"],
        &["up", "--for", "10"],
        &["next", "* * * * *"],
    ] {
        let answer = place.run(args);
        assert_eq!(answer.code, 2, "{args:?}\n{}", answer.stderr);
        assert!(answer.stdout.is_empty(), "{args:?}");
    }
    let answer = place.run(&["runs", "--limit", "0", "--json"]);
    assert_eq!((answer.code, answer.error()["code"].as_str()), (2, Some("usage")));
    assert!(answer.error()["message"].as_str().unwrap().contains("--limit"), "{}", answer.stderr);
    assert!(answer.error()["hint"].is_string());
}

/// Waiting does not help: the code is not that of a database that is busy.
#[test]
fn a_file_that_is_no_database_is_refused() {
    let place = Place::with_jobs("project = \"shop\"\n");
    for args in [&["status"][..], &["up", "--for", "1s"], &["apply", "jobs.toml"]] {
        let answer = place.run(&[args, &["--db", "jobs.toml", "--json"]].concat());
        assert_eq!((answer.code, answer.error()["code"].as_str()), (7, Some("migration_history_invalid")), "{args:?}: {}", answer.stderr);
    }
    assert_eq!(std::fs::read_to_string(place.path("jobs.toml")).unwrap(), "project = \"shop\"\n", "it is left as it was");
}

#[test]
fn help_is_no_error_and_explains_every_command() {
    let place = Place::new();
    assert!(place.ok(&["--help"]).stdout.contains("Exit codes"));
    for command in [
        "up",
        "apply",
        "check",
        "next",
        "status",
        "tasks",
        "triggers",
        "runs",
        "run",
        "why",
        "pause",
        "resume",
        "acts",
        "prune",
        "backup",
        "verify",
        "version",
        "clock",
        "completions",
        "man",
    ] {
        assert!(place.ok(&["help", command]).stdout.contains(command));
    }
    assert!(place.ok(&["help", "run", "logs"]).stdout.contains("ql3 run logs"));
}

#[test]
fn version_names_the_zone_data_and_the_dialect() {
    let json = Place::new().json(&["version"]);
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["dialect"], "ql3/cron@v1");
    assert_eq!(json["zoneData"], runtime_core::cron::zone_data_version());
}

#[test]
fn looking_at_a_missing_database_leaves_nothing_behind() {
    for args in LOOKING {
        let place = Place::new();
        let answer = place.run(args);
        assert_eq!((answer.code, answer.stdout.as_str()), (4, ""), "{args:?}\n{}", answer.stderr);
        assert!(answer.stderr.contains("ql3 up jobs.toml"), "{args:?} says what to do: {}", answer.stderr);
        assert_eq!(std::fs::read_dir(place.dir.path()).unwrap().count(), 0, "{args:?}");
    }
    let answer = Place::new().run(&["runs", "--json", "--db", "elsewhere.db"]);
    assert_eq!(answer.error()["code"], "database_missing");
    assert!(answer.error()["message"].as_str().unwrap().contains("elsewhere.db"));
}

#[test]
fn the_database_can_be_named_by_the_environment() {
    let place = Place::new();
    let output = place.command(&["runs"]).env("QL3_DB", "from-env.db").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("from-env.db"));
    let output = place.command(&["runs", "--db", "from-arg.db"]).env("QL3_DB", "from-env.db").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("from-arg.db"), "the command line wins");
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let place = Place::with_jobs("[[task]]\nid = \"t\"\ncommand = [\"true\"]\n");
    for args in [&["apply", "jobs.toml"][..], &["tasks"], &["version"]] {
        let output = place.command(args).env("QL3_DB", "").env("QL3_PROJECT", "").output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(place.path("ql3.db").exists() && place.json(&["tasks", "--project", "default"])["tasks"][0]["id"] == "t");
    let shown = place.command(&["status", "--db", ""]).output().unwrap();
    assert_eq!(shown.status.code(), Some(2), "on the command line it is a mistake");
}

#[test]
fn a_database_that_is_no_file_is_refused_with_what_it_is() {
    let place = Place::with_jobs("project = \"shop\"\n");
    for (db, kind) in [("/dev/null", "not a regular file"), (".", "a directory")] {
        for args in [&["status"][..], &["up", "--for", "1s"], &["apply", "jobs.toml"]] {
            let answer = place.run(&[args, &["--db", db, "--json"]].concat());
            assert_eq!((answer.code, answer.error()["code"].as_str()), (3, Some("invalid_input")), "{args:?}: {}", answer.stderr);
            let message = answer.error()["message"].as_str().unwrap().to_owned();
            assert!(message.contains(db) && message.contains(kind), "{message}");
        }
    }
    assert_eq!(std::fs::read_dir(place.dir.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let mut child =
        place.command(&["next", "* * * * * *", "--tz", "UTC", "-n", "1000"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(stderr, "");
}

#[test]
fn an_answer_that_could_not_be_written_is_an_error() {
    let place = Place::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = place.command(&["version", "--json"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to standard output"));
}

#[test]
fn piped_output_has_no_colours() {
    let place = Place::new();
    let bad = place.run(&["next", "?", "--tz", "UTC"]);
    assert!(!bad.stderr.contains('\x1b') && !place.ok(&["next", "* * * * *", "--tz", "UTC"]).stdout.contains('\x1b'));
}
