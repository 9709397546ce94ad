//! WATCH, as Redis has it.

use super::*;
use crate::{
    Access, AwaitedNames, Expiry, Guard, NewWait, QueuePlace, ValueType, WaitEnd, WaitState, Waits,
    Watches,
};
use base::step_counters::{self, CountedStep};

/// Watches "k" at `now`, lets `change` happen, and returns whether EXEC at `exec_at` would run.
fn holds(fixture: &Fixture, now: UnixMs, exec_at: UnixMs, change: impl FnOnce()) -> bool {
    let mut watches = Watches::default();
    let key = fixture.key("k");
    fixture.keyspace.watch(&mut watches, DB0, &[key], now);
    change();
    let mut guard = fixture.keyspace.lock(key.shard);
    let holds = guard.watches_hold(&watches, exec_at);
    guard.unwatch(&mut watches);
    assert!(watches.is_empty());
    holds
}

#[test]
fn any_change_of_the_key_ends_the_watch() {
    let fixture = Fixture::new();
    assert!(holds(&fixture, NOW, NOW, || {}));
    assert!(!holds(&fixture, NOW, NOW, || fixture.set("k", "v")));
    assert!(!holds(&fixture, NOW, NOW, || fixture.set("k", "v")), "the same value");
    assert!(!holds(&fixture, NOW, NOW, || {
        fixture.write("k", NOW, |view, key| view.append(key, b"x")).unwrap();
    }));
    assert!(!holds(&fixture, NOW, NOW, || {
        fixture.write("k", NOW, |view, key| view.set_expiry(key, later(10_000))).unwrap();
    }));
    assert!(!holds(&fixture, NOW, NOW, || {
        fixture.write("k", NOW, |view, key| view.remove(key));
    }));
    assert!(
        holds(&fixture, NOW, NOW, || {
            fixture.write("k", NOW, |view, key| view.remove(key));
        }),
        "it was absent"
    );
    assert!(holds(&fixture, NOW, NOW, || fixture.set("other", "v")));
    assert!(
        holds(&fixture, NOW, NOW, || {
            let key = fixture.key("k");
            let mut guard = fixture.keyspace.lock(key.shard);
            guard.write(DB1, NOW).set(&key, b"v", Expiry::Clear).unwrap();
        }),
        "another database"
    );
}

#[test]
fn key_that_expires_after_watch_ends_it() {
    let fixture = Fixture::new();
    fixture.set_until("k", "v", later(10));
    assert!(holds(&fixture, NOW, later(10), || {}));
    assert!(!holds(&fixture, NOW, later(11), || {}), "expired, not swept");
    assert!(
        !holds(&fixture, NOW, later(11), || {
            fixture.keyspace.expire_step(fixture.key("k").shard, later(11), 10);
        }),
        "swept"
    );
}

#[test]
fn key_that_had_expired_at_watch_does_not_end_it() {
    let fixture = Fixture::new();
    let shard = fixture.key("k").shard;
    fixture.set_until("k", "v", later(10));
    assert!(holds(&fixture, later(20), later(21), || {}));
    assert!(holds(&fixture, later(20), later(21), || {
        fixture.keyspace.expire_step(shard, later(20), 10);
    }));
    fixture.set_until("k", "v", later(10));
    assert!(
        !holds(&fixture, later(20), later(21), || {
            fixture
                .write("k", later(20), |view, key| view.set(key, b"new", Expiry::Clear))
                .unwrap();
        }),
        "a new value is a change"
    );
    fixture.set_until("k", "v", later(10));
    assert!(
        !holds(&fixture, later(20), later(21), || {
            fixture.keyspace.expire_step(shard, later(20), 10);
            fixture.set("k", "new");
        }),
        "after the removal it is watched as absent"
    );
}

