//! Fields that expire: their commands against a map with times, at times that the test decides; the
//! sweep, and what takes whole hashes elsewhere.

use std::collections::BTreeMap;

use effects::keyspace_events;
use keyspace::Access;

use super::*;

/// Fields with their values and times.
type Model = BTreeMap<String, (String, Option<i64>)>;

const MS_PER_DAY: i64 = 86_400_000;

/// Runs commands on the hash `k`, and on a model of it.
struct World<'e> {
    client: Client<'e>,
    model: Model,
}

/// Returns the reply to a command that replies an array, of these items.
fn array<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    [&[format!("*{}", items.len()).as_str()], &items[..]].concat().join(" ")
}

fn bulk(text: Option<&String>) -> String {
    text.map_or("$-1".to_owned(), |text| format!("${} {text}", text.len()))
}

impl World<'_> {
    fn now(&self) -> i64 {
        self.client.execution.now.0
    }

    /// Removes the fields that have expired from the model: nobody sees them.
    fn pass(&mut self, ms: i64) {
        self.client.execution.now.0 += ms;
        let now = self.now();
        self.model.retain(|_, (_, time)| time.is_none_or(|time| now <= time));
    }

    fn check(&mut self, request: &str, expected: &str) {
        self.client.check(request, expected);
    }

    fn check_all(&mut self) {
        let now = self.now();
        let times = self.model.iter().map(|(field, (value, time))| (field, value, time));
        let rows: Vec<(String, String, Option<i64>)> =
            times.map(|(field, value, time)| (field.clone(), value.clone(), *time)).collect();
        for (field, value, time) in &rows {
            self.check(&format!("HGET k {field}"), &bulk(Some(value)));
            self.check(&format!("HSTRLEN k {field}"), &format!(":{}", value.len()));
            let left = time.map_or(-1, |time| time - now);
            self.check(&format!("HPTTL k FIELDS 1 {field}"), &array(&[format!(":{left}")]));
            let left = time.map_or(-1, |time| (time - now + 999) / 1000);
            self.check(&format!("HTTL k FIELDS 1 {field}"), &array(&[format!(":{left}")]));
            let at = time.unwrap_or(-1);
            self.check(&format!("HPEXPIRETIME k FIELDS 1 {field}"), &array(&[format!(":{at}")]));
        }
        let reply = self.client.run("HGETALL k");
        assert!(reply.starts_with(&format!("*{}", 2 * rows.len())), "{reply}");
        assert_eq!(reply.split(' ').count(), 1 + 4 * rows.len());
        let mut scanned: Vec<String> = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let reply = self.client.run(&format!("HSCAN k {cursor} NOVALUES"));
            let words: Vec<&str> = reply.split(' ').collect();
            cursor = words[2].to_owned();
            scanned.extend(words[4..].iter().skip(1).step_by(2).map(|word| word.to_string()));
            if cursor == "0" {
                break;
            }
        }
        scanned.sort();
        assert!(scanned.iter().eq(self.model.keys()), "{scanned:?}");
        for count in ["", " 3", " -3", " 100"] {
            let reply = self.client.run(&format!("HRANDFIELD k{count}"));
            let words = reply.split(' ').filter(|word| !word.starts_with(['*', '$']));
            let words: Vec<&str> = words.collect();
            assert!(words.iter().all(|word| self.model.contains_key(*word)), "{reply}");
            let expected = match count {
                "" => rows.len().min(1),
                " -3" => 3 * rows.len().min(1),
                count => rows.len().min(count.trim().parse().unwrap()),
            };
            assert_eq!(words.len(), expected, "{reply}");
        }
        assert_eq!(self.client.run("EXISTS k") == ":1", self.stored() > 0);
    }

    /// Returns how many fields are stored, those that have expired included.
    fn stored(&mut self) -> usize {
        self.client.run("HLEN k")[1..].parse().unwrap()
    }

    fn step(&mut self, random: &mut Prng, field_count: u64) {
        let field = |random: &mut Prng| format!("f{}", random.below(field_count));
        let names: Vec<String> = (0..=random.below(3)).map(|_| field(random)).collect();
        let listed = format!("FIELDS {} {}", names.len(), names.join(" "));
        let value = "v".repeat(1 + random.below(80) as usize);
        match random.below(12) {
            0 | 1 => self.set(&names, &value),
            2 => {
                let mut gone = |field: &String| self.model.remove(field).is_some();
                let count = names.iter().filter(|field| gone(field)).count();
                self.check(&format!("HDEL k {}", names.join(" ")), &format!(":{count}"));
            }
            3..=6 => self.expire(&names, &listed, random),
            7 => {
                let outcome = |field| match self.model.get_mut(field).map(|row| row.1.take()) {
                    None => ":-2",
                    Some(None) => ":-1",
                    Some(Some(_)) => ":1",
                };
                let expected: Vec<&str> = names.iter().map(outcome).collect();
                self.check(&format!("HPERSIST k {listed}"), &array(&expected));
            }
            8 | 9 => self.get_and_expire(&names, &listed, random),
            10 => self.set_and_expire(&names, &value, random),
            _ => {
                let row = self.model.entry(names[0].clone()).or_insert(("0".into(), None));
                match row.0.parse::<i64>() {
                    Ok(number) => {
                        row.0 = (number + 7).to_string();
                        let expected = format!(":{}", row.0);
                        self.check(&format!("HINCRBY k {} 7", names[0]), &expected);
                    }
                    Err(_) => self.check(
                        &format!("HINCRBY k {} 7", names[0]),
                        "-ERR hash value is not an integer",
                    ),
                }
            }
        }
    }

    fn set(&mut self, names: &[String], value: &str) {
        let mut request = "HSET k".to_owned();
        let mut added = 0;
        for field in names {
            request += &format!(" {field} {value}");
            added += usize::from(self.model.insert(field.clone(), (value.into(), None)).is_none());
        }
        self.check(&request, &format!(":{added}"));
    }

    fn expire(&mut self, names: &[String], listed: &str, random: &mut Prng) {
        let ms = random.below(40) as i64 * 500;
        let condition = random.pick(&["", "NX ", "XX ", "GT ", "LT "]);
        let (now, at) = (self.now(), self.now() + ms);
        let mut outcomes = Vec::new();
        for field in names {
            let current = self.model.get(field).map(|row| row.1);
            let is_met = |current: Option<i64>| match condition {
                "NX " => current.is_none(),
                "XX " => current.is_some(),
                "GT " => current.is_some_and(|current| at > current),
                "LT " => current.is_none_or(|current| at < current),
                _ => true,
            };
            outcomes.push(match current {
                None => ":-2",
                Some(current) if !is_met(current) => ":0",
                Some(_) if at <= now => {
                    self.model.remove(field);
                    ":2"
                }
                Some(_) => {
                    self.model.get_mut(field).unwrap().1 = Some(at);
                    ":1"
                }
            });
        }
        let request = match random.below(2) {
            0 => format!("HPEXPIRE k {ms} {condition}{listed}"),
            _ => format!("HPEXPIREAT k {at} {condition}{listed}"),
        };
        self.check(&request, &array(&outcomes));
    }

    fn get_and_expire(&mut self, names: &[String], listed: &str, random: &mut Prng) {
        let ms = random.below(20) as i64 * 1000;
        let (now, at) = (self.now(), self.now() + ms);
        let option = random.pick(&["", "PERSIST ", "PXAT "]);
        let mut values = Vec::new();
        for field in names {
            values.push(bulk(self.model.get(field).map(|row| &row.0)));
            match option {
                "PXAT " if at <= now => drop(self.model.remove(field)),
                "PXAT " => self.model.get_mut(field).into_iter().for_each(|row| row.1 = Some(at)),
                "PERSIST " => self.model.get_mut(field).into_iter().for_each(|row| row.1 = None),
                _ => {}
            }
        }
        let time = if option == "PXAT " { format!("{at} ") } else { String::new() };
        self.check(&format!("HGETEX k {option}{time}{listed}"), &array(&values));
    }

    fn set_and_expire(&mut self, names: &[String], value: &str, random: &mut Prng) {
        let ms = random.below(20) as i64 * 1000;
        let (now, at) = (self.now(), self.now() + ms);
        let condition = random.pick(&["", "FNX ", "FXX "]);
        let option = random.pick(&["", "KEEPTTL ", "PXAT "]);
        let there = names.iter().filter(|field| self.model.contains_key(*field)).count();
        let is_met = match condition {
            "FNX " => there == 0,
            "FXX " => there == names.len(),
            _ => true,
        };
        for field in names.iter().filter(|_| is_met) {
            let old = self.model.get(field).and_then(|row| row.1);
            let time = match option {
                "PXAT " => Some(at),
                "KEEPTTL " => old,
                _ => None,
            };
            self.model.insert(field.clone(), (value.to_owned(), time));
        }
        if option == "PXAT " && at <= now && is_met {
            names.iter().for_each(|field| drop(self.model.remove(field)));
        }
        let time = if option == "PXAT " { format!("{at} ") } else { String::new() };
        let pairs: Vec<String> = names.iter().map(|field| format!("{field} {value}")).collect();
        let count = names.len();
        let request =
            format!("HSETEX k {condition}{option}{time}FIELDS {count} {}", pairs.join(" "));
        self.check(&request, if is_met { ":1" } else { ":0" });
    }
}

