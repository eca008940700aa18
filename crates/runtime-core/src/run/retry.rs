//! When a Run may be tried again.

use serde::{Deserialize, Serialize};

use super::status::small;
use crate::{
    Invalid, TimestampMs,
    ids::RunId,
    limits::{ATTEMPTS_MAX, BACKOFF_MS_MAX},
};

/// What the author of a task promises about running it twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Safety {
    /// Nothing: a lost attempt is never repeated.
    #[default]
    Unknown,
    /// Running it twice does what running it once does.
    Idempotent,
    /// It recognises a repeated attempt by itself.
    Deduplicated,
}

impl Safety {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Unknown, Self::Idempotent, Self::Deduplicated];

    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Idempotent => "idempotent",
            Self::Deduplicated => "deduplicated",
        }
    }

    /// Reads the stored form.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|s| s.as_str() == text).ok_or_else(|| {
            Invalid::new("safety", format!("`{}` is not known", text.escape_debug())).hint("unknown, idempotent, deduplicated")
        })
    }
}

/// Exponential backoff with a cap: `min(max_ms, base_ms * 2^(n-1))` after the n-th attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// Delay after the first attempt.
    pub base_ms: u64,
    /// No delay is longer.
    pub max_ms: u64,
}

impl Backoff {
    /// The delay after the `attempt`-th attempt ended; saturates, never falls with a higher `attempt`.
    pub fn delay_ms(self, attempt: u32) -> u64 {
        let doublings = attempt.saturating_sub(1).min(63);
        let factor = 1_u64 << doublings;
        self.base_ms.saturating_mul(factor).min(self.max_ms)
    }
}

/// The part of a policy that a task's author writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    /// 1 ..= 16; lost attempts count.
    pub max_attempts: u32,
    /// Whether a lost attempt is followed by another. Has no effect while `safety` is `unknown`.
    pub on_lost: bool,
    /// What the author promises.
    pub safety: Safety,
    /// Delay before the next attempt.
    pub backoff: Backoff,
}

impl Default for RetrySpec {
    /// One attempt.
    fn default() -> Self {
        Self { max_attempts: 1, on_lost: false, safety: Safety::Unknown, backoff: Backoff { base_ms: 0, max_ms: 0 } }
    }
}

impl RetrySpec {
    /// Checks every bound.
    pub fn check(&self) -> Result<(), Invalid> {
        small("retry.max_attempts", u64::from(self.max_attempts), ATTEMPTS_MAX)?;
        let Backoff { base_ms, max_ms } = self.backoff;
        for (field, value) in [("retry.backoff", base_ms), ("retry.max_backoff", max_ms)] {
            if value > BACKOFF_MS_MAX {
                return Err(Invalid::new(field, format!("is {value} ms, at most {BACKOFF_MS_MAX} ms (24h) are allowed")));
            }
        }
        if max_ms < base_ms {
            return Err(Invalid::new("retry.max_backoff", format!("{max_ms} ms is less than retry.backoff, {base_ms} ms")));
        }
        if self.on_lost && self.safety == Safety::Unknown {
            return Err(Invalid::new("retry.on_lost", "needs a statement that running the task twice is safe")
                .hint("add safety = \"idempotent\" or safety = \"deduplicated\", or leave on_lost out"));
        }
        Ok(())
    }
}

/// One row of `run_retry_policies`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Key.
    pub run_id: RunId,
    /// As the task's author wrote it.
    pub spec: RetrySpec,
    /// When the next attempt is due; set exactly while the Run is in `retry_wait`.
    pub next_attempt_at: Option<TimestampMs>,
    /// Raised by exactly one with every change; starts at 1.
    pub version: u64,
    /// Authority time.
    pub created_at: TimestampMs,
    /// Authority time.
    pub updated_at: TimestampMs,
}

/// Why an attempt ended, as far as a retry cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Badly,
    Lost,
}

impl RetryPolicy {
    /// The instant of the next attempt after the `attempt`-th ended at `at`, or `None` if there is none.
    pub(super) fn next_attempt(&self, ended: Ended, attempt: u32, at: TimestampMs) -> Option<TimestampMs> {
        let safe = ended == Ended::Badly || (self.spec.on_lost && self.spec.safety != Safety::Unknown);
        (safe && attempt < self.spec.max_attempts).then(|| at.plus_ms(self.spec.backoff.delay_ms(attempt)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_table() {
        let backoff = Backoff { base_ms: 2_000, max_ms: 3_600_000 };
        for n in 1..=100_u32 {
            let expected = if n <= 11 { 2_000_u64 << (n - 1) } else { 3_600_000 };
            assert_eq!(backoff.delay_ms(n), expected, "attempt {n}");
        }
        assert_eq!(backoff.delay_ms(u32::MAX), 3_600_000);
        assert_eq!(Backoff { base_ms: 0, max_ms: 0 }.delay_ms(64), 0);
        assert_eq!(Backoff { base_ms: BACKOFF_MS_MAX, max_ms: BACKOFF_MS_MAX }.delay_ms(1 << 31), BACKOFF_MS_MAX);
        assert_eq!(Backoff { base_ms: 1_000, max_ms: BACKOFF_MS_MAX }.delay_ms(31), BACKOFF_MS_MAX);
    }

    #[test]
    fn bounds_are_checked() {
        let good = RetrySpec { max_attempts: 3, backoff: Backoff { base_ms: 1, max_ms: 2 }, ..RetrySpec::default() };
        assert!(good.check().is_ok());
        let field = |spec: RetrySpec| spec.check().unwrap_err().field;
        assert_eq!(field(RetrySpec { max_attempts: 0, ..good }), "retry.max_attempts");
        assert_eq!(field(RetrySpec { max_attempts: 17, ..good }), "retry.max_attempts");
        assert_eq!(field(RetrySpec { backoff: Backoff { base_ms: 2, max_ms: 1 }, ..good }), "retry.max_backoff");
        assert_eq!(field(RetrySpec { backoff: Backoff { base_ms: 0, max_ms: BACKOFF_MS_MAX + 1 }, ..good }), "retry.max_backoff");
        assert_eq!(field(RetrySpec { on_lost: true, ..good }), "retry.on_lost");
    }
}
