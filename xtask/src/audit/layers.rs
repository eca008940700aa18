//! Which crate may use which: adapters and executors -> runtime-core <- runtime-engine <- compositions -> adapters.
//!
//! A new member needs a row here, and a new edge a change of a row, so both are seen in review as what they are: a change
//! of the architecture.

use cargo_metadata::{DependencyKind, Package};

use super::graph::{self, POSTGRES, Rule};
use super::{Report, matches};
use crate::repo::Repo;

struct Layer {
    name: &'static str,
    /// Members that its normal and build dependencies may name.
    may_use: &'static [&'static str],
    /// Members that its tests may name besides those.
    tests_may_use: &'static [&'static str],
}

const CONTRACT: &[&str] = &["store-contract"];

const LAYERS: &[Layer] = &[
    Layer { name: "runtime-core", may_use: &[], tests_may_use: &[] },
    Layer { name: "store-contract", may_use: &["runtime-core"], tests_may_use: &[] },
    Layer { name: "edge-sqlite", may_use: &["runtime-core"], tests_may_use: CONTRACT },
    Layer { name: "local-process", may_use: &["runtime-core"], tests_may_use: &[] },
    Layer { name: "runtime-engine", may_use: &["runtime-core"], tests_may_use: CONTRACT },
    Layer { name: "edge-control", may_use: &["edge-sqlite", "local-process", "runtime-core", "runtime-engine"], tests_may_use: CONTRACT },
    Layer { name: "ql3", may_use: &["edge-control", "runtime-core"], tests_may_use: &[] },
    // What needs several crates at once: everything but the binary, which its tests run as a program.
    Layer {
        name: "ql3-tests",
        may_use: &["edge-control", "edge-sqlite", "local-process", "runtime-core", "runtime-engine", "store-contract"],
        tests_may_use: &[],
    },
    Layer { name: "xtask", may_use: &[], tests_may_use: &[] },
];

/// The drivers of the edge; PostgreSQL's are in [`POSTGRES`].
const SQLITE: &[&str] = &["rusqlite", "libsqlite3-sys"];
const RUNTIME: &[&str] = &["tokio*", "async-std", "smol", "futures-executor"];

/// Direct dependencies that a crate may not declare, not even as an optional one (tests excepted).
const NEVER_DECLARED: &[(&str, &[&[&str]])] = &[
    ("runtime-core", &[SQLITE, POSTGRES, RUNTIME]),
    ("runtime-engine", &[SQLITE, POSTGRES]),
    ("store-contract", &[SQLITE, POSTGRES]),
    ("local-process", &[SQLITE, POSTGRES]),
    ("edge-sqlite", &[POSTGRES]),
];

/// What the shipped build of a crate may not contain, at any depth.
const NEVER_BUILT: &[Rule] = &[
    Rule { package: "runtime-core", forbidden: &[SQLITE, POSTGRES, RUNTIME], control: "jiff" },
    Rule { package: "runtime-engine", forbidden: &[SQLITE, POSTGRES], control: "tokio" },
    Rule { package: "local-process", forbidden: &[SQLITE, POSTGRES], control: "rustix" },
];

/// Features that a crate may ask of a dependency (tests excepted); its default features must be off.
const ONLY_FEATURES: &[(&str, &str, &[&str])] = &[("runtime-engine", "tokio", &["macros", "rt", "sync", "time"])];

pub fn run(repo: &Repo) -> Report {
    let members: Vec<Member> = repo.members().into_iter().map(Member::read).collect();
    let mut findings = check(&members, LAYERS);
    let edges: usize = members.iter().map(|member| member.uses.len()).sum();
    for rule in NEVER_BUILT {
        findings.extend(graph::check(rule).map_or_else(|error| vec![error.to_string()], |report| report.findings));
    }
    Report { checked: format!("{} members, {edges} declared dependencies, {} built graphs", members.len(), NEVER_BUILT.len()), findings }
}

struct Member {
    name: String,
    uses: Vec<Use>,
}

/// One line of a `[dependencies]` table.
struct Use {
    name: String,
    in_tests: bool,
    default_features: bool,
    features: Vec<String>,
}

impl Member {
    fn read(package: &Package) -> Self {
        let read = |dependency: &cargo_metadata::Dependency| Use {
            name: dependency.name.clone(),
            in_tests: dependency.kind == DependencyKind::Development,
            default_features: dependency.uses_default_features,
            features: dependency.features.clone(),
        };
        Self { name: package.name.to_string(), uses: package.dependencies.iter().map(read).collect() }
    }
}

