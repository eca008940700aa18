//! A clock that stands still until a test moves it.

use runtime_core::{AuthorityClock, MonotonicClock, TimestampMs};
use tokio::sync::watch;

/// Both clocks of a machine: the authority's, which may be set, and the monotonic one, which only ever goes on. Whoever waits for either
/// wakes when it moves.
#[derive(Debug)]
pub struct ManualClock {
    clocks: watch::Sender<Clocks>,
}

#[derive(Clone, Copy, Debug)]
struct Clocks {
    authority: TimestampMs,
    monotonic_ms: u64,
}

impl ManualClock {
    /// Stands at `at`; the monotonic clock starts at 0.
    pub fn new(at: TimestampMs) -> Self {
        Self { clocks: watch::Sender::new(Clocks { authority: at, monotonic_ms: 0 }) }
    }

    /// Time passes, a suspend included: both clocks go on.
    pub fn advance(&self, ms: u64) {
        self.clocks.send_modify(|clocks| {
            clocks.authority = clocks.authority.plus_ms(ms);
            clocks.monotonic_ms += ms;
        });
    }

    /// Somebody sets the authority's clock, backwards too; no time passes.
    pub fn set(&self, at: TimestampMs) {
        self.clocks.send_modify(|clocks| clocks.authority = at);
    }

    /// Returns once the authority's clock has reached `at`.
    pub async fn wait_until(&self, at: TimestampMs) {
        self.wait(|clocks| clocks.authority >= at).await;
    }

    /// Returns once `ms` of monotonic time have passed from now on.
    pub async fn sleep_ms(&self, ms: u64) {
        let until = MonotonicClock::now_ms(self) + ms;
        self.wait(|clocks| clocks.monotonic_ms >= until).await;
    }

    async fn wait(&self, reached: impl Fn(&Clocks) -> bool) {
        // The sender lives as long as `self`, so the channel cannot close meanwhile.
        let _ = self.clocks.subscribe().wait_for(reached).await;
    }
}

impl AuthorityClock for ManualClock {
    fn now(&self) -> TimestampMs {
        self.clocks.borrow().authority
    }
}

impl MonotonicClock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.clocks.borrow().monotonic_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiters_wake_when_time_moves() {
        let clock = ManualClock::new(TimestampMs::clamped(1_000));
        let move_on = async {
            tokio::task::yield_now().await;
            clock.set(TimestampMs::clamped(500));
            clock.advance(100);
            clock.advance(9_400);
        };
        tokio::join!(clock.wait_until(TimestampMs::clamped(10_000)), clock.sleep_ms(9_500), move_on);
        assert_eq!(AuthorityClock::now(&clock).get(), 10_000);
        assert_eq!(clock.now_ms(), 9_500, "setting a clock is not time that passes");
    }
}