fn sweep(engine: &Engine, now: UnixMs, budget: u64) -> u64 {
    let keyspace = engine.keyspace();
    keyspace.shard_indexes().map(|shard| keyspace.expire_step(shard, now, budget).expired).sum()
}

#[test]
fn commands_do_what_they_would_on_a_map_with_times() {
    for (seed, field_count) in [(1, 4), (2, 12), (3, 700)] {
        let (engine, host) =
            (Engine::new(keyspace(8)), TestHost { allows_debug: true, ..TestHost::default() });
        let sink = recording_of(engine.keyspace());
        let mut world = World { client: Client::new(&engine, &host), model: Model::new() };
        let mut random = Prng::new(seed);
        for _ in 0..if field_count > 100 { 3000 } else { 1500 } {
            world.step(&mut random, field_count);
            world.pass([0, 1, 300, 2000][random.below(4) as usize]);
            if random.one_in(3) {
                sweep(&engine, world.client.execution.now, 1 + random.below(5));
            }
            if random.one_in(40) {
                world.check_all();
            }
        }
        world.check_all();
        while sweep(&engine, world.client.execution.now, 100) > 0 {}
        assert_eq!(world.stored(), world.model.len());
        assert_same_data(&replayed(&sink), engine.keyspace());
        assert_same_data(&super::restore::carried_over(engine.keyspace()), engine.keyspace());
        assert!(engine.keyspace().counters().expired_fields > 30);
        world.client.run("FLUSHALL");
        assert_eq!(engine.keyspace().counts(DatabaseIndex(0)).timed, 0);
    }
}

