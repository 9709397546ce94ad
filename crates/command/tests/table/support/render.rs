//! Replies as redis-cli shows them to people.

use resp::Value;

pub fn render(value: &Value) -> String {
    indented(value, 0)
}

/// Lines after the first begin with `depth` spaces, so that elements stand below each other.
fn indented(value: &Value, depth: usize) -> String {
    match value {
        Value::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Error(text) => format!("(error) {}", String::from_utf8_lossy(text)),
        Value::Double(number) => format!("(double) {number}"),
        Value::Integer(number) => format!("(integer) {number}"),
        Value::Bulk(bytes) => quoted(bytes),
        Value::Verbatim { text, .. } => String::from_utf8_lossy(text).into_owned(),
        Value::Null | Value::NullArray => "(nil)".to_owned(),
        Value::Array(items) | Value::Set(items) => list(items.iter(), depth),
        Value::Map(pairs) => list(pairs.iter().flat_map(|(key, value)| [key, value]), depth),
        other => panic!("no command replies with {other:?}"),
    }
}

fn list<'a>(items: impl Iterator<Item = &'a Value>, depth: usize) -> String {
    let items: Vec<&Value> = items.collect();
    if items.is_empty() {
        return "(empty array)".to_owned();
    }
    let digits = items.len().to_string().len();
    let lines = items.iter().enumerate().map(|(index, item)| {
        let inner = indented(item, depth + digits + 2);
        format!("{:>digits$}) {inner}", index + 1)
    });
    lines.collect::<Vec<_>>().join(&format!("\n{}", " ".repeat(depth)))
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii().to_string().replace("\\'", "'"))
}
