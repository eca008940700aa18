//! Who is in a command's process group, and what proves it.

use std::{fs, io, os::fd::OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::identity::{Identity, Stat, is_gone};

/// Names the attempt in the environment of everything it starts.
pub(crate) const ATTEMPT_ID_VAR: &str = "QL3_ATTEMPT_ID";

/// Running processes (no zombies) of the group. It reads one short file a process of the machine: a few milliseconds for hundreds.
pub(crate) fn members(pgid: Pid) -> io::Result<Vec<(Pid, Stat)>> {
    let mut found = Vec::new();
    for pid in all_pids()? {
        match Stat::read(pid) {
            Ok(stat) if stat.runs() && stat.pgrp == pgid.as_raw_nonzero().get() => found.push((pid, stat)),
            Ok(_) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// What is left of a command whose guard is dead.
pub(crate) enum Remains {
    Nothing,
    /// Proved to be the command's: pidfds of all of it.
    Ours(Vec<OwnedFd>),
    Unproven(String),
}

/// What is left of the group that `leader` led (it was a session leader, so everything in its group is also in its session).
///
/// The kernel keeps a number while a process, group or session bears it. So while the leader's own entry is there, running or zombie,
/// the group is its group; if another process has the number, the old group is gone. With the leader gone, the proof is that a member
/// of that group and session names the attempt in its environment.
pub(crate) fn remains(leader: &Identity, attempt_id: &str) -> io::Result<Remains> {
    let number = leader.pid.as_raw_nonzero().get();
    let mut members = members(leader.pid)?;
    members.retain(|(_, stat)| stat.session == number);
    if members.is_empty() {
        return Ok(Remains::Nothing);
    }
    let proved = match Stat::read(leader.pid) {
        Ok(stat) if stat.start_ticks == leader.start_ticks => true,
        Ok(_) => return Ok(Remains::Nothing),
        Err(error) if is_gone(&error) => members.iter().any(|(pid, _)| names_attempt(*pid, attempt_id)),
        Err(error) => return Err(error),
    };
    if !proved {
        let pids = list(members.iter().map(|(pid, _)| *pid));
        return Ok(Remains::Unproven(format!(
            "process group {number} still has {pids}, and nothing proves that they belong to the attempt"
        )));
    }
    let mut pidfds = Vec::new();
    for (pid, stat) in members {
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // The same process still, now that the pidfd holds it?
        if Stat::read(pid).is_ok_and(|now| (now.start_ticks, now.pgrp, now.session) == (stat.start_ticks, number, number)) {
            pidfds.push(pidfd);
        }
    }
    Ok(Remains::Ours(pidfds))
}

/// For an attempt that left no record of its group: whether any process names it.
pub(crate) fn unrecorded_remains(attempt_id: &str) -> io::Result<Remains> {
    let marked: Vec<Pid> = all_pids()?.into_iter().filter(|pid| names_attempt(*pid, attempt_id)).collect();
    if marked.is_empty() {
        return Ok(Remains::Nothing);
    }
    Ok(Remains::Unproven(format!("no record of the command's group, but {} carry its attempt id", list(marked.into_iter()))))
}

fn names_attempt(pid: Pid, attempt_id: &str) -> bool {
    let wanted = format!("{ATTEMPT_ID_VAR}={attempt_id}");
    fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()))
        .is_ok_and(|env| env.split(|byte| *byte == 0).any(|var| var == wanted.as_bytes()))
}

fn all_pids() -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw));
    }
    Ok(pids)
}

fn list(pids: impl Iterator<Item = Pid>) -> String {
    let pids: Vec<String> = pids.map(|pid| pid.as_raw_nonzero().to_string()).collect();
    format!("process{} {}", if pids.len() == 1 { "" } else { "es" }, pids.join(", "))
}
