use std::{fs, time::Duration};

use runtime_core::{
    TimestampMs,
    ids::TriggerId,
    ports::executor::{EndCause, Executor, Job},
};

use crate::support::{LONG_MS, argv, fixture, fixture_with, runs, shell};

#[tokio::test]
async fn exit_codes_and_signals_are_told() {
    let fixture = fixture();
    for (line, code, signal) in
        [("exit 0", Some(0), None), ("exit 7", Some(7), None), ("kill -9 $$", None, Some(9)), ("kill $$", None, Some(15))]
    {
        let job = shell(line);
        let end = fixture.run(&job).await;
        assert_eq!((end.cause, end.exit_code, end.signal, end.detail), (EndCause::Exited, code, signal, None), "{line}");
        let record = fs::read_to_string(fixture.file(&job, "exit")).unwrap();
        assert!(record.contains(&job.attempt_id.to_string()), "{record}");
        assert!(!fixture.file(&job, "child").exists());
    }
}

#[tokio::test]
async fn nothing_runs_without_go() {
    let fixture = fixture();
    let marker = fixture.path("ran");
    let prepared = fixture.executor.prepare(&shell(format!("touch {}", marker.display()))).await.unwrap();
    let guard = prepared.pid().to_string();
    assert!(runs(&guard));
    assert!(prepared.handle().starts_with(&format!("v1:{guard}:")));
    drop(prepared);
    assert!(!fs::exists(format!("/proc/{guard}")).unwrap(), "the guard is not reaped");
    assert!(!marker.exists());
    assert!(!fixture.log_dir().exists());
}

#[tokio::test]
async fn a_program_that_is_no_guard_is_an_error() {
    for (program, cause) in [("/bin/true", "ended before it was ready"), ("/no/such/guard", "No such file")] {
        let fixture = fixture_with(|options| options.guard_program = program.into());
        let error = fixture.executor.prepare(&shell("exit 0")).await.err().unwrap();
        assert!(error.what.contains(program) && error.cause.contains(cause), "{error}");
    }
}

#[tokio::test]
async fn the_command_sees_its_identity() {
    let fixture = fixture();
    let mut job = shell("env | grep ^QL3_ | sort");
    job.attempt = 3;
    // Not even on purpose may a task pass for another attempt.
    job.env.insert("QL3_ATTEMPT_ID".into(), "forged".into());
    fixture.run(&job).await;
    let (run, attempt) = (job.run_id, job.attempt_id);
    assert_eq!(fixture.text(&job), format!("QL3_ATTEMPT=3\nQL3_ATTEMPT_ID={attempt}\nQL3_RUN_ID={run}\nQL3_TASK_ID=task\n"));

    job.attempt = 4;
    job.trigger_id = Some(TriggerId::new("nightly").unwrap());
    job.scheduled_for = Some(TimestampMs::parse("2026-03-29T01:00:00Z").unwrap());
    fixture.run(&job).await;
    assert!(fixture.text(&job).ends_with("QL3_SCHEDULED_FOR=2026-03-29T01:00:00Z\nQL3_TASK_ID=task\nQL3_TRIGGER_ID=nightly\n"));
}

#[tokio::test]
async fn env_wins_over_env_file_wins_over_inherited() {
    let fixture = fixture();
    let file = fixture.path("job.env");
    fs::write(&file, "# settings\nexport A=file\nB='from file'\nHOME=/file\n").unwrap();
    let mut job = shell(r#"echo "$A|$B|$HOME|${PATH:+path}""#);
    job.env_file = Some(file.to_str().unwrap().to_owned());
    job.env.insert("A".into(), "env".into());
    fixture.run(&job).await;
    assert_eq!(fixture.text(&job), "env|from file|/file|path\n");
}

#[tokio::test]
async fn the_program_is_looked_up_in_the_command_s_own_path_and_directory() {
    let fixture = fixture();
    let bin = fixture.path("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/pwd", bin.join("where-am-i")).unwrap();
    let mut job = argv(&["where-am-i"]);
    job.cwd = Some(bin.to_str().unwrap().to_owned());
    assert_eq!(fixture.run(&job).await.cause, EndCause::SpawnFailed);
    job.env.insert("PATH".into(), bin.to_str().unwrap().to_owned());
    fixture.run(&job).await;
    assert_eq!(fixture.text(&job), format!("{}\n", bin.display()));

    let mut job = argv(&["./where-am-i"]);
    job.cwd = Some(bin.to_str().unwrap().to_owned());
    assert_eq!(fixture.run(&job).await.exit_code, Some(0));
}

#[tokio::test]
async fn what_cannot_start_says_why_and_keeps_secrets() {
    let fixture = fixture();
    let in_dir = |dir: &str| Job { cwd: Some(dir.to_owned()), ..shell("exit 0") };
    let with_env_file = |path: String| Job { env_file: Some(path), ..shell("exit 0") };
    let bad = fixture.path("bad.env");
    fs::write(&bad, "A=1\n\nB C=hunter2\n").unwrap();
    let cases = [
        (argv(&["no-such-program", "hunter2"]), "cannot run `no-such-program`: No such file"),
        (argv(&["/etc/passwd"]), "cannot run `/etc/passwd`: Permission denied"),
        (argv(&[]), "the command is empty"),
        (argv(&["a\0b"]), "nul byte"),
        (in_dir("/no/such/dir"), "working directory `/no/such/dir`: No such file"),
        (with_env_file("/no/such/env".to_owned()), "env_file `/no/such/env`: No such file"),
        (with_env_file(bad.to_str().unwrap().to_owned()), "bad.env`, line 3: a name is"),
    ];
    for (mut job, expected) in cases {
        job.env.insert("SECRET".into(), "hunter2".into());
        let end = fixture.run(&job).await;
        let detail = end.detail.unwrap();
        assert_eq!((end.cause, end.exit_code, end.signal), (EndCause::SpawnFailed, None, None), "{detail}");
        assert!(detail.contains(expected) && !detail.contains("hunter2"), "{detail}");
        assert!(fixture.file(&job, "exit").exists(), "recovery must know it too");
    }
}

#[tokio::test]
async fn the_guard_carries_no_secret_and_is_small() {
    let fixture = fixture();
    let mut job = shell("exit 0");
    job.env.insert("SECRET".into(), "hunter2".into());
    let prepared = fixture.executor.prepare(&job).await.unwrap();
    for file in ["cmdline", "environ"] {
        let bytes = fs::read(format!("/proc/{}/{file}", prepared.pid())).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"), "{file}");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", prepared.pid())).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let own_memory_kib: u64 = field("RssAnon:").trim_end_matches(" kB").parse().unwrap();
    assert!(own_memory_kib <= 1_024, "{own_memory_kib} KiB");
    assert_eq!(field("Threads:"), "1");
}

