//! The command line of memcached, as options of this server.
//!
//! What it may not promise is refused: TLS, SASL, UDP, the binary protocol, files of extstore. What
//! only concerns how memcached keeps its items (slabs, its hash table, its LRUs) is accepted, as
//! there is nothing here that it would change.

/// What `forebay memcached --help` prints.
pub const USAGE: &str = "\
forebay memcached: run a server in the place of memcached 1.6

Usage:
  forebay memcached [memcached's arguments]

  -p, --port=N              TCP port (11211); 0 for none
  -s, --unix-socket=PATH    unix socket instead of TCP
  -a, --unix-mask=MODE      mode of the unix socket, octal (700)
  -l, --listen=ADDRESSES    addresses, with commas between (all; then protected mode is on)
  -m, --memory-limit=MB     memory (64)
  -M, --disable-evictions   refuse writes instead of evicting
  -c, --conn-limit=N        connections at once (1024)
  -t, --threads=N           workers (4)
  -b, --listen-backlog=N    connections that may wait to be accepted (511)
  -I, --max-item-size=SIZE  largest item (1m)
  -Y, --auth-file=FILE      user:password lines; clients authenticate by a set
  -d, --daemon              serve in the background
  -P, --pidfile=FILE        file of the process id
  -v, --verbose             more in the log; -vv for all
  -U, --udp-port=0          there is no UDP
  -B, --protocol=PROTOCOL   ascii or auto; the binary protocol is refused
  -V, --version  -h, --help

Accepted without effect: -k -r -R -L -n -f -u -o and their long forms. All other options of this
server follow --: forebay memcached -m 1024 -- --appendonly yes
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    /// To serve with these options, as they stand behind `forebay serve`.
    Serve(Vec<String>),
    /// The usage.
    Help,
    /// The version.
    Version,
}

/// The options of memcached that take a value: letter, long form.
const VALUED: &[(char, &str)] = &[
    ('p', "port"),
    ('U', "udp-port"),
    ('s', "unix-socket"),
    ('a', "unix-mask"),
    ('l', "listen"),
    ('u', "user"),
    ('m', "memory-limit"),
    ('c', "conn-limit"),
    ('P', "pidfile"),
    ('f', "slab-growth-factor"),
    ('n', "slab-min-size"),
    ('t', "threads"),
    ('R', "max-reqs-per-event"),
    ('b', "listen-backlog"),
    ('B', "protocol"),
    ('I', "max-item-size"),
    ('Y', "auth-file"),
    ('o', "extended"),
    ('D', "enable-delimiter"),
    ('e', "memory-file"),
];

/// Those that take none.
const PLAIN: &[(char, &str)] = &[
    ('d', "daemon"),
    ('r', "enable-coredumps"),
    ('M', "disable-evictions"),
    ('k', "lock-memory"),
    ('v', "verbose"),
    ('L', "enable-largepages"),
    ('h', "help"),
    ('V', "version"),
    ('C', "disable-cas"),
    ('S', "enable-sasl"),
    ('F', "disable-flush-all"),
    ('X', "disable-dumping"),
    ('W', "disable-watch"),
    ('A', "enable-shutdown"),
    ('Z', "enable-ssl"),
    ('i', "license"),
];

/// Returns what `arguments` of memcached ask for.
///
/// # Errors
/// A sentence that says what cannot be done.
pub fn read(arguments: &[String]) -> Result<Wish, String> {
    let (own, others) = match arguments.iter().position(|argument| argument == "--") {
        Some(end) => (&arguments[..end], &arguments[end + 1..]),
        None => (arguments, &[][..]),
    };
    let mut parts = Parts::default();
    let mut words = own.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let letter = letter_of(name).ok_or(format!("there is no option '{word}'"))?;
            let value = match is_valued(letter) {
                true => Some(value.or_else(|| words.next()).ok_or(lacks_value(word))?),
                false => None,
            };
            parts.take(letter, value.unwrap_or(""))?;
            continue;
        }
        let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty());
        let mut letters = letters.ok_or(format!("'{word}' is no option"))?;
        while let Some(letter) = letters.chars().next() {
            letters = &letters[letter.len_utf8()..];
            if !is_valued(letter) {
                parts.take(letter, "")?;
                continue;
            }
            let value = match letters {
                "" => words.next().ok_or(lacks_value(word))?,
                rest => rest,
            };
            parts.take(letter, value)?;
            break;
        }
    }
    Ok(match parts.wish {
        Some(wish) => wish,
        None => Wish::Serve(parts.options().into_iter().chain(others.iter().cloned()).collect()),
    })
}

fn letter_of(name: &str) -> Option<char> {
    VALUED.iter().chain(PLAIN).find(|(_, long)| *long == name).map(|(letter, _)| *letter)
}

fn is_valued(letter: char) -> bool {
    VALUED.iter().any(|(valued, _)| *valued == letter)
}

fn lacks_value(word: &str) -> String {
    format!("'{word}' lacks its value")
}

#[derive(Default)]
struct Parts {
    wish: Option<Wish>,
    port: Option<String>,
    socket: Option<String>,
    mode: Option<String>,
    addresses: Option<String>,
    memory_mb: Option<u64>,
    refuses_writes: bool,
    verbosity: usize,
    others: Vec<String>,
}

