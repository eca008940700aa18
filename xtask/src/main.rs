//! `cargo xtask <verb>`: the gate of this repository, as a program that runs the same here and in CI.
//!
//! A step or audit reports everything it found and then fails; nothing is skipped without a line that says so.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks on its standard streams")]

mod args;
mod audit;
mod bench;
mod ci;
mod markdown;
mod repo;
mod shell;
mod source;
mod torture;

use std::process::ExitCode;

use crate::repo::Fallible;

/// The verbs, with what `cargo xtask help` says about each. The docs audit refuses a page that names another one.
pub const VERBS: &[(&str, &str)] = &[
    ("test", "everything the gate runs, in order"),
    ("ci", "one step of the gate: cargo xtask ci STEP"),
    ("audit", "all audits, or one: cargo xtask audit [NAME]; `audit migrations --freeze` records new migrations"),
    ("bench", "what the edge costs: cargo xtask bench edge [--json]; minutes, and nothing gates on it"),
    ("torture", "the kill test in its long form: cargo xtask torture edge --rounds N [--seed S]"),
    ("help", "this text"),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match dispatch(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the verb; `Ok(false)` means that it ran and found something.
fn dispatch(args: &[&str]) -> Fallible<bool> {
    match args {
        ["test"] => Ok(ci::run_all()),
        ["ci", step] => ci::run_one(step),
        ["audit"] => audit::run_all(),
        ["audit", "migrations", "--freeze"] => audit::migrations::freeze(&repo::root()?),
        ["audit", name] => audit::run_one(name),
        ["bench", "edge", args @ ..] => bench::run(args),
        ["torture", "edge", args @ ..] => torture::run(args),
        ["help" | "--help" | "-h"] => {
            println!("{}", usage());
            Ok(true)
        }
        [] => Err(usage().into()),
        other => Err(format!("I do not know `{}`\n\n{}", other.join(" "), usage()).into()),
    }
}

fn usage() -> String {
    let row = |(name, what): (&str, &str)| format!("  {name:<11} {what}\n");
    let mut text = String::from("usage: cargo xtask VERB\n\nverbs\n");
    text.extend(VERBS.iter().copied().map(row));
    text.push_str("\nsteps of `ci`, in the order of `test`\n");
    text.extend(ci::STEPS.iter().map(|step| row((step.name, step.what))));
    text.push_str("\naudits\n");
    text.extend(audit::AUDITS.iter().map(|audit| row((audit.name, audit.what))));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_verb_is_refused_with_the_usage() {
        let error = dispatch(&["tset"]).expect_err("no such verb").to_string();
        assert!(error.contains("tset") && error.contains("audits"), "{error}");
    }

    #[test]
    fn an_unknown_step_or_audit_is_refused() {
        assert!(dispatch(&["ci", "no-such-step"]).is_err());
        assert!(dispatch(&["audit", "no-such-audit"]).is_err());
    }
}
