//! Forebay beside redis-server 7.0.15: the same requests, the same replies.

mod render;
mod script;
mod scripts_hold;
