//! Searches for places on many places: the same members in the same order with the same digits as
//! from redis-server, and the same sorted sets where they are stored.
//!
//! `FOREBAY_GEO_SEARCHES` sets how many searches there are, `FOREBAY_GEO_FIRST_SEED` the seed of
//! the first round; `FOREBAY_GEO_SEED` repeats the round of a seed. Rarely a seed finds a
//! difference that is not explained yet: those that a run begins with by itself find none.

use base::prng::Prng;
use harness::{Kind, Request, Server, number, request};
use resp::Value;

use super::render::{quoted, render};

const SEARCHES_DEFAULT: u64 = 6_000;
const SEARCHES_PER_ROUND: u64 = 300;
/// Requests that are sent before a reply is read.
const BATCH: usize = 20;

#[test]
fn searches_are_answered_as_by_redis_in_the_same_order_and_digits() {
    let servers = [Kind::Forebay, Kind::Redis].map(Server::start);
    if let Some(seed) = number("FOREBAY_GEO_SEED") {
        return check(&servers, seed);
    }
    let count = number("FOREBAY_GEO_SEARCHES").unwrap_or(SEARCHES_DEFAULT);
    let first = number("FOREBAY_GEO_FIRST_SEED").unwrap_or(1);
    for round in 0..count.div_ceil(SEARCHES_PER_ROUND) {
        check(&servers, first + round);
    }
}

/// Makes the places of `seed`, and searches.
fn check(servers: &[Server; 2], seed: u64) {
    let mut random = Prng::new(seed);
    let map = Map::draw(&mut random);
    let protocol = if random.one_in(2) { "2" } else { "3" };
    let mut requests = vec![request(&["FLUSHALL"]), request(&["HELLO", protocol])];
    requests.extend(map.filling(&mut random));
    for _ in 0..SEARCHES_PER_ROUND {
        requests.push(map.search(&mut random));
        requests.push(request(&["DEBUG", "DIGEST-VALUE", "target"]));
    }
    let [ours, redis] = servers.each_ref().map(|server| {
        let mut client = server.unix();
        let batches = requests.chunks(BATCH);
        batches.flat_map(|batch| client.pipeline(batch)).collect::<Vec<_>>()
    });
    // What HELLO tells is the version.
    for index in 2..requests.len() {
        let (ours, redis) = (&ours[index], &redis[index]);
        if ours.bytes != redis.bytes {
            // A digest is that of what the search before it has stored.
            let lines: Vec<String> = requests[index - 1..=index].iter().map(line).collect();
            let [ours, redis] = [ours, redis]
                .map(|reply| render(&reply.bytes).chars().take(SHOWN_MAX).collect::<String>());
            let (lines, stored) = (lines.join("\n"), stored(servers, &requests[index - 1]));
            panic!(
                "FOREBAY_GEO_SEED={seed}\n{lines}\n  forebay: {ours}\n  redis:   {redis}\n{stored}"
            );
        }
    }
}

/// Returns what `search` stores that is not the same, with scores as both write them.
fn stored(servers: &[Server; 2], search: &Request) -> String {
    let [ours, redis] = servers.each_ref().map(|server| {
        let mut client = server.unix();
        client.ask(search);
        match client.call("ZRANGE target 0 -1 WITHSCORES") {
            Value::Array(parts) => parts,
            other => vec![other],
        }
    });
    let is_same = |a: &Value, b: &Value| {
        let number = |value: &Value| str::from_utf8(value.as_bytes()?).ok()?.parse::<f64>().ok();
        a == b || number(a).is_some() && number(a) == number(b)
    };
    let pairs = ours.iter().zip(&redis).filter(|(a, b)| !is_same(a, b));
    pairs.map(|pair| format!("{pair:?}\n")).take(20).collect()
}

/// Letters of a reply that a failure shows.
const SHOWN_MAX: usize = 3_000;

