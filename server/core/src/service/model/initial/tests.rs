#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use object_store::ObjectStoreExt as _;
use sea_orm::{ActiveModelTrait as _, IntoActiveModel as _};
use sha2::{Digest as _, Sha256};
use undertone_api::id::JobId;
use undertone_api::job::dp_sgd::RecurrentCell;
use undertone_api::job::{NewJob, Spec, dp_sgd, evaluation};
use undertone_api::model::ModelSource;
use undertone_api::plan::NewPlan;
use undertone_api::problem::Violation;
use undertone_api::signed::certificate::{LineageSum, MOST_EARLIER_JOBS};
use undertone_api::signed::{Certificate, Manifest};
use undertone_certificate::{VerificationPoint, verify};

use super::{check_length, list_choices};
use crate::auth::Actor;
use crate::exchange::artifact as files;
use crate::model::column::JsonColumn;
use crate::model::job;
use crate::service::certificate;
use crate::service::world::finished::{MODEL, continued, end, finished, store_file, submitted, verification_keys};
use crate::service::world::{TestConsortium, row};
use crate::service::{dataset, plan};
use crate::testing::{TestApp, on_both};

/// The content of the second job's model.
const SECOND: &[u8] = b"what was learned afterwards";

fn digest_of(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// Returns a spec of one round that begins with a model.
fn spec_from(world: &TestConsortium, content: &[u8]) -> dp_sgd::Spec {
    dp_sgd::Spec { initial_model: Some(digest_of(content)), ..world.spec(1) }
}

/// Returns the violations of a proposal by `actor`, which the plan of the same job has too.
async fn refused(world: &TestConsortium, actor: &Actor, spec: dp_sgd::Spec) -> Vec<Violation> {
    let job = NewJob { title: "continued".to_owned(), spec: Spec::DpSgd(spec) };
    let new = NewPlan { consortium: world.consortium, job: job.clone() };
    let planned = plan::plan(&world.ctx, actor, &new).await.unwrap().violations;
    let error = crate::service::job::propose(&world.ctx, actor, world.consortium, job).await.unwrap_err();
    let violations = error.into_problem().violations;
    assert_eq!(violations, planned);
    violations
}

/// Asserts that a proposal is refused at its initial model, for a reason that contains all of these words.
async fn assert_refused(world: &TestConsortium, actor: &Actor, spec: dp_sgd::Spec, words: &[&str]) {
    let violations = refused(world, actor, spec).await;
    let [Violation { field, message }] = &violations[..] else { panic!("{violations:?}") };
    assert_eq!(field, "spec.initial_model");
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
}

async fn certificate_of(world: &TestConsortium, job: JobId) -> Certificate {
    let file = certificate::file(&world.ctx, &world.sites[1].steward, job).await.unwrap();
    let verdict = verify(&file, &verification_keys(world));
    assert!(verdict.holds(), "{verdict}");
    serde_json::from_str(&file.payload).unwrap()
}

fn epsilons(sums: &[LineageSum]) -> Vec<f64> {
    sums.iter().map(|sum| sum.figure.unwrap().epsilon.unwrap()).collect()
}

on_both! {
    async fn certificate_of_a_continued_model_adds_up_its_lineage(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let first = finished(&mut world, 1).await;
        app.clock.advance(time::Duration::HOUR);
        let second = continued(&mut world, MODEL, SECOND).await;
        let origin = second.initial_model.clone().unwrap();
        assert_eq!((origin.job, origin.source), (first.summary.id, ModelSource::Private));
        let manifest: Manifest = row(&app.ctx, second.summary.id).await.manifest().unwrap();
        assert_eq!(manifest.initial_model, Some(origin));
        app.clock.advance(time::Duration::HOUR);
        let third = continued(&mut world, SECOND, b"the third").await;

        let alone = certificate_of(&world, first.summary.id).await;
        assert_eq!(alone.initial_model, None);
        let one = alone.parties[1].charged.as_ref().unwrap().renyi.unwrap().epsilon.unwrap();
        let two = certificate_of(&world, second.summary.id).await.initial_model.unwrap();
        let three = certificate_of(&world, third.summary.id).await.initial_model.unwrap();
        let jobs: Vec<_> = three.jobs.iter().map(|job| (job.job, &*job.file)).collect();
        assert_eq!(jobs, [(second.summary.id, "model-private.safetensors"), (first.summary.id, "model.safetensors")]);
        assert_eq!((three.digest, &three.jobs[1].digest), (digest_of(SECOND), &digest_of(MODEL)));
        assert_eq!(three.sums.iter().map(|sum| sum.jobs).collect::<Vec<_>>(), [3, 3], "both private sites");
        // Three jobs of one round each cost what one job of three rounds does.
        let together = finished(&mut world, 3).await;
        let together = certificate_of(&world, together.summary.id).await;
        let joint = together.parties[1].charged.as_ref().unwrap().renyi.unwrap().epsilon.unwrap();
        for epsilon in epsilons(&three.sums) {
            assert!((epsilon - joint).abs() <= 1e-9 * joint, "{epsilon} {joint}");
        }
        assert!(epsilons(&two.sums).iter().all(|sum| one < *sum && *sum < joint));
    }

    async fn evaluation_of_a_model_of_rows_is_refused(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let first = finished(&mut world, 1).await.summary.id;
        let spec: evaluation::Spec = serde_json::from_value(serde_json::json!({
            "unit": "record", "model": digest_of(MODEL), "classes": [1], "noise_multiplier": 4.0,
            "participants": [{ "dataset": world.sites[0].dataset }, { "dataset": world.sites[1].dataset }],
        }))
        .unwrap();
        let refusal = async || {
            let job = NewJob { title: "evaluated".to_owned(), spec: Spec::Evaluation(spec.clone()) };
            let new = NewPlan { consortium: world.consortium, job };
            let planned = plan::plan(&world.ctx, &world.sites[0].steward, &new).await.unwrap();
            let own = planned.violations.into_iter().find(|violation| violation.field == "spec.model");
            own.map(|violation| violation.message)
        };
        assert_eq!(refusal().await, None, "the model is one of speech");
        set_rows(app, first).await;
        let text = refusal().await.unwrap();
        assert!(text.contains("reads rows of tables"), "{text}");
    }

    async fn altered_lineages_do_not_verify(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        finished(&mut world, 1).await;
        app.clock.advance(time::Duration::HOUR);
        let second = continued(&mut world, MODEL, SECOND).await;
        let file = certificate::file(&world.ctx, &world.sites[1].steward, second.summary.id).await.unwrap();
        type Lie = fn(&mut Certificate);
        let lies: [Lie; 7] = [
            |certificate| certificate.initial_model = None,
            |certificate| certificate.initial_model.as_mut().unwrap().digest = "00".repeat(32),
            |certificate| certificate.initial_model.as_mut().unwrap().jobs[0].charges.clear(),
            |certificate| certificate.initial_model.as_mut().unwrap().jobs[0].source = ModelSource::Public,
            |certificate| certificate.initial_model.as_mut().unwrap().jobs.clear(),
            |certificate| certificate.initial_model.as_mut().unwrap().sums[0].jobs = 1,
            |certificate| {
                let figure = certificate.initial_model.as_mut().unwrap().sums[0].figure.as_mut().unwrap();
                figure.epsilon = figure.epsilon.map(|epsilon| epsilon * 0.9);
            },
        ];
        for (number, lie) in lies.into_iter().enumerate() {
            let mut certificate: Certificate = serde_json::from_str(&file.payload).unwrap();
            lie(&mut certificate);
            let signed = undertone_api::signed::Signed::new(&certificate, &app.ctx.signer).unwrap();
            let forged = undertone_api::signed::CertificateFile {
                payload: signed.payload,
                signature: signed.signature,
                evidence: file.evidence.clone(),
            };
            let verdict = verify(&forged, &verification_keys(&world));
            assert_eq!(verdict.failed(), [VerificationPoint::Lineage], "{number}\n{verdict}");
        }
    }

    async fn unusable_initial_model_has_a_specific_error(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let mut other = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let proposer = world.sites[0].steward.clone();
        assert_refused(&world, &proposer, spec_from(&world, b"unknown"), &["no model of this consortium", "Models page"]).await;

        let job = world.queued(1).await;
        let leases = submitted(&mut world, &job, 1).await;
        store_file(&world, &leases[0], "model-open.safetensors", b"open").await;
        store_file(&world, &leases[0], "development.safetensors", b"development").await;
        assert_refused(&world, &proposer, spec_from(&world, MODEL), &["has not finished"]).await;
        for site in [1, 2, 0] {
            end(&world, site, &leases[site]).await;
        }
        assert_refused(&world, &proposer, spec_from(&world, b"development"), &["is no model"]).await;
        add_open_arm(app, job.summary.id).await;
        assert_refused(&world, &proposer, spec_from(&world, b"open"), &["no ε covers", "model-open.safetensors"]).await;

        // Only readers of the other consortium learn of its model.
        let stranger = other.sites[0].steward.clone();
        assert_refused(&other, &stranger, spec_from(&other, MODEL), &["no model of this consortium"]).await;
        let mut both = stranger;
        both.consortia.extend(proposer.consortia.clone());
        both.member.grants.extend(proposer.member.grants.clone());
        assert_refused(&other, &both, spec_from(&other, MODEL), &["is of the consortium"]).await;
        finished(&mut other, 1).await;
        assert!(other.propose(spec_from(&other, MODEL)).await.is_ok(), "the same bytes are a model of this one too");

        let mut layers = spec_from(&world, MODEL);
        (layers.model.hidden, layers.model.cell) = (16, RecurrentCell::Gru);
        let fields: Vec<_> = refused(&world, &proposer, layers).await.into_iter().map(|v| v.field).collect();
        assert_eq!(fields, ["spec.model.hidden", "spec.model.cell"]);

        let open_classes = world.propose(spec_from(&world, MODEL)).await.unwrap();
        let Spec::DpSgd(settled) = open_classes.spec else { panic!("it is of another kind") };
        assert_eq!(settled.model.classes, Some(40), "those of the initial model");

        app.ctx.store.delete(&files::path(job.summary.id, &digest_of(MODEL))).await.unwrap();
        assert_refused(&world, &proposer, spec_from(&world, MODEL), &["was deleted"]).await;
    }

    async fn protected_models_of_fitting_data_are_offered(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let leases = submitted(&mut world, &job, 1).await;
        store_file(&world, &leases[0], "model-private.safetensors", MODEL).await;
        store_file(&world, &leases[0], "model-open.safetensors", b"open").await;
        store_file(&world, &leases[0], "warm_start.safetensors", b"public").await;
        let actor = &world.sites[0].steward;
        let mut datasets = dataset::in_consortium(app.ctx.db.read(), world.consortium).await.unwrap();
        let offered = async |datasets: &[undertone_api::dataset::Dataset]| {
            let choices = list_choices(&app.ctx, actor, world.consortium, datasets).await.unwrap();
            choices.into_iter().map(|choice| (choice.origin.file, choice.origin.source)).collect::<Vec<_>>()
        };
        assert_eq!(offered(&datasets).await, [], "the job has not finished");
        for site in [1, 2, 0] {
            end(&world, site, &leases[site]).await;
        }
        add_open_arm(app, job.summary.id).await;
        let both = [("model-private.safetensors", ModelSource::Private), ("warm_start.safetensors", ModelSource::Public)];
        let both = both.map(|(file, source)| (file.to_owned(), source));
        assert_eq!(offered(&datasets).await, both, "each file once, without the open one");
        for dataset in &mut datasets {
            dataset.inputs = 40;
        }
        assert_eq!(offered(&datasets).await, [], "no data have the features of the models");
    }
}

/// Makes the model of a finished job one of rows.
async fn set_rows(app: &TestApp, id: JobId) {
    let row = row(&app.ctx, id).await;
    let Spec::DpSgd(spec) = (*row.spec).clone() else { panic!("it is of another kind") };
    let rows = r#"{"target":{"name":"returns","kind":"boolean"},"features":[{"name":"old","kind":"boolean"}],"rows_per_unit":1}"#;
    let model = dp_sgd::AcousticModel::from_rows(serde_json::from_str(rows).unwrap(), 0, 0);
    let row = job::Model { spec: JsonColumn::new(Spec::DpSgd(dp_sgd::Spec { model, ..spec })).unwrap(), ..row };
    let change = async |tx: &crate::db::Tx| Ok(row.clone().into_active_model().reset_all().update(tx).await?);
    app.ctx.db.write("test", change).await.unwrap();
}

/// Gives a finished job the open arm that its private data do not permit here.
async fn add_open_arm(app: &TestApp, id: JobId) {
    let row = row(&app.ctx, id).await;
    let Spec::DpSgd(spec) = (*row.spec).clone() else { panic!("it is of another kind") };
    let spec = Spec::DpSgd(dp_sgd::Spec { open: spec.private, ..spec });
    let row = job::Model { spec: JsonColumn::new(spec).unwrap(), ..row };
    let change = async |tx: &crate::db::Tx| Ok(row.clone().into_active_model().reset_all().update(tx).await?);
    app.ctx.db.write("test", change).await.unwrap();
}

#[test]
fn lineage_of_more_jobs_than_a_certificate_lists_is_refused() {
    assert_eq!(check_length(MOST_EARLIER_JOBS), Ok(()));
    let text = check_length(MOST_EARLIER_JOBS + 1).unwrap_err();
    assert!(text.contains("33 jobs") && text.contains("at most 32"), "{text}");
}
