//! The programs that docs/start.md shows are the examples, which the build compiles.

#[test]
fn programs_of_the_start_page_are_the_examples() {
    let page = include_str!("../../../docs/start.md");
    for example in [include_str!("../examples/client.rs"), include_str!("../examples/read.rs")] {
        let (_, program) = example.split_once("\n\n").expect("a header and a program");
        assert!(page.contains(&format!("```rust\n{program}```\n")), "copy the examples there");
    }
}
