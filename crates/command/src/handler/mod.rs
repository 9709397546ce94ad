//! What a handler works with: its request and its context, the session, and how it ends.

pub(crate) mod chance;
pub(crate) mod client_name;
pub(crate) mod context;
pub(crate) mod element;
pub(crate) mod error;
pub(crate) mod outcome;
pub(crate) mod request;
pub(crate) mod scan;
pub(crate) mod session;
