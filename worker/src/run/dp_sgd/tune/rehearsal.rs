//! A job in which the lead's public data fill every role: the same code on threads of this process, with a server in
//! memory that averages. It sends, charges and requests nothing.
//!
//! Its noise and its batches come from a seed, so that settings are compared with the same randomness and a rehearsal
//! can be repeated. This is safe: the data are public, and every draw requires the site's confirmation of that
//! ([`gate::prove_public`](crate::site::gate::published)); without it there is no such randomness and no rehearsal.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest as _, Sha256};
use undertone_api::id::DatasetId;
use undertone_api::job::{Measurement, Report, Spec as AnySpec, dp_sgd};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_proto::vector::{self, VectorForm};

use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::Outgoing;
use crate::run::{Average, Exchange, Past, Run, RunError};
use crate::site::clearance::Clearance;
use crate::site::gate;
use crate::site::policy::DatasetRules;

/// The stop reason of a participant that has reached the last requested round.
const REACHED: &str = "the rehearsal ends here";
/// The stop reason of all after a failure, or after the deadline.
const OVER: &str = "the rehearsal is over";

/// The period in which a waiting participant checks the clock.
const LOOK: Duration = Duration::from_secs(1);

/// A rehearsal of some rounds.
pub(super) struct Rehearsal<'a> {
    pub(super) manifest: &'a Manifest,
    /// The weight of each participant in an average.
    pub(super) weights: Vec<f64>,
    /// The paths of the data of each, and of the development data.
    pub(super) data: &'a HashMap<DatasetId, PathBuf>,
    /// The folder of all participants' work.
    pub(super) folder: &'a Path,
    /// The rules for the public dataset.
    pub(super) rules: &'a DatasetRules,
    pub(super) seed: u64,
    /// The round after which it ends.
    pub(super) until: u32,
    /// The time at which it is interrupted.
    pub(super) deadline: Option<Instant>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The submissions of a round, by participant.
    submitted: BTreeMap<u32, BTreeMap<usize, Vec<f32>>>,
    /// The averages, and the number of participants that have fetched each.
    averages: BTreeMap<u32, (Vec<f32>, usize)>,
    files: HashMap<String, Vec<u8>>,
    measured: Vec<Measurement>,
    report: Option<Report>,
    over: bool,
}

/// The result of a rehearsal.
pub(super) struct Rehearsed {
    /// The lead's measurements.
    pub(super) measured: Vec<Measurement>,
    /// The lead's report, for a job that ran to its end.
    pub(super) report: Option<Report>,
}

