//! Where the workspace is and what `cargo metadata` says about it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The packages of the workspace and its folders.
pub struct Workspace {
    /// The folder with the root Cargo.toml.
    pub root: PathBuf,
    /// Cargo's target folder, which `CARGO_TARGET_DIR` may have moved.
    pub target: PathBuf,
    /// The member packages, by name.
    pub packages: Vec<Package>,
    /// What this machine cannot run is a failure.
    pub is_strict: bool,
}

/// A member of the workspace.
pub struct Package {
    /// The name in Cargo.toml, such as `forebay-arena`.
    pub name: String,
    /// What it depends on, inside and outside of the workspace.
    pub dependencies: Vec<Dependency>,
}

/// A line in one of the dependency tables of a package.
pub struct Dependency {
    /// The package it names.
    pub name: String,
    /// Whether only the package's tests, examples and benches see it.
    pub for_tests: bool,
}

impl Workspace {
    /// Returns the workspace around the current folder, as `cargo metadata` describes it.
    ///
    /// # Errors
    /// When cargo fails or prints something that is not its documented format 1.
    pub fn load() -> Result<Workspace, String> {
        let output = Command::new("cargo")
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .map_err(|error| format!("cannot start cargo metadata: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
        Workspace::from_metadata(&metadata).ok_or("cargo metadata lacks a field".to_owned())
    }

    fn from_metadata(metadata: &Value) -> Option<Workspace> {
        let packages = metadata["packages"].as_array()?;
        Some(Workspace {
            root: metadata["workspace_root"].as_str()?.into(),
            target: metadata["target_directory"].as_str()?.into(),
            packages: packages.iter().map(package).collect::<Option<_>>()?,
            is_strict: false,
        })
    }

    /// Returns whether the workspace has a file or folder at `path`, relative to its root.
    pub fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

fn package(value: &Value) -> Option<Package> {
    let dependencies = value["dependencies"].as_array()?;
    Some(Package {
        name: value["name"].as_str()?.to_owned(),
        dependencies: dependencies.iter().map(dependency).collect::<Option<_>>()?,
    })
}

fn dependency(value: &Value) -> Option<Dependency> {
    Some(Dependency {
        name: value["name"].as_str()?.to_owned(),
        for_tests: value["kind"].as_str() == Some("dev"),
    })
}