#[test]
fn refusals_are_those_of_redis_in_its_order() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run_all(&["SET s v", "HSET k a 1"]);
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let negative = "-ERR invalid expire time, must be >= 0";
    let missing = "-ERR Mandatory argument FIELDS is missing or not at the right position";
    let differs = "-ERR The `numfields` parameter must match the number of arguments";
    let not_a_count = "-ERR Number of fields must be a positive integer";
    let of_expire = "-ERR Parameter `numFields` should be greater than 0";
    let integer = "-ERR value is not an integer or out of range";
    let arity = |name: &str| format!("-ERR wrong number of arguments for '{name}' command");
    let beyond = |name: &str| format!("-ERR invalid expire time in '{name}' command");
    let last = (1_i64 << 46) - 1;
    let two = "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    for (request, expected) in [
        ("HEXPIRE s x FIELDS 1 a".to_owned(), wrong_type.to_owned()),
        ("HEXPIRE k x FIELDS 1 a".into(), integer.into()),
        ("HEXPIRE k -1 FIELDS 1 a".into(), negative.into()),
        (format!("HEXPIRE k {} NO 1 a", i64::MAX), beyond("hexpire")),
        (format!("HPEXPIREAT k {} FIELDS 1 a", last + 1), beyond("hpexpireat")),
        ("HPEXPIRE k 1 NX XX FIELDS 1 a".into(), missing.into()),
        ("HEXPIREAT k 1 FIELDS 0 a".into(), of_expire.into()),
        ("HEXPIREAT k 1 FIELDS 2 a".into(), differs.into()),
        ("HEXPIRE none 1 FIELDS 2 a a".into(), "*2 :-2 :-2".into()),
        ("HEXPIRE k 1 FIELDS 1".into(), arity("hexpire")),
        ("HTTL s NO 1 a".into(), wrong_type.into()),
        ("HTTL k NO 1 a".into(), missing.into()),
        ("HPTTL k FIELDS x a".into(), not_a_count.into()),
        ("HEXPIRETIME k FIELDS 1 a b".into(), differs.into()),
        ("HPEXPIRETIME none FIELDS 1 a".into(), "*1 :-2".into()),
        ("HPERSIST s NO 1 a".into(), wrong_type.into()),
        ("HPERSIST k FIELDS -1 a".into(), not_a_count.into()),
        ("HPERSIST none FIELDS 1 a".into(), "*1 :-2".into()),
        ("HGETEX s EX x FIELDS 1 a".into(), wrong_type.into()),
        ("HGETEX k EX x FIELDS 1 a".into(), integer.into()),
        ("HGETEX k EXAT -1 FIELDS 1 a".into(), negative.into()),
        ("HGETEX k EX 1 FIELDS".into(), not_a_count.into()),
        ("HGETEX none EX 1 FIELDS 1 a".into(), "*1 $-1".into()),
        ("HSETEX s EX x FIELDS 1 a 1".into(), integer.into()),
        ("HSETEX s EX 1 FIELDS 1 a 1".into(), wrong_type.into()),
        ("HSETEX k EX 1 PX 1 FIELDS 1 a 1".into(), two.into()),
        ("HSETEX k KEEPTTL EX 1 FIELDS 1 a 1".into(), two.into()),
        (
            "HSETEX k FNX FXX FIELDS 1 a 1".into(),
            "-ERR Only one of FXX or FNX arguments can be specified".into(),
        ),
        ("HSETEX k NO 1 FIELDS 1 a 1".into(), "-ERR unknown argument: NO".into()),
        ("HSETEX k FIELDS 0 a 1".into(), "-ERR invalid number of fields".into()),
        ("HSETEX k FIELDS 2147483648 a 1".into(), "-ERR invalid number of fields".into()),
        ("HSETEX k FIELDS 2 a 1".into(), arity("hsetex")),
        ("HSETEX k EX 1 FIELDS 1 a".into(), arity("hsetex")),
        ("HSETEX none FXX FIELDS 1 a 1".into(), ":0".into()),
        (format!("HPEXPIREAT k {last} FIELDS 1 a"), "*1 :1".into()),
        ("HPEXPIRETIME k FIELDS 1 a".into(), format!("*1 :{last}")),
    ] {
        client.check(&request, &expected);
    }
}

