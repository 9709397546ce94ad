//! Events that took long: the spikes that LATENCY tells of.

use std::sync::{Mutex, MutexGuard};

use command::{LatencyEvent, LatencySeries};

/// Spikes that are kept of each event, as in Redis.
const SAMPLES_MAX: usize = 160;

/// The spikes of all events.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    series: Mutex<[Series; LatencyEvent::ALL.len()]>,
}

#[derive(Debug, Default)]
struct Series {
    /// (Unix seconds, milliseconds), the oldest first.
    samples: Vec<(i64, u64)>,
    milliseconds_max: u64,
}

impl LatencyMonitor {
    /// Notes that `event` took so long in second `time_s`. Spikes of one second are one.
    pub fn note(&self, event: LatencyEvent, time_s: i64, milliseconds: u64) {
        let mut all = self.lock();
        let series = &mut all[event as usize];
        series.milliseconds_max = series.milliseconds_max.max(milliseconds);
        if let Some((last_s, longest)) = series.samples.last_mut()
            && *last_s == time_s
        {
            *longest = milliseconds.max(*longest);
            return;
        }
        if series.samples.len() == SAMPLES_MAX {
            series.samples.remove(0);
        }
        series.samples.push((time_s, milliseconds));
    }

    /// Returns the events that had spikes.
    pub fn series(&self) -> Vec<LatencySeries> {
        let all = self.lock();
        let each = LatencyEvent::ALL.into_iter().zip(all.iter());
        each.filter(|(_, series)| !series.samples.is_empty())
            .map(|(event, series)| LatencySeries {
                event,
                samples: series.samples.clone(),
                milliseconds_max: series.milliseconds_max,
            })
            .collect()
    }

    /// Forgets the spikes of `events` and returns of how many there were some.
    pub fn reset(&self, events: &[LatencyEvent]) -> usize {
        let mut all = self.lock();
        let mut count = 0;
        for &event in events {
            let series = std::mem::take(&mut all[event as usize]);
            count += usize::from(!series.samples.is_empty());
        }
        count
    }

    fn lock(&self) -> MutexGuard<'_, [Series; LatencyEvent::ALL.len()]> {
        self.series.lock().expect("no holder of the latency events panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_of_one_second_are_one_and_the_oldest_go() {
        let monitor = LatencyMonitor::default();
        monitor.note(LatencyEvent::Command, 5, 10);
        monitor.note(LatencyEvent::Command, 5, 30);
        monitor.note(LatencyEvent::Command, 5, 20);
        monitor.note(LatencyEvent::ExpireCycle, 5, 1);
        let found = monitor.series();
        assert_eq!((found[0].samples.as_slice(), found[0].milliseconds_max), (&[(5, 30)][..], 30));
        assert_eq!(found.len(), 2);
        for second in 10..10 + SAMPLES_MAX as i64 {
            monitor.note(LatencyEvent::Command, second, 1);
        }
        let found = &monitor.series()[0];
        assert_eq!(
            (found.samples.len(), found.samples[0], found.milliseconds_max),
            (160, (10, 1), 30)
        );
    }

    #[test]
    fn events_are_forgotten_one_by_one() {
        let monitor = LatencyMonitor::default();
        monitor.note(LatencyEvent::Command, 1, 1);
        assert_eq!(monitor.reset(&[LatencyEvent::FastCommand]), 0);
        assert_eq!(monitor.reset(&LatencyEvent::ALL), 1);
        assert_eq!(monitor.series(), []);
    }
}
