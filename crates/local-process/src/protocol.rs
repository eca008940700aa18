//! What executor and guard say to each other: JSON behind a length of four bytes, little endian, both ways.

use std::{collections::BTreeMap, io, path::PathBuf};

use runtime_core::{
    ids::{AttemptId, RunId},
    ports::executor::{Command, ProcessEnd},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A job is bounded long before this; a length beyond it is not ours.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// The first thing a guard reads.
#[derive(Serialize, Deserialize)]
pub(crate) struct Spec {
    pub log_dir: PathBuf,
    pub output_bytes_max: u64,
    pub run_id: RunId,
    pub attempt_id: AttemptId,
    pub attempt: u32,
    pub command: Command,
    /// `QL3_*`, which nothing else may set: recovery believes them.
    pub identity_env: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    pub env_file: Option<String>,
    pub cwd: Option<String>,
    pub stdin: Option<String>,
}

/// Instants are `CLOCK_BOOTTIME` of this machine, so that an order that waited in the pipe means what it meant when it was given.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Go { deadline_ms: u64 },
    Extend { deadline_ms: u64 },
    Stop { kill_at_ms: u64 },
}

/// What a guard answers: `Ready` before it blocks, `Ended` before it exits.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    Ready { handle: String },
    Ended(ProcessEnd),
}

pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - 4;
    let prefix = u32::try_from(length).ok().filter(|_| length <= FRAME_BYTES_MAX);
    let prefix = prefix.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("{length} bytes are too many for a job")))?;
    frame[..4].copy_from_slice(&prefix.to_le_bytes());
    Ok(frame)
}

/// Puts frames together from whatever pieces a pipe delivers.
#[derive(Default)]
pub(crate) struct Frames(Vec<u8>);

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole message. Errors do not quote the message: it may hold secrets.
    pub fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((prefix, rest)) = self.0.split_first_chunk::<4>() else { return Ok(None) };
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not a message between executor and guard");
        let length = usize::try_from(u32::from_le_bytes(*prefix)).ok().filter(|length| *length <= FRAME_BYTES_MAX).ok_or_else(invalid)?;
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(body).map_err(|_| invalid())?;
        self.0.drain(..4 + length);
        if self.0.is_empty() {
            // The spec may have been large; what follows is tiny.
            self.0 = Vec::new();
        }
        Ok(Some(message))
    }
}

/// Milliseconds since boot, suspends included.
pub(crate) fn boottime_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_whole_from_any_pieces() {
        let bytes = [encode(&Order::Go { deadline_ms: 7 }).unwrap(), encode(&Order::Stop { kill_at_ms: 9 }).unwrap()].concat();
        let mut frames = Frames::default();
        let mut seen = Vec::new();
        for byte in bytes {
            frames.push(&[byte]);
            while let Some(order) = frames.next::<Order>().unwrap() {
                seen.push(order);
            }
        }
        assert!(matches!(seen[..], [Order::Go { deadline_ms: 7 }, Order::Stop { kill_at_ms: 9 }]));
    }

    #[test]
    fn noise_is_refused_and_not_quoted() {
        let mut frames = Frames::default();
        frames.push(b"TOKEN=hunter2");
        assert!(!frames.next::<Order>().err().unwrap().to_string().contains("hunter2"));
        let mut frames = Frames::default();
        frames.push(&encode(&"hunter2").unwrap());
        assert!(!frames.next::<Order>().err().unwrap().to_string().contains("hunter2"));
    }
}
