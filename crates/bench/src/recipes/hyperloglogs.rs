//! The rows of commands on HyperLogLogs: on many sparse ones of few elements, and on dense ones.

use super::{NUMBER, OK, Recipe, one};

/// Commands on one key.
pub static HYPERLOGLOGS: &[Recipe] = &[
    one("PFADD", &[("PFADD hll:* elt:*", NUMBER)]),
    one("PFADD, one dense", &[("PFADD uni:1 elt:*", NUMBER)]),
    one("PFADD, one sparse", &[("PFADD few:3 VALUE", NUMBER)]),
    one("PFCOUNT", &[("PFCOUNT hll:*", NUMBER)]),
];

/// PFCOUNT of several dense keys.
pub static UNION_COUNTS: &[Recipe] =
    &[one("PFCOUNT of 3 dense", &[("PFCOUNT uni:1 uni:2 uni:3", NUMBER)])];

/// PFMERGE of dense keys.
pub static UNIONS: &[Recipe] =
    &[one("PFMERGE of 3 dense", &[("PFMERGE target uni:1 uni:2 uni:3", OK)])];
