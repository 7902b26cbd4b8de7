//! A job in which the lead's public data fill every role: the same code on threads of this process, with a server in
//! memory that averages. It sends, charges and requests nothing.
//!
//! Its noise and its batches come from a seed, so that settings are compared with the same randomness and a rehearsal
//! can be repeated. This is safe: the data are public, and every draw requires the site's proof of that
//! ([`PublicProof`]); without it there is no such randomness and no rehearsal.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest as _, Sha256};
use undertone_api::id::DatasetId;
use undertone_api::job::audit::{AuditFinding, AuditPlan};
use undertone_api::job::{INITIAL_MODEL, Measurement, Report, Spec as AnySpec, dp_sgd};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::PrivacyUnit;
use undertone_proto::vector::{self, VectorForm};

use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::Outgoing;
use crate::run::dp_sgd::error::TrainingError;
use crate::run::{
    Artifacts, Averaging, MaskedAveraging, RoundAverage, RoundKey, RoundProgress, RunContext, RunError, StopReason,
};
use crate::site::clearance::{Clearance, PublicProof};

/// The period in which a waiting participant checks the clock.
const POLL_PERIOD: Duration = Duration::from_secs(1);

/// The input of a rehearsal of some rounds.
pub(super) struct RehearsalInput<'a> {
    pub(super) manifest: &'a Manifest,
    /// The weight of each participant in an average.
    pub(super) weights: Vec<f64>,
    /// The paths of the data of each, and of the development data.
    pub(super) data: &'a HashMap<DatasetId, PathBuf>,
    /// The folder of all participants' work.
    pub(super) folder: &'a Path,
    /// The folder of the site's model files.
    pub(super) models: &'a Path,
    /// The proof that the data are public.
    pub(super) published: &'a PublicProof,
    pub(super) seed: u64,
    /// The round after which it ends.
    pub(super) until: u32,
    /// The time at which it is interrupted.
    pub(super) deadline: Option<Instant>,
    /// Interrupts it when it becomes true.
    pub(super) stop: &'a AtomicBool,
}

/// A rehearsal of some rounds.
pub(super) struct JobRehearsal<'a> {
    input: RehearsalInput<'a>,
    state: Mutex<RehearsalState>,
    changed: Condvar,
}

#[derive(Default)]
struct RehearsalState {
    /// The submissions of a round, by participant.
    submissions: BTreeMap<u32, BTreeMap<usize, Vec<f32>>>,
    /// The averages, and the number of participants that have fetched each.
    averages: BTreeMap<u32, (Vec<f32>, usize)>,
    files: HashMap<String, Vec<u8>>,
    measurements: Vec<Measurement>,
    report: Option<Report>,
    is_over: bool,
}

/// The result of a rehearsal.
pub(super) struct RehearsalResult {
    /// The lead's measurements.
    pub(super) measurements: Vec<Measurement>,
    /// The lead's report, for a job that ran to its end.
    pub(super) report: Option<Report>,
}

/// Ends the waits of the other participants when it is dropped, also by a panic.
struct EndSignal<'r, 'a> {
    rehearsal: &'r JobRehearsal<'a>,
    is_armed: bool,
}

impl Drop for EndSignal<'_, '_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.rehearsal.state().is_over = true;
            self.rehearsal.changed.notify_all();
        }
    }
}

