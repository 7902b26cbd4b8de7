//! Changes a consortium's name and description. Documents signed under an earlier name keep it.

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use serde_json::json;
use undertone_api::consortium::{Consortium, EditConsortium};
use undertone_api::id::ConsortiumId;
use undertone_api::member::check_name;
use undertone_api::problem::{Code, Violation};

use super::{LONGEST, load, to_consortia};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::consortium;
use crate::service::audit_log::{self, AuditAction, NewAuditEntry};
use crate::service::version::ExpectedVersion;

/// Changes a consortium's name or description.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed`, `already_exists` when the name is taken, `precondition_failed` when the
/// consortium has another version than the caller expects.
pub async fn edit(
    ctx: &Ctx,
    actor: &Actor,
    id: ConsortiumId,
    edit: &EditConsortium,
    expected: &ExpectedVersion,
) -> Result<Consortium, Error> {
    policy::check(actor, Operation::EditConsortium, Place::Consortium(id))?;
    let violations = violations(edit);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    ctx.db
        .write("edit consortium", async |tx| {
            let row = consortium::Entity::find_by_id(id.0).one(tx).await?;
            let mut row = row.ok_or_else(|| Error::not_found("consortium"))?;
            if let Some(now) = to_consortia(tx, vec![row.clone()]).await?.first() {
                expected.check(now)?;
            }
            if let Some(name) = edit.name.as_deref().map(str::trim) {
                let namesake = consortium::Entity::find().filter(consortium::Column::Name.eq(name)).one(tx).await?;
                if namesake.is_some_and(|namesake| namesake.id != id.0) {
                    let detail = "a consortium of this name exists: choose another name";
                    return Err(Error::problem(Code::AlreadyExists, detail));
                }
                name.clone_into(&mut row.name);
            }
            if let Some(description) = &edit.description {
                description.trim().clone_into(&mut row.description);
            }
            let detail = json!({ "name": row.name });
            row.into_active_model().reset_all().update(tx).await?;
            let act = NewAuditEntry {
                by: actor.into(),
                what: AuditAction::ConsortiumEdited,
                place: Place::Consortium(id),
                subject: Some(("consortium", id.to_string())),
                detail,
            };
            audit_log::record(ctx, tx, act).await
        })
        .await?;
    load(ctx, id).await
}

fn violations(edit: &EditConsortium) -> Vec<Violation> {
    let mut violations = Vec::new();
    if let Some(name) = &edit.name {
        check_name("name", name, &mut violations);
    }
    let length = edit.description.as_ref().map_or(0, |description| description.chars().count());
    if length > LONGEST {
        violations.push(Violation::new("description", format!("use up to {LONGEST} characters, not {length}")));
    }
    violations
}
