use local_process::ABANDON_GRACE_MS;
use runtime_core::ports::executor::EndCause;

use crate::support::{LONG_MS, fixture, kill, runs, shell};

const DEAF: &str = "trap '' TERM; echo $$; while :; do sleep 0.05; done";

#[tokio::test]
async fn stop_lets_a_command_end_itself() {
    let fixture = fixture();
    let job = shell("trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done");
    let running = fixture.start(&job).await;
    fixture.lines(&job, 1).await;
    running.stop(LONG_MS);
    let end = running.wait().await.unwrap();
    assert_eq!((end.cause, end.exit_code, end.signal, end.detail), (EndCause::Stopped, Some(3), None, None));
}

#[tokio::test]
async fn who_ignores_term_is_killed_after_the_grace() {
    let fixture = fixture();
    let job = shell(DEAF);
    let running = fixture.start(&job).await;
    fixture.lines(&job, 1).await;
    running.stop(50);
    let end = running.wait().await.unwrap();
    assert_eq!((end.cause, end.exit_code, end.signal), (EndCause::Stopped, None, Some(9)));
    assert_eq!(end.detail.as_deref(), Some("killed after its grace"));
}

#[tokio::test]
async fn a_shorter_grace_shortens_and_a_longer_one_does_not_lengthen() {
    let fixture = fixture();
    let job = shell(DEAF);
    let running = fixture.start(&job).await;
    fixture.lines(&job, 1).await;
    running.stop(LONG_MS);
    running.stop(0);
    running.stop(LONG_MS);
    assert_eq!(running.wait().await.unwrap().signal, Some(9));
}

#[tokio::test]
async fn a_stopped_command_still_sees_term() {
    let fixture = fixture();
    let job = shell("trap 'exit 6' TERM; echo $$; kill -STOP $$; exit 1");
    let running = fixture.start(&job).await;
    let pid = fixture.lines(&job, 1).await.remove(0);
    let stopped = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    crate::support::until("it stops", stopped).await;
    running.stop(LONG_MS);
    assert_eq!(running.wait().await.unwrap().exit_code, Some(6));
}

#[tokio::test]
async fn an_order_to_stop_catches_a_command_that_is_only_just_starting() {
    let fixture = fixture();
    for _ in 0..20 {
        let running = fixture.start(&shell("sleep 1000")).await;
        running.stop(LONG_MS);
        assert_eq!(running.wait().await.unwrap().cause, EndCause::Stopped);
    }
}

#[tokio::test]
async fn grandchildren_end_with_the_group() {
    let fixture = fixture();
    let job = shell("sh -c 'sleep 1000 & echo $!; wait' & sleep 1001 & echo $!; wait");
    let running = fixture.start(&job).await;
    let pids = fixture.lines(&job, 2).await;
    assert!(pids.iter().all(|pid| runs(pid)));
    running.stop(LONG_MS);
    running.wait().await.unwrap();
    assert!(!pids.iter().any(|pid| runs(pid)), "{pids:?}");
}

#[tokio::test]
async fn the_end_of_a_command_is_the_end_of_its_group() {
    let fixture = fixture();
    // The second one would hold the output open and does not mind TERM.
    let job = shell(
        "sleep 1000 & echo $!; sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & while [ $(grep -c . $LOG) -lt 2 ]; do sleep 0.02; done; exit 2",
    );
    let mut job = job;
    job.env.insert("LOG".into(), fixture.file(&job, "log").to_str().unwrap().to_owned());
    let end = fixture.run(&job).await;
    let pids = fixture.lines(&job, 2).await;
    assert!(!pids.iter().any(|pid| runs(pid)), "{pids:?}");
    assert_eq!((end.cause, end.exit_code), (EndCause::Exited, Some(2)));
    assert_eq!(end.detail.as_deref(), Some("killed after its grace; 2 of its processes outlived it and were ended"));
    const { assert!(ABANDON_GRACE_MS < 60_000, "nobody waits that long for a background process") };
}

#[tokio::test]
async fn a_daemon_that_left_the_group_is_neither_waited_for_nor_ended() {
    let fixture = fixture();
    let file = fixture.path("pid");
    let job = shell(format!("setsid sh -c 'echo $$ >{0}; exec sleep 1000' & while [ ! -s {0} ]; do sleep 0.02; done", file.display()));
    let end = fixture.run(&job).await;
    let daemon = std::fs::read_to_string(file).unwrap().trim().to_owned();
    assert!(runs(&daemon));
    kill("KILL", &daemon);
    assert_eq!((end.cause, end.exit_code, end.detail), (EndCause::Exited, Some(0), None));
}
