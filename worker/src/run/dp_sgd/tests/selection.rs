//! Whole runs of jobs in which the private parties select among several runs of each round.

use undertone_api::job::dp_sgd::{Arm, Optimizer, SelectionCandidate, SelectionOptions, Spec, TrainingLoss};
use undertone_privacy::Event;
use undertone_privacy::selection::Runs;

use super::report;
use super::training::TestTraining;
use crate::dp::randomness::Purpose;
use crate::run::RunError;
use crate::run::fake::CrashPoint;

const ROUNDS: u32 = 6;
const STEPS: u32 = 4;
const MOST: u16 = 5;

/// Sets a private arm with an own step of no effect, and a selection among such a step and one that learns.
fn with_selection(spec: &mut Spec) {
    spec.open = None;
    let rounds = spec.private.as_mut().unwrap();
    (rounds.rounds, rounds.local_steps, rounds.evaluate_every) = (ROUNDS, STEPS, ROUNDS);
    rounds.optimizer = Optimizer::Sgd { learning_rate: 1e-6, momentum: 0.5 };
    let selection: SelectionOptions = serde_json::from_str(
        r#"{"shape":1,"stopping":0.1,"most_runs":5,"development":6,
            "candidates":[{"learning_rate":1e-6},{"learning_rate":0.5},{"learning_rate":1,"clip":0.5}]}"#,
    )
    .unwrap();
    assert_eq!(selection.most_runs.get(), MOST);
    spec.selection = Some(selection);
}

#[test]
fn selection_sends_one_vector_a_round_and_lowers_the_loss() {
    let job = TestTraining::new(|spec| {
        with_selection(spec);
        // Public data take the arm's own steps, which have no effect: only the private parties' choices can learn.
        spec.warm_start.epochs = 1;
    });
    job.run_all();
    let report = report(&job);
    assert_eq!(report.arms[1].arm, Arm::Private);
    let before = &report.arms[0].tests[0];
    let after = &report.arms[1].tests[0];
    assert!(after.loss < before.loss, "{} {}", before.loss, after.loss);
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
    for site in [1, 2] {
        assert_eq!(
            (job.payments(site), job.submissions(site)),
            (ROUNDS, ROUNDS as usize),
            "one payment, one vector a round"
        );
        let Event::Selected { of, runs } = job.event(site) else { panic!("{:?}", job.event(site)) };
        assert!(matches!(*of, Event::Repeated { count, .. } if count == u64::from(STEPS)));
        assert!(matches!(runs, Runs::CappedNegativeBinomial { most, .. } if most.get() == MOST));
    }
    assert_eq!(job.vector_lengths("private").len(), 3 * ROUNDS as usize, "nothing else was sent");
}

#[test]
fn draws_of_a_round_do_not_depend_on_the_secret_number() {
    let job = TestTraining::new(with_selection);
    job.run_all();
    let all = ROUNDS * STEPS * u32::from(MOST);
    for site in [1, 2] {
        assert_eq!(job.draws(site, Purpose::Noise), all, "the noise of every step of every run");
        assert_eq!(job.draws(site, Purpose::Sampling), all, "a batch for each");
        assert_eq!(job.draws(site, Purpose::Selection), ROUNDS, "one secret number a round");
    }
    assert_eq!(job.draws(0, Purpose::Noise) + job.draws(0, Purpose::Selection), 0, "public data select nothing");
    assert_eq!(job.draws(0, Purpose::Sampling), ROUNDS * STEPS);
}

#[test]
fn crash_during_a_selection_is_not_paid_twice() {
    let job = TestTraining::new(with_selection);
    job.crash(1, CrashPoint::Cleared, "private", 2);
    job.crash(2, CrashPoint::Stored, "private", 3);
    job.run_all();
    assert_eq!((job.payments(1), job.payments(2)), (ROUNDS, ROUNDS));
    assert!(job.parameters(1, "private") == job.parameters(2, "private"));
    assert_eq!(job.vector_lengths("private").len(), 3 * ROUNDS as usize);
}

#[test]
fn development_data_come_from_the_lead_and_leave_it_some() {
    let job = TestTraining::new(with_selection);
    job.run_all();
    let shape = *job.model("warm_start.safetensors").shape();
    let file = job.file("development.safetensors");
    super::super::development::DevelopmentData::from_file(&file, &shape, TrainingLoss::CrossEntropy).unwrap();
    // The lead has 20 training utterances, of which 6 are set aside: with 20 or more to set aside the run fails with
    // the reason.
    let greedy = TestTraining::new(|spec| {
        with_selection(spec);
        spec.selection.as_mut().unwrap().development = 20;
    });
    let end = greedy.run_process(0);
    assert!(
        matches!(&end, Err(RunError::Failed(problem)) if problem.to_string().contains("selection.development")),
        "{end:?}"
    );
}

#[test]
fn candidate_with_impossible_clip_is_refused_unpaid() {
    let job = TestTraining::new(|spec| {
        with_selection(spec);
        let hopeless = SelectionCandidate { learning_rate: 1.0, clip: 0.0 };
        spec.selection.as_mut().unwrap().candidates.push(hopeless);
    });
    std::thread::scope(|scope| {
        scope.spawn(|| job.run_process(0));
        let end = job.run_process(1);
        job.cancel();
        assert!(matches!(&end, Err(RunError::Failed(problem)) if problem.to_string().contains("clip")), "{end:?}");
    });
    assert_eq!(job.payments(1), 0);
}
