//! Values that are received in place behave like any others.

use command::Pause;
use keyspace::EvictionPolicy;

use super::*;

/// Runs a request whose argument `at` is received into a block of its own; as any other where the
/// engine finds none.
fn run_received(client: &mut Client<'_>, words: &[&[u8]], at: usize) -> String {
    let mut stream = Vec::new();
    encode_command(words, &mut stream);
    let value = words[at];
    let behind = words[at + 1..].iter().map(|word| format!("${}\r\n", word.len()).len() + 2);
    let behind: usize = behind.zip(&words[at + 1..]).map(|(frame, word)| frame + word.len()).sum();
    let end = stream.len() - behind - 2;
    let mut request = stream[..end - value.len() + 1].to_vec();

    let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
    let limits = Limits::default();
    let _ = decoder.decode(&mut request, &mut batch, 1, &limits);
    let awaited = decoder.awaited(&request).expect("its length is known");
    assert_eq!((awaited.bytes, awaited.before.len()), (value.len(), at));
    let (engine, head_bytes) = (client.engine, awaited.head_bytes);
    if !engine.may_reserve_for(&client.session, &awaited, &client.execution) {
        let (reply, _) = client.run_bytes(&mut stream, 0);
        return String::from_utf8(reply).unwrap();
    }
    let block = engine.reserve_for(awaited.before, awaited.bytes, &mut client.execution);
    let mut block = block.expect("there is room");
    decoder.take_out();
    request.truncate(head_bytes);
    request.extend_from_slice(&stream[end..]);
    block.append(value);
    let held = block.hold().expect("a slot is free");
    client.session.offer(block);
    let decoded = decoder.decode(&mut request, &mut batch, 1, &limits);
    assert_eq!((decoded.consumed, batch.len()), (request.len(), 1));
    let mut out = Output::default();
    let requests = batch.view_with(&request, held.as_ref());
    let outcome = engine.execute(&mut client.session, requests, 0, &mut out, &mut client.execution);
    assert_eq!(outcome.executed, 1);
    drop(held);
    let is_stored = out.to_vec() == b"+OK\r\n" || out.to_vec() == b":1\r\n";
    assert!(client.session.offer.is_none() || !is_stored, "what is stored lies in the block");
    client.session.withdraw();
    assert_eq!(engine.keyspace().arena().reserved_bytes(), 0);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn received_values_have_the_replies_and_effects_of_others() {
    check_histories(40, |seed| {
        let host = TestHost::default();
        let engines = [0, 1].map(|_| Engine::new(keyspace(8)));
        let sinks = engines.each_ref().map(|engine| recording_of(engine.keyspace()));
        let mut clients = engines.each_ref().map(|engine| Client::new(engine, &host));
        let mut random = Prng::new(seed);
        for _ in 0..60 {
            let key = [&b"a"[..], b"b", &[b'k'; 3000]][random.below(3) as usize];
            let value = vec![b'a' + random.below(26) as u8; 4_100 + random.below(40_000) as usize];
            let request: (&[&[u8]], usize) = match random.below(14) {
                0..3 => (&[b"SET", key, &value], 2),
                3 => (&[b"SET", key, &value, b"NX"], 2),
                4 => (&[b"SET", key, &value, b"XX", b"GET"], 2),
                5 => (&[b"SET", key, &value, b"PX", b"100000"], 2),
                6 => (&[b"SET", key, &value, b"KEEPTTL"], 2),
                7 => (&[b"SET", key, &value, b"PXAT", b"1"], 2),
                8 => (&[b"SETEX", key, b"100", &value], 3),
                9 => (&[b"PSETEX", key, b"0", &value], 3),
                10 => (&[b"SETNX", key, &value], 2),
                11 => (&[b"GETSET", key, &value], 2),
                12 => (&[b"APPEND", key, &value], 2),
                _ => (&[b"SETRANGE", key, b"7", &value], 3),
            };
            let expected = {
                let mut bytes = Vec::new();
                encode_command(request.0, &mut bytes);
                String::from_utf8(clients[0].run_bytes(&mut bytes, 0).0).unwrap()
            };
            assert_eq!(run_received(&mut clients[1], request.0, request.1), expected, "{seed}");
            if random.one_in(4) {
                let other = ["DEL a", "LPUSH b x", "APPEND a x", "RENAME b a", "EXPIRE a 100"]
                    [random.below(5) as usize];
                assert_eq!(clients[0].run(other), clients[1].run(other), "{seed}");
            }
        }
        assert_eq!(sinks[0].commands(), sinks[1].commands(), "seed {seed}");
        let [plain, received] = engines.each_ref().map(|engine| digest(engine.keyspace()));
        assert_eq!(plain, received, "seed {seed}");
        assert_eq!(digest(&replayed(&sinks[1])), received, "seed {seed}");
        60
    });
}

#[test]
fn room_for_received_values_is_made_by_evicting() {
    let engine = memory_limit::limited(300_000, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    let value = "x".repeat(50_000);
    for number in 0..40 {
        let key = format!("big:{number}");
        let words = [b"SET", key.as_bytes(), value.as_bytes()];
        assert_eq!(run_received(&mut client, &words, 2), "+OK\r\n");
        memory_limit::assert_within_limit(&engine);
    }
    client.check("STRLEN big:39", ":50000");
    assert!(engine.keyspace().counters().evicted_keys > 30);
}

#[test]
fn values_are_not_received_where_their_command_does_not_run_at_once() {
    let engine = Engine::new(keyspace(8));
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    let may = |client: &Client<'_>, head: &str| {
        let mut request = head.replace(' ', "\r\n").into_bytes();
        let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
        let _ = decoder.decode(&mut request, &mut batch, 1, &Limits::default());
        let awaited = decoder.awaited(&request).expect("its length is known");
        engine.may_reserve_for(&client.session, &awaited, &client.execution)
    };
    let set = "*3 $3 SET $1 k $100000 xx";
    assert!(may(&client, set) && may(&client, "*9 $3 sEt $1 k $100000 xx"));
    for head in [
        "*2 $3 SET $100000 xx",
        "*4 $3 SET $1 k $1 v $100000 xx",
        "*4 $5 SETNX $1 k $100000 xx",
        "*3 $5 SETEX $1 k $100000 xx",
        "*3 $6 APPEND $1 k $100000 xx",
        "*3 $4 MSET $1 k $100000 xx",
        "*3 $6 NOSUCH $1 k $100000 xx",
    ] {
        assert!(!may(&client, head), "{head}");
    }
    client.run("MULTI");
    assert!(!may(&client, set));
    client.run("DISCARD");
    host.pause.set(Some(Pause::Writes));
    assert!(!may(&client, set));
    host.pause.set(None);
    client.run("MONITOR");
    assert!(!may(&client, set));
    client.run("RESET");
    client.session.state.authenticated = false;
    assert!(!may(&client, set));
}
