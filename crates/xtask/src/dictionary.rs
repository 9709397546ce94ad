//! The dictionary of the fuzz targets: the words of the command table, in libFuzzer's format.

#[cfg(feature = "tables")]
use std::fs;
use std::path::PathBuf;

use crate::docs::run_with_tables;
use crate::workspace::Workspace;

/// Writes the dictionary into Cargo's target folder.
///
/// # Errors
/// When it cannot be written.
#[cfg(feature = "tables")]
pub fn run(_: &[String]) -> Result<(), String> {
    let path = path(&Workspace::load()?);
    fs::create_dir_all(path.parent().expect("it lies in a folder"))
        .and_then(|()| fs::write(&path, text(command::vocabulary())))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes the dictionary, in a build of this program that has the command table in it.
///
/// # Errors
/// When the table cannot be had or the file not be written.
#[cfg(not(feature = "tables"))]
pub fn run(_: &[String]) -> Result<(), String> {
    write(&Workspace::load()?).map(drop)
}

/// Writes the dictionary and returns where it is.
///
/// # Errors
/// When the command table cannot be had or the file not be written.
pub fn write(workspace: &Workspace) -> Result<PathBuf, String> {
    run_with_tables(workspace, "dictionary", &[])?;
    Ok(path(workspace))
}

fn path(workspace: &Workspace) -> PathBuf {
    workspace.target.join("fuzz/commands.dict")
}

/// Returns the dictionary of `words`: one in double quotes in each line.
#[cfg(any(test, feature = "tables"))]
fn text(words: impl IntoIterator<Item = &'static str>) -> String {
    words
        .into_iter()
        .map(|word| format!("\"{}\"\n", word.replace('\\', "\\\\").replace('"', "\\\"")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_a_quoted_line() {
        assert_eq!(text(["set", "a\"b\\"]), "\"set\"\n\"a\\\"b\\\\\"\n");
    }
}
