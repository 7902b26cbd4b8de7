#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use sea_orm::{ActiveModelTrait as _, IntoActiveModel as _};
use sha2::{Digest as _, Sha256};
use undertone_api::id::{ArtifactId, JobId};
use undertone_api::job::evaluation::MetricEstimate;
use undertone_api::job::{JobKind as _, Report, Spec, evaluation};
use undertone_api::model::ModelSource;
use undertone_api::model::record::{ModelDesign, ModelRecord, QualityOrigin};
use undertone_api::problem::Code;
use undertone_api::signed::Manifest;

use super::get;
use crate::model::column::JsonColumn;
use crate::model::job;
use crate::service::model;
use crate::service::world::finished::{MODEL, continued, end, finished, store_file, submitted};
use crate::service::world::{TestConsortium, row};
use crate::testing::on_both;

const SECOND: &[u8] = b"what was learned afterwards";

async fn file_of(world: &TestConsortium, job: JobId, name: &str) -> ArtifactId {
    let files = model::list(&world.ctx, &world.sites[0].steward, job).await.unwrap();
    files.iter().find(|file| file.name == name).unwrap().id
}

/// Stores a finished evaluation of a model at the first private site, in place of a run.
async fn store_evaluation(world: &TestConsortium, made: JobId, content: &[u8], accuracy: f64) {
    let model = hex::encode(Sha256::digest(content));
    let spec: evaluation::Spec = serde_json::from_value(serde_json::json!({
        "unit": "record", "model": model, "classes": [1], "noise_multiplier": 4.0, "accuracy": true,
        "participants": [{ "dataset": world.sites[0].dataset }, { "dataset": world.sites[1].dataset }],
    }))
    .unwrap();
    let accuracy = MetricEstimate::new(accuracy, 1e-4, 1e-4);
    let report = evaluation::Report { model, sites: 1, accuracy, ..evaluation::Report::default() };
    let base = row(&world.ctx, made).await;
    let manifest = Manifest { spec: Spec::Evaluation(spec.clone()), initial_model: None, ..base.manifest().unwrap() };
    let stored = job::Model {
        id: world.ctx.id::<JobId>().0,
        title: "measured".to_owned(),
        kind: evaluation::Spec::NAME.to_owned(),
        spec: JsonColumn::new(Spec::Evaluation(spec)).unwrap(),
        manifest: serde_json::to_string(&manifest).unwrap(),
        report: Some(JsonColumn::new(Report::Evaluation(report)).unwrap()),
        ..base
    };
    let insert = async |tx: &crate::db::Tx| Ok(stored.clone().into_active_model().insert(tx).await?);
    world.ctx.db.write("test", insert).await.unwrap();
}

fn epsilons(record: &ModelRecord) -> Vec<f64> {
    record.privacy.iter().map(|sum| sum.figure.unwrap().epsilon.unwrap()).collect()
}

on_both! {
    async fn models_that_continue_one_another_are_one_line(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let first = finished(&mut world, 1).await.summary.id;
        app.clock.advance(time::Duration::HOUR);
        let second = continued(&mut world, MODEL, SECOND).await.summary.id;
        store_evaluation(&world, first, MODEL, 0.5).await;
        store_evaluation(&world, second, SECOND, 0.8).await;
        let actor = world.sites[1].steward.clone();
        let ids = [
            file_of(&world, first, "model.safetensors").await,
            file_of(&world, second, "model-private.safetensors").await,
        ];
        let one = get(&app.ctx, &actor, ids[0]).await.unwrap();
        let two = get(&app.ctx, &actor, ids[1]).await.unwrap();
        assert_eq!((one.version, two.version), (1, 2));
        let line: Vec<_> = two.line.iter().map(|version| (version.version, version.job, version.artifact)).collect();
        assert_eq!(line, [(1, first, Some(ids[0])), (2, second, Some(ids[1]))]);
        let next: Vec<_> = one.continued_by.iter().map(|version| (version.version, version.job)).collect();
        assert_eq!(next, [(2, second)]);
        let ModelDesign::Network { settings } = &one.design else { panic!("a network") };
        assert_eq!((one.file.source, settings.classes), (Some(ModelSource::Private), Some(40)));
        assert_eq!(one.certificate.as_ref().map(|certificate| certificate.digest.len()), Some(64));
        // Both private parties, each job once: the cost of the second includes that of the first.
        assert_eq!(two.privacy.iter().map(|sum| sum.jobs).collect::<Vec<_>>(), [2, 2]);
        assert!(epsilons(&one).iter().zip(epsilons(&two)).all(|(one, two)| *one < two && two < 2.0 * one));
        let quality: Vec<_> = two.quality.iter().map(|one| (one.origin, one.value)).collect();
        assert_eq!(quality, [(QualityOrigin::Evaluation, 0.8)]);
        assert!(two.quality[0].test.starts_with("speech of party 1"), "{}", two.quality[0].test);

        let comparison = model::compare(&app.ctx, &actor, ids[0], ids[1]).await.unwrap();
        let difference = &comparison.quality[0];
        assert!((difference.difference - 0.3).abs() < 1e-12 && difference.is_distinct(), "{difference:?}");
        assert_eq!((comparison.quality.len(), comparison.privacy.len()), (1, 2));
        let fields: Vec<_> = comparison.settings.iter().map(|one| &*one.field).collect();
        assert_eq!(fields, ["initial_model"]);
        let same = model::compare(&app.ctx, &actor, ids[0], ids[0]).await.unwrap_err();
        assert_eq!(same.code(), Code::ValidationFailed);
        let card = model::card(&app.ctx, &actor, ids[1]).await.unwrap();
        assert!(card.contains("| Version | 2 |") && card.contains("any one record"), "{card}");
    }

    async fn record_is_of_models_and_for_readers(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let leases = submitted(&mut world, &job, 1).await;
        let id = file_of(&world, job.summary.id, "model.safetensors").await;
        let reader = world.sites[0].steward.clone();
        assert_eq!(get(&app.ctx, &reader, id).await.unwrap_err().code(), Code::WrongState, "it has not finished");
        store_file(&world, &leases[0], "development.safetensors", b"no model").await;
        for site in [1, 2, 0] {
            end(&world, site, &leases[site]).await;
        }
        assert_eq!(get(&app.ctx, &reader, id).await.unwrap().version, 1);
        let data = file_of(&world, job.summary.id, "development.safetensors").await;
        let refused = get(&app.ctx, &reader, data).await.unwrap_err();
        assert!(refused.code() == Code::NotFound && refused.to_string().contains("is no model"), "{refused}");
        let other = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let stranger = other.sites[0].steward.clone();
        assert_eq!(get(&app.ctx, &stranger, id).await.unwrap_err().code(), Code::NotFound);
    }
}
