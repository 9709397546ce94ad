//! Dependencies from outside: licence, source and a single version of each, as `deny.toml` allows.
//! Advisories are not checked here: they need an up-to-date database.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Finding;
use crate::process::output_of;
use crate::workspace::Workspace;

/// Where the rules stand, for this and for cargo-deny.
const RULES: &str = "deny.toml";
/// The workspaces, each with a lock file of its own.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// How cargo's metadata names what comes from its default registry, the only one that is allowed.
const DEFAULT_REGISTRY: &str = "registry+https://github.com/rust-lang/";

/// What `deny.toml` allows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    licences: Vec<String>,
    /// Packages that may come in several versions.
    several: Vec<String>,
}

/// Returns every package of the lock files that the rules do not allow.
///
/// # Errors
/// When the rules cannot be read, name nothing, or cargo fails.
pub fn check(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let text = std::fs::read_to_string(workspace.root.join(RULES))
        .map_err(|error| format!("{RULES}: {error}"))?;
    let rules = Rules::read(&text);
    if rules.licences.is_empty() {
        return Err(format!("{RULES} allows no licence"));
    }
    let mut findings = Vec::new();
    for manifest in MANIFESTS {
        let path = workspace.root.join(manifest);
        let path = path.to_string_lossy();
        let call = ["metadata", "--locked", "--format-version", "1", "--manifest-path", &path];
        let metadata: Value = serde_json::from_str(&output_of("cargo", &call)?)
            .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
        let packages = metadata["packages"].as_array().ok_or("cargo metadata lacks packages")?;
        findings.extend(check_packages(manifest, packages, &rules));
    }
    Ok(findings)
}

fn check_packages(manifest: &str, packages: &[Value], rules: &Rules) -> Vec<Finding> {
    let mut messages = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let field = |name: &str| package[name].as_str();
        // A package without a source is one of the project's own.
        let (Some(name), Some(source)) = (field("name"), field("source")) else { continue };
        versions.entry(name).or_default().push(field("version").unwrap_or("?"));
        if !source.starts_with(DEFAULT_REGISTRY) {
            messages.push(format!("{name} comes from {source}"));
        }
        match field("license") {
            Some(licence) if is_allowed(licence, &rules.licences) => {}
            Some(licence) => messages.push(format!("{name} has the licence {licence}")),
            None => messages.push(format!("{name} names no licence")),
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 && !rules.several.iter().any(|allowed| allowed == name) {
            messages.push(format!("{name} comes in the versions {}", versions.join(", ")));
        }
    }
    let finding = |message| Finding {
        path: manifest.to_owned(),
        line: 0,
        message: format!("{message}, which {RULES} does not allow"),
    };
    messages.into_iter().map(finding).collect()
}

impl Rules {
    /// Reads the lists in `text`. This is all of TOML that tidy needs to know: a table's name in a
    /// line of its own, then `name = [` and quoted words up to the line with the closing bracket.
    fn read(text: &str) -> Rules {
        let mut rules = Rules::default();
        let (mut table, mut list) = ("", "");
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                table = name;
                continue;
            }
            let mut words = line;
            if let Some((name, value)) = line.split_once("= [") {
                (list, words) = (name.trim(), value);
            }
            let quoted = words.split('"').skip(1).step_by(2).map(str::to_owned);
            match (table, list) {
                ("licenses", "allow") => rules.licences.extend(quoted),
                ("bans", "skip") => rules.several.extend(quoted),
                _ => {}
            }
            if words.ends_with(']') {
                list = "";
            }
        }
        rules
    }
}

/// Returns whether one may use what has the licence `expression` of SPDX when one may use what has
/// one of `allowed`: of a choice one is enough, of what all must be kept each.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    // "A WITH B" is a licence of its own name.
    let spaced = spaced.replace(" WITH ", "-WITH-");
    // For each bracket that is open: what is known of the choice, and of its last alternative.
    let mut open = vec![(false, true)];
    for word in spaced.split_whitespace() {
        let Some((choice, alternative)) = open.last_mut() else { return false };
        match word {
            "(" => open.push((false, true)),
            "OR" => (*choice, *alternative) = (*choice || *alternative, true),
            "AND" => {}
            ")" => {
                let inner = *choice || *alternative;
                open.pop();
                let Some((_, alternative)) = open.last_mut() else { return false };
                *alternative &= inner;
            }
            licence => *alternative &= allowed.iter().any(|allowed| allowed == licence),
        }
    }
    matches!(open[..], [(choice, alternative)] if choice || alternative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules() -> Rules {
        Rules::read(
            "[licenses]\nallow = [\n    # Reasons [\"X\"].\n    \"MIT\",\n    \"ISC\",\n]\n\
             other = [\"GPL-3.0\"]\n[bans]\nskip = [\n    { name = \"syn\" },\n]\n\
             [sources]\nallow = [\"MPL-2.0\"]\n",
        )
    }

    #[test]
    fn the_lists_are_read() {
        let found = rules();
        assert_eq!(found.licences, ["MIT", "ISC"]);
        assert_eq!(found.several, ["syn"]);
    }

    #[test]
    fn a_licence_is_allowed_if_one_of_each_choice_is() {
        let allowed = |expression| is_allowed(expression, &rules().licences);
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(GPL-3.0 OR MIT) AND ISC",
            "MIT AND ISC",
            "MIT OR GPL-3.0 AND GPL-2.0",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR ISC) AND GPL-3.0",
            "GPL-3.0 OR MIT AND GPL-2.0",
            "MIT WITH exception",
            "(GPL-3.0",
            "MIT)",
        ] {
            assert!(!allowed(bad), "{bad}");
        }
    }

    fn package(name: &str, version: &str, source: &str, licence: Value) -> Value {
        json!({ "name": name, "version": version, "source": source, "license": licence })
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        let findings = |packages: &[Value]| check_packages("Cargo.toml", packages, &rules()).len();
        let usual = format!("{DEFAULT_REGISTRY}index");
        let of = |version, licence| package("a", version, &usual, licence);
        assert_eq!(findings(&[of("1", "MIT".into())]), 0);
        assert_eq!(findings(&[package("a", "1", "git+https://r", "MIT".into())]), 1);
        assert_eq!(findings(&[package("a", "1", "registry+https://r", "MIT".into())]), 1);
        assert_eq!(findings(&[of("1", "GPL-3.0".into())]), 1);
        assert_eq!(findings(&[of("1", Value::Null)]), 1);
        assert_eq!(findings(&[of("1", "MIT".into()), of("2", "MIT".into())]), 1);
        let syn = |version| package("syn", version, &usual, "MIT".into());
        assert_eq!(findings(&[syn("2"), syn("3")]), 0);
        assert_eq!(findings(&[json!({ "name": "forebay-fuzz", "version": "0.0.0" })]), 0);
    }
}
