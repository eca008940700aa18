//! Pages keep their word: links resolve, commands exist, and every promise names a check that exists.
//!
//! A page names a test as `[test:name_of_the_function]`. Each `INV-nn` of ARCHITECTURE.md, and each row of a table whose
//! header has the cell "Guarantee", carries such a marker or a `cargo xtask audit NAME`.

use std::collections::{BTreeMap, BTreeSet};

use super::{AUDITS, Report};
use crate::markdown::Page;
use crate::repo::{Repo, TextFile};
use crate::source::Source;
use crate::{VERBS, ci};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const MARKER: &str = "[test:";
const AUDIT: &str = "cargo xtask audit ";

pub fn run(repo: &Repo) -> Report {
    let pages: BTreeMap<&str, Page> = repo.with_extension("md").map(|file| (file.path.as_str(), Page::parse(&file.text))).collect();
    let tests: BTreeSet<String> = repo.with_extension("rs").flat_map(test_names).collect();
    let invariants = pages.get(ARCHITECTURE).map(invariants).unwrap_or_default();
    let mut findings = check_invariants(&invariants);
    for (path, page) in &pages {
        let exists = |target: &str| repo.root.join(target).exists();
        findings.extend(check_links(path, page, &pages, &exists));
        findings.extend(check_markers(path, page, &tests));
        findings.extend(check_guarantees(path, page));
    }
    for file in repo.with_extension("md") {
        findings.extend(check_commands(file));
    }
    for file in repo.files.iter().filter(|file| (file.is("md") || file.is("rs")) && !file.path.starts_with("xtask/")) {
        findings.extend(check_references(file, &invariants));
    }
    let markers: usize = pages.values().flat_map(|page| &page.prose).map(|(_, line)| line.matches(MARKER).count()).sum();
    let checked = format!("{} pages, {} invariants, {markers} markers, {} tests", pages.len(), invariants.len(), tests.len());
    Report { checked, findings }
}

fn check_links(path: &str, page: &Page, pages: &BTreeMap<&str, Page>, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    let local = page.links.iter().filter(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"));
    for (line, target) in local {
        let (file, anchor) = target.split_once('#').map_or((target.as_str(), None), |(file, anchor)| (file, Some(anchor)));
        let Some(file) = resolve(path, file) else {
            findings.push(format!("{path}:{line}: {target} leads out of the repository"));
            continue;
        };
        if !exists(&file) {
            findings.push(format!("{path}:{line}: {target} does not exist"));
        } else if let Some(anchor) = anchor
            && let Some(page) = pages.get(file.as_str())
            && !page.anchors.contains(anchor)
        {
            findings.push(format!("{path}:{line}: {file} has no heading #{anchor}"));
        }
    }
    findings
}

/// `target` as seen from the page, relative to the root; nothing when it leaves the root.
fn resolve(page: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(page.to_owned());
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn markers(line: &str) -> impl Iterator<Item = &str> {
    line.split(MARKER).skip(1).map(|rest| rest.split(']').next().unwrap_or(rest))
}

fn check_markers(path: &str, page: &Page, tests: &BTreeSet<String>) -> Vec<String> {
    let lines = page.prose.iter().flat_map(|(number, line)| markers(line).map(move |name| (number, name)));
    lines.filter(|(_, name)| !tests.contains(*name)).map(|(number, name)| format!("{path}:{number}: no test is called {name}")).collect()
}

fn names_a_check(text: &str) -> bool {
    text.contains(MARKER) || text.contains(AUDIT)
}

fn check_guarantees(path: &str, page: &Page) -> Vec<String> {
    let mut findings = Vec::new();
    let mut inside = false;
    for (number, line) in &page.prose {
        let line = line.trim();
        if !line.starts_with('|') {
            inside = false;
        } else if line.split('|').any(|cell| cell.trim().eq_ignore_ascii_case("guarantee")) {
            inside = true;
        } else if inside && line.contains(char::is_alphanumeric) && !names_a_check(line) {
            findings.push(format!("{path}:{number}: a guarantee without a [test:…] marker"));
        }
    }
    findings
}

/// An invariant's number, line and text.
struct Invariant {
    id: String,
    line: usize,
    text: String,
}

fn inv_ids(text: &str) -> impl Iterator<Item = String> {
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    text.split("INV-").skip(1).map(digits).filter(|id| !id.is_empty())
}

/// A line that begins with `INV-nn`, after list, table or heading marks, defines it. The text runs to the next blank line,
/// heading or definition.
fn invariants(page: &Page) -> Vec<Invariant> {
    let mut found: Vec<Invariant> = Vec::new();
    let mut open = false;
    for (number, line) in &page.prose {
        let text = line.trim_start_matches(|c: char| " -*#|`>".contains(c));
        if text.starts_with("INV-") {
            found.extend(inv_ids(text).next().map(|id| Invariant { id, line: *number, text: text.to_owned() }));
            open = true;
        } else if line.trim().is_empty() || line.starts_with('#') {
            open = false;
        } else if open && let Some(last) = found.last_mut() {
            last.text.push('\n');
            last.text.push_str(line);
        }
    }
    found
}

fn check_invariants(invariants: &[Invariant]) -> Vec<String> {
    let mut findings = Vec::new();
    if invariants.is_empty() {
        findings.push(format!("{ARCHITECTURE}: no line begins with INV-nn"));
    }
    for (expected, invariant) in (1..).zip(invariants) {
        let Invariant { id, line, text } = invariant;
        if *id != format!("{expected:02}") {
            findings.push(format!("{ARCHITECTURE}:{line}: INV-{id} stands where INV-{expected:02} is expected"));
        }
        if !names_a_check(text) {
            findings.push(format!("{ARCHITECTURE}:{line}: INV-{id} names no check"));
        }
    }
    findings
}

fn check_references(file: &TextFile, invariants: &[Invariant]) -> Vec<String> {
    let unknown: BTreeSet<String> = inv_ids(&file.text).filter(|id| !invariants.iter().any(|invariant| invariant.id == *id)).collect();
    unknown.into_iter().map(|id| format!("{}: INV-{id} is not in {ARCHITECTURE}", file.path)).collect()
}

/// Every `cargo xtask …` that a page shows, in prose or in a fence. A word that is not in lower case is a placeholder.
fn check_commands(file: &TextFile) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        for rest in line.split("cargo xtask ").skip(1) {
            let (verb, rest) = word(rest);
            let known = match verb {
                "" => continue,
                "audit" => AUDITS.iter().any(|audit| audit.name == word(rest).0) || word(rest).0.is_empty(),
                "ci" => ci::STEPS.iter().any(|step| step.name == word(rest).0) || word(rest).0.is_empty(),
                verb => VERBS.iter().any(|(name, _)| *name == verb),
            };
            if !known {
                findings.push(format!(
                    "{}:{number}: `cargo xtask {}` does not exist",
                    file.path,
                    format!("{verb} {}", word(rest).0).trim_end()
                ));
            }
        }
    }
    findings
}