#[test]
fn flush_and_swap_touch_the_watchers_of_keys_that_come_or_go() {
    let fixture = Fixture::new();
    let flush = || Access::free(&fixture.keyspace).flush_all(later(20));
    let flush_one = || Access::free(&fixture.keyspace).flush_database(DB0, later(20));
    let swap = || Access::free(&fixture.keyspace).swap_databases(DB0, DB1, later(20)).unwrap();
    assert!(holds(&fixture, NOW, NOW, flush), "absent before and after");
    fixture.set("k", "v");
    assert!(!holds(&fixture, NOW, NOW, flush));
    fixture.set("k", "v");
    assert!(!holds(&fixture, NOW, NOW, flush_one));
    fixture.set("other", "v");
    assert!(holds(&fixture, NOW, NOW, swap));
    fixture.set("k", "v");
    assert!(!holds(&fixture, NOW, NOW, swap), "it goes");
    assert!(!holds(&fixture, NOW, NOW, swap), "it comes");
    flush();
    fixture.set_until("k", "v", later(10));
    assert!(holds(&fixture, later(20), later(21), flush), "expired at WATCH, now gone");
    fixture.set_until("k", "v", later(10));
    assert!(holds(&fixture, later(20), later(21), swap), "expired at WATCH, now absent");
    assert!(holds(&fixture, later(20), later(21), swap), "an expired key comes for an absent one");
}

#[test]
fn watches_of_a_lost_session_are_forgotten_at_the_next_change() {
    let fixture = Fixture::new();
    let key = fixture.key("k");
    let mut watches = Watches::default();
    fixture.keyspace.watch(&mut watches, DB0, &[key, key], NOW);
    assert_eq!(watches.len(), 1, "a key is watched once");
    drop(watches);
    fixture.set("k", "v");
    let mut guard = fixture.keyspace.lock(key.shard);
    assert!(guard.shard_mut(key.shard).watches.is_empty());
}

#[test]
fn watch_memory_is_charged_and_given_back() {
    let fixture = Fixture::new();
    let before = fixture.keyspace.private_bytes();
    let mut watches = Watches::default();
    fixture.keyspace.watch(&mut watches, DB0, &[fixture.key("a"), fixture.key("b")], NOW);
    assert!(fixture.keyspace.private_bytes() > before);
    fixture.keyspace.unwatch(&mut watches);
    assert_eq!(fixture.keyspace.private_bytes(), before);
}

#[test]
fn watching_many_keys_costs_each_what_it_costs_one() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..5_000).map(|number| format!("{{t}}{number}")).collect();
    let keys: Vec<Key<'_>> = names.iter().map(|name| fixture.key(name)).collect();
    let mut watches = Watches::default();
    let looks = step_counters::steps_of(CountedStep::Registration, || {
        fixture.keyspace.watch(&mut watches, DB0, &keys, NOW);
        fixture.keyspace.watch(&mut watches, DB0, &keys, NOW);
        assert_eq!(watches.len(), keys.len());
        let mut guard = fixture.keyspace.lock(keys[0].shard);
        assert!(guard.watches_hold(&watches, NOW));
        guard.unwatch(&mut watches);
        drop(guard);
        fixture.keyspace.watch(&mut watches, DB0, &keys, NOW);
        fixture.keyspace.unwatch(&mut watches);
    });
    assert!(looks <= 3 * keys.len() as u64, "{looks} looks");
    assert!(watches.is_empty() && watches.bytes() == 0);
}

#[test]
fn watching_a_key_that_many_watch_costs_what_it_costs_the_first() {
    let fixture = Fixture::new();
    let key = fixture.key("k");
    let mut sessions: Vec<Watches> = (0..2_000).map(|_| Watches::default()).collect();
    let looks = step_counters::steps_of(CountedStep::Registration, || {
        for watches in &mut sessions {
            fixture.keyspace.watch(watches, DB0, &[key], NOW);
        }
        for watches in &mut sessions {
            let mut guard = fixture.keyspace.lock(key.shard);
            assert!(guard.watches_hold(watches, NOW));
            guard.unwatch(watches);
        }
    });
    assert_eq!(looks, 0);
    let mut guard = fixture.keyspace.lock(key.shard);
    assert!(guard.shard_mut(key.shard).watches.is_empty());
}

