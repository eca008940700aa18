//! Reading a file and giving orders, beside its scheduler or without one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use edge_sqlite::{Authority, SqliteOptions, SqliteStore};
use runtime_core::{AuthorityClock, StoreError, TimestampMs};

use crate::{RandomIds, SystemClock, options::log_dir};

/// A file, open for commands. It never claims and never executes.
pub struct EdgeClient {
    store: SqliteStore,
    log_dir: PathBuf,
}

impl EdgeClient {
    /// Opens the file.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is none; see [`SqliteStore::open_existing`].
    pub async fn open(db: impl AsRef<Path>) -> Result<Self, StoreError> {
        let db = db.as_ref();
        Ok(Self { store: SqliteStore::open_existing(SqliteOptions::new(db), authority()).await?, log_dir: log_dir(db) })
    }

    /// Opens the file, and makes it if it is missing: for the first command that writes definitions.
    ///
    /// # Errors
    /// See [`SqliteStore::open_or_create`].
    pub async fn open_or_create(db: impl AsRef<Path>) -> Result<Self, StoreError> {
        let db = db.as_ref();
        Ok(Self { store: SqliteStore::open_or_create(SqliteOptions::new(db), authority()).await?, log_dir: log_dir(db) })
    }

    /// The store.
    pub fn store(&self) -> &SqliteStore {
        &self.store
    }

    /// Directory of output, for [`crate::logs`], where it was not chosen otherwise.
    pub fn log_dir(&self) -> &Path {
        &self.log_dir
    }

    /// The authority's clock.
    pub fn now(&self) -> TimestampMs {
        SystemClock.now()
    }

    /// Finishes what was asked for, and closes.
    pub async fn close(self) {
        self.store.close().await;
    }
}

fn authority() -> Authority {
    Authority { clock: Arc::new(SystemClock), ids: Arc::new(RandomIds::default()) }
}
