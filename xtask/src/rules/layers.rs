//! Crates depend downwards only (DESIGN §3, ARCHITECTURE.md "Code map").

use super::Offence;
use crate::workspace::{Package, Workspace};

/// The layers, lowest first. A crate may name those to its left.
#[rustfmt::skip]
const ORDER: &[&str] = &[
    "base", "value", "json", "collations", "machine", "noise", "traces", "shield", "cache", "task", "tree", "store", "txn", "view", "cell-abi", "cell-image", "cell", "delta", "workload",
    "quick", "sql", "workers", "dialect", "names", "functions", "collated", "aggregates", "unnest", "joins", "spill", "sorts", "hashing", "views", "catalog", "scan", "ranges", "plan", "derived", "operators", "exec", "copy", "ddl", "pgcatalog", "prepare",
    "halcyon", "interchange", "server", "console", "python", "adbc", "tpch", "graphs", "gauge", "neighbours", "scenarios", "lab", "cli",
];

/// What a crate must not name although it lies lower: these enter by the door `halcyon` alone.
#[rustfmt::skip]
const BY_THE_DOOR: &[(&str, &[&str])] = &[
    ("server", &["store", "txn"]),
    ("console", &["store", "txn", "catalog", "scan", "plan", "derived", "operators", "exec", "copy", "ddl", "pgcatalog", "prepare"]),
    ("python", &["store", "txn", "views", "sql", "catalog", "scan", "plan", "derived", "operators", "exec", "copy", "ddl", "pgcatalog", "prepare", "server"]),
    ("interchange", &["store", "txn", "views", "sql", "catalog", "scan", "plan", "derived", "operators", "exec", "copy", "ddl", "pgcatalog", "prepare", "server"]),
    ("adbc", &["store", "txn", "views", "sql", "catalog", "scan", "plan", "derived", "operators", "exec", "copy", "ddl", "pgcatalog", "prepare", "server"]),
    ("neighbours", &["store", "txn", "catalog", "scan", "plan", "derived", "operators", "exec", "copy", "ddl", "pgcatalog", "prepare"]),
    ("lab", &["store", "txn", "catalog", "scan", "plan", "derived", "operators", "exec", "copy", "ddl", "pgcatalog", "prepare"]),
    ("cli", &["store", "txn", "catalog", "scan", "plan", "derived", "operators", "exec", "copy", "ddl", "pgcatalog", "prepare", "lab"]),
];

/// Looks at every edge between our packages, development dependencies included.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let own: Vec<&Package> = workspace.own().collect();
    offences(&own)
}

/// A package's layer: its name without the common prefix.
pub fn layer(name: &str) -> &str {
    name.strip_prefix("halcyon-").unwrap_or(name)
}

/// How many layers lie below; `None` for what is no layer.
pub fn height(layer: &str) -> Option<usize> {
    ORDER.iter().position(|name| *name == layer)
}

fn offences(own: &[&Package]) -> Vec<Offence> {
    let mut found = Vec::new();
    for package in own.iter().filter(|package| package.name != "xtask") {
        let from = layer(&package.name);
        let Some(from_height) = height(from) else {
            let message = format!(
                "crate `{from}` is in no layer; give it a place in ORDER of xtask/src/rules/layers.rs \
                 and in ARCHITECTURE.md, or make it a module of a crate that exists"
            );
            found.push(Offence::new(&package.name, message));
            continue;
        };
        for dependency in &package.dependencies {
            let is_ours = own.iter().any(|other| other.name == *dependency);
            // A crate names itself to have a feature on in its tests.
            if !is_ours || *dependency == package.name {
                continue;
            }
            let to = layer(dependency);
            if height(to).is_some_and(|to_height| to_height >= from_height) {
                let message = format!(
                    "`{from}` must not depend on `{to}`, which lies above it; move the shared part \
                     down into a crate below both, or pass it in as a parameter or trait"
                );
                found.push(Offence::new(&package.name, message));
            }
            if BY_THE_DOOR.iter().any(|(name, shut)| *name == from && shut.contains(&to)) {
                let message = format!(
                    "`{from}` must not reach into `{to}`; use what `halcyon` offers, or have \
                     `halcyon` export what is missing"
                );
                found.push(Offence::new(&package.name, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
            ..Package::default()
        }
    }

    fn check(packages: &[Package]) -> Vec<String> {
        let own: Vec<&Package> = packages.iter().collect();
        offences(&own).iter().map(Offence::to_string).collect()
    }

    #[test]
    fn a_crate_may_name_itself_for_its_tests() {
        assert!(check(&[package("halcyon-store", &["halcyon-store"])]).is_empty());
    }

    #[test]
    fn edges_downwards_pass() {
        let packages = [
            package("halcyon-base", &["serde"]),
            package("halcyon-store", &["halcyon-base"]),
            package("halcyon-plan", &["halcyon-store", "halcyon-base", "halcyon-plan"]),
        ];
        assert_eq!(check(&packages), [""; 0]);
    }

    #[test]
    fn an_edge_upwards_is_refused_and_the_message_says_what_to_do() {
        let packages = [
            package("halcyon-store", &["halcyon-txn"]),
            package("halcyon-txn", &["halcyon-store"]),
        ];
        let found = check(&packages);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("halcyon-store: `store` must not depend on `txn`"));
        assert!(found[0].contains("pass it in"), "{found:?}");
    }

    #[test]
    fn a_crate_without_a_layer_is_refused() {
        assert!(check(&[package("halcyon-misc", &[])])[0].contains("in no layer"));
    }

    #[test]
    fn the_binary_of_users_has_no_experiments() {
        let packages = [package("halcyon-cli", &["halcyon-lab"]), package("halcyon-lab", &[])];
        let found = check(&packages);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("halcyon-cli: `cli` must not reach into `lab`"), "{found:?}");
    }

    #[test]
    fn the_lab_may_not_go_round_the_door() {
        let packages = [package("halcyon-lab", &["halcyon-txn"]), package("halcyon-txn", &[])];
        assert!(check(&packages)[0].contains("must not reach into `txn`"));
    }
}
