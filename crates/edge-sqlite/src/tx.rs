//! Transactions begin and end here and nowhere else.
//!
//! Writers begin IMMEDIATE: a transaction that began by reading and then wants to write while somebody else has written fails at
//! once, whatever the busy timeout says.

use runtime_core::{Retry, StoreError, TimestampMs, ids::IdSource};
use rusqlite::Connection;

use crate::{
    control,
    error::{commit_error, store_error},
    open::{SqliteOptions, Writer},
};

/// An open transaction; dropped, it rolls back.
pub(crate) struct Transaction<'c> {
    conn: &'c Connection,
}

impl<'c> Transaction<'c> {
    /// Takes the write lock, waiting for it as long as the busy handler allows.
    pub fn immediate(conn: &'c Connection) -> Result<Self, StoreError> {
        conn.execute_batch("BEGIN IMMEDIATE").map_err(store_error)?;
        Ok(Self { conn })
    }

    /// One snapshot for several reads; takes no lock that a writer waits for.
    fn snapshot(conn: &'c Connection) -> Result<Self, StoreError> {
        conn.execute_batch("BEGIN DEFERRED").map_err(store_error)?;
        Ok(Self { conn })
    }

    pub fn conn(&self) -> &'c Connection {
        self.conn
    }

    /// Makes everything durable. An error other than [`StoreError::CommitUnknown`] means that nothing is.
    pub fn commit(self) -> Result<(), StoreError> {
        self.conn.execute_batch("COMMIT").map_err(commit_error)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SQLite has rolled back by itself after some errors; after a COMMIT there is nothing left either.
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }
}

/// A command inside its transaction.
pub(crate) struct Command<'w> {
    pub conn: &'w Connection,
    /// The authority's clock, read once, after the write lock.
    pub at: TimestampMs,
    pub ids: &'w dyn IdSource,
    pub options: &'w SqliteOptions,
}

/// Runs a command: the write lock first, then one reading of the authority's clock, then `work`. What it changed becomes durable
/// together with the clock's mark; if it changed nothing, nothing is written.
pub(crate) fn write<T>(writer: &Writer, work: impl FnOnce(&Command<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
    let tx = Transaction::immediate(&writer.conn)?;
    let command = Command::begin(writer);
    let changes = command.conn.total_changes();
    let answer = work(&command)?;
    if command.conn.total_changes() > changes {
        control::raise_mark(command.conn, command.at)?;
        tx.commit()?;
    }
    Ok(answer)
}

/// Runs the one command that sets the clock's mark instead of raising it.
pub(crate) fn write_under_new_mark<T>(writer: &Writer, work: impl FnOnce(&Command<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
    let tx = Transaction::immediate(&writer.conn)?;
    let command = Command::begin(writer);
    let answer = work(&command)?;
    control::set_mark(command.conn, command.at)?;
    tx.commit()?;
    Ok(answer)
}

/// Runs a command for its answer alone: whatever it changed is rolled back.
pub(crate) fn rehearse<T>(writer: &Writer, work: impl FnOnce(&Command<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
    let _tx = Transaction::immediate(&writer.conn)?;
    work(&Command::begin(writer))
}

impl<'w> Command<'w> {
    fn begin(writer: &'w Writer) -> Self {
        let Writer { conn, authority, options, .. } = writer;
        Self { conn, at: authority.clock.now(), ids: &*authority.ids, options }
    }
}

/// Reads in one snapshot that ends with the request.
pub(crate) fn read<T>(conn: &Connection, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
    let tx = Transaction::snapshot(conn)?;
    work(tx.conn())
}

/// Runs a part of a transaction of which, unless it answers true, nothing is left behind. The transaction can go on.
pub(crate) fn whole(conn: &Connection, work: impl FnOnce() -> Result<bool, StoreError>) -> Result<bool, StoreError> {
    let run = |sql| conn.execute_batch(sql).map_err(store_error);
    run("SAVEPOINT part")?;
    let answer = work();
    if conn.is_autocommit() {
        // A full disk among others made SQLite roll everything back: there is no part left, and the cause is in the answer.
        return answer;
    }
    if !matches!(answer, Ok(true)) {
        run("ROLLBACK TO part")?;
    }
    run("RELEASE part")?;
    answer
}

/// Does something about one record of several. A record that refuses it for good (damaged by a hand or a disk) is logged and left as it
/// was, and the others go on: `None`.
pub(crate) fn alone<T>(conn: &Connection, work: impl FnOnce() -> Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    let mut done = None;
    let written = whole(conn, || {
        done = Some(work()?);
        Ok(true)
    });
    match written {
        Ok(_) => Ok(done),
        Err(error) if error.retry() == Retry::Never => {
            tracing::error!(%error, "passed over");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
