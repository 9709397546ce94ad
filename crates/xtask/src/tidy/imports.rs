//! Which crate may import which: one row for each crate. Arrows point down only.

use super::Finding;
use crate::workspace::{Dependency, Package};

struct Row {
    name: &'static str,
    /// The crates of the workspace that it may use, in its tests too.
    may_use: &'static [&'static str],
    /// The crates of the workspace that its tests may use beside those.
    tests_may_use: &'static [&'static str],
}

const ROWS: &[Row] = &[
    row("base", &[]),
    row("sys", &["base"]),
    over_memory("arena", &["base"]),
    Row { name: "ring", may_use: &["arena", "sys"], tests_may_use: &["base"] },
    row("resp", &["base"]),
    row("memcached", &["base", "resp"]),
    row("collections", &["base"]),
    // Its tests measure what is allocated.
    Row { name: "rdb", may_use: &["base", "collections"], tests_may_use: &["sys"] },
    row("effects", &["base", "sys"]),
    row("wal", &["base", "sys"]),
    row("policy", &["base"]),
    over_memory("keyspace", &["base", "arena", "collections", "rdb", "effects", "policy"]),
    Row {
        name: "command",
        may_use: &["base", "resp", "memcached", "collections", "rdb", "keyspace"],
        tests_may_use: &["arena", "ring", "sys", "effects"],
    },
    Row {
        name: "engine",
        may_use: &["base", "resp", "collections", "effects", "keyspace", "command"],
        tests_may_use: &["arena", "rdb"],
    },
    row(
        "runtime",
        &[
            "base",
            "sys",
            "arena",
            "ring",
            "resp",
            "collections",
            "rdb",
            "effects",
            "wal",
            "keyspace",
            "command",
            "engine",
        ],
    ),
    row(
        "server",
        &[
            "base",
            "sys",
            "arena",
            "ring",
            "resp",
            "memcached",
            "collections",
            "rdb",
            "effects",
            "wal",
            "keyspace",
            "command",
            "engine",
            "runtime",
        ],
    ),
    row("client", &["base", "sys", "arena", "ring", "resp", "collections"]),
    row("bench", &["base", "sys", "resp", "policy", "client"]),
    row("python", &["sys", "client", "server"]),
    row("xtask", &["command"]),
    row(
        "tests",
        &["base", "sys", "arena", "ring", "resp", "collections", "rdb", "command", "client"],
    ),
];

/// The package that a program loads which is no crate's: the one that may import the server.
const EMBEDDING: &str = "python";

/// Packages from outside that only one crate may use, as it is the one place for what they do.
const OWNED_OUTSIDE: [(&str, &str); 1] = [("libc", "sys")];

/// The crates that are functions of their arguments: the engine and everything below it.
pub const PURE_CRATES: [&str; 11] = [
    "arena",
    "base",
    "collections",
    "command",
    "effects",
    "engine",
    "keyspace",
    "memcached",
    "policy",
    "rdb",
    "resp",
];

/// Sources of randomness, sockets and threads: none may reach a pure crate.
const IMPURE_OUTSIDE: [&str; 6] = ["fastrand", "getrandom", "mio", "rand", "rayon", "tokio"];

const fn row(name: &'static str, may_use: &'static [&'static str]) -> Row {
    Row { name, may_use, tests_may_use: &[] }
}

/// A row of a crate that works on an arena: its tests bring the memory, and some measure time.
const fn over_memory(name: &'static str, may_use: &'static [&'static str]) -> Row {
    Row { name, may_use, tests_may_use: &["arena", "ring", "sys"] }
}

/// Returns every dependency of `packages` that the table does not allow.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let name = short_name(&package.name).unwrap_or(&package.name);
    let Some(row) = ROWS.iter().find(|row| row.name == name) else {
        return vec![finding(name, "has no row in tidy/imports.rs: add one".to_owned())];
    };
    let refused = package.dependencies.iter().filter_map(|dependency| refusal(row, dependency));
    refused.map(|message| finding(name, message)).collect()
}

fn refusal(row: &Row, dependency: &Dependency) -> Option<String> {
    let name = &dependency.name;
    let Some(member) = short_name(name) else { return refusal_outside(row, dependency) };
    let allowed = row.may_use.contains(&member)
        || dependency.for_tests && row.tests_may_use.contains(&member);
    (!allowed).then(|| format!("may not import {member}; see who may import whom"))
}

fn refusal_outside(row: &Row, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    let owner = OWNED_OUTSIDE.iter().find(|(package, _)| *package == name);
    if let Some((_, owner)) = owner.filter(|(_, owner)| *owner != row.name) {
        return Some(format!("may not use {name}: it belongs to {owner}"));
    }
    let is_impure = PURE_CRATES.contains(&row.name) && IMPURE_OUTSIDE.contains(&name);
    (is_impure && !dependency.for_tests).then(|| format!("may not use {name}: the crate is pure"))
}

fn short_name(package: &str) -> Option<&str> {
    package.strip_prefix("forebay-")
}

fn finding(name: &str, message: String) -> Finding {
    let path = match name {
        "tests" => "tests/Cargo.toml",
        EMBEDDING => "clients/python/Cargo.toml",
        _ => &format!("crates/{name}/Cargo.toml"),
    };
    Finding { path: path.to_owned(), line: 0, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, dependency: &str, for_tests: bool) -> usize {
        let dependency = Dependency { name: dependency.to_owned(), for_tests };
        check(&[Package { name: name.to_owned(), dependencies: vec![dependency] }]).len()
    }

    #[test]
    fn an_import_against_the_arrows_is_caught() {
        assert_eq!(count("forebay-keyspace", "forebay-command", false), 1);
        assert_eq!(count("forebay-engine", "forebay-sys", false), 1);
        assert_eq!(count("forebay-engine", "forebay-command", false), 0);
    }

    #[test]
    fn tests_may_use_what_the_crate_itself_may_not() {
        assert_eq!(count("forebay-arena", "forebay-sys", true), 0);
        assert_eq!(count("forebay-arena", "forebay-sys", false), 1);
        assert_eq!(count("forebay-engine", "forebay-arena", true), 0);
        assert_eq!(count("forebay-engine", "forebay-arena", false), 1);
    }

    #[test]
    fn a_leaf_is_imported_by_nobody() {
        for leaf in ["forebay-server", "forebay-bench", "forebay-xtask", "forebay-python"] {
            for row in ROWS {
                let may_import = row.name == EMBEDDING && leaf == "forebay-server";
                let refused = usize::from(!may_import);
                assert_eq!(count(&format!("forebay-{}", row.name), leaf, true), refused, "{leaf}");
            }
        }
    }

    #[test]
    fn a_crate_without_row_is_caught() {
        assert_eq!(count("forebay-util", "serde_json", false), 1);
    }

    #[test]
    fn outside_packages_keep_to_their_place() {
        assert_eq!(count("forebay-server", "libc", false), 1);
        assert_eq!(count("forebay-sys", "libc", false), 0);
        assert_eq!(count("forebay-engine", "rand", false), 1);
        assert_eq!(count("forebay-engine", "rand", true), 0);
        assert_eq!(count("forebay-bench", "rand", false), 0);
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (index, row) in ROWS.iter().enumerate() {
            let below = &ROWS[..index];
            for used in row.may_use {
                assert!(below.iter().any(|row| row.name == *used), "{} -> {used}", row.name);
            }
        }
    }
}
