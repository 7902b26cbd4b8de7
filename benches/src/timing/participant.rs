//! One private participant of a job, running as at a site: the run of the job kind with a simulated exchange. The
//! exchange stores bytes on the disk, waits for the release clock if there is one, records the time, and returns the
//! participant's own vector as the mean.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use undertone_api::dataset::Visibility;
use undertone_api::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::audit::{AuditFinding, AuditPlan};
use undertone_api::job::dp_sgd::{
    AcousticModel as Described, AverageWeights, Noise, Optimizer, Party, Rounds, Spec, WarmStart,
};
use undertone_api::job::{Charge, DatasetUse as Part, Measurement, Report, Spec as AnySpec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::{Adjacency, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
use undertone_worker::daemon::{ReleaseClock, SystemTimeline};
use undertone_worker::dp::randomness::{Purpose, Randomness};
use undertone_worker::dp::release::Outgoing;
use undertone_worker::dp::sampler::Sampler;
use undertone_worker::run::{
    Artifacts, Averaging, MaskedAveraging, RoundAverage, RoundKey, RoundProgress, RunContext, RunError, dp_sgd,
};
use undertone_worker::site::clearance::{Clearance, PublicProof};
use undertone_worker::site::gate;
use undertone_worker::site::policy::{DatasetRules, Policy, ReleasePeriod, UnitLength, declare};
use undertone_worker::speech::model::{Model, ModelShape, Normalizer};
use uuid::Uuid;

use super::speakers::{CLASSES, INPUTS, LONGEST_SECONDS, SPEAKERS};

/// The number of units of the model's recurrent layer.
const HIDDEN: usize = 16;
/// q: the largest speaker is in every second batch.
const RATE: f64 = 0.5;
const OURS: DatasetId = DatasetId(Uuid::from_u128(2));

/// A completed round.
pub(super) struct PlayedRound {
    /// From the opening of the round until its vector left, seconds.
    pub(super) seconds: f64,
    /// Whether the largest speaker was drawn.
    pub(super) drawn: bool,
}

/// A completed job.
pub(super) struct TimedJob {
    pub(super) rounds: Vec<PlayedRound>,
    /// From the opening of the first round to the last mean, seconds.
    pub(super) seconds: f64,
    /// The period of the clock; `None` without one.
    pub(super) period_seconds: Option<f64>,
    /// Releases that missed their first tick.
    pub(super) late: u64,
    /// The duration of the period's measurement, seconds.
    pub(super) measuring_seconds: f64,
}

/// The participant.
pub(super) struct TimedParticipant {
    manifest: Manifest,
    folder: PathBuf,
    data: PathBuf,
    largest: usize,
    rate: SamplingRate,
    rules: DatasetRules,
    runtime: Runtime,
    clock: Option<ReleaseClock>,
    start: Vec<u8>,
    began: Instant,
    opened: Instant,
    drawn: bool,
    sent: Vec<f32>,
    played: Vec<PlayedRound>,
    measuring: Duration,
}

impl TimedParticipant {
    pub(super) fn new(
        folder: &Path,
        data: &Path,
        largest: usize,
        rounds: u32,
        on_clock: bool,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        std::fs::create_dir_all(folder)?;
        let policy = folder.join("policy.toml");
        // Synthetic data, from which the engine may make unpaid releases.
        declare(&policy, "speakers", Visibility::Public)?;
        let rate = SamplingRate::new(RATE)?;
        let normalizer = Normalizer::new(vec![0.0; INPUTS], vec![1.0; INPUTS]);
        let start = Model::initialize(ModelShape::plain(INPUTS, HIDDEN, CLASSES), normalizer, 7).to_safetensors()?;
        Ok(Self {
            manifest: manifest(rate, rounds)?,
            folder: folder.to_owned(),
            data: data.to_owned(),
            largest,
            rate,
            rules: Policy::load(&policy)?.rules("speakers"),
            runtime: Runtime::new()?,
            clock: on_clock.then(|| ReleaseClock::open(Arc::new(SystemTimeline::default()), folder)),
            start,
            began: Instant::now(),
            opened: Instant::now(),
            drawn: false,
            sent: Vec::new(),
            played: Vec::new(),
            measuring: Duration::ZERO,
        })
    }

    /// Runs all rounds.
    pub(super) fn play(mut self) -> Result<TimedJob, Box<dyn std::error::Error>> {
        let AnySpec::DpSgd(spec) = self.manifest.spec.clone() else { return Err("the job is of another kind".into()) };
        dp_sgd::run(&spec, &mut self)?;
        let period = self.clock.as_ref().and_then(ReleaseClock::period);
        Ok(TimedJob {
            seconds: self.began.elapsed().as_secs_f64(),
            period_seconds: period.map(ReleasePeriod::as_seconds),
            late: self.clock.as_ref().map_or(0, |clock| clock.record().late),
            measuring_seconds: self.measuring.as_secs_f64(),
            rounds: self.played,
        })
    }
}

impl RunContext for TimedParticipant {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn participant(&self) -> &ManifestParticipant {
        &self.manifest.participants[1]
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    fn dataset(&self, _: DatasetId) -> Result<PathBuf, RunError> {
        Ok(self.data.clone())
    }

    fn confirm_public(&self, _: DatasetId) -> Result<PublicProof, RunError> {
        gate::prove_public(&self.rules).map_err(RunError::refused)
    }

    fn round_progress(&self, _: RoundKey<'_>) -> Result<RoundProgress, RunError> {
        Ok(RoundProgress::Untouched)
    }

    fn fix_period(&mut self, measure: &mut dyn FnMut() -> Result<Duration, RunError>) -> Result<(), RunError> {
        let Some(clock) = &self.clock else { return Ok(()) };
        let began = Instant::now();
        let period =
            ReleasePeriod::covering(measure()?).ok_or_else(|| RunError::failed("a round takes more than a day"))?;
        self.measuring = began.elapsed();
        eprintln!("timing: the clock ticks every {} s", period.as_seconds());
        clock.set_period(period).map_err(RunError::failed)
    }

    fn draw_randomness(&mut self, purpose: Purpose) -> Randomness {
        let randomness = Randomness::from_os(purpose);
        if purpose == Purpose::Sampling {
            // The same draw as in the run, by the same code.
            self.drawn = Sampler::new(SPEAKERS, self.rate).draw(&randomness).units().contains(&self.largest);
        }
        randomness
    }

    fn clear(&mut self, _: RoundKey<'_>) -> Result<Clearance, RunError> {
        gate::prove_public(&self.rules).map(Clearance::Public).map_err(RunError::refused)
    }

    fn submit_report(&mut self, _: Report) -> Result<(), RunError> {
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

impl Averaging for TimedParticipant {
    fn longest_unit(&self, _: PrivacyUnit) -> Option<usize> {
        UnitLength::try_from(LONGEST_SECONDS).ok().map(UnitLength::frames)
    }

    fn is_closed(&mut self, key: RoundKey<'_>) -> Result<bool, RunError> {
        self.opened = Instant::now();
        if key.round == 1 {
            self.began = self.opened;
        }
        if let Some(clock) = &self.clock {
            clock.reopen();
        }
        Ok(false)
    }

    fn send_vector(&mut self, _: RoundKey<'_>, vector: Outgoing) -> Result<(), RunError> {
        let bytes: Vec<u8> = vector.vector().iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut file = File::create(self.folder.join("vector")).map_err(RunError::failed)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(RunError::failed)?;
        if let Some(clock) = &self.clock {
            self.runtime.block_on(clock.wait(&CancellationToken::new()));
        }
        self.played.push(PlayedRound { seconds: self.opened.elapsed().as_secs_f64(), drawn: self.drawn });
        self.sent = vector.vector().to_vec();
        Ok(())
    }

    fn resend_vector(&mut self, key: RoundKey<'_>) -> Result<(), RunError> {
        Err(RunError::failed(format!("no vector of {key} is stored: every run is new")))
    }

    fn fetch_average(&mut self, _: RoundKey<'_>) -> Result<RoundAverage, RunError> {
        Ok(RoundAverage { mean: self.sent.clone(), contributors: 1 })
    }

    fn masking(&mut self, _: &str) -> Option<&mut dyn MaskedAveraging> {
        None
    }

    fn promised_audit(&self) -> Option<AuditPlan> {
        None
    }

    fn submit_finding(&mut self, _: AuditFinding) -> Result<(), RunError> {
        Err(RunError::failed("the finding is of no promised audit"))
    }
}

impl Artifacts for TimedParticipant {
    fn put_file(&mut self, _: &str, _: Vec<u8>) -> Result<(), RunError> {
        Ok(())
    }

    fn fetch_file(&mut self, _: &str) -> Result<Vec<u8>, RunError> {
        Ok(self.start.clone())
    }

    fn report_measurement(&mut self, _: Measurement) -> Result<(), RunError> {
        Ok(())
    }
}

/// Returns the job: one step per round, of a public lead and of this participant.
fn manifest(rate: SamplingRate, rounds: u32) -> Result<Manifest, Box<dyn std::error::Error>> {
    let noise_multiplier = NoiseMultiplier::new(1.0)?;
    let lead = DatasetId(Uuid::from_u128(1));
    let party = |dataset, noise| Party { dataset, sampling_rate: rate, noise, rounds: None };
    let spec = Spec {
        unit: PrivacyUnit::Speaker,
        model: Described::lstm(HIDDEN as u32, Some(CLASSES as u32)),
        initial_model: None,
        participants: vec![party(lead, None), party(OURS, Some(Noise::flat(noise_multiplier, 1.0)))],
        open_terms: Vec::new(),
        rehearsal: None,
        tests: Vec::new(),
        warm_start: WarmStart { epochs: 1, batch: 8, learning_rate: 0.01, seed: 7 },
        open: None,
        private: Some(Rounds::new(rounds, Optimizer::Sgd { learning_rate: 0.01, momentum: 0.0 })),
        audit: None,
        selection: None,
        secure_aggregation: None,
        weights: AverageWeights::Equal,
        spare_releases: 0,
        checkpoint_every: rounds,
    };
    let event = Event::PoissonSampledGaussian { sampling_rate: rate, noise_multiplier };
    let charge =
        Charge { unit: PrivacyUnit::Speaker, adjacency: Adjacency::AddRemove, event, releases: u64::from(rounds) };
    let participant = |dataset, charge: Option<Charge>| ManifestParticipant {
        dataset,
        dataset_name: "speakers".to_owned(),
        lineage: LineageId(Uuid::from_u128(3)),
        organization: OrganizationId(Uuid::from_u128(4)),
        organization_name: "Site".to_owned(),
        worker: WorkerId(Uuid::from_u128(5)),
        purpose: Part::Participate,
        units: SPEAKERS as u64,
        charge,
        site_key: None,
    };
    Ok(Manifest {
        job: JobId(Uuid::from_u128(6)),
        consortium: ConsortiumId(Uuid::from_u128(7)),
        title: "Timing".to_owned(),
        proposed_by: "nobody".to_owned(),
        participants: vec![participant(lead, None), participant(OURS, Some(charge))],
        spec: AnySpec::DpSgd(spec),
        model: None,
        initial_model: None,
        limits: None,
        proposal: None,
        issued_at: OffsetDateTime::UNIX_EPOCH,
    })
}
