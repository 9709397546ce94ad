//! The page of options, from the rows that `forebay config --json` prints.

use serde_json::Value;

use crate::process::output_of;
use crate::workspace::Workspace;

/// Returns the page for the options of the program that is built for debugging.
///
/// # Errors
/// When the program cannot be run or prints something else.
pub fn page(workspace: &Workspace) -> Result<String, String> {
    let program = workspace.target.join("debug/forebay");
    let printed = output_of(&program.to_string_lossy(), &["config", "--json"])?;
    let rows: Value = serde_json::from_str(&printed)
        .map_err(|error| format!("forebay config --json printed no JSON: {error}"))?;
    render(&rows).ok_or_else(|| "forebay config --json lacks a field".to_owned())
}

fn render(rows: &Value) -> Option<String> {
    let rows = rows.as_array()?;
    let mut page = "# Options\n\n\
        Written by `cargo xtask docs` from the server's table of options. Each can stand in the\n\
        configuration file and on the command line of `forebay serve`; CONFIG GET shows it.\n\
        \n\
        | option | default | CONFIG SET | what it does |\n| --- | --- | --- | --- |\n"
        .to_owned();
    let (effective, accepted): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|row| row["effective"].as_bool() == Some(true));
    for row in effective {
        let when = if row["mutable"].as_bool()? { "yes" } else { "no" };
        let [name, default, doc] = texts(row)?;
        page.push_str(&format!("| `{name}` | {} | {when} | {doc} |\n", quoted(default)));
    }
    page.push_str(
        "\n## Accepted without effect\n\n\
         Known from Redis and without meaning here. They are accepted, so that a configuration\n\
         made for Redis works, and the log says so.\n\n",
    );
    for row in accepted {
        page.push_str(&format!("- `{}`\n", texts(row)?[0]));
    }
    Some(page)
}

fn texts(row: &Value) -> Option<[&str; 3]> {
    Some([row["name"].as_str()?, row["default"].as_str()?, row["doc"].as_str()?])
}

fn quoted(default: &str) -> String {
    if default.is_empty() { "none".to_owned() } else { format!("`{default}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_options_are_a_table_and_the_others_a_list() {
        let rows = serde_json::json!([
            {"name": "port", "default": "6379", "mutable": false, "effective": true, "doc": "D."},
            {"name": "save", "default": "", "mutable": true, "effective": false, "doc": ""},
        ]);
        let page = render(&rows).expect("the rows are complete");
        assert!(page.contains("\n| `port` | `6379` | no | D. |\n"), "{page}");
        assert!(page.contains("\n- `save`\n"), "{page}");
        assert!(render(&serde_json::json!([{"name": "port", "effective": true}])).is_none());
    }
}