/// Returns the events of all records as `name key`.
fn events(sink: &Recording) -> Vec<String> {
    let mut events = Vec::new();
    sink.for_each(|record| {
        for change in record.changes() {
            let of_change = keyspace_events(&change).into_iter();
            events.extend(of_change.map(|event| format!("{} {}", event.name, text(event.key))));
        }
    });
    events
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn records_ask_no_clock_and_events_are_those_of_redis() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let sink = recording_of(engine.keyspace());
    let at = |ms: i64| NOW.0 + ms;
    client.run_all(&["HSET k a 1 b 2 c 3", "HEXPIRE k 5 FIELDS 2 a none", "HPERSIST k FIELDS 1 a"]);
    client.run_all(&["HGETEX k PX 20 FIELDS 1 b", "HINCRBY k b 5", "HINCRBY k c 5"]);
    client.run_all(&["HSETEX k EX 1 FIELDS 1 d 4", "HPEXPIREAT k 1 FIELDS 2 c d"]);
    client.check("HSETEX l PXAT 1 FIELDS 1 x 1", ":1");
    client.run("HSET m x 1 z 1");
    client.check("HSETEX m PXAT 1 FIELDS 2 x 2 y 2", ":1");
    client.check("HGETALL m", "*2 $1 z $1 1");
    client.execution.now.0 += 21;
    client.run_all(&["HGET k b", "HSET k b 3", "HSETEX k PX 30 FIELDS 2 a 1 b 1"]);
    client.execution.now.0 += 31;
    sweep(&engine, client.execution.now, 10);
    assert_eq!(
        sink.commands(),
        [
            "HSET k a 1 b 2 c 3".to_owned(),
            format!("HPEXPIREAT k {} FIELDS 1 a", at(5000)),
            "HPERSIST k FIELDS 1 a".into(),
            format!("HPEXPIREAT k {} FIELDS 1 b", at(20)),
            "HSETEX k KEEPTTL FIELDS 1 b 7".into(),
            "HSETEX k KEEPTTL FIELDS 1 c 8".into(),
            format!("HSETEX k PXAT {} FIELDS 1 d 4", at(1000)),
            "HDEL k c d".into(),
            "HDEL l x".into(),
            "HSET m x 1 z 1".into(),
            "HDEL m x y".into(),
            "HDEL k b".into(),
            "HSET k b 3".into(),
            format!("HSETEX k PXAT {} FIELDS 2 a 1 b 1", at(51)),
            "HDEL k a b".into(),
        ]
    );
    let expected = "new k, hset k, hexpire k, hpersist k, hexpire k, hincrby k, hincrby k, hset k, \
         hexpire k, hdel k, hset l, hdel l, del l, new m, hset m, hset m, hdel m, hexpired k, \
         hset k, hset k, hexpire k, hexpired k, del k";
    assert_eq!(events(&sink).join(", "), expected);
    assert_same_data(&replayed(&sink), engine.keyspace());
    let counters = engine.keyspace().counters();
    assert_eq!((counters.expired_fields, counters.expired_keys), (8, 0));
    client.check("EXISTS k", ":0");
}

