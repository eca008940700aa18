//! From the start of the command to the end of its group.

use std::{
    io::{self, PipeReader, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::ExitStatusExt},
    },
    process::ExitStatus,
};

use runtime_core::ports::executor::{EndCause, ProcessEnd};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Signal, kill_process_group, pidfd_send_signal},
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime},
};

use super::{command::Started, control::Control, note, output::Output};
use crate::{
    ABANDON_GRACE_MS, group,
    protocol::{Order, boottime_ms},
};

/// How often the group is counted while it outlives its leader.
const RECOUNT_MS: u64 = 20;
/// How long a killed process may take to disappear before it is given up as stuck in the kernel.
const UNKILLABLE_MS: u64 = 10_000;
/// The most that can be in the pipe once its writers are gone; more comes from processes that left the group.
const DRAIN_BYTES_MAX: usize = 1 << 20;

/// The group is being ended: TERM was sent.
struct Ending {
    cause: EndCause,
    why: Option<&'static str>,
    kill_at_ms: u64,
    killed_at_ms: Option<u64>,
}

struct Supervisor<'a> {
    command: Started,
    control: Control,
    control_open: bool,
    signals: UnixStream,
    timer: OwnedFd,
    output: Output<'a>,
    output_open: bool,
    buffer: Box<[u8]>,
    lease_deadline_ms: u64,
    ending: Option<Ending>,
    /// The command has ended but is not reaped: as long as it is not, its number names its group and nothing else.
    exited: bool,
    notes: Option<String>,
}

pub(super) fn run(command: Started, control: Control, signals: UnixStream, output: Output<'_>, deadline_ms: u64) -> ProcessEnd {
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
        .expect("a timer is one descriptor, and the guard has a dozen");
    let mut supervisor = Supervisor {
        command,
        control,
        control_open: true,
        signals,
        timer,
        output,
        output_open: true,
        buffer: vec![0; 32 << 10].into_boxed_slice(),
        lease_deadline_ms: deadline_ms,
        ending: None,
        exited: false,
        notes: None,
    };
    // Orders may have come together with the first one.
    supervisor.obey();
    while !supervisor.is_over() {
        supervisor.wait();
    }
    supervisor.finish()
}

