//! Commands whose cost does not depend on what is beside what they return: steps are counted.

use std::collections::BTreeSet;

use base::step_counters::{CountedStep, steps_of};

use super::*;

/// Runs `request` and returns its reply and how often it makes `step`.
fn counted(client: &mut Client<'_>, step: CountedStep, request: &str) -> (String, u64) {
    let mut reply = String::new();
    let steps = steps_of(step, || reply = client.run(request));
    (reply, steps)
}

#[test]
fn elements_that_are_sorted_by_one_text_compare_it_once() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let long = "x".repeat(5_000);
    // Equal texts of different keys and of one, one that differs at its end, and none.
    client.run(&format!("MSET {{w}}a {long} {{w}}b {long} {{w}}c {long}y"));
    let elements = ["c", "a", "none", "b"].repeat(250);
    client.run(&format!("RPUSH {{w}}l {}", elements.join(" ")));
    let sort = "SORT {w}l BY {w}* ALPHA LIMIT 0 1000";
    let (reply, steps) = counted(&mut client, CountedStep::Text, sort);
    assert!((2..=10).contains(&steps), "{steps} texts were compared");
    let in_order: Vec<String> = (["none"].repeat(250).into_iter())
        .chain(["a", "b"].repeat(250))
        .chain(["c"].repeat(250))
        .map(|element| format!("${} {element}", element.len()))
        .collect();
    assert_eq!(reply, format!("*1000 {}", in_order.join(" ")));
    let (reversed, steps) =
        counted(&mut client, CountedStep::Text, "SORT {w}l BY {w}* ALPHA DESC LIMIT 0 251");
    assert!((2..=10).contains(&steps), "{steps} texts were compared");
    let in_order = ["c"].repeat(250).into_iter().chain(["a"]);
    let in_order: Vec<String> = in_order.map(|element| format!("$1 {element}")).collect();
    assert_eq!(reversed, format!("*251 {}", in_order.join(" ")));
}

#[test]
fn random_fields_cost_little_beside_fields_that_have_expired() {
    const COUNT: usize = 2_000;
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let field = |number: usize| format!("f{number}");
    let parts: Vec<String> =
        (0..COUNT).map(|number| format!("{} {number}", field(number))).collect();
    client.run(&format!("HSET h {}", parts.join(" ")));
    // Five of six expire.
    let gone: Vec<String> = (0..COUNT).filter(|number| number % 6 != 0).map(field).collect();
    client.run(&format!("HPEXPIRE h 10 FIELDS {} {}", gone.len(), gone.join(" ")));
    client.execution.now.0 += 11;
    let is_live = |number: &str| number.parse::<usize>().unwrap() % 6 == 0;
    let mut seen = BTreeSet::new();
    for request in ["HRANDFIELD h", "HRANDFIELD h -3 WITHVALUES", "HRANDFIELD h 5 WITHVALUES"] {
        for _ in 0..50 {
            let (reply, steps) = counted(&mut client, CountedStep::Member, request);
            assert!(steps < COUNT as u64 / 2, "{steps} steps for {request}");
            let words = reply.split(' ').filter(|word| !word.starts_with(['*', '$']));
            let fields: Vec<&str> = words.filter_map(|word| word.strip_prefix('f')).collect();
            assert!(!fields.is_empty() && fields.iter().all(|number| is_live(number)), "{reply}");
            let different: BTreeSet<&&str> = fields.iter().collect();
            assert!(request.contains('-') || different.len() == fields.len(), "{reply}");
            seen.extend(fields.into_iter().map(str::to_owned));
        }
    }
    assert!(seen.len() > COUNT / 12, "all that are left are drawn: {} of them", seen.len());
    let all = client.run(&format!("HRANDFIELD h {COUNT}"));
    assert_eq!(all.matches('f').count(), COUNT.div_ceil(6));
}
