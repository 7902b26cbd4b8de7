//! Workers: their enrolment, and the list for each organization. Other modules decide about their work.

mod replacement;
#[cfg(test)]
pub(super) mod tests;

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use serde_json::json;
use time::Duration;
use undertone_api::id::{OrganizationId, WorkerId};
use undertone_api::log::leaf::KeyEvent;
use undertone_api::member::check_name;
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::public_key;
use undertone_api::worker::{Enrolment, EnrolmentToken, KeyChanged, NewEnrolment, Worker};
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::{Ctx, fingerprint};
use crate::error::Error;
use crate::model::column::{JsonColumn, to_json};
use crate::model::retirement::SubjectKind;
use crate::model::{enrolment, retirement as retirement_row, worker};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::retirement;
use crate::service::{presence, restoration, site_key};
use crate::tls::ServedCertificate;
use crate::view::diagnosis;

/// The validity of an enrolment token.
pub const TOKEN_LIFETIME: Duration = Duration::hours(24);
/// The time since the last sign of life within which a worker is online.
pub(crate) const ONLINE: Duration = Duration::seconds(60);
/// The prefix of an enrolment token.
const PREFIX: &str = "ute1.";

/// Makes a one-time token for the enrolment of one worker of the organization.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` for the name.
pub async fn invite(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
    new: &NewEnrolment,
) -> Result<Enrolment, Error> {
    policy::check(actor, Operation::EnrolWorker, Place::Organization(organization))?;
    policy::check_fresh(actor)?;
    let mut violations = Vec::new();
    check_name("name", &new.name, &mut violations);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    make_token(ctx, actor, organization, new.name.trim(), None).await
}

/// Makes a one-time token for a new site that takes over the datasets of a retired worker, with their lineages and
/// accounts, under a key of its own.
///
/// # Errors
/// 404 and 403 as usual, `proof_stale`, `wrong_state` unless the worker is retired and not replaced.
pub async fn invite_replacement(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
    retired: WorkerId,
) -> Result<Enrolment, Error> {
    policy::check(actor, Operation::EnrolWorker, Place::Organization(organization))?;
    policy::check_fresh(actor)?;
    let row = worker::Entity::find_by_id(retired.0).one(ctx.db.read()).await?;
    let row = row.filter(|row| row.organization_id == organization.0).ok_or_else(|| Error::not_found("worker"))?;
    replacement::check(ctx.db.read(), &row).await?;
    make_token(ctx, actor, organization, &row.name, Some(row.id)).await
}

/// Makes a token. The caller has checked the policy.
async fn make_token(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
    name: &str,
    replaces: Option<Uuid>,
) -> Result<Enrolment, Error> {
    let secret = ctx.random.secret();
    let expires_at = ctx.now() + TOKEN_LIFETIME;
    ctx.db
        .write("invite worker", async |tx| {
            let row = enrolment::Model {
                id: ctx.id(),
                organization_id: organization.0,
                name: name.to_owned(),
                secret_hash: fingerprint(&secret),
                created_by: actor.id().0,
                created_at: ctx.now(),
                expires_at,
                used_at: None,
                replaces,
            };
            let act = NewAuditEntry {
                by: AuditAuthor::from(actor),
                what: AuditAction::EnrolmentMade,
                place: Place::Organization(organization),
                subject: Some(("enrolment", row.id.to_string())),
                detail: json!({ "name": row.name, "replaces": row.replaces }),
            };
            audit_log::record(ctx, tx, act).await?;
            Ok(row.into_active_model().insert(tx).await?)
        })
        .await?;
    let token = EnrolmentToken {
        server: ctx.addresses.grpc.clone(),
        certificate: ctx.tls.as_ref().map(ServedCertificate::fingerprint),
        server_key: hex::encode(ctx.signer.verifying_key().to_bytes()),
        server_root: ctx.signer.root_in_force(ctx.now()),
        secret,
    };
    Ok(Enrolment { token: format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(to_json(&token)?)), expires_at })
}

/// Enrols a worker with the secret of a token and the key `public` (hex). A worker that lost the response may repeat
/// the request with the same key.
///
/// # Errors
/// `link_spent` when the token was used by another key or has expired, `already_exists` when the key belongs to another
/// worker, `validation_failed` for an invalid key.
pub async fn enrol(ctx: &Ctx, secret: &str, public: &str, version: &str, kinds: &[String]) -> Result<Worker, Error> {
    public_key(public)
        .map_err(|_| Error::validation(vec![Violation::new("public_key", "give an Ed25519 public key, hex")]))?;
    let public = public.to_ascii_lowercase();
    // The endpoint is public: a caller without a token must not cause a transaction.
    token(ctx, ctx.db.read(), secret).await?;
    let (row, new) = ctx
        .db
        .write("enrol worker", async |tx| {
            let token = token(ctx, tx, secret).await?;
            let holder = worker::Entity::find().filter(worker::Column::PublicKey.eq(&public)).one(tx).await?;
            match (holder, token.used_at) {
                (Some(row), Some(_)) if row.organization_id == token.organization_id && row.name == token.name => {
                    if row.retired_at.is_some() {
                        return Err(presence::retired());
                    }
                    return Ok((row, false));
                }
                (Some(_), None) => {
                    return Err(Error::problem(Code::AlreadyExists, "a worker with this key is enrolled already"));
                }
                (_, Some(_)) => return Err(spent()),
                (None, None) => {}
            }
            replacement::refuse_known_key(tx, &public).await?;
            if let Some(retired) = token.replaces {
                replacement::check_again(tx, retired).await?;
            }
            let row = worker::Model {
                id: ctx.id::<WorkerId>().0,
                organization_id: token.organization_id,
                name: token.name.clone(),
                public_key: public.clone(),
                version: version.to_owned(),
                kinds: JsonColumn::new(kinds.to_vec())?,
                created_at: ctx.now(),
                last_seen_at: None,
                retired_at: None,
                replaces: token.replaces,
            };
            let row = row.into_active_model().insert(tx).await?;
            site_key::log_key_event(ctx, tx, &row, KeyEvent::Enrolled).await?;
            if let Some(retired) = row.replaces {
                replacement::take_over(ctx, tx, retired, &row).await?;
            }
            let used = enrolment::Model { used_at: Some(ctx.now()), ..token };
            used.into_active_model().reset_all().update(tx).await?;
            let act = NewAuditEntry {
                by: AuditAuthor::Worker(row.id.into()),
                what: AuditAction::WorkerEnrolled,
                place: Place::Organization(row.organization_id.into()),
                subject: Some(("worker", row.id.to_string())),
                detail: json!({ "name": row.name, "version": version, "public_key": row.public_key }),
            };
            audit_log::record(ctx, tx, act).await?;
            Ok((row, true))
        })
        .await?;
    if new {
        tracing::info!(worker.id = %row.id, organization.id = %row.organization_id, "a worker enrolled");
    }
    Ok(to_worker(ctx, row, Vec::new(), None))
}

