//! Two models side by side: quality on shared test sets, privacy cost, and the settings and data that differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use undertone_api::id::ArtifactId;
use undertone_api::model::record::{
    ModelComparison, ModelQuality, ModelRecord, PrivacyDifference, QualityDifference, SettingDifference,
};
use undertone_api::problem::Violation;
use undertone_api::signed::certificate::LineageSum;

use super::record::read;
use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;

/// Compares two models of one consortium.
///
/// # Errors
/// As [`super::get`] for either model, `validation_failed` for a model of another consortium or the same model.
pub async fn compare(
    ctx: &Ctx,
    actor: &Actor,
    first: ArtifactId,
    second: ArtifactId,
) -> Result<ModelComparison, Error> {
    let (first, first_spec) = read(ctx, actor, first).await?;
    let (second, second_spec) = read(ctx, actor, second).await?;
    let refused = |text: &str| Err(Error::validation(vec![Violation::new("with", text)]));
    if first.file.id == second.file.id {
        return refused("this is the same model: choose another one of the Models page");
    }
    if first.consortium.id != second.consortium.id {
        return refused("this model is of another consortium: choose one of the same consortium");
    }
    let flatten_spec = |spec: &_| {
        let mut flat = BTreeMap::new();
        let mut document = serde_json::to_value(spec).unwrap_or_default();
        // The settings have the names of the spec's fields.
        let fields = document.get_mut("spec").map(Value::take).unwrap_or_default();
        flatten("", &fields, &mut flat);
        flatten("kind", &document["kind"], &mut flat);
        flat
    };
    let mut settings = list_differences(&flatten_spec(&first_spec), &flatten_spec(&second_spec));
    settings.extend(list_data(&first, &second));
    Ok(ModelComparison {
        quality: compare_quality(&first.quality, &second.quality),
        privacy: compare_privacy(&first.privacy, &second.privacy),
        settings,
        first,
        second,
    })
}

/// Returns the newest figures that both models have on the same test set.
fn compare_quality(first: &[ModelQuality], second: &[ModelQuality]) -> Vec<QualityDifference> {
    let key = |one: &ModelQuality| (one.origin, one.test_key.clone(), one.metric.clone());
    let mut seen = BTreeSet::new();
    let mut differences = Vec::new();
    for one in first {
        let other = second.iter().find(|other| key(other) == key(one));
        if let Some(other) = other.filter(|_| seen.insert(key(one))) {
            differences.push(QualityDifference::between(one.clone(), other.clone()));
        }
    }
    differences
}

/// Returns the cost to each account that either line charged.
fn compare_privacy(first: &[LineageSum], second: &[LineageSum]) -> Vec<PrivacyDifference> {
    let key = |sum: &LineageSum| (sum.organization, sum.lineage, sum.unit, sum.adjacency);
    let mut costs: BTreeMap<_, PrivacyDifference> = BTreeMap::new();
    for sum in first {
        costs.insert(key(sum), PrivacyDifference { first: Some(sum.clone()), second: None });
    }
    for sum in second {
        let cost = costs.entry(key(sum)).or_insert(PrivacyDifference { first: None, second: None });
        cost.second = Some(sum.clone());
    }
    costs.into_values().collect()
}

/// Returns the datasets that one of the models does not use.
fn list_data(first: &ModelRecord, second: &ModelRecord) -> Vec<SettingDifference> {
    let names = |record: &ModelRecord| {
        let used =
            record.datasets.iter().map(|used| (used.dataset, format!("{} of {}", used.name, used.organization_name)));
        used.collect::<BTreeMap<_, _>>()
    };
    let (first, second) = (names(first), names(second));
    let all: BTreeSet<_> = first.keys().chain(second.keys()).collect();
    let differing = all.into_iter().filter(|id| first.contains_key(id) != second.contains_key(id));
    let difference = |id| {
        let field = "dataset".to_owned();
        SettingDifference { field, first: first.get(id).cloned(), second: second.get(id).cloned() }
    };
    differing.map(difference).collect()
}

fn list_differences(first: &BTreeMap<String, String>, second: &BTreeMap<String, String>) -> Vec<SettingDifference> {
    let fields: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    let differing = fields.into_iter().filter(|field| first.get(*field) != second.get(*field));
    let difference = |field: &String| SettingDifference {
        field: field.clone(),
        first: first.get(field).cloned(),
        second: second.get(field).cloned(),
    };
    differing.map(difference).collect()
}

/// Collects every value of a document by its path.
fn flatten(at: &str, value: &Value, flat: &mut BTreeMap<String, String>) {
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| flatten(&below(name), value, flat)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| flatten(&below(&index.to_string()), value, flat));
        }
        Value::Null => {}
        Value::String(text) => drop(flat.insert(at.to_owned(), text.clone())),
        other => drop(flat.insert(at.to_owned(), other.to_string())),
    }
}
