//! The page of options, from the list that `forebay options` prints.

use crate::process::output_of;
use crate::workspace::Workspace;

/// Returns the page for the options of the program that is built for debugging.
///
/// # Errors
/// When the program cannot be run or prints something else.
pub fn page(workspace: &Workspace) -> Result<String, String> {
    let program = workspace.target.join("debug/forebay");
    let printed = output_of(&program.to_string_lossy(), &["options"])?;
    render(&printed).ok_or_else(|| "forebay options printed something unknown".to_owned())
}

/// Returns the page for a list that has two lines an option: name and default, then, indented,
/// what it does and, in brackets, that it is set at start only.
fn render(printed: &str) -> Option<String> {
    let mut page = "# Options\n\n\
        Written by `cargo xtask docs` from the server's table of options. Each can stand in the\n\
        configuration file and on the command line of `forebay serve`; CONFIG GET shows it, and\n\
        CONFIG SET changes it where it is set at any time. An option of Redis that is not listed\n\
        is accepted where it has no meaning here, and the log says so; any other name is refused.\n\
        \n\
        | option | default | set | what it does |\n| --- | --- | --- | --- |\n"
        .to_owned();
    let mut lines = printed.lines();
    while let Some(line) = lines.next() {
        let (name, default) = line.split_once(' ')?;
        let line = lines.next()?.strip_prefix("    ")?;
        let (meaning, when) = match line.strip_suffix(" (at start)") {
            Some(meaning) => (meaning, "at start"),
            None => (line, "any time"),
        };
        let meaning = meaning.replace('|', "\\|");
        page.push_str(&format!("| `{name}` | {} | {when} | {meaning} |\n", quoted(default)));
    }
    (!printed.is_empty()).then_some(page)
}

fn quoted(default: &str) -> String {
    if default == "''" { "none".to_owned() } else { format!("`{default}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_a_row_of_the_table() {
        let page = render("port 6379\n    The port. (at start)\nunixsocket ''\n    yes | no.\n");
        let page = page.expect("the list is complete");
        assert!(page.contains("\n| `port` | `6379` | at start | The port. |\n"), "{page}");
        assert!(page.ends_with("\n| `unixsocket` | none | any time | yes \\| no. |\n"), "{page}");
    }

    #[test]
    fn another_format_is_refused() {
        for printed in ["", "port 6379\n", "port 6379\nThe port.\n", "port\n    The port.\n"] {
            assert!(render(printed).is_none(), "{printed:?}");
        }
    }
}
