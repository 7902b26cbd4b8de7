//! Shared values for tests of the worker's crates: one site, one server key, one proposed job, vectors and data.
//!
//! Needs the feature `testing`, which only dev-dependencies enable.

#![expect(clippy::missing_panics_doc, reason = "a test fails by panicking")]

pub mod fixture;
pub mod log;

use std::num::NonZeroU32;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use time::OffsetDateTime;
use undertone_api::dataset::{DatasetContent, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::active_learning::{self, Acquisition, Aggregation, Classifier, Gate, Label};
use undertone_api::job::dp_sgd::{
    self, AcousticModel, AverageWeights, Noise, Optimizer, Party, Rounds, TestSet, WarmStart,
};
use undertone_api::job::{Charge, DatasetUse, Spec};
use undertone_api::signed::{JobLimits, Manifest, ManifestParticipant};
use undertone_privacy::kanon::Shown;
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use crate::clock::{self, Clock};
use crate::datasets::{DatasetFacts, LocalDataset};
use crate::folder::Folder;
use crate::keys::SiteKey;
use crate::ledger::Ledger;
use crate::ledger::release_context::ReleaseContext;
use crate::outbox::StoredRelease;
use crate::policy::LifetimeLimit;
use crate::store::Store;

/// This worker.
pub const WORKER: WorkerId = WorkerId(Uuid::from_u128(1));
/// The worker's organization.
pub const ORGANIZATION: OrganizationId = OrganizationId(Uuid::from_u128(2));
/// The job.
pub const JOB: JobId = JobId(Uuid::from_u128(3));
/// The site's private dataset.
pub const OURS: DatasetId = DatasetId(Uuid::from_u128(4));
/// Another organization's public dataset; it leads.
pub const LEAD: DatasetId = DatasetId(Uuid::from_u128(5));
/// The lineage of [`OURS`].
pub const LINEAGE: LineageId = LineageId(Uuid::from_u128(6));

/// Makes a noise multiplier.
pub fn z(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).expect("a positive number")
}

/// Returns one Gaussian release.
pub fn gaussian(noise: f64) -> Event {
    Event::Gaussian { noise_multiplier: z(noise) }
}

/// Returns one Gaussian release of units sampled with probability `q`.
pub fn sampled_gaussian(q: f64, noise: f64) -> Event {
    Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(q).expect("a probability"),
        noise_multiplier: z(noise),
    }
}

/// Returns the charge of `releases` of `event`, for speakers.
pub fn charge(event: Event, releases: u64) -> Charge {
    Charge { unit: PrivacyUnit::Speaker, adjacency: Adjacency::ZeroOut, event, releases }
}

/// Makes a lifetime limit.
pub fn limit(epsilon: f64) -> LifetimeLimit {
    LifetimeLimit {
        epsilon: Epsilon::new(epsilon).expect("a finite number"),
        delta: Delta::new(1e-6).expect("a probability"),
        filter: undertone_privacy::ledger::FilterKind::Renyi,
    }
}

/// Returns a clock that always returns the same time.
pub fn clock() -> Clock {
    Arc::new(|| OffsetDateTime::UNIX_EPOCH)
}

/// Returns the context of one job on [`OURS`] with at most `releases` of `event`.
pub fn release_context(event: Event, releases: u64) -> ReleaseContext {
    ReleaseContext {
        job: JOB,
        dataset: OURS,
        lineage: LINEAGE,
        manifest: "digest".to_owned(),
        charge: charge(event, releases),
    }
}

/// Returns a release of a job whose bytes count as stored.
pub fn stored_release(under: &ReleaseContext, series: &str, round: u32) -> StoredRelease {
    StoredRelease::in_test(under.job, under.dataset, series, round)
}

/// Opens the ledger of the site in `folder` for writing.
pub fn ledger_at(folder: &Folder) -> Ledger {
    let lock = folder.lock().expect("nobody else writes");
    let key = SiteKey::load(&folder.key()).expect("it was made");
    let store = Arc::new(Store::create(&folder.ledger()).expect("the folder is writable"));
    Ledger::open(store, lock, key, WORKER, clock()).expect("the rows add up")
}

/// Returns the signing key of these tests' server.
pub fn server_key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// Returns a spec with 10 private rounds of the lead and of [`OURS`]: q = 1/8, z = 4.
pub fn dp_sgd() -> dp_sgd::Spec {
    let party = |dataset, noise| Party {
        dataset,
        sampling_rate: SamplingRate::new(0.125).expect("a probability"),
        noise,
        rounds: None,
    };
    dp_sgd::Spec {
        unit: PrivacyUnit::Speaker,
        model: AcousticModel::lstm(8, None),
        initial_model: None,
        participants: vec![party(LEAD, None), party(OURS, Some(Noise::flat(z(4.0), 1.0)))],
        open_terms: Vec::new(),
        rehearsal: None,
        tests: vec![TestSet { name: "test".to_owned(), dataset: LEAD }],
        warm_start: WarmStart { epochs: 1, batch: 8, learning_rate: 0.01, seed: 1 },
        open: None,
        private: Some(rounds()),
        audit: None,
        selection: None,
        secure_aggregation: None,
        weights: AverageWeights::Equal,
        spare_releases: 2,
        checkpoint_every: 5,
    }
}