impl Parts {
    fn take(&mut self, letter: char, value: &str) -> Result<(), String> {
        match letter {
            'h' | 'i' => self.wish = Some(Wish::Help),
            'V' => self.wish = Some(Wish::Version),
            'p' => self.port = Some(number(letter, value)?.to_string()),
            's' => self.socket = Some(value.to_owned()),
            'a' => self.mode = Some(value.to_owned()),
            'l' => self.addresses = Some(addresses(value)?),
            'm' => self.memory_mb = Some(number(letter, value)?),
            'M' => self.refuses_writes = true,
            'c' => self.option("maxclients", number(letter, value)?.to_string()),
            't' => self.option("workers", number(letter, value)?.to_string()),
            'b' => self.option("tcp-backlog", number(letter, value)?.to_string()),
            'I' => self.option("memcached-item-size-max", size(value)?),
            'Y' => self.option("memcached-auth-file", value.to_owned()),
            'P' => self.option("pidfile", value.to_owned()),
            'd' => self.option("daemonize", "yes".to_owned()),
            'v' => self.verbosity += 1,
            'U' if number(letter, value)? != 0 => return Err("there is no UDP here".to_owned()),
            'B' if value == "binary" => return Err("there is no binary protocol here".to_owned()),
            'B' if !["ascii", "auto"].contains(&value) => {
                return Err(format!("'{value}' is no protocol: ascii or auto"));
            }
            'U' | 'B' | 'k' | 'r' | 'R' | 'L' | 'n' | 'f' | 'u' | 'o' | 'X' | 'W' => {}
            'C' | 'S' | 'F' | 'A' | 'Z' | 'D' | 'e' => {
                return Err(format!("-{letter} of memcached cannot be had here"));
            }
            _ => return Err(format!("there is no option '-{letter}'")),
        }
        Ok(())
    }

    fn option(&mut self, name: &str, value: String) {
        self.others.extend([format!("--{name}"), value]);
    }

    fn options(self) -> Vec<String> {
        let mut options = Vec::new();
        let mut set = |name: &str, value: &str| {
            options.extend([format!("--{name}"), value.to_owned()]);
        };
        set("port", "0");
        match &self.socket {
            Some(path) => {
                set("memcached-socket", path);
                set("unixsocketperm", self.mode.as_deref().unwrap_or("700"));
            }
            None => set("memcached-port", self.port.as_deref().unwrap_or("11211")),
        }
        match &self.addresses {
            // Whoever names addresses means to be reached there, as with memcached.
            Some(addresses) => {
                set("bind", addresses);
                set("protected-mode", "no");
            }
            None => set("bind", "* -::*"),
        }
        set("maxmemory", &format!("{}mb", self.memory_mb.unwrap_or(64)));
        let policy = if self.refuses_writes { "noeviction" } else { "adaptive" };
        set("maxmemory-policy", policy);
        let level = ["warning", "notice", "verbose", "debug"][self.verbosity.min(3)];
        set("loglevel", level);
        let named = |name: &str| self.others.iter().any(|word| word == name);
        if !named("--maxclients") {
            set("maxclients", "1024");
        }
        if !named("--workers") {
            set("workers", "4");
        }
        options.extend(self.others);
        options
    }
}

fn number(letter: char, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("-{letter} takes a number, not '{value}'"))
}

fn addresses(value: &str) -> Result<String, String> {
    let one = |address: &str| match address.matches(':').count() {
        1 => Err(format!("'{address}': an address has no port here, -p has it")),
        _ => Ok(address.trim_matches(['[', ']']).to_owned()),
    };
    let all: Result<Vec<String>, String> = value.split(',').map(one).collect();
    Ok(all?.join(" "))
}

/// Returns the bytes of a size with `k` or `m` behind it, as memcached has it.
fn size(value: &str) -> Result<String, String> {
    let (digits, unit) = match value.as_bytes().last() {
        Some(b'k' | b'K') => (&value[..value.len() - 1], 1024),
        Some(b'm' | b'M') => (&value[..value.len() - 1], 1 << 20),
        _ => (value, 1),
    };
    let bytes = number('I', digits)?.checked_mul(unit);
    let bytes = bytes.filter(|bytes| (1024..=1 << 30).contains(bytes));
    Ok(bytes.ok_or("-I takes 1k to 1024m")?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<String, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&words).map(|wish| match wish {
            Wish::Serve(options) => options.join(" "),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn arguments_become_options() {
        let found =
            options("-p 7000 -m1024 -t 2 -vv -l 127.0.0.1,::1 -I 2m -U 0 -- --appendonly yes");
        assert_eq!(
            found.unwrap(),
            "--port 0 --memcached-port 7000 --bind 127.0.0.1 ::1 --protected-mode no --maxmemory \
             1024mb --maxmemory-policy adaptive --loglevel verbose --maxclients 1024 --workers \
             2 --memcached-item-size-max 2097152 --appendonly yes"
        );
        let found = options("--unix-socket=/tmp/m --memory-limit=8 -M -d").unwrap();
        assert!(found.contains("--memcached-socket /tmp/m --unixsocketperm 700"), "{found}");
        assert!(found.contains("noeviction") && found.contains("--daemonize yes"), "{found}");
        assert_eq!(options("-V").unwrap(), "Version");
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        for line in ["-U 11211", "-B binary", "-S", "-Z", "-p x", "-p", "-q", "x", "-I 1", "-C"] {
            assert!(options(line).is_err(), "{line}");
        }
    }
}
