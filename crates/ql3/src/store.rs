//! The database as commands see it: the ports, and where output is kept.

use std::{fs, path::Path};

use edge_control::EdgeClient;
use runtime_core::{
    StoreError,
    ports::{
        control::ControlStore, definitions::DefinitionStore, history::HistoryStore, instants::InstantStore, retention::RetentionStore,
        runs::RunReader,
    },
};

use crate::failure::{Exit, Failure};

/// An open database.
pub struct Db {
    client: EdgeClient,
}

impl Db {
    /// Opens the file; a missing one is an error and stays missing, so that a command that only looks leaves nothing behind.
    pub async fn open_existing(path: &Path) -> Result<Self, Failure> {
        check_kind(path)?;
        match EdgeClient::open(path).await {
            Ok(client) => Ok(Self { client }),
            Err(StoreError::NotFound { .. }) => {
                let message = format!("there is no database at {}", path.display());
                Err(Failure::new(Exit::NotFound, "database_missing", message)
                    .hint("`ql3 up jobs.toml` or `ql3 apply jobs.toml` makes one; --db PATH or QL3_DB names another"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the file, and makes it if it is missing.
    pub async fn open_or_create(path: &Path) -> Result<Self, Failure> {
        check_kind(path)?;
        Ok(Self { client: EdgeClient::open_or_create(path).await? })
    }

    pub fn history(&self) -> &dyn HistoryStore {
        self.client.store()
    }

    pub fn instants(&self) -> &dyn InstantStore {
        self.client.store()
    }

    /// Whether a `ql3 up` runs on the file.
    pub fn has_scheduler(&self) -> Result<bool, StoreError> {
        self.client.store().has_scheduler()
    }

    /// The `ql3 up` that runs on the file: `pid 7 since 2026-03-29T01:00:00Z`.
    pub fn scheduler(&self) -> Result<Option<String>, StoreError> {
        self.client.store().scheduler()
    }

    pub fn control(&self) -> &dyn ControlStore {
        self.client.store()
    }

    pub fn definitions(&self) -> &dyn DefinitionStore {
        self.client.store()
    }

    pub fn retention(&self) -> &dyn RetentionStore {
        self.client.store()
    }

    /// Copies the file; see [`edge_control::SqliteStore::backup`].
    pub async fn backup(&self, to: &Path, replace: bool) -> Result<u64, StoreError> {
        self.client.store().backup(to, replace).await
    }

    pub fn runs(&self) -> &dyn RunReader {
        self.client.store()
    }

    /// Directory of the output of attempts.
    pub fn log_dir(&self) -> &Path {
        self.client.log_dir()
    }

    /// Finishes what was asked for, and closes.
    pub async fn close(self) {
        self.client.close().await;
    }
}

/// A database is a regular file, or will be one: what SQLite says of anything else helps nobody.
pub fn check_kind(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let kind = if found.is_dir() { "a directory" } else { "not a regular file" };
            let message = format!("{} is {kind}, so it cannot be the database", path.display());
            Err(Failure::new(Exit::Invalid, "invalid_input", message)
                .hint("--db PATH or QL3_DB names the file; it is made if it is missing"))
        }
        _ => Ok(()),
    }
}
