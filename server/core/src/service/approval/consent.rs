//! The evidence behind an approval: a steward's signature that the dataset's site verifies, the server's assertion, or
//! the site itself.
//!
//! The site states its rule and its pinned keys when it registers a dataset. The server checks signatures with them
//! only so that a steward learns of a mistake at once. The site verifies each signature again.

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::PartyTerms;
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::{ApprovalRule, Consent, MOST_APPROVAL_BYTES, SignedApproval, SiteApproval};
use uuid::Uuid;

use crate::error::Error;
use crate::model::column::{ColumnEnum as _, JsonColumn, parse_json};
use crate::model::decision::DecisionSource;
use crate::model::{dataset, decision};

/// Returns the approval rule and keys of a dataset's site; `None` when its worker does not state them.
pub(crate) async fn load_rule(connection: &impl ConnectionTrait, id: Uuid) -> Result<Option<SiteApproval>, Error> {
    let row = dataset::Entity::find_by_id(id).one(connection).await?;
    Ok(row.and_then(|row| row.approval).map(JsonColumn::into_value))
}

/// Returns the approval rules and keys of the sites of datasets, without those that their workers do not state.
pub(crate) async fn load_rules(
    connection: &impl ConnectionTrait,
    datasets: &[DatasetId],
) -> Result<Vec<(DatasetId, SiteApproval)>, Error> {
    let ids = datasets.iter().map(|dataset| dataset.0);
    let rows = dataset::Entity::find().filter(dataset::Column::Id.is_in(ids)).all(connection).await?;
    let stated = |row: dataset::Model| Some((row.id.into(), row.approval?.into_value()));
    Ok(rows.into_iter().filter_map(stated).collect())
}

/// Returns the evidence behind a steward's approval of this manifest, and the signed answer to its open terms where the
/// site verifies the signature.
///
/// # Errors
/// `validation_failed` without a signature that the site demands, `wrong_state` while the site has pinned no key,
/// `bad_signature` when the signature does not approve this manifest with a pinned key.
pub(super) fn steward_consent(
    site: Option<&SiteApproval>,
    signature: Option<&SignedApproval>,
    manifest: &str,
    job: JobId,
    dataset: DatasetId,
) -> Result<(Consent, Option<PartyTerms>), Error> {
    let Some(site) = site.filter(|site| site.rule == ApprovalRule::Steward) else {
        return Ok((rule_consent(site), None));
    };
    if site.keys.is_empty() {
        return Err(Error::wrong_state(
            "the dataset's site verifies stewards' signatures and has pinned no approval key: have its operator pin yours \
             with `undertone-worker approval-keys add`",
        ));
    }
    let Some(signature) = signature else {
        let message = "the dataset's site verifies stewards' signatures: approve with a passkey on the job's page, or with \
                       `undertone-worker steward-key sign`";
        return Err(Error::validation(vec![Violation::new("signature", message)]));
    };
    let key = signature.approves(manifest, job, dataset, &site.keys);
    let (key, terms) =
        key.map_err(|problem| Error::problem(Code::BadSignature, format!("the approval is not valid: {problem}")))?;
    Ok((Consent::Signed { key }, Some(terms)))
}

/// Returns the answer in force: the signed one if there is one, which a requested answer must equal.
pub(super) fn agreed_terms(signed: Option<&PartyTerms>, requested: Option<&PartyTerms>) -> Result<PartyTerms, Error> {
    match (signed, requested) {
        (Some(signed), Some(requested)) if signed != requested => {
            let detail = format!(
                "the request answers with other terms ({requested}) than the signed approval ({signed}): sign the answer \
                 that you send, or send no terms beside the signature"
            );
            Err(Error::problem(Code::BadSignature, detail))
        }
        (Some(terms), _) | (None, Some(terms)) => Ok(terms.clone()),
        (None, None) => Ok(PartyTerms::default()),
    }
}

/// Returns the evidence behind an approval without a signature, under a site's rule. A site without a stated rule may
/// trust the server.
pub(super) fn rule_consent(site: Option<&SiteApproval>) -> Consent {
    match site.map(|site| site.rule) {
        Some(ApprovalRule::Automatic | ApprovalRule::Manual) => Consent::Site,
        Some(ApprovalRule::Steward | ApprovalRule::Server) | None => Consent::ServerWord,
    }
}

/// Rejects a signed approval above the size limit.
pub(super) fn check_size(signature: &SignedApproval) -> Result<(), Error> {
    let size = serde_json::to_string(signature).map_or(usize::MAX, |text| text.len());
    if size <= MOST_APPROVAL_BYTES {
        return Ok(());
    }
    Err(Error::validation(vec![Violation::new("signature", format!("at most {MOST_APPROVAL_BYTES} bytes"))]))
}

/// Returns the last signed approval that a steward gave, for the site to verify.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn signed_approval(
    connection: &impl ConnectionTrait,
    job: JobId,
    dataset: DatasetId,
) -> Result<Option<SignedApproval>, Error> {
    let last = decision::Entity::find()
        .filter(decision::Column::JobId.eq(job.0))
        .filter(decision::Column::DatasetId.eq(dataset.0))
        .filter(decision::Column::Source.eq(DecisionSource::Steward.to_text()))
        .filter(decision::Column::Approve.eq(true))
        .filter(decision::Column::Payload.is_not_null())
        .order_by_desc(decision::Column::At)
        .order_by_desc(decision::Column::Id)
        .one(connection)
        .await?;
    last.and_then(|row| row.payload).map(|text| parse_json("reading the column decision.payload", &text)).transpose()
}
