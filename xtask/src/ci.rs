//! The steps of the gate. Each one reports everything it finds; the next ones run all the same, and the summary is at the end.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Instant;

use crate::repo::{Fallible, Repo};
use crate::{audit, shell};

pub struct Step {
    pub name: &'static str,
    pub what: &'static str,
    run: fn() -> Fallible<Outcome>,
}

enum Outcome {
    /// With a few words about what was seen.
    Passed(String),
    /// What is printed under the step's name: all of its output.
    Failed(String),
    /// Why it did not run here. Only a step whose properties another step checks as well may answer this.
    LeftOut(String),
}

/// In the order of `cargo xtask test`: what is quick and what explains later failures comes first.
pub const STEPS: &[Step] = &[
    Step { name: "tools", what: "what the other steps need is installed", run: tools },
    Step { name: "fmt", what: "rustfmt would change nothing", run: fmt },
    Step { name: "audit", what: "all audits", run: audits },
    Step { name: "deny", what: "cargo-deny, where it is installed", run: deny },
    Step { name: "clippy", what: "no warning in any target", run: clippy },
    Step { name: "alone", what: "each published crate builds without the features that its neighbours switch on", run: alone },
    Step { name: "docs", what: "rustdoc without a warning, public and private", run: docs },
    Step { name: "package", what: "the published crates package in one call, migrations included", run: package },
    Step { name: "unit", what: "every test of the workspace, doc tests included", run: unit },
];

/// Every step; false when one failed.
pub fn run_all() -> bool {
    let started = Instant::now();
    let mut summary = Vec::new();
    let mut passed = true;
    for step in STEPS {
        let line = run_and_print(step);
        passed &= !line.starts_with("FAIL");
        summary.push(line);
    }
    println!("\nsummary ({:.0} s)", started.elapsed().as_secs_f64());
    for line in summary {
        println!("  {line}");
    }
    println!("{}", if passed { "cargo xtask test: ok" } else { "cargo xtask test: FAILED" });
    passed
}

/// One step, by name. `test` is another name of `unit`.
pub fn run_one(name: &str) -> Fallible<bool> {
    let name = if name == "test" { "unit" } else { name };
    let step = STEPS.iter().find(|step| step.name == name).ok_or_else(|| format!("no step is called `{name}`; see cargo xtask help"))?;
    Ok(!run_and_print(step).starts_with("FAIL"))
}

/// Runs the step and prints its output when it fails. The answer is its line in the summary.
fn run_and_print(step: &Step) -> String {
    println!("\n== {}: {}", step.name, step.what);
    let started = Instant::now();
    let (verdict, note) = match (step.run)() {
        Ok(Outcome::Passed(note)) => ("ok  ", note),
        Ok(Outcome::LeftOut(why)) => ("LEFT", why),
        Ok(Outcome::Failed(output)) => {
            println!("{}", output.trim_end());
            ("FAIL", "see above".to_owned())
        }
        Err(error) => {
            println!("{error}");
            ("FAIL", "could not run; see above".to_owned())
        }
    };
    let line = format!("{verdict} {:<8} {:>6.1} s  {note}", step.name, started.elapsed().as_secs_f64());
    println!("{}", line.trim_end());
    line.trim_end().to_owned()
}

/// A command whose exit status is the verdict.
fn simple(command: Command) -> Fallible<Outcome> {
    let done = shell::capture(command, |_| false)?;
    Ok(if done.ok { Outcome::Passed(String::new()) } else { Outcome::Failed(done.output) })
}

fn tools() -> Fallible<Outcome> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut compiler_version = Command::new(&compiler);
    compiler_version.arg("--version");
    let needs = [
        (shell::cargo(&["fmt", "--version"])?, "rustfmt: rustup component add rustfmt"),
        (shell::cargo(&["clippy", "--version"])?, "clippy: rustup component add clippy"),
        (compiler_version, "a C compiler, for the SQLite that is built in: apt-get install gcc libc6-dev, or set CC"),
    ];
    let mut missing = String::new();
    let mut found = Vec::new();
    for (command, how) in needs {
        match shell::stdout_of(command) {
            Ok(version) => found.push(version.lines().next().unwrap_or_default().to_owned()),
            Err(error) => writeln!(missing, "missing: {how}\n  ({error})")?,
        }
    }
    Ok(if missing.is_empty() { Outcome::Passed(found.join(", ")) } else { Outcome::Failed(missing) })
}

fn fmt() -> Fallible<Outcome> {
    simple(shell::cargo(&["fmt", "--all", "--check", "--", "--color", "never"])?)
}

fn audits() -> Fallible<Outcome> {
    let clean = audit::run_all()?;
    Ok(if clean { Outcome::Passed(format!("{} audits", audit::AUDITS.len())) } else { Outcome::Failed("the findings are above".into()) })
}

fn deny() -> Fallible<Outcome> {
    if shell::stdout_of(shell::cargo(&["deny", "--version"])?).is_err() {
        let why = "cargo-deny is not installed; its bans, licences and sources were checked by the audits of the same names";
        return Ok(Outcome::LeftOut(why.into()));
    }
    simple(shell::cargo(&["deny", "--locked", "check", "bans", "licenses", "sources"])?)
}

