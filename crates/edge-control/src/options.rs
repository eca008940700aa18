//! What a user of the edge profile may choose.

use std::path::{Path, PathBuf};

use local_process::{ABANDON_GRACE_MS, LocalProcessOptions};
use runtime_core::{
    Invalid,
    ids::{IdSource, OwnerId, WorkerId},
    limits::{CLAIM_PAGE_MAX, LEASE_MS_DEFAULT, MISFIRE_GRACE_MS_DEFAULT},
};
use runtime_engine::EngineOptions;

/// The worker of a file: the same at every start, so that it settles what its earlier starts left behind.
const WORKER: &str = "edge";

/// An edge. All times in milliseconds.
#[derive(Clone, Debug)]
pub struct EdgeOptions {
    /// The database file.
    pub db: PathBuf,
    /// Directory of output and exit records.
    pub log_dir: PathBuf,
    /// A program whose `main` begins with [`crate::run_if_guard`].
    pub guard_program: PathBuf,
    /// Up to twice as much output of an attempt is kept, in bytes.
    pub output_bytes_max: u64,
    /// Lease of claims and of attempts, 8000 ..= 60000. An attempt whose guard was killed is settled after so long at the latest.
    pub lease_ms: u64,
    /// How late an occurrence may be admitted before it counts as a misfire; at least twice the lease and 5 s, at most 5 min.
    pub misfire_grace_ms: u64,
    /// Attempts at once, 1 ..= 256.
    pub max_concurrent: u32,
    /// How long running attempts may go on once the edge is asked to stop.
    pub drain_ms: u64,
    /// Between TERM and KILL at a timeout, a cancellation and the end of the drain.
    pub kill_grace_ms: u64,
}

impl EdgeOptions {
    /// The defaults for the file at `db`; its logs lie in `<db>.logs`.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        let db = db.into();
        let LocalProcessOptions { log_dir, guard_program, output_bytes_max } = LocalProcessOptions::new(log_dir(&db));
        Self {
            db,
            log_dir,
            guard_program,
            output_bytes_max,
            lease_ms: LEASE_MS_DEFAULT,
            misfire_grace_ms: MISFIRE_GRACE_MS_DEFAULT,
            max_concurrent: 16,
            drain_ms: 10_000,
            kill_grace_ms: 5_000,
        }
    }

    /// The engine's part, checked.
    pub(crate) fn engine(&self, ids: &dyn IdSource) -> Result<EngineOptions, Invalid> {
        let owner = ids.uuid_v7(runtime_core::TimestampMs::EPOCH);
        let engine = EngineOptions {
            lease_ms: self.lease_ms,
            misfire_grace_ms: self.misfire_grace_ms,
            page: CLAIM_PAGE_MAX,
            max_concurrent: self.max_concurrent,
            drain_ms: self.drain_ms,
            kill_grace_ms: self.kill_grace_ms,
            ..EngineOptions::new(OwnerId::new(owner.to_string())?, WorkerId::new(WORKER)?)
        };
        engine.check()?;
        // The engine keeps a quarter of the lease for the end of the processes.
        if self.lease_ms / 4 < ABANDON_GRACE_MS {
            let least = 4 * ABANDON_GRACE_MS;
            return Err(Invalid::new("lease_ms", format!("is {}, at least {least} are needed to end a process in time", self.lease_ms)));
        }
        Ok(engine)
    }

    pub(crate) fn executor(&self) -> LocalProcessOptions {
        LocalProcessOptions {
            log_dir: self.log_dir.clone(),
            guard_program: self.guard_program.clone(),
            output_bytes_max: self.output_bytes_max,
        }
    }
}

/// Where the output of the attempts of a file is kept: beside the file itself, whatever link leads to it, since recovery looks there.
pub(crate) fn log_dir(db: &Path) -> PathBuf {
    let file = if db.is_symlink() { db.canonicalize().ok() } else { None };
    let mut path = file.map_or_else(|| db.as_os_str().to_owned(), PathBuf::into_os_string);
    path.push(".logs");
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomIds;

    #[test]
    fn options_that_cannot_keep_the_promise_are_refused() {
        let field = |change: fn(&mut EdgeOptions)| {
            let mut options = EdgeOptions::new("ql3.db");
            change(&mut options);
            options.engine(&RandomIds::default()).map_or_else(|invalid| invalid.field, |_| "fine".to_owned())
        };
        assert_eq!(field(|_| ()), "fine");
        assert_eq!(field(|o| (o.lease_ms, o.misfire_grace_ms) = (8_000, 21_000)), "fine");
        assert_eq!(field(|o| (o.lease_ms, o.misfire_grace_ms) = (7_999, 21_000)), "lease_ms");
        assert_eq!(field(|o| o.lease_ms = 60_001), "lease_ms");
        assert_eq!(field(|o| o.misfire_grace_ms = 64_999), "misfire_grace_ms");
        assert_eq!(field(|o| o.max_concurrent = 0), "max_concurrent");
    }

    #[test]
    fn logs_lie_beside_the_file() {
        assert_eq!(EdgeOptions::new("/var/lib/ql3/a.db").log_dir, Path::new("/var/lib/ql3/a.db.logs"));
    }

    #[test]
    fn a_link_leads_to_the_same_logs() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        std::fs::write(folder.join("a.db"), "").unwrap();
        std::os::unix::fs::symlink("a.db", folder.join("link.db")).unwrap();
        assert_eq!(EdgeOptions::new(folder.join("link.db")).log_dir, folder.join("a.db.logs"));
    }

    #[test]
    fn every_start_is_another_owner_and_the_same_worker() {
        let options = EdgeOptions::new("ql3.db");
        let (one, two) = (options.engine(&RandomIds::default()).unwrap(), options.engine(&RandomIds::default()).unwrap());
        assert_ne!(one.owner_id, two.owner_id);
        assert_eq!(one.worker_id, two.worker_id);
    }
}
