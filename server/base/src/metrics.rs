//! Metrics for Prometheus. Labels are routes, methods, states and codes: words of the program, never an id, a name or
//! any personal data.
//!
//! Requests, calls and transactions are counted when they end; figures of the tables, the store and the process are
//! queried on each scrape, by the crate above. To add a metric: a field and a line in `Metrics::registry`, or a figure in
//! `figures`; the table in `OPERATION.md` follows (`undertone-server config --metrics`).

mod figures;
mod limit;
mod process;
mod text;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::Error;
use crate::fairness::QueueTimings;

pub use figures::{CertificateDays, Figures, ServerStatistics};
pub use limit::Limit;
pub use text::table;

/// Upper bounds of the buckets, seconds: from reading a row to a long poll.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The time for which figures are cached, because a store may contain many objects.
const FRESH: Duration = Duration::from_secs(10);

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

fn durations<L: Clone + std::hash::Hash + Eq>() -> Durations<L> {
    Family::new_with_constructor(|| Histogram::new(BUCKETS))
}

/// A request of REST or the dashboard.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

/// A call of gRPC.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: String,
    code: &'static str,
}

/// A writing transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TransactionLabels {
    name: &'static str,
}

/// A writing transaction with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    name: &'static str,
    outcome: &'static str,
}

/// The timings of transactions, which the database owns.
#[derive(Clone, Debug)]
pub struct Transactions {
    waits: Durations<TransactionLabels>,
    durations: Durations<OutcomeLabels>,
    retries: Family<TransactionLabels, Counter>,
    statements: Family<TransactionLabels, Counter>,
    queues: QueueTimings,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            waits: durations(),
            durations: durations(),
            retries: Family::default(),
            statements: Family::default(),
            queues: QueueTimings::default(),
        }
    }
}

impl Transactions {
    /// Records a finished transaction: the `wait` for its turn, its duration, and its number of `statements`.
    pub(crate) fn record_end(
        &self,
        name: &'static str,
        committed: bool,
        wait: Duration,
        took: Duration,
        statements: u64,
    ) {
        let outcome = if committed { "committed" } else { "rolled back" };
        self.waits.get_or_create(&TransactionLabels { name }).observe(wait.as_secs_f64());
        self.durations.get_or_create(&OutcomeLabels { name, outcome }).observe(took.as_secs_f64());
        self.statements.get_or_create(&TransactionLabels { name }).inc_by(statements);
    }

    /// Returns the number of statements of all transactions with this name.
    #[cfg(any(test, feature = "testing"))]
    pub fn statements(&self, name: &'static str) -> u64 {
        self.statements.get_or_create(&TransactionLabels { name }).get()
    }

    /// Returns the timings of queues, shared by all queues of the server.
    pub const fn queues(&self) -> &QueueTimings {
        &self.queues
    }

    /// Counts a retried transaction.
    pub(crate) fn count_retry(&self, name: &'static str) {
        self.retries.get_or_create(&TransactionLabels { name }).inc();
    }
}

/// The counters and timings.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<MetricParts>);

#[derive(Debug)]
struct MetricParts {
    requests: Durations<RequestLabels>,
    calls: Durations<CallLabels>,
    turned_away: Counter,
    limits: Family<limit::LimitLabel, Counter>,
    transactions: Transactions,
    figures: Mutex<Option<(Instant, Figures)>>,
}

impl Metrics {
    /// Makes metrics without counts, with the transactions of this database.
    pub fn new(transactions: Transactions) -> Self {
        let (requests, calls) = (durations(), durations());
        Self(Arc::new(MetricParts {
            requests,
            calls,
            turned_away: Counter::default(),
            limits: Limit::ALL.into_iter().fold(Family::default(), |limits, limit| {
                drop(limits.get_or_create(&limit::LimitLabel { limit: limit.label() }));
                limits
            }),
            transactions,
            figures: Mutex::default(),
        }))
    }

