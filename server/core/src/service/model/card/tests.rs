use time::macros::datetime;
use undertone_api::dataset::{SizeClass, Visibility};
use undertone_api::id::{ArtifactId, ConsortiumId, DatasetId, JobId, LineageId, MemberId, OrganizationId};
use undertone_api::job::active_learning::Classifier;
use undertone_api::job::dp_sgd::{AcousticModel, TrainingLoss};
use undertone_api::job::{DatasetUse, JobState};
use undertone_api::model::record::{ModelDesign, ModelQuality, ModelRecord, ModelVersion, QualityOrigin};
use undertone_api::model::{Artifact, FileDeletion, ModelSource};
use undertone_api::report::{CertificateNamed, DatasetUsed};
use undertone_api::signed::certificate::{CertifiedFigure, ConsortiumNamed, JobCovered, LineageSum};
use undertone_privacy::{Adjacency, PrivacyUnit};
use uuid::Uuid;

use super::render_card;

const FINISHED: time::OffsetDateTime = datetime!(2026-11-20 12:00 UTC);

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// Returns a second version with two parties, and names that Markdown would interpret.
fn example() -> ModelRecord {
    let file = Artifact {
        id: ArtifactId(id(1)),
        job: JobId(id(2)),
        name: "model.safetensors".to_owned(),
        size: 8_192,
        digest: "ab".repeat(32),
        source: Some(ModelSource::Private),
        created_at: FINISHED,
        deletion: None,
    };
    let version = |number: u32, source| ModelVersion {
        version: number,
        artifact: None,
        name: file.name.clone(),
        digest: if number == 2 { file.digest.clone() } else { "cd".repeat(32) },
        job: JobId(id(2)),
        title: format!("round | {number}"),
        source,
        deletion: None,
    };
    let dataset = |number: u128, name: &str, visibility| DatasetUsed {
        dataset: DatasetId(id(number)),
        name: name.to_owned(),
        lineage: LineageId(id(number)),
        organization_name: "North [clinic]".to_owned(),
        visibility,
        purpose: DatasetUse::Participate,
        units: 1_000,
        records: SizeClass(1_000),
        speakers: SizeClass(20),
        digest: None,
    };
    let sum = |name: &str, unit, epsilon| LineageSum {
        organization: OrganizationId(id(9)),
        organization_name: name.to_owned(),
        lineage: LineageId(id(4)),
        dataset_names: vec!["ward-7".to_owned()],
        unit,
        adjacency: Adjacency::ZeroOut,
        jobs: 2,
        figure: Some(CertifiedFigure::renyi(epsilon, 1e-5)),
    };
    let quality = |origin, test: &str, value| ModelQuality {
        origin,
        job: JobId(id(3)),
        title: "spring | test".to_owned(),
        test: test.to_owned(),
        test_key: String::new(),
        metric: "accuracy".to_owned(),
        value,
        low: value - 0.01,
        high: value + 0.02,
        frames: None,
    };
    ModelRecord {
        consortium: ConsortiumNamed { id: ConsortiumId(id(5)), name: "Clinics_north".to_owned() },
        job: JobCovered {
            id: JobId(id(2)),
            title: "Dictation <2>".to_owned(),
            kind: "dp_sgd".to_owned(),
            state: JobState::Finished,
            proposed_by: "Ada".to_owned(),
            rounds_done: 30,
            rounds: 30,
            manifest: "ef".repeat(32),
            started_at: None,
            finished_at: Some(FINISHED),
        },
        version: 2,
        line: vec![version(1, ModelSource::Public), version(2, ModelSource::Private)],
        continued_by: Vec::new(),
        design: ModelDesign::Network {
            settings: AcousticModel { bidirectional: true, ..AcousticModel::lstm(200, Some(931)) },
        },
        datasets: vec![dataset(3, "librispeech", Visibility::Public), dataset(4, "ward-7", Visibility::Private)],
        certificate: Some(CertificateNamed { digest: "12".repeat(32), path: String::new(), head: None }),
        privacy: vec![sum("North", PrivacyUnit::Speaker, Some(1.2341)), sum("South", PrivacyUnit::Record, None)],
        quality: vec![
            quality(QualityOrigin::Training, "common", 0.6189),
            quality(QualityOrigin::Evaluation, "ward-7 of North", 0.5512),
        ],
        file,
    }
}

#[test]
fn card_of_a_model_is_as_agreed() {
    let card = render_card(&example(), "https://undertone.example.org/");
    assert_eq!(card, render_card(&example(), "https://undertone.example.org"), "the same record gives the same card");
    assert_eq!(card, include_str!("tests/model-card.md"));
}

