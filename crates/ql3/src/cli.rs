//! The command line.

mod generate;
mod import;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, builder::styling};
use runtime_core::{
    TimestampMs,
    ids::{ProjectId, TaskId, TriggerId},
    limits::LIST_PAGE_MAX,
    run::RunStatus,
};

use crate::{duration, moment::Since, reference::RunRef};
pub use generate::{Completions, Man};
pub use import::{Import, ImportTarget};

const STYLES: styling::Styles = styling::Styles::styled()
    .header(styling::AnsiColor::Yellow.on_default())
    .usage(styling::AnsiColor::Yellow.on_default())
    .literal(styling::AnsiColor::Green.on_default());

/// What `ql3` alone prints.
pub const GETTING_STARTED: &str = "\
ql3 turns cron triggers into durable Runs, exactly once each.

Write a jobs.toml:

    [[task]]
    id = \"hello\"
    command = [\"echo\", \"hello\"]
    [[task.trigger]]
    cron = \"*/10 * * * * *\"      # six fields: every 10 seconds
    timezone = \"UTC\"

Then:

    ql3 check jobs.toml          validate it, without a database
    ql3 up jobs.toml             apply it, schedule and run; Ctrl-C stops
    ql3 runs                     what ran, from another terminal
    ql3 run logs latest          what it printed
    ql3 triggers                 what runs when
    ql3 next '0 3 * * *' --tz Europe/Berlin

`ql3 help` lists every command, `ql3 help COMMAND` explains one.
";

/// Cron triggers as durable Runs, exactly once each.
#[derive(Debug, Parser)]
#[command(name = "ql3", version, styles = STYLES, max_term_width = 120)]
#[command(after_help = "Exit codes: 0 done, 1 findings, 2 usage, 3 invalid input, 4 not found, 5 try again, 6 already running, \
                        7 database refused, 8 state conflict.")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Clone, Debug, Args)]
pub struct Global {
    /// The database file
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        env = "QL3_DB",
        default_value = "ql3.db",
        value_name = "PATH",
        hide_env_values = true
    )]
    pub db: PathBuf,
    /// Print JSON; errors go to stderr as {"error":{"code","message","hint"}}
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// The project [default: what the jobs file says, or `default`]
    #[arg(long, global = true, help_heading = "Global options", env = "QL3_PROJECT", value_name = "ID", value_parser = project, hide_env_values = true)]
    pub project: Option<ProjectId>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Schedule and run jobs in the foreground
    Up(Up),
    /// Make a jobs file the current definitions of its project
    #[command(after_help = "Examples:
  ql3 apply jobs.toml --dry-run    show what would change
  ql3 apply jobs.toml              change it; a running `ql3 up` notices
  generate-jobs | ql3 apply -      read the file from standard input

What the file does not name is archived: it stops running, its history stays. The same file again changes nothing.")]
    Apply {
        /// The jobs file, `-` for standard input
        file: PathBuf,
        /// Show what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Validate a jobs file, without a database
    #[command(after_help = "Examples:
  ql3 check jobs.toml
  ql3 check jobs.toml --json       errors with file, line, column, field and what is allowed

Every error of the file is reported, not only the first.")]
    Check {
        /// The jobs file, `-` for standard input
        file: PathBuf,
    },
    /// Make a jobs file of a crontab or a Qinglong export
    #[command(subcommand)]
    Import(Import),
    /// Show when an expression or a trigger runs next
    Next(Next),
    /// Show the whole state on one screen
    #[command(after_help = "Example:\n  ql3 status")]
    Status,
    /// List tasks
    #[command(
        after_help = "Examples:\n  ql3 tasks\n  ql3 tasks --json | jq '.tasks[].id'\n\nOf `env` only the names are shown, never the values."
    )]
    Tasks,
    /// List triggers, with their next and last occurrence
    #[command(after_help = "Examples:
  ql3 triggers
  ql3 triggers --attention         what is set aside, late, failing or has never run comes first
  ql3 triggers --json | jq '.triggers[] | select(.state != \"active\")'")]
    Triggers {
        /// First what needs a look, and why: set aside, late, failing, never run
        #[arg(long)]
        attention: bool,
    },
    /// List Runs, newest first
    Runs(Runs),
    /// Show, start, cancel or repeat a Run
    #[command(subcommand, after_help = REFERENCES)]
    Run(Run),
    /// Explain what became, or will become, of one instant of a trigger
    #[command(after_help = "Examples:
  ql3 why nightly 2026-03-29T02:30           the wall clock of the trigger's zone
  ql3 why nightly 2026-03-29T01:00:00Z       an instant
  ql3 why nightly 2026-03-29T02:30 --json | jq -r .verdict

