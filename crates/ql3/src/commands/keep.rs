//! `up --keep`: history is pruned by and by, in a loop of its own that never holds up the schedule.

use std::{path::Path, time::Duration};

use edge_control::{BootClock, SqliteStore};
use runtime_core::{MonotonicClock as _, StoreError, TimestampMs, ports::definitions::Operator};
use serde_json::json;

use super::prune::{Pruner, Removed};
use crate::{live::Live, moment};

/// The first look comes soon after the start, when what was missed has been caught up with.
const FIRST: Duration = Duration::from_secs(1);
/// Looks are a tenth of what is kept apart, within these bounds.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_hours(1);

/// What is kept, and on whose account the rest goes.
pub struct Keep {
    pub ms: u64,
    pub by: Operator,
}

impl Keep {
    /// Prunes until it is dropped. Trouble is told and tried again at the next look.
    pub async fn run(&self, store: &SqliteStore, log_dir: &Path, live: &Live) {
        let pruner = Pruner { retention: store, runs: store, log_dir };
        let pause = Duration::from_millis(self.ms / 10).clamp(LEAST, MOST);
        let started = (moment::now(), BootClock.now_ms());
        tokio::time::sleep(FIRST).await;
        loop {
            let now = believed(started, moment::now(), BootClock.now_ms());
            let before = now.minus_ms(self.ms);
            match pruner.prune(before, false, self.by.clone()).await {
                Ok(removed) if removed.any() => tell(&removed, before, live),
                Ok(_) => {}
                // The end of `up` closes the store.
                Err(StoreError::Closed) => return std::future::pending().await,
                Err(error) => live.say(
                    format_args!("history could not be pruned: {error}"),
                    || json!({ "event": "prune_trouble", "at": moment::now().to_string(), "message": error.to_string() }),
                ),
            }
            tokio::time::sleep(pause).await;
        }
    }
}

/// A wall clock that leapt ahead since the start makes nothing old.
fn believed(started: (TimestampMs, u64), wall: TimestampMs, monotonic_ms: u64) -> TimestampMs {
    wall.min(started.0.plus_ms(monotonic_ms.saturating_sub(started.1)))
}

fn tell(removed: &Removed, before: TimestampMs, live: &Live) {
    let Removed { runs, ledger_entries, log_dirs, log_trouble } = removed;
    live.say(format_args!("pruned {runs} Runs and {ledger_entries} ledger entries that ended before {}", moment::utc(before)), || {
        json!({
            "event": "pruned", "at": moment::now().to_string(), "before": before.to_string(), "runs": runs, "ledgerEntries": ledger_entries,
            "logDirs": log_dirs, "logDirsLeft": log_trouble.as_ref().map_or(0, |(n, _)| *n),
        })
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_leaps_makes_nothing_old() {
        let at = |ms| TimestampMs::new(ms).unwrap();
        assert_eq!(believed((at(1_000), 50), at(2_000), 1_050), at(2_000));
        assert_eq!(believed((at(1_000), 50), at(900_000), 1_050), at(2_000), "ahead");
        assert_eq!(believed((at(1_000), 50), at(500), 1_050), at(500), "behind");
    }
}
