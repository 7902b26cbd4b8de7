//! Specs for scenarios: builds a `dp_sgd` job in one expression.

use undertone_api::dataset::Dataset;
use undertone_api::id::DatasetId;
use undertone_api::job::dp_sgd::{
    AcousticModel, AuditOptions, AverageWeights, Noise, Optimizer, Party, Precision, Rounds as Series, Spec, TestSet,
    WarmStart,
};
use undertone_api::job::{NewJob, Spec as AnySpec};
use undertone_privacy::{NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::TestResult;

/// Rounds of one arm.
#[derive(Debug, Clone, Copy)]
pub struct ArmRounds {
    /// The number of rounds.
    pub rounds: u32,
    /// Adam's learning rate.
    pub learning_rate: f64,
    /// The number of rounds between two evaluations.
    pub evaluate_every: u32,
    /// The time that a round waits for all participants, seconds.
    pub deadline_seconds: u32,
    /// The number of submissions that suffices after that.
    pub quorum: u32,
}

impl ArmRounds {
    const fn series(self) -> Series {
        Series {
            evaluate_every: self.evaluate_every,
            deadline_seconds: self.deadline_seconds,
            quorum: self.quorum,
            ..Series::new(self.rounds, Optimizer::Adam { learning_rate: self.learning_rate })
        }
    }
}

/// A job under construction. The first participant leads.
#[derive(Debug, Clone)]
pub struct JobPlan {
    spec: Spec,
    title: String,
}

impl JobPlan {
    /// Starts a job led by the public dataset `lead`, with a warm start of `epochs`.
    ///
    /// # Errors
    /// When a number is out of range.
    pub fn new(title: &str, unit: PrivacyUnit, hidden: u32, lead: &Dataset, epochs: u32) -> TestResult<Self> {
        let warm_start = WarmStart { epochs, batch: 8, learning_rate: 2e-3, seed: 7 };
        let lead = Party { dataset: lead.id, sampling_rate: SamplingRate::new(0.1)?, noise: None, rounds: None };
        let spec = Spec {
            unit,
            model: AcousticModel::lstm(hidden, None),
            initial_model: None,
            participants: vec![lead],
            open_terms: Vec::new(),
            rehearsal: None,
            tests: Vec::new(),
            warm_start,
            open: None,
            private: None,
            audit: None,
            selection: None,
            secure_aggregation: None,
            weights: AverageWeights::ExpectedBatch,
            spare_releases: 4,
            checkpoint_every: 5,
        };
        Ok(Self { spec, title: title.to_owned() })
    }

    /// Adds a private participant.
    ///
    /// # Errors
    /// When a number is out of range.
    pub fn party(
        mut self,
        dataset: DatasetId,
        sampling_rate: f64,
        noise_multiplier: f64,
        clip: f64,
    ) -> TestResult<Self> {
        let noise = Noise::flat(NoiseMultiplier::new(noise_multiplier)?, clip);
        let sampling_rate = SamplingRate::new(sampling_rate)?;
        self.spec.participants.push(Party { dataset, sampling_rate, noise: Some(noise), rounds: None });
        Ok(self)
    }

    /// Adds a public participant, which sends exact vectors.
    ///
    /// # Errors
    /// When the rate is out of range.
    pub fn public_party(mut self, dataset: DatasetId, sampling_rate: f64) -> TestResult<Self> {
        self.spec.participants.push(Party {
            dataset,
            sampling_rate: SamplingRate::new(sampling_rate)?,
            noise: None,
            rounds: None,
        });
        Ok(self)
    }

    /// Sets the number of local steps between two averages and the precision of vectors, in the private arm, which must
    /// be set before.
    #[must_use]
    pub const fn exchange(mut self, local_steps: u32, precision: Precision) -> Self {
        if let Some(rounds) = &mut self.spec.private {
            rounds.local_steps = local_steps;
            rounds.exchange.precision = precision;
        }
        self
    }

    /// Sets the sampling rate of the lead.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn lead_rate(mut self, sampling_rate: f64) -> TestResult<Self> {
        let sampling_rate = SamplingRate::new(sampling_rate)?;
        if let Some(lead) = self.spec.participants.first_mut() {
            lead.sampling_rate = sampling_rate;
        }
        Ok(self)
    }

    /// Begins with a registry model, without epochs of a warm start.
    #[must_use]
    pub fn begin_with(mut self, digest: &str) -> Self {
        self.spec.initial_model = Some(digest.to_owned());
        self.spec.warm_start.epochs = 0;
        self
    }

    /// Adds a test set.
    #[must_use]
    pub fn test(mut self, name: &str, dataset: DatasetId) -> Self {
        self.spec.tests.push(TestSet { name: name.to_owned(), dataset });
        self
    }

    /// Runs the open arm.
    #[must_use]
    pub const fn open(mut self, rounds: ArmRounds) -> Self {
        self.spec.open = Some(rounds.series());
        self
    }

    /// Runs the private arm.
    #[must_use]
    pub const fn private(mut self, rounds: ArmRounds) -> Self {
        self.spec.private = Some(rounds.series());
        self
    }

    /// Audits the private arm.
    #[must_use]
    pub const fn audit(mut self, audit: AuditOptions) -> Self {
        self.spec.audit = Some(audit);
        self
    }

    /// Returns the proposal.
    pub fn job(self) -> NewJob {
        NewJob { title: self.title, spec: AnySpec::DpSgd(self.spec) }
    }
}
