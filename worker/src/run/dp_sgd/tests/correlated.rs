//! Correlated noise: training through crashes, the stored seeds, and a loss of them.

use std::num::NonZeroU32;

use undertone_api::job::dp_sgd::BandedNoise;
use undertone_privacy::SamplingRate;

use super::{TestTraining, report};
use crate::dp::randomness::Purpose;
use crate::fault::{self, FailureKind, FailurePlan};
use crate::run::RunError;
use crate::run::fake::CrashPoint;

const SEEDS: &str = "noise.seeds";

/// A job whose second participant has noise with four bands.
fn banded_training() -> TestTraining {
    TestTraining::new(|spec| {
        spec.open = None;
        let party = &mut spec.participants[1];
        party.sampling_rate = SamplingRate::new(0.25).unwrap();
        party.noise.as_mut().unwrap().banded = Some(BandedNoise { bands: NonZeroU32::new(4).unwrap() });
    })
}

#[test]
fn correlated_noise_trains_to_the_same_bits_at_each_site() {
    let job = banded_training();
    assert_eq!(job.event(1).whole_releases(), Some(40));
    job.run_all();
    assert!(report(&job).arms[1].tests[0].accuracy > 0.6);
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
    assert_eq!((job.payments(1), job.payments(2)), (40, 40), "one receipt a round");
    assert_eq!(job.draws(1, Purpose::CorrelatedNoise), 40);
    assert_eq!((job.draws(1, Purpose::Noise), job.draws(2, Purpose::CorrelatedNoise)), (0, 0));
    assert!(job.read_work_file(1, SEEDS).is_err(), "the seeds are removed after the last round");
}

/// Before the vector is stored nothing has left, and the round gets another seed. Afterwards its bytes are sent again.
#[test]
fn crashed_rounds_send_one_vector_and_later_noise_fits_it() {
    let crashed = banded_training();
    crashed.crash(1, CrashPoint::Cleared, "private", 3);
    crashed.crash(1, CrashPoint::Stored, "private", 4);
    crashed.crash(1, CrashPoint::Accepted, "private", 9);
    crashed.crash(1, CrashPoint::Stored, "private", 40);
    crashed.repeat_draws();
    crashed.run_all();
    assert_eq!((crashed.payments(1), crashed.processes(1)), (40, 5));
    assert!(crashed.parameters(1, "private") == crashed.parameters(0, "private"));
    // With repeatable draws the batches and the noise are those of a run without a crash, to the bit.
    let straight = banded_training();
    straight.repeat_draws();
    straight.run_all();
    for round in 1..=40 {
        assert!(crashed.vector(1, round) == straight.vector(1, round), "round {round}");
    }
}

#[test]
fn full_disk_at_each_write_releases_no_round_twice() {
    let job = banded_training();
    job.repeat_draws();
    std::thread::scope(|scope| {
        for index in [0, 2] {
            let job = &job;
            scope.spawn(move || assert!(job.run_process(index).is_ok()));
        }
        let mut pauses = 0;
        loop {
            fault::plan(Some(FailurePlan { accident: FailureKind::Disk, after: pauses / 3 + 1 }));
            let end = job.run_process(1);
            fault::plan(None);
            match end {
                Ok(()) => break,
                Err(RunError::Disk(_)) => pauses += 1,
                Err(other) => panic!("{pauses}: {other}"),
            }
        }
        assert!(pauses > 3, "{pauses}");
    });
    assert_eq!(job.payments(1), 40);
    let straight = banded_training();
    straight.repeat_draws();
    straight.run_all();
    for round in 1..=40 {
        assert!(job.vector(1, round) == straight.vector(1, round), "round {round}");
    }
}

#[test]
fn rounds_missed_in_an_absence_have_no_noise() {
    let job = banded_training();
    job.set_absent(1, 2);
    job.run_all();
    assert_eq!((job.payments(1), job.draws(1, Purpose::CorrelatedNoise)), (38, 38));
    assert!(job.parameters(1, "private") == job.parameters(0, "private"));
}

