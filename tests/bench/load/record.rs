//! How long everything took: lists of milliseconds by kind, from all who send. Nothing is put into classes, so a percentile is one of
//! the measured values.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use undertone_api::id::JobId;

/// Where everybody writes what their requests took. Cheap to share; what comes before it begins is forgotten.
#[derive(Debug, Clone, Default)]
pub(super) struct Record(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    began: Option<Instant>,
    requests: BTreeMap<&'static str, Vec<f64>>,
    waits: BTreeMap<&'static str, Vec<f64>>,
    errors: BTreeMap<&'static str, u64>,
    /// When the last vector of a round set out.
    sent: BTreeMap<(JobId, u32), Instant>,
    /// What was said first of each kind.
    said: BTreeMap<&'static str, String>,
}

/// What was written down while it was measured; every list sorted.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// How long it was measured.
    pub(super) seconds: f64,
    book: Book,
}

/// Of one kind of request, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    pub(super) count: usize,
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) most: f64,
}

impl Record {
    fn book(&self) -> MutexGuard<'_, Book> {
        // Every line is written whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it counts.
    pub(super) fn begin(&self) {
        *self.book() = Book { began: Some(Instant::now()), ..Book::default() };
    }

    /// Until now it counted.
    pub(super) fn end(&self) -> Summary {
        let mut book = std::mem::take(&mut *self.book());
        for list in book.requests.values_mut().chain(book.waits.values_mut()) {
            list.sort_by(f64::total_cmp);
        }
        Summary { seconds: book.began.map_or(0.0, |began| began.elapsed().as_secs_f64()), book }
    }

    /// Makes a request and writes down what it took.
    ///
    /// # Errors
    /// Those of the request.
    pub(super) async fn request<T, E: Display>(
        &self,
        kind: &'static str,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let began = Instant::now();
        let answer = request.await;
        let time = began.elapsed();
        match &answer {
            Ok(_) => self.took(kind, time),
            Err(error) => self.failed(kind, error),
        }
        answer
    }

    /// A request was answered.
    pub(super) fn took(&self, kind: &'static str, time: Duration) {
        let mut book = self.book();
        if book.began.is_some() {
            book.requests.entry(kind).or_default().push(milliseconds(time));
        }
    }

    /// A request came to nothing.
    pub(super) fn failed(&self, kind: &'static str, error: &impl Display) {
        let mut book = self.book();
        if book.began.is_some() {
            *book.errors.entry(kind).or_default() += 1;
            book.said.entry(kind).or_insert_with(|| error.to_string());
        }
    }

    /// Something that waits on purpose came so long after it could have.
    pub(super) fn waited(&self, kind: &'static str, time: Duration) {
        let mut book = self.book();
        if book.began.is_some() {
            book.waits.entry(kind).or_default().push(milliseconds(time));
        }
    }
}

impl Record {
    /// A vector of a round sets out.
    pub(super) fn sets_out(&self, job: JobId, round: u32) {
        self.book().sent.insert((job, round), Instant::now());
    }

    /// The mean of a round has arrived at one of its participants.
    pub(super) fn arrives(&self, job: JobId, round: u32) {
        let sent = self.book().sent.get(&(job, round)).copied();
        if let Some(sent) = sent {
            self.waited("the mean of a round, after its last vector set out", sent.elapsed());
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Latency {
    /// Of a sorted list; `None` when it is empty.
    fn of(sorted: &[f64]) -> Option<Self> {
        let most = *sorted.last()?;
        Some(Self { count: sorted.len(), median: at(sorted, 50)?, p99: at(sorted, 99)?, most })
    }

    fn figures(&self) -> Value {
        json!({ "count": self.count, "median": self.median, "p99": self.p99, "most": self.most })
    }
}

/// The percentile by nearest rank: the least value that so many of a hundred do not exceed.
fn at(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

impl Summary {
    /// Requests answered.
    pub(super) fn requests(&self) -> usize {
        self.book.requests.values().map(Vec::len).sum()
    }

    /// Requests answered in a second.
    pub(super) fn per_second(&self) -> f64 {
        self.requests() as f64 / self.seconds
    }

    /// Failed requests by kind; nothing when none failed.
    pub(super) fn errors(&self) -> Value {
        json!(self.book.errors)
    }

    /// What was said of the first of each kind.
    pub(super) fn first_errors(&self) -> Value {
        json!(self.book.said)
    }

    /// Every kind of request that was answered.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&'static str, Latency)> {
        self.book.requests.iter().filter_map(|(kind, list)| Some((*kind, Latency::of(list)?)))
    }

    /// Of one kind, when there were any.
    pub(super) fn latency(&self, kind: &str) -> Option<Latency> {
        Latency::of(self.book.requests.get(kind)?)
    }

    /// All kinds of requests, and all together under `all`.
    pub(super) fn latencies(&self) -> Value {
        let mut together: Vec<f64> = self.book.requests.values().flatten().copied().collect();
        together.sort_by(f64::total_cmp);
        let all = Latency::of(&together).map(|all| ("all".to_owned(), all.figures()));
        let kinds = self.kinds().map(|(kind, latency)| (kind.to_owned(), latency.figures()));
        Value::Object(all.into_iter().chain(kinds).collect())
    }

    /// What waits on purpose, all kinds.
    pub(super) fn waits(&self) -> Value {
        let kinds = self.book.waits.iter();
        Value::Object(
            kinds.filter_map(|(kind, list)| Some(((*kind).to_owned(), Latency::of(list)?.figures()))).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Record, at};

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let all: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((at(&all, 50), at(&all, 99)), (Some(100.0), Some(198.0)));
        assert_eq!((at(&[7.0], 50), at(&[7.0], 99), at(&[], 50)), (Some(7.0), Some(7.0), None));
    }

    #[test]
    fn what_comes_before_the_measurement_is_forgotten() {
        let record = Record::default();
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
