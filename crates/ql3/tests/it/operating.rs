//! Commands on a database: what they print, what they never print, and with which exit code they end.

use serde_json::{Value, json};

use crate::Place;

const JOBS: &str = r#"
[[task]]
id = "backup"
command = ["echo", "hello"]
env = { TOKEN = "s3cret", USER_ID = "s3cret-too" }
stdin = "s3cret input"
timeout = "10m"
retry = { max_attempts = 3, backoff = "10s" }
labels = { team = "db" }
[[task.trigger]]
id = "nightly"
cron = "0 3 * * *"
timezone = "Europe/Berlin"
misfire = "fire_once"
[[task]]
id = "idle"
shell = "true"
enabled = false
[[task.trigger]]
cron = "* * * * *"
timezone = "UTC"
"#;

fn applied() -> Place {
    let place = Place::with_jobs(JOBS);
    place.ok(&["apply", "jobs.toml"]);
    place
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn changes(json: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    json["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{} {} {} {}", text(&c["change"]), text(&c["kind"]), text(&c["id"]), c["revision"]))
        .collect()
}

#[test]
fn the_same_file_again_changes_nothing() {
    let place = Place::with_jobs(JOBS);
    let first = place.json(&["apply", "jobs.toml"]);
    assert_eq!(changes(&first), ["created task backup 1", "created task idle 1", "created trigger idle 1", "created trigger nightly 1"]);
    let before = (place.json(&["tasks"]), place.json(&["triggers"]));
    let second = place.json(&["apply", "jobs.toml"]);
    assert_eq!((first["changed"].as_bool(), second["changed"].as_bool()), (Some(true), Some(false)));
    assert!(changes(&second).iter().all(|change| change.starts_with("unchanged")), "{second}");
    assert_eq!((place.json(&["tasks"]), place.json(&["triggers"])), before);
    assert!(place.ok(&["apply", "jobs.toml"]).stdout.contains("project `default`: 4 unchanged"));
}

#[test]
fn a_change_is_shown_field_by_field_and_absence_is_an_end() {
    let place = applied();
    place.write("jobs.toml", &JOBS.split("[[task]]\nid = \"idle\"").next().unwrap().replace("0 3 * * *", "0 4 * * *"));
    let dry = place.json(&["apply", "jobs.toml", "--dry-run"]);
    let expected = ["unchanged task backup 1", "archived task idle 2", "archived trigger idle 2", "updated trigger nightly 2"];
    assert_eq!(changes(&dry), expected);
    assert_eq!(place.json(&["triggers"])["triggers"].as_array().unwrap().len(), 2, "a dry run changes nothing");
    let wet = place.json(&["apply", "jobs.toml"]);
    assert_eq!(changes(&wet), expected);
    let fields = &wet["changes"][3]["fields"];
    assert!(fields.as_array().unwrap().iter().any(|f| f["field"] == "cron" && f["after"] == "\"0 4 * * *\""), "{fields}");
    assert_eq!(place.json(&["triggers"])["triggers"].as_array().unwrap().len(), 1);
}

#[test]
fn a_dry_run_makes_no_database() {
    let place = Place::with_jobs(JOBS);
    let json = place.json(&["apply", "jobs.toml", "--dry-run"]);
    assert_eq!((json["dryRun"].as_bool(), changes(&json).len()), (Some(true), 4));
    assert!(!place.path("ql3.db").exists());
}

