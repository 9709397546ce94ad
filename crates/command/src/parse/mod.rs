//! Arguments that commands of several families read alike.

pub(crate) mod database_number;
pub(crate) mod scan_options;
pub(crate) mod time_to_live;
pub(crate) mod timeout;
