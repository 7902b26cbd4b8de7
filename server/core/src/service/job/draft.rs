//! Drafts of jobs: the researchers of an organization write them together, in one consortium. Drafts are invisible to
//! all other members, including stewards and admins.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _, QueryOrder as _,
};
use serde_json::json;
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DraftId, JobId, OrganizationId};
use undertone_api::job::{Job, JobDraft, NewDraft, NewJob};
use undertone_api::member::Role;
use undertone_api::problem::{Code, Violation};

use super::propose::{ProposalOrigin, submit, violations};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::JsonColumn;
use crate::model::draft;
use crate::service::audit_log::{AuditAction, NewAuditEntry, record};
use crate::service::dataset;
use crate::service::version::ExpectedVersion;

/// The highest number of drafts of an organization in a consortium.
const MOST_DRAFTS: u64 = 200;

/// Returns the drafts that the caller may see in a consortium, the last changed first.
///
/// # Errors
/// 404 and 403 as usual.
pub async fn draft_list(ctx: &Ctx, actor: &Actor, consortium: ConsortiumId) -> Result<Vec<JobDraft>, Error> {
    policy::check(actor, Operation::WriteDraft, Place::Consortium(consortium))?;
    let own = own(actor, consortium).into_iter().map(|organization| organization.0);
    let rows = draft::Entity::find()
        .filter(draft::Column::ConsortiumId.eq(consortium.0))
        .filter(draft::Column::OrganizationId.is_in(own))
        .order_by_desc(draft::Column::UpdatedAt)
        .order_by_desc(draft::Column::Id)
        .all(ctx.db.read())
        .await?;
    let datasets = dataset::in_consortium(ctx.db.read(), consortium).await?;
    Ok(rows.into_iter().map(|row| to_draft(row, &datasets)).collect())
}

/// Returns a draft.
///
/// # Errors
/// 404 when there is none that the caller may see.
pub async fn draft_get(ctx: &Ctx, actor: &Actor, id: DraftId) -> Result<JobDraft, Error> {
    let row = load_draft(ctx.db.read(), actor, id).await?;
    let datasets = dataset::in_consortium(ctx.db.read(), ConsortiumId(row.consortium_id)).await?;
    Ok(to_draft(row, &datasets))
}

/// Begins a draft, for the researchers of the caller's organization.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` when it does not have the form of a draft, `too_large` when there are too
/// many.
pub async fn draft_create(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    new: &NewDraft,
) -> Result<JobDraft, Error> {
    policy::check(actor, Operation::WriteDraft, Place::Consortium(consortium))?;
    begin(ctx, actor, consortium, new, None).await
}

/// Replaces a draft's content. `version` and `expected` both identify the version that the caller read; either may be
/// omitted.
///
/// # Errors
/// 404 as usual, `validation_failed` as [`draft_create`], `precondition_failed` after a change by another member.
pub async fn draft_update(
    ctx: &Ctx,
    actor: &Actor,
    id: DraftId,
    new: &NewDraft,
    version: Option<u64>,
    expected: &ExpectedVersion,
) -> Result<JobDraft, Error> {
    load_draft(ctx.db.read(), actor, id).await?;
    valid(new)?;
    let row = ctx
        .db
        .write("change draft", async |tx| {
            let row = load_draft(tx, actor, id).await?;
            if version.is_some_and(|version| version != row.version as u64) {
                let detail = "somebody changed this draft since you read it: read it again, and decide again";
                return Err(Error::problem(Code::PreconditionFailed, detail));
            }
            let datasets = dataset::in_consortium(tx, ConsortiumId(row.consortium_id)).await?;
            expected.check(&to_draft(row.clone(), &datasets))?;
            let row = draft::Model {
                title: new.title.trim().to_owned(),
                kind: new.kind.clone(),
                spec: JsonColumn::new(new.spec.clone())?,
                version: row.version + 1,
                updated_at: ctx.now(),
                ..row
            };
            let row = row.into_active_model().reset_all().update(tx).await?;
            log(ctx, tx, actor, &row, AuditAction::JobDrafted).await?;
            Ok(row)
        })
        .await?;
    let datasets = dataset::in_consortium(ctx.db.read(), ConsortiumId(row.consortium_id)).await?;
    Ok(to_draft(row, &datasets))
}

/// Deletes a draft.
///
/// # Errors
/// 404 when there is none that the caller may see.
pub async fn draft_delete(ctx: &Ctx, actor: &Actor, id: DraftId) -> Result<(), Error> {
    ctx.db
        .write("delete draft", async |tx| {
            let row = load_draft(tx, actor, id).await?;
            draft::Entity::delete_by_id(row.id).exec(tx).await?;
            log(ctx, tx, actor, &row, AuditAction::JobDraftDeleted).await
        })
        .await
}

