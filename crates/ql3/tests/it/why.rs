//! `why`: an answer to every instant.

use serde_json::{Value, json};

use crate::Place;

/// Defined, and nothing runs: `nightly` at half past two in Berlin, `quarter` there at every quarter, `tick` each second.
fn defined() -> Place {
    let trigger = |id: &str, cron: &str| {
        format!("[[task.trigger]]\nid = \"{id}\"\ncron = \"{cron}\"\ntimezone = \"Europe/Berlin\"\nmisfire = \"fire_once\"\n")
    };
    let triggers = [trigger("nightly", "30 2 * * *"), trigger("quarter", "*/15 * * * *"), trigger("tick", "* * * * * *")].concat();
    let place = Place::with_jobs(&format!("[[task]]\nid = \"job\"\nshell = \"true\"\n{triggers}"));
    place.ok(&["apply", "jobs.toml"]);
    place
}

fn why(place: &Place, trigger: &str, instant: &str) -> Value {
    place.json(&["why", trigger, instant])
}

#[test]
fn a_wall_time_that_does_not_exist_is_explained() {
    let place = defined();
    let asked = why(&place, "nightly", "2037-03-29T02:30");
    assert_eq!((&asked["verdict"], &asked["clock"], &asked["at"]), (&json!("future"), &json!("gap"), &json!("2037-03-29T01:00:00Z")));
    assert_eq!(asked["local"], "2037-03-29T03:00:00+02:00");
    let shown = place.ok(&["why", "nightly", "2037-03-29T02:30"]).stdout;
    assert!(shown.contains("2037-03-29T02:30 does not exist in Europe/Berlin"), "{shown}");
    assert!(shown.contains("2037-03-29 03:00:00+02:00, and what is due in the gap occurs then"), "{shown}");
    let wildcard = place.ok(&["why", "quarter", "2037-03-29T02:30"]).stdout;
    assert!(wildcard.contains("nothing of this trigger is due in the gap"), "{wildcard}");
}

#[test]
fn a_wall_time_that_comes_twice_is_explained() {
    let place = defined();
    let asked = why(&place, "nightly", "2037-10-25T02:30");
    assert_eq!((&asked["verdict"], &asked["clock"], &asked["at"]), (&json!("future"), &json!("overlap"), &json!("2037-10-25T00:30:00Z")));
    let shown = place.ok(&["why", "nightly", "2037-10-25T02:30"]).stdout;
    assert!(shown.contains("a fixed time runs the first time only") && shown.contains("2037-10-25T02:30:00+01:00"), "{shown}");
    assert_eq!(why(&place, "nightly", "2037-10-25T02:30:00+01:00")["verdict"], "not_an_occurrence", "the second time");
    assert!(place.ok(&["why", "quarter", "2037-10-25T02:30"]).stdout.contains("the trigger runs both times"));
}

#[test]
fn what_is_no_occurrence_shows_its_neighbours() {
    let asked = why(&defined(), "nightly", "2037-03-29T03:31");
    assert_eq!((&asked["verdict"], &asked["run"], &asked["recorded"]), (&json!("not_an_occurrence"), &Value::Null, &Value::Null));
    let gap = json!({ "at": "2037-03-29T01:00:00Z", "local": "2037-03-29T03:00:00+02:00", "note": "gap" });
    let after = json!({ "at": "2037-03-30T00:30:00Z", "local": "2037-03-30T02:30:00+02:00", "note": null });
    assert_eq!(asked["nearest"], json!({ "before": gap, "after": after }));
}

