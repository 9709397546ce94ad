//! The bounds of the table `local`, and whether they are met.

use serde_json::{Value as Json, json};

use super::floors::PingPong;
use super::ways::{Act, Row, Way, size_name};
use super::{Entry, Figures};

/// A figure and what it may be at most.
#[derive(Debug)]
pub struct Bound {
    name: String,
    /// Absent where the rows that it needs were not measured.
    found: Option<f64>,
    limit: f64,
    unit: &'static str,
}

impl Bound {
    fn new(name: impl Into<String>, found: Option<f64>, limit: f64, unit: &'static str) -> Bound {
        Bound { name: name.into(), found, limit, unit }
    }

    /// Returns the line that says whether it is met.
    pub fn line(&self) -> String {
        let (name, limit, unit) = (&self.name, self.limit, self.unit);
        match self.found {
            Some(found) => {
                let verdict = if found <= limit { "met    " } else { "NOT MET" };
                format!("{verdict} {name}: {found:.3}{unit}, at most {limit:.3}{unit}")
            }
            None => format!("absent  {name}: not measured, at most {limit:.3}{unit}"),
        }
    }

    /// Returns it for a result file.
    pub fn record(&self) -> Json {
        json!({
            "bound": self.name,
            "found": self.found,
            "limit": self.limit,
            "unit": self.unit.trim(),
            "met": self.found.map(|found| found <= self.limit),
        })
    }
}

/// What is not in the figures of rows.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// System calls of one-sided reads, if they could be counted.
    pub calls: Option<u64>,
    /// Allocations of one-sided reads of one value.
    pub allocations: Option<u64>,
}

/// Returns every bound for what was measured with `pipeline` over values of `sizes`.
pub fn all(figures: &Figures, counts: Counts, sizes: &[usize], pipeline: usize) -> Vec<Bound> {
    const SMALL: usize = 64;
    const MEBIBYTE: usize = 1 << 20;
    const LARGE: usize = 4 << 20;
    const NS: &str = " ns";
    let p50 = |entry| figures.p50(&entry);
    let row = |act, way, bytes, pipeline, is_asleep| {
        Entry::Row(Row { act, way, bytes, pipeline, clients: 1, is_asleep })
    };
    let time = |act, way, bytes| p50(row(act, way, bytes, 1, false));
    let ratio = |found: Option<f64>, base: Option<f64>| Some(found? / base?);
    let mut bounds = vec![
        Bound::new("GET 64 B one-sided, copied", time(Act::Get, Way::Copied, SMALL), 250.0, NS),
        Bound::new("GET 1 MiB one-sided, view", time(Act::Get, Way::View, MEBIBYTE), 500.0, NS),
        Bound::new(
            "system calls of 100,000 one-sided reads",
            counts.calls.map(|calls| calls as f64),
            0.0,
            "",
        ),
        Bound::new(
            "allocations of all one-sided GET",
            counts.allocations.map(|count| count as f64),
            0.0,
            "",
        ),
    ];
    for (is_asleep, suffix) in [(false, ""), (true, ", asleep")] {
        let lane = p50(row(Act::Set, Way::Lane, SMALL, 1, is_asleep));
        let found = ratio(lane, p50(Entry::PingPong(PingPong::Futex)));
        let name = format!("SET 64 B over a lane by a futex ping-pong{suffix}");
        bounds.push(Bound::new(name, found, 1.2, ""));
    }
    for (is_asleep, suffix) in [(false, ""), (true, ", both asleep")] {
        for act in [Act::Get, Act::Set] {
            let cpu = |way, pipeline| figures.cpu(&row(act, way, SMALL, pipeline, is_asleep));
            let lane = cpu(Way::Lane, pipeline);
            for (other, limit) in [(1, 1.0 / 5.0), (pipeline, 1.0 / 1.1)] {
                let act = act.name();
                let name = format!(
                    "server CPU, {act} 64 B, lane P{pipeline} by unix socket P{other}{suffix}"
                );
                bounds.push(Bound::new(name, ratio(lane, cpu(Way::Unix, other)), limit, ""));
            }
        }
    }
    let copy = p50(Entry::Copy(LARGE));
    for (way, name, limit) in Way::PUTS.into_iter().chain([(Way::Put, "put", f64::INFINITY)]) {
        let found = ratio(time(Act::Set, way, LARGE), copy);
        if limit.is_finite() {
            bounds.push(Bound::new(format!("{name} 4 MiB by memcpy"), found, limit, ""));
        }
        for &bytes in sizes {
            let unix = time(Act::Set, Way::Unix, bytes);
            let found = ratio(time(Act::Set, way, bytes), unix);
            let name = format!("{name} {} by SET over the unix socket", size_name(bytes));
            bounds.push(Bound::new(name, found, 1.0, ""));
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_is_met_up_to_its_limit_and_absent_without_a_figure() {
        let line = |found| Bound::new("x", found, 1.2, " ns").line();
        assert_eq!(line(Some(1.2)), "met     x: 1.200 ns, at most 1.200 ns");
        assert!(line(Some(1.21)).starts_with("NOT MET x"));
        assert!(line(None).starts_with("absent  x"));
        assert_eq!(Bound::new("x", None, 1.0, "").record()["met"], Json::Null);
    }
}
