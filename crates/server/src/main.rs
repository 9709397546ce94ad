//! The program `forebay`: the server, and the door to the tools beside it. Called by the name of
//! Redis's or Valkey's server, it takes their command line.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use keyspace::EvictionPolicy;
use server::config::options::{Memory, Network};
use server::config::{self, CommandLine, Config, check, describe};
use server::durability::restore;
use server::import;
use server::memcached_command_line::{self, Wish};
use server::serve::{self, Launch};

#[global_allocator]
static ALLOCATOR: sys::large_blocks::Mapped = sys::large_blocks::Mapped;

const USAGE: &str = "\
forebay: a Redis-compatible data store in shared memory

Usage:
  forebay serve [redis.conf] [--option value ...] [-]   run a server; - reads standard input
  forebay cache --memory BYTES [--option value ...]     run a bounded cache that adapts
  forebay import PATH [--to ADDRESS] [--replace]        send files of Redis to a server
  forebay config check [redis.conf] [--option ...] [-]  tell all that is wrong with a configuration
  forebay check DIR [--cut]                             tell what an append-only directory has
  forebay restore DIR [--to-time T] --into DIR2         make the data of an earlier moment
  forebay bench ...                                     measure any server (forebay bench --help)
  forebay bench objects ...                             measure how Python hands objects on (--help)
  forebay memcached ...                                 serve in the place of memcached
  forebay demo                                          load, read back and measure real data
  forebay options [--table]                             list the options of the server
  forebay --help [OPTION]                               print this, or what an option is
  forebay --version

Called redis-server or valkey-server, by a link, it takes the command line of that program.
";

const SERVE_USAGE: &str = "\
forebay serve: run a server

Usage:
  forebay serve [redis.conf] [--option value ...] [-]

  redis.conf       a configuration file in Redis's form
  -                first or last: reads more of it from standard input
  --option         any option, by Redis's name, as in --port 7000 --maxmemory 1gb; what stands on
                   the command line wins over the file
  --help [OPTION]  print this, or what an option is

'forebay options' lists the options, their defaults and what they do.
";

const CACHE_USAGE: &str = "\
forebay cache: run a cache that keeps what is used most for the memory that it takes

Usage:
  forebay cache --memory BYTES [redis.conf] [--option value ...] [-]

  --memory BYTES   the most memory that data and buffers take, as in 2gb: maxmemory

The rest is what 'forebay serve' takes, with maxmemory-policy adaptive where nothing else is said.
";

const DROP_IN_USAGE: &str = "\
Usage: redis-server [/path/to/redis.conf] [--option value ...] [-]
       redis-server - (read the configuration from standard input)
       redis-server -v or --version
       redis-server -h or --help [OPTION]

This is Forebay under the name of Redis's server. Examples:
       redis-server
       echo 'maxmemory 128mb' | redis-server -
       redis-server /etc/redis/6379.conf --port 7777 --loglevel verbose
";

const CHECK_USAGE: &str = "\
forebay config check: tell all that is wrong with a configuration

Usage:
  forebay config check [redis.conf] [--option value ...] [-]

It takes what 'forebay serve' takes, starts nothing, and prints each fault and each option without
effect with its place. It ends with 1 if there is a fault.
";

fn main() -> ExitCode {
    #[cfg(feature = "protocol-mutations")]
    break_rule();
    sys::signal::ignore_file_size_limit();
    let arguments = match env::args_os().map(OsString::into_string).collect() {
        Ok(arguments) => arguments,
        Err(argument) => {
            eprintln!("forebay: an argument is not UTF-8: {}", argument.display());
            return ExitCode::FAILURE;
        }
    };
    let arguments: Vec<String> = arguments;
    let (program, arguments) = match arguments.split_first() {
        Some((program, rest)) => (program.as_str(), rest),
        None => ("forebay", &[][..]),
    };
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name {
        "redis-server" | "valkey-server" => run_drop_in(program, name, arguments),
        "redis-sentinel" | "valkey-sentinel" => refuse(name, NO_SENTINEL),
        _ => run_forebay(program, arguments),
    }
}

/// Breaks the rule of the protocol of shared memory that the environment names by its number.
#[cfg(feature = "protocol-mutations")]
fn break_rule() {
    use arena::protocol_rules::{Rule, break_rule};
    let number = env::var("FOREBAY_BROKEN_RULE").ok();
    let rule = number
        .and_then(|number| Rule::ALL.into_iter().find(|rule| (*rule as u8).to_string() == number));
    if let Some(rule) = rule {
        break_rule(rule);
    }
}