fn check(members: &[Member], layers: &[Layer]) -> Vec<String> {
    let mut findings = Vec::new();
    let is_member = |name: &str| members.iter().any(|member| member.name == name);
    for stale in layers.iter().filter(|layer| !is_member(layer.name)) {
        findings.push(format!("{} has a row in the table of layers but is no member", stale.name));
    }
    for member in members {
        let Some(layer) = layers.iter().find(|layer| layer.name == member.name) else {
            findings.push(format!("{} has no row in the table of layers (xtask/src/audit/layers.rs)", member.name));
            continue;
        };
        for used in &member.uses {
            let allowed = layer.may_use.contains(&used.name.as_str()) || used.in_tests && layer.tests_may_use.contains(&used.name.as_str());
            if is_member(&used.name) && !allowed {
                let place = if used.in_tests { "dev-dependency" } else { "dependency" };
                findings.push(format!("{} may not have {} as a {place}", member.name, used.name));
            }
            if !used.in_tests {
                findings.extend(check_foreign(&member.name, used));
            }
        }
    }
    findings
}

fn check_foreign(member: &str, used: &Use) -> Vec<String> {
    let mut findings = Vec::new();
    let never = NEVER_DECLARED.iter().filter(|(name, _)| *name == member).flat_map(|(_, lists)| lists.iter().copied().flatten());
    for pattern in never.filter(|pattern| matches(pattern, &used.name)) {
        findings.push(format!("{member} may not declare {} (forbidden: {pattern}), not even as an optional dependency", used.name));
    }
    for (_, _, allowed) in ONLY_FEATURES.iter().filter(|(name, dependency, _)| *name == member && *dependency == used.name) {
        if used.default_features {
            findings.push(format!("{member} must switch the default features of {} off", used.name));
        }
        for feature in used.features.iter().filter(|feature| !allowed.contains(&feature.as_str())) {
            findings.push(format!("{member} may not use the feature {feature} of {}", used.name));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(name: &str, in_tests: bool) -> Use {
        Use { name: name.into(), in_tests, default_features: false, features: Vec::new() }
    }

    /// The workspace as the table has it, with `change` put into one member.
    fn with(member: &str, change: Use) -> Vec<String> {
        let mut members: Vec<Member> = LAYERS.iter().map(|layer| Member { name: layer.name.into(), uses: Vec::new() }).collect();
        members.iter_mut().find(|m| m.name == member).expect("a member of the table").uses.push(change);
        check(&members, LAYERS)
    }

    #[test]
    fn the_allowed_edges_have_no_finding() {
        assert_eq!(with("edge-sqlite", uses("runtime-core", false)), [""; 0]);
        assert_eq!(with("edge-sqlite", uses("store-contract", true)), [""; 0]);
    }

    #[test]
    fn an_edge_between_adapters_or_upwards_is_found() {
        for (member, used) in
            [("edge-sqlite", "local-process"), ("runtime-core", "runtime-engine"), ("edge-sqlite", "edge-control"), ("ql3-tests", "ql3")]
        {
            assert_eq!(with(member, uses(used, false)), [format!("{member} may not have {used} as a dependency")]);
        }
    }

    #[test]
    fn the_contract_suite_outside_tests_is_found() {
        assert_eq!(with("edge-sqlite", uses("store-contract", false)).len(), 1);
    }

    #[test]
    fn a_driver_or_runtime_in_the_kernel_is_found() {
        for used in ["tokio", "rusqlite", "tokio-postgres"] {
            assert!(!with("runtime-core", uses(used, false)).is_empty(), "{used}");
        }
    }

    #[test]
    fn a_tokio_feature_beyond_the_list_is_found() {
        let net = Use { features: vec!["rt".into(), "net".into()], ..uses("tokio", false) };
        assert_eq!(with("runtime-engine", net), ["runtime-engine may not use the feature net of tokio"]);
        let defaults = Use { default_features: true, ..uses("tokio", false) };
        assert_eq!(with("runtime-engine", defaults).len(), 1);
    }

    #[test]
    fn a_member_without_a_row_and_a_row_without_a_member_are_found() {
        let member = |name: &str| Member { name: name.into(), uses: Vec::new() };
        let layers = [Layer { name: "gone", may_use: &[], tests_may_use: &[] }];
        let found = check(&[member("new-crate")], &layers);
        assert!(found[0].starts_with("gone ") && found[1].starts_with("new-crate "), "{found:?}");
    }
}
