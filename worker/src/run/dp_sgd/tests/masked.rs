//! Masked rounds: the sums of the group train as the mean gradients do, through crashes.

use undertone_api::job::dp_sgd::{AverageWeights, SecureAggregation};

use super::{TestTraining, report};
use crate::run::fake::CrashPoint;

fn masked_training() -> TestTraining {
    TestTraining::new(|spec| {
        spec.open = None;
        spec.weights = AverageWeights::ExpectedBatch;
        spec.secure_aggregation = Some(SecureAggregation::new(2, 0));
    })
}

#[test]
fn masked_sums_train_to_the_same_bits_at_each_site() {
    let job = masked_training();
    job.crash(1, CrashPoint::Cleared, "private", 3);
    job.crash(2, CrashPoint::Stored, "private", 7);
    job.crash(1, CrashPoint::Accepted, "private", 12);
    job.run_all();
    assert!(report(&job).arms[1].tests[0].accuracy > 0.7);
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
    assert_eq!((job.payments(0), job.payments(1), job.payments(2)), (0, 40, 40), "one payment a round");
    // The group's vectors are sums in steps; the lead sends its gradient as it is.
    assert_eq!((job.sums(0), job.sums(1), job.sums(2)), (0, 40, 40));
}