#[test]
fn expired_fields_are_absent_before_the_sweep_which_keeps_to_its_budget() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    for number in 0..40 {
        client.run(&format!("HSETEX k{} PX {} FIELDS 1 f{number} v", number % 4, 100 + number));
        client.run(&format!("SET s{number} v PX 100"));
    }
    let keyspace = engine.keyspace();
    assert_eq!(keyspace.counts(DatabaseIndex(0)).timed, 4);
    client.execution.now.0 += 10_000;
    client.check("HGETALL k0", "*0");
    client.check("HRANDFIELD k0", "$-1");
    client.check("HLEN k0", ":10");
    let step = |now| keyspace.expire_step(base::ShardIndex(0), now, 10);
    let outcome = step(client.execution.now);
    assert_eq!((outcome.examined, outcome.expired), (10, 10));
    let counters = keyspace.counters();
    assert_eq!((counters.expired_fields, counters.expired_keys), (5, 5), "each has its half");
    // Those first that expired first.
    let lengths = |client: &mut Client<'_>| {
        ["k0", "k1", "k2", "k3"].map(|key| client.run(&format!("HLEN {key}")))
    };
    assert_eq!(lengths(&mut client), [":5", ":10", ":10", ":10"]);
    while step(client.execution.now).expired > 0 {}
    assert_eq!(keyspace.key_count(DatabaseIndex(0)), 0);
    assert_eq!(keyspace.counts(DatabaseIndex(0)).timed, 0);
}

#[test]
fn a_step_of_the_sweep_ends_with_its_bytes_of_long_names() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    for letter in ["a", "b", "c", "d", "e"] {
        client.run(&format!("HSETEX k PX 1 FIELDS 1 {} v", letter.repeat(40_000)));
    }
    let now = UnixMs(NOW.0 + 10);
    let expired =
        [(); 4].map(|()| engine.keyspace().expire_step(base::ShardIndex(0), now, 100).expired);
    assert_eq!(expired, [2, 2, 1, 0]);
    assert_eq!(engine.keyspace().key_count(DatabaseIndex(0)), 0);
}

