//! Dependencies that are declared but that no source of the member names.

use std::collections::BTreeSet;

use super::{Report, manifests};
use crate::repo::{Fallible, Repo};
use crate::source::{Source, has_ident};

pub fn run(repo: &Repo) -> Fallible<Report> {
    let mut findings = Vec::new();
    let mut checked = 0;
    for package in repo.members() {
        let manifest = package.manifest_path.strip_prefix(&repo.metadata.workspace_root)?;
        let folder = format!("{}/", manifest.parent().ok_or("a manifest without a folder")?);
        let table: toml::Table = repo.file(manifest.as_str())?.text.parse()?;
        let declared: BTreeSet<&str> = manifests::dependencies(&table).into_iter().map(|(name, _)| name).collect();
        let sources: Vec<String> =
            repo.with_extension("rs").filter(|file| file.path.starts_with(&folder)).map(|file| Source::parse(&file.text).code).collect();
        checked += declared.len();
        findings.extend(check(&package.name, &declared, &sources));
    }
    Ok(Report { checked: format!("{checked} declared dependencies"), findings })
}

fn check(member: &str, declared: &BTreeSet<&str>, sources: &[String]) -> Vec<String> {
    let is_used = |name: &str| sources.iter().any(|code| has_ident(code, &name.replace('-', "_")));
    declared.iter().filter(|name| !is_used(name)).map(|name| format!("{member} declares {name} and does not use it")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let code = Source::parse("use tokio_util::sync; // rusqlite\nlet a = \"rusqlite\";").code;
        assert_eq!(check("a", &BTreeSet::from(["tokio-util", "rusqlite"]), &[code]), ["a declares rusqlite and does not use it"]);
    }
}
