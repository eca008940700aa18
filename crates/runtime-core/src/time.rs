//! Instants, and who may say what time it is.

use std::fmt;

use crate::{Invalid, limits::SAFE_INTEGER_MAX};

/// A UTC instant in whole milliseconds since 1970, `0 ..= 2^53 - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampMs(i64);

impl TimestampMs {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// The last instant that can be stored.
    pub const MAX: Self = Self(SAFE_INTEGER_MAX);

    /// Checks the range.
    pub fn new(ms: i64) -> Result<Self, Invalid> {
        if (0..=SAFE_INTEGER_MAX).contains(&ms) {
            Ok(Self(ms))
        } else {
            Err(Invalid::new("timestamp", format!("{ms} ms is outside 0 ..= {SAFE_INTEGER_MAX}")))
        }
    }

    /// The nearest instant in range.
    pub fn clamped(ms: i64) -> Self {
        Self(ms.clamp(0, SAFE_INTEGER_MAX))
    }

    /// Milliseconds since 1970.
    pub fn get(self) -> i64 {
        self.0
    }

    /// `ms` later, at most [`Self::MAX`].
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self::clamped(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// `ms` earlier, at least [`Self::EPOCH`].
    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Self {
        Self::clamped(self.0.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub fn since_ms(self, earlier: Self) -> u64 {
        u64::try_from(self.0 - earlier.0).unwrap_or(0)
    }

    /// Reads RFC 3339 (`2026-03-29T01:00:00Z`, any offset, fractions beyond the millisecond cut off).
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let at: jiff::Timestamp = text.parse().map_err(|_| {
            Invalid::new("instant", format!("`{text}` is not an RFC 3339 instant")).hint("write it as 2026-03-29T01:00:00Z")
        })?;
        Self::new(at.as_millisecond())
    }
}

/// RFC 3339 in UTC; milliseconds are shown only where they are not zero.
impl fmt::Display for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at}"),
            // Past the year 9999 there is no calendar; the number is still exact.
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

/// Who says what time it is. A store observes it once a command, *after* its locks.
///
/// `PostgreSQL` is its own authority and needs none; `SQLite` and the reference model are given one when they are opened.
pub trait AuthorityClock: Send + Sync {
    /// The current instant.
    fn now(&self) -> TimestampMs;
}

/// A process's own suspend-aware monotonic time (`CLOCK_BOOTTIME`). It bounds sleeps and protects deadlines; it never says what is due.
pub trait MonotonicClock: Send + Sync {
    /// Milliseconds since some fixed instant.
    fn now_ms(&self) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_exact() {
        assert!(TimestampMs::new(-1).is_err());
        assert!(TimestampMs::new(SAFE_INTEGER_MAX).is_ok());
        assert!(TimestampMs::new(SAFE_INTEGER_MAX + 1).is_err());
        assert_eq!(TimestampMs::MAX.plus_ms(1), TimestampMs::MAX);
        assert_eq!(TimestampMs::EPOCH.minus_ms(u64::MAX), TimestampMs::EPOCH);
    }

    #[test]
    fn text_round_trips() {
        for text in ["2026-03-29T01:00:00Z", "1970-01-01T00:00:00Z", "2026-03-29T01:00:00.123Z"] {
            assert_eq!(TimestampMs::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(TimestampMs::parse("2026-03-29T03:00:00+02:00").unwrap().to_string(), "2026-03-29T01:00:00Z");
        assert!(TimestampMs::parse("yesterday").is_err());
        assert_eq!(TimestampMs::MAX.to_string(), "9007199254740991ms");
    }
}
