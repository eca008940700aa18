//! The single scheduler: whoever holds the lock on `<db>.lock` may claim. The kernel releases it with the process, however it ends.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use runtime_core::{StoreError, TimestampMs};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::error::unavailable;

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct SchedulerLock {
    /// The lock belongs to this open file. It is closed on exec, so no child keeps it.
    _file: File,
}

/// `<db>.lock`.
pub(crate) fn lock_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Who holds the lock: `pid 7 since 2026-03-29T01:00:00Z`. The look itself holds it for a moment, shared with other lookers.
pub(crate) fn holder(database: &Path) -> Result<Option<String>, StoreError> {
    let path = lock_path(database);
    let failed = |error: &dyn std::fmt::Display| unavailable(&format!("{}: {error}", path.display()));
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(Errno::WOULDBLOCK) => Ok(Some(signature(&mut file, &path))),
        Err(error) => Err(failed(&error)),
    }
}

/// What a holder wrote about itself.
fn signature(file: &mut File, path: &Path) -> String {
    let mut text = String::new();
    let known = file.read_to_string(&mut text).is_ok() && !text.trim().is_empty();
    if known { text.trim().to_owned() } else { format!("somebody holds {}", path.display()) }
}

/// Takes the lock. Whoever only looked lets go at once, so what is taken is tried again before it counts.
fn lock(file: &File) -> Result<(), Errno> {
    const TRIES: u32 = 5;
    let mut tries = 0;
    loop {
        tries += 1;
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if tries < TRIES => std::thread::sleep(Duration::from_millis(10)),
            outcome => return outcome,
        }
    }
}

impl SchedulerLock {
    /// Takes the lock, or says who holds it.
    pub fn acquire(database: &Path, at: TimestampMs) -> Result<Self, StoreError> {
        let path = lock_path(database);
        let failed = |error: &dyn std::fmt::Display| unavailable(&format!("{}: {error}", path.display()));
        let names = database.metadata().map_err(|error| failed(&error))?.nlink();
        if names > 1 {
            let database = database.display();
            return Err(unavailable(&format!("{database} has {names} names (hard links), each with a log of its own: keep one of them")));
        }
        // Its owner's alone: whoever may read a file may hold a lock on it, and so keep the scheduler out.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(|error| failed(&error))?;
        match lock(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(StoreError::AlreadyRunning { holder: signature(&mut file, &path) });
            }
            Err(error) => return Err(failed(&error)),
        }
        let holder = format!("pid {} since {at}\n", std::process::id());
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(holder.as_bytes()));
        written.map_err(|error| failed(&error))?;
        Ok(Self { _file: file })
    }
}
