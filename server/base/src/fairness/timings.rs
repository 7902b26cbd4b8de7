//! Metrics of queues: waiting times and refusals, by queue and by class of owner. Organizations are not labels, because
//! their number is unbounded.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper bounds of the buckets, seconds: up to the longest wait.
const BUCKETS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 20.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    queue: &'static str,
    class: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    queue: &'static str,
    class: &'static str,
    reason: &'static str,
}

/// The metrics of all queues.
#[derive(Debug, Clone)]
pub struct QueueTimings {
    waits: Family<WaitLabels, Histogram, fn() -> Histogram>,
    refusals: Family<RefusalLabels, Counter>,
}

impl Default for QueueTimings {
    fn default() -> Self {
        Self { waits: Family::new_with_constructor(|| Histogram::new(BUCKETS)), refusals: Family::default() }
    }
}

impl QueueTimings {
    /// Records a turn that was granted after `wait`.
    pub(crate) fn record_wait(&self, queue: &'static str, class: &'static str, wait: Duration) {
        self.waits.get_or_create(&WaitLabels { queue, class }).observe(wait.as_secs_f64());
    }

    /// Records a refused turn.
    pub(crate) fn record_refusal(&self, queue: &'static str, class: &'static str, reason: &'static str) {
        self.refusals.get_or_create(&RefusalLabels { queue, class, reason }).inc();
    }

    /// Returns the number of refusals.
    #[cfg(test)]
    pub(crate) fn refusals(&self, queue: &'static str, class: &'static str, reason: &'static str) -> u64 {
        self.refusals.get_or_create(&RefusalLabels { queue, class, reason }).get()
    }

    /// Registers the metrics.
    pub(crate) fn register(&self, all: &mut Registry) {
        all.register_with_unit(
            "queue_wait",
            "Time that work waited for its turn, by queue and class of its owner",
            Unit::Seconds,
            self.waits.clone(),
        );
        all.register(
            "queue_refusals",
            "Work that got no turn, by queue, class of its owner and limit (`owner`, `total`, `late`)",
            self.refusals.clone(),
        );
    }
}