It was admitted, or it was not run for a reason that is recorded, or it lies ahead, or it is no occurrence: then the nearest ones are \
shown. What is asked about is judged by the revision that was current then.")]
    Why {
        #[arg(value_name = "TRIGGER", value_parser = trigger)]
        trigger: TriggerId,
        /// 2026-03-29T02:30 on the wall clock of the trigger's zone, or RFC 3339
        #[arg(value_name = "INSTANT")]
        instant: String,
    },
    /// Record a trigger's occurrences instead of running them, until it is resumed
    #[command(after_help = "Examples:
  ql3 pause nightly
  ql3 pause nightly --reason \"the disk is being replaced\"

What runs goes on. A pause is no change of the definition: applying a file keeps it. `ql3 triggers` shows who paused what, and why.")]
    Pause {
        #[arg(value_name = "TRIGGER", value_parser = trigger)]
        trigger: TriggerId,
        /// Recorded with the act, and shown while the pause lasts
        #[arg(long)]
        reason: Option<String>,
    },
    /// Run a paused trigger's occurrences again, from now on
    #[command(after_help = "Examples:
  ql3 resume nightly
  ql3 resume nightly --missed one      one Run makes up for what the pause kept back

What the pause kept back stays recorded as `paused`. With `--missed one` the latest of it is run now, unless the trigger skips overlaps \
and a Run of it is unfinished.")]
    Resume {
        #[arg(value_name = "TRIGGER", value_parser = trigger)]
        trigger: TriggerId,
        /// What becomes of the occurrences that the pause kept back
        #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
        missed: MissedChoice,
        /// Recorded with the act
        #[arg(long)]
        reason: Option<String>,
    },
    /// List what operators did, newest first
    #[command(after_help = "Examples:\n  ql3 acts\n  ql3 acts --limit 500 --json | jq '.acts[] | select(.act == \"pause\")'")]
    Acts {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(LIST_PAGE_MAX)))]
        limit: u32,
    },
    /// Remove old history: finished Runs with their output, and reasons why something did not run
    #[command(after_help = "Examples:
  ql3 prune --older-than 90d --dry-run     show how much would go
  ql3 prune --older-than 90d               beside a running `ql3 up`, too

Of every project, in small batches, so that scheduling goes on. Unfinished Runs stay, and Runs that those repeat. What proves that an \
occurrence was admitted stays, so nothing runs again. A key of `run start --key` is forgotten with its Run. The file does not shrink, \
its space is used again; a backup is compact. `ql3 up --keep 90d` does it by itself.")]
    Prune {
        /// What ended longer ago than this: 90d, 12h
        #[arg(long = "older-than", value_name = "DURATION", value_parser = duration::parse)]
        older_than_ms: u64,
        /// Show how much would go, and remove nothing
        #[arg(long)]
        dry_run: bool,
        /// Recorded with the act
        #[arg(long)]
        reason: Option<String>,
    },
    /// Copy the database to a file, while it is used
    #[command(after_help = "Examples:
  ql3 backup ql3-2026-03-29.db
  ql3 backup --force /backup/ql3.db      replace an older copy, at once and only by a whole one

The copy is one moment of the database, and it is checked before it gets its name. To go back to it, stop `ql3 up` and put it in the \
place of the database, without the old `-wal` and `-shm` beside it. Output of Runs is not in it.")]
    Backup {
        /// The copy
        file: PathBuf,
        /// Replace the file if it exists
        #[arg(long)]
        force: bool,
    },
    /// Check the stored facts: one Run an occurrence, sequences, versions, digests
    #[command(after_help = "Example:\n  ql3 verify && echo fine\n\nExit code 0 only if nothing was found, 1 if something was.")]
    Verify,
    /// Print what a shell needs to complete commands
    Completions(Completions),
    /// Print the manual page, or write one for each command
    Man(Man),
    /// Tell the version, the zone data and the cron dialect
    #[command(after_help = "Example:\n  ql3 version --json")]
    Version,
    /// Tell the scheduler that the machine's clock is right
    #[command(subcommand)]
    Clock(Clock),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ql3 up                           go on with what the database holds
  ql3 up jobs.toml                 apply the file first
  ql3 up jobs.toml --for 65s       end by itself after 65 seconds