impl<'a> JobRehearsal<'a> {
    pub(super) fn new(input: RehearsalInput<'a>) -> Self {
        Self { input, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Returns the work folder of a participant.
    pub(super) fn work_folder(folder: &Path, participant: usize) -> PathBuf {
        folder.join(format!("work-{participant}"))
    }

    /// Runs the rehearsal. Returns `None` when the deadline came first.
    ///
    /// # Errors
    /// The first failure of a participant.
    pub(super) fn run(self) -> Result<Option<RehearsalResult>, RunError> {
        let AnySpec::DpSgd(spec) = &self.input.manifest.spec else { return Err(TrainingError::OtherKind.into()) };
        let count = spec.participants.len();
        let ends: Vec<Result<(), RunError>> = std::thread::scope(|scope| {
            let this = &self;
            let threads: Vec<_> =
                (0..count).map(|index| scope.spawn(move || this.run_participant(spec, index))).collect();
            let panic = || RunError::from(TrainingError::RehearsalPanic);
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panic()))).collect()
        });
        let mut is_late = false;
        for end in ends {
            match end {
                Ok(()) | Err(RunError::Stopped(StopReason::RehearsalRound)) => {}
                Err(RunError::Stopped(_)) => is_late = true,
                Err(error) => return Err(error),
            }
        }
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let result = RehearsalResult { measurements: state.measurements, report: state.report };
        Ok((!is_late).then_some(result))
    }

    fn run_participant(&self, spec: &dp_sgd::Spec, index: usize) -> Result<(), RunError> {
        let mut signal = EndSignal { rehearsal: self, is_armed: true };
        let work = Self::work_folder(self.input.folder, index);
        std::fs::create_dir_all(&work)
            .map_err(|source| TrainingError::RehearsalFolder { path: work.clone(), source })?;
        let mut exchange = RehearsalExchange { rehearsal: self, index, work, round: 0, draws: 0 };
        let end = crate::run::dp_sgd::training::train(spec, &mut exchange);
        signal.is_armed = !matches!(end, Ok(()) | Err(RunError::Stopped(StopReason::RehearsalRound)));
        end
    }

    fn state(&self) -> MutexGuard<'_, RehearsalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_late(&self) -> bool {
        // The clock limits the duration of the search, and changes no result.
        self.input.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            || self.input.stop.load(Ordering::Relaxed)
    }

    fn wait<T>(&self, mut ready: impl FnMut(&mut RehearsalState) -> Option<T>) -> Result<T, RunError> {
        let mut state = self.state();
        loop {
            if let Some(value) = ready(&mut state) {
                return Ok(value);
            }
            if state.is_over {
                return Err(RunError::Stopped(StopReason::RehearsalOver));
            }
            // The waiting thread has to check the clock periodically.
            let (guard, _) = self.changed.wait_timeout(state, POLL_PERIOD).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.is_over |= self.is_late();
        }
    }
}

/// The services of one participant.
struct RehearsalExchange<'r, 'a> {
    rehearsal: &'r JobRehearsal<'a>,
    index: usize,
    work: PathBuf,
    /// Its current round, and the number of draws in it: together with the seed they determine its randomness.
    round: u32,
    draws: u32,
}

impl RehearsalExchange<'_, '_> {
    /// Ends the run after the last round of the rehearsal.
    fn check_round(&self, round: u32) -> Result<(), RunError> {
        let is_beyond = round > self.rehearsal.input.until;
        if is_beyond { Err(RunError::Stopped(StopReason::RehearsalRound)) } else { Ok(()) }
    }
}

impl RunContext for RehearsalExchange<'_, '_> {
    fn manifest(&self) -> &Manifest {
        self.rehearsal.input.manifest
    }

    fn participant(&self) -> &ManifestParticipant {
        &self.rehearsal.input.manifest.participants[self.index]
    }

    fn folder(&self) -> &Path {
        &self.work
    }

    fn models(&self) -> Option<PathBuf> {
        Some(self.rehearsal.input.models.to_owned())
    }

    fn dataset(&self, id: DatasetId) -> Result<PathBuf, RunError> {
        let path = self.rehearsal.input.data.get(&id).cloned();
        Ok(path.ok_or(TrainingError::RehearsalDataset(id))?)
    }

    fn confirm_public(&self, _: DatasetId) -> Result<PublicProof, RunError> {
        Ok(self.rehearsal.input.published.clone())
    }

    fn round_progress(&self, key: RoundKey<'_>) -> Result<RoundProgress, RunError> {
        self.check_round(key.round)?;
        let state = self.rehearsal.state();
        let is_submitted =
            state.submissions.get(&key.round).is_some_and(|submissions| submissions.contains_key(&self.index));
        let is_accepted = is_submitted || state.averages.contains_key(&key.round);
        Ok(if is_accepted { RoundProgress::Accepted } else { RoundProgress::Untouched })
    }

    fn fix_period(&mut self, _: &mut dyn FnMut() -> Result<Duration, RunError>) -> Result<(), RunError> {
        Ok(())
    }

    fn draw_randomness(&mut self, purpose: Purpose) -> Randomness {
        self.draws += 1;
        let RehearsalInput { published, seed, .. } = &self.rehearsal.input;
        let place =
            [seed.to_le_bytes(), (self.index as u64).to_le_bytes(), u64::from(self.round).to_le_bytes()].concat();
        let hash = Sha256::new().chain_update("undertone/rehearsal/1\0").chain_update(place);
        let digest: [u8; 32] = hash.chain_update(self.draws.to_le_bytes()).finalize().into();
        Randomness::rehearsed(published, purpose, digest)
    }

    fn clear(&mut self, _: RoundKey<'_>) -> Result<Clearance, RunError> {
        Ok(Clearance::Public(self.rehearsal.input.published.clone()))
    }

    fn submit_report(&mut self, report: Report) -> Result<(), RunError> {
        self.rehearsal.state().report = Some(report);
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.rehearsal.is_late() || self.rehearsal.state().is_over
    }
}

