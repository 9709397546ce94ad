//! The table of chores: the commands of `cargo xtask`.

use crate::{dictionary, docs, fuzz, python, setup, steps, stress_tests, tidy};

/// A thing to do in this repository.
pub struct Chore {
    /// The word on the command line.
    pub name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    /// Does it, given the words after its name.
    pub run: fn(&[String]) -> Result<(), String>,
}

/// Every chore, in the order in which one meets them.
pub const CHORES: &[Chore] = &[
    Chore {
        name: "check",
        arguments: "",
        summary: "format, house rules, lints, links: what to run before each commit",
        run: steps::check,
    },
    Chore {
        name: "tidy",
        arguments: "[--bless]",
        summary: "the house rules alone; --bless lowers the baseline",
        run: tidy::run,
    },
    Chore {
        name: "setup",
        arguments: "",
        summary: "install what the tests need: redis-server, memcached, python3, packages",
        run: setup::run,
    },
    Chore {
        name: "test",
        arguments: "",
        summary: "check, every test, loom, miri, the stress tests and fuzz targets in short form",
        run: steps::test,
    },
    Chore {
        name: "torture",
        arguments: "[--short] [name[=count]...]",
        summary: "the long stress tests, or those named; --short is what `test` runs",
        run: stress_tests::run,
    },
    Chore {
        name: "fuzz",
        arguments: "[--short] [target...]",
        summary: "the fuzz targets, or those named; --short is what `test` runs",
        run: fuzz::run,
    },
    Chore {
        name: "python",
        arguments: "",
        summary: "build the wheel of the Python package, install it, and run its tests",
        run: python::run_alone,
    },
    Chore {
        name: "dictionary",
        arguments: "",
        summary: "write the words of the command table for the fuzz targets; `fuzz` does it itself",
        run: dictionary::run,
    },
    Chore {
        name: "bench",
        arguments: "[argument...]",
        summary: "build for release and compare with redis-server, or run `forebay bench` as asked",
        run: steps::bench,
    },
    Chore {
        name: "docs",
        arguments: "[--check]",
        summary: "write the generated pages in docs/reference; --check fails when one is stale",
        run: docs::run,
    },
    Chore {
        name: "ci",
        arguments: "",
        summary: "test, but a step that cannot run on this machine is a failure",
        run: steps::ci,
    },
];

/// Returns the text that explains the command line.
pub fn usage() -> String {
    let mut text = "usage: cargo xtask <chore>\n".to_owned();
    for chore in CHORES {
        let call = format!("{} {}", chore.name, chore.arguments);
        text.push_str(&format!("\n  {call:<28} {}", chore.summary));
    }
    text
}
