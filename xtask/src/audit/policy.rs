//! The bans, licences and sources of deny.toml, checked on the resolved graph of every feature and target.
//!
//! cargo-deny checks the same file more thoroughly, but it takes minutes to build and may be absent. These audits keep the
//! properties checked on every machine, with deny.toml as the one place where they are written.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{Metadata, PackageId};
use toml::{Table, Value};

use super::{Report, spdx};
use crate::repo::{Fallible, Repo};

pub fn bans(repo: &Repo) -> Fallible<Report> {
    let bans = read_bans(&deny_toml(repo)?)?;
    let packages = read_packages(&repo.metadata)?;
    Ok(Report { checked: format!("{} bans over {} packages", bans.len(), packages.len()), findings: check_bans(&bans, &packages) })
}

pub fn licences(repo: &Repo) -> Fallible<Report> {
    let deny = deny_toml(repo)?;
    let allowed = strings(deny.get("licenses").and_then(|licenses| licenses.get("allow")));
    let packages = repo.metadata.packages.iter().map(|package| (package.name.as_str(), package.license.as_deref()));
    let checked = format!("{} packages, {} allowed licences", repo.metadata.packages.len(), allowed.len());
    Ok(Report { checked, findings: packages.filter_map(|(name, licence)| check_licence(name, licence, &allowed)).collect() })
}

pub fn sources(repo: &Repo) -> Report {
    let root = repo.metadata.workspace_root.as_str();
    let check = |package: &cargo_metadata::Package| {
        let registry = package.source.as_ref().map(|source| (source.is_crates_io(), source.repr.as_str()));
        check_source(&package.name, registry, package.manifest_path.as_str(), root)
    };
    let packages = &repo.metadata.packages;
    Report { checked: format!("{} packages", packages.len()), findings: packages.iter().filter_map(check).collect() }
}

