//! Migrations are append-only: `migrations/CHECKSUMS` holds the SHA-256 of each file and only ever grows.
//!
//! The manifest is in the format of `sha256sum`, with paths relative to `migrations/`. In SQLite's stream the numbers have no
//! gaps; PostgreSQL's follow the records they come from, so there the manifest alone is the order.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use super::Report;
use crate::repo::{Fallible, Repo};
use crate::shell;

const MANIFEST: &str = "migrations/CHECKSUMS";

struct Stream {
    folder: &'static str,
    prefix: &'static str,
    gapless: bool,
}

const STREAMS: &[Stream] =
    &[Stream { folder: "sqlite", prefix: "sqlite-", gapless: true }, Stream { folder: "postgres", prefix: "pg-", gapless: false }];

/// A migration: its path below `migrations/` and its exact bytes.
struct Migration {
    path: String,
    bytes: Vec<u8>,
}

pub fn run(repo: &Repo) -> Fallible<Report> {
    let migrations = read(&repo.root)?;
    let manifest = std::fs::read_to_string(repo.root.join(MANIFEST)).unwrap_or_default();
    let mut findings = check_files(&migrations);
    findings.extend(check_manifest(&migrations, &manifest));
    let mut compared = Vec::new();
    for (name, earlier) in earlier_manifests(&repo.root) {
        findings.extend(check_growth(&name, &earlier, &manifest));
        compared.push(name);
    }
    let history = if compared.is_empty() { "no history to compare with".into() } else { format!("compared with {}", compared.join(", ")) };
    Ok(Report { checked: format!("{} files; {history}", migrations.len()), findings })
}

/// `cargo xtask audit migrations --freeze`: adds a line for each new file, in order, and changes none.
pub fn freeze(root: &Path) -> Fallible<bool> {
    let migrations = read(root)?;
    let path = root.join(MANIFEST);
    let manifest = std::fs::read_to_string(&path).unwrap_or_default();
    let new = unrecorded(&migrations, &manifest);
    let findings = check_files(&migrations);
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        return Ok(false);
    }
    std::fs::write(&path, format!("{manifest}{}", new.concat()))?;
    println!("{MANIFEST}: {} added", new.len());
    Ok(check_manifest(&migrations, &std::fs::read_to_string(&path)?).iter().map(|finding| println!("{finding}")).count() == 0)
}

/// The files of all streams, ordered by path within each.
fn read(root: &Path) -> Fallible<Vec<Migration>> {
    let mut migrations = Vec::new();
    for stream in STREAMS {
        let folder = root.join("migrations").join(stream.folder);
        if !folder.is_dir() {
            continue;
        }
        let mut names: Vec<String> = Vec::new();
        for entry in std::fs::read_dir(&folder)? {
            names.push(entry?.file_name().into_string().map_err(|name| format!("not UTF-8: {}", name.display()))?);
        }
        names.sort();
        for name in names {
            migrations.push(Migration { bytes: std::fs::read(folder.join(&name))?, path: format!("{}/{name}", stream.folder) });
        }
    }
    Ok(migrations)
}

fn check_files(migrations: &[Migration]) -> Vec<String> {
    let mut findings: Vec<String> = migrations.iter().flat_map(check_file).collect();
    if migrations.is_empty() {
        findings.push("no migrations found".into());
    }
    for stream in STREAMS.iter().filter(|stream| stream.gapless) {
        let numbers: Vec<u32> = migrations.iter().filter_map(|migration| number(stream, &migration.path)).collect();
        for (expected, &found) in (1..).zip(&numbers).filter(|(expected, found)| expected != *found).take(1) {
            findings.push(format!("{}: the number {found:04} stands where {expected:04} is expected", stream.folder));
        }
    }
    findings
}

fn check_file(migration: &Migration) -> Vec<String> {
    let mut findings = Vec::new();
    let Migration { path, bytes } = migration;
    if !STREAMS.iter().any(|stream| number(stream, path).is_some()) {
        findings
            .push(format!("{path}: the name must be PREFIX-NNNN-words-in-lower-case.sql (sqlite-0001-run-core.sql, pg-0001-run-core.sql)"));
    }
    if bytes.contains(&b'\r') {
        findings.push(format!("{path}: holds a carriage return; the checksum would depend on the platform"));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        findings.push(format!("{path}: begins with a byte order mark"));
    }
    if std::str::from_utf8(bytes).is_err() {
        findings.push(format!("{path}: is not UTF-8"));
    }
    if !bytes.ends_with(b"\n") {
        findings.push(format!("{path}: does not end with a line feed"));
    }
    findings
}

/// NNNN of `folder/prefixNNNN-words.sql`; nothing when the path is not of that form.
fn number(stream: &Stream, path: &str) -> Option<u32> {
    let stem = path.strip_prefix(stream.folder)?.strip_prefix('/')?.strip_prefix(stream.prefix)?.strip_suffix(".sql")?;
    let (digits, words) = stem.split_once('-')?;
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let well_formed = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit()) && words.split('-').all(is_word);
    if well_formed { digits.parse().ok() } else { None }
}

/// The manifest line of a migration, as `sha256sum` writes it.
fn line(migration: &Migration) -> String {
    let mut line = String::new();
    for byte in Sha256::digest(&migration.bytes) {
        write!(line, "{byte:02x}").expect("a String takes every write");
    }
    line + "  " + &migration.path + "\n"
}

fn recorded_path(line: &str) -> &str {
    line.split_once("  ").map_or(line, |(_, path)| path).trim_end()
}

fn unrecorded(migrations: &[Migration], manifest: &str) -> Vec<String> {
    migrations.iter().filter(|migration| !manifest.lines().any(|line| recorded_path(line) == migration.path)).map(line).collect()
}

