//! The vectors of `tests/data/cron-vectors.tsv`, which were computed by a brute-force reference in another language.

use std::process::Command;

use crate::{at, next, schedule};

const VECTORS: &str = include_str!("../data/cron-vectors.tsv");

#[test]
fn every_vector_holds() {
    let mut rows = 0;
    for line in VECTORS.lines().skip(1) {
        let [case, expr, zone, after, expected] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        // The table leaves the seconds out.
        let expected: Vec<_> = expected.split(", ").map(|text| at(&text.replace('Z', ":00Z"))).collect();
        let schedule = schedule(expr, zone);
        assert_eq!(next(&schedule, at(after), expected.len()), expected, "{case}");
        for (index, due) in expected.iter().enumerate() {
            assert!(schedule.matches(*due), "{case}");
            assert_eq!(schedule.latest_at_or_before(*due), Some(*due), "{case}");
            assert_eq!(schedule.first_at_or_after(*due), Some(*due), "{case}");
            if index > 0 {
                assert_eq!(schedule.latest_at_or_before(due.minus_ms(1)), Some(expected[index - 1]), "{case}");
            }
        }
        let last = expected[expected.len() - 1].plus_ms(1);
        let count = u32::try_from(expected.len()).unwrap();
        assert_eq!(schedule.count_between(at(after).plus_ms(1), last, 1_000), (Some(expected[0]), count, false), "{case}");
        rows += 1;
    }
    assert_eq!(rows, 15);
}

#[test]
fn the_hosts_zone_has_no_effect() {
    for zone in ["Australia/Sydney", "Europe/Berlin", "America/New_York", ":/no/such/file"] {
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["vectors::every_vector_holds", "--exact"])
            .env("TZ", zone)
            .env("TZDIR", "/no/such/directory")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && output.contains("1 passed"), "TZ={zone}: {output}");
    }
}
