//! The commands of places on earth, which sorted sets keep as scores: each place's cell in a grid.
//!
//! *Layout*: a file for each command, or for two that differ in what they may store. `cell.rs` is
//! the grid, `area.rs` which of its cells a search goes through, `shape.rs` what is within a
//! circle, a box or a polygon (`polygon.rs`), `distance.rs` how far places are from each other.
//! `search.rs` is what all searches do, `order.rs` the order of what they find.

mod area;
mod cell;
mod distance;
mod geoadd;
mod geodist;
mod geohash;
mod geopos;
mod georadius;
mod georadiusbymember;
mod geosearch;
mod geosearchstore;
mod order;
mod polygon;
mod search;
mod shape;

use crate::table::row::Command;

pub(crate) static GEO: &[&Command] = &[
    &geoadd::GEOADD,
    &geodist::GEODIST,
    &geohash::GEOHASH,
    &geopos::GEOPOS,
    &georadius::GEORADIUS,
    &georadius::GEORADIUS_RO,
    &georadiusbymember::GEORADIUSBYMEMBER,
    &georadiusbymember::GEORADIUSBYMEMBER_RO,
    &geosearch::GEOSEARCH,
    &geosearchstore::GEOSEARCHSTORE,
];
