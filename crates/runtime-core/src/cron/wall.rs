//! Wall times: which instant somebody means who reads a clock on the wall.

use jiff::{civil::DateTime, tz::AmbiguousOffset};

use super::TimeZone;
use crate::{Invalid, TimestampMs};

/// What a wall time is in its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WallTime {
    /// One instant.
    Once(TimestampMs),
    /// It does not exist: the wall jumps over it, and this is the first instant after the gap.
    Skipped(TimestampMs),
    /// It comes twice.
    Twice(TimestampMs, TimestampMs),
}

impl TimeZone {
    /// Reads a wall time without zone or offset: `2026-03-29T02:30`, seconds if wanted.
    ///
    /// # Errors
    /// [`Invalid`] on the field `instant` if it is none, or before 1970.
    pub fn wall_time(&self, text: &str) -> Result<WallTime, Invalid> {
        let refuse = || {
            Invalid::new("instant", format!("`{}` is neither an instant nor a wall time", text.escape_debug()))
                .hint("write 2026-03-29T02:30 for the trigger's zone, or an instant as 2026-03-29T01:00:00Z")
        };
        // An offset or a zone in the text would be ignored by the reader below.
        let only_digits = text.bytes().all(|byte| byte.is_ascii_digit() || b"-T: .".contains(&byte));
        let plausible = only_digits && text.get(10..).is_none_or(|time| !time.contains('-'));
        let wall: DateTime = text.parse().ok().filter(|_| plausible).ok_or_else(refuse)?;
        let at = |offset: jiff::tz::Offset| {
            let at = offset.to_timestamp(wall).map_err(|_| refuse())?;
            TimestampMs::new(at.as_millisecond())
        };
        Ok(match self.zone().to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => WallTime::Once(at(offset)?),
            AmbiguousOffset::Fold { before, after } => WallTime::Twice(at(before)?, at(after)?),
            AmbiguousOffset::Gap { after, .. } => {
                // By the offset of after the gap, a time inside it lies before the transition.
                let transition = self.segment_from(at(after)?.get().div_euclid(1000)).end;
                WallTime::Skipped(TimestampMs::new(transition * 1000)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> TimestampMs {
        TimestampMs::parse(text).unwrap()
    }

    #[test]
    fn a_wall_time_exists_once_twice_or_not_at_all() {
        let berlin = TimeZone::parse("Europe/Berlin").unwrap();
        let read = |text| berlin.wall_time(text).unwrap();
        assert_eq!(read("2026-07-01T12:00"), WallTime::Once(at("2026-07-01T10:00:00Z")));
        assert_eq!(read("2026-07-01 12:00:30"), WallTime::Once(at("2026-07-01T10:00:30Z")));
        assert_eq!(read("2026-07-01"), WallTime::Once(at("2026-06-30T22:00:00Z")), "a day is its midnight");
        assert_eq!(read("2026-03-29T01:59:59"), WallTime::Once(at("2026-03-29T00:59:59Z")));
        for skipped in ["2026-03-29T02:00", "2026-03-29T02:30", "2026-03-29T02:59:59"] {
            assert_eq!(read(skipped), WallTime::Skipped(at("2026-03-29T01:00:00Z")), "{skipped}");
        }
        assert_eq!(read("2026-03-29T03:00"), WallTime::Once(at("2026-03-29T01:00:00Z")));
        assert_eq!(read("2026-10-25T02:30"), WallTime::Twice(at("2026-10-25T00:30:00Z"), at("2026-10-25T01:30:00Z")));
        // A whole day that a zone left out.
        let apia = TimeZone::parse("Pacific/Apia").unwrap();
        assert_eq!(apia.wall_time("2011-12-30T12:00").unwrap(), WallTime::Skipped(at("2011-12-30T10:00:00Z")));
    }

    #[test]
    fn what_is_not_a_wall_time_is_refused() {
        let utc = TimeZone::parse("UTC").unwrap();
        for bad in [
            "",
            "now",
            "12:00",
            "2026-02-30T12:00",
            "2026-07-01T12:00Z",
            "2026-07-01T12:00+02:00",
            "2026-07-01T12:00-02:00",
            "1969-01-01T00:00",
            "2026-07-01T24:00",
        ] {
            assert_eq!(
                utc.wall_time(bad).unwrap_err().field.as_str(),
                if bad.starts_with("1969") { "timestamp" } else { "instant" },
                "{bad}"
            );
        }
    }
}