impl<'a> Rehearsal<'a> {
    #[expect(clippy::too_many_arguments, reason = "one call, one caller, and each is something else")]
    pub(super) fn new(
        manifest: &'a Manifest,
        weights: Vec<f64>,
        data: &'a HashMap<DatasetId, PathBuf>,
        folder: &'a Path,
        rules: &'a DatasetRules,
        seed: u64,
        until: u32,
        deadline: Option<Instant>,
    ) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { manifest, weights, data, folder, rules, seed, until, deadline, state, changed }
    }

    /// Returns the work folder of a participant.
    pub(super) fn work(folder: &Path, participant: usize) -> PathBuf {
        folder.join(format!("work-{participant}"))
    }

    /// Runs the rehearsal. Returns `None` when the deadline came first.
    ///
    /// # Errors
    /// The first failure of a participant.
    pub(super) fn play(self) -> Result<Option<Rehearsed>, RunError> {
        let AnySpec::DpSgd(spec) = &self.manifest.spec else {
            return Err(RunError::Failed("only a `dp_sgd` job is rehearsed".to_owned()));
        };
        let count = spec.participants.len();
        let ends: Vec<Result<(), RunError>> = std::thread::scope(|scope| {
            let this = &self;
            let actors: Vec<_> = (0..count).map(|index| scope.spawn(move || this.act(spec, index))).collect();
            let died = || RunError::Failed("a participant of the rehearsal died".to_owned());
            actors.into_iter().map(|actor| actor.join().unwrap_or_else(|_| Err(died()))).collect()
        });
        let mut late = false;
        for end in ends {
            match end {
                Ok(()) => {}
                Err(RunError::Stopped(reason)) if reason == REACHED => {}
                Err(RunError::Stopped(_)) => late = true,
                Err(error) => return Err(error),
            }
        }
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((!late).then_some(Rehearsed { measured: state.measured, report: state.report }))
    }

    fn act(&self, spec: &dp_sgd::Spec, index: usize) -> Result<(), RunError> {
        /// Ends the waits of the others after any end of this one, including a panic.
        struct Leave<'r, 'a>(&'r Rehearsal<'a>, bool);
        impl Drop for Leave<'_, '_> {
            fn drop(&mut self) {
                if self.1 {
                    self.0.state().over = true;
                    self.0.changed.notify_all();
                }
            }
        }
        let mut leave = Leave(self, true);
        let work = Self::work(self.folder, index);
        std::fs::create_dir_all(&work)
            .map_err(|error| RunError::Failed(format!("{} cannot be made: {error}", work.display())))?;
        let end = spec.run(&mut Actor { rehearsal: self, index, work, round: 0, draws: 0 });
        leave.1 = match &end {
            Ok(()) => false,
            Err(RunError::Stopped(reason)) => reason != REACHED,
            Err(_) => true,
        };
        end
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn late(&self) -> bool {
        // The clock limits the duration of the search, and changes no result.
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> Result<T, RunError> {
        let mut state = self.state();
        loop {
            if let Some(found) = ready(&mut state) {
                return Ok(found);
            }
            if state.over {
                return Err(RunError::Stopped(OVER.to_owned()));
            }
            // The waiting thread has to check the clock periodically.
            let waited = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.over |= self.late();
        }
    }
}

/// One participant.
struct Actor<'r, 'a> {
    rehearsal: &'r Rehearsal<'a>,
    index: usize,
    work: PathBuf,
    /// Its current round, and the number of draws in it: together with the seed they determine its randomness.
    round: u32,
    draws: u32,
}

impl Actor<'_, '_> {
    fn reached(&self, round: u32) -> Result<(), RunError> {
        if round > self.rehearsal.until { Err(RunError::Stopped(REACHED.to_owned())) } else { Ok(()) }
    }
}

/// Encodes and decodes a vector as on the wire, in the precision of the job's vectors.
fn travelled(
    manifest: &Manifest,
    numbers: &[f32],
    mut chance: impl rand_chacha::rand_core::Rng,
) -> Result<Vec<f32>, RunError> {
    let AnySpec::DpSgd(spec) = &manifest.spec else {
        return Err(RunError::Failed("only a `dp_sgd` job is rehearsed".to_owned()));
    };
    let precision = spec.private.map_or_else(Default::default, |rounds| rounds.exchange.precision);
    let failed = |error: vector::VectorError| RunError::Failed(error.to_string());
    let bytes = vector::write(numbers, precision, || chance.next_u32()).map_err(failed)?;
    vector::read(&bytes, VectorForm::new(precision, numbers.len() as u64).map_err(failed)?).map_err(failed)
}

impl Exchange for Actor<'_, '_> {
    fn manifest(&self) -> &Manifest {
        self.rehearsal.manifest
    }

    fn own(&self) -> &ManifestParticipant {
        &self.rehearsal.manifest.participants[self.index]
    }

    fn folder(&self) -> &Path {
        &self.work
    }

    fn dataset(&self, id: DatasetId) -> Result<PathBuf, RunError> {
        let place = self.rehearsal.data.get(&id).cloned();
        place.ok_or_else(|| RunError::Failed("the rehearsal has no such dataset".to_owned()))
    }

    fn past(&self, _: &str, round: u32) -> Result<Past, RunError> {
        self.reached(round)?;
        let state = self.rehearsal.state();
        let came = state.submitted.get(&round).is_some_and(|came| came.contains_key(&self.index));
        Ok(if came || state.averages.contains_key(&round) { Past::Accepted } else { Past::Untouched })
    }

    fn closed(&mut self, _: &str, round: u32) -> Result<bool, RunError> {
        (self.round, self.draws) = (round, 0);
        Ok(false)
    }

    fn chance(&mut self, purpose: Purpose) -> Randomness {
        self.draws += 1;
        let Rehearsal { rules, seed, .. } = self.rehearsal;
        let Ok(published) = gate::prove_public(rules) else {
            // This was checked before the rehearsal began; if the rules could change meanwhile, this would be the safe
            // result.
            return Randomness::from_os(purpose);
        };
        let place =
            [seed.to_le_bytes(), (self.index as u64).to_le_bytes(), u64::from(self.round).to_le_bytes()].concat();
        let hash = Sha256::new().chain_update("undertone/rehearsal/1\0").chain_update(place);
        let digest: [u8; 32] = hash.chain_update(self.draws.to_le_bytes()).finalize().into();
        Randomness::rehearsed(&published, purpose, digest)
    }

    fn clear(&mut self, _: &str, _: u32) -> Result<Clearance, RunError> {
        let published =
            gate::prove_public(self.rehearsal.rules).map_err(|error| RunError::Refused(error.to_string()))?;
        Ok(Clearance::Public(published))
    }

    fn send(&mut self, _: &str, round: u32, vector: Outgoing) -> Result<(), RunError> {
        let chance = self.chance(Purpose::Rounding).stream(0);
        let numbers = travelled(self.rehearsal.manifest, vector.vector(), chance)?;
        let weights = &self.rehearsal.weights;
        let mut state = self.rehearsal.state();
        let came = state.submitted.entry(round).or_default();
        came.insert(self.index, numbers);
        if came.len() == weights.len() {
            let came = state.submitted.remove(&round).unwrap_or_default();
            // The result does not depend on the order of arrival.
            let mut chance = ChaCha20Rng::seed_from_u64(self.rehearsal.seed);
            chance.set_stream(u64::from(round));
            let mean = travelled(self.rehearsal.manifest, &mean(&came, weights), chance)?;
            state.averages.insert(round, (mean, 0));
            self.rehearsal.changed.notify_all();
        }
        Ok(())
    }

    fn resend(&mut self, _: &str, _: u32) -> Result<(), RunError> {
        Err(RunError::Failed("a rehearsal stores nothing".to_owned()))
    }

    fn average(&mut self, _: &str, round: u32) -> Result<Average, RunError> {
        self.reached(round)?;
        let count = self.rehearsal.weights.len();
        let mean = self.rehearsal.wait(|state| {
            let (mean, fetched) = state.averages.get_mut(&round)?;
            *fetched += 1;
            if *fetched < count {
                return Some(mean.clone());
            }
            state.averages.remove(&round).map(|(mean, _)| mean)
        })?;
        Ok(Average { mean, contributors: count as u32 })
    }

    fn put(&mut self, name: &str, content: Vec<u8>) -> Result<(), RunError> {
        self.rehearsal.state().files.insert(name.to_owned(), content);
        self.rehearsal.changed.notify_all();
        Ok(())
    }

    fn get(&mut self, name: &str) -> Result<Vec<u8>, RunError> {
        self.rehearsal.wait(|state| state.files.get(name).cloned())
    }

    fn measure(&mut self, measurement: Measurement) -> Result<(), RunError> {
        self.rehearsal.state().measured.push(measurement);
        Ok(())
    }

    fn report(&mut self, report: Report) -> Result<(), RunError> {
        self.rehearsal.state().report = Some(report);
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.rehearsal.late() || self.rehearsal.state().over
    }
}

/// Computes the weighted mean, in the order of the participants, independent of the order of arrival.
fn mean(came: &BTreeMap<usize, Vec<f32>>, weights: &[f64]) -> Vec<f32> {
    let whole: f64 = weights.iter().sum();
    let mut sum = vec![0.0_f64; came.values().next().map_or(0, Vec::len)];
    for (index, numbers) in came {
        let weight = weights[*index] / whole;
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += weight * f64::from(*number));
    }
    sum.into_iter().map(|value| value as f32).collect()
}
