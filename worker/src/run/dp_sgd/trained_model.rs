//! The model of a finished arm.

use undertone_api::job::dp_sgd::{Arm, ArmResult, TestResult};

use super::test_sets::TestSets;
use crate::run::{Artifacts, RunError};
use crate::speech::model::Model;
use crate::speech::model::gradient::Engine;

/// A model and the time of its training.
pub(super) struct TrainedModel {
    pub(super) model: Model,
    /// Seconds.
    pub(super) seconds: f64,
}

/// Submits an arm's model and measures it for the report.
pub(super) fn submit_arm(
    arm: Arm,
    rounds: u32,
    trained: &TrainedModel,
    tests: &TestSets,
    engine: &mut Engine,
    exchange: &mut dyn Artifacts,
) -> Result<ArmResult, RunError> {
    exchange.put_file(&format!("model-{}.safetensors", arm.series()), trained.model.to_safetensors()?)?;
    let words = tests.count_word_errors(&trained.model, engine, exchange)?;
    let macro_f1 = tests.measure_macro_f1(&trained.model, engine, exchange)?;
    let results = tests.measure(&trained.model, engine, exchange)?;
    let all = results.into_iter().zip(words).zip(macro_f1);
    let tests = all.map(|((result, words), macro_f1)| TestResult { words, macro_f1, ..result }).collect();
    Ok(ArmResult { arm, rounds, seconds: trained.seconds, tests })
}