/// Returns 10 private rounds.
pub fn rounds() -> Rounds {
    Rounds {
        evaluate_every: 5,
        deadline_seconds: 60,
        ..Rounds::new(10, Optimizer::Sgd { learning_rate: 0.1, momentum: 0.0 })
    }
}

/// Returns the job of `dp_sgd`.
pub fn spec() -> Spec {
    Spec::DpSgd(dp_sgd())
}

/// Returns a job that requests questions from the site's log and protects its rows: β = 1/4, k = 30, ε = 1. δ is below
/// 10⁻⁸.
pub fn active_learning() -> active_learning::Spec {
    let gate = Gate {
        sampling_rate: SamplingRate::new(0.25).expect("a probability"),
        threshold: NonZeroU32::new(30).expect("at least 1"),
        epsilon: Epsilon::new(1.0).expect("a finite number"),
        shown: Shown::Counts,
        rows_per_unit: NonZeroU32::MIN,
    };
    let label = |name: &str| Label { name: name.to_owned(), key: None, hint: String::new() };
    active_learning::Spec {
        unit: PrivacyUnit::Record,
        participants: vec![
            active_learning::Party { dataset: LEAD, gate: None },
            active_learning::Party { dataset: OURS, gate: Some(gate) },
        ],
        labels: vec![label("billing"), label("card")],
        guidelines: String::new(),
        tests: vec![TestSet { name: "test".to_owned(), dataset: LEAD }],
        golden: 20,
        private_lead: None,
        private_test: None,
        rounds: 2,
        batch: 4,
        acquisition: Acquisition::Entropy,
        diversity: false,
        classifier: Classifier {
            buckets: 512,
            embedding: 8,
            hidden: 8,
            passes: 4,
            epochs: 40,
            batch: 8,
            learning_rate: 0.02,
            ..Classifier::default()
        },
        annotators: 1,
        aggregation: Aggregation::Majority,
        deadline_seconds: 60,
        rehearsal: None,
        seed: 7,
    }
}

/// Returns the site's dataset: 480 records of 48 speakers.
pub fn local(visibility: Visibility) -> LocalDataset {
    LocalDataset {
        name: "ward-7".to_owned(),
        lineage: LINEAGE,
        id: Some(OURS),
        visibility,
        folder: "data/ward-7".into(),
        facts: DatasetFacts {
            content: DatasetContent::Speech,
            inputs: 13,
            classes: 40,
            records: 480,
            speakers: 48,
            test_records: 0,
            users: None,
            seconds: None,
            table: None,
            units: undertone_api::dataset::usual_units(),
        },
    }
}

/// Returns a dataset of recordings in place of [`local`]: `seconds` of sound, in which counts of words are protected.
pub fn local_recordings(visibility: Visibility, seconds: u64) -> LocalDataset {
    let local = local(visibility);
    let facts = DatasetFacts {
        content: DatasetContent::Recordings,
        seconds: Some(seconds),
        units: vec![PrivacyUnit::Words],
        ..local.facts
    };
    LocalDataset { facts, ..local }
}

/// Returns the manifest of a job, as an honest server issued it up to 20 days ago.
pub fn manifest(spec: Spec, charge: Option<Charge>) -> Manifest {
    let participant = |dataset, worker, lineage, units, charge| ManifestParticipant {
        dataset,
        dataset_name: "ward-7".to_owned(),
        lineage,
        organization: ORGANIZATION,
        organization_name: "North Hospital".to_owned(),
        worker,
        purpose: DatasetUse::Participate,
        units,
        charge,
        site_key: None,
    };
    let participants = vec![
        participant(LEAD, WorkerId(Uuid::from_u128(9)), LineageId(Uuid::from_u128(10)), 20, None),
        participant(OURS, WORKER, LINEAGE, 50, charge),
    ];
    // The same for every process and call of a test run, and more recent than the 30 days for which a manifest holds at
    // least.
    let now = clock::system()().unix_timestamp();
    let issued_at = OffsetDateTime::from_unix_timestamp(now - now % (20 * 86_400)).expect("a moment of this era");
    Manifest {
        job: JOB,
        consortium: ConsortiumId(Uuid::from_u128(8)),
        title: "senones".to_owned(),
        proposed_by: "somebody".to_owned(),
        model: spec.model(13),
        initial_model: None,
        limits: Some(JobLimits::from_spec(&spec, &participants, issued_at)),
        spec,
        participants,
        proposal: None,
        issued_at,
    }
}