fn line(request: &Request) -> String {
    request.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Where places are.
struct Map {
    center: [f64; 2],
    /// Degrees to each side.
    size: f64,
    /// Places are on a grid of so many degrees, so that many are equally far from others; none: 0.
    grid: f64,
    count: u64,
    /// The members are also added with scores that are no places.
    has_strange_scores: bool,
}

impl Map {
    fn draw(random: &mut Prng) -> Map {
        let center = match random.below(8) {
            0 => [180.0, unit(random) * 85.0],
            1 => [-179.99, unit(random) * 85.0],
            2 => [unit(random) * 180.0, 85.0],
            3 => [unit(random) * 180.0, -84.9],
            4 => [180.0, 85.05112878],
            _ => [unit(random) * 180.0, unit(random) * 85.0],
        };
        let size = random.pick(&[0.001, 0.1, 2.0, 20.0, 400.0]);
        Map {
            center,
            size,
            // Of places right opposite each other Redis may say that their distance is no number.
            grid: match size < 100.0 && random.one_in(3) {
                true => size / random.pick(&[2.0, 5.0, 12.0]),
                false => 0.0,
            },
            count: random.pick(&[3, 20, 120, 129, 600, 3_000]),
            has_strange_scores: random.one_in(6),
        }
    }

    fn place(&self, random: &mut Prng) -> [String; 2] {
        let ends = [180.0, 85.05112878];
        let mut coordinate = |axis: usize| -> f64 {
            let mut degrees = self.center[axis] + unit(random) * self.size;
            if self.grid > 0.0 {
                degrees = (degrees / self.grid).round() * self.grid;
            }
            match (axis, degrees) {
                // Beyond the antimeridian it goes on at the other side.
                (0, 180.0..540.0) if !random.one_in(20) => degrees - 360.0,
                (0, -540.0..-180.0) if !random.one_in(20) => degrees + 360.0,
                _ => degrees,
            }
            .clamp(-ends[axis], ends[axis])
        };
        [coordinate(0).to_string(), coordinate(1).to_string()]
    }

    fn member(&self, random: &mut Prng) -> String {
        // Numbers and texts, and at times one that is not there.
        let number = random.below(self.count + 1 + self.count / 50);
        if number.is_multiple_of(3) { number.to_string() } else { format!("member:{number}") }
    }

    fn filling(&self, random: &mut Prng) -> Vec<Request> {
        let mut requests = Vec::new();
        for number in 0..self.count {
            let member = match number.is_multiple_of(3) {
                true => number.to_string(),
                false => format!("member:{number}"),
            };
            let [longitude, latitude] = self.place(random);
            requests.push(request(&["GEOADD", "places", &longitude, &latitude, &member]));
            if self.has_strange_scores && random.one_in(5) {
                let score =
                    random.pick(&["-1", "0.5", "3", "3.75", "inf", "-inf", "1e300", "1e19"]);
                requests.push(request(&["ZADD", "places", score, &member]));
            }
        }
        requests
    }

    fn search(&self, random: &mut Prng) -> Request {
        let name = random.pick(&[
            "GEOSEARCH",
            "GEOSEARCH",
            "GEOSEARCH",
            "GEOSEARCHSTORE",
            "GEORADIUS",
            "GEORADIUS_RO",
            "GEORADIUSBYMEMBER",
            "GEORADIUSBYMEMBER_RO",
            "GEODIST",
            "GEOPOS",
            "GEOHASH",
        ]);
        let mut words: Vec<String> = vec![name.into()];
        if name == "GEOSEARCHSTORE" {
            words.push("target".into());
        }
        words.push("places".into());
        match name {
            "GEODIST" => words.extend([self.member(random), self.member(random)]),
            "GEOPOS" | "GEOHASH" => words.extend((0..4).map(|_| self.member(random))),
            _ => self.append_search(name, random, &mut words),
        }
        if name == "GEODIST" && random.one_in(2) {
            words.push(unit_name(random));
        }
        request(&words)
    }

    fn append_search(&self, name: &str, random: &mut Prng, words: &mut Vec<String>) {
        let is_search = name.starts_with("GEOSEARCH");
        let is_from_member = if is_search { random.one_in(2) } else { name.contains("BYMEMBER") };
        if is_search {
            words.push(if is_from_member { "FROMMEMBER" } else { "FROMLONLAT" }.into());
        }
        match is_from_member {
            true => words.push(self.member(random)),
            false => words.extend(self.place(random)),
        }
        if is_search && random.one_in(2) {
            let [width, height] = [self.distance(random), self.distance(random)];
            words.extend(["BYBOX".into(), width, height, unit_name(random)]);
        } else {
            if is_search {
                words.push("BYRADIUS".into());
            }
            words.extend([self.distance(random), unit_name(random)]);
        }
        if random.one_in(2) {
            words.push(random.pick(&["ASC", "DESC"]).into());
        }
        if random.one_in(2) {
            let count_max = random.pick(&[3, 30, 300]);
            let count = 1 + random.below(count_max);
            words.extend(["COUNT".into(), count.to_string()]);
            if random.one_in(3) {
                words.push("ANY".into());
            }
        }
        if name == "GEOSEARCHSTORE" {
            if random.one_in(2) {
                words.push("STOREDIST".into());
            }
        } else if ["GEORADIUS", "GEORADIUSBYMEMBER"].contains(&name) && random.one_in(3) {
            let word = random.pick(&["STORE", "STOREDIST"]);
            words.extend([word.into(), "target".into()]);
        } else {
            for word in ["WITHCOORD", "WITHDIST", "WITHHASH"] {
                if random.one_in(2) {
                    words.push(word.into());
                }
            }
        }
    }

    /// Returns a distance that reaches some of the places, most times.
    fn distance(&self, random: &mut Prng) -> String {
        let metres = self.size.min(90.0) * 111_000.0;
        let part = (1.0 + unit(random)) / 2.0;
        match random.below(12) {
            0 => "0".into(),
            1 => (part * 1e-3).to_string(),
            2 => (part * 5e7).to_string(),
            3 => random.pick(&["inf", "1e300", "1e-300"]).into(),
            4..7 => (part * metres * 4.0).to_string(),
            7..10 => (part * metres).to_string(),
            _ => (part * metres / 1000.0).to_string(),
        }
    }
}

fn unit_name(random: &mut Prng) -> String {
    random.pick(&["m", "m", "m", "M", "km", "Ft", "mi"]).into()
}

/// Returns a number from -1 to 1.
fn unit(random: &mut Prng) -> f64 {
    random.below(1 << 53) as f64 / (1_u64 << 52) as f64 - 1.0
}
