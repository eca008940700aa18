//! One opinion of the authority's clock for all loops of a process.

use std::sync::{Arc, Mutex, PoisonError};

use runtime_core::{
    AuthorityClock, MonotonicClock, TimestampMs,
    clock::{ClockLimits, ClockState, ClockWatch},
    limits::LEASE_MS_MAX,
};

use crate::event::{EngineEvent, Observer};

/// Judges every observation of the authority's clock against the process's suspend-aware monotonic time and the store's high-water mark.
///
/// Where the authority is this machine's own clock it can be asked at no cost, and is, right before every write: a step
/// then never reaches the store. Where it is a server's, the latest page says how it stands.
pub struct ClockGuard {
    monotonic: Arc<dyn MonotonicClock>,
    authority: Option<Arc<dyn AuthorityClock>>,
    observer: Observer,
    watched: Mutex<Watched>,
}

struct Watched {
    watch: ClockWatch,
    mark: Option<TimestampMs>,
    /// Leases are not expired before this monotonic time.
    expiry_from_ms: u64,
}

impl ClockGuard {
    /// `authority`: the clock that the store was given, if it was given one.
    pub fn new(
        monotonic: Arc<dyn MonotonicClock>,
        authority: Option<Arc<dyn AuthorityClock>>,
        limits: ClockLimits,
        observer: Observer,
    ) -> Self {
        let watched = Watched { watch: ClockWatch::new(limits), mark: None, expiry_from_ms: 0 };
        Self { monotonic, authority, observer, watched: Mutex::new(watched) }
    }

    /// Takes an observation that came with an answer of the store. `sent_ms` is the monotonic time before the request. An answer that
    /// took long may then look like a leap, for this once; with the time after it, the next prompt answer would look like one.
    pub fn observe(&self, authority: TimestampMs, sent_ms: u64, mark: Option<TimestampMs>) -> ClockState {
        self.judge(authority, sent_ms, |watched| watched.mark = mark)
    }

    /// What is thought of the clock now.
    pub fn state(&self) -> ClockState {
        match &self.authority {
            Some(authority) => self.judge(authority.now(), self.monotonic.now_ms(), |_| ()),
            None => self.lock().watch.state(),
        }
    }

    /// Whether a fact may be stamped. Below the mark it may: the stores let nothing expire meanwhile. After a leap it may not, or the mark would
    /// rise to a time that may be wrong.
    pub(crate) fn may_stamp(&self) -> bool {
        !matches!(self.state(), ClockState::Leapt { .. } | ClockState::Gap { .. })
    }

    /// Whether leases may be found expired. After a leap their holders have one maximal lease to say that they are alive.
    pub(crate) fn may_expire(&self) -> bool {
        self.state().trusted() && self.monotonic.now_ms() >= self.lock().expiry_from_ms
    }

    fn judge(&self, authority: TimestampMs, monotonic_ms: u64, note: impl FnOnce(&mut Watched)) -> ClockState {
        let (before, after) = {
            let mut watched = self.lock();
            note(&mut watched);
            let before = watched.watch.state();
            let mark = watched.mark;
            let after = watched.watch.observe(authority, monotonic_ms, mark);
            if matches!(before, ClockState::Leapt { .. }) && !matches!(after, ClockState::Leapt { .. }) {
                watched.expiry_from_ms = monotonic_ms.saturating_add(LEASE_MS_MAX);
            }
            (before, after)
        };
        if std::mem::discriminant(&before) != std::mem::discriminant(&after) {
            tracing::info!(?before, ?after, %authority, "authority clock");
            (self.observer)(&EngineEvent::Clock(after));
        }
        after
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
