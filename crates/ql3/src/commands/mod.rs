//! What each command does. A command reads or writes through the ports of the core and prints; it decides nothing.

mod acts;
mod apply;
mod backup;
mod check;
mod clock;
mod generate;
mod import;
mod keep;
mod lists;
mod logs;
mod next;
mod pause;
mod prune;
mod run;
mod runs;
mod status;
mod up;
mod verify;
mod why;

use std::process::ExitCode;

use runtime_core::{cron, ids::ProjectId, ports::definitions::Operator};
use serde_json::json;

use crate::{
    cli::{Clock, Command, Global},
    failure::Failure,
    output::Out,
    store::Db,
};

/// Runs one command.
pub async fn run(command: Command, global: &Global, out: &Out) -> Result<ExitCode, Failure> {
    match command {
        Command::Up(args) => return up::run(args, global, out).await,
        Command::Apply { file, dry_run } => apply::run(&file, dry_run, global, out).await?,
        Command::Check { file } => check::run(&file, global, out)?,
        Command::Import(command) => return import::run(command, global, out),
        Command::Next(args) => next::run(args, global, out).await?,
        Command::Status => status::run(global, out).await?,
        Command::Tasks => lists::tasks(global, out).await?,
        Command::Triggers { attention } => lists::triggers(attention, global, out).await?,
        Command::Runs(args) => runs::run(args, global, out).await?,
        Command::Run(command) => run::run(command, global, out).await?,
        Command::Why { trigger, instant } => why::run(trigger, instant, global, out).await?,
        Command::Pause { trigger, reason } => pause::pause(trigger, reason, global, out).await?,
        Command::Resume { trigger, missed, reason } => pause::resume(trigger, missed, reason, global, out).await?,
        Command::Acts { limit } => acts::run(limit, global, out).await?,
        Command::Prune { older_than_ms, dry_run, reason } => prune::run(older_than_ms, dry_run, reason, global, out).await?,
        Command::Backup { file, force } => backup::run(&file, force, global, out).await?,
        Command::Verify => return verify::run(global, out).await,
        Command::Completions(args) => generate::completions(args.shell, out),
        Command::Man(args) => generate::man(args.dir.as_deref(), out)?,
        Command::Version => version(out),
        Command::Clock(Clock::Accept { reason }) => clock::accept(reason, global, out).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What `ql3` alone does.
pub fn getting_started(out: &Out) {
    out.text(crate::cli::GETTING_STARTED);
}

fn version(out: &Out) {
    let (version, zone_data) = (env!("CARGO_PKG_VERSION"), cron::zone_data_version());
    if out.json {
        out.json(&json!({ "version": version, "zoneData": zone_data, "dialect": cron::DIALECT }));
    } else {
        out.line(format_args!("ql3 {version} (zone data {zone_data}, cron dialect {})", cron::DIALECT));
    }
}

/// The project that a command without a jobs file speaks of.
fn project(global: &Global) -> ProjectId {
    global.project.clone().unwrap_or_else(default_project)
}

fn default_project() -> ProjectId {
    ProjectId::new("default").expect("a constant within the alphabet")
}

/// `1 task`, `2 tasks`.
fn count(n: impl TryInto<u64>, what: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Who acts, for the record: `QL3_OPERATOR`, or the user's name.
fn operator(reason: Option<String>) -> Result<Operator, Failure> {
    let names = ["QL3_OPERATOR", "USER", "LOGNAME"];
    let name = names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let operator = Operator { name: name.unwrap_or_else(|| "unknown".to_owned()), reason };
    operator.check()?;
    Ok(operator)
}

/// Does `work` with the database, which must exist.
async fn with_db<T>(global: &Global, work: impl AsyncFnOnce(&Db) -> Result<T, Failure>) -> Result<T, Failure> {
    let db = Db::open_existing(&global.db).await?;
    let done = work(&db).await;
    db.close().await;
    done
}
