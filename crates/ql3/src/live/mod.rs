//! What `up` shows as things happen: a line an event, for people or as JSON.

mod json;
mod text;

use std::{
    fmt::Display,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use edge_control::EngineEvent;
use runtime_core::run::RunStatus;
use serde_json::{Value, json};

use crate::{
    moment,
    output::{Out, Paint},
};

/// Lines that wait for a slow terminal. What comes beyond is counted and left out: printing never holds up the schedule.
const WAITING: usize = 4_096;
/// How long the end waits for the last lines to be taken.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Takes events, counts them, and hands lines to a thread of its own.
pub struct Live {
    json: bool,
    paint: Paint,
    lines: Mutex<Option<SyncSender<String>>>,
    printed: Mutex<Receiver<()>>,
    dropped: AtomicU64,
    counts: Mutex<Counts>,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub admitted: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Occurrences that were recorded instead of run.
    pub skipped: u64,
}

impl Live {
    pub fn start(out: Out) -> Self {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let (done, printed) = sync_channel(1);
        let (json, paint) = (out.json, out.paint);
        // A reader that went away is no reason to stop scheduling: lines are then thrown away.
        std::thread::spawn(move || {
            for line in waiting {
                out.line(line);
            }
            let _ = done.send(());
        });
        Self {
            json,
            paint,
            lines: Mutex::new(Some(lines)),
            printed: Mutex::new(printed),
            dropped: AtomicU64::new(0),
            counts: Mutex::default(),
        }
    }

    /// An event of the engine.
    pub fn event(&self, event: &EngineEvent) {
        let at = moment::now();
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).count(event);
        if self.json {
            let mut value = json::of(event);
            value["at"] = Value::from(at.to_string());
            self.line(value);
        } else {
            self.line(text::of(event, at, self.paint));
        }
    }

    /// A line of `up` itself.
    pub fn say(&self, text: impl Display, json: impl FnOnce() -> Value) {
        if self.json { self.line(json()) } else { self.line(text) }
    }

    fn line(&self, line: impl Display) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = &*lines else { return };
        match self.dropped.load(Ordering::Relaxed) {
            0 => {}
            dropped if sender.try_send(self.left_out(dropped)).is_ok() => self.dropped.store(0, Ordering::Relaxed),
            _ => {}
        }
        if sender.try_send(line.to_string()).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn left_out(&self, lines: u64) -> String {
        if self.json {
            return json!({ "event": "left_out", "lines": lines }).to_string();
        }
        format!("… {lines} lines left out: the output is not read fast enough")
    }

    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the last lines are printed; not for a terminal that takes none.
    pub fn finish(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = self.printed.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LAST_LINES);
    }
}

impl Counts {
    fn count(&mut self, event: &EngineEvent) {
        match event {
            EngineEvent::Admitted { .. } => self.admitted += 1,
            EngineEvent::Recorded { stretch, .. } => self.skipped += u64::from(stretch.count),
            EngineEvent::Finished { status, .. } | EngineEvent::Settled { status, .. } => match status {
                RunStatus::Succeeded => self.succeeded += 1,
                RunStatus::Failed | RunStatus::TimedOut => self.failed += 1,
                RunStatus::Cancelled => self.cancelled += 1,
                _ => {}
            },
            _ => {}
        }
    }

    pub fn to_json(self) -> Value {
        json!({
            "admitted": self.admitted, "succeeded": self.succeeded, "failed": self.failed, "cancelled": self.cancelled, "skipped": self.skipped,
        })
    }
}

/// `1 admitted, 1 succeeded`.
impl Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} admitted, {} succeeded, {} failed", self.admitted, self.succeeded, self.failed)?;
        if self.cancelled > 0 {
            write!(f, ", {} cancelled", self.cancelled)?;
        }
        write!(f, ", {} skipped", self.skipped)
    }
}