impl Averaging for RehearsalExchange<'_, '_> {
    fn longest_unit(&self, _: PrivacyUnit) -> Option<usize> {
        None
    }

    fn is_closed(&mut self, key: RoundKey<'_>) -> Result<bool, RunError> {
        self.round = key.round;
        self.draws = 0;
        Ok(false)
    }

    fn send_vector(&mut self, key: RoundKey<'_>, vector: Outgoing) -> Result<(), RunError> {
        let rounding = self.draw_randomness(Purpose::Rounding).stream(0);
        let RehearsalInput { manifest, weights, seed, .. } = &self.rehearsal.input;
        let numbers = transmit(manifest, vector.vector(), rounding)?;
        let mut state = self.rehearsal.state();
        let submissions = state.submissions.entry(key.round).or_default();
        submissions.insert(self.index, numbers);
        if submissions.len() == weights.len() {
            let submissions = state.submissions.remove(&key.round).unwrap_or_default();
            // The result does not depend on the order of arrival.
            let mut rounding = ChaCha20Rng::seed_from_u64(*seed);
            rounding.set_stream(u64::from(key.round));
            let mean = transmit(manifest, &weighted_mean(&submissions, weights), rounding)?;
            state.averages.insert(key.round, (mean, 0));
            self.rehearsal.changed.notify_all();
        }
        Ok(())
    }

    fn resend_vector(&mut self, key: RoundKey<'_>) -> Result<(), RunError> {
        // Every vector reaches the server in memory at once, so none is ever stored.
        Err(TrainingError::NothingStored { series: key.series.to_owned(), round: key.round }.into())
    }

    fn fetch_average(&mut self, key: RoundKey<'_>) -> Result<RoundAverage, RunError> {
        self.check_round(key.round)?;
        let count = self.rehearsal.input.weights.len();
        let mean = self.rehearsal.wait(|state| {
            let (mean, fetches) = state.averages.get_mut(&key.round)?;
            *fetches += 1;
            if *fetches < count {
                return Some(mean.clone());
            }
            state.averages.remove(&key.round).map(|(mean, _)| mean)
        })?;
        Ok(RoundAverage { mean, contributors: count as u32 })
    }

    fn masking(&mut self, _: &str) -> Option<&mut dyn MaskedAveraging> {
        // The vectors stay in this process: masks would hide them from no one.
        None
    }

    fn promised_audit(&self) -> Option<AuditPlan> {
        None
    }

    fn submit_finding(&mut self, _: AuditFinding) -> Result<(), RunError> {
        Err(TrainingError::NoPromisedAudit.into())
    }
}

impl Artifacts for RehearsalExchange<'_, '_> {
    fn put_file(&mut self, name: &str, content: Vec<u8>) -> Result<(), RunError> {
        self.rehearsal.state().files.insert(name.to_owned(), content);
        self.rehearsal.changed.notify_all();
        Ok(())
    }

    fn fetch_file(&mut self, name: &str) -> Result<Vec<u8>, RunError> {
        if name == INITIAL_MODEL {
            // There is no registry here, so the file had to be in the site's folder.
            return Err(TrainingError::NoLocalModel(self.rehearsal.input.models.to_owned()).into());
        }
        self.rehearsal.wait(|state| state.files.get(name).cloned())
    }

    fn report_measurement(&mut self, measurement: Measurement) -> Result<(), RunError> {
        self.rehearsal.state().measurements.push(measurement);
        Ok(())
    }
}

/// Encodes and decodes a vector as on the wire, in the precision of the job's vectors.
fn transmit(manifest: &Manifest, numbers: &[f32], mut rounding: impl Rng) -> Result<Vec<f32>, TrainingError> {
    let AnySpec::DpSgd(spec) = &manifest.spec else { return Err(TrainingError::OtherKind) };
    let precision = spec.private.map_or_else(Default::default, |rounds| rounds.exchange.precision);
    let bytes = vector::write(numbers, precision, || rounding.next_u32())?;
    Ok(vector::read(&bytes, VectorForm::new(precision, numbers.len() as u64)?)?)
}

/// Computes the weighted mean, in the order of the participants, independent of the order of arrival.
fn weighted_mean(submissions: &BTreeMap<usize, Vec<f32>>, weights: &[f64]) -> Vec<f32> {
    let whole: f64 = weights.iter().sum();
    let mut sum = vec![0.0_f64; submissions.values().next().map_or(0, Vec::len)];
    for (index, numbers) in submissions {
        let weight = weights[*index] / whole;
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += weight * f64::from(*number));
    }
    sum.into_iter().map(|value| value as f32).collect()
}
