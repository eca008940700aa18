//! The handle that everybody shares.

use std::sync::Arc;

use runtime_core::StoreError;
use rusqlite::Connection;

use crate::{
    error::{store_error, unavailable},
    lock::{self, SchedulerLock},
    open::{Authority, Reader, SqliteOptions, Writer, resolved, wal_bytes},
    owner::Owner,
    tx::{self, Command},
};

/// A database file, open. Clones share its connections; the last one to go closes them.
///
/// Any number of processes may read and write the file beside each other. Claiming is for the one that is the scheduler
/// ([`SqliteStore::become_scheduler`]).
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    writer: Owner<Writer>,
    reader: Owner<Reader>,
    options: SqliteOptions,
}

/// Sizes, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Of the database file.
    pub database_bytes: u64,
    /// Of its write-ahead log.
    pub wal_bytes: u64,
}

impl SqliteStore {
    /// Opens the file, makes it if it is missing, and applies the migrations that it lacks.
    ///
    /// # Errors
    ///
    /// [`StoreError::MigrationHistory`] and [`StoreError::SchemaNewer`], before anything is written; [`StoreError::Unavailable`].
    pub async fn open_or_create(options: SqliteOptions, authority: Authority) -> Result<Self, StoreError> {
        Self::open(options, authority, true).await
    }

    /// Like [`Self::open_or_create`], but a missing file is [`StoreError::NotFound`] and stays missing.
    pub async fn open_existing(options: SqliteOptions, authority: Authority) -> Result<Self, StoreError> {
        Self::open(options, authority, false).await
    }

    async fn open(mut options: SqliteOptions, authority: Authority, create: bool) -> Result<Self, StoreError> {
        let for_writer = (options.clone(), authority.clone());
        let writer = Owner::spawn("ql3-db-write", move || Writer::open(for_writer.0, for_writer.1, create)).await?;
        options.path = resolved(&options.path)?;
        let for_reader = options.clone();
        let reader = Owner::spawn("ql3-db-read", move || Reader::open(&for_reader, authority)).await?;
        Ok(Self { inner: Arc::new(Inner { writer, reader, options }) })
    }

    /// Takes the lock that makes this handle the single scheduler of the file, until it is closed or its process ends. Taking it
    /// again does nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::AlreadyRunning`] with what is known of the holder.
    pub async fn become_scheduler(&self) -> Result<(), StoreError> {
        self.on_writer(|writer| {
            if writer.scheduler.is_none() {
                writer.scheduler = Some(SchedulerLock::acquire(&writer.options.path, writer.authority.clock.now())?);
            }
            Ok(())
        })
        .await
    }

    /// Who is the scheduler of the file, this handle or another, in this process or another: `pid 7 since 2026-03-29T01:00:00Z`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] if the lock cannot be looked at.
    pub fn scheduler(&self) -> Result<Option<String>, StoreError> {
        lock::holder(&self.inner.options.path)
    }

    /// Whether somebody is the scheduler of the file.
    ///
    /// # Errors
    ///
    /// See [`SqliteStore::scheduler`].
    pub fn has_scheduler(&self) -> Result<bool, StoreError> {
        Ok(self.scheduler()?.is_some())
    }

    /// A number that changes when another process has written, and not when this handle has. Writes nothing.
    pub async fn data_version(&self) -> Result<i64, StoreError> {
        self.on_writer(|writer| writer.conn.pragma_query_value(None, "data_version", |row| row.get(0)).map_err(store_error)).await
    }

    /// Sizes of the file and its log.
    pub fn file_facts(&self) -> Result<FileFacts, StoreError> {
        let path = &self.inner.options.path;
        let file = std::fs::metadata(path).map_err(|error| unavailable(&format!("{}: {error}", path.display())))?;
        Ok(FileFacts { database_bytes: file.len(), wal_bytes: wal_bytes(path) })
    }

    /// Finishes what was asked for before, cuts the log back, closes the connections and joins their threads; then gives up the
    /// scheduler's lock. Later calls answer [`StoreError::Closed`].
    pub async fn close(&self) {
        self.inner.reader.close().await;
        self.inner.writer.close().await;
    }

    pub(crate) fn options(&self) -> &SqliteOptions {
        &self.inner.options
    }

    pub(crate) fn writer(&self) -> &Owner<Writer> {
        &self.inner.writer
    }

    pub(crate) async fn on_writer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let checked = |writer: &mut Writer| writer.check_file().and_then(|()| work(writer));
        self.inner.writer.call(checked).await
    }

    /// Runs a command: one transaction of the writing connection.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Command<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.on_writer(|writer| tx::write(writer, work)).await
    }

    /// Reads committed facts in one snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.reader.call(|reader| tx::read(&reader.conn, work)).await
    }

    /// Like [`Self::read`], with the authority beside the connection.
    pub(crate) async fn read_with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Authority) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.reader.call(|reader| tx::read(&reader.conn, |conn| work(conn, &reader.authority))).await
    }
}
