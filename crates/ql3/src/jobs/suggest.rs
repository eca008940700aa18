//! What somebody meant who wrote an unknown word.

/// Words of other schedulers.
const SYNONYMS: [(&str, &str); 22] = [
    ("schedule", "cron"),
    ("expression", "cron"),
    ("when", "cron"),
    ("tz", "timezone"),
    ("zone", "timezone"),
    ("cmd", "command"),
    ("exec", "command"),
    ("run", "command"),
    ("script", "shell"),
    ("environment", "env"),
    ("dir", "cwd"),
    ("workdir", "cwd"),
    ("working_dir", "cwd"),
    ("working_directory", "cwd"),
    ("input", "stdin"),
    ("concurrency", "max_concurrent"),
    ("retries", "retry"),
    ("attempts", "max_attempts"),
    ("delay", "backoff"),
    ("catchup", "misfire"),
    ("tags", "labels"),
    ("title", "name"),
];

/// The known word that is nearest to `word`, if one is near.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let folded = word.to_ascii_lowercase().replace('-', "_");
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == folded).map(|(_, own)| *own);
    if let Some(own) = known.iter().find(|own| Some(**own) == synonym) {
        return Some(own);
    }
    let limit = (folded.chars().count().max(3)) / 3;
    known.iter().map(|own| (distance(&folded, own), *own)).filter(|(distance, _)| *distance <= limit).min().map(|(_, own)| own)
}

/// How many characters must be inserted, removed, replaced or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![(0..=right.len()).collect::<Vec<_>>()];
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut cost = (rows[i][j] + usize::from(a != b)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                cost = cost.min(rows[i - 1][j - 1] + 1);
            }
            row.push(cost);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["id", "cron", "timezone", "misfire", "overlap", "max_concurrent"];
        for (word, meant) in [
            ("timezon", Some("timezone")),
            ("time_zone", Some("timezone")),
            ("TimeZone", Some("timezone")),
            ("corn", Some("cron")),
            ("tz", Some("timezone")),
            ("max-concurrent", Some("max_concurrent")),
            ("overalp", Some("overlap")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &known), meant, "{word}");
        }
        assert_eq!(nearest("tz", &["id"]), None, "a synonym of an unknown word is none");
    }
}