/// The leading word of lower-case letters and hyphens, and what follows the space after it.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.strip_prefix(' ').unwrap_or_default())
}

/// Functions with a `#[…test]` attribute; in the contract suite the cases are plain functions, which one list registers.
fn test_names(file: &TextFile) -> Vec<String> {
    let code = Source::parse(&file.text).code;
    let is_case = file.path.contains("store-contract/src/cases");
    let mut names = Vec::new();
    for (at, keyword) in code.match_indices("fn ") {
        let name: String = code[at + keyword.len()..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let item = code[..at].rfind(['{', '}', ';']).map_or(&code[..at], |end| &code[end + 1..at]);
        let attribute_is_test = |attribute: &str| attribute.split(['(', ']']).next().is_some_and(|path| path.trim().ends_with("test"));
        if item.split("#[").skip(1).any(attribute_is_test) || is_case && item.contains("pub async") {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page::parse(text)
    }

    #[test]
    fn a_dead_link_and_a_dead_anchor_are_found() {
        let pages = BTreeMap::from([("docs/b.md", page("# There\n"))]);
        let check = |text: &str| check_links("docs/a.md", &page(text), &pages, &|path| path == "docs/b.md" || path == "docs/a.md");
        assert_eq!(check("[a](b.md#there) [b](../docs/b.md) [c](https://example.org/x) [d](#x)"), [""; 0]);
        for text in ["[a](c.md)", "[a](b.md#gone)", "[a](../../b.md)", "![a](b.png)"] {
            assert_eq!(check(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_marker_for_a_test_that_does_not_exist_is_found() {
        let tests = BTreeSet::from(["it_holds".to_owned()]);
        assert_eq!(check_markers("a.md", &page("`[test:it_holds]`"), &tests), [""; 0]);
        assert_eq!(check_markers("a.md", &page("x\n[test:it_held]"), &tests), ["a.md:2: no test is called it_held"]);
    }

    #[test]
    fn only_test_functions_and_contract_cases_count_as_tests() {
        let source = "#[test]\nfn a() { fn b() {} }\n#[tokio::test(flavor = \"x\")]\nasync fn c() {}\n#[cfg(test)]\nfn d() {}\n// #[test]\nfn e() {}\npub async fn f() {}\n";
        assert_eq!(test_names(&TextFile::new("crates/x/src/lib.rs", source)), ["a", "c"]);
        assert_eq!(test_names(&TextFile::new("crates/store-contract/src/cases/runs.rs", source)), ["a", "c", "f"]);
    }

    #[test]
    fn a_guarantee_without_a_check_is_found() {
        let table = "| Guarantee | Test |\n|---|---|\n| one | [test:a] |\n| two | - |\n\n| other | x |\n|---|---|\n| three | - |\n";
        assert_eq!(check_guarantees("a.md", &page(table)), ["a.md:4: a guarantee without a [test:…] marker"]);
    }

    #[test]
    fn an_invariant_out_of_order_or_without_a_check_is_found() {
        let check = |text: &str| check_invariants(&invariants(&page(text)));
        assert_eq!(check("- **INV-01** a\n  `[test:b]`\n- **INV-02** c: `cargo xtask audit layers`\n"), [""; 0]);
        assert_eq!(check("- INV-01 a\n- INV-02 [test:b]\n").len(), 1);
        assert_eq!(check("- INV-01 a\n\n[test:b]\n").len(), 1);
        assert_eq!(check("- INV-02 [test:b]\n").len(), 1);
        assert_eq!(check("no invariants").len(), 1);
    }

    #[test]
    fn a_reference_to_an_unknown_invariant_is_found() {
        let known = invariants(&page("INV-01 a [test:b]"));
        assert_eq!(check_references(&TextFile::new("a.rs", "// INV-01, INV-09"), &known), ["a.rs: INV-09 is not in ARCHITECTURE.md"]);
    }

    #[test]
    fn a_command_that_does_not_exist_is_found() {
        let check = |text: &str| check_commands(&TextFile::new("a.md", text)).len();
        for text in [
            "cargo xtask test",
            "`cargo xtask audit` checks",
            "cargo xtask audit layers",
            "cargo xtask audit NAME",
            "cargo xtask ci <step>",
            "cargo xtask VERB",
        ] {
            assert_eq!(check(text), 0, "{text}");
        }
        for text in ["cargo xtask tets", "cargo xtask audit layer", "cargo xtask ci everything"] {
            assert_eq!(check(text), 1, "{text}");
        }
    }
}
