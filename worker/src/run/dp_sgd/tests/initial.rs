//! Whole runs that begin with a model of an earlier job.

use sha2::{Digest as _, Sha256};
use undertone_api::job::dp_sgd::{Spec, TrainingLoss};

use super::training::TestTraining;
use crate::run::RunError;

/// Makes a job that begins with `model` and has a few private rounds.
fn job_from(model: &[u8], change: impl FnOnce(&mut Spec)) -> TestTraining {
    let job = TestTraining::new(|spec| {
        spec.initial_model = Some(hex::encode(Sha256::digest(model)));
        spec.open = None;
        spec.warm_start.epochs = 0;
        spec.private.as_mut().unwrap().rounds = 3;
        change(spec);
    });
    job.serve_initial_model(model.to_vec());
    job
}

/// Returns the model of a job that learned for a few rounds.
pub(super) fn first_model() -> Vec<u8> {
    let job = TestTraining::new(|spec| {
        spec.open = None;
        spec.private.as_mut().unwrap().rounds = 3;
    });
    job.run_all();
    job.file("model-private.safetensors")
}

#[test]
fn job_begins_with_the_bits_of_the_registry_model() {
    let first = first_model();
    let job = job_from(&first, |_| ());
    job.run_all();
    assert!(job.file("warm_start.safetensors") == first, "without epochs the warm start is the model itself");
    let end = job.parameters(0, "private");
    assert!(end != job.model("warm_start.safetensors").parameters());
    let usage = job.model("model-private.safetensors").usage().clone();
    assert_eq!(usage.loss, Some(TrainingLoss::CrossEntropy));
    assert_eq!(usage.features.map(|features| features.sample_rate), Some(16_000));
    assert!(job.parameters(1, "private") == end && job.parameters(2, "private") == end);
    // A warm start continues it, and keeps its normalization.
    let longer = job_from(&first, |spec| spec.warm_start.epochs = 1);
    longer.run_all();
    let start = longer.model("warm_start.safetensors");
    assert!(start.parameters() != job.model("warm_start.safetensors").parameters());
    assert_eq!(start.normalizer(), job.model("warm_start.safetensors").normalizer());
}

#[test]
fn participants_refuse_a_start_that_is_not_the_initial_model() {
    let first = first_model();
    let failure = |job: &TestTraining, index: usize| match job.run_process(index) {
        Err(RunError::Failed(problem)) => problem.with_causes(),
        end => panic!("{end:?}"),
    };
    let job = job_from(&first, |_| ());
    job.serve_initial_model(b"another".to_vec());
    assert!(failure(&job, 0).contains("SHA-256"));
    // The lead shares another model than the manifest names.
    let job = job_from(&first, |_| ());
    let other = TestTraining::new(|spec| (spec.open, spec.private) = (None, None));
    other.run_all();
    job.put_file("warm_start.safetensors", other.file("warm_start.safetensors"));
    assert!(failure(&job, 1).contains("does not begin with the initial model"));
    assert_eq!((job.payments(1), job.submissions(1)), (0, 0), "nothing left the site");
}
