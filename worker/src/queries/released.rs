//! Questions that were released: what came back from the server, after a gate let it go and the site's ledger paid.
//!
//! Everything that learns, ranks or measures begins here or with public data, so it is post-processing and costs nothing more
//! (`privacy.md`, 6.6). The type is the boundary: a [`Released`] is made of a pool as it travelled, and of nothing else. There is no
//! way from a row, a sample or a survivor to one but through [`super::gate::Survivors::release`] and the wire.

use undertone_api::id::{DatasetId, JobId, QuestionId};
use undertone_proto::question::{self, QuestionError};

/// A released question.
///
/// It cannot be made up:
///
/// ```compile_fail,E0451
/// use undertone_api::id::{DatasetId, QuestionId};
/// use undertone_worker::queries::released::Released;
/// fn invented(id: QuestionId, dataset: DatasetId, private: String) -> Released {
///     Released { id, dataset, text: private, count: None }
/// }
/// ```
///
/// A row of a private log is none, and a classifier cannot see it:
///
/// ```compile_fail,E0277
/// use undertone_worker::queries::classifier::Visible;
/// use undertone_worker::queries::dataset::Row;
/// fn look(row: &Row) -> Visible<'_> {
///     Visible::from(row)
/// }
/// ```
///
/// Nor can it see what was sampled, or what survived and was not paid for:
///
/// ```compile_fail,E0277
/// use undertone_worker::queries::{classifier::Visible, sample::Sample};
/// fn look(sample: &Sample) -> Visible<'_> {
///     Visible::from(sample)
/// }
/// ```
///
/// ```compile_fail,E0277
/// use undertone_worker::queries::{classifier::Visible, gate::Survivors};
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
    /// The questions of `dataset` in `job`, from the bytes of its pool as the server gave them, in the order of their texts.
    ///
    /// # Errors
    /// [`QuestionError`] when the bytes are no pool.
    pub fn pool(job: JobId, dataset: DatasetId, bytes: &[u8]) -> Result<Vec<Self>, QuestionError> {
        let released = |posed: question::Posed| Self {
            id: question::id(job, dataset, &posed.text),
            dataset,
            text: posed.text,
            count: posed.count,
        };
        question::read(bytes)?.map(|posed| posed.map(released)).collect()
    }

    /// Its id.
    pub const fn id(&self) -> QuestionId {
        self.id
    }

    /// From which dataset it was released.
    pub const fn dataset(&self) -> DatasetId {
        self.dataset
    }

    /// What was asked, as it stood in the log: 1 to 2,000 characters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many rows of the sample asked it; absent unless the job paid for showing counts.
    pub const fn count(&self) -> Option<u64> {
        self.count
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use undertone_api::id::{DatasetId, JobId};
    use undertone_proto::question::{self, Posed};
    use uuid::Uuid;

    use super::Released;

    #[test]
    fn a_pool_comes_back_from_the_wire_as_it_went() {
        let (job, dataset) = (JobId(Uuid::from_u128(1)), DatasetId(Uuid::from_u128(2)));
        let posed = |text: &str, count| Posed { text: text.to_owned(), count };
        let bytes = question::write(vec![posed("where is my card", Some(20)), posed("block it", None)]).unwrap();
        let back = Released::pool(job, dataset, &bytes).unwrap();
        let told: Vec<_> = back.iter().map(|question| (question.text(), question.count())).collect();
        assert_eq!(told, [("block it", None), ("where is my card", Some(20))]);
        assert_eq!(back[1].id(), question::id(job, dataset, "where is my card"));
        assert!(Released::pool(job, dataset, &bytes[1..]).is_err());
    }
}
