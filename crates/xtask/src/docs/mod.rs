//! The generated pages in docs/reference: written from the tables of commands and options, so that
//! no page can say what the program does not do.
//!
//! The command table is linked in only with the feature `tables`: without it, the other chores
//! build and run while the product does not compile. The program itself lists the options, as no
//! crate imports the server.

#[cfg(feature = "tables")]
mod commands;
mod options;
#[cfg(feature = "tables")]
mod support;

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use crate::process::{run as run_program, run_quietly};
use crate::steps::Report;
use crate::workspace::Workspace;

struct Page {
    path: &'static str,
    render: fn(&Workspace) -> Result<String, String>,
}

const PAGES: &[Page] = &[
    #[cfg(feature = "tables")]
    Page { path: "docs/reference/commands.md", render: |_| Ok(commands::page(command::table())) },
    #[cfg(feature = "tables")]
    Page { path: "docs/reference/support.md", render: |_| support::page(command::table()) },
    Page { path: "docs/reference/config.md", render: options::page },
];

/// Writes the generated pages; with `--check`, only compares and fails when one is stale.
///
/// # Errors
/// When the tables cannot be had, a page cannot be written, or, with `--check`, one is stale.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let check = match arguments {
        [] => false,
        [only] if only == "--check" => true,
        _ => return Err("docs takes no argument but --check".to_owned()),
    };
    let workspace = Workspace::load()?;
    if !cfg!(feature = "tables") {
        return run_with_tables(&workspace, "docs", arguments);
    }
    let build = ["build", "--quiet", "--package", "forebay-server", "--bin", "forebay"];
    run_program(Command::new("cargo").args(build).current_dir(&workspace.root))?;
    let mut stale = Vec::new();
    for page in PAGES {
        let text = (page.render)(&workspace)?;
        let path = workspace.root.join(page.path);
        let is_fresh = fs::read_to_string(&path).is_ok_and(|current| current == text);
        if check && !is_fresh {
            stale.push(page.path);
        } else if !is_fresh {
            write(&path, &text).map_err(|error| format!("{}: {error}", page.path))?;
            println!("wrote {}", page.path);
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(stale_message(&stale)) }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("a page lies in a folder"))?;
    fs::write(path, text)
}

/// Fails when a generated page is stale.
///
/// # Errors
/// When one is, or when the tables cannot be had.
pub fn check(workspace: &Workspace) -> Result<Report, String> {
    run_with_tables(workspace, "docs", &["--check".to_owned()])?;
    Ok(Report::Ran(crate::process::TestCounts::default()))
}

fn stale_message(pages: &[&str]) -> String {
    format!("stale: {}; run `cargo xtask docs` and commit", pages.join(", "))
}

/// Runs `chore` in a build of this program that has the command table in it.
///
/// # Errors
/// When that build or the chore fails.
pub fn run_with_tables(
    workspace: &Workspace,
    chore: &str,
    arguments: &[String],
) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--package", "forebay-xtask", "--features", "tables", "--"]);
    run_quietly(command.arg(chore).args(arguments).current_dir(&workspace.root))
}
