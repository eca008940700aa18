//! The attempts that this process holds leases for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use runtime_core::{
    ids::{AttemptId, RunId},
    ports::dispatch::LeaseFence,
};
use tokio::sync::watch;

/// Why somebody wants an attempt to end. A later one overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// Somebody asked for it; the request is durable.
    Cancel,
    /// The program ends.
    Shutdown,
    /// The lease is not this process's any more.
    Lost,
}

/// What the task of an attempt is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orders {
    /// The lease may be used until then, in suspend-aware monotonic milliseconds.
    pub deadline_ms: u64,
    /// The attempt is to end.
    pub end: Option<End>,
}

/// Leases by attempt. What is in here is renewed; what is taken out runs out.
#[derive(Default)]
pub(super) struct Slots(Mutex<HashMap<AttemptId, Entry>>);

struct Entry {
    fence: LeaseFence,
    orders: watch::Sender<Orders>,
}

/// Takes its attempt out when dropped, however its task ends.
pub(super) struct Slot {
    slots: Arc<Slots>,
    attempt_id: AttemptId,
    pub orders: watch::Receiver<Orders>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().remove(&self.attempt_id);
    }
}

impl Slots {
    pub fn hold(self: &Arc<Self>, fence: &LeaseFence, deadline_ms: u64) -> Slot {
        let (sender, orders) = watch::channel(Orders { deadline_ms, end: None });
        self.lock().insert(fence.attempt_id, Entry { fence: fence.clone(), orders: sender });
        Slot { slots: Arc::clone(self), attempt_id: fence.attempt_id, orders }
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub fn fences(&self) -> Vec<LeaseFence> {
        self.lock().values().map(|entry| entry.fence.clone()).collect()
    }

    /// The lease was renewed by a request that was sent early enough for this deadline.
    pub fn extend(&self, attempt_id: AttemptId, deadline_ms: u64) {
        if let Some(entry) = self.lock().get(&attempt_id) {
            entry.orders.send_modify(|orders| orders.deadline_ms = orders.deadline_ms.max(deadline_ms));
        }
    }

    pub fn end(&self, attempt_id: AttemptId, end: End) {
        if let Some(entry) = self.lock().get(&attempt_id) {
            entry.end(end);
        }
    }

    /// For a cancellation that was found by its Run: only one attempt of a Run is ever open.
    pub fn cancel_run(&self, run_id: RunId) {
        if let Some(entry) = self.lock().values().find(|entry| entry.fence.run_id == run_id) {
            entry.end(End::Cancel);
        }
    }

    pub fn end_all(&self, end: End) {
        self.lock().values().for_each(|entry| entry.end(end));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn end(&self, end: End) {
        self.orders.send_if_modified(|orders| {
            let stronger = orders.end.is_none_or(|before| before < end);
            if stronger {
                orders.end = Some(end);
            }
            stronger
        });
    }
}