fn run_forebay(program: &str, arguments: &[String]) -> ExitCode {
    let Some((command, rest)) = arguments.split_first() else {
        return print(USAGE);
    };
    match command.as_str() {
        "serve" if is_help(rest) => print_help(SERVE_USAGE, &rest[1..]),
        "serve" => serve::run(Launch {
            program: program.to_owned(),
            arguments: arguments.to_vec(),
            options: rest.to_vec(),
            defaults: Config::default(),
        }),
        "cache" => run_cache(program, arguments, rest),
        "config" => run_config(rest),
        "check" => check_log(rest),
        "restore" if is_help(rest) => print(restore::USAGE),
        "restore" => match restore::Wish::parse(rest) {
            Ok(wish) => tell("restore", restore::run(&wish)),
            Err(reason) => refuse_command("forebay restore", &reason, restore::USAGE),
        },
        "import" if is_help(rest) => print(import::USAGE),
        "import" => match import::Wish::parse(rest) {
            Ok(wish) => run_import(&wish),
            Err(reason) => refuse_command("forebay import", &reason, import::USAGE),
        },
        "bench" => run_bench(program, rest),
        "memcached" => run_memcached(program, arguments),
        "demo" => run_bench(program, arguments),
        "options" if rest.first().is_some_and(|word| word == "--table") => {
            print(&describe::table())
        }
        "options" => print(&describe::list()),
        "--version" | "-v" | "version" => {
            let (own, redis) = (env!("CARGO_PKG_VERSION"), command::REDIS_VERSION);
            print(&format!("forebay {own} (compatible with Redis {redis})\n"))
        }
        "--help" | "-h" | "help" => print_help(USAGE, rest),
        other => refuse_command("forebay", &format!("there is no command '{other}'"), USAGE),
    }
}

/// Tells what is wrong with the command line of `name`, and prints its usage.
fn refuse_command(name: &str, reason: &str, usage: &str) -> ExitCode {
    eprint!("{name}: {reason}\n\n{usage}");
    ExitCode::FAILURE
}

/// Runs a server with the options of a bounded cache.
fn run_cache(program: &str, arguments: &[String], options: &[String]) -> ExitCode {
    let (memory, rest) = match options {
        [option, bytes, rest @ ..] if option == "--memory" => (bytes, rest),
        _ if is_help(options) => return print(CACHE_USAGE),
        _ => {
            let reason = "--memory comes first, with a number of bytes";
            return refuse_command("forebay cache", reason, CACHE_USAGE);
        }
    };
    let mut defaults = Config::default();
    defaults.assume(Memory::policy(), EvictionPolicy::ADAPTIVE.name());
    // A file stands first, and what follows wins over it.
    let has_file = rest.first().is_some_and(|first| first == "-" || !first.starts_with('-'));
    let (file, rest) = rest.split_at(usize::from(has_file));
    let limit = ["--maxmemory".to_owned(), memory.clone()];
    serve::run(Launch {
        program: program.to_owned(),
        arguments: arguments.to_vec(),
        options: [file, &limit, rest].concat(),
        defaults,
    })
}

/// Takes the command line of a memcached.
fn run_memcached(program: &str, arguments: &[String]) -> ExitCode {
    match memcached_command_line::read(&arguments[1..]) {
        Ok(Wish::Help) => print(memcached_command_line::USAGE),
        Ok(Wish::Version) => print("memcached 1.6.18\n"),
        Ok(Wish::Serve(options)) => serve::run(Launch {
            program: program.to_owned(),
            arguments: arguments.to_vec(),
            options,
            defaults: Config::default(),
        }),
        Err(reason) => refuse("forebay memcached", &reason),
    }
}

const NO_SENTINEL: &str = "Forebay does not run as a sentinel";

/// Takes the command line of a redis-server, so that tools which start one can start this.
fn run_drop_in(program: &str, name: &str, arguments: &[String]) -> ExitCode {
    let mut defaults = Config::default();
    // Redis listens everywhere unless it is told otherwise, and protected mode guards it.
    defaults.assume(Network::bind(), "* -::*");
    match arguments.first().map(String::as_str) {
        Some("--version" | "-v") => return print_redis_version(name, &arguments[1..]),
        Some("--help" | "-h") => return print_help(DROP_IN_USAGE, &arguments[1..]),
        Some("--test-memory") => return refuse(name, "Forebay does not test memory"),
        Some("--check-system") => return refuse(name, "Forebay does not check the system"),
        _ => {}
    }
    if arguments.iter().any(|argument| argument == "--sentinel") {
        return refuse(name, NO_SENTINEL);
    }
    serve::run(Launch {
        program: program.to_owned(),
        arguments: arguments.to_vec(),
        options: arguments.to_vec(),
        defaults,
    })
}

fn refuse(name: &str, reason: &str) -> ExitCode {
    eprintln!("{name}: {reason}.");
    ExitCode::FAILURE
}

