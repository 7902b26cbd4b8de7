//! The answers of parties to the open terms of a proposal, and the final manifest that holds them.
//!
//! A party's answer comes with its approval. It changes the party's own charge at once, so the ledger checks and
//! reserves the answered values. When no answer is missing, the server signs the final manifest: the proposal with all
//! answers, and the signed proposal within it, so that each site can compare both.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
};
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId, JobId};
use undertone_api::job::{PartyTerms, Spec};
use undertone_api::signed::Signed;

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::JsonColumn;
use crate::model::planned_series::PlannedSeries;
use crate::model::{job, participant, party_terms};
use crate::rule::job::load_participants;
use crate::service::dataset;

/// Accepts a party's answer to a proposed job; returns its part with the charge of that answer. The first answer of a
/// party stays in force until it is revoked.
///
/// # Errors
/// `validation_failed` with every term that the proposal does not admit, or that does not fit the answers of the other
/// parties; `wrong_state` when another answer of the party is in force.
pub(super) async fn accept_answer(
    ctx: &Ctx,
    tx: &Tx,
    row: &job::Model,
    part: participant::Model,
    terms: &PartyTerms,
    by: &str,
) -> Result<participant::Model, Error> {
    let dataset = DatasetId(part.dataset_id);
    if terms.is_empty() && row.spec.open_terms(dataset).is_empty() {
        return Ok(part);
    }
    let violations = row.spec.check_terms(dataset, terms);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let answers = load_answers(tx, row.id).await?;
    let with = |spec: Spec, terms: &PartyTerms| spec.with_terms(dataset, terms);
    if let Some(earlier) = answers.iter().find(|answer| answer.dataset_id == part.dataset_id) {
        if with(row.spec.clone().into_value(), &earlier.terms) != with(row.spec.clone().into_value(), terms) {
            return Err(Error::wrong_state(format!(
                "{} has answered with other terms ({}): answer the same, or refuse the job",
                earlier.by, *earlier.terms
            )));
        }
        return Ok(part);
    }
    let spec = with(answered_spec(row, &answers), terms);
    let datasets = dataset::in_consortium(tx, ConsortiumId(row.consortium_id)).await?;
    let violations = spec.check(&datasets);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let answer = party_terms::Model {
        job_id: row.id,
        dataset_id: part.dataset_id,
        terms: JsonColumn::new(terms.clone())?,
        by: by.to_owned(),
        at: ctx.now(),
    };
    answer.into_active_model().insert(tx).await?;
    charge_by(&spec, &datasets, part)
}

/// Revokes a party's answer: its part is charged as the proposal states.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(super) async fn revoke_answer(
    tx: &Tx,
    row: &job::Model,
    part: participant::Model,
) -> Result<participant::Model, Error> {
    let key = (part.job_id, part.dataset_id);
    if party_terms::Entity::delete_by_id(key).exec(tx).await?.rows_affected == 0 {
        return Ok(part);
    }
    let manifest = row.manifest()?;
    let entry = manifest.participants.into_iter().find(|party| party.dataset.0 == part.dataset_id);
    let charge = entry.and_then(|party| party.charge).map(JsonColumn::new).transpose()?;
    Ok(participant::Model { charge, ..part })
}

/// Returns whether `terms` are the values of a dataset in a final manifest.
///
/// # Errors
/// When a stored value cannot be read.
pub(super) fn agrees_with(row: &job::Model, dataset: DatasetId, terms: &PartyTerms) -> Result<bool, Error> {
    Ok(row.manifest()?.has_answer(dataset, terms))
}

/// Signs the final manifest of a proposal that left terms to the parties, and stores it with its spec, its series and
/// the charges. A job without open terms stays as it is.
///
/// # Errors
/// When the database fails, a stored value cannot be read, or the manifest cannot be signed.
pub(super) async fn settle(ctx: &Ctx, tx: &Tx, row: job::Model) -> Result<job::Model, Error> {
    let proposal = row.manifest()?;
    if !proposal.awaits_terms() {
        return Ok(row);
    }
    let answers = load_answers(tx, row.id).await?;
    let spec = answered_spec(&row, &answers);
    let datasets = dataset::in_consortium(tx, ConsortiumId(row.consortium_id)).await?;
    let signed = Signed { payload: row.manifest.clone(), signature: row.signature.clone() };
    let cost = |id| datasets.iter().find(|dataset| dataset.id == id).and_then(|dataset| spec.cost(dataset));
    let manifest = proposal.settle_terms(signed, spec.clone(), cost);
    let signed = ctx.signer.sign(&manifest).await.map_err(|error| Error::internal("signing a manifest", error))?;
    store_final(tx, row, signed, spec, &datasets).await
}

/// Stores a final manifest that this server signed, with its spec, its series and the charges.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(super) async fn store_final(
    tx: &Tx,
    row: job::Model,
    signed: Signed,
    spec: Spec,
    datasets: &[Dataset],
) -> Result<job::Model, Error> {
    for part in load_participants(tx, JobId(row.id)).await? {
        charge_by(&spec, datasets, part)?.into_active_model().reset_all().update(tx).await?;
    }
    let row = job::Model {
        spec: JsonColumn::new(spec.clone())?,
        series: JsonColumn::new(PlannedSeries::from_spec(&spec, datasets))?,
        digest: signed.digest(),
        manifest: signed.payload,
        signature: signed.signature,
        ..row
    };
    Ok(row.into_active_model().reset_all().update(tx).await?)
}

/// Returns the spec of a proposal with the answers so far.
fn answered_spec(row: &job::Model, answers: &[party_terms::Model]) -> Spec {
    let with = |spec: Spec, answer: &party_terms::Model| spec.with_terms(DatasetId(answer.dataset_id), &answer.terms);
    answers.iter().fold(row.spec.clone().into_value(), with)
}

fn charge_by(spec: &Spec, datasets: &[Dataset], part: participant::Model) -> Result<participant::Model, Error> {
    let dataset = datasets.iter().find(|dataset| dataset.id.0 == part.dataset_id);
    let charge = dataset.and_then(|dataset| spec.cost(dataset)).map(JsonColumn::new).transpose()?;
    Ok(participant::Model { charge, ..part })
}

async fn load_answers(connection: &impl ConnectionTrait, job: uuid::Uuid) -> Result<Vec<party_terms::Model>, Error> {
    Ok(party_terms::Entity::find().filter(party_terms::Column::JobId.eq(job)).all(connection).await?)
}