fn clippy() -> Fallible<Outcome> {
    simple(shell::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--keep-going", "--", "-D", "warnings"])?)
}

fn alone() -> Fallible<Outcome> {
    let mut failed = String::new();
    let published = published()?;
    for name in &published {
        let done = shell::capture(shell::cargo(&["check", "--locked", "--package", name])?, |_| false)?;
        if !done.ok {
            writeln!(failed, "{name} does not build alone:\n{}", done.output)?;
        }
    }
    Ok(if failed.is_empty() { Outcome::Passed(published.join(", ")) } else { Outcome::Failed(failed) })
}

/// Twice: links from public docs to private items are broken for readers, and rustdoc sees that only without private items.
fn docs() -> Fallible<Outcome> {
    let mut failed = String::new();
    for private in [None, Some("--document-private-items")] {
        let mut command = shell::cargo(&["doc", "--workspace", "--no-deps", "--locked", "--keep-going"])?;
        command.args(private).env("RUSTDOCFLAGS", "-D warnings");
        let done = shell::capture(command, |_| false)?;
        if !done.ok {
            failed.push_str(&done.output);
        }
    }
    Ok(if failed.is_empty() { Outcome::Passed(String::new()) } else { Outcome::Failed(failed) })
}

/// Names of the members that are published.
fn published() -> Fallible<Vec<String>> {
    let repo = Repo::load()?;
    let published = repo.members().into_iter().filter(|package| package.publish.is_none());
    Ok(published.map(|package| package.name.to_string()).collect())
}

fn package() -> Fallible<Outcome> {
    let published = published()?;
    let package_all = |network: Option<&str>| {
        let mut command = shell::cargo(&["package", "--no-verify", "--allow-dirty", "--locked"])?;
        command.args(published.iter().flat_map(|name| ["--package", name])).args(network);
        shell::capture(command, |_| false)
    };
    // All dependencies are here by now; the network is only for a cargo home whose index is incomplete.
    if !package_all(Some("--offline"))?.ok {
        let done = package_all(None)?;
        if !done.ok {
            return Ok(Outcome::Failed(done.output));
        }
    }
    let repo = Repo::load()?;
    let packaged = shell::stdout_of(shell::cargo(&["package", "--list", "--allow-dirty", "--locked", "--package", "edge-sqlite"])?)?;
    let migrations: Vec<&str> = repo.with_extension("sql").filter_map(|file| file.path.strip_prefix("migrations/sqlite/")).collect();
    let missing = missing_migrations(&packaged, &migrations);
    Ok(if missing.is_empty() && !migrations.is_empty() {
        Outcome::Passed(format!("{} crates; {} migrations in edge-sqlite", published.len(), migrations.len()))
    } else {
        Outcome::Failed(format!("edge-sqlite's package lacks migrations: {missing:?} of {migrations:?}"))
    })
}

fn missing_migrations<'a>(packaged: &str, migrations: &[&'a str]) -> Vec<&'a str> {
    migrations.iter().copied().filter(|name| !packaged.lines().any(|line| line.rsplit('/').next() == Some(name))).collect()
}

fn unit() -> Fallible<Outcome> {
    let is_progress =
        |line: &str| line.starts_with("test result:") || line.trim_start().starts_with("Running ") || line.contains("Doc-tests ");
    let done = shell::capture(shell::cargo(&["test", "--workspace", "--locked", "--no-fail-fast"])?, is_progress)?;
    let [passed, failed, ignored] = [" passed", " failed", " ignored"].map(|word| total(&done.output, word));
    let counts = format!("{passed} passed, {failed} failed, {ignored} ignored");
    // A test that is left out silently looks like one that passed.
    let sound = done.ok && passed > 0 && failed + ignored == 0;
    Ok(if sound { Outcome::Passed(counts) } else { Outcome::Failed(format!("{}\n{counts}", done.output)) })
}

/// The sum of one count over cargo's `test result:` lines.
fn total(output: &str, word: &str) -> u64 {
    let results = output.lines().filter(|line| line.starts_with("test result:"));
    let counts = results.filter_map(|line| line.split(['.', ';']).find_map(|part| part.trim().strip_suffix(word)?.parse::<u64>().ok()));
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_all_binaries() {
        let output = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.0s\nnoise 9 passed;\n\
                      test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
        assert_eq!([" passed", " failed", " ignored"].map(|word| total(output, word)), [7, 2, 1]);
    }

    #[test]
    fn a_migration_that_is_not_packaged_is_found() {
        assert_eq!(
            missing_migrations("Cargo.toml\nmigrations/sqlite-0001-a.sql\n", &["sqlite-0001-a.sql", "sqlite-0002-b.sql"]),
            ["sqlite-0002-b.sql"]
        );
    }

    #[test]
    fn steps_and_audits_have_distinct_names() {
        for names in [STEPS.iter().map(|step| step.name).collect::<Vec<_>>(), audit::AUDITS.iter().map(|audit| audit.name).collect()] {
            assert!(names.iter().all(|name| names.iter().filter(|other| *other == name).count() == 1), "{names:?}");
        }
    }
}
