//! CACHE ADVISE: what other memory and other policies would bring, in words.

use std::fmt::Write;

use keyspace::{AdaptiveReport, CacheAdvice, SizeClass};

use crate::host::observe::CacheOverview;
use crate::prelude::*;

pub(super) static ADVISE: Command = Command {
    name: "cache|advise",
    summary: "Tells in words what hit rates other memory and other policies would have.",
    since: "7.2.4",
    complexity: "O(S) with S the number of shards",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::UNGUARDED,
    note: "Hit rates are estimates from shadow caches, which follow some of the keys under \
           `maxmemory-policy adaptive` or `volatile-adaptive`; `INFO cache` has them as fields. \
           Sizes are from a sample of the keys.",
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    example: "> CACHE ADVISE\n...",
    handler: Handler::Session(|cx, _, reply| {
        let Some(overview) = cx.host.cache_overview() else {
            return Err(NOT_OBSERVED.into());
        };
        reply.verbatim(*b"txt", text(&overview));
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};

const NOT_OBSERVED: CommandError =
    CommandError::Fixed("ERR CACHE ADVISE is for servers; an embedded instance does not tell");

fn text(overview: &CacheOverview) -> String {
    let mut text = String::new();
    let policy = overview.report.policy.name();
    match &overview.report.adaptive {
        None => line(
            &mut text,
            format_args!(
                "The policy is {policy}, which follows no shadow caches: with maxmemory and \
                 maxmemory-policy adaptive there is advice."
            ),
        ),
        Some(AdaptiveReport { has_limit: false, .. }) => {
            line(
                &mut text,
                format_args!("There is no advice: without maxmemory nothing is evicted."),
            );
        }
        Some(AdaptiveReport { advice: None, epochs, .. }) => line(
            &mut text,
            format_args!(
                "There is no advice yet: it takes {} epochs, each of {} lookups for each key that \
                 maxmemory has room for. Ended so far: {epochs}.",
                AdaptiveReport::ADVICE_EPOCHS_MIN,
                AdaptiveReport::EPOCH_TURNOVERS
            ),
        ),
        Some(AdaptiveReport { advice: Some(advice), ghost_hits, policy_bytes, .. }) => {
            rates(&mut text, policy, advice);
            line(
                &mut text,
                format_args!(
                    "{ghost_hits} keys came back whose use was remembered; the policy takes \
                     {policy_bytes} bytes."
                ),
            );
        }
    }
    sizes(&mut text, &overview.sizes);
    text
}

fn rates(text: &mut String, policy: &str, advice: &CacheAdvice) {
    let percent = |rate: f64| rate * 100.0;
    line(text, format_args!("Hit rate under {policy}: {:.1} %.", percent(advice.now)));
    line(
        text,
        format_args!(
            "With half of the memory: {:.1} %; with twice the memory: {:.1} %.",
            percent(advice.half_memory),
            percent(advice.double_memory)
        ),
    );
    line(
        text,
        format_args!(
            "Under LRU you would have {:.1} %; with half of the memory {:.1} %, \
             with twice {:.1} %.",
            percent(advice.lru),
            percent(advice.lru_half_memory),
            percent(advice.lru_double_memory)
        ),
    );
}

fn sizes(text: &mut String, classes: &[SizeClass]) {
    let total: u64 = classes.iter().map(|class| class.bytes).sum();
    for SizeClass { bytes_max, keys, bytes } in classes {
        let bound = bytes_max.map_or("more".to_owned(), |most| format!("up to {most}"));
        let share = *bytes as f64 / total.max(1) as f64 * 100.0;
        line(text, format_args!("Keys of {bound} bytes: about {keys}, {share:.1} % of all bytes."));
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("a String takes any text");
}

#[cfg(test)]
mod tests {
    use keyspace::{CacheObjective, CacheReport, EvictionPolicy};

    use super::*;

    #[test]
    fn advice_is_told_once_there_is_some() {
        let advice = CacheAdvice {
            now: 0.831,
            half_memory: 0.7,
            double_memory: 0.9,
            lru: 0.681,
            lru_half_memory: 0.5,
            lru_double_memory: 0.8,
        };
        let adaptive = AdaptiveReport {
            advice: Some(advice),
            epochs: 3,
            has_limit: true,
            recent_percent: 10,
            ghost_hits: 77,
            key_bytes: 1000,
            policy_bytes: 4096,
        };
        let mut overview = CacheOverview {
            report: CacheReport {
                policy: EvictionPolicy::ADAPTIVE,
                objective: CacheObjective::Hits,
                adaptive: Some(adaptive),
            },
            sizes: vec![SizeClass { bytes_max: Some(64), keys: 3, bytes: 150 }],
        };
        let said = text(&overview);
        assert!(said.contains("83.1 %") && said.contains("LRU you would have 68.1 %"), "{said}");
        assert!(said.contains("77 keys came back") && said.contains("100.0 %"), "{said}");
        let early = AdaptiveReport { advice: None, epochs: 1, ..adaptive };
        overview.report.adaptive = Some(early);
        let said = text(&overview);
        assert!(
            said.contains("it takes 3 epochs, each of 2") && said.contains("far: 1."),
            "{said}"
        );
        overview.report.adaptive = Some(AdaptiveReport { has_limit: false, ..early });
        assert!(text(&overview).contains("without maxmemory"), "{}", text(&overview));
        overview.report.adaptive = None;
        assert!(text(&overview).contains("follows no shadow caches"));
    }
}
