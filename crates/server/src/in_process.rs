//! A server on threads of a program that is not one: no signals, no log of its own, no crash
//! report, no change of folder, and no file of the dataset that is read, but of a log where one is
//! kept: the program keeps what is the process's.

use std::sync::Arc;

use command::ShutdownRequest;
use sys::fork::Generation;
use sys::process::descriptor_limit;

use crate::accept::Acceptor;
use crate::config::{Config, ConfigError, IGNORED, find, read_options, rows};
use crate::listen;
use crate::log::LogControl;
use crate::serve::{Threads, limit_clients, start_threads};
use crate::server_state::{Origin, ServerState};

/// A running server. It ends when it is stopped or dropped; dropped in a forked child, where it
/// does not run, nothing ends.
pub struct InProcessServer {
    shared: Arc<ServerState>,
    /// None once they have ended.
    threads: Option<Threads>,
    generation: Generation,
}

impl InProcessServer {
    /// Starts a server with `options`, as they stand on the command line of `forebay serve`, and
    /// returns once it listens.
    ///
    /// # Errors
    /// A sentence that says which option is wrong, or what is short.
    pub fn start(options: &[String]) -> Result<InProcessServer, String> {
        let mut config = Config::default();
        config.load(read_options(options, 1)).map_err(|error| error.to_string())?;
        // The other half is the program's, and so is the limit itself.
        limit_clients(&mut config, descriptor_limit() / 2)?;
        let shared = ServerState::new(config, Origin::default(), LogControl::detached())?;
        let shared = Arc::new(shared);
        shared.load(false).map_err(Option::unwrap_or_default)?;
        let listeners = listen::open(&shared.settings(), &shared.closer)?;
        shared.listeners.take(&listeners);
        let acceptor =
            Acceptor::new(listeners).map_err(|error| format!("no descriptor: {error}"))?;
        let threads = start_threads(&shared, acceptor)?;
        Ok(InProcessServer { shared, threads: Some(threads), generation: Generation::current() })
    }

    /// Ends the server, and returns once its threads have ended.
    ///
    /// # Errors
    /// When one of them has failed.
    pub fn stop(mut self) -> Result<(), String> {
        self.end()
    }

    fn end(&mut self) -> Result<(), String> {
        if !self.generation.is_current() {
            // The threads are the parent's.
            std::mem::forget(self.threads.take());
            return Ok(());
        }
        // SHUTDOWN may have begun it already; either is fine.
        let _ = self.shared.begin_shutdown(ShutdownRequest::default());
        // Who reads the memory itself turns to the socket, and learns there that it is gone.
        self.shared.keyspace().arena().allow_readers(false);
        self.threads.take().map_or(Ok(()), |threads| threads.join(&self.shared))
    }
}

impl Drop for InProcessServer {
    fn drop(&mut self) {
        // What has failed has nobody here to be told to; `stop` tells.
        let _ = self.end();
    }
}

/// An option's name and its value, both as CONFIG GET shows them: no value of one that is taken and
/// ignored.
pub type ShownOption = (&'static str, Option<String>);

/// Returns the option `name` with `value`; `None` where there is no such option.
///
/// # Errors
/// Why the option does not take the value.
pub fn option_as_shown(name: &str, value: &str) -> Result<Option<ShownOption>, String> {
    let ignored = IGNORED.iter().find(|ignored| ignored.eq_ignore_ascii_case(name));
    if let Some(ignored) = ignored {
        return Ok(Some((ignored, None)));
    }
    let Some(row) = find(name) else { return Ok(None) };
    let mut config = Config::default();
    let words = [format!("--{name}"), value.to_owned()];
    config.load(read_options(&words, 1)).map_err(|error| match error {
        ConfigError::Directive { message, .. } => message,
        ConfigError::File(text) => text,
    })?;
    Ok(Some((row.name, Some(config.text(row).to_owned()))))
}

/// Returns the names of all options.
pub fn option_names() -> impl Iterator<Item = &'static str> {
    rows().map(|row| row.name)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn server_answers_until_it_is_stopped() {
        let folder = std::env::temp_dir().join(format!("forebay-within-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("s");
        let options = format!("--port 0 --segment-size 1mb --unixsocket {}", socket.display());
        let options: Vec<String> = options.split(' ').map(str::to_owned).collect();
        let server = InProcessServer::start(&options).unwrap();
        let mut client = UnixStream::connect(&socket).unwrap();
        client.write_all(b"PING\r\n").unwrap();
        let mut answer = [0; 7];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
        server.stop().unwrap();
        assert_eq!(client.read(&mut answer).unwrap(), 0);
        assert!(UnixStream::connect(&socket).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn option_is_shown_as_config_get_shows_it() {
        let shown = |name, value| option_as_shown(name, value);
        let some = |name, value: &str| Ok(Some((name, Some(value.to_owned()))));
        assert_eq!(shown("maxmemory", "5mb"), some("maxmemory", "5242880"));
        assert_eq!(shown("SAVE", "60 1 30 2"), some("save", "60 1 30 2"));
        assert_eq!(shown("save", ""), some("save", ""));
        assert_eq!(shown("maxmemry", "5mb"), Ok(None));
        let ignored = "lua-replicate-commands";
        assert_eq!(shown("LUA-replicate-commands", "yes"), Ok(Some((ignored, None))));
        assert_eq!(shown("maxmemory", "much").unwrap_err(), "argument must be a memory value");
    }

    #[test]
    fn wrong_option_is_told() {
        let error = InProcessServer::start(&["--maxmemory".into(), "much".into()]).err();
        assert!(error.is_some_and(|text| text.contains("maxmemory")));
    }
}
