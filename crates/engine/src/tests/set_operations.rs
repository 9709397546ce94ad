//! What SINTERSTORE and its like do beside the reply: events, memory, the whole of what they store.

use effects::keyspace_events;

use super::*;

/// Returns the events of `request`, each as its class and name.
fn events(client: &mut Client<'_>, engine: &Engine, request: &str) -> Vec<String> {
    let sink = recording_of(engine.keyspace());
    let reply = client.run(request);
    assert!(!reply.starts_with('-'), "{request}: {reply}");
    let mut events = Vec::new();
    sink.for_each(|record| {
        let all = record.changes().flat_map(|change| keyspace_events(&change));
        events.extend(all.map(|event| {
            let (class, key) = (char::from(event.class.letter()), event.key.escape_ascii());
            format!("{class} {} {key}", event.name)
        }));
    });
    events
}

#[test]
fn what_is_stored_has_the_event_of_its_command_and_what_is_empty_that_of_a_deletion() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run_all(&["SADD a 1 2 x", "SADD b 2 y", "SET t v"]);
    for (request, expected) in [
        ("SINTERSTORE d a b", &["n new d", "s sinterstore d"][..]),
        ("SUNIONSTORE d a b", &["s sunionstore d"]),
        ("SDIFFSTORE d a b", &["s sdiffstore d"]),
        ("SDIFFSTORE d a a", &["g del d"]),
        ("SDIFFSTORE d a a", &[]),
        ("SINTERSTORE d a none", &[]),
        ("SUNIONSTORE t a", &["s sunionstore t"]),
        ("SINTERSTORE t a none", &["g del t"]),
        ("SUNIONSTORE a a", &["s sunionstore a"]),
        ("SINTER a b", &[]),
        ("SINTERCARD 2 a b", &[]),
    ] {
        assert_eq!(events(&mut client, &engine, request), expected, "{request}");
    }
}

#[test]
fn an_expired_destination_goes_before_what_is_stored() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run_all(&["SADD a 1", "SET d v PX 10"]);
    client.execution.now = UnixMs(NOW.0 + 11);
    let expected = ["x expired d", "n new d", "s sunionstore d"];
    assert_eq!(events(&mut client, &engine, "SUNIONSTORE d a"), expected);
}

/// A set of large members, of which a copy does not fit below the limit.
fn fill(client: &mut Client<'_>, key: &str) {
    for number in 0..400 {
        client.run(&format!("SADD {key} {key}{number}{}", "m".repeat(1_000)));
    }
}

#[test]
fn results_find_room_before_they_are_built_or_are_refused() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    fill(&mut client, "a");
    client.run_all(&["SADD b 1 2 3", "SADD d 7"]);
    let keyspace = engine.keyspace();
    keyspace.set_maxmemory(keyspace.used_memory() + 200_000);
    let used = keyspace.used_memory();
    for request in ["SUNIONSTORE d a b", "SDIFFSTORE d a b", "SINTERSTORE d a a"] {
        let reply = client.run(request);
        assert!(reply.contains("OOM command not allowed"), "{request}: {reply}");
        client.check("SCARD d", ":1");
        assert!(keyspace.used_memory() < used + 10_000, "{request}");
    }
    // So many lookups that the result is built for the reply.
    let built = "SUNION a a a a a a a";
    assert!(client.run(built).contains("OOM command not allowed"));
    // What is visited where it is takes no memory.
    client.check("SINTERCARD 2 a a", ":400");
    assert!(client.run("SDIFF a b").starts_with("*400"));
    client.check("SINTERSTORE d a b", ":0");
    keyspace.set_maxmemory(keyspace.used_memory() + 8_000_000);
    client.check("SUNIONSTORE d a b", ":403");
    client.check("SCARD d", ":403");
    assert!(client.run(built).starts_with("*400"));
}

#[test]
fn results_evict_others_and_none_of_their_sources() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    fill(&mut client, "a");
    client.run("SADD b 1 2 3");
    (0..40).for_each(|key| drop(client.run(&format!("SET other:{key} {}", "v".repeat(40_000)))));
    let keyspace = engine.keyspace();
    keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_RANDOM);
    keyspace.set_maxmemory(keyspace.used_memory());
    client.check("SUNIONSTORE d a b", ":403");
    assert!(keyspace.counters().evicted_keys > 5);
    client.check("SCARD a", ":400");
    client.check("SCARD b", ":3");
}