fn deny_toml(repo: &Repo) -> Fallible<Table> {
    Ok(repo.file("deny.toml")?.text.parse()?)
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// An entry of `[bans] deny`.
#[derive(Debug)]
struct Ban {
    name: String,
    /// Who may depend on it directly; with an empty list and no `single_version`, nobody may.
    wrappers: Vec<String>,
    single_version: bool,
}

/// A package of the graph with the packages that depend on it directly, for tests too.
struct Used {
    name: String,
    by: BTreeSet<String>,
}

fn read_bans(deny: &Table) -> Fallible<Vec<Ban>> {
    let entries = deny.get("bans").and_then(|bans| bans.get("deny")).and_then(Value::as_array).ok_or("deny.toml has no [bans] deny")?;
    let read = |entry: &Value| {
        let name = entry.get("crate").and_then(Value::as_str).filter(|name| !name.contains(['@', ':', '=', ' ']));
        Ok(Ban {
            name: name.ok_or_else(|| format!("deny.toml: a ban must be `{{ crate = \"name\", … }}` without a version: {entry:?}"))?.into(),
            wrappers: strings(entry.get("wrappers")).into_iter().map(str::to_owned).collect(),
            single_version: entry.get("deny-multiple-versions") == Some(&Value::Boolean(true)),
        })
    };
    entries.iter().map(read).collect()
}

fn read_packages(metadata: &Metadata) -> Fallible<Vec<Used>> {
    let resolve = metadata.resolve.as_ref().ok_or("cargo metadata gave no resolved graph")?;
    let names: BTreeMap<&PackageId, &str> = metadata.packages.iter().map(|package| (&package.id, package.name.as_str())).collect();
    let mut users: BTreeMap<&PackageId, BTreeSet<String>> = BTreeMap::new();
    for node in &resolve.nodes {
        users.entry(&node.id).or_default();
        for dependency in &node.deps {
            users.entry(&dependency.pkg).or_default().insert(names[&node.id].to_owned());
        }
    }
    Ok(users.into_iter().map(|(id, by)| Used { name: names[id].to_owned(), by }).collect())
}

fn check_bans(bans: &[Ban], packages: &[Used]) -> Vec<String> {
    let mut findings = Vec::new();
    for ban in bans {
        let versions: Vec<&Used> = packages.iter().filter(|package| package.name == ban.name).collect();
        if ban.single_version {
            if versions.len() > 1 {
                findings.push(format!("{} is in the graph in {} versions", ban.name, versions.len()));
            }
            continue;
        }
        for package in versions {
            if ban.wrappers.is_empty() {
                let by: Vec<_> = package.by.iter().map(String::as_str).collect();
                findings.push(format!("{} is banned; used by {}", ban.name, by.join(", ")));
            }
            for user in package.by.iter().filter(|user| !ban.wrappers.is_empty() && !ban.wrappers.contains(user)) {
                findings.push(format!("{user} uses {}; only {} may", ban.name, ban.wrappers.join(", ")));
            }
        }
    }
    findings
}

fn check_licence(name: &str, licence: Option<&str>, allowed: &[&str]) -> Option<String> {
    let Some(expression) = licence else { return Some(format!("{name} states no licence")) };
    match spdx::is_allowed(expression, allowed) {
        Ok(true) => None,
        Ok(false) => Some(format!("{name}: `{expression}` needs a licence that deny.toml does not allow")),
        Err(error) => Some(format!("{name}: {error}")),
    }
}

/// `registry` is whether the source is the default registry, and how cargo writes it; without one it is a path.
fn check_source(name: &str, registry: Option<(bool, &str)>, manifest: &str, root: &str) -> Option<String> {
    match registry {
        Some((true, _)) => None,
        Some((false, source)) => Some(format!("{name} comes from {source}, not from the default registry")),
        None if manifest.strip_prefix(root).is_some_and(|rest| rest.starts_with('/')) => None,
        None => Some(format!("{name} is a path outside the workspace")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = "[bans]\ndeny = [{ crate = \"rusqlite\", wrappers = [\"edge-sqlite\"] }, { crate = \"openssl\" }, { crate = \"jiff\", deny-multiple-versions = true }]";

    fn findings(packages: &[(&str, &[&str])]) -> Vec<String> {
        let used = |(name, by): &(&str, &[&str])| Used { name: (*name).into(), by: by.iter().map(|user| (*user).into()).collect() };
        let bans = read_bans(&DENY.parse().expect("TOML")).expect("bans");
        check_bans(&bans, &packages.iter().map(used).collect::<Vec<_>>())
    }

    #[test]
    fn a_wrapper_may_use_what_is_banned_and_nobody_else_may() {
        assert_eq!(findings(&[("rusqlite", &["edge-sqlite"])]), [""; 0]);
        assert_eq!(findings(&[("rusqlite", &["edge-control", "edge-sqlite"])]), ["edge-control uses rusqlite; only edge-sqlite may"]);
    }

    #[test]
    fn a_plain_ban_is_found_wherever_it_comes_from() {
        assert_eq!(findings(&[("openssl", &["a", "b"])]), ["openssl is banned; used by a, b"]);
    }

    #[test]
    fn a_second_version_is_found() {
        assert_eq!(findings(&[("jiff", &["a"])]), [""; 0]);
        assert_eq!(findings(&[("jiff", &["a"]), ("jiff", &["b"])]), ["jiff is in the graph in 2 versions"]);
    }

    #[test]
    fn a_ban_that_this_audit_cannot_read_is_an_error() {
        let with_version: Table = "[bans]\ndeny = [{ crate = \"a@1\" }]".parse().expect("TOML");
        assert!(read_bans(&with_version).is_err());
        assert!(read_bans(&Table::new()).is_err());
    }

    #[test]
    fn a_licence_that_is_missing_or_not_allowed_is_found() {
        assert_eq!(check_licence("a", Some("MIT"), &["MIT"]), None);
        for licence in [None, Some("GPL-3.0-only"), Some("MIT AND")] {
            assert!(check_licence("a", licence, &["MIT"]).is_some(), "{licence:?}");
        }
    }

    #[test]
    fn a_git_source_and_a_path_outside_are_found() {
        assert_eq!(check_source("a", Some((true, "registry")), "/elsewhere/Cargo.toml", "/ws"), None);
        assert_eq!(check_source("a", None, "/ws/a/Cargo.toml", "/ws"), None);
        assert!(check_source("a", Some((false, "git+https://example.org/a")), "", "/ws").is_some());
        assert!(check_source("a", None, "/ws-other/a/Cargo.toml", "/ws").is_some());
    }
}
