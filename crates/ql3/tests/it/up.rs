//! `up`, with real processes.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Answer, Place};

const SECONDLY: &str = r#"
[[task]]
id = "tick"
shell = "echo tick $QL3_ATTEMPT $QL3_TASK_ID $QL3_TRIGGER_ID; echo $TOKEN >&2"
env = { TOKEN = "from-env" }
[[task.trigger]]
cron = "* * * * * *"
timezone = "UTC"
[[task]]
id = "flaky"
shell = "test $QL3_ATTEMPT -ge 2"
retry = { max_attempts = 2 }
[[task.trigger]]
cron = "* * * * * *"
timezone = "UTC"
overlap = "skip"
"#;

fn events(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn named<'a>(events: &'a [Value], event: &str) -> Vec<&'a Value> {
    events.iter().filter(|value| value["event"] == event).collect()
}

/// Starts `up` and waits until it admits.
fn start(place: &Place, args: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = place.command(&[&["up", "--json"], args].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("\"ready\"") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it was ready");
    }
    (child, lines)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Repeats a question until the answer is there.
fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn it_runs_what_is_due_and_ends_by_itself() {
    let place = Place::with_jobs(SECONDLY);
    let answer = place.ok(&["up", "jobs.toml", "--for", "4s", "--json"]);
    let events = events(&answer.stdout);
    assert_eq!(events[0]["event"], "up");
    assert_eq!(named(&events, "applied").len(), 1);
    let ended = events.last().unwrap();
    assert_eq!(ended["event"], "ended");
    assert_eq!(named(&events, "admitted").len() as u64, ended["admitted"].as_u64().unwrap());

    let runs = place.json(&["runs", "--limit", "500"]);
    let runs = runs["runs"].as_array().unwrap();
    let of = |task: &str| runs.iter().filter(|run| run["taskId"] == task).collect::<Vec<_>>();
    assert!(!of("tick").is_empty() && !of("flaky").is_empty(), "{}", answer.stdout);
    assert_eq!(runs.len() as u64, ended["admitted"].as_u64().unwrap());
    for run in of("tick") {
        assert_eq!((run["status"].as_str(), run["attempts"].as_u64()), (Some("succeeded"), Some(1)), "{run}");
    }
    for run in of("flaky").into_iter().filter(|run| run["status"] == "succeeded") {
        assert_eq!(run["attempts"].as_u64(), Some(2), "its first attempt fails");
    }
    let mut occurrences: Vec<_> = of("tick").iter().map(|run| run["scheduledFor"].as_str().unwrap().to_owned()).collect();
    let admitted = occurrences.len();
    occurrences.sort();
    occurrences.dedup();
    assert_eq!(occurrences.len(), admitted, "one Run an occurrence");

    let id = of("tick")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(place.json(&["run", "logs", &id])["text"], "tick 1 tick tick\nfrom-env\n", "stdout and stderr");
    assert_eq!(place.ok(&["run", "logs", &id, "--raw"]).stdout, "tick 1 tick tick\nfrom-env\n");
    let shown = place.json(&["run", "show", &id]);
    assert_eq!(shown["attempts"][0]["exitCode"], 0);
    assert_eq!(place.json(&["verify"])["ok"], true);
}

#[test]
fn people_see_a_line_an_event_and_a_summary() {
    let place = Place::with_jobs(SECONDLY);
    let shown = place.ok(&["up", "jobs.toml", "--for", "2500ms"]).stdout;
    for part in ["project `default`: 4 created", "✓ ready", "✓ tick admitted  run …", " ms late)", "✓ tick succeeded  run …", "\nended: "]
    {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!shown.contains('\x1b') && !shown.contains("from-env"), "{shown}");
}

#[test]
fn a_second_one_is_told_who_is_there() {
    let place = Place::with_jobs(SECONDLY);
    let (mut first, lines) = start(&place, &["jobs.toml"]);
    let second = place.run(&["up", "--json"]);
    assert_eq!((second.code, second.error()["code"].as_str()), (6, Some("already_running")), "{}", second.stderr);
    assert!(second.error()["message"].as_str().unwrap().contains(&first.id().to_string()), "it names the process: {}", second.stderr);
    place.json(&["run", "start", "tick"]);
    signal(&first, Signal::TERM);
    drop(lines);
    assert!(first.wait().unwrap().success(), "SIGTERM is a clean end, also when nobody reads");
}

#[test]
fn other_commands_work_beside_it() {
    let place = Place::with_jobs(
        "[[task]]\nid = \"sleeper\"\nshell = \"echo begin; sleep 600\"\n[[task]]\nid = \"quick\"\nshell = \"echo done\"\n",
    );
    let (mut up, mut lines) = start(&place, &["jobs.toml"]);
    let sleeper = place.json(&["run", "start", "sleeper"])["runId"].as_str().unwrap().to_owned();
    let status = |id: &str| place.json(&["run", "show", id])["run"]["status"].as_str().unwrap().to_owned();
    eventually("it starts", || (status(&sleeper) == "running").then_some(()));

    // Following ends with the Run, and shows what it printed.
    let reader = place.command(&["run", "logs", "-f", &sleeper]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it prints", || (place.ok(&["run", "logs", &sleeper]).stdout == "begin\n").then_some(()));
    assert_eq!(place.json(&["run", "cancel", &sleeper])["outcome"], "requested");
    eventually("it is cancelled", || (status(&sleeper) == "cancelled").then_some(()));
    let followed = Answer::of(reader.wait_with_output().unwrap());
    assert_eq!((followed.code, followed.stdout.as_str()), (0, "begin\n"), "{}", followed.stderr);
    let late = place.run(&["run", "retry", "quick"]);
    assert_eq!(late.code, 2, "a task is no Run");

    // A file applied from another shell is noticed.
    place.write("jobs.toml", SECONDLY);
    place.ok(&["apply", "jobs.toml"]);
    eventually("a new trigger fires", || {
        let runs = place.json(&["runs", "--task", "tick", "--status", "succeeded"]);
        (!runs["runs"].as_array().unwrap().is_empty()).then_some(())
    });

    signal(&up, Signal::INT);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
    assert!(up.wait().unwrap().success());
    assert_eq!(events(&rest).last().unwrap()["event"], "ended");
    assert_eq!(place.json(&["verify"])["ok"], true);
}

#[test]
fn a_second_signal_leaves_what_the_next_start_settles() {
    let place = Place::with_jobs("[[task]]\nid = \"sleeper\"\nshell = \"sleep 600\"\n");
    let (mut up, mut lines) = start(&place, &["jobs.toml"]);
    let id = place.json(&["run", "start", "sleeper"])["runId"].as_str().unwrap().to_owned();
    let status = || place.json(&["run", "show", &id])["run"]["status"].as_str().unwrap().to_owned();
    eventually("it starts", || (status() == "running").then_some(()));
    let overview = place.json(&["status"]);
    assert!(overview["scheduler"].as_str().unwrap().starts_with(&format!("pid {} since ", up.id())), "{overview}");
    assert_eq!(overview["interrupted"], 0);
    signal(&up, Signal::TERM);
    let mut line = String::new();
    while !line.contains("\"draining\"") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended without draining");
    }
    signal(&up, Signal::TERM);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
    assert!(up.wait().unwrap().success());
    assert_eq!(named(&events(&rest), "left").len(), 1, "{rest}");
    let overview = place.json(&["status"]);
    assert_eq!((&overview["scheduler"], &overview["interrupted"]), (&Value::Null, &Value::from(1)), "{overview}");
    assert!(place.ok(&["status"]).stdout.contains("1 interrupted: the next `ql3 up` settles them"));

    let next = events(&place.ok(&["up", "--for", "2s", "--json"]).stdout);
    assert_eq!(named(&next, "settled").len(), 1, "{next:?}");
    assert_eq!(status(), "failed", "it may run once, and nobody knows how it ended");
    assert_eq!(place.json(&["verify"])["ok"], true);
}

#[test]
fn a_terminal_that_closes_is_a_clean_end() {
    let place = Place::with_jobs("[[task]]\nid = \"sleeper\"\nshell = \"sleep 600\"\n");
    let (mut up, mut lines) = start(&place, &["jobs.toml", "--drain", "1s"]);
    place.json(&["run", "start", "sleeper"]);
    let mut line = String::new();
    while !line.contains("\"started\"") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before the Run started");
    }
    // The shell's signal and the kernel's: the second is no order to hurry.
    signal(&up, Signal::HUP);
    signal(&up, Signal::HUP);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
    assert!(up.wait().unwrap().success());
    let events = events(&rest);
    assert_eq!((named(&events, "draining").len(), named(&events, "ended").len()), (1, 1), "{rest}");
}

