//! The program that docs/start.md shows is the example, which the build compiles.

#[test]
fn program_of_the_start_page_is_the_example() {
    let example = include_str!("../examples/read.rs");
    let (_, program) = example.split_once("\n\n").expect("a header and a program");
    let page = include_str!("../../../docs/start.md");
    assert!(page.contains(&format!("```rust\n{program}```\n")), "copy examples/read.rs there");
}
