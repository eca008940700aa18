//! Opening a file: its connections, their settings, and what is refused before anything is written.

use std::{
    fs::OpenOptions,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use runtime_core::{AuthorityClock, StoreError, cron, ids::IdSource};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use crate::{
    claims::Claims,
    error::{store_error, unavailable},
    lock::SchedulerLock,
    migrate,
    owner::Owned,
};

/// The write-ahead log is cut back when it grows beyond this.
pub(crate) const WAL_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Jobs between two tries while a reader keeps the log as it is.
const JOBS_BETWEEN_RETRIES: u32 = 64;
/// Statements a connection keeps prepared: more than this crate has.
const STATEMENTS_CACHED: usize = 128;

/// Who says what time it is and which identities are new.
#[derive(Clone)]
pub struct Authority {
    /// Asked once a command, after the write lock.
    pub clock: Arc<dyn AuthorityClock>,
    /// For Runs, attempts and events that the store admits.
    pub ids: Arc<dyn IdSource>,
}

/// How a file is opened.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The database file, made readable for its owner alone. `<path>.lock` lies beside it, and SQLite's `-wal` and `-shm`; if the path is a
    /// symbolic link, beside the file that it leads to.
    pub path: PathBuf,
    /// Written into Runs that the store admits; only Runs of this owner are dispatched. `runtime` in the product.
    pub execution_owner: String,
    /// The zone data that cursors are computed with.
    pub zone_data_version: String,
    /// How long a command waits for other processes that write before it answers `Busy`.
    pub busy_timeout_ms: u64,
    /// How long a transaction of [`runtime_core::ports::runs::RunRepository`] may pause between two steps, since it keeps
    /// all other writers out; then it is rolled back and answers `Busy`.
    pub transaction_idle_ms: u64,
}

impl SqliteOptions {
    /// What the product uses.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            execution_owner: "runtime".to_owned(),
            zone_data_version: cron::zone_data_version().to_owned(),
            busy_timeout_ms: 5_000,
            transaction_idle_ms: 5_000,
        }
    }
}

/// What the writing thread owns.
pub(crate) struct Writer {
    pub conn: Connection,
    pub authority: Authority,
    pub options: SqliteOptions,
    pub claims: Claims,
    /// Present while this handle is the single scheduler. Released after the connection is closed.
    pub scheduler: Option<SchedulerLock>,
    /// Jobs until cutting the log back is tried again, after somebody's reading has prevented it.
    jobs_until_retry: u32,
    /// Size of the log that was last warned of.
    wal_bytes_warned: u64,
    /// Device and inode of the file that the connection has open.
    file: (u64, u64),
}

/// What the reading thread owns.
pub(crate) struct Reader {
    pub conn: Connection,
    pub authority: Authority,
}

impl Writer {
    pub fn open(options: SqliteOptions, authority: Authority, create: bool) -> Result<Self, StoreError> {
        let conn = connect(&options, create)?;
        let options = SqliteOptions { path: resolved(&options.path)?, ..options };
        let file = identity(&options.path)?;
        migrate::check(&conn)?;
        use_wal(&conn, &options)?;
        migrate::migrate(&conn, &authority)?;
        let (claims, scheduler, jobs_until_retry, wal_bytes_warned) = (Claims::default(), None, 0, 0);
        Ok(Self { conn, authority, options, claims, scheduler, jobs_until_retry, wal_bytes_warned, file })
    }

    /// Refuses to go on with a file that has lost its name: nobody else would ever see what is written to it.
    pub fn check_file(&self) -> Result<(), StoreError> {
        if identity(&self.options.path).is_ok_and(|file| file == self.file) {
            return Ok(());
        }
        Err(unavailable(&format!(
            "{} was removed or replaced while it was open: stop this program and start it again",
            self.options.path.display()
        )))
    }
}

/// The path without symbolic links, so that whoever opens the file finds the same lock.
pub(crate) fn resolved(path: &Path) -> Result<PathBuf, StoreError> {
    path.canonicalize().map_err(|error| unavailable(&format!("{}: {error}", path.display())))
}

fn identity(path: &Path) -> Result<(u64, u64), StoreError> {
    let file = path.metadata().map_err(|error| unavailable(&format!("{}: {error}", path.display())))?;
    Ok((file.dev(), file.ino()))
}

impl Owned for Writer {
    /// Cuts the log back once it has outgrown its bound. A reader elsewhere may prevent that; nobody waits for it, and a later job
    /// tries again.
    fn between_jobs(&mut self) {
        let bytes = wal_bytes(&self.options.path);
        if bytes <= WAL_BYTES_MAX {
            (self.jobs_until_retry, self.wal_bytes_warned) = (0, 0);
            return;
        }
        if self.jobs_until_retry > 0 {
            self.jobs_until_retry -= 1;
            return;
        }
        let cut = truncate_wal(&self.conn);
        if let Err(error) = wait_when_busy(&mut self.conn, self.options.busy_timeout_ms) {
            tracing::error!(%error, "the busy handler could not be restored");
        }
        if matches!(cut, Ok(true)) {
            return;
        }
        self.jobs_until_retry = JOBS_BETWEEN_RETRIES;
        if bytes >= 2 * self.wal_bytes_warned {
            self.wal_bytes_warned = bytes;
            tracing::warn!(wal_bytes = bytes, "the write-ahead log is over its bound: somebody keeps a read transaction open");
        }
    }