fn check_manifest(migrations: &[Migration], manifest: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for migration in migrations {
        let lines: Vec<&str> = manifest.split_inclusive('\n').filter(|line| recorded_path(line) == migration.path).collect();
        match lines[..] {
            [] => findings.push(format!("{}: not in {MANIFEST}; run cargo xtask audit migrations --freeze", migration.path)),
            [recorded] if recorded == line(migration) => {}
            [_] => findings.push(format!(
                "{}: its bytes differ from {MANIFEST}; a recorded migration is never edited: write a new one",
                migration.path
            )),
            _ => findings.push(format!("{}: is in {MANIFEST} more than once", migration.path)),
        }
    }
    for path in manifest.lines().map(recorded_path).filter(|path| !migrations.iter().any(|migration| migration.path == **path)) {
        findings.push(format!("{path}: is in {MANIFEST} but the file is gone"));
    }
    for stream in STREAMS.iter().filter(|stream| stream.gapless) {
        if !manifest.lines().filter_map(|line| number(stream, recorded_path(line))).is_sorted() {
            findings.push(format!("{MANIFEST}: the lines of {} are out of order", stream.folder));
        }
    }
    findings
}

/// An earlier manifest must be the beginning of today's.
fn check_growth(name: &str, earlier: &str, manifest: &str) -> Option<String> {
    let changed = earlier.lines().zip(manifest.lines().map(Some).chain(std::iter::repeat(None))).find(|(was, is)| Some(*was) != *is)?;
    Some(format!("{MANIFEST}: a line of {name} changed or is gone: {}", recorded_path(changed.0)))
}

/// The manifest on the branch that this one left, and in the last release; each where git and the commit are there.
fn earlier_manifests(root: &Path) -> Vec<(String, String)> {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(args).current_dir(root);
        shell::stdout_of(command).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let base = ["origin/main", "main"].iter().find_map(|branch| git(&["merge-base", "HEAD", branch]));
    let release = git(&["describe", "--tags", "--abbrev=0", "--match", "v*"]);
    let commits = [base.map(|commit| ("the merge base", commit)), release.map(|tag| ("the last release", tag))];
    let manifests = commits
        .into_iter()
        .flatten()
        .filter_map(|(what, commit)| Some((format!("{what} {commit:.12}"), git(&["show", &format!("{commit}:{MANIFEST}")])?)));
    manifests.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migration(path: &str, text: &str) -> Migration {
        Migration { path: path.into(), bytes: text.as_bytes().to_vec() }
    }

    fn pair() -> Vec<Migration> {
        vec![migration("sqlite/sqlite-0001-run-core.sql", "SELECT 1;\n"), migration("sqlite/sqlite-0002-more.sql", "SELECT 2;\n")]
    }

    #[test]
    fn the_manifest_is_what_sha256sum_writes() {
        let line = line(&migration("sqlite/sqlite-0001-a.sql", "abc"));
        assert_eq!(line, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  sqlite/sqlite-0001-a.sql\n");
    }

    #[test]
    fn recorded_migrations_have_no_finding_and_freezing_twice_adds_nothing() {
        let manifest = unrecorded(&pair(), "").concat();
        assert_eq!(check_files(&pair()), [""; 0]);
        assert_eq!(check_manifest(&pair(), &manifest), [""; 0]);
        assert_eq!(unrecorded(&pair(), &manifest), [""; 0]);
    }

    #[test]
    fn an_edited_a_new_and_a_removed_migration_are_found() {
        let manifest = unrecorded(&pair(), "").concat();
        let mut edited = pair();
        edited[0].bytes.push(b'\n');
        assert!(check_manifest(&edited, &manifest)[0].contains("never edited"));
        assert_eq!(unrecorded(&edited, &manifest), [""; 0], "freezing must not record an edit");
        assert!(check_manifest(&pair(), "").iter().all(|finding| finding.contains("--freeze")));
        assert!(check_manifest(&pair()[..1], &manifest)[0].contains("gone"));
        assert!(check_manifest(&pair(), &manifest.repeat(2))[0].contains("more than once"));
    }

    #[test]
    fn gaps_bad_names_and_bad_bytes_are_found() {
        assert!(check_files(&[migration("sqlite/sqlite-0002-a.sql", "\n")])[0].contains("0001 is expected"));
        for path in [
            "sqlite/0001-a.sql",
            "sqlite/sqlite-1-a.sql",
            "sqlite/sqlite-0001-A.sql",
            "sqlite/sqlite-0001-.sql",
            "postgres/sqlite-0001-a.sql",
        ] {
            assert_eq!(check_file(&migration(path, "\n")).len(), 1, "{path}");
        }
        for text in ["SELECT 1;\r\n", "\u{feff}SELECT 1;\n", "SELECT 1;"] {
            assert_eq!(check_file(&migration("sqlite/sqlite-0001-a.sql", text)).len(), 1, "{text:?}");
        }
        assert_eq!(check_files(&[]).len(), 1);
    }

    #[test]
    fn numbers_of_the_postgres_stream_may_have_gaps() {
        let migrations = [migration("postgres/pg-0003-a.sql", "\n"), migration("postgres/pg-0012-b.sql", "\n")];
        assert_eq!(check_files(&migrations), [""; 0]);
    }

    #[test]
    fn a_manifest_that_lost_or_changed_a_line_of_an_earlier_one_is_found() {
        assert_eq!(check_growth("base", "a  x\n", "a  x\nb  y\n"), None);
        assert!(check_growth("base", "a  x\nb  y\n", "a  x\n").is_some());
        assert!(check_growth("base", "a  x\n", "c  x\n").is_some());
    }
}
