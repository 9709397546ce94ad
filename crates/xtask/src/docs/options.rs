//! The page of options, from the table that `forebay options --table` prints.

use crate::process::output_of;
use crate::workspace::Workspace;

/// Returns the page for the options of the program that is built for debugging.
///
/// # Errors
/// When the program cannot be run or prints something else.
pub fn page(workspace: &Workspace) -> Result<String, String> {
    let program = workspace.target.join("debug/forebay");
    let printed = output_of(&program.to_string_lossy(), &["options", "--table"])?;
    render(&printed).ok_or_else(|| "forebay options printed something unknown".to_owned())
}

const HEAD: &str = "\
# Options

Written by `cargo xtask docs` from the server's table of options. Each can stand in the
configuration file and on the command line of `forebay serve`; CONFIG GET shows it, CONFIG SET
changes it where it is set at any time, and CONFIG REWRITE writes it back. Any name that is not on
this page is refused. `forebay --help OPTION` prints what is known of one, and
`forebay config check FILE` what a file would lead to.
";

const EFFECTIVE: &str = "
## Options that do something

| option | values | default | set | what it does |
| --- | --- | --- | --- | --- |
";

const REFUSED: &str = "
## Options that are kept at their default

Another value asks for something that does not exist here, so that a server does not start with it;
one that a later line or the command line takes back does no harm.

| option | default | why |
| --- | --- | --- |
";

const DIRECTIVES: &str = "
## Directives that are refused

| directive | why |
| --- | --- |
";

const ACCEPTED: &str = "
## Options of Redis without effect

They are checked, shown and written back as in Redis, and the log names those that were set.

| option | values | default |
| --- | --- | --- |
";

/// Returns the page for a table of seven cells a line: name, alias, effect, values, default, when,
/// meaning.
fn render(printed: &str) -> Option<String> {
    let [mut effective, mut refused, mut directives, mut accepted] =
        [(); 4].map(|()| String::new());
    for line in printed.lines() {
        let line = line.replace('|', "\\|");
        let cells: Vec<&str> = line.split('\t').collect();
        let [name, alias, effect, values, default, when, meaning] = cells.try_into().ok()?;
        let name = match alias {
            "" => format!("`{name}`"),
            alias => format!("`{name}`, `{alias}`"),
        };
        let default = quoted(default);
        match effect {
            "effective" => {
                effective += &format!("| {name} | {values} | {default} | {when} | {meaning} |\n");
            }
            "accepted" => accepted += &format!("| {name} | {values} | {default} |\n"),
            "refused" => refused += &format!("| {name} | {default} | {meaning} |\n"),
            "directive" => directives += &format!("| {name} | {meaning} |\n"),
            _ => return None,
        }
    }
    let parts = [HEAD, EFFECTIVE, &effective, REFUSED, &refused, DIRECTIVES, &directives, ACCEPTED];
    (!printed.is_empty()).then(|| parts.concat() + &accepted)
}

fn quoted(default: &str) -> String {
    if default.is_empty() { "none".to_owned() } else { format!("`{default}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_a_row_of_the_table_of_its_kind() {
        let page = render(
            "port\t\teffective\t0 to 9\t6379\tat start\tThe port.\n\
             a\tb\taccepted\tyes | no\t\tany time\tNothing.\n\
             tls-port\t\trefused\tthe default\t0\tat start\tNo TLS.\n\
             user\t\tdirective\t\t\tnever\tNo users.\n",
        );
        let page = page.expect("the list is complete");
        for row in [
            "\n| `port` | 0 to 9 | `6379` | at start | The port. |\n",
            "\n| `a`, `b` | yes \\| no | none |\n",
            "\n| `tls-port` | `0` | No TLS. |\n",
            "\n| `user` | No users. |\n",
        ] {
            assert!(page.contains(row), "{row}: {page}");
        }
    }

    #[test]
    fn another_format_is_refused() {
        for printed in ["", "port 6379\n", "a\t\tgood\tx\ty\tz\tw\n", "a\t\teffective\tx\ty\tz\n"] {
            assert!(render(printed).is_none(), "{printed:?}");
        }
    }
}
