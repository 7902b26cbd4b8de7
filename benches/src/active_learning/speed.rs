//! The time of training and ranking, for a job size that people wait for.

use std::time::Instant;

use serde_json::json;
use undertone_api::job::active_learning::{Classifier as Settings, Encoder};
use undertone_worker::queries::acquire::{BatchPlan, choose};
use undertone_worker::queries::classifier::{Classifier, Example, Visible};
use undertone_worker::queries::rehearsal::{LearnerSettings, PublicLog, PublicQuery};

use super::seconds;
use crate::report::{Outcome, Report};

/// The number of labelled texts.
const LABELLED: usize = 2000;
/// The number of open questions.
const POOL: usize = 10_000;

/// Measures both encoders on the log's own texts.
pub(super) fn run(report: &mut Report, ground: &PublicLog<'_>, learner: &LearnerSettings) -> Outcome {
    let queries: Vec<&PublicQuery> = ground.queries().collect();
    // Selected across the whole log, which is in the order of its texts.
    let spread = |count: usize, shift: usize| {
        let step = (queries.len() / count).max(1);
        queries.iter().skip(shift).step_by(step).take(count).copied().collect::<Vec<_>>()
    };
    let examples: Vec<Example<'_>> = spread(LABELLED, 0)
        .into_iter()
        .filter_map(|query| Some(Example::new(ground.visible(&query.text), query.label?)))
        .collect();
    let pool: Vec<Visible<'_>> = spread(POOL, 1).into_iter().map(|query| ground.visible(&query.text)).collect();
    let texts: Vec<Visible<'_>> = examples.iter().map(|example| example.text).collect();
    for encoder in [Encoder::Bag, Encoder::Lstm] {
        let settings = Settings { encoder, ..learner.settings };
        let began = Instant::now();
        let classifier = Classifier::train(&settings, ground.labels(), &examples, learner.seed)?;
        let training = seconds(began);
        let began = Instant::now();
        let posteriors = classifier.posteriors(&pool);
        let ranking = seconds(began);
        let began = Instant::now();
        let choice = BatchPlan { acquisition: learner.acquisition, batch: 50, diversity: true, seed: learner.seed };
        let questions = choose(&classifier, &pool, &posteriors, &texts, choice);
        let choosing = seconds(began);
        let began = Instant::now();
        let exam = classifier.examine(&ground.tests());
        report.line(json!({
            "figure": "speed", "encoder": encoder, "labels": ground.labels().len(), "labelled": examples.len(),
            "epochs": settings.epochs, "training_seconds": training, "pool": pool.len(), "passes": settings.passes,
            "posterior_seconds": ranking, "chosen": questions.len(), "diverse_choice_seconds": choosing,
            "test_rows": exam.examples, "test_seconds": seconds(began), "accuracy": exam.accuracy(),
            "loss": exam.mean_loss(),
        }))?;
    }
    Ok(())
}
