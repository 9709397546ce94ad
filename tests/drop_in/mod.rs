//! Forebay as a replacement for redis-server: its name, command line, process and files.

mod command_line;
mod crash;
mod daemon;
mod rewrite;
mod signals;
mod supervision;

use std::fs;
use std::path::PathBuf;

use harness::{Program, TempFolder, command, forebay, poll};

/// A folder in which `forebay` goes by another name.
struct Place {
    folder: TempFolder,
    program: PathBuf,
}

impl Place {
    /// Links the program under test as `name`.
    fn new(name: &str) -> Place {
        let folder = TempFolder::new();
        let program = folder.join(name);
        std::os::unix::fs::symlink(forebay(), &program).expect("a new folder takes a link");
        Place { folder, program }
    }

    /// Returns the path of `name` in the folder.
    fn join(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file into the folder and returns its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.join(name);
        fs::write(&path, text).expect("a new folder takes a file");
        path.display().to_string()
    }

    /// Returns what the file `name` holds, or nothing.
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.join(name)).unwrap_or_default()
    }

    /// Returns a command for the program with `arguments`, to be run in the folder.
    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = command(&self.program);
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Starts the program with `arguments`, its output and errors going to the file `out`.
    fn start(&self, arguments: &[&str]) -> Program {
        let mut command = self.command(arguments);
        let out = fs::File::create(self.join("out")).expect("a new folder takes a file");
        command.stdin(std::process::Stdio::null());
        command.stdout(out.try_clone().expect("a file can be shared")).stderr(out);
        Program::start(command).expect("the program starts")
    }

    /// Waits until the file `name` holds `part`, and returns all that it holds.
    fn wait_for(&self, name: &str, part: &str) -> String {
        poll(&format!("'{part}' in {name}"), || {
            let text = self.read(name);
            text.contains(part).then_some(text)
        })
    }
}