#[test]
fn a_hangup_that_is_ignored_stays_so() {
    let place = Place::with_jobs(SECONDLY);
    let up = place.command(&["up", "jobs.toml", "--json"]);
    let mut shell = std::process::Command::new("/bin/sh");
    shell
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(up.get_program())
        .args(up.get_args())
        .current_dir(place.dir.path())
        .env_remove("QL3_DB");
    let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = |event: &str| while !lines.next().expect("it goes on").unwrap().contains(event) {};
    until("\"ready\"");
    signal(&child, Signal::HUP);
    for _ in 0..2 {
        until("\"succeeded\"");
    }
    signal(&child, Signal::TERM);
    until("\"ended\"");
    assert!(child.wait().unwrap().success());
}

/// Attempts could not start, one after the other.
#[test]
fn a_path_that_guards_cannot_be_told_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::with_jobs(SECONDLY);
    let mut up = place.command(&["up", "jobs.toml", "--json", "--for", "1s", "--db"]);
    let answer = Answer::of(up.arg(std::ffi::OsStr::from_bytes(b"bad\xff.db")).output().unwrap());
    assert_eq!((answer.code, answer.error()["code"].as_str()), (3, Some("invalid_input")), "{}", answer.stderr);
    assert_eq!(std::fs::read_dir(place.dir.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn without_triggers_it_says_what_to_do() {
    let shown = Place::new().ok(&["up", "--for", "100ms"]).stdout;
    assert!(shown.contains("`ql3 apply jobs.toml` defines it"), "{shown}");
}

#[test]
fn a_bad_file_leaves_nothing_behind() {
    let place = Place::with_jobs("colour = 1\n");
    assert_eq!(place.run(&["up", "jobs.toml"]).code, 3);
    assert!(!place.path("ql3.db").exists());
}
