//! What all cases share. A command that is not ended by its case is ended by its guard when the case's `Running` is dropped.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use local_process::{LocalProcess, LocalProcessOptions, logs::LogReader};
use runtime_core::{
    ids::{AttemptId, RunId, TaskId},
    ports::executor::{Command, Executor, Job, ProcessEnd, Running},
};
use tempfile::TempDir;
use uuid::Uuid;

/// Longer than any case may take, so it never decides one.
pub const LONG_MS: u64 = 600_000;

pub struct Fixture {
    pub dir: TempDir,
    pub executor: LocalProcess,
}

pub fn options(log_dir: &Path) -> LocalProcessOptions {
    LocalProcessOptions { guard_program: env!("CARGO_BIN_EXE_ql3-guard").into(), ..LocalProcessOptions::new(log_dir) }
}

pub fn fixture() -> Fixture {
    fixture_with(|_| {})
}

pub fn fixture_with(change: impl FnOnce(&mut LocalProcessOptions)) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir.path().join("logs"));
    change(&mut options);
    Fixture { dir, executor: LocalProcess::new(options) }
}

impl Fixture {
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn log_dir(&self) -> PathBuf {
        self.path("logs")
    }

    pub async fn start(&self, job: &Job) -> Box<dyn Running> {
        self.executor.prepare(job).await.unwrap().go(LONG_MS).await.unwrap()
    }

    pub async fn run(&self, job: &Job) -> ProcessEnd {
        self.start(job).await.wait().await.unwrap()
    }

    pub fn output(&self, job: &Job) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(mut reader) = LogReader::open(&self.log_dir(), job.run_id, job.attempt).unwrap() {
            reader.read_to_end(&mut bytes).unwrap();
        }
        bytes
    }

    pub fn text(&self, job: &Job) -> String {
        String::from_utf8(self.output(job)).unwrap()
    }

    /// Waits until the command has said `lines` whole lines.
    pub async fn lines(&self, job: &Job, lines: usize) -> Vec<String> {
        until("the command speaks", || self.text(job).matches('\n').count() >= lines).await;
        self.text(job).lines().map(str::to_owned).collect()
    }

    /// A file of the attempt's, by suffix.
    pub fn file(&self, job: &Job, suffix: &str) -> PathBuf {
        local_process::logs::run_dir(&self.log_dir(), job.run_id).join(format!("{}.{suffix}", job.attempt))
    }
}

pub fn unique() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    Uuid::from_u64_pair(std::process::id().into(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn job(command: Command) -> Job {
    Job {
        run_id: RunId::from_uuid(unique()),
        attempt_id: AttemptId::from_uuid(unique()),
        attempt: 1,
        task_id: TaskId::new("task").unwrap(),
        trigger_id: None,
        scheduled_for: None,
        command,
        env: BTreeMap::new(),
        env_file: None,
        cwd: None,
        stdin: None,
    }
}

pub fn shell(line: impl Into<String>) -> Job {
    job(Command::Shell(line.into()))
}

pub fn argv(argv: &[&str]) -> Job {
    job(Command::Argv(argv.iter().map(|&arg| arg.to_owned()).collect()))
}

/// Neither gone nor a zombie.
pub fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !matches!(stat.rsplit(')').next(), Some(rest) if rest.starts_with(" Z")))
}

pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited two minutes in vain: {what}");
}

/// A process that is nobody's attempt; ended with the case.
pub struct Bystander(pub std::process::Child);

impl Bystander {
    pub fn start(command: &mut std::process::Command) -> Self {
        Self::start_with(command.stdin(Stdio::null()).stdout(Stdio::null()))
    }

    /// With the command's own standard input and output.
    pub fn start_with(command: &mut std::process::Command) -> Self {
        // Without the harness's pipes: nobody should wait for what a failed case leaves.
        Self(command.stderr(Stdio::null()).spawn().unwrap())
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn kill(signal: &str, pid: &str) {
    let status = std::process::Command::new("sh").args(["-c", "kill \"-$1\" \"$2\"", "sh", signal, pid]).status().unwrap();
    assert!(status.success(), "kill -{signal} {pid}");
}
