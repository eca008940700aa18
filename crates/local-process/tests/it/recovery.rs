//! What recovery believes, and what it leaves alone.

use std::{
    fs,
    process::{Command, Stdio},
};

use runtime_core::ports::executor::{EndCause, Executor, Job, Recovered};

use crate::support::{Bystander, Fixture, LONG_MS, fixture, kill, runs, shell, until};

async fn recover(fixture: &Fixture, job: &Job, handle: Option<&str>) -> Recovered {
    fixture.executor.recover(job.run_id, job.attempt_id, job.attempt, handle).await.unwrap()
}

/// The fields of a handle of this boot and PID namespace whose process is gone.
async fn dead_handle(fixture: &Fixture) -> [String; 5] {
    let prepared = fixture.executor.prepare(&shell("exit 0")).await.unwrap();
    let fields: Vec<String> = prepared.handle().split(':').map(str::to_owned).collect();
    fields.try_into().unwrap()
}

/// `sleep` as the leader of a session of its own.
fn session_leader() -> Bystander {
    Bystander::start(Command::new("setsid").args(["sleep", "1000"]))
}

async fn start_ticks(pid: &str) -> String {
    // Until it has become `sleep`, it has no session.
    until("setsid", || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains("(sleep)")).await;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.split(' ').nth(21).unwrap().to_owned()
}

fn write_child(fixture: &Fixture, job: &Job, identity: &[String; 5]) {
    let path = fixture.file(job, "child");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, identity.join(":")).unwrap();
}

#[tokio::test]
async fn a_running_guard_is_asked_to_end_and_its_record_is_read() {
    let fixture = fixture();
    let job = shell("trap 'exit 8' TERM; echo $$; while :; do sleep 0.02; done");
    let prepared = fixture.executor.prepare(&job).await.unwrap();
    let handle = prepared.handle().to_owned();
    let running = prepared.go(LONG_MS).await.unwrap();
    let command = fixture.lines(&job, 1).await.remove(0);
    let Recovered::Ended(end) = recover(&fixture, &job, Some(&handle)).await else { panic!("no exit record") };
    assert_eq!((end.cause, end.exit_code), (EndCause::Abandoned, Some(8)));
    assert!(!runs(&command));
    assert_eq!(running.wait().await.unwrap(), end);
    assert_eq!(recover(&fixture, &job, Some(&handle)).await, Recovered::Ended(end));
}

#[tokio::test]
async fn a_record_counts_for_its_own_attempt_only() {
    let fixture = fixture();
    let mut job = shell("exit 9");
    let handle = dead_handle(&fixture).await.join(":");
    let end = fixture.run(&job).await;
    assert_eq!(recover(&fixture, &job, Some(&handle)).await, Recovered::Ended(end));
    job.attempt_id = shell("").attempt_id;
    assert_eq!(recover(&fixture, &job, Some(&handle)).await, Recovered::Gone);
    fs::write(fixture.file(&job, "exit"), "{").unwrap();
    assert_eq!(recover(&fixture, &job, Some(&handle)).await, Recovered::Gone);
}

#[tokio::test]
async fn what_cannot_be_ours_is_not_signalled() {
    let fixture = fixture();
    let job = shell("exit 0");
    let bystander = session_leader();
    let [version, _, _, pid_ns, boot] = dead_handle(&fixture).await;
    let ticks = start_ticks(&bystander.pid()).await;
    let handle = |ticks: &str, pid_ns: &str, boot: &str| [&version, &bystander.pid(), ticks, pid_ns, boot].join(":");
    let recycled = format!("{}0", &ticks);

    assert_eq!(recover(&fixture, &job, None).await, Recovered::Gone);
    assert_eq!(recover(&fixture, &job, Some(&handle(&recycled, &pid_ns, &boot))).await, Recovered::Gone);
    assert_eq!(recover(&fixture, &job, Some(&handle(&ticks, &pid_ns, "another-boot"))).await, Recovered::Gone);
    for unproven in [handle(&ticks, "1", &boot), "garbage".to_owned(), String::new()] {
        assert!(matches!(recover(&fixture, &job, Some(&unproven)).await, Recovered::Unproven(_)), "{unproven}");
    }
    assert!(runs(&bystander.pid()));
}

#[tokio::test]
async fn a_recycled_group_number_is_not_signalled() {
    let fixture = fixture();
    let job = shell("exit 0");
    let bystander = session_leader();
    let dead = dead_handle(&fixture).await;
    let mut child = dead.clone();
    child[1] = bystander.pid();
    child[2] = format!("{}0", start_ticks(&bystander.pid()).await);
    write_child(&fixture, &job, &child);
    assert_eq!(recover(&fixture, &job, Some(&dead.join(":"))).await, Recovered::Gone);
    assert!(runs(&bystander.pid()));
    // The same with the right start time is the command itself: whoever says so is believed.
    child[2] = start_ticks(&bystander.pid()).await;
    write_child(&fixture, &job, &child);
    assert_eq!(recover(&fixture, &job, Some(&dead.join(":"))).await, Recovered::Gone);
    assert!(!runs(&bystander.pid()));
}

/// A session whose leader has exited, with one process left in it.
async fn orphan_group(fixture: &Fixture, attempt_id: Option<&str>) -> (String, String) {
    let file = fixture.path("orphan");
    let _ = fs::remove_file(&file);
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", "sleep 1000 & echo $$ $! >$0.tmp; mv $0.tmp $0"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(attempt_id) = attempt_id {
        command.env("QL3_ATTEMPT_ID", attempt_id);
    }
    assert!(command.status().unwrap().success());
    let text = fs::read_to_string(&file).unwrap();
    let (leader, member) = text.trim().split_once(' ').unwrap();
    let member = member.to_owned();
    until("it becomes sleep", || fs::read_to_string(format!("/proc/{member}/stat")).unwrap().contains("(sleep)")).await;
    (leader.to_owned(), member)
}

#[tokio::test]
async fn a_group_without_its_leader_needs_the_attempt_id_as_proof() {
    let fixture = fixture();
    let job = shell("exit 0");
    let dead = dead_handle(&fixture).await;

    let (leader, member) = orphan_group(&fixture, Some("another attempt")).await;
    let mut child = dead.clone();
    child[1] = leader;
    write_child(&fixture, &job, &child);
    let recovered = recover(&fixture, &job, Some(&dead.join(":"))).await;
    assert!(matches!(&recovered, Recovered::Unproven(reason) if reason.contains(&member)), "{recovered:?}");
    assert!(runs(&member));
    kill("KILL", &member);

    let (leader, member) = orphan_group(&fixture, Some(&job.attempt_id.to_string())).await;
    child[1] = leader;
    write_child(&fixture, &job, &child);
    assert_eq!(recover(&fixture, &job, Some(&dead.join(":"))).await, Recovered::Gone);
    assert!(!runs(&member));
}

#[tokio::test]
async fn an_unrecorded_group_is_reported_and_left_alone() {
    let fixture = fixture();
    let job = shell("exit 0");
    let dead = dead_handle(&fixture).await.join(":");
    let (_, member) = orphan_group(&fixture, Some(&job.attempt_id.to_string())).await;
    let recovered = recover(&fixture, &job, Some(&dead)).await;
    assert!(matches!(&recovered, Recovered::Unproven(reason) if reason.contains(&member)), "{recovered:?}");
    assert!(runs(&member));
    kill("KILL", &member);
    until("it dies", || !runs(&member)).await;
    assert_eq!(recover(&fixture, &job, Some(&dead)).await, Recovered::Gone);
}