#[tokio::test]
async fn nothing_leaks_into_the_command() {
    let fixture = fixture();
    let _other = fixture.start(&shell("sleep 1000")).await;
    // Open files, ignored and blocked signals: as any child of the program that runs the tests has them.
    for probe in [&["ls", "/proc/self/fd"][..], &["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]] {
        let job = argv(probe);
        fixture.run(&job).await;
        let plain = std::process::Command::new(probe[0]).args(&probe[1..]).output().unwrap().stdout;
        assert_eq!(fixture.text(&job), String::from_utf8(plain).unwrap());
    }
    // A writer whose reader is gone dies instead of complaining for ever.
    let job = shell("yes | head -n 1");
    assert_eq!(fixture.run(&job).await.exit_code, Some(0));
    assert_eq!(fixture.text(&job), "y\n");
}

#[tokio::test]
async fn the_command_leads_a_session_without_a_terminal() {
    let fixture = fixture();
    let job = shell("cut -d ' ' -f 1,5,6,7 /proc/$$/stat; echo $$");
    fixture.run(&job).await;
    let text = fixture.text(&job);
    let (stat, pid) = text.trim_end().split_once('\n').unwrap();
    assert_eq!(stat, format!("{pid} {pid} {pid} 0"));
}

#[tokio::test]
async fn input_is_fed_whether_or_not_it_is_read() {
    let fixture = fixture();
    let input = "line of input\n".repeat(100_000);
    let mut job = shell("exit 4");
    job.stdin = Some(input.clone());
    assert_eq!(fixture.run(&job).await.exit_code, Some(4));
    let mut job = argv(&["cat"]);
    job.stdin = Some(input.clone());
    fixture.run(&job).await;
    assert!(fixture.text(&job) == input);
    let job = argv(&["cat"]);
    assert_eq!(fixture.run(&job).await.exit_code, Some(0));
    assert_eq!(fixture.text(&job), "");
}

#[tokio::test]
async fn waiting_can_be_given_up_and_taken_up_again() {
    let fixture = fixture();
    let gate = fixture.path("gate");
    let running = fixture.start(&shell(format!("while [ ! -e {} ]; do sleep 0.02; done; exit 5", gate.display()))).await;
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_millis(20), running.wait()).await.is_err());
    }
    fs::write(gate, "").unwrap();
    let end = running.wait().await.unwrap();
    assert_eq!(end.exit_code, Some(5));
    assert_eq!(running.wait().await.unwrap(), end);
    running.stop(0);
    running.extend(1);
    assert_eq!(running.wait().await.unwrap(), end);
}

#[tokio::test]
async fn two_hundred_at_once_all_end_and_are_reaped() {
    let fixture = fixture();
    let mut jobs = Vec::new();
    for number in 0..200 {
        let job = shell(format!("echo {number}; exit {}", number % 50));
        let prepared = fixture.executor.prepare(&job).await.unwrap();
        let guard = prepared.pid();
        jobs.push((number, job, guard, prepared.go(LONG_MS).await.unwrap()));
    }
    for (number, job, guard, running) in jobs {
        let end = running.wait().await.unwrap();
        assert_eq!((end.cause, end.exit_code), (EndCause::Exited, Some(number % 50)), "{:?}", end.detail);
        assert_eq!(fixture.text(&job), format!("{number}\n"));
        assert!(!fs::exists(format!("/proc/{guard}")).unwrap(), "a guard is left");
    }
}
