//! DEBUG DIGEST and DEBUG DIGEST-VALUE agree with Redis to the bit.

use crate::support::World;

/// The digests are those of redis-server 7.0.15 after the same requests.
#[test]
fn digests_are_those_of_redis() {
    let mut world = World::new();
    let digest = |world: &mut World| world.ask("DEBUG DIGEST");
    assert_eq!(digest(&mut world), "0000000000000000000000000000000000000000");
    world.ask("SET lake deep");
    assert_eq!(digest(&mut world), ONE_KEY);
    world.ask("SET hill 12 EX 1000");
    assert_eq!(digest(&mut world), TWO_KEYS);
    world.ask("SELECT 3");
    world.ask("SET river long");
    assert_eq!(digest(&mut world), TWO_DATABASES);
    world.ask("SELECT 0");
    let values = world.ask("DEBUG DIGEST-VALUE lake hill river");
    assert_eq!(values, VALUES);
    world.ask("PERSIST hill");
    assert_ne!(digest(&mut world), TWO_DATABASES);
}

const ONE_KEY: &str = "fe3f922150746f39264dcadbd43c272ee97768fd";
const TWO_KEYS: &str = "ad4f02e4ba65256e6bf5520600c0054bfe1a4ca0";
const TWO_DATABASES: &str = "26c87e3f38955baf02c45bc345932aa44296e080";
const VALUES: &str = "1) 3060458f990907330690eb23d0ce04409b97d866\n\
                      2) 83df3a94c43338a2db2a05ddb5dbb794b842c619\n\
                      3) 0000000000000000000000000000000000000000";

/// What has no order gives the same digest in any.
#[test]
fn digests_of_collections_are_those_of_redis() {
    let mut world = World::new();
    world.ask("RPUSH list a 1 b");
    world.ask("SADD set y 2 x");
    world.ask("HSET hash g 7 f v");
    assert_eq!(world.ask("DEBUG DIGEST-VALUE list set hash"), COLLECTIONS);
    world.ask("DEL list set");
    assert_eq!(world.ask("DEBUG DIGEST"), ONE_HASH);
}

const COLLECTIONS: &str = "1) d5f44352f6226abea9252dad248ef5de0d964396\n\
                           2) eccffdbd2837a69a1e4b1375f1229f14c0974e6e\n\
                           3) 42e8aee1f7247f7f7997132f31f0ea5085e70d29";
const ONE_HASH: &str = "ea56e1663ca115ea734ac11741f7a8f481bd6c5d";

/// That of redis-server 7.0.15: entries in order, whatever their groups have read.
#[test]
fn the_digest_of_a_stream_is_that_of_redis() {
    let mut world = World::new();
    for line in [
        "XADD s 5-1 a 1 b two",
        "XADD s 5-2 a 2 b three",
        "XADD s 7-0 c 3",
        "XADD s 8-0 a 4 b x",
        "XDEL s 5-2",
        "XGROUP CREATE s g 0",
    ] {
        world.ask(line);
    }
    assert_eq!(world.ask("DEBUG DIGEST-VALUE s"), "1) 0ed1921967a7802d195184a4ec4b6fed44a7208a");
}
