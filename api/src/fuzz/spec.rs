//! Specs of every kind: each spec that passes the check has a finite price, and serializes to the text that was read.

use undertone_fuzz::Target;
use undertone_privacy::curve::OrderGrid;
use undertone_privacy::mechanism;
use uuid::Uuid;

use crate::dataset::{Dataset, DatasetContent, SizeClass, Visibility, usual_units};
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::{NewDraft, NewJob, Spec};

/// Returns the examples of the documentation: the first of each page.
pub(super) fn examples() -> Vec<String> {
    let pages = [
        ("dp_sgd", include_str!("../job/dp_sgd/spec.md")),
        ("active_learning", include_str!("../job/active_learning/spec.md")),
        ("transcription", include_str!("../job/transcription/spec.md")),
        ("evaluation", include_str!("../job/evaluation/spec.md")),
        ("analytics", include_str!("../job/analytics/spec.md")),
    ];
    pages
        .map(|(kind, page)| {
            let example = page.split("```json").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
            let spec: serde_json::Value = serde_json::from_str(example).expect("JSON");
            serde_json::json!({ "title": "a job", "kind": kind, "spec": spec }).to_string()
        })
        .to_vec()
}

/// Returns sample datasets with the ids of the examples.
pub(super) fn datasets() -> Vec<Dataset> {
    let dataset = |id: u128, content, public: bool| Dataset {
        id: DatasetId(Uuid::from_u128(id)),
        lineage: LineageId(Uuid::from_u128(100 + id)),
        organization: OrganizationId(Uuid::from_u128(200 + id)),
        organization_name: "an organization".to_owned(),
        worker: WorkerId(Uuid::from_u128(300 + id)),
        name: format!("set-{id}"),
        visibility: if public { Visibility::Public } else { Visibility::Private },
        content,
        inputs: if content == DatasetContent::Speech { 13 } else { 0 },
        classes: if content == DatasetContent::Speech || public { 3 } else { 0 },
        records: SizeClass(10_000),
        speakers: SizeClass(200),
        test_records: 500,
        seconds: (content == DatasetContent::Recordings).then_some(SizeClass(5000)),
        users: (!public).then_some(SizeClass(1000)),
        table: None,
        units: usual_units(),
        approval: None,
        accounts: Vec::new(),
        created_at: time::OffsetDateTime::UNIX_EPOCH,
    };
    let pair = |content| [dataset(1, content, true), dataset(2, content, false)];
    let queries = pair(DatasetContent::Queries).map(|dataset| Dataset {
        units: vec![undertone_privacy::PrivacyUnit::Record, undertone_privacy::PrivacyUnit::User],
        ..dataset
    });
    let recordings = pair(DatasetContent::Recordings)
        .map(|dataset| Dataset { units: vec![undertone_privacy::PrivacyUnit::Words], ..dataset });
    let tables = crate::job::analytics::tests::datasets();
    pair(DatasetContent::Speech).into_iter().chain(queries).chain(recordings).chain(tables).collect()
}

/// Returns the two datasets of the spec's content. The examples of all kinds use the same ids.
fn select_datasets(spec: &Spec, datasets: &[Dataset]) -> Vec<Dataset> {
    let content = match spec {
        Spec::DpSgd(_) | Spec::Evaluation(_) => DatasetContent::Speech,
        Spec::ActiveLearning(_) => DatasetContent::Queries,
        Spec::Transcription(_) => DatasetContent::Recordings,
        Spec::Analytics(_) => DatasetContent::Table,
    };
    datasets.iter().filter(|dataset| dataset.content == content).cloned().collect()
}

/// Calls every query of a spec, before the check and after.
pub(super) fn call_all(spec: &Spec, all: &[Dataset]) {
    let datasets = select_datasets(spec, all);
    let violations = spec.check(&datasets);
    let _ = (spec.datasets(), spec.model(13), spec.questions(), spec.external_release(), spec.allowed_measurements());
    for visible in [&datasets[..], &[]] {
        let _ = spec.series(visible);
    }
    for dataset in &datasets {
        let _ =
            (spec.units(dataset), spec.audit_plan(dataset), spec.clip(dataset.id), spec.release(dataset, "private"));
    }
    if !violations.is_empty() {
        return;
    }
    let settled = spec.clone().settle(&datasets);
    assert_eq!(settled.check(&datasets), [], "what is settled is as good as it was");
    for dataset in &datasets {
        let Some(charge) = settled.cost(dataset) else { continue };
        // An event may have no price, but never a price that is not a number.
        if let Ok(curve) = mechanism::curve(&charge.event, charge.adjacency, &OrderGrid::standard()) {
            let whole = curve.times(charge.event.count_charges(charge.releases));
            assert!(whole.losses().all(|(_, loss)| loss.to_f64_up() > 0.0), "nothing is free: {charge:?}");
        }
    }
}

#[test]
fn checked_spec_has_a_price_and_survives_json() {
    let datasets = datasets();
    Target::new("api.spec", 1_200).seeds(examples()).run(|bytes| {
        let Ok(job) = serde_json::from_slice::<NewJob>(bytes) else { return };
        let written = serde_json::to_string(&job).expect("what was read can be written");
        assert_eq!(serde_json::from_str::<NewJob>(&written).ok().as_ref(), Some(&job));
        call_all(&job.spec, &datasets);
    });
}

#[test]
fn documented_examples_pass_the_check() {
    for example in examples() {
        let job: NewJob = serde_json::from_str(&example).expect("a job");
        assert_eq!(job.spec.check(&select_datasets(&job.spec, &datasets())), []);
    }
}

#[test]
fn draft_of_any_content_reports_its_violations() {
    let datasets = datasets();
    Target::new("api.draft", 1_200).seeds(examples()).seed("{\"kind\":\"dp_sgd\",\"spec\":{}}").run(|bytes| {
        let Ok(draft) = serde_json::from_slice::<NewDraft>(bytes) else { return };
        let wrong = draft.check();
        match draft.parsed() {
            Ok(spec) => call_all(&spec, &datasets),
            Err(violation) => assert_eq!(violation.field, "spec"),
        }
        assert!(wrong.iter().all(|violation| ["title", "kind", "spec"].contains(&violation.field.as_str())));
    });
}
