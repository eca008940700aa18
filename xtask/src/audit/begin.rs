//! Transactions begin and end in one place per adapter: the file `tx.rs`. Clippy bans the driver's own methods; this audit
//! finds the same thing spelt as SQL. Migrations are covered too, since their runner owns the transaction.

use super::Report;
use crate::repo::{Repo, TextFile};
use crate::source::Source;

const WORDS: &[&str] = &["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT"];
/// What may follow one of those words in SQL; `commit failed` is a message.
const AFTER: &[&str] = &["CONCURRENT", "DEFERRED", "EXCLUSIVE", "IMMEDIATE", "ISOLATION", "READ", "TO", "TRANSACTION", "WORK"];

pub fn run(repo: &Repo) -> Report {
    let sources: Vec<&TextFile> = repo.with_extension("rs").filter(|file| file.path.starts_with("crates/")).collect();
    let migrations: Vec<&TextFile> = repo.with_extension("sql").collect();
    let findings = sources.iter().flat_map(|file| check_rust(file)).chain(migrations.iter().filter_map(|file| check_sql(file)));
    Report { checked: format!("{} sources, {} migrations", sources.len(), migrations.len()), findings: findings.collect() }
}

fn check_rust(file: &TextFile) -> Vec<String> {
    if file.is_test() || file.path.ends_with("/tx.rs") {
        return Vec::new();
    }
    let source = Source::parse(&file.text);
    let tests = source.test_lines();
    let literals = source.literals.iter().filter(|literal| !tests.iter().any(|lines| lines.contains(&literal.line)));
    let found = literals.filter_map(|literal| Some((literal.line, transaction_word(&literal.text)?)));
    found.map(|(line, word)| format!("{}:{line}: {word} as SQL belongs in tx.rs", file.path)).collect()
}

fn check_sql(file: &TextFile) -> Option<String> {
    let word = transaction_word(&file.text)?;
    Some(format!("{}: {word}: the migration runner owns the transaction", file.path))
}

/// The first statement of `sql` that begins or ends a transaction. In capitals the word alone is enough; otherwise what
/// follows must be SQL as well.
fn transaction_word(sql: &str) -> Option<String> {
    let without_comments: Vec<&str> = sql.split("\\n").flat_map(str::lines).filter(|line| !line.trim_start().starts_with("--")).collect();
    let text = without_comments.join("\n");
    text.split(';').find_map(|statement| {
        let mut words = statement.split(|c: char| c.is_whitespace() || c == '\\').filter(|word| !word.is_empty());
        let first = words.next()?;
        let upper = first.to_ascii_uppercase();
        let next = words.next().map(str::to_ascii_uppercase);
        let is_sql = first == upper || next.is_none_or(|next| AFTER.contains(&next.as_str()) || upper == "SAVEPOINT");
        (WORDS.contains(&upper.as_str()) && is_sql).then_some(upper)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check_rust(&TextFile::new(path, text)).len()
    }

    #[test]
    fn transaction_statements_outside_tx_rs_are_found() {
        for sql in [
            "BEGIN",
            "BEGIN IMMEDIATE",
            "begin immediate",
            "commit",
            "-- x\\nROLLBACK TO a",
            "UPDATE a SET b = 1; COMMIT;",
            "savepoint s",
            "Begin Transaction",
        ] {
            let text = format!("fn f() {{ run(\"{sql}\"); }}");
            assert_eq!(findings("crates/edge-sqlite/src/runs.rs", &text), 1, "{sql}");
            assert_eq!(findings("crates/edge-sqlite/src/tx.rs", &text), 0, "{sql}");
        }
        assert_eq!(findings("crates/a/src/runs.rs", "const A: &str = r#\"-- run.x\n BEGIN;\"#;"), 1);
    }

    #[test]
    fn messages_identifiers_and_tests_are_left_alone() {
        for text in [
            "f(\"commit failed\")",
            "f(\"beginning\")",
            "f(\"INSERT OR ROLLBACK INTO a\")",
            "begin(); // \"BEGIN\"",
            "#[cfg(test)]\nmod tests {\n f(\"BEGIN\");\n}",
        ] {
            assert_eq!(findings("crates/edge-sqlite/src/runs.rs", text), 0, "{text}");
        }
        assert_eq!(findings("crates/edge-sqlite/tests/it/main.rs", "f(\"BEGIN\")"), 0);
    }

    #[test]
    fn a_migration_may_hold_a_trigger_but_no_transaction() {
        let trigger = "CREATE TRIGGER t BEFORE DELETE ON a BEGIN\n SELECT RAISE(ROLLBACK, 'no');\nEND;\n";
        assert_eq!(check_sql(&TextFile::new("migrations/sqlite/a.sql", trigger)), None);
        assert!(check_sql(&TextFile::new("migrations/sqlite/a.sql", &format!("BEGIN;\n{trigger}COMMIT;\n"))).is_some());
    }
}