/// Returns the unexpired token with this secret, used or not.
async fn token(ctx: &Ctx, connection: &impl ConnectionTrait, secret: &str) -> Result<enrolment::Model, Error> {
    let row = enrolment::Entity::find().filter(enrolment::Column::SecretHash.eq(fingerprint(secret)));
    row.one(connection).await?.filter(|row| row.expires_at > ctx.now()).ok_or_else(spent)
}

/// Returns the workers of an organization, by name.
///
/// # Errors
/// 404 when the caller may not know the organization.
pub async fn list(ctx: &Ctx, actor: &Actor, organization: OrganizationId) -> Result<Vec<Worker>, Error> {
    policy::check(actor, Operation::ReadOrganization, Place::Organization(organization))?;
    Ok(of_organizations(ctx, &[organization.0]).await?.remove(&organization.0).unwrap_or_default())
}

/// Returns a worker. The caller has checked the policy.
///
/// # Errors
/// 404 when there is none.
pub(super) async fn get(ctx: &Ctx, id: WorkerId) -> Result<Worker, Error> {
    let row = worker::Entity::find_by_id(id.0).one(ctx.db.read()).await?.ok_or_else(|| Error::not_found("worker"))?;
    let changes = site_key::changes(ctx.db.read(), vec![row.id]).await?.remove(&row.id).unwrap_or_default();
    let retirement =
        retirement::all_in_force(ctx.db.read(), SubjectKind::Worker, &[row.id], None).await?.remove(&row.id);
    let mut states = restoration::WorkerStates::load(ctx.db.read(), std::slice::from_ref(&row)).await?;
    let mut view = to_worker(ctx, row, changes, retirement);
    states.apply(&mut view);
    Ok(view)
}

/// Returns the workers of organizations, by name.
pub(super) async fn of_organizations(ctx: &Ctx, ids: &[Uuid]) -> Result<HashMap<Uuid, Vec<Worker>>, Error> {
    let rows = worker::Entity::find()
        .filter(worker::Column::OrganizationId.is_in(ids.iter().copied()))
        .order_by_asc(worker::Column::Name)
        .order_by_asc(worker::Column::Id)
        .all(ctx.db.read())
        .await?;
    let mut changes = site_key::changes(ctx.db.read(), rows.iter().map(|row| row.id).collect()).await?;
    let retired: Vec<Uuid> = rows.iter().filter(|row| row.retired_at.is_some()).map(|row| row.id).collect();
    let mut retired = retirement::all_in_force(ctx.db.read(), SubjectKind::Worker, &retired, None).await?;
    let mut states = restoration::WorkerStates::load(ctx.db.read(), &rows).await?;
    let mut by_organization: HashMap<Uuid, Vec<Worker>> = HashMap::new();
    for row in rows {
        let changes = changes.remove(&row.id).unwrap_or_default();
        let retirement = retired.remove(&row.id);
        let organization = row.organization_id;
        let mut view = to_worker(ctx, row, changes, retirement);
        states.apply(&mut view);
        by_organization.entry(organization).or_default().push(view);
    }
    Ok(by_organization)
}

fn to_worker(
    ctx: &Ctx,
    row: worker::Model,
    key_changes: Vec<KeyChanged>,
    retirement: Option<retirement_row::Model>,
) -> Worker {
    Worker {
        key_changes,
        // A retired worker is silent on purpose.
        diagnoses: if row.retired_at.is_some() { Vec::new() } else { diagnosis::of_worker(ctx, &row) },
        retirement: retirement.map(Into::into),
        replaces: row.replaces.map(Into::into),
        reconciliation: None,
        write_off: None,
        id: row.id.into(),
        organization: row.organization_id.into(),
        name: row.name,
        public_key: row.public_key,
        version: row.version,
        kinds: row.kinds.into_value(),
        online: row.retired_at.is_none() && row.last_seen_at.is_some_and(|at| ctx.now() - at <= ONLINE),
        last_seen_at: row.last_seen_at,
    }
}

fn spent() -> Error {
    Error::problem(
        Code::LinkSpent,
        "the enrolment token was used or is over: ask your organization's admin for a new one",
    )
}
