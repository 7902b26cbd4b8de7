//! The input of the job: a spec, its manifest, and data of four sounds.

use std::fmt::Write as _;
use std::path::Path;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use time::OffsetDateTime;
use undertone_api::id::{ConsortiumId, JobId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::dp_sgd::{
    AcousticModel as ModelSpec, AverageWeights, Noise, Optimizer, Party, Rounds, RowColumns, Spec, TestSet, WarmStart,
};
use undertone_api::job::{Charge, DatasetUse, JobKind as _, Spec as AnySpec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_api::table::{TableColumn, TableSchema};
use undertone_privacy::{Adjacency, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use super::{UTTERANCES, dataset};
use crate::speech::dataset::{Description, Split, Writer};
use crate::speech::progress::SilentProgress;
use crate::tables::add::{AddOptions, add};
use crate::tables::source::SourceOptions;

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

/// Returns the columns of the tables: two numbers, a category, whether and how much the patient pays, and a note.
pub(crate) fn columns() -> Vec<TableColumn> {
    serde_json::from_value(serde_json::json!([
        { "name": "age", "kind": "integer", "least": 0, "most": 100 },
        { "name": "dose", "kind": "real", "least": 0.0, "most": 2.0, "step": 0.01 },
        { "name": "ward", "kind": "category", "values": ["a", "b", "c"] },
        { "name": "returns", "kind": "boolean" },
        { "name": "cost", "kind": "real", "least": 0.0, "most": 1000.0, "step": 1.0 },
        { "name": "note", "kind": "text", "most_grams": 12, "characters": false },
    ]))
    .unwrap()
}

/// Returns the job of [`spec`] on tables: a linear model of `returns`.
pub(crate) fn row_spec() -> Spec {
    let columns = columns();
    let rows = RowColumns { target: columns[3].clone(), features: columns[..3].to_vec(), rows_per_unit: 2, text: None };
    let mut spec = Spec { unit: PrivacyUnit::User, model: ModelSpec::from_rows(rows, 0, 0), open: None, ..spec() };
    spec.private.as_mut().unwrap().optimizer = Optimizer::Adam { learning_rate: 0.05 };
    spec.settle(&[])
}

/// Adds a table of 60 patients with one to three rows each. Older patients with a higher dose return, more of them in ward
/// b; every tenth row has no target.
pub(crate) fn write_table(target: &Path, seed: u64) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut uniform = || f64::from(rng.next_u32()) / f64::from(u32::MAX);
    let mut text = "patient,age,dose,ward,returns,cost,note\n".to_owned();
    for patient in 0..60 {
        for row in 0..=patient % 3 {
            let (age, dose, ward) = ((uniform() * 100.0).round(), uniform() * 2.0, (uniform() * 2.999) as usize);
            let score = (age - 50.0) / 50.0 + dose - 1.0 + if ward == 1 { 0.6 } else { -0.3 };
            let returns = if (patient + row) % 10 == 9 {
                ""
            } else if score > 0.0 {
                "yes"
            } else {
                "no"
            };
            let cost = 500.0 + 150.0 * score;
            let (ward, note) = (["a", "b", "c"][ward], if score > 0.0 { "Severe pain again" } else { "pain is gone" });
            writeln!(text, "p{patient},{age},{dose:.2},{ward},{returns},{cost:.0},{note}").unwrap();
        }
    }
    let path = target.with_extension("csv");
    std::fs::write(&path, text).unwrap();
    let options = AddOptions {
        sources: SourceOptions::Files { paths: vec![path], format: None },
        schema: TableSchema { unit_column: "patient".to_owned(), columns: columns(), encoder: None },
        zone: None,
        output: target.to_path_buf(),
        name: target.file_name().unwrap().to_string_lossy().into_owned(),
        replace: true,
        created: String::new(),
        fresh_key: [seed as u8; 32],
    };
    add(&options, None, &SilentProgress).unwrap();
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
        units: match spec.unit {
            _ if spec.model.rows.is_some() => 50,
            PrivacyUnit::Record => 20,
            _ => 5,
        },
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
