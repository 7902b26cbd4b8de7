//! Released questions: they came back from the server, after a gate released them and the site's ledger charged them.
//!
//! Learning, ranking and measurement start from released questions or from public data, so they are post-processing
//! without a further charge (`privacy.md`, 6.6). The type is the boundary: a [`Released`] is made from the bytes of a
//! pool, and from nothing else. The only way from a row, a sample or a survivor to a [`Released`] is
//! [`super::gate::Survivors::release`] and the wire.

use undertone_api::id::{DatasetId, JobId, QuestionId};
use undertone_proto::question::{self, QuestionError};

/// A released question.
///
/// It cannot be constructed from parts:
///
/// ```compile_fail,E0451
/// use undertone_api::id::{DatasetId, QuestionId};
/// use undertone_worker_queries::released::Released;
/// fn invented(id: QuestionId, dataset: DatasetId, private: String) -> Released {
///     Released { id, dataset, text: private, count: None }
/// }
/// ```
///
/// A row of a private log is not one, and a classifier cannot read it:
///
/// ```compile_fail,E0277
/// use undertone_worker_queries::classifier::Visible;
/// use undertone_worker_queries::dataset::Row;
/// fn look(row: &Row) -> Visible<'_> {
///     Visible::from(row)
/// }
/// ```
///
/// A classifier also cannot read a sample, or survivors without a charge:
///
/// ```compile_fail,E0277
/// use undertone_worker_queries::{classifier::Visible, sample::Sample};
/// fn look(sample: &Sample) -> Visible<'_> {
///     Visible::from(sample)
/// }
/// ```
///
/// ```compile_fail,E0277
/// use undertone_worker_queries::{classifier::Visible, gate::Survivors};
/// fn look(survivors: &Survivors) -> Visible<'_> {
///     Visible::from(survivors)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    id: QuestionId,
    dataset: DatasetId,
    text: String,
    count: Option<u64>,
}

impl Released {
    /// Reads the questions of `dataset` in `job` from the bytes of its pool, as the server returned them, in the order
    /// of their texts.
    ///
    /// # Errors
    /// [`QuestionError`] when the bytes are not a pool.
    pub fn pool(job: JobId, dataset: DatasetId, bytes: &[u8]) -> Result<Vec<Self>, QuestionError> {
        let released = |posed: question::QuestionLine| Self {
            id: question::id(job, dataset, &posed.text),
            dataset,
            text: posed.text,
            count: posed.count,
        };
        question::read(bytes)?.map(|posed| posed.map(released)).collect()
    }

    /// Returns the question's id.
    pub const fn id(&self) -> QuestionId {
        self.id
    }

    /// Returns the dataset that released it.
    pub const fn dataset(&self) -> DatasetId {
        self.dataset
    }

    /// Returns the text, as in the log: 1 to 2,000 characters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of sampled rows with this text; `None` unless the job was charged for showing counts.
    pub const fn count(&self) -> Option<u64> {
        self.count
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use undertone_api::id::{DatasetId, JobId};
    use undertone_proto::question::{self, QuestionLine};
    use uuid::Uuid;

    use super::Released;

    #[test]
    fn released_pool_round_trips_over_the_wire() {
        let job = JobId(Uuid::from_u128(1));
        let dataset = DatasetId(Uuid::from_u128(2));
        let posed = |text: &str, count| QuestionLine { text: text.to_owned(), count };
        let bytes = question::write(vec![posed("where is my card", Some(20)), posed("block it", None)]).unwrap();
        let back = Released::pool(job, dataset, &bytes).unwrap();
        let questions: Vec<_> = back.iter().map(|question| (question.text(), question.count())).collect();
        assert_eq!(questions, [("block it", None), ("where is my card", Some(20))]);
        assert_eq!(back[1].id(), question::id(job, dataset, "where is my card"));
        assert!(Released::pool(job, dataset, &bytes[1..]).is_err());
    }
}
