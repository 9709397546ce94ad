//! The examples of the rows do what they show.

use command::{Handler, rows};

use crate::support::World;

/// A reply that an example does not spell out.
const ANY: &str = "...";

#[test]
fn examples_run_as_they_are_shown() {
    for command in rows().filter(|command| !matches!(command.handler, Handler::Container)) {
        assert!(command.example.starts_with("> "), "{} has an example", command.name);
        let mut world = World::new();
        for step in command.example.split_terminator("> ").skip(1) {
            let (request, expected) = step.split_once('\n').expect("a request has a reply");
            let found = world.ask(request);
            let expected = expected.trim_end_matches('\n');
            assert!(expected == ANY || found == expected, "{}: {request}: {found}", command.name);
        }
        // Another command's request may come before, but its own must be there.
        let own = command.name.to_ascii_uppercase().replace('|', " ");
        assert!(command.example.contains(&format!("> {own}")), "{}", command.name);
    }
}