/// Has session `number` wait for `keys`, of `value_type` where one is said.
fn begin_wait(
    guard: &mut Guard<'_>,
    waits: &mut Waits,
    number: u64,
    keys: &[Key<'_>],
    value_type: Option<ValueType>,
) {
    let names = AwaitedNames::of(keys, guard.keyspace());
    let wait = NewWait {
        session: number,
        place: 0,
        database: DB0,
        keys,
        names: &names,
        value_type,
        end: WaitEnd::Key,
        request: Box::new(()),
        bytes: 1,
    };
    guard.begin_wait(waits, wait);
}

#[test]
fn waiting_for_many_keys_costs_each_what_it_costs_one() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..5_000).map(|number| format!("{{t}}{number}")).collect();
    let keys: Vec<Key<'_>> = names.iter().map(|name| fixture.key(name)).collect();
    let mut sessions: Vec<Waits> = (0..4).map(|_| Waits::default()).collect();
    let looks = step_counters::steps_of(CountedStep::Registration, || {
        for (number, waits) in sessions.iter_mut().enumerate() {
            let mut guard = fixture.keyspace.lock(keys[0].shard);
            begin_wait(&mut guard, waits, number as u64, &keys, None);
        }
        for name in &names {
            fixture.set(&format!("{name} unawaited"), "v");
        }
        for waits in &mut sessions {
            fixture.keyspace.end_wait(waits, NOW);
        }
    });
    assert_eq!(looks, 0);
}

#[test]
fn a_key_that_a_wait_names_often_counts_once() {
    let fixture = Fixture::new();
    let key = fixture.key("k");
    let keys = vec![key; 10_000];
    let mut waits = Waits::default();
    begin_wait(&mut fixture.keyspace.lock(key.shard), &mut waits, 1, &keys, None);
    let looks = step_counters::steps_of(CountedStep::Registration, || {
        fixture.set("k", "v");
        let ready = fixture.keyspace.take_unserved();
        assert_eq!(ready.iter().count(), 1);
        let mut guard = fixture.keyspace.lock(key.shard);
        let first = guard.next_waiter(ready.iter().next().unwrap(), None, false, NOW).unwrap();
        assert!(
            guard.next_waiter(ready.iter().next().unwrap(), Some(first.0), false, NOW).is_none()
        );
    });
    assert!(looks < 10, "{looks} looks");
    fixture.keyspace.end_wait(&mut waits, NOW);
}

#[test]
fn who_wants_another_type_is_no_step_for_anybody() {
    let fixture = Fixture::new();
    let key = fixture.key("k");
    let wanted = |number: usize| match number {
        500 | 1_500 => None,
        _ => Some(ValueType::List),
    };
    let mut sessions: Vec<Waits> = (0..2_000).map(|_| Waits::default()).collect();
    for (number, waits) in sessions.iter_mut().enumerate() {
        let mut guard = fixture.keyspace.lock(key.shard);
        begin_wait(&mut guard, waits, number as u64, &[key], wanted(number));
    }
    let looks = step_counters::steps_of(CountedStep::Registration, || {
        fixture.set("k", "v");
        let ready = fixture.keyspace.take_unserved();
        let ready = ready.iter().next().unwrap();
        let mut guard = fixture.keyspace.lock(key.shard);
        let mut place: Option<QueuePlace> = None;
        let mut found = Vec::new();
        while let Some((next, waiter)) = guard.next_waiter(ready, place, false, NOW) {
            place = Some(next);
            found.push(waiter.wakeup().session);
        }
        assert_eq!(found, [500, 1_500]);
    });
    assert!(looks < 10, "{looks} looks");
    sessions.iter_mut().for_each(|waits| drop(fixture.keyspace.end_wait(waits, NOW)));
}