#[test]
fn projects_do_not_see_each_other() {
    let place = applied();
    place.write("other.toml", "project = \"other\"\n[[task]]\nid = \"x\"\nshell = \"true\"\n");
    place.ok(&["apply", "other.toml"]);
    assert_eq!(place.json(&["tasks", "--project", "other"])["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(place.json(&["tasks"])["tasks"].as_array().unwrap().len(), 2, "applying another project archives nothing here");
}

#[test]
fn the_json_of_tasks_and_triggers_is_stable() {
    let place = applied();
    let tasks = place.json(&["tasks"]);
    let task = &tasks["tasks"][0];
    assert_eq!(
        keys(task),
        [
            "command",
            "cwd",
            "digest",
            "enabled",
            "env",
            "envFile",
            "id",
            "labels",
            "lastRun",
            "maxConcurrent",
            "name",
            "onFailure",
            "priority",
            "projectId",
            "retry",
            "revision",
            "stdinBytes",
            "timeoutMs"
        ]
    );
    assert_eq!((&task["env"], &task["stdinBytes"], &task["timeoutMs"]), (&json!(["TOKEN", "USER_ID"]), &json!(12), &json!(600_000)));
    assert_eq!(
        task["retry"],
        json!({ "maxAttempts": 3, "backoffMs": 10_000, "maxBackoffMs": 3_600_000, "onLost": false, "safety": "unknown" })
    );
    assert_eq!(task["command"], json!({ "argv": ["echo", "hello"] }));
    let triggers = place.json(&["triggers"]);
    let trigger = &triggers["triggers"][1];
    assert_eq!(
        keys(trigger),
        [
            "activatedAt",
            "attention",
            "cron",
            "dialect",
            "digest",
            "enabled",
            "id",
            "lastRun",
            "lastScheduledFor",
            "misfire",
            "name",
            "nextFireAt",
            "overlap",
            "paused",
            "projectId",
            "revision",
            "setAside",
            "state",
            "taskId",
            "timezone",
            "zoneData"
        ]
    );
    let next = place.json(&["next", "--trigger", "nightly", "-n", "1"]);
    assert_eq!(trigger["nextFireAt"], next["occurrences"][0]["at"], "preview and list are one evaluator");
    assert_eq!((trigger["state"].as_str(), triggers["triggers"][0]["state"].as_str()), (Some("active"), Some("task_disabled")));
    assert_eq!(triggers["triggers"][0]["nextFireAt"], Value::Null, "what rests has no next occurrence");
}

#[test]
fn a_run_goes_through_its_life_in_json() {
    let place = applied();
    let started = place.json(&["run", "start", "backup", "--key", "once"]);
    assert_eq!(started["created"], true);
    let again = place.json(&["run", "start", "backup", "--key", "once"]);
    assert_eq!((&again["runId"], &again["created"]), (&started["runId"], &json!(false)), "one key, one Run");
    let id = started["runId"].as_str().unwrap();

    let page = place.json(&["runs"]);
    assert_eq!(page["next"], Value::Null);
    let run = &page["runs"][0];
    for field in ["id", "projectId", "taskId", "triggerId", "status", "scheduledFor", "createdAt", "finishedAt", "attempts"] {
        assert!(run.get(field).is_some(), "{field}");
    }
    assert_eq!((run["id"].as_str(), run["status"].as_str(), run["attempts"].as_u64()), (Some(id), Some("queued"), Some(1)));
    assert_eq!((&run["triggerId"], &run["scheduledFor"], &run["finishedAt"]), (&Value::Null, &Value::Null, &Value::Null));

    let shown = place.json(&["run", "show", "latest"]);
    assert_eq!((shown["run"]["triggeredBy"].as_str(), shown["attempts"][0]["status"].as_str()), (Some("tester"), Some("claimed")));
    let events = place.json(&["run", "events", id]);
    let types: Vec<_> =
        events["events"].as_array().unwrap().iter().map(|e| (e["sequence"].as_u64().unwrap(), e["type"].as_str().unwrap())).collect();
    assert_eq!(types, [(1, "run.created"), (2, "run.queued")]);

    assert_eq!(place.json(&["run", "cancel", id, "--reason", "test"])["outcome"], "cancelled");
    assert_eq!(place.json(&["run", "cancel", id])["outcome"], "already_cancelled");
    let retried = place.json(&["run", "retry", id]);
    assert_eq!(retried["retryOfRunId"].as_str(), Some(id));
    assert_eq!(place.json(&["runs", "--status", "cancelled"])["runs"].as_array().unwrap().len(), 1);
    let verified = place.json(&["verify"]);
    assert_eq!(
        (&verified["ok"], &verified["checked"]["runs"], &verified["checked"]["triggers"], &verified["findings"]),
        (&json!(true), &json!(2), &json!(2), &json!([]))
    );
}

#[test]
fn pages_of_runs_follow_each_other() {
    let place = applied();
    let ids: Vec<_> = (0..5).map(|_| place.json(&["run", "start", "backup"])["runId"].as_str().unwrap().to_owned()).collect();
    let mut seen = Vec::new();
    let mut page = place.json(&["runs", "--limit", "2"]);
    loop {
        seen.extend(page["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        page = place.json(&["runs", "--limit", "2", "--after", next]);
    }
    seen.sort();
    let mut expected = ids;
    expected.sort();
    assert_eq!(seen, expected);
    assert_eq!(place.run(&["runs", "--after", "nonsense"]).code, 2);
}

#[test]
fn a_run_is_found_by_either_end_of_its_id() {
    let place = applied();
    let id = place.json(&["run", "start", "backup"])["runId"].as_str().unwrap().to_owned();
    for reference in ["latest", &id, &id[..13], &id[id.len() - 8..], &format!("…{}", &id[id.len() - 8..])] {
        assert_eq!(place.json(&["run", "show", reference])["run"]["id"].as_str(), Some(id.as_str()), "{reference}");
    }
    assert_eq!(place.run(&["run", "show", "ffffffff"]).code, 4);
    assert_eq!(place.run(&["run", "show", "0199c5f4-7b1e-7c3d-8f00-0123456789ab"]).code, 4);
    place.ok(&["run", "start", "backup"]);
    let ambiguous = place.run(&["run", "show", &id[..8], "--json"]);
    assert_eq!((ambiguous.code, ambiguous.error()["code"].as_str()), (2, Some("ambiguous_run")), "ids of the same minute begin alike");
}

#[test]
fn refusals_have_their_exit_codes() {
    let place = applied();
    assert_eq!(place.run(&["run", "show", "latest"]).code, 4, "there is none yet");
    assert_eq!(place.run(&["run", "start", "nothing"]).code, 4);
    assert_eq!(place.run(&["next", "--trigger", "nothing"]).code, 4);
    assert_eq!(place.run(&["run", "start", "backup", "--key", "ql3:mine"]).code, 3, "the prefix is the product's");
    let id = place.json(&["run", "start", "backup"])["runId"].as_str().unwrap().to_owned();
    let early = place.run(&["run", "retry", &id, "--json"]);
    assert_eq!((early.code, early.error()["hint"].is_string()), (8, true), "it has not ended: {}", early.stderr);
    assert_eq!(place.run(&["run", "logs", &id, "--attempt", "7"]).code, 4);
    place.write("text.db", "this is not a database, it is a text of some length");
    let foreign = place.run(&["runs", "--db", "text.db", "--json"]);
    assert!(foreign.error()["message"].as_str().unwrap().contains("not a SQLite database"), "{}", foreign.stderr);
}

#[test]
fn env_values_and_stdin_are_printed_by_no_command() {
    let place = applied();
    place.ok(&["run", "start", "backup"]);
    place.write("changed.toml", &JOBS.replace("s3cret-too", "s3cret-changed").replace("s3cret input", "other s3cret input"));
    let commands: [&[&str]; 17] = [
        &["tasks"],
        &["triggers"],
        &["status"],
        &["runs"],
        &["run", "show", "latest"],
        &["run", "events", "latest"],
        &["run", "logs", "latest"],
        &["verify"],
        &["check", "jobs.toml"],
        &["next", "--trigger", "nightly"],
        &["apply", "changed.toml", "--dry-run"],
        &["apply", "changed.toml"],
        &["apply", "jobs.toml"],
        &["version"],
        &["pause", "nightly"],
        &["resume", "nightly"],
        &["acts"],
    ];
    for command in commands {
        for json in [&[][..], &["--json"]] {
            let answer = place.ok(&[command, json].concat());
            assert!(!answer.stdout.contains("s3cret") && !answer.stderr.contains("s3cret"), "{command:?}\n{}", answer.stdout);
        }
    }
}

#[test]
fn tables_are_for_people() {
    let place = applied();
    place.ok(&["run", "start", "backup"]);
    let tasks = place.ok(&["tasks"]).stdout;
    assert!(tasks.starts_with("TASK") && tasks.contains("echo hello") && tasks.contains("idle (disabled)"), "{tasks}");
    let triggers = place.ok(&["triggers"]).stdout;
    assert!(triggers.contains("Europe/Berlin") && triggers.contains("03:00:00+0"), "times are in the trigger's zone\n{triggers}");
    let runs = place.ok(&["runs"]).stdout;
    assert!(runs.contains("queued") && runs.contains('…'), "{runs}");
    let status = place.ok(&["status"]).stdout;
    assert!(status.contains("ql3.db") && status.contains("1 queued"), "{status}");
    assert!(place.ok(&["verify"]).stdout.starts_with("ok: 1 Run, 2 events and 2 triggers checked"));
}

#[test]
fn accepting_the_clock_is_an_act_with_an_answer() {
    let place = applied();
    let json = place.json(&["clock", "accept", "--reason", "test"]);
    assert!(json["mark"].is_string(), "{json}");
}

#[test]
fn a_pause_is_shown_with_who_and_why_and_both_acts_are_listed() {
    let place = applied();
    let paused = place.json(&["pause", "nightly", "--reason", "the disk is full"]);
    assert_eq!(paused, json!({ "triggerId": "nightly", "paused": true, "changed": true, "recorded": null, "runId": null }));
    let triggers = place.json(&["triggers"]);
    let nightly = &triggers["triggers"][1];
    assert_eq!((&nightly["state"], &nightly["nextFireAt"]), (&json!("paused"), &Value::Null), "{nightly}");
    assert_eq!((&nightly["paused"]["by"], &nightly["paused"]["reason"]), (&json!("tester"), &json!("the disk is full")));
    let shown = place.ok(&["triggers"]).stdout;
    assert!(shown.contains("nightly was paused") && shown.contains("by tester: the disk is full"), "{shown}");
    let again = place.ok(&["pause", "nightly", "--reason", "another"]).stdout;
    assert!(again.starts_with("nothing changed: nightly was paused") && again.contains("the disk is full"), "{again}");

    assert_eq!(place.json(&["apply", "jobs.toml"])["changed"], false);
    assert_eq!(place.json(&["triggers"])["triggers"][1]["state"], "paused", "applying a file keeps a pause");

    assert_eq!(place.json(&["resume", "nightly", "--missed", "one", "--reason", "a new disk"])["changed"], true);
    assert_eq!(place.json(&["triggers"])["triggers"][1]["state"], "active");
    assert_eq!(place.ok(&["resume", "nightly"]).stdout, "nothing changed: nightly is not paused\n");
    let acts = place.json(&["acts"]);
    let listed: Vec<_> = acts["acts"].as_array().unwrap().iter().map(|act| (&act["act"], &act["object"], &act["reason"])).collect();
    assert_eq!(
        listed,
        [
            (&json!("resume"), &json!("nightly"), &json!("a new disk")),
            (&json!("pause"), &json!("nightly"), &json!("the disk is full")),
            (&json!("apply"), &json!("default"), &Value::Null),
        ]
    );
    assert_eq!(keys(&acts["acts"][0]), ["act", "at", "detail", "object", "operator", "projectId", "reason"]);
    assert_eq!(place.json(&["acts", "--limit", "1"])["acts"].as_array().unwrap().len(), 1);
    assert!(place.ok(&["acts"]).stdout.contains("the disk is full"));
    assert_eq!(place.run(&["pause", "nothing"]).code, 4);
}

/// Every second an occurrence; the pause keeps some back.
#[test]
fn a_resume_says_what_the_pause_kept_back_and_may_make_up_for_it() {
    let place =
        Place::with_jobs("[[task]]\nid = \"tick\"\nshell = \"true\"\n[[task.trigger]]\ncron = \"* * * * * *\"\ntimezone = \"UTC\"\n");
    place.ok(&["apply", "jobs.toml"]);
    place.ok(&["pause", "tick"]);
    // The clock is the machine's: what the pause kept back is waited for.
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    let resumed = place.json(&["resume", "tick", "--missed", "one"]);
    assert!(resumed["runId"].is_string() && resumed["recorded"]["count"].as_u64() >= Some(1), "{resumed}");
    assert_eq!(resumed["recorded"]["reason"], "paused");
    let run = &place.json(&["run", "show", "latest"])["run"];
    assert_eq!((&run["id"], &run["triggeredBy"]), (&resumed["runId"], &json!("tester")));
    assert_eq!(place.json(&["verify"])["ok"], true);
}

/// What is late takes ten seconds of the machine's clock to be so; a test of the list's own makes it.
#[test]
fn what_needs_a_look_comes_first() {
    let trigger = |id: &str, cron: &str| format!("[[task.trigger]]\nid = \"{id}\"\ncron = \"{cron}\"\ntimezone = \"UTC\"\n");
    let place = Place::with_jobs(&format!(
        "[[task]]\nid = \"good\"\nshell = \"true\"\n{}{}[[task]]\nid = \"bad\"\nshell = \"false\"\n{}",
        trigger("a-never", "0 0 29 2 *"),
        trigger("b-good", "* * * * * *"),
        trigger("c-bad", "* * * * * *")
    ));
    place.ok(&["up", "jobs.toml", "--for", "3s"]);
    let order = |args: &[&str]| -> Vec<(String, Value)> {
        let listed = place.json(args);
        let triggers = listed["triggers"].as_array().unwrap();
        triggers.iter().map(|t| (t["id"].as_str().unwrap().to_owned(), t["attention"].clone())).collect()
    };
    let named = |id: &str, attention: Value| (id.to_owned(), attention);
    let by_id = [named("a-never", json!("never_run")), named("b-good", Value::Null), named("c-bad", json!("failing"))];
    assert_eq!(order(&["triggers"]), by_id);
    assert_eq!(order(&["triggers", "--attention"]), [2, 0, 1].map(|n| by_id[n].clone()));
    let shown = place.ok(&["triggers", "--attention"]).stdout;
    assert!(shown.lines().next().unwrap().ends_with("ATTENTION") && shown.contains("its last Run is failed"), "{shown}");

    let statuses = |args: &[&str]| -> Vec<String> {
        place.json(args)["runs"].as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap().to_owned()).collect()
    };
    let failing = statuses(&["runs", "--failing-first", "--limit", "500"]);
    let bad = failing.iter().filter(|status| *status == "failed").count();
    assert!(bad >= 1 && failing.len() > bad && failing[..bad].iter().all(|status| status == "failed"), "{failing:?}");
    assert_eq!(failing.len(), statuses(&["runs", "--limit", "500"]).len(), "everything is there once");
    assert_eq!(statuses(&["runs", "--failing-first", "--limit", "1"]), ["failed"]);
    assert!(statuses(&["runs", "--failing-first", "--status", "succeeded"]).iter().all(|status| status == "succeeded"));
    assert_eq!(place.run(&["runs", "--failing-first", "--after", "1.x"]).code, 2);
}