#[test]
fn what_waits_says_that_nobody_schedules() {
    let place = defined();
    let activated = place.json(&["triggers"])["triggers"][2]["activatedAt"].as_str().unwrap().to_owned();
    let due = place.json(&["triggers"])["triggers"][2]["nextFireAt"].as_str().unwrap().to_owned();
    let asked = loop {
        // The next second of `tick` comes by itself.
        let asked = why(&place, "tick", &due);
        if asked["verdict"] != "future" {
            break asked;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!((&asked["verdict"], &asked["schedulerRunning"]), (&json!("due"), &json!(false)), "{asked}");
    assert!(asked["summary"].as_str().unwrap().contains("no `ql3 up` runs on this database"), "{asked}");
    assert_eq!(why(&place, "nightly", "2001-01-01T00:00:00Z")["verdict"], "not_yet_defined");
    assert_eq!(asked["revision"]["createdAt"].as_str(), Some(activated.as_str()));
}

/// Admitted, kept back by a pause, collapsed; with the Run, the revisions and whoever paused.
#[test]
fn what_ran_and_what_did_not_have_their_reasons() {
    let place = defined();
    place.ok(&["pause", "tick", "--reason", "disk full"]);
    let paused = place.json(&["triggers"])["triggers"][2]["paused"].clone();
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    let resumed = place.json(&["resume", "tick"]);
    let kept_back = resumed["recorded"]["from"].as_str().unwrap();
    let asked = why(&place, "tick", kept_back);
    assert_eq!(
        (&asked["verdict"], &asked["pause"]["by"], &asked["pause"]["reason"]),
        (&json!("paused"), &json!("tester"), &json!("disk full"))
    );
    assert_eq!(asked["pause"]["at"], paused["at"]);
    assert_eq!(asked["recorded"]["count"], resumed["recorded"]["count"]);
    let shown = place.ok(&["why", "tick", kept_back]).stdout;
    assert!(shown.contains("not run: it was paused") && shown.contains("by tester: disk full"), "{shown}");

    std::thread::sleep(std::time::Duration::from_millis(2_100));
    place.ok(&["up", "--for", "3s"]);
    let runs = place.json(&["runs", "--trigger", "tick", "--limit", "500"]);
    let first = runs["runs"].as_array().unwrap().last().unwrap();
    let asked = why(&place, "tick", first["scheduledFor"].as_str().unwrap());
    assert_eq!((&asked["verdict"], &asked["run"]["id"], &asked["run"]["status"]), (&json!("admitted"), &first["id"], &first["status"]));
    let shown = place.json(&["run", "show", first["id"].as_str().unwrap()]);
    assert_eq!(
        (&asked["run"]["taskDigest"], &asked["run"]["triggerDigest"]),
        (&shown["run"]["taskDigest"], &shown["run"]["triggerDigest"])
    );
    assert!(asked["lateMs"].is_u64(), "{asked}");
    let text = place.ok(&["why", "tick", first["scheduledFor"].as_str().unwrap()]).stdout;
    assert!(text.contains("admitted as run …") && text.contains("revision 1, digest"), "{text}");
    // Nobody scheduled for two seconds after the resume: all but the latest of them were collapsed into the first Run.
    let before = first["scheduledFor"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap() - jiff::SignedDuration::from_secs(1);
    let asked = why(&place, "tick", &before.to_string());
    assert_eq!((&asked["verdict"], &asked["run"]["id"]), (&json!("collapsed"), &first["id"]), "{asked}");
}

#[test]
fn what_was_archived_or_disabled_says_since_when() {
    let place = defined();
    place.write("jobs.toml", "[[task]]\nid = \"job\"\nshell = \"true\"\nenabled = false\n[[task.trigger]]\nid = \"nightly\"\ncron = \"30 2 * * *\"\ntimezone = \"UTC\"\n");
    place.ok(&["apply", "jobs.toml"]);
    let asked = why(&place, "quarter", "2037-03-29T05:15");
    assert_eq!((&asked["verdict"], &asked["revision"]["revision"]), (&json!("archived"), &json!(2)), "{asked}");
    let asked = why(&place, "nightly", "2037-03-29T02:30");
    assert_eq!(
        (&asked["verdict"], &asked["taskRevision"]["revision"], &asked["clock"]),
        (&json!("task_disabled"), &json!(2), &Value::Null)
    );
}

#[test]
fn bad_questions_are_refused() {
    let place = defined();
    assert_eq!(place.run(&["why", "nothing", "2037-03-29T02:30"]).code, 4);
    for bad in ["yesterday", "2037-02-30T00:00", "02:30"] {
        let answer = place.run(&["why", "nightly", bad, "--json"]);
        assert_eq!((answer.code, answer.error()["code"].as_str()), (3, Some("invalid_input")), "{bad}: {}", answer.stderr);
        assert!(answer.error()["hint"].as_str().unwrap().contains("2026-03-29T02:30"), "{bad}");
    }
}
