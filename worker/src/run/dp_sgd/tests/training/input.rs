//! The input of the job: a spec, its manifest, and data of four sounds.

use std::path::Path;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use time::OffsetDateTime;
use undertone_api::id::{ConsortiumId, JobId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::dp_sgd::{
    AcousticModel as ModelSpec, AverageWeights, Noise, Optimizer, Party, Rounds, Spec, TestSet, WarmStart,
};
use undertone_api::job::{Charge, DatasetUse, Spec as AnySpec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::{Adjacency, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use super::{UTTERANCES, dataset};
use crate::speech::dataset::{Description, Split, Writer};

pub(in crate::run::dp_sgd) fn spec() -> Spec {
    let rounds = Rounds { deadline_seconds: 60, quorum: 3, ..Rounds::new(40, Optimizer::Adam { learning_rate: 0.02 }) };
    let noise = Noise::flat(NoiseMultiplier::new(0.5).unwrap(), 0.5);
    let party = |index: usize, noise: Option<Noise>| Party {
        dataset: dataset(index),
        sampling_rate: SamplingRate::new(0.6).unwrap(),
        noise,
        rounds: None,
    };
    Spec {
        unit: PrivacyUnit::Record,
        model: ModelSpec::lstm(10, Some(4)),
        initial_model: None,
        participants: vec![party(0, None), party(1, Some(noise)), party(2, Some(noise))],
        open_terms: Vec::new(),
        rehearsal: None,
        tests: vec![TestSet { name: "held out".to_owned(), dataset: dataset(0) }],
        warm_start: WarmStart { epochs: 2, batch: 5, learning_rate: 0.01, seed: 5 },
        open: Some(rounds),
        private: Some(rounds),
        audit: None,
        selection: None,
        secure_aggregation: None,
        weights: AverageWeights::Equal,
        spare_releases: 4,
        checkpoint_every: 6,
    }
}

pub(super) fn manifest(spec: Spec) -> Manifest {
    let participant = |index: usize| ManifestParticipant {
        dataset: dataset(index),
        dataset_name: format!("data-{index}"),
        lineage: LineageId(Uuid::from_u128(100 + index as u128)),
        organization: OrganizationId(Uuid::from_u128(200 + index as u128)),
        organization_name: format!("site {index}"),
        worker: WorkerId(Uuid::from_u128(300 + index as u128)),
        purpose: DatasetUse::Participate,
        units: if spec.unit == PrivacyUnit::Record { 20 } else { 5 },
        charge: (index > 0).then_some(Charge {
            unit: spec.unit,
            adjacency: Adjacency::ZeroOut,
            event: Event::NonPrivate,
            releases: 100,
        }),
        site_key: None,
    };
    Manifest {
        job: JobId(Uuid::from_u128(1000)),
        consortium: ConsortiumId(Uuid::from_u128(1001)),
        title: "four sounds".to_owned(),
        proposed_by: "site 0".to_owned(),
        participants: (0..spec.participants.len()).map(participant).collect(),
        spec: AnySpec::DpSgd(spec),
        model: None,
        initial_model: None,
        limits: None,
        proposal: None,
        issued_at: OffsetDateTime::UNIX_EPOCH,
    }
}

/// Writes utterances of four sounds, each held for a few frames, in noise; four speakers; every sixth utterance held
/// out. Private datasets have a column of five users, who share the speakers.
pub(super) fn write_dataset(target: &Path, seed: u64) {
    let description = Description {
        name: target.file_name().unwrap().to_string_lossy().into_owned(),
        inputs: 3,
        classes: 4,
        sample_rate: 16_000,
        features: "three numbers".to_owned(),
        labels: "four sounds".to_owned(),
        created: "2026-01-01T00:00:00Z".to_owned(),
        treatment: crate::speech::features::Treatment::default(),
        preparation: crate::speech::dataset::PreparationRecord::default(),
        unit_column: (seed > 0).then(|| "visit".to_owned()),
    };
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut writer = Writer::create(target, description).unwrap();
    for utterance in 0..UTTERANCES {
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..3 + rng.next_u32() % 4 {
            let sound = rng.next_u32() % 4;
            for _ in 0..2 + rng.next_u32() % 5 {
                labels.push(sound as u16);
                for coefficient in 0..3 {
                    let noise = rng.next_u32() as f32 / u32::MAX as f32 - 0.5;
                    let center = if sound == 3 || sound != coefficient { -1.0 } else { 1.0 };
                    features.push(3.0 * center + 2.0 * noise);
                }
            }
        }
        let split = if utterance % 6 == 5 { Split::Test } else { Split::Train };
        let speaker = format!("speaker {}", utterance / 6);
        let visit = format!("visit {}", utterance % 5);
        let owner = (speaker.as_str(), (seed > 0).then_some(visit.as_str()));
        writer.push_of(&format!("{utterance}"), owner, split, &features, &labels).unwrap();
    }
    writer.finish(|_| serde_json::Value::Null).unwrap();
}
