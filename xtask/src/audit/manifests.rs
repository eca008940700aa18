//! Members inherit what is shared: lints, package fields, and each dependency that the workspace or another member names.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::Report;
use crate::repo::{Fallible, Repo};

const INHERITED: &[&str] = &["edition", "license", "rust-version", "version"];
const UNPUBLISHED: &[&str] = &["ql3-tests", "xtask"];
const TABLES: &[&str] = &["build-dependencies", "dependencies", "dev-dependencies"];

pub fn run(repo: &Repo) -> Fallible<Report> {
    let root: Table = repo.file("Cargo.toml")?.text.parse()?;
    let mut members = Vec::new();
    for package in repo.members() {
        let path = package.manifest_path.strip_prefix(&repo.metadata.workspace_root)?;
        members.push((package.name.to_string(), repo.file(path.as_str())?.text.parse::<Table>()?));
    }
    Ok(Report { checked: format!("{} manifests", members.len()), findings: check(&root, &members) })
}

fn check(root: &Table, members: &[(String, Table)]) -> Vec<String> {
    let mut findings = Vec::new();
    let shared = at(root, &["workspace", "dependencies"]).and_then(Value::as_table);
    let is_shared = |name: &str| shared.is_some_and(|shared| shared.contains_key(name));
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, manifest) in members {
        findings.extend(check_package(name, manifest));
        for (dependency, value) in dependencies(manifest) {
            let inherits = value.get("workspace") == Some(&Value::Boolean(true));
            // Members of the workspace are shared by nature: their paths stand in one place.
            if (is_shared(dependency) || value.get("path").is_some()) && !inherits {
                findings.push(format!("{name}: {dependency} must be `{dependency}.workspace = true`"));
            }
            let users = users.entry(dependency).or_default();
            if !users.contains(&name.as_str()) {
                users.push(name);
            }
        }
    }
    for (dependency, users) in &users {
        if users.len() > 1 && !is_shared(dependency) {
            findings.push(format!("{dependency} is used by {}: it belongs in [workspace.dependencies]", users.join(", ")));
        }
    }
    for unused in shared.into_iter().flat_map(Table::keys).filter(|name| !users.contains_key(name.as_str())) {
        findings.push(format!("[workspace.dependencies] names {unused}, which no member uses"));
    }
    findings
}

fn check_package(name: &str, manifest: &Table) -> Vec<String> {
    let mut findings = Vec::new();
    let is_true = |path: &[&str]| at(manifest, path) == Some(&Value::Boolean(true));
    if !is_true(&["lints", "workspace"]) {
        findings.push(format!("{name}: `[lints] workspace = true` is missing"));
    }
    let published = at(manifest, &["package", "publish"]) != Some(&Value::Boolean(false));
    let for_registry = ["repository"].iter().filter(|_| published);
    for field in INHERITED.iter().chain(for_registry).filter(|field| !is_true(&["package", field, "workspace"])) {
        findings.push(format!("{name}: `{field}.workspace = true` is missing"));
    }
    if published && at(manifest, &["package", "description"]).is_none() {
        findings.push(format!("{name}: a published crate needs a description"));
    }
    if published == UNPUBLISHED.contains(&name) {
        findings.push(format!("{name}: only {} are `publish = false`", UNPUBLISHED.join(" and ")));
    }
    findings
}

/// Every dependency line, those of `[target.'cfg(…)'.dependencies]` among them.
pub fn dependencies(manifest: &Table) -> Vec<(&str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let places = std::iter::once(manifest).chain(targets);
    let tables = places.flat_map(|place| TABLES.iter().filter_map(|table| place.get(*table)).filter_map(Value::as_table));
    tables.flat_map(|table| table.iter().map(|(name, value)| (name.as_str(), value))).collect()
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.dependencies]\nserde = \"1\"\n";
    const GOOD: &str = "[package]\nname = \"a\"\ndescription = \"x\"\nversion.workspace = true\nedition.workspace = true\nrust-version.workspace = true\n\
                        license.workspace = true\nrepository.workspace = true\n[lints]\nworkspace = true\n[dependencies]\nserde.workspace = true\n";

    fn findings(members: &[(&str, &str)]) -> Vec<String> {
        let members: Vec<_> = members.iter().map(|(name, text)| ((*name).to_owned(), text.parse().expect("TOML"))).collect();
        check(&ROOT.parse().expect("TOML"), &members)
    }

    #[test]
    fn a_member_that_inherits_everything_has_no_finding() {
        assert_eq!(findings(&[("a", GOOD)]), [""; 0]);
    }

    #[test]
    fn each_field_that_is_not_inherited_is_found() {
        for line in ["version.", "edition.", "rust-version.", "license.", "repository."] {
            let text = GOOD.replace(&format!("\n{line}workspace = true\n"), "\n");
            assert_eq!(findings(&[("a", &text)]).len(), 1, "{line}");
        }
        assert!(findings(&[("a", &GOOD.replace("[lints]\nworkspace = true", "[lints.clippy]\nall = \"allow\""))])[0].contains("[lints]"));
    }

    #[test]
    fn a_shared_dependency_with_its_own_version_is_found_in_target_tables_too() {
        let text = format!("{GOOD}[target.'cfg(unix)'.dev-dependencies]\nserde = \"1.0.1\"\n");
        assert_eq!(findings(&[("a", &text)]), ["a: serde must be `serde.workspace = true`"]);
    }

    #[test]
    fn a_path_to_another_member_is_found() {
        let text = format!("{GOOD}b = {{ path = \"../b\" }}\n");
        assert_eq!(findings(&[("a", &text)]), ["a: b must be `b.workspace = true`"]);
    }

    #[test]
    fn a_dependency_of_two_members_belongs_to_the_workspace() {
        let text = format!("{GOOD}libc = \"0.2\"\n");
        assert!(findings(&[("a", &text), ("b", &text)])[0].starts_with("libc is used by a, b"));
    }

    #[test]
    fn a_shared_dependency_without_a_user_is_found() {
        assert_eq!(findings(&[("a", &GOOD.replace("serde.workspace = true\n", ""))]).len(), 1);
    }

    #[test]
    fn an_unpublished_library_and_a_published_tool_are_found() {
        let unpublished = GOOD.replace("[package]\n", "[package]\npublish = false\n");
        assert_eq!(findings(&[("a", &unpublished)]).len(), 1);
        assert_eq!(findings(&[("xtask", GOOD)]).len(), 1);
        assert_eq!(findings(&[("xtask", &unpublished)]), [""; 0]);
    }
}
