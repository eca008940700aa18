//! `prune`: removes old history in small batches, and the output that belongs to it. `up --keep` does the same in a loop of its own.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use edge_control::logs::run_dir;
use runtime_core::{
    StoreError, TimestampMs,
    ids::RunId,
    ports::{
        definitions::Operator,
        retention::{PruneCommand, RetentionStore},
        runs::RunReader,
    },
};
use serde_json::json;

use super::{count, operator, with_db};
use crate::{cli::Global, failure::Failure, moment, output::Out};

/// Runs looked at in one transaction.
const PAGE: u32 = 100;
/// Between transactions others get their turn: SQLite gives the lock to whoever happens to ask for it.
const PAUSE: Duration = Duration::from_millis(10);

/// A store and where it keeps output.
pub struct Pruner<'a> {
    pub retention: &'a dyn RetentionStore,
    pub runs: &'a dyn RunReader,
    pub log_dir: &'a Path,
}

/// What was removed, or would be.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub runs: u64,
    pub ledger_entries: u64,
    /// Directories of output, also of Runs that an earlier prune removed before it was interrupted.
    pub log_dirs: u64,
    /// Of those, how many could not be removed, and why the first one could not.
    pub log_trouble: Option<(u64, String)>,
}

impl Removed {
    pub fn any(&self) -> bool {
        self.runs > 0 || self.ledger_entries > 0 || self.log_dirs > 0
    }
}

pub async fn run(older_than_ms: u64, dry_run: bool, reason: Option<String>, global: &Global, out: &Out) -> Result<(), Failure> {
    let by = operator(reason)?;
    let before = moment::now().minus_ms(older_than_ms);
    let removed = with_db(global, async |db| {
        let pruner = Pruner { retention: db.retention(), runs: db.runs(), log_dir: db.log_dir() };
        Ok(pruner.prune(before, dry_run, by).await?)
    })
    .await?;
    if out.json {
        out.json(&json!({
            "before": before.to_string(), "dryRun": dry_run, "runs": removed.runs, "ledgerEntries": removed.ledger_entries,
            "logDirs": removed.log_dirs, "logDirsLeft": removed.log_trouble.as_ref().map_or(0, |(n, _)| *n),
        }));
        return Ok(());
    }
    let (verb, end) = if dry_run { ("would remove", " (dry run: nothing was removed)") } else { ("removed", "") };
    let entries = match removed.ledger_entries {
        1 => "1 ledger entry".to_owned(),
        n => format!("{n} ledger entries"),
    };
    out.line(format_args!("{verb} {} and {entries} that ended before {}{end}", count(removed.runs, "Run"), moment::utc(before)));
    if let Some((left, why)) = &removed.log_trouble {
        out.line(out.paint.yellow(format_args!("{} could not be removed: {why}", count(*left, "directory of output"))));
    }
    Ok(())
}

impl Pruner<'_> {
    /// Removes what ended before an instant. The act is recorded with the first batch that removes anything.
    pub async fn prune(&self, before: TimestampMs, dry_run: bool, by: Operator) -> Result<Removed, StoreError> {
        let mut removed = Removed::default();
        let mut command = PruneCommand { before, page: PAGE, dry_run, by: Some(by) };
        let mut after = None;
        loop {
            let page = self.retention.prune_runs(&command, after).await?;
            removed.runs += page.runs.len() as u64;
            if !page.runs.is_empty() {
                command.by = None;
                if !dry_run {
                    self.remove_output(page.runs.iter().map(|id| run_dir(self.log_dir, *id)).collect(), &mut removed).await;
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        loop {
            let page = self.retention.prune_ledger(&command).await?;
            removed.ledger_entries += page.entries;
            if page.entries > 0 {
                command.by = None;
            }
            if !page.saturated {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        if !dry_run {
            self.sweep(before, &mut removed).await?;
        }
        Ok(removed)
    }

    /// Output without a Run: a prune that was interrupted between the Run and its output left it behind.
    async fn sweep(&self, before: TimestampMs, removed: &mut Removed) -> Result<(), StoreError> {
        let log_dir = self.log_dir.to_owned();
        let old = blocking(move || old_dirs(&log_dir, before)).await;
        let mut orphans = Vec::new();
        for (id, dir) in old {
            if self.runs.run(id).await?.is_none() {
                orphans.push(dir);
            }
        }
        self.remove_output(orphans, removed).await;
        Ok(())
    }

    async fn remove_output(&self, dirs: Vec<PathBuf>, removed: &mut Removed) {
        let (gone, left) = blocking(move || remove_dirs(&dirs)).await;
        removed.log_dirs += gone;
        if let Some((n, why)) = left {
            let trouble = removed.log_trouble.get_or_insert((0, why));
            trouble.0 += n;
        }
    }
}

/// Runs file work beside the runtime, which may be the scheduler's.
async fn blocking<T: Send + Default + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_default()
}

/// Directories that are named as Runs of before an instant: an id tells when it was made.
fn old_dirs(log_dir: &Path, before: TimestampMs) -> BTreeMap<RunId, PathBuf> {
    let Ok(entries) = fs::read_dir(log_dir) else { return BTreeMap::new() };
    let old = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        let (seconds, nanos) = uuid::Uuid::parse_str(&name).ok()?.get_timestamp()?.to_unix();
        let made_ms = seconds.checked_mul(1_000)?.checked_add(u64::from(nanos) / 1_000_000)?;
        (i64::try_from(made_ms).ok()? < before.get()).then_some((name.parse().ok()?, entry.path()))
    };
    entries.filter_map(old).collect()
}

/// How many directories are gone, and how many are left with the first cause.
fn remove_dirs(dirs: &[PathBuf]) -> (u64, Option<(u64, String)>) {
    let (mut gone, mut left) = (0, None::<(u64, String)>);
    for dir in dirs {
        match fs::remove_dir_all(dir) {
            Ok(()) => gone += 1,
            // A Run that never started printed nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => left.get_or_insert_with(|| (0, format!("{}: {error}", dir.display()))).0 += 1,
        }
    }
    (gone, left)
}
