//! Durations as people write them: `500ms`, `10s`, `5m`, `1h`, `2d`, and joined: `1h30m`.

use runtime_core::Invalid;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a duration.
pub fn parse_ms(text: &str) -> Result<u64, Invalid> {
    let refuse = || {
        Invalid::new("duration", format!("`{}` is not a duration", text.escape_debug()))
            .hint("write a whole number with its unit: 500ms, 10s, 5m, 1h, 2d; larger units first: 1h30m")
    };
    let mut total = 0_u64;
    let mut last_unit = u64::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let (number, unit) = (&rest[..digits], &rest[digits..digits + letters]);
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).filter(|factor| *factor < last_unit);
        let (Some(factor), Ok(number)) = (factor, number.parse::<u64>()) else { return Err(refuse()) };
        total = number.checked_mul(factor).and_then(|part| total.checked_add(part)).ok_or_else(refuse)?;
        last_unit = factor;
        rest = &rest[digits + letters..];
    }
    if text.is_empty() { Err(refuse()) } else { Ok(total) }
}

/// For clap.
pub fn parse(text: &str) -> Result<u64, String> {
    parse_ms(text).map_err(|invalid| format!("{}; {}", invalid.reason, invalid.hint.unwrap_or_default()))
}

/// The two largest units, rounded down: `1h 5m`, `2d`, `350ms`. For people only.
pub fn show(ms: u64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut rest = ms;
    let mut parts = Vec::new();
    for (name, factor) in UNITS.iter().rev() {
        // Milliseconds matter only below a few seconds.
        if rest >= *factor && (*factor > 1 || ms < 10_000) {
            parts.push(format!("{}{name}", rest / factor));
            rest %= factor;
        } else if !parts.is_empty() {
            break;
        }
        if parts.len() == 2 {
            break;
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in
            [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000), ("2d", 172_800_000), ("1h30m", 5_400_000), ("0s", 0)]
        {
            assert_eq!(parse_ms(text).unwrap(), ms, "{text}");
        }
        for text in
            ["", "10", "s", "1.5h", "-1s", "5 m", "10S", "1m1h", "1s1s", "10min", "99999999999999999999s", "18446744073709551615d", "٣s"]
        {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn people_see_two_units() {
        for (ms, text) in [
            (0, "0s"),
            (350, "350ms"),
            (1_004, "1s 4ms"),
            (61_000, "1m 1s"),
            (3_600_000, "1h"),
            (3_661_000, "1h 1m"),
            (200_000_000, "2d 7h"),
        ] {
            assert_eq!(show(ms), text);
        }
        assert_eq!(show(12_345), "12s");
    }
}
