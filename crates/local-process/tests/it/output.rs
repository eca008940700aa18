use std::{fmt::Write as _, fs, os::unix::fs::PermissionsExt};

use crate::support::{fixture, fixture_with, shell};

#[tokio::test]
async fn both_streams_are_kept_in_order_and_as_they_are() {
    let fixture = fixture();
    let job = shell(r"for i in 1 2 3; do echo out$i; echo err$i >&2; done; printf '\377\000\303\n'");
    let end = fixture.run(&job).await;
    let expected = b"out1\nerr1\nout2\nerr2\nout3\nerr3\n\xff\0\xc3\n";
    assert_eq!(fixture.output(&job), expected);
    assert_eq!((end.output_kept_bytes, end.output_dropped_bytes), (expected.len() as u64, 0));
    assert_eq!(fs::metadata(fixture.file(&job, "log")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn the_newest_output_is_kept_under_the_cap() {
    let fixture = fixture_with(|options| options.output_bytes_max = 1_000);
    let job = shell("seq 1 5000");
    let end = fixture.run(&job).await;
    let mut all = String::new();
    for number in 1..=5000 {
        writeln!(all, "{number}").unwrap();
    }
    let kept = fixture.text(&job);
    assert!(all.ends_with(&kept) && (1_000..=2_000).contains(&kept.len()), "{} bytes", kept.len());
    assert_eq!((end.output_kept_bytes, end.output_dropped_bytes), (kept.len() as u64, (all.len() - kept.len()) as u64));
    assert_eq!(end.detail, None);
}

#[tokio::test]
async fn a_full_disk_or_a_missing_directory_does_not_stop_a_job() {
    let full = fixture();
    let job = shell("seq 1 100; exit 3");
    let log = full.file(&job, "log");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/dev/full", &log).unwrap();
    let end = full.run(&job).await;
    assert_eq!((end.exit_code, end.output_kept_bytes, end.output_dropped_bytes), (Some(3), 0, 292));
    assert!(end.detail.unwrap().contains("output was lost: No space left"));

    let blocked = fixture();
    fs::write(blocked.log_dir(), "a file where a directory should be").unwrap();
    let end = blocked.run(&job).await;
    assert_eq!((end.exit_code, end.output_dropped_bytes), (Some(3), 292));
    let detail = end.detail.unwrap();
    assert!(detail.contains("output was lost: ") && detail.contains("no exit record: "), "{detail}");
}
