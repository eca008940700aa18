//! Reading captured output.
//!
//! The guard keeps the bytes of stdout and stderr as they came, in order of arrival, in `<attempt>.log`. When that file reaches its cap
//! it becomes `<attempt>.log.1` and a new one begins, so the newest output is always kept.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use runtime_core::ids::RunId;

use crate::files::AttemptFiles;

/// Where everything of a Run is kept; removing it forgets the Run's output and exit records.
pub fn run_dir(log_dir: &Path, run_id: RunId) -> PathBuf {
    log_dir.join(run_id.to_string())
}

/// The kept output of an attempt, oldest byte first. Reading 0 bytes means "nothing more yet": a follower reads again later, and goes
/// on through rotations.
#[derive(Debug)]
pub struct LogReader {
    log: PathBuf,
    rotated: PathBuf,
    /// Oldest first; the last one is what `log` was when it was opened.
    files: VecDeque<File>,
}

impl LogReader {
    /// Opens the output of an attempt; `None` if there is none (yet).
    pub fn open(log_dir: &Path, run_id: RunId, attempt: u32) -> io::Result<Option<Self>> {
        let files = AttemptFiles::new(log_dir, run_id, attempt);
        let mut reader = Self { log: files.log(), rotated: files.rotated_log(), files: VecDeque::new() };
        reader.files = reader.open_files()?;
        Ok((!reader.files.is_empty()).then_some(reader))
    }

    /// Kept bytes that have not been read.
    pub fn unread_bytes(&mut self) -> io::Result<u64> {
        self.files.iter_mut().try_fold(0, |sum, file| Ok(sum + file.metadata()?.len().saturating_sub(file.stream_position()?)))
    }

    /// Skips up to `bytes` kept bytes.
    pub fn skip_bytes(&mut self, mut bytes: u64) -> io::Result<()> {
        for file in &mut self.files {
            let step = bytes.min(file.metadata()?.len().saturating_sub(file.stream_position()?));
            file.seek(SeekFrom::Current(step.cast_signed()))?;
            bytes -= step;
        }
        Ok(())
    }

    /// Both files, older first. A rotation in between shows as one file under both names, or as the new name missing: look again.
    fn open_files(&self) -> io::Result<VecDeque<File>> {
        for _ in 0..100 {
            let newest = open(&self.log)?;
            let rotated = open(&self.rotated)?;
            match (rotated, newest) {
                (Some(rotated), Some(newest)) if inode(&rotated)? == inode(&newest)? => {}
                (Some(rotated), Some(newest)) => return Ok(VecDeque::from([rotated, newest])),
                (None, Some(newest)) => return Ok(VecDeque::from([newest])),
                (None, None) => return Ok(VecDeque::new()),
                (Some(rotated), None) => {
                    if !self.log.exists() {
                        return Ok(VecDeque::from([rotated]));
                    }
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the log is rotated faster than it can be opened"))
    }

    /// Whether `log` has been rotated since the last file was opened; then the newer files are lined up behind it.
    fn follow(&mut self) -> io::Result<bool> {
        let Some(last) = self.files.back() else { return Ok(false) };
        let last = inode(last)?;
        match fs::metadata(&self.log) {
            Ok(now) if (now.dev(), now.ino()) != last => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(false),
        }
        for file in self.open_files()? {
            if inode(&file)? != last {
                self.files.push_back(file);
            }
        }
        Ok(true)
    }
}

impl Read for LogReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(file) = self.files.front_mut() else { return Ok(0) };
            let count = file.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            if self.files.len() == 1 {
                if !self.follow()? {
                    return Ok(0);
                }
                // The old file may have grown between its last read and its rotation.
                let count = self.files[0].read(buffer)?;
                if count > 0 {
                    return Ok(count);
                }
            }
            self.files.pop_front();
        }
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn inode(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Makes text of output, piece by piece: each byte that is not UTF-8 becomes `\xNN`, and is counted.
#[derive(Debug, Default)]
pub struct LossyText {
    /// The beginning of a character whose rest has not come yet.
    pending: Vec<u8>,
    undecodable_bytes: u64,
}

impl LossyText {
    /// Text of all complete characters so far that were not returned before.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let unfinished = unfinished_bytes(&self.pending);
        let rest = self.pending.split_off(self.pending.len() - unfinished);
        let whole = std::mem::replace(&mut self.pending, rest);
        self.decode(&whole)
    }

    /// What was held back for a rest that will not come.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        self.decode(&rest)
    }

    /// How many bytes were shown as `\xNN`.
    pub fn undecodable_bytes(&self) -> u64 {
        self.undecodable_bytes
    }

    fn decode(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            for byte in chunk.invalid() {
                self.undecodable_bytes += 1;
                write!(text, "\\x{byte:02x}").expect("a String takes everything");
            }
        }
        text
    }
}

/// Length of a character begun at the end of `bytes` that more bytes could complete.
fn unfinished_bytes(bytes: &[u8]) -> usize {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(3)..]) {
        Ok(_) => 0,
        Err(_) => (1..=bytes.len().min(3))
            .find(|back| match std::str::from_utf8(&bytes[bytes.len() - back..]) {
                Err(error) => error.valid_up_to() == 0 && error.error_len().is_none(),
                Ok(_) => false,
            })
            .unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn text_is_the_same_in_any_pieces() {
        let bytes = "ä€😀".bytes().chain(*b"\xff|\xe2\x82|\xf0\x9f\x98").collect::<Vec<u8>>();
        let expected = "ä€😀\\xff|\\xe2\\x82|\\xf0\\x9f\\x98";
        for size in 1..=bytes.len() {
            let mut lossy = LossyText::default();
            let mut text: String = bytes.chunks(size).map(|piece| lossy.push(piece)).collect();
            text += &lossy.finish();
            assert_eq!((text.as_str(), lossy.undecodable_bytes()), (expected, 6), "pieces of {size}");
        }
    }

    #[test]
    fn a_follower_sees_every_byte_through_a_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let run_id = "0199c5f4-7b1e-7c3d-8f00-0123456789ab".parse().unwrap();
        assert!(LogReader::open(dir.path(), run_id, 1).unwrap().is_none());
        let files = AttemptFiles::new(dir.path(), run_id, 1);
        files.create_dir().unwrap();
        let mut log = crate::files::create(&files.log()).unwrap();
        let mut reader = LogReader::open(dir.path(), run_id, 1).unwrap().unwrap();
        let mut seen = String::new();
        let mut step = |reader: &mut LogReader| reader.read_to_string(&mut seen).unwrap();
        log.write_all(b"one ").unwrap();
        assert_eq!(step(&mut reader), 4);
        log.write_all(b"two ").unwrap();
        fs::rename(files.log(), files.rotated_log()).unwrap();
        assert_eq!(step(&mut reader), 4);
        crate::files::create(&files.log()).unwrap().write_all(b"three").unwrap();
        assert_eq!(step(&mut reader), 5);
        assert_eq!(step(&mut reader), 0);
        assert_eq!(seen, "one two three");

        let mut late = LogReader::open(dir.path(), run_id, 1).unwrap().unwrap();
        assert_eq!(late.unread_bytes().unwrap(), 13);
        late.skip_bytes(10).unwrap();
        let mut rest = String::new();
        late.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "ree");
    }
}