#[test]
fn times_go_where_their_hash_goes() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let sink = recording_of(engine.keyspace());
    let timed = |database| engine.keyspace().counts(DatabaseIndex(database)).timed;
    let ask = "HPTTL k2 FIELDS 2 a b";
    client.run_all(&["HSET k a 1 b 2", "HPEXPIRE k 100 FIELDS 1 a", "RENAME k k2"]);
    client.check(ask, "*2 :100 :-1");
    client.check("OBJECT ENCODING k2", "$10 listpackex");
    client.run_all(&["COPY k2 k3", "COPY k2 k2 DB 1", "MOVE k3 2", "SWAPDB 2 3", "SET k2 v"]);
    assert_eq!([timed(0), timed(1), timed(2), timed(3)], [0, 1, 0, 1]);
    client.run_all(&["SELECT 3", "RENAME k3 k2"]);
    client.check(ask, "*2 :100 :-1");
    client.run(
        "HSET k2 long xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    );
    client.check("OBJECT ENCODING k2", "$9 hashtable");
    client.run_all(&["SELECT 1", "COPY k2 k4", "DEL k2", "RENAME k4 k2"]);
    client.check(ask, "*2 :100 :-1");
    client.execution.now.0 += 101;
    while sweep(&engine, client.execution.now, 4) > 0 {}
    client.check("HGETALL k2", "*2 $1 b $1 2");
    client.check("OBJECT ENCODING k2", "$8 listpack");
    assert_eq!([timed(0), timed(1), timed(3)], [0; 3]);
    assert_eq!(engine.keyspace().counters().expired_fields, 2);
    assert_same_data(&replayed(&sink), engine.keyspace());
    client.run_all(&["FLUSHALL", "HSETEX k EX 9 FIELDS 1 a 1"]);
    assert_eq!(timed(1), 1);
    client.run("FLUSHDB");
    assert_eq!(timed(1), 0);
    assert_eq!(sweep(&engine, UnixMs(NOW.0 + MS_PER_DAY), 10), 0);
}

#[test]
fn what_hashes_with_times_take_is_given_back() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run_all(&["HSET k a 1", "DEL k"]);
    let before = engine.keyspace().used_memory();
    let mut random = Prng::new(9);
    for number in 0..3000 {
        let (key, field) = (random.below(40), random.below(300));
        client.run(&format!("HSETEX k{key} PX {} FIELDS 1 f{field} {number}", 1 + number % 977));
        client.execution.now.0 += random.below(3) as i64;
        if random.one_in(10) {
            sweep(&engine, client.execution.now, 50);
        }
        let (key, other) = (random.below(40), random.below(40));
        let request = match random.below(8) {
            0 => format!("RENAME k{key} k{other}"),
            1 => format!("COPY k{key} k{other} REPLACE"),
            2 => format!("DEL k{key}"),
            3 => format!("HPERSIST k{key} FIELDS 1 f{field}"),
            _ => continue,
        };
        client.run(&request);
    }
    let mut bytes: BTreeMap<u16, u64> = BTreeMap::new();
    Access::free(engine.keyspace()).for_each_entry(DatabaseIndex(0), &mut |object| {
        *bytes.entry(base::key_slot(object.key()).0).or_default() += object.memory_bytes();
    });
    for number in 0..40 {
        let name = format!("k{number}");
        let key = engine.keyspace().hasher().key(name.as_bytes());
        let guard = engine.keyspace().lock(key.shard);
        let counted = guard.read(DatabaseIndex(0), NOW).slot_count(&key).bytes;
        assert_eq!(counted, bytes.get(&key.slot.0).copied().unwrap_or(0), "{name}");
    }
    client.execution.now.0 += MS_PER_DAY;
    while sweep(&engine, client.execution.now, 1000) > 0 {}
    client.run("FLUSHALL");
    engine.keyspace().drop_retired();
    let after = engine.keyspace().used_memory();
    assert!(after.abs_diff(before) < 64 * 1024, "{before} {after}");
}
