//! Whole runs of a lead and two sites on threads, with a server in memory that averages.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod graph;
mod row_graph;
pub(crate) mod rows;

use std::path::Path;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use time::OffsetDateTime;
use undertone_api::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::evaluation::{HISTOGRAMS, Party, Report, ScoreBins, Spec};
use undertone_api::job::{Charge, DatasetUse, Report as AnyReport, Spec as AnySpec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::{Adjacency, NoiseMultiplier, PrivacyUnit};
use uuid::Uuid;

use super::model_file::digest_file;
use super::{ROUND, run};
use crate::run::fake::{CrashPoint, FakeRelease, FakeServer, is_crash};
use crate::run::{RoundKey, RunError};
use crate::speech::dataset::{Description, Split, Writer};
use crate::speech::model::{Model, ModelShape, Normalizer};

const PARTICIPANTS: usize = 3;

/// Returns the file of an untrained model of a number of classes.
pub(crate) fn model_file(classes: usize) -> Vec<u8> {
    let normalizer = Normalizer { mean: vec![0.0; 3], deviation: vec![1.0; 3] };
    Model::initialize(ModelShape::plain(3, 5, classes), normalizer, 7).to_safetensors().unwrap()
}

/// Writes 24 utterances of four classes, every sixth held out.
pub(crate) fn write_dataset(target: &Path, seed: u64) {
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
        unit_column: None,
    };
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut writer = Writer::create(target, description).unwrap();
    for utterance in 0..24 {
        let frames = 10 + rng.next_u32() % 20;
        let labels: Vec<u16> = (0..frames).map(|_| (rng.next_u32() % 4) as u16).collect();
        let features: Vec<f32> = (0..3 * frames).map(|_| rng.next_u32() as f32 / u32::MAX as f32 - 0.5).collect();
        let split = if utterance % 6 == 5 { Split::Test } else { Split::Train };
        let speaker = format!("speaker {}", utterance / 6);
        writer.push_of(&utterance.to_string(), (speaker.as_str(), None), split, &features, &labels).unwrap();
    }
    writer.finish(|_| serde_json::Value::Null).unwrap();
}

fn dataset(index: usize) -> DatasetId {
    DatasetId(Uuid::from_u128(index as u128 + 1))
}

/// A job of a lead and two sites.
struct TestEvaluation {
    manifest: Manifest,
    server: FakeServer,
}

impl TestEvaluation {
    fn new(change: impl FnOnce(&mut Spec)) -> Self {
        Self::with_data(write_dataset, &model_file(4), change)
    }

    /// Makes a job on data that `write` writes for each participant, and of a model's file.
    fn with_data(write: impl Fn(&Path, u64), file: &[u8], change: impl FnOnce(&mut Spec)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |index: usize| folder.path().join(format!("data-{index}"));
        (0..PARTICIPANTS).for_each(|index| write(&path(index), index as u64));
        std::fs::create_dir_all(folder.path().join("models")).unwrap();
        std::fs::write(folder.path().join("models/evaluated"), file).unwrap();
        let mut spec = Spec {
            unit: PrivacyUnit::Record,
            model: digest_file(file),
            columns: None,
            participants: (0..PARTICIPANTS).map(|index| Party { dataset: dataset(index) }).collect(),
            classes: vec![1, 3],
            noise_multiplier: NoiseMultiplier::new(1.0 / 1024.0).unwrap(),
            accuracy: true,
            bins: ScoreBins { count: 16, width: 0.5 },
            specificities: vec![0.9],
            quorum: 2,
            deadline_seconds: 60,
        };
        change(&mut spec);
        let datasets = (0..PARTICIPANTS).map(|index| (dataset(index), path(index))).collect();
        let server = FakeServer::new(folder, datasets);
        server.state().public.insert(dataset(0));
        Self { manifest: manifest(spec), server }
    }

    fn run_process(&self, index: usize) -> Result<(), RunError> {
        let AnySpec::Evaluation(spec) = &self.manifest.spec else { panic!("it is of another kind") };
        let end = run(spec, &mut self.server.start(index, self.manifest.clone()));
        self.server.notify();
        end
    }

    fn run_all(&self) {
        std::thread::scope(|scope| {
            for index in 0..PARTICIPANTS {
                scope.spawn(move || {
                    while let Err(end) = self.run_process(index) {
                        assert!(is_crash(&end), "{index}: {end}");
                    }
                });
            }
        });
    }

    fn report(&self) -> Report {
        let report = self.server.state().report.clone();
        let Some(AnyReport::Evaluation(report)) = report else { panic!("the lead reports: {report:?}") };
        report
    }