#[test]
fn only_what_makes_a_key_exist_or_another_one_is_told() {
    let fixture = Fixture::new();
    let key = fixture.key("k");
    let mut waits = Waits::default();
    begin_wait(&mut fixture.keyspace.lock(key.shard), &mut waits, 1, &[key], Some(ValueType::List));
    let told = |change: &dyn Fn()| {
        change();
        !fixture.keyspace.take_unserved().is_empty()
    };
    assert!(told(&|| fixture.set("k", "v")));
    assert!(!told(&|| fixture.set("k", "w")), "an overwrite");
    assert!(!told(&|| {
        fixture.write("k", NOW, |view, key| view.append(key, b"x")).unwrap();
    }));
    assert!(!told(&|| {
        fixture.write("k", NOW, |view, key| view.set_expiry(key, later(10))).unwrap();
    }));
    // It may have expired for the session that waits, whose time was another.
    assert!(told(&|| {
        fixture.write("k", NOW, |view, key| view.set_expiry(key, later(20))).unwrap();
    }));
    assert!(told(&|| fixture.set("k", "x")));
    assert!(!told(&|| {
        fixture.write("k", NOW, |view, key| view.remove(key));
    }));
    // A long value stays where it lies.
    for value in ["short", "long".repeat(5_000).as_str()] {
        assert!(told(&|| {
            fixture.set("{k}", value);
            let renamed = fixture.write("{k}", NOW, |view, other| view.rename(other, &key));
            assert!(renamed.unwrap());
        }));
        fixture.write("k", NOW, |view, key| view.remove(key));
    }
    fixture.keyspace.end_wait(&mut waits, NOW);
}

#[test]
fn a_wait_that_ends_takes_each_shard_once_for_a_thousand_keys() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..3_000).map(|number| format!("{{t}}{number}")).collect();
    let keys: Vec<Key<'_>> = names.iter().map(|name| fixture.key(name)).collect();
    let mut waits = Waits::default();
    begin_wait(&mut fixture.keyspace.lock(keys[0].shard), &mut waits, 1, &keys, None);
    let locks = step_counters::steps_of(CountedStep::Lock, || {
        drop(fixture.keyspace.end_wait(&mut waits, NOW))
    });
    assert_eq!(locks, 3);
    // Those of one shard stand together, whatever their order in the request.
    let names: Vec<String> = (0..800).map(|number| format!("key:{number}")).collect();
    let apart: Vec<Key<'_>> = names.iter().map(|name| fixture.key(name)).collect();
    begin_wait(&mut fixture.keyspace.lock_keys(&apart), &mut waits, 1, &apart, None);
    let locks = step_counters::steps_of(CountedStep::Lock, || {
        drop(fixture.keyspace.end_wait(&mut waits, NOW))
    });
    assert_eq!(locks, fixture.keyspace.shard_count() as u64);
    let mut guard = fixture.keyspace.lock(keys[0].shard);
    assert!(guard.shard_mut(keys[0].shard).waits.is_empty() && waits.bytes() == 0);
}

#[test]
fn a_wait_that_goes_on_leaves_those_of_its_keys_that_are_there() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..3_000).map(|number| format!("{{t}}{number}")).collect();
    let keys: Vec<Key<'_>> = names.iter().map(|name| fixture.key(name)).collect();
    let mut waits = Waits::default();
    begin_wait(&mut fixture.keyspace.lock(keys[0].shard), &mut waits, 1, &keys, None);
    fixture.set(&names[7], "v");
    assert_eq!(fixture.keyspace.take_unserved().iter().count(), 1);
    *waits.current().unwrap().state() = WaitState::Told { blocks_others: true };
    let locks = step_counters::steps_of(CountedStep::Lock, || {
        fixture.keyspace.leave_unserved(&mut waits, NOW);
    });
    assert_eq!(locks, 3);
    assert!(matches!(*waits.current().unwrap().state(), WaitState::Open));
    assert_eq!(fixture.keyspace.take_unserved().iter().count(), 1);
    fixture.keyspace.end_wait(&mut waits, NOW);
}
