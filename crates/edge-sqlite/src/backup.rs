//! A consistent copy of a file that is in use.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use runtime_core::{Invalid, StoreError};
use rusqlite::{Connection, OpenFlags};

use crate::{
    error::{store_error, unavailable},
    migrate,
    open::connect,
    store::SqliteStore,
};

impl SqliteStore {
    /// Copies the file as it stands to `to`, while others write it: one snapshot, compact, its owner's alone. The copy is checked before it
    /// gets its name, and it is there whole or not at all. Answers its size in bytes. The log cannot be cut back while it runs.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if `to` is there and is not to be replaced, or is the file itself; [`StoreError::Unavailable`] if it cannot be
    /// written; [`StoreError::Corrupt`] if the copy is not sound, because the file is not.
    pub async fn backup(&self, to: &Path, replace: bool) -> Result<u64, StoreError> {
        let (options, to) = (self.options().clone(), to.to_owned());
        let copied = tokio::task::spawn_blocking(move || {
            refuse(&options.path, &to, replace)?;
            let temporary = Temporary::beside(&to)?;
            let conn = connect(&options, false)?;
            let text = temporary.path.to_str().ok_or_else(|| Invalid::new("backup", "the path is not UTF-8"))?;
            conn.execute("VACUUM INTO ?1", [text]).map_err(store_error)?;
            drop(conn);
            check(&temporary.path)?;
            temporary.become_file(&to, replace)
        });
        copied.await.unwrap_or(Err(StoreError::Closed))
    }
}

fn refuse(database: &Path, to: &Path, replace: bool) -> Result<(), Invalid> {
    let refuse = |reason: String| Err(Invalid::new("backup", reason));
    match (fs::canonicalize(database), fs::canonicalize(to)) {
        (Ok(database), Ok(there)) if database == there => refuse(format!("{} is the database itself", to.display())),
        (_, Ok(_)) if !replace => refuse(format!("{} exists", to.display())),
        _ if to.is_dir() || to.file_name().is_none() => refuse(format!("{} is not the name of a file", to.display())),
        _ => Ok(()),
    }
}

/// The copy until it is whole. Dropped, it is gone.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    /// An empty file in the directory of `to`, readable by its owner only: SQLite writes into it and leaves its mode.
    fn beside(to: &Path) -> Result<Self, StoreError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(to.file_name().unwrap_or_default());
        name.push(format!(".{}.part", std::process::id()));
        let path = to.with_file_name(name);
        let failed = |error: io::Error| unavailable(&format!("{}: {error}", path.display()));
        // What an earlier process of this number left behind.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        Ok(Self { path, file })
    }

    /// Makes the copy durable, then gives it its name. Answers its size.
    fn become_file(self, to: &Path, replace: bool) -> Result<u64, StoreError> {
        let done = || {
            self.file.sync_all()?;
            if replace {
                fs::rename(&self.path, to)?;
            } else {
                // Unlike a rename, a link takes no name that somebody else took meanwhile. The first name goes with `self`.
                fs::hard_link(&self.path, to)?;
            }
            let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(parent)?.sync_all()?;
            Ok(self.file.metadata()?.len())
        };
        done().map_err(|error: io::Error| unavailable(&format!("{}: {error}", to.display())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.path);
    }
}

/// The copy opens, is whole, and is a file that this program may go on with.
fn check(path: &Path) -> Result<(), StoreError> {
    let conn =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(store_error)?;
    let whole: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(store_error)?;
    if whole != "ok" {
        return Err(StoreError::corrupt("backup", "integrity_check", whole));
    }
    let mut broken = conn.prepare("PRAGMA foreign_key_check").map_err(store_error)?;
    if broken.exists([]).map_err(store_error)? {
        return Err(StoreError::corrupt("backup", "foreign_key_check", path.display()));
    }
    drop(broken);
    migrate::check(&conn)
}
