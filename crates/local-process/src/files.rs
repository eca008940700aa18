//! The files of one attempt, in `<log_dir>/<run id>/`: `<attempt>.log`, `<attempt>.log.1`, `<attempt>.exit`, `<attempt>.child`.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use runtime_core::{
    ids::{AttemptId, RunId},
    ports::executor::ProcessEnd,
};
use serde::{Deserialize, Serialize};

use crate::identity::Identity;

/// How a command ended, as the guard left it for recovery.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExitRecord {
    attempt_id: AttemptId,
    end: ProcessEnd,
}

pub(crate) struct AttemptFiles {
    dir: PathBuf,
    attempt: u32,
}

impl AttemptFiles {
    pub fn new(log_dir: &Path, run_id: RunId, attempt: u32) -> Self {
        Self { dir: crate::logs::run_dir(log_dir, run_id), attempt }
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.dir.join(format!("{}.{suffix}", self.attempt))
    }

    pub fn log(&self) -> PathBuf {
        self.file("log")
    }

    pub fn rotated_log(&self) -> PathBuf {
        self.file("log.1")
    }

    pub fn child(&self) -> PathBuf {
        self.file("child")
    }

    pub fn exit(&self) -> PathBuf {
        self.file("exit")
    }

    /// Makes the directory, readable by its owner only: output may hold anything. Durable, so that the exit record in it can be.
    pub fn create_dir(&self) -> io::Result<()> {
        if self.dir.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        self.dir.parent().map_or(Ok(()), sync_dir)
    }

    /// All or nothing, and durable when it returns.
    pub fn write_exit(&self, attempt_id: AttemptId, end: &ProcessEnd) -> io::Result<()> {
        let unfinished = self.file("exit.tmp");
        let mut file = create(&unfinished)?;
        file.write_all(&serde_json::to_vec(&ExitRecord { attempt_id, end: end.clone() })?)?;
        file.sync_all()?;
        fs::rename(&unfinished, self.exit())?;
        sync_dir(&self.dir)
    }

    /// The record of this attempt, if its guard left one that can be read.
    pub fn read_exit(&self, attempt_id: AttemptId) -> Option<ProcessEnd> {
        let path = self.exit();
        let record = fs::read(&path).and_then(|text| Ok(serde_json::from_slice::<ExitRecord>(&text)?));
        match record {
            Ok(record) => (record.attempt_id == attempt_id).then_some(record.end),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "unreadable exit record");
                None
            }
        }
    }

    /// Bytes of output on disk.
    pub fn log_bytes(&self) -> u64 {
        [self.log(), self.rotated_log()].iter().filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum()
    }

    /// Who leads the command's session and group; absent if the command never started or nothing could be written.
    pub fn read_child(&self) -> Option<Identity> {
        fs::read_to_string(self.child()).ok().and_then(|text| Identity::parse(&text))
    }
}

/// Creates or empties a file that only its owner reads.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
