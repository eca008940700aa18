//! Stopping in good order must not be worse than a kill.

use ql3_tests::{Place, kill, wait_until};

const JOBS: &str = r#"
[[task]]
id = "endless"
shell = "echo $QL3_ATTEMPT >> started; exec sleep 600"
retry = { max_attempts = 3, backoff = "0s", max_backoff = "0s", on_lost = true, safety = "idempotent" }
"#;

fn ended_by(signal: &str) -> Vec<String> {
    let place = Place::new();
    place.write("jobs.toml", JOBS);
    place.ok(&["apply", "jobs.toml"]);
    place.ok(&["run", "start", "endless"]);
    let mut up = place.up(&["--drain", "1s"]);
    wait_until("the first attempt runs", || place.read("started").lines().count() == 1);
    kill(signal, up.id());
    let status = up.wait().unwrap();
    assert_eq!(status.success(), signal != "KILL", "{status}: {}", place.read("up.log"));
    // What was interrupted is recovered by the next start.
    let mut up = place.up(&[]);
    wait_until("the second attempt runs", || place.read("started").lines().count() == 2);
    let show = place.json(&["run", "show", "latest"]);
    let attempts = show["attempts"].as_array().unwrap().iter().map(|a| a["status"].as_str().unwrap().to_owned()).collect();
    place.ok(&["run", "cancel", "latest"]);
    wait_until("the Run is cancelled", || place.json(&["run", "show", "latest"])["run"]["status"] == "cancelled");
    kill("TERM", up.id());
    assert!(up.wait().unwrap().success());
    assert_eq!(place.json(&["verify"])["ok"], true);
    attempts
}

/// C36: after TERM, after Ctrl-C and after KILL the same states stand, and the next start goes on alike.
#[test]
fn a_stop_leaves_what_a_kill_leaves() {
    let killed = ended_by("KILL");
    assert_eq!(killed.len(), 2);
    assert_eq!(killed[0], "lost");
    assert_eq!(ended_by("TERM"), killed);
    assert_eq!(ended_by("INT"), killed);
}
