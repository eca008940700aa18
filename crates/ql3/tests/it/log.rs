//! `QL3_LOG`: what the program itself has to say.

use crate::{Answer, Place};

const JOBS: &str = r#"
[[task]]
id = "tick"
shell = "echo $TOKEN"
env = { TOKEN = "sw0rdfish" }
stdin = "sw0rdfish"
[[task.trigger]]
cron = "* * * * * *"
timezone = "UTC"
"#;

fn up(place: &Place, level: Option<&str>) -> Answer {
    let mut command = place.command(&["up", "jobs.toml", "--json", "--for", "2s"]);
    if let Some(level) = level {
        command.env("QL3_LOG", level);
    }
    Answer::of(command.output().unwrap())
}

#[test]
fn the_log_is_beside_the_events_and_holds_no_secret() {
    let place = Place::with_jobs(JOBS);
    let answer = up(&place, Some("trace"));
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let cycles = answer.stderr.lines().filter(|line| line.contains("DEBUG runtime_engine::scheduler: cycle "));
    assert!(cycles.count() > 0, "{}", answer.stderr);
    assert!(!answer.stderr.contains("sw0rdfish") && !answer.stderr.contains('\x1b'), "{}", answer.stderr);
    for line in answer.stdout.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["event"].is_string());
    }
}

#[test]
fn nothing_is_logged_unless_something_is_wrong() {
    let place = Place::with_jobs(JOBS);
    for level in [None, Some(""), Some("warn"), Some("off")] {
        let answer = up(&place, level);
        assert_eq!((answer.code, answer.stderr.as_str()), (0, ""), "{level:?}");
    }
}

#[test]
fn a_level_that_is_none_is_a_usage_error() {
    let answer = up(&Place::with_jobs(JOBS), Some("loud"));
    assert_eq!((answer.code, answer.error()["code"].as_str()), (2, Some("usage")), "{}", answer.stderr);
    assert!(answer.error()["hint"].as_str().unwrap().contains("off, error, warn, info, debug, trace"));
}
