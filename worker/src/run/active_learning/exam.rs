//! Measurements on public test sets only, at the lead.

use std::collections::BTreeMap;

use undertone_api::id::DatasetId;
use undertone_api::job::Measurement;
use undertone_api::job::active_learning::{CLASSIFIER, PublicContent, Spec, TestResult, TestSet};

use super::{failed, go_on, log};
use crate::queries::classifier::{Classifier, Example, Visible};
use crate::queries::dataset::Reader;
use crate::run::{Exchange, RunError};
use crate::site::clearance::PublicProof;

/// The number of examples between two checks for a stop.
const EXAMPLES: usize = 4096;

/// The test sets of a job.
pub(super) struct Exam(Vec<Set>);

struct Set {
    name: String,
    published: PublicProof,
    /// Each (text, label) once, with its occurrences, in the order of the texts.
    rows: Vec<(String, u16, u64)>,
    content: PublicContent,
}

impl Exam {
    /// Opens all test sets.
    ///
    /// # Errors
    /// [`RunError`] when one is not at this site, not public or not whole, or has none of the job's labels.
    pub(super) fn open(spec: &Spec, exchange: &dyn Exchange) -> Result<Self, RunError> {
        let open = |test: &TestSet| {
            let published = exchange.published(test.dataset)?;
            let reader = Reader::open(&exchange.dataset(test.dataset)?)?;
            let mut rows: BTreeMap<(String, u16), u64> = BTreeMap::new();
            for row in log::rows(&reader, log::measured(reader.meta()), spec) {
                if let (text, count, Some(label)) = row? {
                    *rows.entry((text, label)).or_default() += count;
                }
            }
            if rows.is_empty() {
                return Err(failed(format!("the test set `{}` has no row with a label of the job", test.name)));
            }
            let rows = rows.into_iter().map(|((text, label), count)| (text, label, count)).collect();
            Ok(Set { name: test.name.clone(), published, rows, content: content(test.dataset, &reader) })
        };
        Ok(Self(spec.tests.iter().map(open).collect::<Result<_, RunError>>()?))
    }

    /// Returns the contents of the lead's training and test data, each once: all of it is public.
    pub(super) fn contents(&self, lead: PublicContent) -> Vec<PublicContent> {
        let mut all = vec![lead];
        for set in &self.0 {
            if !all.contains(&set.content) {
                all.push(set.content.clone());
            }
        }
        all
    }

    /// Returns the rows of the first test set, for a rehearsal.
    pub(super) fn first(&self) -> impl Iterator<Item = (String, u64, u16)> {
        self.0.first().into_iter().flat_map(|set| &set.rows).map(|(text, label, count)| (text.clone(), *count, *label))
    }

    /// Returns accuracy and mean loss of a classifier on each test set, in the spec's order.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange is stopped.
    pub(super) fn measure(
        &self,
        classifier: &Classifier,
        exchange: &dyn Exchange,
    ) -> Result<Vec<TestResult>, RunError> {
        let mut results = Vec::with_capacity(self.0.len());
        for set in &self.0 {
            let (mut examples, mut right, mut loss) = (0_u64, 0_u64, 0.0);
            for some in set.rows.chunks(EXAMPLES) {
                go_on(exchange)?;
                let visible = |text| Visible::public(&set.published, text);
                let some: Vec<(Example<'_>, u64)> =
                    some.iter().map(|(text, label, count)| (Example::new(visible(text), *label), *count)).collect();
                let exam = classifier.examine(&some);
                examples += exam.examples;
                right += exam.right;
                loss += exam.loss;
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
pub(super) fn content(dataset: DatasetId, reader: &Reader) -> PublicContent {
    PublicContent { dataset, digest: reader.meta().digest.clone() }
}

/// Reports the measurements after a round to the server. A repetition changes nothing.
pub(super) fn tell(round: u32, tests: &[TestResult], exchange: &mut dyn Exchange) -> Result<(), RunError> {
    for test in tests {
        exchange.measure(Measurement {
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
