//! `next` against the public vectors, whatever the machine's zone is.

use runtime_core::TimestampMs;

use crate::{Place, repository};

const HOST_ZONES: [&str; 5] = ["UTC", "Australia/Sydney", "America/St_Johns", "Europe/Berlin", "nonsense"];

fn at(text: &str) -> TimestampMs {
    // The vectors leave out seconds.
    let full = if text.len() == "2026-01-01T00:00Z".len() { text.replace('Z', ":00Z") } else { text.to_owned() };
    TimestampMs::parse(&full).unwrap()
}

/// The `at` of each occurrence, under a host zone.
fn next(place: &Place, host_zone: &str, expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let count = count.to_string();
    let args = ["next", expression, "--tz", zone, "--after", after, "-n", &count, "--json"];
    let output = place.command(&args).env("TZ", host_zone).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    json["occurrences"].as_array().unwrap().iter().map(|o| o["at"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_vector_holds_under_any_host_zone() {
    let place = Place::new();
    let text = std::fs::read_to_string(repository().join("crates/runtime-core/tests/data/cron-vectors.tsv")).unwrap();
    let mut rows = 0;
    for row in text.lines().skip(1).filter(|row| !row.trim().is_empty()) {
        let [case, expression, zone, after, expected] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let expected: Vec<_> = expected.split(", ").map(|text| at(text.trim()).to_string()).collect();
        for host_zone in HOST_ZONES {
            assert_eq!(next(&place, host_zone, expression, zone, after, expected.len()), expected, "{case} with TZ={host_zone}");
        }
        rows += 1;
    }
    assert_eq!(rows, 15);
}

/// 29 March 2026: 02:00 to 03:00 does not exist.
#[test]
fn berlin_in_spring() {
    let place = Place::new();
    let cases = [
        // Lists and ranges are fixed times too: what the gap swallows occurs once, at its end.
        ("0,15 2 * * *", vec!["2026-03-28T01:15:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z", "2026-03-30T00:15:00Z"]),
        (
            "30 2,3 * * *",
            vec!["2026-03-28T01:30:00Z", "2026-03-28T02:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"],
        ),
        (
            "0-59/15 2 * * *",
            vec!["2026-03-28T01:15:00Z", "2026-03-28T01:30:00Z", "2026-03-28T01:45:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"],
        ),
        // A wildcard job runs where the wall shows the time, and nowhere else.
        ("*/15 2 * * *", vec!["2026-03-28T01:15:00Z", "2026-03-28T01:30:00Z", "2026-03-28T01:45:00Z", "2026-03-30T00:00:00Z"]),
    ];
    for (expression, expected) in cases {
        assert_eq!(
            next(&place, "Asia/Tokyo", expression, "Europe/Berlin", "2026-03-28T01:00:00Z", expected.len()),
            expected,
            "{expression}"
        );
    }
}

/// 25 October 2026: 02:00 to 03:00 comes twice.
#[test]
fn berlin_in_autumn() {
    let place = Place::new();
    let after = "2026-10-24T22:00:00Z";
    assert_eq!(
        next(&place, "UTC", "0-59/30 2 * * *", "Europe/Berlin", after, 3),
        ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z"],
        "fixed times: the first pass only"
    );
    assert_eq!(
        next(&place, "UTC", "*/30 2 * * *", "Europe/Berlin", after, 5),
        ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:00:00Z"],
        "a wildcard job: both passes"
    );
}

#[test]
fn the_json_of_next_is_stable() {
    let place = Place::new();
    let json = place.json(&["next", "30 2 * * *", "--tz", "Europe/Berlin", "--after", "2026-03-28T11:00:00Z", "-n", "2"]);
    assert_eq!(
        json["occurrences"],
        serde_json::json!([
            { "at": "2026-03-29T01:00:00Z", "local": "2026-03-29T03:00:00+02:00", "note": "gap" },
            { "at": "2026-03-30T00:30:00Z", "local": "2026-03-30T02:30:00+02:00", "note": null },
        ])
    );
    let json = place.json(&["next", "30 2 * * *", "--tz", "Europe/Berlin", "--after", "2026-10-24T11:00:00Z", "-n", "1"]);
    assert_eq!(json["occurrences"][0]["note"], "overlap");
    for field in ["expression", "timezone", "description", "dayRule", "dialect", "zoneData"] {
        assert!(json[field].is_string(), "{field}");
    }
}

#[test]
fn people_see_transitions_the_day_rule_and_the_zone_data() {
    let place = Place::new();
    let shown = place.ok(&["next", "30 2 1 * 7", "--tz", "Europe/Berlin", "--after", "2026-03-28T11:00:00Z", "-n", "1"]).stdout;
    for part in [
        "2026-03-29 03:00:00+02:00",
        "2026-03-29 01:00:00Z",
        "gap: the wall time does not exist",
        "day of month OR day of week is enough",
        "zone data",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let shown = place.ok(&["next", "0 16 */2 * FRI", "--tz", "UTC"]).stdout;
    assert!(shown.contains("day of month AND day of week must match"), "{shown}");
}

#[test]
fn a_refused_expression_is_pointed_into() {
    let place = Place::new();
    let refused = place.run(&["next", "0 0 ? * *", "--tz", "UTC"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (3, ""));
    assert_eq!(
        refused.stderr,
        "error: cron: day-of-month field, position 5: `?` is not allowed\n  | 0 0 ? * *\n  |     ^\n  = help: write `*`\n"
    );
    let error = place.run(&["next", "0 0 ? * *", "--tz", "UTC", "--json"]).error();
    assert_eq!((error["code"].as_str(), error["hint"].as_str()), (Some("invalid_input"), Some("write `*`")));
    assert_eq!(error["details"][0]["position"], 5);
    for (expression, zone) in
        [("0 0 30 2 *", "UTC"), ("0 0 * * *", "PST"), ("0 0 * * *", ""), ("0 0 * * *", "Mars/Base"), ("", "UTC"), ("@daily", "UTC")]
    {
        assert_eq!(place.run(&["next", expression, "--tz", zone]).code, 3, "{expression} {zone}");
    }
}
