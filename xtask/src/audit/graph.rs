//! What a build really contains: cargo's own resolution of one package's shipped build, read as a tree.
//!
//! `cargo metadata` resolves the features of all members together; only `cargo tree -p` shows the build of one package as it
//! ships. Its answer is read here instead of asking it with `-i` for the forbidden name: that form also "passes" when the
//! name is misspelt or cargo fails. And each run ends with a control: the same check must find a crate that is there.

use super::{Report, matches};
use crate::repo::{Fallible, Repo};
use crate::shell;

/// Everything that would bring a PostgreSQL client, or the cluster profile, into a build.
pub const POSTGRES: &[&str] = &[
    "tokio-postgres*",
    "postgres*",
    "bb8*",
    "deadpool*",
    "sqlx*",
    "diesel*",
    "sea-orm*",
    "libpq*",
    "pq-sys",
    "cluster-postgres",
    "cluster-control",
];

/// A package whose shipped build must not contain `forbidden`; `control` is a crate that it does contain.
pub struct Rule {
    pub package: &'static str,
    pub forbidden: &'static [&'static [&'static str]],
    pub control: &'static str,
}

const EDGE: Rule = Rule { package: "ql3", forbidden: &[POSTGRES], control: "rusqlite" };

pub fn edge(_: &Repo) -> Fallible<Report> {
    let mut report = check(&EDGE)?;
    // The adapter alone too: a feature that the composition switches on must not be what keeps it apart.
    let adapter = check(&Rule { package: "edge-sqlite", ..EDGE })?;
    report.findings.extend(adapter.findings);
    Ok(report)
}

/// Resolves the rule's package as it ships (default features, every target, normal and build edges) and judges the tree.
pub fn check(rule: &Rule) -> Fallible<Report> {
    let tree = shell::cargo(&[
        "tree",
        "--package",
        rule.package,
        "--edges",
        "normal,build",
        "--target",
        "all",
        "--locked",
        "--prefix",
        "depth",
        "--format",
        " {p}",
    ])?;
    Ok(judge(rule, &parse(&shell::stdout_of(tree)?)?))
}

struct Node {
    depth: usize,
    name: String,
}

/// Lines such as `3 libc v0.2.1 (*)`: the depth, then the package.
fn parse(tree: &str) -> Fallible<Vec<Node>> {
    let parse_line = |line: &str| {
        let mut words = line.split_whitespace();
        let depth = words.next()?.parse().ok()?;
        Some(Node { depth, name: words.next()?.to_owned() })
    };
    let lines = tree.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| parse_line(line).ok_or_else(|| format!("cargo tree: cannot read `{line}`").into())).collect()
}

fn judge(rule: &Rule, nodes: &[Node]) -> Report {
    let mut findings = Vec::new();
    if nodes.first().is_none_or(|root| root.depth != 0 || root.name != rule.package) {
        findings.push(format!("the resolved tree does not begin with {}", rule.package));
    }
    for pattern in rule.forbidden.iter().copied().flatten() {
        findings.extend(paths(nodes, pattern).into_iter().map(|path| format!("{} must not contain {pattern}: {path}", rule.package)));
    }
    let control = paths(nodes, rule.control);
    if control.is_empty() {
        findings.push(format!("control: the check does not find {} in {}, so its silence shows nothing", rule.control, rule.package));
    }
    Report { checked: format!("{} lines of {}; control: {}", nodes.len(), rule.package, control.join(", ")), findings }
}

/// One path from the root for each distinct crate that the pattern names.
fn paths(nodes: &[Node], pattern: &str) -> Vec<String> {
    let mut stack: Vec<&str> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for node in nodes {
        stack.truncate(node.depth);
        stack.push(&node.name);
        if matches(pattern, &node.name) && !seen.contains(&node.name.as_str()) {
            seen.push(&node.name);
            found.push(stack.join(" -> "));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str =
        "0 ql3 v0.1.0 (/src/crates/ql3)\n1 edge-control v0.1.0 (/src)\n2 edge-sqlite v0.1.0 (/src)\n3 rusqlite v0.43.0\n1 clap v4.6.0\n";

    fn findings(tree: &str) -> Vec<String> {
        judge(&EDGE, &parse(tree).expect("a readable tree")).findings
    }

    #[test]
    fn a_clean_edge_tree_has_no_finding() {
        assert_eq!(findings(CLEAN), [""; 0]);
    }

    #[test]
    fn a_driver_two_hops_away_is_found_with_its_path() {
        let found = findings(&format!("{CLEAN}1 helper v1.0.0\n2 bb8 v0.9.1\n3 tokio-postgres v0.7.13 (*)\n"));
        assert!(found.iter().any(|finding| finding.contains("ql3 -> helper -> bb8 -> tokio-postgres")), "{found:?}");
        assert!(found.iter().any(|finding| finding.ends_with("ql3 -> helper -> bb8")), "{found:?}");
    }

    #[test]
    fn the_same_check_finds_rusqlite_when_that_is_forbidden() {
        let rule = Rule { forbidden: &[&["rusqlite"]], ..EDGE };
        let found = judge(&rule, &parse(CLEAN).expect("a readable tree")).findings;
        assert_eq!(found, ["ql3 must not contain rusqlite: ql3 -> edge-control -> edge-sqlite -> rusqlite"]);
    }

    #[test]
    fn a_tree_without_the_control_is_a_finding() {
        assert!(findings("0 ql3 v0.1.0\n1 clap v4.6.0\n")[0].starts_with("control:"));
    }

    #[test]
    fn an_empty_or_foreign_tree_is_a_finding() {
        assert!(findings("").len() >= 2);
        assert!(findings("0 other v1.0.0\n1 rusqlite v0.43.0\n")[0].contains("does not begin with ql3"));
    }

    #[test]
    fn an_unreadable_line_is_an_error() {
        assert!(parse("warning: something\n").is_err());
    }
}