/// Runs until round 5 is stored, then changes the seeds, and returns the end of the next process.
fn continue_after(change: impl FnOnce(&TestTraining)) -> (RunError, u32) {
    let job = banded_training();
    job.crash(1, CrashPoint::Accepted, "private", 5);
    let end = std::thread::scope(|scope| {
        for index in [0, 2] {
            let job = &job;
            scope.spawn(move || drop(job.run_process(index)));
        }
        assert!(job.run_process(1).is_err());
        change(&job);
        let end = job.run_process(1);
        job.cancel();
        end
    });
    (end.unwrap_err(), job.payments(1))
}

#[test]
fn seeds_are_removed_at_any_end_of_a_part() {
    let job = banded_training();
    job.crash(1, CrashPoint::Accepted, "private", 5);
    std::thread::scope(|scope| {
        for index in [0, 2] {
            let job = &job;
            scope.spawn(move || drop(job.run_process(index)));
        }
        assert!(job.run_process(1).is_err());
        job.cancel();
    });
    let folder = job.work_folder(1);
    let unfinished = folder.join(".noise.seeds.new");
    std::fs::write(&unfinished, b"from a failed write").unwrap();
    assert!(job.read_work_file(1, SEEDS).is_ok(), "the part could go on");
    crate::run::forget(&folder).unwrap();
    assert!(job.read_work_file(1, SEEDS).is_err() && !unfinished.exists());
    crate::run::forget(&folder).unwrap();
}

#[test]
fn lost_or_foreign_seeds_end_the_part_without_a_release() {
    let (end, payments) = continue_after(|job| job.remove_work_file(1, SEEDS));
    assert!(matches!(&end, RunError::Failed(problem) if problem.to_string().contains("no seed of round")), "{end}");
    assert_eq!(payments, 5);
    let damage = |job: &TestTraining| {
        let mut file = job.read_work_file(1, SEEDS).unwrap();
        *file.last_mut().unwrap() ^= 1;
        std::fs::write(job.work_folder(1).join(SEEDS), file).unwrap();
    };
    let (end, payments) = continue_after(damage);
    assert!(matches!(&end, RunError::Failed(problem) if problem.to_string().contains("is damaged")), "{end}");
    assert_eq!(payments, 5);
    // The seeds of another job: here of one with other terms.
    let foreign = |job: &TestTraining| {
        let other = TestTraining::new(|spec| {
            spec.open = None;
            let party = &mut spec.participants[1];
            party.sampling_rate = SamplingRate::new(0.25).unwrap();
            party.noise.as_mut().unwrap().banded = Some(BandedNoise { bands: NonZeroU32::new(3).unwrap() });
        });
        other.crash(1, CrashPoint::Accepted, "private", 5);
        std::thread::scope(|scope| {
            for index in [0, 2] {
                let other = &other;
                scope.spawn(move || drop(other.run_process(index)));
            }
            assert!(other.run_process(1).is_err());
            other.cancel();
        });
        std::fs::write(job.work_folder(1).join(SEEDS), other.read_work_file(1, SEEDS).unwrap()).unwrap();
    };
    let (end, payments) = continue_after(foreign);
    assert!(matches!(&end, RunError::Failed(problem) if problem.to_string().contains("not of this job")), "{end}");
    assert_eq!(payments, 5);
}

/// A restored copy of the file that lacks the last round: nothing further leaves.
#[test]
fn older_copy_of_the_seeds_ends_the_part() {
    let rollback = |job: &TestTraining| {
        let file = job.read_work_file(1, SEEDS).unwrap();
        let body = &file[32..file.len() - 36];
        let digest = <sha2::Sha256 as sha2::Digest>::digest(body);
        std::fs::write(job.work_folder(1).join(SEEDS), [digest.as_slice(), body].concat()).unwrap();
    };
    let (end, payments) = continue_after(rollback);
    assert!(matches!(&end, RunError::Failed(problem) if problem.to_string().contains("no seed of round 5")), "{end}");
    assert_eq!(payments, 5);
}
