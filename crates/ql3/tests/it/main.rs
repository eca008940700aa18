//! The `ql3` program, run as its users run it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test that calls them")]

mod cli;
mod docs;
mod generate;
mod housekeeping;
mod import;
mod jobs_file;
mod log;
mod next;
mod operating;
mod service;
mod up;
mod why;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

/// Variables of whoever runs the tests that would show through.
const OUTER: [&str; 8] = ["QL3_DB", "QL3_PROJECT", "QL3_OPERATOR", "QL3_LOG", "NO_COLOR", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// A directory of its own to run the program in.
struct Place {
    dir: tempfile::TempDir,
}

/// What the program answered.
struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A place with a `jobs.toml`.
    fn with_jobs(text: &str) -> Self {
        let place = Self::new();
        place.write("jobs.toml", text);
        place
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ql3"));
        command.current_dir(self.dir.path()).args(args).env("USER", "tester");
        for name in OUTER {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Answer {
        Answer::of(self.command(args).output().unwrap())
    }

    /// Runs a command that must succeed.
    fn ok(&self, args: &[&str]) -> Answer {
        let answer = self.run(args);
        assert_eq!(answer.code, 0, "{args:?}\n{}\n{}", answer.stdout, answer.stderr);
        answer
    }

    /// Runs a command with `--json` that must succeed.
    fn json(&self, args: &[&str]) -> Value {
        let answer = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}\n{}", answer.stdout))
    }
}

impl Answer {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it was not killed"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The `error` object on stderr.
    fn error(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}\n{}", self.stderr));
        value["error"].clone()
    }
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