    /// Makes metrics with one sample of every label, for the list of all metrics: a metric without samples is not
    /// printed.
    fn one_of_each() -> Self {
        let all = Self::new(Transactions::default());
        let MetricParts { requests, calls, transactions, .. } = &*all.0;
        drop(requests.get_or_create(&RequestLabels { method: "GET", route: String::new(), status: 200 }));
        drop(calls.get_or_create(&CallLabels { method: String::new(), code: "ok" }));
        transactions.record_end("", true, Duration::ZERO, Duration::ZERO, 0);
        transactions.count_retry("");
        transactions.queues.record_wait("", "", Duration::ZERO);
        transactions.queues.record_refusal("", "", "");
        all
    }

    /// Counts a request of REST or the dashboard, with the time until its response began.
    pub fn record_request(&self, method: &'static str, route: String, status: u16, elapsed: Duration) {
        self.0.requests.get_or_create(&RequestLabels { method, route, status }).observe(elapsed.as_secs_f64());
    }

    /// Counts a call of gRPC, with the time until its response began.
    pub fn record_call(&self, method: String, code: &'static str, elapsed: Duration) {
        self.0.calls.get_or_create(&CallLabels { method, code }).observe(elapsed.as_secs_f64());
    }

    /// Counts a request that was refused by the rate limit.
    pub fn turned_away(&self) {
        self.0.turned_away.inc();
    }

    /// Returns the timings of queues.
    pub fn queues(&self) -> QueueTimings {
        self.0.transactions.queues.clone()
    }

    /// Counts that a limit was reached.
    pub fn reach(&self, limit: Limit) {
        self.0.limits.get_or_create(&limit::LimitLabel { limit: limit.label() }).inc();
    }

    /// Returns the number of times that a limit was reached.
    #[cfg(any(test, feature = "testing"))]
    pub fn reached(&self, limit: Limit) -> u64 {
        self.0.limits.get_or_create(&limit::LimitLabel { limit: limit.label() }).get()
    }

    /// Returns the figures of the tables and the store, which `query` queries at most once every ten seconds.
    ///
    /// # Errors
    /// Those of `query`.
    pub async fn get_or_query_figures<F>(&self, query: F) -> Result<Figures, Error>
    where
        F: Future<Output = Result<Figures, Error>>,
    {
        let mut cache = self.0.figures.lock().await;
        if let Some((_, figures)) = cache.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(figures.clone());
        }
        let figures = query.await?;
        *cache = Some((Instant::now(), figures.clone()));
        Ok(figures)
    }

    /// Registers all metrics by name.
    fn registry(&self) -> Registry {
        let mut all = Registry::with_prefix("undertone");
        let MetricParts { requests, calls, turned_away, limits, transactions, .. } = &*self.0;
        let seconds = || Unit::Seconds;
        all.register_with_unit(
            "http_request_duration",
            "Requests of REST and dashboard until their answer began, by method, route and status",
            seconds(),
            requests.clone(),
        );
        all.register_with_unit(
            "grpc_call_duration",
            "Calls of gRPC until their answer began, by method and code; a worker's wait for work is one call",
            seconds(),
            calls.clone(),
        );
        all.register(
            "requests_turned_away",
            "Requests and calls turned away (429, `RESOURCE_EXHAUSTED`) because their caller sends more than `rates` allows",
            turned_away.clone(),
        );
        all.register(
            "limits_reached",
            "Connections, requests, calls and answers that were refused, closed or cut off by a limit, by limit",
            limits.clone(),
        );
        all.register_with_unit(
            "transaction_wait",
            "Time a writing transaction waited for its turn, by name",
            seconds(),
            transactions.waits.clone(),
        );
        all.register_with_unit(
            "transaction_duration",
            "Time of a writing transaction once it had its turn, by name and outcome",
            seconds(),
            transactions.durations.clone(),
        );
        all.register(
            "transaction_retries",
            "Writing transactions that the database asked to try again, by name",
            transactions.retries.clone(),
        );
        all.register(
            "transaction_statements",
            "Statements of writing transactions, without those that begin and end them, by name",
            transactions.statements.clone(),
        );
        transactions.queues.register(&mut all);
        all
    }
}
