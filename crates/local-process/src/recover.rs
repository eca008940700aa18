//! Ending what an earlier life of this executor, or a killed guard, has left behind.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use runtime_core::{ids::AttemptId, ports::executor::Recovered};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, pidfd_send_signal},
};

use crate::{
    ABANDON_GRACE_MS,
    files::AttemptFiles,
    group::{self, Remains},
    identity::Identity,
};

/// A guard has its grace, a dying group and a slow disk to wait for, and then this long, before it is killed itself.
const GUARD_LIMIT: Duration = Duration::from_millis(ABANDON_GRACE_MS + 15_000);
/// How long a killed process may take to disappear before it is given up as stuck in the kernel.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks at what was told to end.
const RECOUNT: Duration = Duration::from_millis(20);

pub(crate) async fn recover(files: &AttemptFiles, attempt_id: AttemptId, handle: Option<&str>) -> io::Result<Recovered> {
    let Some(handle) = handle else { return Ok(Recovered::Gone) };
    // The guard writes it last, when the group has ended. It says more than all that follows.
    if let Some(end) = files.read_exit(attempt_id) {
        return Ok(Recovered::Ended(end));
    }
    let Some(guard) = Identity::parse(handle) else {
        return Ok(Recovered::Unproven("the recorded handle is not one of this executor's".to_owned()));
    };
    let here = Identity::of_self()?;
    if guard.boot_id != here.boot_id {
        return Ok(Recovered::Gone);
    }
    if guard.pid_ns != here.pid_ns {
        return Ok(Recovered::Unproven(format!(
            "its guard (process {}) belongs to another PID namespace of this boot",
            guard.pid.as_raw_nonzero()
        )));
    }
    let ended = end_guard(&guard).await?;
    if let Some(end) = files.read_exit(attempt_id) {
        return Ok(Recovered::Ended(end));
    }
    if let Err(reason) = ended {
        return Ok(Recovered::Unproven(reason));
    }
    Ok(match end_remains(files, attempt_id).await {
        Ok(()) => Recovered::Gone,
        Err(reason) => Recovered::Unproven(reason),
    })
}

/// TERM lets the guard end its group and record how. The inner error is for the operator: it could not be ended.
async fn end_guard(guard: &Identity) -> io::Result<Result<(), String>> {
    for (signal, limit) in [(Signal::TERM, GUARD_LIMIT), (Signal::KILL, KILL_LIMIT)] {
        let Some(pidfd) = guard.find()? else { return Ok(Ok(())) };
        match pidfd_send_signal(&pidfd, signal) {
            Ok(()) => {}
            Err(rustix::io::Errno::SRCH) => return Ok(Ok(())),
            Err(error) => return Ok(Err(format!("guard {} cannot be signalled: {error}", guard.pid.as_raw_nonzero()))),
        }
        if exited(pidfd, limit).await? {
            return Ok(Ok(()));
        }
    }
    Ok(Err(format!("guard {} survived SIGKILL", guard.pid.as_raw_nonzero())))
}

/// Asks now and then: a guard that is told to end takes milliseconds, or a grace.
async fn exited(pidfd: OwnedFd, limit: Duration) -> io::Result<bool> {
    let wait = async {
        while poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&Timespec::default()))? == 0 {
            tokio::time::sleep(RECOUNT).await;
        }
        Ok(true)
    };
    tokio::time::timeout(limit, wait).await.unwrap_or(Ok(false))
}

/// For an attempt whose guard is dead: kills what can be proved to be left of the command's group, and waits until it is gone. The
/// error is for the operator: what is left, and why.
pub(crate) async fn end_remains(files: &AttemptFiles, attempt_id: AttemptId) -> Result<(), String> {
    let leader = files.read_child();
    let attempt_id = attempt_id.to_string();
    let look = || match &leader {
        Some(leader) => group::remains(leader, &attempt_id),
        None => group::unrecorded_remains(&attempt_id),
    };
    let kill = async {
        loop {
            match look().map_err(|error| format!("its group cannot be examined: {error}"))? {
                Remains::Nothing => return Ok(()),
                Remains::Unproven(reason) => return Err(reason),
                Remains::Ours(pidfds) => {
                    for pidfd in &pidfds {
                        // Who is gone needs no signal; who may not be signalled is still there at the end of the limit.
                        let _ = pidfd_send_signal(pidfd.as_fd(), Signal::KILL);
                    }
                }
            }
            tokio::time::sleep(RECOUNT).await;
        }
    };
    tokio::time::timeout(KILL_LIMIT, kill).await.unwrap_or_else(|_| Err("its group survived SIGKILL".to_owned()))
}
