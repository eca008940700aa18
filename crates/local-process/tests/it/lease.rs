use runtime_core::ports::executor::{EndCause, Executor};

use crate::support::{fixture, shell};

#[tokio::test]
async fn the_lease_ends_the_command() {
    let fixture = fixture();
    let job = shell("trap 'exit 3' TERM; while :; do sleep 0.02; done");
    let running = fixture.executor.prepare(&job).await.unwrap().go(1_000).await.unwrap();
    let end = running.wait().await.unwrap();
    assert_eq!(end.cause, EndCause::Abandoned);
    assert!(end.detail.unwrap().starts_with("the lease ran out"));
}

#[tokio::test]
async fn a_command_whose_lease_is_over_does_not_start() {
    let fixture = fixture();
    let marker = fixture.path("ran");
    let job = shell(format!("touch {}", marker.display()));
    let end = fixture.executor.prepare(&job).await.unwrap().go(0).await.unwrap().wait().await.unwrap();
    assert_eq!((end.cause, end.detail.as_deref()), (EndCause::Abandoned, Some("the lease ran out before the start")));
    assert!(!marker.exists());
}

#[tokio::test]
async fn an_extension_moves_the_deadline() {
    let fixture = fixture();
    let running = fixture.executor.prepare(&shell("sleep 8; exit 4")).await.unwrap().go(7_000).await.unwrap();
    running.extend(600_000);
    assert_eq!(running.wait().await.unwrap().exit_code, Some(4));

    let running = fixture.start(&shell("sleep 1000")).await;
    running.extend(100);
    assert_eq!(running.wait().await.unwrap().cause, EndCause::Abandoned);
}

#[tokio::test]
async fn the_lease_bounds_the_grace_of_a_stop() {
    let fixture = fixture();
    let job = shell("trap '' TERM; echo; while :; do sleep 0.05; done");
    let running = fixture.start(&job).await;
    fixture.lines(&job, 1).await;
    running.extend(1_000);
    running.stop(600_000);
    let end = running.wait().await.unwrap();
    assert_eq!((end.cause, end.signal), (EndCause::Stopped, Some(9)));
}
