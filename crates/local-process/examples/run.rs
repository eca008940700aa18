//! Runs one shell line under a guard, as an embedding program does it: prepare, store the guard's identity, then go.
//!
//! `cargo run -p local-process --example run -- LOG_DIR RUN_ID ATTEMPT_ID LINE` prints the identity of the guard, waits for a line on
//! standard input (a real program commits the identity to its store here), lets the command start and prints how it ended.

use std::{collections::BTreeMap, env, io, path::Path, process::ExitCode};

use local_process::{LocalProcess, LocalProcessOptions};
use runtime_core::{
    ids::TaskId,
    ports::executor::{Command, Executor, Job},
};

const LEASE_MS: u64 = 600_000;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example talks to its user")]
async fn main() -> ExitCode {
    // The guard is this very program, started again: this comes first.
    if let Some(code) = local_process::run_if_guard() {
        return code;
    }
    let args: Vec<String> = env::args().skip(1).collect();
    let [log_dir, run_id, attempt_id, line] = args.as_slice() else {
        println!("usage: run LOG_DIR RUN_ID ATTEMPT_ID LINE");
        return ExitCode::from(2);
    };
    let job = Job {
        run_id: run_id.parse().expect("RUN_ID is a UUID"),
        attempt_id: attempt_id.parse().expect("ATTEMPT_ID is a UUID"),
        attempt: 1,
        task_id: TaskId::new("example").expect("a plain word"),
        trigger_id: None,
        scheduled_for: None,
        command: Command::Shell(line.clone()),
        env: BTreeMap::new(),
        env_file: None,
        cwd: None,
        stdin: None,
    };
    let executor = LocalProcess::new(LocalProcessOptions::new(Path::new(log_dir)));
    let prepared = executor.prepare(&job).await.expect("a guard starts");
    println!("{}", prepared.handle());
    io::stdin().read_line(&mut String::new()).expect("standard input");
    let end = prepared.go(LEASE_MS).await.expect("the guard takes the order").wait().await;
    println!("{end:?}");
    ExitCode::SUCCESS
}
