//! Watching the authority's clock: when its word is not taken.
//!
//! Exactly-once never depends on this (cursors, versions and keys do that). The watch keeps a clock that steps from deciding that
//! something is due, expired or taken over: below the highest time that was ever committed nothing is decided, and a leap far beyond the observer's
//! own suspend-aware monotonic time is held back until it has proved to be no passing error.

use crate::TimestampMs;

/// Bounds of the watch, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLimits {
    /// Further below the mark than this is reported as `clock_regressed`.
    pub regressed_ms: u64,
    /// Further ahead of the monotonic time than this is reported as `clock_leapt`.
    pub leapt_ms: u64,
    /// A leap that lasts so long is taken for the truth.
    pub leap_hold_ms: u64,
    /// At start, further above the mark than this is reported as `clock_gap`; `None`: a machine may be off for as long as it likes.
    pub gap_ms: Option<u64>,
}

impl Default for ClockLimits {
    fn default() -> Self {
        Self { regressed_ms: 1_000, leapt_ms: 10_000, leap_hold_ms: 60_000, gap_ms: None }
    }
}

/// What the watch thinks of the latest observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockState {
    /// Its word is taken.
    #[default]
    Trusted,
    /// A little below the mark: nothing is decided until it has caught up.
    Behind {
        /// Milliseconds.
        by_ms: u64,
    },
    /// Far below the mark: nothing is decided, and the program is not ready.
    Regressed {
        /// Milliseconds.
        by_ms: u64,
    },
    /// Far ahead of the monotonic time: nothing is decided, and the program is not ready.
    Leapt {
        /// Milliseconds.
        by_ms: u64,
    },
    /// At start, far above the mark: nothing is decided until an operator accepts the clock.
    Gap {
        /// Milliseconds.
        by_ms: u64,
    },
}

impl ClockState {
    /// Whether anything may be decided.
    pub fn trusted(self) -> bool {
        self == Self::Trusted
    }

    /// The stable reason for not being ready, if there is one.
    pub fn not_ready(self) -> Option<&'static str> {
        match self {
            Self::Trusted | Self::Behind { .. } => None,
            Self::Regressed { .. } => Some("clock_regressed"),
            Self::Leapt { .. } => Some("clock_leapt"),
            Self::Gap { .. } => Some("clock_gap"),
        }
    }
}

/// An observation of both clocks.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    authority: TimestampMs,
    monotonic_ms: u64,
}

impl Anchor {
    /// How far `authority` is ahead of where the monotonic time says that it should be.
    fn ahead_ms(&self, authority: TimestampMs, monotonic_ms: u64) -> u64 {
        authority.since_ms(self.authority.plus_ms(monotonic_ms.saturating_sub(self.monotonic_ms)))
    }
}

#[derive(Clone, Copy, Debug)]
struct Leap {
    /// The last trusted observation.
    before: Anchor,
    /// The first observation of the time that is held back.
    after: Anchor,
}

/// The watch of one observer.
#[derive(Clone, Debug)]
pub struct ClockWatch {
    limits: ClockLimits,
    anchor: Option<Anchor>,
    leap: Option<Leap>,
    state: ClockState,
}

impl ClockWatch {
    /// A watch that has seen nothing yet.
    pub fn new(limits: ClockLimits) -> Self {
        Self { limits, anchor: None, leap: None, state: ClockState::Trusted }
    }

    /// The state after the latest observation.
    pub fn state(&self) -> ClockState {
        self.state
    }

    /// Judges an observation of the authority's clock. `monotonic_ms` is the observer's own suspend-aware monotonic time, `mark` the
    /// highest authority time that was ever committed.
    pub fn observe(&mut self, authority: TimestampMs, monotonic_ms: u64, mark: Option<TimestampMs>) -> ClockState {
        self.state = self.judge(Anchor { authority, monotonic_ms }, mark);
        self.state
    }

    /// An operator vouches for the clock: what comes next is measured from here.
    pub fn accept(&mut self, authority: TimestampMs, monotonic_ms: u64) {
        self.anchor = Some(Anchor { authority, monotonic_ms });
        self.leap = None;
        self.state = ClockState::Trusted;
    }

