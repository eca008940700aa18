//! Keeping the newest output of a command, whatever the disk does.

use std::{
    fs::{self, File},
    io::{self, Write},
};

use crate::files::{self, AttemptFiles};

pub(super) struct Output<'a> {
    files: &'a AttemptFiles,
    /// None until a file could be opened.
    log: Option<File>,
    log_bytes: u64,
    rotated_bytes: u64,
    dropped_bytes: u64,
    file_bytes_max: u64,
    /// Why output was lost, the first time.
    error: Option<io::Error>,
}

impl<'a> Output<'a> {
    pub fn create(files: &'a AttemptFiles, file_bytes_max: u64) -> Self {
        let mut output =
            Self { files, log: None, log_bytes: 0, rotated_bytes: 0, dropped_bytes: 0, file_bytes_max: file_bytes_max.max(1), error: None };
        // Left by a life of this attempt that did not get as far as running.
        let _ = fs::remove_file(files.rotated_log());
        // Made at once, so that followers find it.
        if let Err(error) = output.open() {
            output.error = Some(error);
        }
        output
    }

    /// Appends; what cannot be written is counted as dropped.
    pub fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.write_some(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) => {
                    self.dropped_bytes += bytes.len() as u64;
                    self.error.get_or_insert(error);
                    return;
                }
            }
        }
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.log_bytes >= self.file_bytes_max {
            fs::rename(self.files.log(), self.files.rotated_log())?;
            self.dropped_bytes += self.rotated_bytes;
            self.rotated_bytes = std::mem::take(&mut self.log_bytes);
            self.log = None;
        }
        let room = usize::try_from(self.file_bytes_max - self.log_bytes).unwrap_or(usize::MAX).min(bytes.len());
        let count = self.open()?.write(&bytes[..room])?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.log_bytes += count as u64;
        Ok(count)
    }

    fn open(&mut self) -> io::Result<&mut File> {
        match &mut self.log {
            Some(log) => Ok(log),
            empty @ None => {
                self.files.create_dir()?;
                Ok(empty.insert(files::create(&self.files.log())?))
            }
        }
    }

    pub fn kept_bytes(&self) -> u64 {
        self.rotated_bytes + self.log_bytes
    }

    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// Why bytes were lost that the cap would have kept.
    pub fn lost(&self) -> Option<String> {
        self.error.as_ref().filter(|_| self.dropped_bytes > 0).map(|error| format!("output was lost: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::logs::LogReader;

    #[test]
    fn the_newest_bytes_are_kept_and_the_others_counted() {
        let dir = tempfile::tempdir().unwrap();
        let run_id = "0199c5f4-7b1e-7c3d-8f00-0123456789ab".parse().unwrap();
        let files = AttemptFiles::new(dir.path(), run_id, 1);
        for (total, kept) in [(0, 0), (9, 9), (10, 10), (11, 11), (20, 20), (21, 11), (35, 15)] {
            let all: Vec<u8> = (0..total).collect();
            let mut output = Output::create(&files, 10);
            for piece in all.chunks(7) {
                output.write(piece);
            }
            assert_eq!((output.kept_bytes(), output.dropped_bytes()), (kept, u64::from(total) - kept), "{total} bytes");
            assert_eq!(output.lost(), None);
            let mut read = Vec::new();
            LogReader::open(dir.path(), run_id, 1).unwrap().unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, all[all.len() - usize::try_from(kept).unwrap()..]);
        }
    }
}
