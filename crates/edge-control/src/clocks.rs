//! The clocks of this machine.

use std::time::{SystemTime, UNIX_EPOCH};

use runtime_core::{AuthorityClock, MonotonicClock, TimestampMs};
use rustix::time::{ClockId, clock_gettime};

/// The wall clock. It can be set, backwards too.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl AuthorityClock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the authority's clock of the edge profile; everything else is given it")]
    fn now(&self) -> TimestampMs {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        TimestampMs::clamped(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }
}

/// `CLOCK_BOOTTIME`: nobody can set it, and it runs on while the machine is suspended.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl MonotonicClock for BootClock {
    fn now_ms(&self) -> u64 {
        let now = clock_gettime(ClockId::Boottime);
        let ms = now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000);
        u64::try_from(ms).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_tell_plausible_times() {
        assert!(SystemClock.now() > TimestampMs::EPOCH);
        let earlier = BootClock.now_ms();
        assert!(earlier > 0 && BootClock.now_ms() >= earlier);
    }
}