#[test]
fn card_says_what_is_not_protected() {
    let mut record = example();
    record.file.source = Some(ModelSource::Open);
    assert!(render_card(&record, "").contains("No ε covers this model"));
    record.file.source = Some(ModelSource::Public);
    record.privacy.clear();
    assert!(render_card(&record, "").contains("from public data alone"));
    // An earlier version of private data without a certificate is no public data.
    record.line[0].source = ModelSource::Private;
    assert!(render_card(&record, "").contains("The jobs of its versions charged no account"));
    let certificate = record.certificate.take();
    assert!(render_card(&record, "").contains("No certificate of this model"));
    record.certificate = certificate;
    record.line[0].source = ModelSource::Open;
    assert!(render_card(&record, "").contains("No ε covers this model"));
    record.line[0].source = ModelSource::Public;
    record.file.source = Some(ModelSource::Private);
    assert!(render_card(&record, "").contains("no guarantee is stated"));
    record.privacy = example().privacy;
    assert!(render_card(&record, "").contains("No finite ε bounds the releases about South, ward-7."));
    record.privacy[0].figure = Some(CertifiedFigure::renyi(Some(40.0), 1e-5));
    assert!(render_card(&record, "").contains("no protection by itself"));
}

#[test]
fn card_of_a_model_of_rows_names_its_columns() {
    let rows = r#"{"target":{"name":"returns","kind":"boolean"},"rows_per_unit":5,"features":[
        {"name":"age","kind":"integer","least":0,"most":100},{"name":"ward","kind":"category","values":["a","b"]}]}"#;
    let rows = serde_json::from_str(rows).expect("columns");
    let mut record = example();
    record.design =
        ModelDesign::Network { settings: AcousticModel { classes: Some(2), ..AcousticModel::from_rows(rows, 2, 16) } };
    let card = render_card(&record, "");
    for text in [
        "A model of rows of tables of the consortium",
        "3 inputs, 2 dense layer(s) of 16 units with tanh, 2 output(s)",
        "predicts the column `returns` of a row from the columns `age`, `ward`",
        "undertone-worker predict",
    ] {
        assert!(card.contains(text), "{text} is not in {card}");
    }
    assert!(!card.contains("recognize") && !card.contains("personalize"), "{card}");
}

#[test]
fn card_of_a_model_of_texts_names_its_embedding() {
    let rows = r#"{"target":{"name":"returns","kind":"boolean"},"rows_per_unit":5,"text":{"buckets":64,"width":8},
        "features":[{"name":"note","kind":"text","most_grams":20}]}"#;
    let rows = serde_json::from_str(rows).expect("columns");
    let mut record = example();
    record.design =
        ModelDesign::Network { settings: AcousticModel { classes: Some(2), ..AcousticModel::from_rows(rows, 0, 0) } };
    let card = render_card(&record, "");
    let layers = "20 inputs, an embedding of 64 vectors of 8 numbers for n-grams of texts, linear, 2 output(s)";
    assert!(card.contains(layers) && !card.contains("undertone-worker export"), "{card}");
}

#[test]
fn card_of_a_classifier_names_its_labels_and_its_command() {
    let mut record = example();
    let labels = vec!["play_music".to_owned(), "weather".to_owned()];
    record.design = ModelDesign::Classifier { classifier: Classifier::default(), labels };
    record.file.name = "classifier.safetensors".to_owned();
    let card = render_card(&record, "");
    for text in [
        "A classifier of queries of the consortium",
        "an embedding of 65536 vectors of 64 numbers for n-grams, their mean, a dense layer of 128 units, 2 labels",
        "one of the labels `play_music`, `weather`",
        "Active learning in 30 of 30 planned rounds",
        "undertone-worker predict classifier.safetensors queries.csv",
    ] {
        assert!(card.contains(text), "{text} is not in {card}");
    }
    for text in ["undertone-worker evaluate", "undertone-worker export", "initial_model", "DATASET"] {
        assert!(!card.contains(text), "{text} is in {card}");
    }
}

#[test]
fn card_of_characters_and_of_a_deleted_file_has_fitting_commands() {
    let mut record = example();
    let mut settings = AcousticModel::lstm(200, Some(31));
    settings.loss = TrainingLoss::Ctc;
    record.design = ModelDesign::Network { settings };
    let card = render_card(&record, "");
    assert!(card.contains("--characters characters.json") && !card.contains("undertone-worker personalize"), "{card}");
    let by = MemberId(id(7));
    record.file.deletion =
        Some(FileDeletion { at: FINISHED, by, by_name: "Ada".to_owned(), reason: "a speaker withdrew".to_owned() });
    let card = render_card(&record, "");
    assert!(card.contains("deleted on 2026-11-20 by Ada: a speaker withdrew") && !card.contains("curl"), "{card}");
}