impl Supervisor<'_> {
    /// Applies what is due, and tells whether nothing of the group is left.
    fn is_over(&mut self) -> bool {
        let now = boottime_ms();
        if now >= self.lease_deadline_ms {
            self.abandon("the lease ran out");
        }
        if let Some(ending) = &mut self.ending
            && ending.killed_at_ms.is_none()
            && now >= ending.kill_at_ms
        {
            ending.killed_at_ms = Some(now);
            self.signal(Signal::KILL);
        }
        if !self.exited {
            return false;
        }
        let left = group::members(self.command.pid).unwrap_or_default().len();
        if left == 0 {
            return true;
        }
        match &self.ending {
            None => {
                self.end(EndCause::Exited, None, now + ABANDON_GRACE_MS);
                note(&mut self.notes, &format!("{left} of its processes outlived it and were ended"));
                false
            }
            Some(Ending { killed_at_ms: Some(killed_at), .. }) if now >= killed_at + UNKILLABLE_MS => {
                note(&mut self.notes, &format!("{left} processes survived SIGKILL"));
                true
            }
            Some(_) => false,
        }
    }

    /// Sleeps until something happens, and takes note of it.
    fn wait(&mut self) {
        self.arm_timer();
        let wanted = |on| if on { PollFlags::IN } else { PollFlags::empty() };
        let stdin = io::stdin();
        // A descriptor that is done would wake us for ever: the timer stands in for it.
        let (control, output, child) = (stdin.as_fd(), self.command.output.as_fd(), self.command.pidfd.as_fd());
        let timer = self.timer.as_fd();
        let mut fds = [
            PollFd::from_borrowed_fd(if self.exited { timer } else { child }, wanted(!self.exited)),
            PollFd::from_borrowed_fd(if self.control_open { control } else { timer }, wanted(self.control_open)),
            PollFd::from_borrowed_fd(if self.output_open { output } else { timer }, wanted(self.output_open)),
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::from_borrowed_fd(timer, PollFlags::IN),
        ];
        if poll(&mut fds, None).is_err() {
            return; // a signal; its byte is in `signals` already
        }
        let [child, control, output, signals, _timer] = fds.map(|fd| !fd.revents().is_empty());
        // The command's own end first: an order that comes in the same moment did not cause it.
        self.exited |= child;
        if control {
            self.control_open = self.control.read().unwrap_or(false);
            self.obey();
            if !self.control_open {
                self.abandon("its executor disappeared");
            }
        }
        if output {
            self.copy_output();
        }
        if signals {
            let mut bytes = [0; 16];
            while matches!((&self.signals).read(&mut bytes), Ok(count) if count > 0) {}
            self.abandon("the guard was told to end by a signal");
        }
    }

    fn arm_timer(&self) {
        let now = boottime_ms();
        let (lease, kill_at) = match &self.ending {
            None => (Some(self.lease_deadline_ms), None),
            Some(Ending { killed_at_ms: Some(_), .. }) => (None, None),
            // The lease may still bring KILL forward, and has done so if it has run out.
            Some(ending) => (Some(self.lease_deadline_ms).filter(|lease| *lease > now), Some(ending.kill_at_ms)),
        };
        let recount = self.exited.then_some(now + RECOUNT_MS);
        let due = [lease, kill_at, recount].into_iter().flatten().min();
        // All zeros would disarm it, and nothing is due at boot.
        let due = due.map_or(Timespec::default(), |ms| Timespec {
            tv_sec: (ms / 1_000).cast_signed(),
            tv_nsec: (ms % 1_000 * 1_000_000).cast_signed(),
        });
        let due = Itimerspec { it_interval: Timespec::default(), it_value: due };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &due).expect("a valid time on our own timer");
    }

    fn obey(&mut self) {
        loop {
            match self.control.next() {
                Ok(None) => return,
                // Too late once the end has begun.
                Ok(Some(Order::Extend { deadline_ms })) if self.ending.is_none() => self.lease_deadline_ms = deadline_ms,
                Ok(Some(Order::Extend { .. })) => {}
                Ok(Some(Order::Stop { kill_at_ms })) => self.end(EndCause::Stopped, None, kill_at_ms),
                Ok(Some(Order::Go { .. })) | Err(_) => {
                    self.control_open = false;
                    return self.abandon("its executor spoke nonsense");
                }
            }
        }
    }

    /// The result is nobody's any more. A stop that is under way stays one, but may not take longer than this.
    fn abandon(&mut self, why: &'static str) {
        self.end(EndCause::Abandoned, Some(why), boottime_ms() + ABANDON_GRACE_MS);
    }

    /// Begins the end, or brings KILL forward if it has begun.
    fn end(&mut self, cause: EndCause, why: Option<&'static str>, kill_at_ms: u64) {
        if let Some(ending) = &mut self.ending {
            ending.kill_at_ms = ending.kill_at_ms.min(kill_at_ms);
            return;
        }
        // If the command has ended by itself, what is ended here is what it left behind.
        let (cause, why) = if self.exited { (EndCause::Exited, None) } else { (cause, why) };
        self.ending = Some(Ending { cause, why, kill_at_ms, killed_at_ms: None });
        self.signal(Signal::TERM);
        // Stopped processes do not see TERM before they go on.
        self.signal(Signal::CONT);
    }

    /// To the group. Its number is ours: the command is not reaped before the end of supervision. Before the shim has made its
    /// session there is no group yet, only the shim.
    fn signal(&self, signal: Signal) {
        if kill_process_group(self.command.pid, signal).is_err() {
            let _ = pidfd_send_signal(&self.command.pidfd, signal);
        }
    }

    /// One read; false if there is nothing (more) to read now.
    fn copy_output(&mut self) -> bool {
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.command.output, &mut self.buffer[..])) {
            Ok(0) => self.output_open = false,
            Ok(count) => self.output.write(&self.buffer[..count]),
            Err(rustix::io::Errno::AGAIN) => return false,
            Err(_) => self.output_open = false,
        }
        self.output_open
    }

    fn finish(mut self) -> ProcessEnd {
        // Whoever was forked while the group was counted. The number is still pinned.
        self.signal(Signal::KILL);
        for _ in 0..DRAIN_BYTES_MAX / self.buffer.len() {
            if !self.copy_output() {
                break;
            }
        }
        let status = self.command.child.wait();
        let failure = read_failure(&mut self.command.failure);
        let mut cause = EndCause::Exited;
        let mut detail = None;
        if let Some(ending) = &self.ending {
            cause = ending.cause;
            if let Some(why) = ending.why {
                note(&mut detail, why);
            }
            if ending.killed_at_ms.is_some() {
                note(&mut detail, "killed after its grace");
            }
        }
        let mut status = status.map_err(|error| note(&mut detail, &format!("its exit status is unknown: {error}"))).ok();
        if let Some(failure) = failure {
            // It never ran, so 127 is the shim's and not an exit status of the command.
            status = None;
            note(&mut detail, &failure);
            if cause == EndCause::Exited {
                cause = EndCause::SpawnFailed;
            }
        }
        for more in self.notes.iter().chain(&self.output.lost()) {
            note(&mut detail, more);
        }
        ProcessEnd {
            cause,
            exit_code: status.as_ref().and_then(ExitStatus::code),
            signal: status.as_ref().and_then(ExitStatusExt::signal),
            detail,
            output_kept_bytes: self.output.kept_bytes(),
            output_dropped_bytes: self.output.dropped_bytes(),
        }
    }
}

/// The shim is dead or has become the command: the pipe is at its end either way.
fn read_failure(pipe: &mut PipeReader) -> Option<String> {
    let mut text = Vec::new();
    pipe.read_to_end(&mut text).ok()?;
    (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
}