    fn close(self) {
        if let Err(error) = truncate_wal(&self.conn) {
            tracing::warn!(%error, "the write-ahead log was not cut back at the end; the next start does it");
        }
        close_connection(self.conn);
        drop(self.scheduler);
    }
}

impl Reader {
    pub fn open(options: &SqliteOptions, authority: Authority) -> Result<Self, StoreError> {
        let conn = connect(options, false)?;
        conn.pragma_update(None, "query_only", true).map_err(store_error)?;
        Ok(Self { conn, authority })
    }
}

impl Owned for Reader {
    fn close(self) {
        close_connection(self.conn);
    }
}

fn close_connection(conn: Connection) {
    if let Err((_, error)) = conn.close() {
        tracing::error!(%error, "the database was not closed in order");
    }
}

/// A connection with every setting that does not write to the file.
pub(crate) fn connect(options: &SqliteOptions, create: bool) -> Result<Connection, StoreError> {
    if !create && !options.path.exists() {
        return Err(StoreError::not_found("database", options.path.display()));
    }
    if create {
        create_private(&options.path);
    }
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    let mut conn = Connection::open_with_flags(&options.path, flags).map_err(|error| at_path(&options.path, error))?;
    wait_when_busy(&mut conn, options.busy_timeout_ms)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    let set = |name: &str, value: &dyn rusqlite::ToSql| conn.pragma_update(None, name, value).map_err(|e| at_path(&options.path, e));
    set("foreign_keys", &true)?;
    set("synchronous", &"FULL")?;
    set("recursive_triggers", &false)?;
    set("trusted_schema", &false)?;
    set("cell_size_check", &true)?;
    set("temp_store", &"MEMORY")?;
    for (setting, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        conn.set_db_config(setting, value).map_err(store_error)?;
    }
    Ok(conn)
}

/// A new file is its owner's alone, since definitions hold secrets; SQLite gives its log the same mode. If it cannot be made, or is there
/// already, opening it says so.
fn create_private(path: &Path) {
    let _made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

/// The file takes the WAL mode for good. SQLite does not call the busy handler for that, so concurrent openers wait here.
fn use_wal(conn: &Connection, options: &SqliteOptions) -> Result<(), StoreError> {
    let began = Instant::now();
    loop {
        match conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => break,
            Ok(_) => return Err(unavailable("the file system of the database does not support shared memory, which WAL needs")),
            Err(error) if is_busy(&error) && began.elapsed() < Duration::from_millis(options.busy_timeout_ms) => {
                std::thread::sleep(pause(20, 3));
            }
            Err(error) => return Err(store_error(error)),
        }
    }
    let limit = i64::try_from(WAL_BYTES_MAX).expect("a small constant");
    conn.pragma_update_and_check(None, "journal_size_limit", limit, |_| Ok(())).map_err(store_error)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn at_path(path: &Path, error: rusqlite::Error) -> StoreError {
    match store_error(error) {
        StoreError::Unavailable { cause } => unavailable(&format!("{}: {cause}", path.display())),
        other => other,
    }
}

/// Lock waits end after `timeout_ms`; until then the pauses grow and differ between processes, so that nobody keeps missing the
/// lock in step.
fn wait_when_busy(conn: &mut Connection, timeout_ms: u64) -> Result<(), StoreError> {
    let mut began = Instant::now();
    let handler = move |times: i32| {
        if times == 0 {
            began = Instant::now();
        }
        let times = u64::try_from(times).unwrap_or(0);
        let go_on = began.elapsed() < Duration::from_millis(timeout_ms);
        if go_on {
            std::thread::sleep(pause((times + 1).min(25), times));
        }
        go_on
    };
    conn.busy_handler(Some(handler)).map_err(store_error)
}

/// About `ms`, half of it spread by process and turn.
fn pause(ms: u64, turn: u64) -> Duration {
    let spread = (u64::from(std::process::id()) + 7 * turn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    Duration::from_micros(500 * ms + 500 * ms * spread / 1_024)
}

/// Tries to cut the log back at once; false if a reader prevents it. Clears the busy handler.
fn truncate_wal(conn: &Connection) -> Result<bool, StoreError> {
    conn.busy_timeout(Duration::ZERO).map_err(store_error)?;
    let blocked: i64 = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(store_error)?;
    Ok(blocked == 0)
}

/// Size of the write-ahead log; 0 if there is none.
pub(crate) fn wal_bytes(path: &Path) -> u64 {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    std::fs::metadata(Path::new(&wal)).map_or(0, |file| file.len())
}
