//! Measurements on public test sets only, at the lead.

use std::collections::BTreeMap;

use undertone_api::id::DatasetId;
use undertone_api::job::Measurement;
use undertone_api::job::active_learning::{CLASSIFIER, PublicContent, Spec, TestResult, TestSet};

use super::{AnnotationError, log};
use crate::queries::classifier::{Classifier, Example, Visible};
use crate::queries::dataset::Reader;
use crate::run::{Artifacts, RunContext, RunError, check_cancelled};
use crate::site::clearance::PublicProof;

/// The number of examples between two checks for a stop.
const EXAMPLES: usize = 4096;

/// The test sets of a job.
pub(super) struct QueryTestSets(Vec<QueryTestSet>);

struct QueryTestSet {
    name: String,
    published: PublicProof,
    /// Each (text, label) once, with its occurrences, in the order of the texts.
    rows: Vec<(String, u16, u64)>,
    content: PublicContent,
}

impl QueryTestSets {
    /// Opens all test sets.
    ///
    /// # Errors
    /// [`RunError`] when one is not at this site, not public or not whole, or has none of the job's labels.
    pub(super) fn open(spec: &Spec, exchange: &dyn RunContext) -> Result<Self, RunError> {
        let open = |test: &TestSet| {
            let published = exchange.confirm_public(test.dataset)?;
            let reader = Reader::open(&exchange.dataset(test.dataset)?)?;
            let mut rows: BTreeMap<(String, u16), u64> = BTreeMap::new();
            for row in log::read_rows(&reader, log::measurement_subset(reader.meta()), spec) {
                if let (text, count, Some(label)) = row? {
                    *rows.entry((text, label)).or_default() += count;
                }
            }
            if rows.is_empty() {
                return Err(AnnotationError::EmptyTestSet(test.name.clone()).into());
            }
            let rows = rows.into_iter().map(|((text, label), count)| (text, label, count)).collect();
            Ok(QueryTestSet { name: test.name.clone(), published, rows, content: content_of(test.dataset, &reader) })
        };
        Ok(Self(spec.tests.iter().map(open).collect::<Result<_, RunError>>()?))
    }

    /// Returns the contents of the lead's training data, if they are public, and of its test data, each once.
    pub(super) fn contents(&self, lead: Option<PublicContent>) -> Vec<PublicContent> {
        let mut contents = Vec::from_iter(lead);
        for set in &self.0 {
            if !contents.contains(&set.content) {
                contents.push(set.content.clone());
            }
        }
        contents
    }

    /// Returns the rows of the first test set, for a rehearsal.
    pub(super) fn first_rows(&self) -> impl Iterator<Item = (String, u64, u16)> {
        self.0.first().into_iter().flat_map(|set| &set.rows).map(|(text, label, count)| (text.clone(), *count, *label))
    }

    /// Returns accuracy and mean loss of a classifier on each test set, in the spec's order.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange is stopped.
    pub(super) fn measure(
        &self,
        classifier: &Classifier,
        exchange: &dyn RunContext,
    ) -> Result<Vec<TestResult>, RunError> {
        let mut results = Vec::with_capacity(self.0.len());
        for set in &self.0 {
            let mut examples = 0_u64;
            let mut right = 0_u64;
            let mut loss = 0.0;
            for chunk in set.rows.chunks(EXAMPLES) {
                check_cancelled(exchange)?;
                let visible = |text| Visible::public(&set.published, text);
                let chunk: Vec<(Example<'_>, u64)> =
                    chunk.iter().map(|(text, label, count)| (Example::new(visible(text), *label), *count)).collect();
                let result = classifier.examine(&chunk);
                examples += result.examples;
                right += result.right;
                loss += result.loss;
            }
            let all = examples.max(1) as f64;
            results.push(TestResult {
                name: set.name.clone(),
                accuracy: right as f64 / all,
                loss: loss / all,
                examples,
            });
        }
        Ok(results)
    }
}

/// Returns the content of a log.
pub(super) fn content_of(dataset: DatasetId, reader: &Reader) -> PublicContent {
    PublicContent { dataset, digest: reader.meta().digest.clone() }
}

/// Reports the measurements after a round to the server. A repetition changes nothing.
pub(super) fn report_tests(round: u32, tests: &[TestResult], exchange: &mut dyn Artifacts) -> Result<(), RunError> {
    for test in tests {
        exchange.report_measurement(Measurement {
            series: CLASSIFIER.to_owned(),
            round,
            test: test.name.clone(),
            frames: test.examples,
            accuracy: test.accuracy,
            loss: test.loss,
        })?;
    }
    Ok(())
}
