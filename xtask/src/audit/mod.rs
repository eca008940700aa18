//! The audits: rules about the repository that neither the compiler nor clippy can check.
//!
//! Each one is a pure function over parsed data, and each has a test in which it must find something: an audit that
//! cannot fail shows nothing.

mod begin;
mod docs;
mod graph;
mod layers;
mod manifests;
pub mod migrations;
mod policy;
mod spdx;
mod tidy;
mod unused;

use std::time::Instant;

use crate::repo::{Fallible, Repo};

/// What an audit saw: `checked` says how much, so that a run over nothing is noticed.
pub struct Report {
    pub checked: String,
    pub findings: Vec<String>,
}

pub struct Audit {
    pub name: &'static str,
    pub what: &'static str,
    run: fn(&Repo) -> Fallible<Report>,
}

/// All audits, in the order in which they run.
pub const AUDITS: &[Audit] = &[
    Audit { name: "edge-graph", what: "the shipped edge build contains no PostgreSQL crate", run: graph::edge },
    Audit {
        name: "layers",
        what: "dependencies between the crates point one way; the kernel has no driver and no runtime",
        run: |repo| Ok(layers::run(repo)),
    },
    Audit { name: "lints", what: "every member inherits lints, package fields and shared dependencies", run: manifests::run },
    Audit { name: "unused", what: "every declared dependency is used", run: unused::run },
    Audit { name: "bans", what: "deny.toml's bans hold in the resolved graph", run: policy::bans },
    Audit { name: "licences", what: "every package's licence is on deny.toml's list", run: policy::licences },
    Audit { name: "sources", what: "packages come from the default registry or this workspace", run: |repo| Ok(policy::sources(repo)) },
    Audit { name: "migrations", what: "migrations are named, numbered, clean and append-only", run: migrations::run },
    Audit { name: "begin", what: "transactions begin and end in tx.rs only", run: |repo| Ok(begin::run(repo)) },
    Audit { name: "docs", what: "links resolve; every promise names a check that exists", run: |repo| Ok(docs::run(repo)) },
    Audit { name: "tidy", what: "module docs, file sizes, no leftovers, no paths of build machines", run: |repo| Ok(tidy::run(repo)) },
];

/// Runs every audit and prints every finding; `Ok(false)` when there was one.
pub fn run_all() -> Fallible<bool> {
    let repo = Repo::load()?;
    // Not `all`: a finding must not hide those of the audits after it.
    Ok(AUDITS.iter().map(|audit| run_and_print(audit, &repo)).fold(true, |clean, this| clean & this))
}

pub fn run_one(name: &str) -> Fallible<bool> {
    let audit =
        AUDITS.iter().find(|audit| audit.name == name).ok_or_else(|| format!("no audit is called `{name}`; see cargo xtask help"))?;
    Ok(run_and_print(audit, &Repo::load()?))
}

fn run_and_print(audit: &Audit, repo: &Repo) -> bool {
    let started = Instant::now();
    let report = (audit.run)(repo).unwrap_or_else(|error| Report {
        checked: "could not run".into(),
        findings: error.to_string().lines().map(str::to_owned).collect(),
    });
    let verdict = if report.findings.is_empty() { "ok  " } else { "FAIL" };
    println!("{verdict} audit {:<11} {:>5.1} s  {}", audit.name, started.elapsed().as_secs_f64(), report.checked);
    for finding in &report.findings {
        println!("       {finding}");
    }
    report.findings.is_empty()
}

/// `name` is the pattern, or begins with it when the pattern ends in `*`.
fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(name == pattern, |prefix| name.starts_with(prefix))
}
