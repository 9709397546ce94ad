//! A host that does nothing, correctly.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use command::{
    Answer, BackupRefusal, BackupReport, ClientInfo, Clients, CommandError, ConfigError, Feed,
    FeedQuestion, Host, InfoKind, InfoSections, Observer, Persistence, Process, RewriteStart,
    SaveRefusal, SessionState, SharedMemory, ShutdownError, ShutdownRequest, Unavailable,
};
use keyspace::SessionWakeup;
use resp::Protocol;

#[derive(Default)]
pub struct TestHost {
    pub password: Option<&'static [u8]>,
    pub slept: Cell<Duration>,
    pub shutdown: Cell<Option<ShutdownRequest>>,
    pub resets: Cell<u32>,
    maxmemory: RefCell<BTreeMap<&'static str, String>>,
}

impl TestHost {
    fn value(&self, name: &'static str) -> String {
        self.maxmemory.borrow().get(name).cloned().unwrap_or_else(|| "0".to_owned())
    }
}

const OPTIONS: [&str; 2] = ["maxmemory", "port"];

impl Observer for TestHost {}

impl Host for TestHost {
    fn database_count(&self) -> usize {
        16
    }

    fn requires_password(&self) -> bool {
        self.password.is_some()
    }

    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        user == b"default" && self.password.is_none_or(|expected| expected == password)
    }

    fn allows_debug(&self, _: &SessionState) -> bool {
        true
    }

    fn config_values(&self, wanted: &dyn Fn(&str, bool) -> bool) -> Vec<(String, String)> {
        let named = OPTIONS.into_iter().filter(|name| wanted(name, false));
        named.map(|name| (name.to_owned(), self.value(name))).collect()
    }

    fn config_set(&self, _: &SessionState, pairs: &[(&[u8], &[u8])]) -> Result<(), ConfigError> {
        for (name, value) in pairs {
            let known = OPTIONS.into_iter().find(|known| known.as_bytes() == *name);
            let known = known.ok_or(ConfigError::Unknown { name: name.to_vec() })?;
            let text = String::from_utf8_lossy(value).replace("1gb", "1073741824");
            if text.parse::<u64>().is_err() {
                let reason = "argument must be a memory value".to_owned();
                return Err(ConfigError::Refused { name: known.to_owned(), reason });
            }
            self.maxmemory.borrow_mut().insert(known, text);
        }
        Ok(())
    }

    fn reset_statistics(&self) {
        self.resets.set(self.resets.get() + 1);
    }

    fn info(&self, sections: &InfoSections) -> String {
        let include = sections.include("server", InfoKind::Default);
        if include { "# Server\r\n".to_owned() } else { String::new() }
    }

    fn sleep(&self, duration: Duration) {
        self.slept.set(duration);
    }

    fn notify_served(&self, _: SessionWakeup) {}

    fn clients(&self) -> Result<&dyn Clients, Unavailable> {
        Ok(self)
    }

    fn process(&self) -> Result<&dyn Process, Unavailable> {
        Ok(self)
    }

    fn persistence(&self) -> Result<&dyn Persistence, Unavailable> {
        Ok(self)
    }

    fn feed(&self) -> Result<&dyn Feed, Unavailable> {
        Ok(self)
    }

    fn shared_memory(&self) -> Result<&dyn SharedMemory, Unavailable> {
        Ok(self)
    }
}

impl SharedMemory for TestHost {}

/// Repeats what it was asked.
impl Feed for TestHost {
    fn ask(
        &self,
        _: u64,
        _: Protocol,
        question: FeedQuestion,
    ) -> Result<Box<dyn Answer>, CommandError> {
        let text = format!("ERR asked {question:?}");
        Err(CommandError::Text(text.into_bytes().into_boxed_slice()))
    }
}

impl Clients for TestHost {
    fn all(&self) -> Vec<ClientInfo> {
        [7, 8].into_iter().filter_map(|id| self.one(id)).collect()
    }

    fn one(&self, id: u64) -> Option<ClientInfo> {
        let info = ClientInfo { id, address: "1.2.3.4:5".into(), idle_s: 9, ..Default::default() };
        [7, 8].contains(&id).then_some(info)
    }
}

impl Persistence for TestHost {
    fn save(&self) -> Result<(), SaveRefusal> {
        Ok(())
    }

    fn save_later(&self) -> Result<(), SaveRefusal> {
        Ok(())
    }

    fn rewrite_log(&self) -> Result<RewriteStart, SaveRefusal> {
        Ok(RewriteStart::Started)
    }

    fn back_up(&self, _: &SessionState, directory: &[u8]) -> Result<(), BackupRefusal> {
        match directory {
            b"used" => Err(BackupRefusal::Folder("'used' is not empty".to_owned())),
            _ => Ok(()),
        }
    }

    fn backup_report(&self) -> BackupReport {
        BackupReport::default()
    }

    fn reload(&self, _: bool) -> Result<(), SaveRefusal> {
        Ok(())
    }
}

impl Process for TestHost {
    fn shutdown(&self, request: ShutdownRequest) -> Result<(), ShutdownError> {
        self.shutdown.set(Some(request));
        Ok(())
    }

    fn abort_shutdown(&self) -> bool {
        self.shutdown.take().is_some()
    }
}
