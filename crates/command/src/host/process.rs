//! The part of a host that controls the process: its end, its log, its configuration file.

/// The process, where it is the server's own. No method locks a shard. Where a method is not
/// written, there is no configuration file, no log, no output and no service.
pub trait Process {
    /// Writes the options back to the configuration file.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    fn config_rewrite(&self) -> Result<(), RewriteError> {
        Err(RewriteError::NoFile)
    }

    /// As [`Process::config_rewrite`], but writes all options, those that are as by default too.
    ///
    /// # Errors
    /// As of [`Process::config_rewrite`].
    fn config_rewrite_all(&self) -> Result<(), RewriteError> {
        Err(RewriteError::NoFile)
    }

    /// Stops what the server does by itself, or lets it go on.
    fn pause_service(&self, is_paused: bool) {
        let _ = is_paused;
    }

    /// Writes `text` to the log.
    fn log(&self, text: &[u8]) {
        let _ = text;
    }

    /// Prints `text` to standard output.
    fn print(&self, text: &str) {
        let _ = text;
    }

    /// Ends the process by a fault of its own. For tests of what it tells of that. Where it is not
    /// written, a panic has to do.
    fn crash(&self, crash: Crash) -> ! {
        panic!("{crash:?} on request")
    }

    /// Begins to shut down; the process ends soon after.
    ///
    /// # Errors
    /// When the server goes on. Its log says why.
    fn shutdown(&self, request: ShutdownRequest) -> Result<(), ShutdownError>;

    /// Stops a shutdown that has begun and waits; returns false where there is none.
    fn abort_shutdown(&self) -> bool {
        false
    }
}

/// A way to end that a program does not choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// By memory that it may not access.
    Fault,
    /// By something that it found wrong and cannot go on with.
    Failure,
}

/// How SHUTDOWN was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownRequest {
    /// SAVE or NOSAVE; where neither, the configuration decides.
    pub save: Option<bool>,
    /// FORCE: ends even where something cannot be saved.
    pub force: bool,
}

/// Why a server goes on after SHUTDOWN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownError {
    /// What was to be saved first cannot be.
    Unsaved,
    /// It is ending already.
    Begun,
}

/// Why CONFIG REWRITE changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewriteError {
    /// The server was started without a file.
    NoFile,
    /// The file cannot be read or written: the system's words.
    System(String),
}
