//! Measurements on public test sets only, at the lead.

use undertone_api::id::DatasetId;
use undertone_api::job::Measurement;
use undertone_api::job::dp_sgd::{Arm, PublicContent, Spec, TestResult, TestSet};

use super::site::{TrainingSite, as_example, check_model};
use crate::dp::layers::output::FrameScore;
use crate::run::{Artifacts, RunContext, RunError, check_cancelled};
use crate::speech::dataset::{Dataset, Split};
use crate::speech::model::Model;
use crate::speech::model::gradient::Engine;

/// The number of utterances between two checks for a stop.
const UTTERANCES: usize = 32;

/// The test sets of a job.
pub(super) struct SpeechTestSets {
    /// The name of each, its data, and the utterances to measure on.
    sets: Vec<(String, Dataset, Vec<usize>)>,
    /// Their contents, in the same order.
    contents: Vec<PublicContent>,
}

impl SpeechTestSets {
    /// Opens all test sets.
    ///
    /// # Errors
    /// [`RunError::Failed`] when one is not at this site or not whole.
    pub(super) fn open(spec: &Spec, exchange: &dyn RunContext) -> Result<Self, RunError> {
        let open = |test: &TestSet| {
            let dataset = Dataset::open(&exchange.dataset(test.dataset)?)?;
            let held_out = dataset.split(Split::Test);
            let utterances = if held_out.is_empty() { dataset.split(Split::Train) } else { held_out };
            Ok((test.name.clone(), dataset, utterances))
        };
        let sets: Vec<(String, Dataset, Vec<usize>)> = spec.tests.iter().map(open).collect::<Result<_, RunError>>()?;
        let content = |(test, set): (&TestSet, &(String, Dataset, Vec<usize>))| content_of(test.dataset, &set.1);
        let contents = spec.tests.iter().zip(&sets).map(content).collect();
        Ok(Self { sets, contents })
    }

    /// Returns the contents of the lead's training and test data, each once: all of it is public.
    pub(super) fn contents(&self, spec: &Spec, lead: &TrainingSite) -> Vec<PublicContent> {
        let own = spec.participants.first().map(|party| content_of(party.dataset, lead.dataset()));
        let mut contents: Vec<PublicContent> = own.into_iter().collect();
        for content in &self.contents {
            if !contents.contains(content) {
                contents.push(content.clone());
            }
        }
        contents
    }

    /// Checks that a model fits all of them.
    ///
    /// # Errors
    /// [`RunError::Failed`] naming the one that does not fit.
    pub(super) fn check(&self, inputs: usize, classes: usize) -> Result<(), RunError> {
        self.sets.iter().try_for_each(|(_, dataset, _)| check_model(dataset, inputs, classes))
    }

    /// Returns frames, accuracy and mean loss of a model on each test set, in the spec's order.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange is stopped.
    pub(super) fn measure(
        &self,
        model: &Model,
        engine: &mut Engine,
        exchange: &dyn RunContext,
    ) -> Result<Vec<TestResult>, RunError> {
        let mut results = Vec::with_capacity(self.sets.len());
        for (name, dataset, utterances) in &self.sets {
            let mut score = FrameScore::default();
            for chunk in utterances.chunks(UTTERANCES) {
                check_cancelled(exchange)?;
                let examples: Vec<_> = chunk.iter().map(|i| as_example(dataset, *i)).collect();
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

/// Measures a model and reports to the server.
pub(super) fn report_tests(
    arm: Arm,
    round: u32,
    model: &Model,
    tests: &SpeechTestSets,
    engine: &mut Engine,
    exchange: &mut dyn Artifacts,
) -> Result<(), RunError> {
    for result in tests.measure(model, engine, exchange)? {
        exchange.report_measurement(Measurement {
            series: arm.series().to_owned(),
            round,
            test: result.test,
            frames: result.frames,
            accuracy: result.accuracy,
            loss: result.loss,
        })?;
    }
    Ok(())
}

/// Returns the content of a public dataset.
fn content_of(dataset: DatasetId, data: &Dataset) -> PublicContent {
    PublicContent { dataset, digest: data.meta().digest.clone() }
}
