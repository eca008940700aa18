//! Small rules that keep the tree readable: module docs, file sizes, no leftovers, no paths of the machine it was built on.

use super::Report;
use crate::repo::{Repo, TextFile};
use crate::source::{Source, line_of};

/// A file beyond this holds more than one concern.
const LINES_MAX: usize = 600;
/// Split so that this file passes its own audit.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/tmp/tar", "get")];
const LEFTOVERS: &[(&str, &str)] = &[
    ("#[ignore", "a test runs, or it goes"),
    ("todo!", "finish it or leave it out"),
    ("unimplemented!", "finish it or leave it out"),
    ("dbg!", "a debugging aid"),
];
/// Attributes that switch a lint off; each says why.
const LINT_SWITCHES: &[&str] = &["allow(", "expect("];

pub fn run(repo: &Repo) -> Report {
    let mut findings = Vec::new();
    for file in &repo.files {
        findings.extend(machine_paths(file));
        if file.is("rs") {
            findings.extend(check_rust(file));
        }
    }
    Report { checked: format!("{} files", repo.files.len()), findings }
}

fn machine_paths(file: &TextFile) -> Vec<String> {
    let mut findings = Vec::new();
    for path in MACHINE_PATHS {
        // `docs/work/` or `~/work/` is not a path from the root.
        let starts_here = |at: usize| !file.text[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~/*}".contains(c));
        for (at, _) in file.text.match_indices(path).filter(|(at, _)| starts_here(*at)) {
            findings.push(format!("{}:{}: a path of one machine: {path}", file.path, line_of(&file.text, at)));
        }
    }
    findings
}

fn check_rust(file: &TextFile) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        findings.push(format!("{}: {lines} lines; split it by concern (at most {LINES_MAX})", file.path));
    }
    if file.path.contains("/src/") && !file.is_test() && !file.text.starts_with("//!") {
        findings.push(format!("{}: begins without module docs (//!)", file.path));
    }
    let code = Source::parse(&file.text).code;
    for (leftover, why) in LEFTOVERS {
        for (at, _) in code.match_indices(leftover) {
            findings.push(format!("{}:{}: {leftover}: {why}", file.path, line_of(&code, at)));
        }
    }
    findings.extend(attributes(&code).filter(|(_, attribute)| is_unexplained(attribute)).map(|(at, attribute)| {
        format!(
            "{}:{}: {}: say why, with `reason = \"…\"`",
            file.path,
            line_of(&code, at),
            attribute.split_whitespace().collect::<String>()
        )
    }));
    findings
}

/// The inner text of each `#[…]` and `#![…]`, with its offset.
fn attributes(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices('#').filter_map(|(at, _)| {
        let rest = code[at + 1..].strip_prefix('!').unwrap_or(&code[at + 1..]).strip_prefix('[')?;
        let mut depth = 1_usize;
        let end = rest.find(|c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        Some((at, &rest[..end]))
    })
}

fn is_unexplained(attribute: &str) -> bool {
    let switch =
        |word: &&&str| attribute.match_indices(**word).any(|(at, _)| !attribute[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
    LINT_SWITCHES.iter().any(|word| switch(&word)) && !attribute.contains("reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        check_rust(&TextFile::new("crates/a/src/lib.rs", text))
    }

    #[test]
    fn each_leftover_is_found_in_code_only() {
        for code in ["#[ignore]\nfn a() {}", "fn a() { todo!() }", "fn a() { unimplemented!() }", "fn a() { dbg!(1); }"] {
            assert_eq!(findings(&format!("//! A.\n{code}\n")).len(), 1, "{code}");
        }
        assert_eq!(findings("//! A todo!() in words.\nconst A: &str = \"dbg!(1)\";\n"), [""; 0]);
    }

    #[test]
    fn a_lint_switched_off_without_a_reason_is_found() {
        for code in ["#[allow(dead_code)]", "#![expect(\n    clippy::x\n)]", "#[cfg_attr(test, allow(unused))]"] {
            assert_eq!(findings(&format!("//! A.\n{code}\n")).len(), 1, "{code}");
        }
        assert_eq!(findings("//! A.\n#[expect(clippy::x, reason = \"why\")]\nfn a() { b.expect(\"c\"); }\n"), [""; 0]);
    }

    #[test]
    fn a_source_without_module_docs_and_one_too_long_are_found() {
        assert_eq!(findings("fn a() {}\n").len(), 1);
        assert_eq!(findings(&format!("//! A.\n{}", "\n".repeat(LINES_MAX))).len(), 1);
        assert_eq!(check_rust(&TextFile::new("crates/a/tests/it/main.rs", "fn a() {}\n")), [""; 0]);
    }

    #[test]
    fn paths_of_one_machine_are_found_in_any_text() {
        let found = |text: &str| machine_paths(&TextFile::new("docs/a.md", text)).len();
        for path in MACHINE_PATHS {
            assert_eq!(found(&format!("run \"{path}x\"")), 1, "{path}");
        }
        assert_eq!(found("docs/work/a and my/work/b"), 0);
    }
}
