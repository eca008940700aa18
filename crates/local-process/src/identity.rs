//! Which process is meant: a pid alone may belong to someone else by now.

use std::{
    fmt, fs,
    io::{self, Read},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

const VERSION: &str = "v1";

/// A process of this boot and PID namespace, for ever. Written as `v1:<pid>:<start ticks>:<pid namespace inode>:<boot id>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub pid: Pid,
    /// Clock ticks between boot and the start of the process.
    pub start_ticks: u64,
    pub pid_ns: u64,
    pub boot_id: String,
}

impl Identity {
    pub fn of_self() -> io::Result<Self> {
        let pid = rustix::process::getpid();
        Ok(Self {
            pid,
            start_ticks: Stat::read(pid)?.start_ticks,
            pid_ns: fs::metadata("/proc/self/ns/pid")?.ino(),
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
        })
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim_end().split(':');
        if fields.next()? != VERSION {
            return None;
        }
        let parsed = Self {
            pid: Pid::from_raw(fields.next()?.parse().ok().filter(|pid| *pid > 0)?)?,
            start_ticks: fields.next()?.parse().ok()?,
            pid_ns: fields.next()?.parse().ok()?,
            boot_id: fields.next()?.to_owned(),
        };
        (fields.next().is_none() && !parsed.boot_id.is_empty()).then_some(parsed)
    }

    /// A pidfd of the process if it still runs. A zombie does not run any more.
    pub fn find(&self) -> io::Result<Option<OwnedFd>> {
        let pidfd = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            // EINVAL: the number belongs to a thread now, so to another process.
            Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Checked after opening: from here on the pidfd means this process, whatever becomes of the number.
        match Stat::read(self.pid) {
            Ok(stat) if stat.start_ticks == self.start_ticks && stat.runs() => Ok(Some(pidfd)),
            Ok(_) => Ok(None),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}:{}:{}:{}:{}", self.pid.as_raw_nonzero(), self.start_ticks, self.pid_ns, self.boot_id)
    }
}

/// What reading `/proc/PID/...` answers once the process is gone: before, or after the file was opened.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// The fields of `/proc/PID/stat` that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub state: u8,
    pub pgrp: i32,
    pub session: i32,
    pub start_ticks: u64,
}

impl Stat {
    pub fn read(pid: Pid) -> io::Result<Self> {
        // Longer than the line can be, and one read gives it whole.
        let mut text = [0; 1_024];
        let length = fs::File::open(format!("/proc/{}/stat", pid.as_raw_nonzero()))?.read(&mut text)?;
        Self::parse(&text[..length]).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unknown form of /proc/PID/stat"))
    }

    /// The second field is the program's name in parentheses: any bytes, blanks and parentheses too, so fields count from the last `)`.
    fn parse(text: &[u8]) -> Option<Self> {
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let mut fields = std::str::from_utf8(&text[name_end + 1..]).ok()?.split_ascii_whitespace();
        Some(Self {
            state: *fields.next()?.as_bytes().first()?, // field 3
            pgrp: fields.nth(1)?.parse().ok()?,         // 5
            session: fields.next()?.parse().ok()?,      // 6
            start_ticks: fields.nth(15)?.parse().ok()?, // 22
        })
    }

    /// Neither a zombie nor already dead.
    pub fn runs(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_any_program_name() {
        let tail = b" S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 11 12 13\n";
        for name in [&b"42 (sh)"[..], b"42 (a) R 1 2 (b c)", b"42 ())", b"42 (\xff \n)"] {
            let stat = Stat::parse(&[name, tail].concat()).unwrap();
            assert_eq!(stat, Stat { state: b'S', pgrp: 8, session: 9, start_ticks: 987_654 });
        }
        assert_eq!(Stat::parse(b"42 (sh) S 7 8"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[test]
    fn handles_round_trip_and_fit_their_column() {
        let own = Identity::of_self().unwrap();
        let text = own.to_string();
        assert!(text.len() <= 255 && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
        assert_eq!(Identity::parse(&text), Some(own));
        for bad in ["", "v1", "v2:1:2:3:b", "v1:0:2:3:b", "v1:-5:2:3:b", "v1:1:2:3:", "v1:1:2:3:b:c", "v1:x:2:3:b"] {
            assert_eq!(Identity::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_recycled_pid_is_nobody() {
        let own = Identity::of_self().unwrap();
        assert!(own.find().unwrap().is_some());
        assert!(Identity { start_ticks: own.start_ticks + 1, ..own }.find().unwrap().is_none());
    }
}
