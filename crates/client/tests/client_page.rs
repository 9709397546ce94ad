//! The programs that docs/client.md shows are the examples, which the build compiles.

#[test]
fn programs_of_the_page_are_the_examples() {
    let page = include_str!("../../../docs/client.md");
    for example in [
        include_str!("../examples/client.rs"),
        include_str!("../examples/pipeline.rs"),
        include_str!("../examples/handover.rs"),
        include_str!("../examples/async.rs"),
        include_str!("../examples/read.rs"),
    ] {
        let (_, program) = example.split_once("\n\n").expect("a header and a program");
        assert!(page.contains(&format!("```rust\n{program}```\n")), "copy the examples there");
    }
}
