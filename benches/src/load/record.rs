//! Durations by kind: lists of milliseconds from all senders. Values are not put into classes, so a percentile is one
//! of the measured values.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use undertone_api::id::JobId;

/// The shared record of all requests. Cheap to clone; entries before its beginning are dropped.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestRecord(Arc<Mutex<RecordBook>>);

#[derive(Debug, Default)]
struct RecordBook {
    began: Option<Instant>,
    requests: BTreeMap<&'static str, Vec<f64>>,
    /// The beginnings of the requests that have no answer yet, by number.
    open: BTreeMap<u64, (&'static str, Instant)>,
    numbers: u64,
    waits: BTreeMap<&'static str, Vec<f64>>,
    errors: BTreeMap<&'static str, u64>,
    /// The time at which the last vector of a round was sent.
    sent: BTreeMap<(JobId, u32), Instant>,
    /// The first error message of each kind.
    said: BTreeMap<&'static str, String>,
}

/// The records of a measurement; every list is sorted.
#[derive(Debug, Default)]
pub(super) struct RecordSummary {
    /// The duration of the measurement, seconds.
    pub(super) seconds: f64,
    book: RecordBook,
}

/// The latency of one kind of request, milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestLatency {
    pub(super) count: usize,
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) most: f64,
}

impl RequestRecord {
    fn book(&self) -> MutexGuard<'_, RecordBook> {
        // Every entry is written as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the measurement. Requests that have begun before do not count.
    pub(super) fn begin(&self) {
        let mut book = self.book();
        *book = RecordBook { began: Some(Instant::now()), numbers: book.numbers, ..RecordBook::default() };
    }

    /// Ends the measurement, and returns its records. A request without an answer counts as long as it has taken.
    pub(super) fn end(&self) -> RecordSummary {
        let mut current = self.book();
        let numbers = current.numbers;
        let mut book = std::mem::replace(&mut *current, RecordBook { numbers, ..RecordBook::default() });
        drop(current);
        for (kind, start) in std::mem::take(&mut book.open).into_values() {
            book.requests.entry(kind).or_default().push(milliseconds(start.elapsed()));
        }
        for list in book.requests.values_mut().chain(book.waits.values_mut()) {
            list.sort_by(f64::total_cmp);
        }
        RecordSummary { seconds: book.began.map_or(0.0, |began| began.elapsed().as_secs_f64()), book }
    }

    /// Makes a request and records its duration.
    ///
    /// # Errors
    /// The errors of the request.
    pub(super) async fn request<T, E: Display>(
        &self,
        kind: &'static str,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let number = self.open(kind);
        let answer = request.await;
        // Without its entry, it began before this measurement.
        let open = self.book().open.remove(&number);
        if let Some((_, began)) = open {
            match &answer {
                Ok(_) => self.took(kind, began.elapsed()),
                Err(error) => self.failed(kind, error),
            }
        }
        answer
    }

    fn open(&self, kind: &'static str) -> u64 {
        let mut book = self.book();
        book.numbers += 1;
        let number = book.numbers;
        book.open.insert(number, (kind, Instant::now()));
        number
    }

    /// Records an answered request.
    pub(super) fn took(&self, kind: &'static str, time: Duration) {
        let mut book = self.book();
        if book.began.is_some() {
            book.requests.entry(kind).or_default().push(milliseconds(time));
        }
    }

    /// Records a failed request.
    pub(super) fn failed(&self, kind: &'static str, error: &impl Display) {
        let mut book = self.book();
        if book.began.is_some() {
            *book.errors.entry(kind).or_default() += 1;
            book.said.entry(kind).or_insert_with(|| error.to_string());
        }
    }

    /// Records the delay of an event that a caller waits for on purpose.
    pub(super) fn waited(&self, kind: &'static str, time: Duration) {
        let mut book = self.book();
        if book.began.is_some() {
            book.waits.entry(kind).or_default().push(milliseconds(time));
        }
    }
}

impl RequestRecord {
    /// Records the sending of a round's vector.
    pub(super) fn sets_out(&self, job: JobId, round: u32) {
        self.book().sent.insert((job, round), Instant::now());
    }