    fn payments(&self, index: usize) -> u32 {
        self.server.state().site(index).payments
    }
}

fn manifest(spec: Spec) -> Manifest {
    let participant = |index: usize| ManifestParticipant {
        dataset: dataset(index),
        dataset_name: format!("data-{index}"),
        lineage: LineageId(Uuid::from_u128(100 + index as u128)),
        organization: OrganizationId(Uuid::from_u128(200 + index as u128)),
        organization_name: format!("site {index}"),
        worker: WorkerId(Uuid::from_u128(300 + index as u128)),
        purpose: DatasetUse::Participate,
        units: 4,
        charge: (index > 0).then(|| Charge {
            unit: spec.unit,
            adjacency: Adjacency::ZeroOut,
            event: spec.histograms().event(),
            releases: 1,
        }),
        site_key: None,
    };
    Manifest {
        job: JobId(Uuid::from_u128(1000)),
        consortium: ConsortiumId(Uuid::from_u128(1001)),
        title: "four sounds, evaluated".to_owned(),
        proposed_by: "site 0".to_owned(),
        participants: (0..PARTICIPANTS).map(participant).collect(),
        spec: AnySpec::Evaluation(spec),
        model: None,
        initial_model: None,
        limits: None,
        proposal: None,
        issued_at: OffsetDateTime::UNIX_EPOCH,
    }
}

#[test]
fn report_pools_the_units_of_all_sites() {
    let job = TestEvaluation::new(|_| ());
    job.run_all();
    let report = job.report();
    assert_eq!((report.sites, report.classes.len()), (2, 2));
    // Four test utterances at each of two sites, each with the weight 1; almost no noise.
    for class in &report.classes {
        let units: f64 = class.positives.iter().chain(&class.negatives).sum();
        assert!((units - 8.0).abs() < 0.2, "{units}");
    }
    assert!(report.accuracy.is_some_and(|share| (0.0..=1.0).contains(&share.value)));
    assert_eq!([job.payments(0), job.payments(1), job.payments(2)], [0, 1, 1], "one release of each site");
}

#[test]
fn lead_sends_nothing_of_its_own_data() {
    let job = TestEvaluation::new(|_| ());
    job.run_all();
    let release = job.server.state().site(0).releases[&(HISTOGRAMS.to_owned(), 1)].clone();
    let FakeRelease::Vector(vector) = release else { panic!("it is a vector") };
    assert!(vector.iter().all(|value| value.abs() < f32::EPSILON) && vector.len() == 2 * 2 * 16 + 2);
    assert!(job.server.state().measurements.is_empty(), "no figure leaves beside the release");
}

#[test]
fn crash_after_payment_resends_the_vector_unpaid() {
    let job = TestEvaluation::new(|_| ());
    for index in [0, 1] {
        job.server.state().site(index).crash(CrashPoint::Stored, ROUND);
    }
    job.server.state().site(2).crash(CrashPoint::Accepted, RoundKey::new(HISTOGRAMS, 1));
    job.run_all();
    assert_eq!((job.payments(1), job.payments(2)), (1, 1));
    assert_eq!(job.report().sites, 2);
}

#[test]
fn unknown_digest_is_refused_by_name() {
    let job = TestEvaluation::new(|spec| spec.model = digest_file(b"unknown"));
    let end = job.run_process(0).unwrap_err().to_string();
    assert!(end.contains(&digest_file(b"unknown")), "{end}");
}

#[test]
fn personal_model_is_not_sent_to_the_sites() {
    let model = Model::from_safetensors(&model_file(4)).unwrap();
    let file = model.to_personal_file().unwrap();
    let job = TestEvaluation::new(|spec| spec.model = digest_file(&file));
    std::fs::write(job.server.folder().join("models/personal"), &file).unwrap();
    let end = job.run_process(0).unwrap_err().to_string();
    assert!(end.contains("the model is personal"), "{end}");
    assert!(job.server.state().files.is_empty(), "nothing of it left");
}

#[test]
fn other_model_from_the_lead_is_refused_before_data_are_read() {
    let job = TestEvaluation::new(|_| ());
    job.server.state().files.insert("model.safetensors".to_owned(), model_file(5));
    let end = job.run_process(1).unwrap_err().to_string();
    assert!(end.contains("and the job names"), "{end}");
    assert_eq!((job.payments(1), job.server.state().vectors.len()), (0, 0));
}

#[test]
fn class_that_the_model_lacks_is_refused() {
    let job = TestEvaluation::new(|spec| spec.classes = vec![9]);
    let end = job.run_process(0).unwrap_err().to_string();
    assert!(end.contains("classes 0 to 3, and the job evaluates 9"), "{end}");
}
