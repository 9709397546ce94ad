//! GEOSEARCH BYPOLYGON, which redis-server does not have: the replies are those of Valkey 9.

use resp::Value;

use crate::support::World;

/// Places in Sydney and a polygon around some of them.
fn sydney() -> World {
    let mut world = World::new();
    world.ask(
        "GEOADD points 151.20932132005692 -33.877723137822436 elizabeth \
         151.2119820713997 -33.87697539508043 liverpool 151.2119820713997 -33.87156123068408 james \
         151.2229523062706 -33.883973760201364 oxford 151.22852593660355 -33.88116782387797 \
         goodhope 151.2224105000496 -33.87544442350019 cross 151.22953444719315 \
         -33.874838625143106 oval",
    );
    world
}

const AREA: &str = "BYPOLYGON 11 151.21619137411474 -33.869643764947696 151.20408853981647 \
    -33.87845382042545 151.2123775086366 -33.87864711938855 151.21046943124387 -33.87588862400425 \
    151.21701035939626 -33.874286511854834 151.2239557405701 -33.8735722632175 151.22495056246407 \
    -33.87893571656996 151.2274447496748 -33.882307713036354 151.23212935868654 -33.88136096120022 \
    151.23097291274465 -33.87456240592362 151.22475424781445 -33.87099633192101";

fn unquoted(world: &mut World, line: &str) -> String {
    world.ask(line).replace('"', "")
}

#[test]
fn what_is_inside_is_found_and_its_distance_is_that_from_the_middle_of_the_vertices() {
    let mut world = sydney();
    let found = unquoted(&mut world, &format!("GEOSEARCH points {AREA}"));
    assert_eq!(found, "1) goodhope\n2) oval\n3) elizabeth");
    let found = unquoted(&mut world, &format!("GEOSEARCH points {AREA} ASC WITHDIST WITHCOORD"));
    assert_eq!(
        found,
        "1) 1) oval\n   2) 858.3013\n   \
            3) 1) 151.22953444719314575\n      2) -33.87483862514310573\n\
         2) 1) goodhope\n   2) 929.4979\n   \
            3) 1) 151.22852593660354614\n      2) -33.88116782387797343\n\
         3) 1) elizabeth\n   2) 1035.7735\n   \
            3) 1) 151.20932132005691528\n      2) -33.87772313782243572"
    );
    let line = format!("GEOSEARCHSTORE near points {AREA} ASC STOREDIST COUNT 2");
    assert_eq!(unquoted(&mut world, &line), "(integer) 2");
    assert_eq!(unquoted(&mut world, "ZRANGE near 0 -1"), "1) oval\n2) goodhope");
}

#[test]
fn edges_may_cross() {
    let star = "BYPOLYGON 5 151.2154285314146 -33.867438205607186 151.20024487595015 \
        -33.88138572784347 151.2374118848648 -33.87601765283626 151.19695829592922 \
        -33.87272872054441 151.2278336546125 -33.88345323146266";
    let found = unquoted(&mut sydney(), &format!("GEOSEARCH points {star}"));
    assert_eq!(found, "1) elizabeth\n2) james\n3) cross");
}

#[test]
fn a_polygon_stands_alone_and_has_three_vertices() {
    let triangle = "BYPOLYGON 3 151 -34 152 -34 151.5 -33";
    for (options, reply) in [
        ("BYPOLYGON 2 151 -34 152 -34", "at least 3 vertices"),
        ("BYPOLYGON 3 151 -34 152 -34", "at least 3 vertices"),
        ("BYPOLYGON 3 151 -34 152 -34 151", "at least 3 vertices"),
        ("BYPOLYGON -3 151 -34 152 -34 151.5 -33", "at least 3 vertices"),
        ("BYPOLYGON x 151 -34 152 -34 151.5 -33", "invalid number of vertices"),
        ("BYPOLYGON 4294967299 151 -34 152 -34 151.5 -33", "invalid number of vertices"),
        ("BYPOLYGON 3 151 -34 152 -34 151.5 -99", "invalid longitude,latitude pair 151.500000,-99"),
        (&format!("{triangle} BYBOX 400 400 km"), "syntax error"),
        (&format!("{triangle} BYRADIUS 400 km"), "syntax error"),
        (&format!("BYBOX 400 400 km {triangle}"), "syntax error"),
        (&format!("BYRADIUS 500 km {triangle}"), "syntax error"),
        (&format!("{triangle} FROMLONLAT 151 -33"), "syntax error"),
        (&format!("{triangle} FROMMEMBER oval"), "syntax error"),
        (&format!("FROMMEMBER oval {triangle}"), "syntax error"),
        (&format!("{triangle} ANY"), "the ANY argument requires COUNT argument"),
    ] {
        let found = sydney().ask(&format!("GEOSEARCH points {options}"));
        assert!(found.starts_with("(error) ERR ") && found.contains(reply), "{options}: {found}");
    }
}

#[test]
fn a_polygon_that_costs_too_much_is_refused() {
    const PLACES: u32 = 33_000;
    const VERTICES: u32 = 66_000;
    let mut world = World::new();
    let mut add = vec![b"GEOADD".to_vec(), b"many".to_vec()];
    for index in 0..PLACES {
        let degrees = 1.0 + f64::from(index) / 40_000.0;
        add.extend([degrees, degrees].map(|it| it.to_string().into_bytes()));
        add.push(index.to_string().into_bytes());
    }
    world.run(&add.iter().map(Vec::as_slice).collect::<Vec<_>>());
    // All edges go from the south to the north, or back.
    let mut search = vec![b"GEOSEARCH".to_vec(), b"many".to_vec(), b"BYPOLYGON".to_vec()];
    let mut ask = |count: u32| {
        search.truncate(3);
        search.push(count.to_string().into_bytes());
        for index in 0..count {
            let longitude = f64::from(index) / f64::from(VERTICES);
            let latitude = f64::from(index % 2 * 2 + 1);
            search.extend([longitude, latitude].map(|it| it.to_string().into_bytes()));
        }
        world.run(&search.iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    assert!(
        matches!(ask(VERTICES), Value::Error(text) if text.starts_with(b"ERR BYPOLYGON has too"))
    );
    assert_eq!(ask(100), Value::Array(vec![]));
}