    /// Records the arrival of a round's mean at one of its participants.
    pub(super) fn arrives(&self, job: JobId, round: u32) {
        let start = self.book().sent.get(&(job, round)).copied();
        if let Some(start) = start {
            self.waited("the mean of a round, after its last vector set out", start.elapsed());
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl RequestLatency {
    /// Computes the latency of a sorted list; `None` when it is empty.
    fn from_sorted(sorted: &[f64]) -> Option<Self> {
        let most = *sorted.last()?;
        Some(Self { count: sorted.len(), median: percentile(sorted, 50)?, p99: percentile(sorted, 99)?, most })
    }

    fn figures(&self) -> Value {
        json!({ "count": self.count, "median": self.median, "p99": self.p99, "most": self.most })
    }
}

/// Returns the percentile by nearest rank: the least value that at least `percent` percent of the values do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

impl RecordSummary {
    /// Returns the number of answered requests.
    pub(super) fn requests(&self) -> usize {
        self.book.requests.values().map(Vec::len).sum()
    }

    /// Returns the number of answered requests per second.
    pub(super) fn per_second(&self) -> f64 {
        self.requests() as f64 / self.seconds
    }

    /// Returns the failed requests by kind; an empty object when none failed.
    pub(super) fn errors(&self) -> Value {
        json!(self.book.errors)
    }

    /// Returns the first error message of each kind.
    pub(super) fn first_errors(&self) -> Value {
        json!(self.book.said)
    }

    /// Returns every kind of answered request.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&'static str, RequestLatency)> {
        self.book.requests.iter().filter_map(|(kind, list)| Some((*kind, RequestLatency::from_sorted(list)?)))
    }

    /// Returns the latency of one kind, if there were any requests.
    pub(super) fn latency(&self, kind: &str) -> Option<RequestLatency> {
        RequestLatency::from_sorted(self.book.requests.get(kind)?)
    }

    /// Returns the latencies of all kinds of requests, and of all together under `all`.
    pub(super) fn latencies(&self) -> Value {
        let mut together: Vec<f64> = self.book.requests.values().flatten().copied().collect();
        together.sort_by(f64::total_cmp);
        let all = RequestLatency::from_sorted(&together).map(|all| ("all".to_owned(), all.figures()));
        let kinds = self.kinds().map(|(kind, latency)| (kind.to_owned(), latency.figures()));
        Value::Object(all.into_iter().chain(kinds).collect())
    }

    /// Returns the deliberate waits, by kind.
    pub(super) fn waits(&self) -> Value {
        let kinds = self.book.waits.iter();
        Value::Object(
            kinds
                .filter_map(|(kind, list)| Some(((*kind).to_owned(), RequestLatency::from_sorted(list)?.figures())))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{RequestRecord, percentile};

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let all: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&all, 50), percentile(&all, 99)), (Some(100.0), Some(198.0)));
        assert_eq!((percentile(&[7.0], 50), percentile(&[7.0], 99), percentile(&[], 50)), (Some(7.0), Some(7.0), None));
    }

    #[tokio::test]
    async fn request_without_an_answer_counts_as_long_as_it_has_taken() {
        let record = RequestRecord::default();
        let never = || std::future::pending::<Result<(), String>>();
        let mut early = Box::pin(record.request("one", never()));
        let is_answered = tokio::time::timeout(Duration::from_millis(1), early.as_mut()).await.is_ok();
        record.begin();
        let mut late = Box::pin(record.request("one", never()));
        let is_late_answered = tokio::time::timeout(Duration::from_millis(20), late.as_mut()).await.is_ok();
        let one = record.end().latency("one").expect("it was measured");
        assert!(!is_answered && !is_late_answered && one.count == 1 && one.most >= 20.0, "{one:?}");
    }

    #[test]
    fn what_comes_before_the_measurement_is_forgotten() {
        let record = RequestRecord::default();
        record.took("one", Duration::from_secs(9));
        record.failed("one", &"early");
        record.begin();
        record.took("one", Duration::from_millis(3));
        record.took("one", Duration::from_millis(1));
        record.waited("two", Duration::from_millis(5));
        record.failed("one", &"why");
        record.failed("one", &"again");
        let summary = record.end();
        let one = summary.latency("one").expect("it was measured");
        assert_eq!((one.count, summary.requests(), summary.latency("two").is_none()), (2, 2, true));
        assert!(one.median < 2.0 && one.p99 > 2.0 && one.most < 9000.0, "{one:?}");
        assert_eq!((summary.errors()["one"].as_u64(), summary.first_errors()["one"].as_str()), (Some(2), Some("why")));
    }
}
