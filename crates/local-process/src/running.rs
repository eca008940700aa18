//! The executor's side of one attempt.

use std::{
    fmt, io,
    process::Child,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use runtime_core::{
    ids::AttemptId,
    ports::executor::{EndCause, ExecutorError, Prepared, ProcessEnd, Running},
};
use tokio::net::unix::pipe;

use crate::{
    files::AttemptFiles,
    protocol::{self, Frames, Order, Report, boottime_ms},
    recover,
};

/// Guards that nobody waits for any more: they end by themselves, and are reaped when the next one is started or given up.
#[derive(Debug, Default)]
pub(crate) struct Graveyard(Mutex<Vec<Child>>);

impl Graveyard {
    pub fn sweep(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    fn bury(&self, child: Child) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        self.sweep();
    }
}

/// Sees to it that the guard is reaped, and killed first while it has not been let go.
pub(crate) struct GuardProcess {
    child: Option<Child>,
    let_go: bool,
    graveyard: Arc<Graveyard>,
}

impl GuardProcess {
    pub fn new(child: Child, graveyard: Arc<Graveyard>) -> Self {
        Self { child: Some(child), let_go: false, graveyard }
    }

    /// For a guard that has nothing more to do: it has exited, is exiting, or only waits for orders. So this takes no time, and
    /// afterwards it is certain that it starts nothing.
    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for GuardProcess {
    fn drop(&mut self) {
        if !self.let_go {
            self.reap();
        } else if let Some(child) = self.child.take() {
            self.graveyard.bury(child);
        }
    }
}

/// What the guard says.
pub(crate) struct Reports {
    pipe: pipe::Receiver,
    frames: Frames,
}

impl Reports {
    pub fn new(pipe: pipe::Receiver) -> Self {
        Self { pipe, frames: Frames::default() }
    }

    /// The next report; `None` if the guard is gone. Dropping the future loses nothing.
    pub async fn next(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some(report) = self.frames.next()? {
                return Ok(Some(report));
            }
            self.pipe.readable().await?;
            let mut buffer = [0; 1024];
            match self.pipe.try_read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => self.frames.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Orders are smaller than a page, so the pipe takes them whole or not at all.
fn send(control: &pipe::Sender, order: Order) -> io::Result<()> {
    rustix::io::write(control, &protocol::encode(&order)?)?;
    Ok(())
}

/// A guard that has the job and waits.
pub(crate) struct Blocked {
    pub guard: GuardProcess,
    pub control: pipe::Sender,
    pub reports: Reports,
    pub handle: String,
    pub files: AttemptFiles,
    pub attempt_id: AttemptId,
}

#[async_trait]
impl Prepared for Blocked {
    fn pid(&self) -> u32 {
        self.guard.child.as_ref().map_or(0, Child::id)
    }

    fn handle(&self) -> &str {
        &self.handle
    }

    async fn go(mut self: Box<Self>, lease_ms: u64) -> Result<Box<dyn Running>, ExecutorError> {
        let deadline_ms = boottime_ms().saturating_add(lease_ms);
        send(&self.control, Order::Go { deadline_ms })
            .map_err(|error| ExecutorError { what: format!("let guard {} go", self.pid()), cause: error.to_string() })?;
        self.guard.let_go = true;
        Ok(Box::new(Supervised {
            control: Mutex::new(Some(self.control)),
            state: tokio::sync::Mutex::new(State { guard: self.guard, reports: self.reports, end: None }),
            files: self.files,
            attempt_id: self.attempt_id,
        }))
    }
}

struct Supervised {
    /// None once an order could not be delivered.
    control: Mutex<Option<pipe::Sender>>,
    state: tokio::sync::Mutex<State>,
    files: AttemptFiles,
    attempt_id: AttemptId,
}

struct State {
    guard: GuardProcess,
    reports: Reports,
    end: Option<ProcessEnd>,
}

impl Supervised {
    /// An order that cannot be delivered closes the pipe, which every guard that can still act takes as the order to end. (The pipe
    /// holds more orders than a guard that is alive leaves unread.)
    fn order(&self, order: Order) {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        if control.as_ref().is_some_and(|pipe| send(pipe, order).is_err()) {
            *control = None;
        }
    }

    /// The guard is dead and said nothing, so it was killed, and the command with it. Ends what is left of the group.
    async fn guard_was_killed(&self) -> ProcessEnd {
        if let Some(end) = self.files.read_exit(self.attempt_id) {
            return end;
        }
        let detail = match recover::end_remains(&self.files, self.attempt_id).await {
            Ok(()) => "the guard was killed".to_owned(),
            Err(reason) => format!("the guard was killed; {reason}"),
        };
        tracing::warn!(attempt_id = %self.attempt_id, detail, "guard lost");
        ProcessEnd {
            cause: EndCause::Abandoned,
            exit_code: None,
            signal: None,
            detail: Some(detail),
            output_kept_bytes: self.files.log_bytes(),
            output_dropped_bytes: 0,
        }
    }
}

#[async_trait]
impl Running for Supervised {
    async fn wait(&self) -> Result<ProcessEnd, ExecutorError> {
        let mut state = self.state.lock().await;
        while state.guard.child.is_some() {
            // A guard that has closed its pipe is done; one that makes no sense is none, and its death is the command's.
            match state.reports.next().await.unwrap_or(None) {
                Some(Report::Ended(end)) => state.end = Some(end),
                Some(Report::Ready { .. }) => {}
                None => state.guard.reap(),
            }
        }
        if state.end.is_none() {
            state.end = Some(self.guard_was_killed().await);
        }
        state.end.clone().ok_or_else(|| ExecutorError { what: "wait for the command".to_owned(), cause: "no end".to_owned() })
    }

    fn extend(&self, lease_ms: u64) {
        self.order(Order::Extend { deadline_ms: boottime_ms().saturating_add(lease_ms) });
    }

    fn stop(&self, grace_ms: u64) {
        self.order(Order::Stop { kill_at_ms: boottime_ms().saturating_add(grace_ms) });
    }
}

impl fmt::Debug for Supervised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervised").field("attempt_id", &self.attempt_id).finish_non_exhaustive()
    }
}