/// Proposes a draft to the owners of its datasets. The draft becomes a job and is deleted.
///
/// # Errors
/// 404 as usual, `validation_failed` with every violation, and as [`propose`](super::propose()).
pub async fn draft_propose(ctx: &Ctx, actor: &Actor, id: DraftId) -> Result<Job, Error> {
    let row = load_draft(ctx.db.read(), actor, id).await?;
    let consortium = ConsortiumId(row.consortium_id);
    policy::check(actor, Operation::ProposeJob, Place::Consortium(consortium))?;
    let content = content(&row);
    let spec = content.parsed().map_err(|violation| Error::validation(vec![violation]))?;
    submit(ctx, actor, consortium, NewJob { title: content.title, spec }, ProposalOrigin::Draft(&row)).await
}

/// Begins a draft. The caller has checked the policy.
pub(super) async fn begin(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    new: &NewDraft,
    cloned_from: Option<JobId>,
) -> Result<JobDraft, Error> {
    valid(new)?;
    let organization = own(actor, consortium).into_iter().next();
    let organization =
        organization.ok_or_else(|| Error::forbidden("drafts belong to an organization's researchers"))?;
    let row = draft::Model {
        id: ctx.id::<DraftId>().0,
        consortium_id: consortium.0,
        organization_id: organization.0,
        author_id: actor.id().0,
        author: actor.member.name.clone(),
        title: new.title.trim().to_owned(),
        kind: new.kind.clone(),
        spec: JsonColumn::new(new.spec.clone())?,
        cloned_from: cloned_from.map(|job| job.0),
        version: 1,
        created_at: ctx.now(),
        updated_at: ctx.now(),
    };
    let row = ctx
        .db
        .write("begin draft", async |tx| {
            let others = draft::Entity::find()
                .filter(draft::Column::ConsortiumId.eq(consortium.0))
                .filter(draft::Column::OrganizationId.eq(organization.0));
            if others.count(tx).await? >= MOST_DRAFTS {
                let detail = format!("your organization has {MOST_DRAFTS} drafts in this consortium: delete some");
                return Err(Error::problem(Code::TooLarge, detail));
            }
            let row = row.clone().into_active_model().insert(tx).await?;
            log(ctx, tx, actor, &row, AuditAction::JobDrafted).await?;
            Ok(row)
        })
        .await?;
    let datasets = dataset::in_consortium(ctx.db.read(), consortium).await?;
    Ok(to_draft(row, &datasets))
}

/// Deletes a proposed draft, in the transaction of the proposal: it becomes one job only.
pub(super) async fn spend(tx: &Tx, draft: &draft::Model) -> Result<(), Error> {
    let deletion = draft::Entity::delete_many()
        .filter(draft::Column::Id.eq(draft.id))
        .filter(draft::Column::Version.eq(draft.version))
        .exec(tx)
        .await?;
    if deletion.rows_affected == 1 {
        return Ok(());
    }
    Err(Error::problem(Code::PreconditionFailed, "somebody changed, proposed or deleted this draft in the meantime"))
}

/// Returns a draft that the caller may see.
async fn load_draft(connection: &impl ConnectionTrait, actor: &Actor, id: DraftId) -> Result<draft::Model, Error> {
    let hidden = || Error::not_found("draft");
    let row = draft::Entity::find_by_id(id.0).one(connection).await?.ok_or_else(hidden)?;
    let consortium = ConsortiumId(row.consortium_id);
    policy::check(actor, Operation::WriteDraft, Place::Consortium(consortium)).map_err(|_| hidden())?;
    if own(actor, consortium).contains(&OrganizationId(row.organization_id)) { Ok(row) } else { Err(hidden()) }
}

/// Returns the organizations in a consortium in which the caller is a researcher.
fn own(actor: &Actor, consortium: ConsortiumId) -> Vec<OrganizationId> {
    let all = actor.consortia.get(&consortium).into_iter().flatten().copied();
    all.filter(|organization| actor.roles_within(consortium, *organization).any(|role| role == Role::Researcher))
        .collect()
}

fn valid(new: &NewDraft) -> Result<(), Error> {
    let violations = new.check();
    if violations.is_empty() { Ok(()) } else { Err(Error::validation(violations)) }
}

fn content(row: &draft::Model) -> NewDraft {
    NewDraft { title: row.title.clone(), kind: row.kind.clone(), spec: (*row.spec).clone() }
}

fn to_draft(row: draft::Model, datasets: &[Dataset]) -> JobDraft {
    let content = content(&row);
    JobDraft {
        id: row.id.into(),
        consortium: row.consortium_id.into(),
        organization: row.organization_id.into(),
        violations: lacks(&content, datasets),
        content,
        author: row.author,
        cloned_from: row.cloned_from.map(JobId),
        version: row.version as u64,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

/// Returns the violations that prevent a proposal.
fn lacks(content: &NewDraft, datasets: &[Dataset]) -> Vec<Violation> {
    match content.parsed() {
        Ok(spec) => violations(&NewJob { title: content.title.clone(), spec }, datasets),
        Err(violation) => vec![violation],
    }
}

async fn log(ctx: &Ctx, tx: &Tx, actor: &Actor, row: &draft::Model, what: AuditAction) -> Result<(), Error> {
    let act = NewAuditEntry {
        by: actor.into(),
        what,
        place: Place::Organization(OrganizationId(row.organization_id)),
        subject: Some(("draft", row.id.to_string())),
        detail: json!({ "version": row.version }),
    };
    record(ctx, tx, act).await
}