/// Prints the version in Redis's form, by which tools choose; options may name another one.
fn print_redis_version(name: &str, options: &[String]) -> ExitCode {
    let mut config = Config::default();
    if let Err(error) = config.load(config::read_options(options, 2)) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let title = if name == "valkey-server" { "Valkey" } else { "Redis" };
    let (version, bits) = (config.settings().process.compatible_version, usize::BITS);
    print(&format!(
        "{title} server v={version} sha=00000000:0 malloc=forebay bits={bits} build=0\n"
    ))
}

fn is_help(arguments: &[String]) -> bool {
    arguments.first().is_some_and(|word| word == "--help" || word == "-h")
}

/// Prints `usage`, or what the option that `names` begins with is.
fn print_help(usage: &str, names: &[String]) -> ExitCode {
    let Some(name) = names.first() else { return print(usage) };
    match describe::option(name) {
        Some(text) => print(&text),
        None => {
            eprintln!("forebay: there is no option '{name}'");
            ExitCode::FAILURE
        }
    }
}

fn run_import(wish: &import::Wish) -> ExitCode {
    let password = env::var("REDISCLI_AUTH").ok();
    tell("import", import::run(wish, password.as_deref()))
}

/// Prints what `command` says at its end, or why it has failed.
fn tell(command: &str, result: Result<String, String>) -> ExitCode {
    match result {
        Ok(said) => print(&said),
        Err(error) => {
            eprintln!("forebay {command}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_config(arguments: &[String]) -> ExitCode {
    let refuse = |reason: &str| refuse_command("forebay config", reason, CHECK_USAGE);
    match arguments.split_first() {
        Some((command, rest)) if command == "check" && is_help(rest) => print(CHECK_USAGE),
        Some((command, rest)) if command == "check" => check_config(rest),
        Some(_) if is_help(arguments) => print(CHECK_USAGE),
        Some((other, _)) => refuse(&format!("there is no command '{other}'")),
        None => refuse("which command?"),
    }
}

fn check_config(arguments: &[String]) -> ExitCode {
    let line = CommandLine::parse(arguments);
    let findings = check::check(&line, || {
        let mut text = Vec::new();
        io::stdin().read_to_end(&mut text)?;
        Ok(text)
    });
    let name = line.file.map_or_else(|| "-".to_owned(), |file| file.display().to_string());
    print!("{}", findings.describe(&name));
    if findings.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const LOG_USAGE: &str = "\
forebay check: tell what an append-only directory has, and what is wrong with it

Usage:
  forebay check DIR [--cut]

It reads the whole log in DIR, lists its segments, and says where it ends or is damaged. With --cut
the log ends there from now on: what is behind is lost. Damage of history, which a start does not
read, is told and not cut. It ends with 1 if anything is damaged or missing.
";

fn check_log(arguments: &[String]) -> ExitCode {
    let refuse = |reason: &str| refuse_command("forebay check", reason, LOG_USAGE);
    let (folder, cuts) = match arguments {
        [word, ..] if word.starts_with('-') => return print(LOG_USAGE),
        [folder] => (folder, false),
        [folder, cut] if cut == "--cut" => (folder, true),
        [] => return refuse("which append-only directory?"),
        [_, other] => return refuse(&format!("'{other}' is not --cut")),
        [_, _, other, ..] => return refuse(&format!("'{other}' is one too many")),
    };
    match server::durability::inspection::inspect(Path::new(folder), cuts) {
        Ok(inspection) => {
            print!("{}", inspection.text);
            if inspection.is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(reason) => {
            eprintln!("forebay: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Becomes the program `forebay-bench` beside this one; for the table `objects`, which is of the
/// Python package, the interpreter beside this program, or else the one on the PATH.
fn run_bench(program: &str, arguments: &[String]) -> ExitCode {
    let own = env::current_exe().unwrap_or_else(|_| program.into());
    let (mut command, hint) = match arguments.split_first() {
        Some((table, options)) if table == "objects" => {
            let python = own.with_file_name("python");
            let mut command = Command::new(if python.exists() { python } else { "python3".into() });
            command.args(["-m", "forebay.bench.objects"]).args(options);
            (command, "")
        }
        _ => {
            let mut command = Command::new(own.with_file_name("forebay-bench"));
            command.args(arguments);
            (command, "; `cargo build --release` in Forebay's repository makes it, not pip")
        }
    };
    let error = command.exec();
    eprintln!("forebay: cannot run {}: {error}{hint}", command.get_program().display());
    ExitCode::FAILURE
}

fn print(text: &str) -> ExitCode {
    print!("{text}");
    ExitCode::SUCCESS
}
