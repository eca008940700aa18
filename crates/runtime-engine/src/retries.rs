//! Repeating what failed: exponential delays with jitter, told to the operator once a streak.

use std::{sync::Arc, time::Duration};

use runtime_core::{ErrorCode, Retry, StoreError, TimestampMs, ids::IdSource, ports::BoxFuture};

use crate::{
    EngineHandle,
    event::{EngineEvent, Observer},
};

const BASE_MS: u64 = 25;
/// Longer would only make the end of an outage go unnoticed.
const CAP_MS: u64 = 2_000;

/// One kind of command against the store, and its current streak of failures.
pub(crate) struct Retries {
    doing: &'static str,
    ids: Arc<dyn IdSource>,
    observer: Observer,
    failures: u32,
    told: Option<ErrorCode>,
}

impl Retries {
    pub fn new(doing: &'static str, ids: &Arc<dyn IdSource>, observer: &Observer) -> Self {
        Self { doing, ids: Arc::clone(ids), observer: Arc::clone(observer), failures: 0, told: None }
    }

    /// How long to wait before the next try.
    pub fn failed(&mut self, error: &StoreError) -> Duration {
        tracing::debug!(doing = self.doing, failures = self.failures, %error, "store command failed");
        if self.told != Some(error.code()) {
            self.told = Some(error.code());
            (self.observer)(&EngineEvent::StoreTrouble { doing: self.doing, error: error.clone() });
        }
        let full_ms = (BASE_MS << self.failures.min(16)).min(CAP_MS);
        self.failures = self.failures.saturating_add(1);
        Duration::from_millis(full_ms / 2 + random(self.ids.as_ref()) % (full_ms / 2 + 1))
    }

    /// Repeats a command until it succeeds; `None` once the engine is asked to stop.
    ///
    /// # Errors
    /// What a repeat cannot change.
    pub async fn until_done<'a, T>(
        &mut self,
        handle: &EngineHandle,
        command: impl Fn() -> BoxFuture<'a, Result<T, StoreError>>,
    ) -> Result<Option<T>, StoreError> {
        while !handle.stopping() {
            match command().await {
                Ok(answer) => {
                    self.succeeded();
                    return Ok(Some(answer));
                }
                Err(error) if error.retry() == Retry::Never => return Err(error),
                Err(error) => handle.pause(self.failed(&error)).await,
            }
        }
        Ok(None)
    }

    /// Ends the streak.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        if self.told.take().is_some() {
            (self.observer)(&EngineEvent::StoreRecovered { doing: self.doing });
        }
    }
}

/// The random half of an identity: the composition's random source is the only one.
fn random(ids: &dyn IdSource) -> u64 {
    let bytes = ids.uuid_v7(TimestampMs::EPOCH).into_bytes();
    bytes[10..].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use uuid::Uuid;

    use super::*;

    struct Ones;

    impl IdSource for Ones {
        fn uuid_v7(&self, _: TimestampMs) -> Uuid {
            Uuid::max()
        }
    }

    #[test]
    fn delays_grow_to_the_cap_and_start_anew() {
        let told: Arc<Mutex<Vec<EngineEvent>>> = Arc::default();
        let sink = Arc::clone(&told);
        let ids: Arc<dyn IdSource> = Arc::new(Ones);
        let mut retries =
            Retries::new("claim", &ids, &(Arc::new(move |event: &EngineEvent| sink.lock().unwrap().push(event.clone())) as Observer));
        let busy = StoreError::Busy { cause: "locked".into() };
        let delays: Vec<_> = (0..100).map(|_| retries.failed(&busy).as_millis()).collect();
        assert!(delays.iter().all(|ms| (12..=2_000).contains(ms)), "{delays:?}");
        assert!(delays[..7].is_sorted() && delays[99] >= 1_000);
        assert_eq!(told.lock().unwrap().len(), 1, "one streak is told once");
        retries.failed(&StoreError::CommitUnknown);
        retries.succeeded();
        retries.succeeded();
        assert!(retries.failed(&busy).as_millis() <= 25);
        let doing = "claim";
        assert_eq!(
            *told.lock().unwrap(),
            [
                EngineEvent::StoreTrouble { doing, error: busy.clone() },
                EngineEvent::StoreTrouble { doing, error: StoreError::CommitUnknown },
                EngineEvent::StoreRecovered { doing },
                EngineEvent::StoreTrouble { doing, error: busy },
            ]
        );
    }
}