Ctrl-C or SIGTERM stops admitting, lets what runs finish for --drain, then stops it so that the next `up` recovers it. A second signal
stops at once. The exit code tells how `up` itself ended: Runs that failed are listed by `ql3 runs --status failed`, and do not change it.")]
pub struct Up {
    /// A jobs file to apply first, `-` for standard input
    pub file: Option<PathBuf>,
    /// End by itself after so long: 65s, 5m, 1h
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
    pub for_ms: Option<u64>,
    /// So many Runs at once, over all tasks
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub max_concurrent: u32,
    /// Remove what ended longer ago than this, by and by, as `ql3 prune` does [default: keep everything]
    #[arg(long = "keep", value_name = "DURATION", value_parser = duration::parse)]
    pub keep_ms: Option<u64>,
    /// At the end, what runs may go on for so long before it is stopped
    #[arg(long = "drain", value_name = "DURATION", value_parser = duration::parse, default_value = "10s")]
    pub drain_ms: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ql3 next '0 3 * * *' --tz Europe/Berlin
  ql3 next '30 2 * * *' --tz Europe/Berlin --after 2026-03-28T00:00:00Z -n 3
  ql3 next --trigger nightly

Times that daylight saving moves or repeats are marked. The same evaluator decides what `ql3 up` runs; the machine's own zone never matters.")]
pub struct Next {
    /// Cron expression: `minute hour day-of-month month day-of-week`, with seconds before them if wanted
    #[arg(required_unless_present = "trigger", conflicts_with = "trigger")]
    pub expression: Option<String>,
    /// IANA zone, such as Europe/Berlin or UTC
    #[arg(long, value_name = "ZONE", required_unless_present = "trigger", conflicts_with = "trigger")]
    pub tz: Option<String>,
    /// A trigger of the database instead of an expression
    #[arg(long, value_name = "ID", value_parser = trigger)]
    pub trigger: Option<TriggerId>,
    /// Only occurrences after this instant [default: now]
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    pub after: Option<TimestampMs>,
    /// How many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub count: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ql3 runs --since 2h
  ql3 runs --status failed,timed_out --limit 100
  ql3 runs --failing-first         what went wrong, then the newest others
  ql3 runs --trigger nightly --json
  ql3 runs --limit 500 --after \"$CURSOR\"    the next page: CURSOR is `.next` of the page before")]
pub struct Runs {
    /// Only in these states: queued, running, succeeded, failed, …
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    pub status: Vec<RunStatus>,
    /// Only of this task
    #[arg(long, value_name = "ID", value_parser = task)]
    pub task: Option<TaskId>,
    /// Only of this trigger
    #[arg(long, value_name = "ID", value_parser = trigger)]
    pub trigger: Option<TriggerId>,
    /// Only created since an instant, or within a duration: 2026-03-29T00:00:00Z, 2h
    #[arg(long, value_name = "INSTANT|DURATION", value_parser = Since::parse)]
    pub since: Option<Since>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(LIST_PAGE_MAX)))]
    pub limit: u32,
    /// First what failed, timed out or waits for another try, then the newest others
    #[arg(long, conflicts_with = "after")]
    pub failing_first: bool,
    /// Go on where a page ended
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
}

const REFERENCES: &str = "\
RUN is an id, the beginning or the end of one (at least 4 characters), or `latest`. Ends are what tables show: the beginnings of ids \
made at the same time are alike. An end is looked for among the newest 10,000 Runs of the project.

Examples:
  ql3 run show latest
  ql3 run logs -f 3fa9c1d2
  ql3 run start backup
  ql3 run cancel 3fa9c1d2 --reason \"wrong database\"
  ql3 run retry 3fa9c1d2";

