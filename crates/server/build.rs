//! Has the linker place code and constants of the program `forebay` in the order of
//! `code_order.ld`.

use std::env;

fn main() {
    let order = concat!(env!("CARGO_MANIFEST_DIR"), "/code_order.ld");
    println!("cargo:rerun-if-changed={order}");
    // A program that is not optimised differs in all else too. A linker that somebody has chosen,
    // as mold, may take no script.
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if is_release && !flags.contains("fuse-ld") {
        println!("cargo:rustc-link-arg-bin=forebay=-T{order}");
    }
}