    fn judge(&mut self, seen: Anchor, mark: Option<TimestampMs>) -> ClockState {
        if let Some(mark) = mark.filter(|mark| *mark > seen.authority) {
            // Coming back to the mark is the repair of a regression, not a leap: nothing is measured from a clock that is known to be wrong.
            self.anchor = None;
            self.leap = None;
            let by_ms = mark.since_ms(seen.authority);
            return if by_ms > self.limits.regressed_ms { ClockState::Regressed { by_ms } } else { ClockState::Behind { by_ms } };
        }
        if let Some(leap) = &mut self.leap {
            let by_ms = leap.before.ahead_ms(seen.authority, seen.monotonic_ms);
            if by_ms > self.limits.leapt_ms {
                if leap.after.ahead_ms(seen.authority, seen.monotonic_ms) > self.limits.leapt_ms {
                    leap.after = seen;
                }
                if seen.monotonic_ms.saturating_sub(leap.after.monotonic_ms) < self.limits.leap_hold_ms {
                    return ClockState::Leapt { by_ms };
                }
            }
            self.leap = None;
        } else if let Some(anchor) = self.anchor {
            let by_ms = anchor.ahead_ms(seen.authority, seen.monotonic_ms);
            if by_ms > self.limits.leapt_ms {
                self.leap = Some(Leap { before: anchor, after: seen });
                return ClockState::Leapt { by_ms };
            }
        } else if let (Some(gap_ms), Some(mark)) = (self.limits.gap_ms, mark) {
            let by_ms = seen.authority.since_ms(mark);
            if by_ms > gap_ms {
                return ClockState::Gap { by_ms };
            }
        }
        self.anchor = Some(seen);
        ClockState::Trusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(s: i64) -> TimestampMs {
        TimestampMs::clamped(s * 1_000)
    }

    /// C22b: 15:00, then 17:00, then 15:01: two hours are never believed.
    #[test]
    fn a_passing_leap_decides_nothing() {
        let mut watch = ClockWatch::new(ClockLimits::default());
        assert!(watch.observe(t(54_000), 1_000_000, None).trusted());
        assert_eq!(watch.observe(t(61_200), 1_001_000, None), ClockState::Leapt { by_ms: 7_199_000 });
        assert_eq!(watch.observe(t(61_230), 1_031_000, None).not_ready(), Some("clock_leapt"));
        assert!(watch.observe(t(54_060), 1_060_000, None).trusted());
    }

    #[test]
    fn a_leap_that_lasts_is_the_truth() {
        let mut watch = ClockWatch::new(ClockLimits::default());
        watch.observe(t(100), 0, None);
        assert!(!watch.observe(t(4_000), 1_000, None).trusted());
        assert!(!watch.observe(t(4_059), 60_000, None).trusted());
        assert!(watch.observe(t(4_060), 61_000, None).trusted());
        assert!(watch.observe(t(4_061), 62_000, None).trusted());
    }

    #[test]
    fn a_second_leap_is_held_back_anew() {
        let mut watch = ClockWatch::new(ClockLimits::default());
        watch.observe(t(100), 0, None);
        watch.observe(t(4_000), 1_000, None);
        assert!(!watch.observe(t(9_000), 50_000, None).trusted());
        assert!(!watch.observe(t(9_011), 61_000, None).trusted());
        assert!(watch.observe(t(9_060), 110_000, None).trusted());
    }

    #[test]
    fn a_suspend_is_no_leap() {
        let mut watch = ClockWatch::new(ClockLimits::default());
        watch.observe(t(100), 0, None);
        assert!(watch.observe(t(36_100), 36_000_000, None).trusted(), "the monotonic time counts the suspend too");
    }

    #[test]
    fn below_the_mark_nothing_is_decided_and_catching_up_is_no_leap() {
        let mut watch = ClockWatch::new(ClockLimits::default());
        assert!(watch.observe(t(1_000), 0, Some(t(1_000))).trusted());
        assert_eq!(watch.observe(t(999), 500, Some(t(1_000))), ClockState::Behind { by_ms: 1_000 });
        assert_eq!(watch.observe(t(910), 1_000, Some(t(1_000))).not_ready(), Some("clock_regressed"));
        assert!(watch.observe(t(1_002), 2_000, Some(t(1_000))).trusted());
    }

    /// A router boots in 1970 and is told the time later.
    #[test]
    fn booting_in_1970_waits_for_the_mark() {
        let mut watch = ClockWatch::new(ClockLimits::default());
        let mark = Some(t(1_800_000_000));
        assert_eq!(watch.observe(t(12), 0, mark).not_ready(), Some("clock_regressed"));
        assert!(watch.observe(t(1_800_003_600), 30_000, mark).trusted());
    }

    #[test]
    fn a_gap_at_start_waits_for_an_operator_where_that_is_asked_for() {
        let mut watch = ClockWatch::new(ClockLimits { gap_ms: Some(86_400_000), ..ClockLimits::default() });
        assert_eq!(watch.observe(t(200_000), 0, Some(t(1))).not_ready(), Some("clock_gap"));
        watch.accept(t(200_000), 0);
        assert!(watch.observe(t(200_001), 1_000, Some(t(1))).trusted());
    }
}