#[derive(Debug, Subcommand)]
pub enum Run {
    /// Show a Run with its attempts
    #[command(after_help = "Example:\n  ql3 run show latest")]
    Show {
        /// See `ql3 help run`
        #[arg(value_name = "RUN", value_parser = RunRef::parse)]
        run: RunRef,
    },
    /// List what happened to a Run
    #[command(after_help = "Example:\n  ql3 run events 3fa9c1d2")]
    Events {
        /// See `ql3 help run`
        #[arg(value_name = "RUN", value_parser = RunRef::parse)]
        run: RunRef,
    },
    /// Print what a Run printed
    #[command(after_help = "Examples:
  ql3 run logs latest
  ql3 run logs -f 3fa9c1d2         go on until the Run ends
  ql3 run logs latest --raw        every byte as it was written

Bytes that are not UTF-8 are shown as \\xNN. Control characters are shown as they are only with --raw.")]
    Logs(Logs),
    /// Start a task now
    #[command(
        after_help = "Examples:\n  ql3 run start backup\n  ql3 run start backup --key 2026-03-29    once, however often it is repeated"
    )]
    Start {
        #[arg(value_name = "TASK", value_parser = task)]
        task: TaskId,
        /// A second start with the same key answers with the first Run
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
        /// Recorded with the act
        #[arg(long)]
        reason: Option<String>,
    },
    /// Ask a Run to end
    #[command(after_help = "Example:\n  ql3 run cancel 3fa9c1d2 --reason \"wrong database\"")]
    Cancel {
        /// See `ql3 help run`
        #[arg(value_name = "RUN", value_parser = RunRef::parse)]
        run: RunRef,
        /// Recorded with the act
        #[arg(long)]
        reason: Option<String>,
    },
    /// Run again what has ended, as a new Run of the same task revision
    #[command(after_help = "Example:\n  ql3 run retry 3fa9c1d2")]
    Retry {
        /// See `ql3 help run`
        #[arg(value_name = "RUN", value_parser = RunRef::parse)]
        run: RunRef,
        /// Recorded with the act
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct Logs {
    /// See `ql3 help run`
    #[arg(value_name = "RUN", value_parser = RunRef::parse)]
    pub run: RunRef,
    /// Go on until the Run ends
    #[arg(short, long)]
    pub follow: bool,
    /// Of this attempt [default: the latest]
    #[arg(long, value_name = "N")]
    pub attempt: Option<u32>,
    /// Every byte as it was written
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
}

/// `--missed`.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum MissedChoice {
    /// Nothing is run for them
    #[default]
    Skip,
    /// One Run, for the latest of them
    One,
}

#[derive(Debug, Subcommand)]
pub enum Clock {
    /// Accept the machine's clock as it is now, after `clock_regressed` or `clock_gap`
    #[command(after_help = "Example:
  ql3 clock accept --reason \"the clock ran a day ahead, NTP has put it right\"

Nothing is scheduled while the clock is behind what was recorded before. If the clock is right now and was wrong then, accept it: \
what is stored in the future is pulled back. No occurrence is run twice by it.")]
    Accept {
        /// Recorded with the act
        #[arg(long)]
        reason: Option<String>,
    },
}

/// Core's refusals in clap's words.
fn refused(invalid: runtime_core::Invalid) -> String {
    match invalid.hint {
        Some(hint) => format!("{}; {hint}", invalid.reason),
        None => invalid.reason,
    }
}

fn project(text: &str) -> Result<ProjectId, String> {
    ProjectId::new(text).map_err(refused)
}

fn task(text: &str) -> Result<TaskId, String> {
    TaskId::new(text).map_err(refused)
}

fn trigger(text: &str) -> Result<TriggerId, String> {
    TriggerId::new(text).map_err(refused)
}

fn status(text: &str) -> Result<RunStatus, String> {
    RunStatus::parse(text).map_err(refused)
}

fn instant(text: &str) -> Result<TimestampMs, String> {
    TimestampMs::parse(text).map_err(refused)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn walk(command: &clap::Command, path: &str) {
            let own = format!("{path} {}", command.get_name());
            if command.get_subcommands().next().is_none() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example"), "{own} has no examples");
                assert!(help.contains(own.trim()), "the examples of {own} do not show it");
            }
            command.get_subcommands().for_each(|command| walk(command, &own));
        }
        walk(&Cli::command(), "");
    }
}
