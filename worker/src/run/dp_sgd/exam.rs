//! Measuring, on public test sets only, at the lead.

use undertone_api::job::dp_sgd::{Spec, TestResult};

use super::go_on;
use super::site::{check_model, example};
use crate::dp::layers::linear::Score;
use crate::run::{Exchange, RunError};
use crate::speech::dataset::{Dataset, Split};
use crate::speech::model::Model;
use crate::speech::model::gradient::Engine;

/// Utterances measured between two looks at whether to stop.
const UTTERANCES: usize = 32;

/// The test sets of a job.
pub(super) struct Exam(Vec<(String, Dataset, Vec<usize>)>);

impl Exam {
    /// Opens them all.
    ///
    /// # Errors
    /// [`RunError::Failed`] when one is not at this site or not whole.
    pub(super) fn open(spec: &Spec, exchange: &dyn Exchange) -> Result<Self, RunError> {
        let open = |test: &undertone_api::job::dp_sgd::TestSet| {
            let dataset = Dataset::open(&exchange.dataset(test.dataset)?)?;
            let held_out = dataset.split(Split::Test);
            let utterances = if held_out.is_empty() { dataset.split(Split::Train) } else { held_out };
            Ok((test.name.clone(), dataset, utterances))
        };
        spec.tests.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// That a model fits all of them.
    ///
    /// # Errors
    /// [`RunError::Failed`] naming the one that does not fit.
    pub(super) fn check(&self, inputs: usize, classes: usize) -> Result<(), RunError> {
        self.0.iter().try_for_each(|(_, dataset, _)| check_model(dataset, inputs, classes))
    }

    /// Frames, accuracy and mean loss of a model on each test set, in the spec's order.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange says so.
    pub(super) fn measure(
        &self,
        model: &Model,
        engine: &mut Engine,
        exchange: &dyn Exchange,
    ) -> Result<Vec<TestResult>, RunError> {
        let mut results = Vec::with_capacity(self.0.len());
        for (name, dataset, utterances) in &self.0 {
            let mut score = Score::default();
            for some in utterances.chunks(UTTERANCES) {
                go_on(exchange)?;
                let examples: Vec<_> = some.iter().map(|i| example(dataset, *i)).collect();
                score = score.plus(engine.score(model, &examples));
            }
            results.push(TestResult {
                test: name.clone(),
                frames: score.frames,
                accuracy: score.accuracy(),
                loss: score.mean_loss(),
            });
        }
        Ok(results)
    }
}
