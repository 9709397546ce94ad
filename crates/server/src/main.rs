//! The program `forebay`: the server, and the door to the tools beside it.
#![forbid(unsafe_code)]

use std::env;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

const USAGE: &str = "\
forebay: a Redis-compatible data store in shared memory

Usage:
  forebay serve [redis.conf | -] [--option value ...]   run a server; - reads standard input
  forebay bench ...                                     measure any server (forebay bench --help)
  forebay demo                                          load, read back and measure real data
  forebay options                                       list the options of the server
  forebay --version | --help
";

const SERVE_USAGE: &str = "\
forebay serve: run a server

Usage:
  forebay serve [redis.conf | -] [--option value ...]

  redis.conf   a configuration file in Redis's form; - reads it from standard input
  --option     any option, by Redis's name, as in --port 7000 --maxmemory 1gb; what stands on the
               command line wins over the file
  --help       print this

'forebay options' lists the options, their defaults and what they do.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    let (program, arguments) = match arguments.split_first() {
        Some((program, rest)) => (program.as_str(), rest),
        None => ("forebay", &[][..]),
    };
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if matches!(name, "redis-server" | "valkey-server") {
        return run_as_redis(arguments);
    }
    let Some((command, rest)) = arguments.split_first() else {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    };
    match command.as_str() {
        "serve" => run_serve(rest),
        "bench" => run_bench(program, rest),
        "demo" => run_bench(program, arguments),
        "options" => print_options(),
        "--version" | "-v" | "version" => print_version(),
        "--help" | "-h" | "help" => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("forebay: there is no command '{other}'\n\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn run_serve(arguments: &[String]) -> ExitCode {
    match arguments.first().map(String::as_str) {
        Some("--help" | "-h") => {
            print!("{SERVE_USAGE}");
            ExitCode::SUCCESS
        }
        _ => server::serve::run(arguments),
    }
}

/// Takes the command line of a redis-server, so that tools which start one can start this.
fn run_as_redis(arguments: &[String]) -> ExitCode {
    match arguments.first().map(String::as_str) {
        Some("--version" | "-v") => {
            let version = command::REDIS_VERSION;
            println!("Redis server v={version} sha=00000000:0 malloc=forebay bits=64 build=0");
            ExitCode::SUCCESS
        }
        _ => run_serve(arguments),
    }
}

/// Becomes the program `forebay-bench` beside this one.
fn run_bench(program: &str, arguments: &[String]) -> ExitCode {
    let own = env::current_exe().unwrap_or_else(|_| program.into());
    let bench = own.with_file_name("forebay-bench");
    let error = Command::new(&bench).args(arguments).exec();
    eprintln!("forebay: cannot run {}: {error}", bench.display());
    ExitCode::FAILURE
}

fn print_version() -> ExitCode {
    let redis = command::REDIS_VERSION;
    println!("forebay {} (compatible with Redis {redis})", env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}

fn print_options() -> ExitCode {
    print!("{}", server::config::describe());
    ExitCode::SUCCESS
}
