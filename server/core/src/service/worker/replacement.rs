//! Replacement of a retired worker: a new site with a key of its own takes over the datasets, with their lineages and
//! accounts.
//!
//! The old worker keeps its row, its key and its receipts, so all its signatures stay verifiable. None of its keys can
//! be enrolled again.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _};
use serde_json::json;
use uuid::Uuid;

use crate::auth::Place;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{dataset, worker, worker_key};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::AccessNotice;
use crate::service::site_key;
use undertone_api::log::leaf::KeyEvent;
use undertone_api::problem::Code;

/// Fails unless the worker is retired and has no replacement yet.
///
/// # Errors
/// `wrong_state`.
pub(super) async fn check(connection: &impl ConnectionTrait, retired: &worker::Model) -> Result<(), Error> {
    if retired.retired_at.is_none() {
        return Err(Error::wrong_state("the worker is not retired: retire it before you replace it"));
    }
    let heir = worker::Entity::find().filter(worker::Column::Replaces.eq(retired.id)).one(connection).await?;
    match heir {
        Some(heir) => Err(Error::wrong_state(format!("the worker {} replaced it already", heir.name))),
        None => Ok(()),
    }
}

/// Rejects a key that a worker had before its last rotation.
///
/// # Errors
/// `already_exists`.
pub(super) async fn refuse_known_key(tx: &Tx, public: &str) -> Result<(), Error> {
    // A change names the previous and the next key, in lower case.
    let earlier = worker_key::Entity::find().filter(worker_key::Column::Payload.contains(public)).one(tx).await?;
    match earlier {
        Some(_) => Err(Error::problem(Code::AlreadyExists, "another worker had this key before: make a new key")),
        None => Ok(()),
    }
}

/// Checks a worker once more when its replacement enrols.
///
/// # Errors
/// `wrong_state` when it was restored or replaced since the token was made.
pub(super) async fn check_again(tx: &Tx, retired: Uuid) -> Result<(), Error> {
    let row = worker::Entity::find_by_id(retired).one(tx).await?.ok_or_else(|| Error::not_found("worker"))?;
    check(tx, &row).await
}

/// Moves the datasets of the worker `retired` to `heir`, which is enrolled.
///
/// # Errors
/// When the database fails.
pub(super) async fn take_over(ctx: &Ctx, tx: &Tx, retired: Uuid, heir: &worker::Model) -> Result<(), Error> {
    let row = worker::Entity::find_by_id(retired).one(tx).await?.ok_or_else(|| Error::not_found("worker"))?;
    site_key::log_key_event(ctx, tx, &row, KeyEvent::Replaced).await?;
    let moved = dataset::Entity::update_many()
        .col_expr(dataset::Column::WorkerId, Expr::value(heir.id))
        .filter(dataset::Column::WorkerId.eq(retired))
        .exec(tx)
        .await?;
    let act = NewAuditEntry {
        by: AuditAuthor::Worker(heir.id.into()),
        what: AuditAction::WorkerReplaced,
        place: Place::Organization(heir.organization_id.into()),
        subject: Some(("worker", retired.to_string())),
        detail: json!({ "by": heir.id, "datasets": moved.rows_affected }),
    };
    audit_log::record(ctx, tx, act).await?;
    let text = format!(
        "The worker {} was replaced by a new site with its own key, which took over its datasets ({}) with what was spent on them.",
        row.name, moved.rows_affected
    );
    AccessNotice::new(format!("replaced:{retired}"), &text).for_organization(heir.organization_id).send(ctx, tx).await
}
