//! Instants as people read and write them.

use edge_control::SystemClock;
use jiff::Timestamp;
use runtime_core::{AuthorityClock as _, TimestampMs};

use crate::duration;

/// The machine's clock, for ages and for "from now on". What is due is decided by the store's authority, never by this.
pub fn now() -> TimestampMs {
    SystemClock.now()
}

/// `--since`: an instant, or so long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    At(TimestampMs),
    AgoMs(u64),
}

impl Since {
    pub fn parse(text: &str) -> Result<Self, String> {
        match (TimestampMs::parse(text), duration::parse_ms(text)) {
            (Ok(at), _) => Ok(Self::At(at)),
            (_, Ok(ms)) => Ok(Self::AgoMs(ms)),
            _ => Err("write an instant as 2026-03-29T01:00:00Z, or a duration as 90s, 5m, 2h, 1d".to_owned()),
        }
    }

    pub fn instant(self, now: TimestampMs) -> TimestampMs {
        match self {
            Self::At(at) => at,
            Self::AgoMs(ms) => now.minus_ms(ms),
        }
    }
}

/// `2026-03-29 01:00:00Z`: UTC, to the second.
pub fn utc(at: TimestampMs) -> String {
    show(at, "%Y-%m-%d %H:%M:%SZ")
}

/// `2026-03-29 01:00:00.004Z`: UTC, to the millisecond.
pub fn utc_ms(at: TimestampMs) -> String {
    show(at, "%Y-%m-%d %H:%M:%S.%3fZ")
}

/// `01:00:00.004Z`: the UTC time of day, for lines that come as things happen.
pub fn time_of_day(at: TimestampMs) -> String {
    show(at, "%H:%M:%S.%3fZ")
}

fn show(at: TimestampMs, format: &str) -> String {
    // Past the year 9999 there is no calendar.
    Timestamp::from_millisecond(at.get()).map_or_else(|_| at.to_string(), |at| at.strftime(format).to_string())
}

/// `2026-03-29 03:00:00+02:00` of RFC 3339 text in some zone.
pub fn spaced(local: &str) -> String {
    local.replacen('T', " ", 1)
}

/// `3m 20s ago`, `in 2h`, `now`.
pub fn relative(at: TimestampMs, now: TimestampMs) -> String {
    let coarse = |ms: u64| duration::show(ms / 1_000 * 1_000);
    match at.since_ms(now) {
        ahead if ahead >= 1_000 => format!("in {}", coarse(ahead)),
        _ => match now.since_ms(at) {
            ago if ago >= 1_000 => format!("{} ago", coarse(ago)),
            _ => "now".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> TimestampMs {
        TimestampMs::parse(text).unwrap()
    }

    #[test]
    fn since_is_an_instant_or_an_age() {
        let now = at("2026-03-29T01:00:00Z");
        assert_eq!(Since::parse("2h").unwrap().instant(now), at("2026-03-28T23:00:00Z"));
        assert_eq!(Since::parse("2026-01-01T00:00:00Z").unwrap().instant(now), at("2026-01-01T00:00:00Z"));
        assert!(Since::parse("yesterday").unwrap_err().contains("2h"));
    }

    #[test]
    fn instants_are_shown_in_utc_and_relative_to_now() {
        let t = at("2026-03-29T01:00:00.004Z");
        assert_eq!(
            (utc(t), utc_ms(t), time_of_day(t)),
            ("2026-03-29 01:00:00Z".into(), "2026-03-29 01:00:00.004Z".into(), "01:00:00.004Z".into())
        );
        assert_eq!(relative(t, t.plus_ms(200_000)), "3m 20s ago");
        assert_eq!(relative(t.plus_ms(7_200_000), t), "in 2h");
        assert_eq!(relative(t, t.plus_ms(999)), "now");
        assert_eq!(utc(TimestampMs::MAX), "9007199254740991ms");
    }
}
