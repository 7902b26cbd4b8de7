//! Members: people, with their roles and the scopes of these.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use undertone_api::id::{ConsortiumId, MemberId, OrganizationId};
use undertone_api::member::{Member, Role, RoleGrant, RoleScope};
use uuid::Uuid;

use crate::auth::{Actor, Memberships, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::role::ScopeKind;
use crate::model::{member, membership, role};

/// Returns the caller's own account.
///
/// # Errors
/// Never for a signed-in member.
pub fn me(actor: &Actor) -> Result<Member, Error> {
    policy::check(actor, Operation::ReadSelf, Place::Server)?;
    Ok(actor.member.clone())
}

/// Returns the members of an organization, by name, with their roles there. Only its admins see all e-mail addresses;
/// each member sees their own.
///
/// # Errors
/// 404 when the caller may not know the organization, 403 when they may not know its members.
pub async fn list(ctx: &Ctx, actor: &Actor, organization: OrganizationId) -> Result<Vec<Member>, Error> {
    let place = Place::Organization(organization);
    policy::check(actor, Operation::ListMembers, place)?;
    let admin = policy::allows(actor, Operation::InviteMember, place);
    let scope = RoleScope::Organization(organization);
    let grants = role::Entity::find()
        .filter(role::Column::Scope.eq(ScopeKind::Organization.to_text()))
        .filter(role::Column::ScopeId.eq(organization.0))
        .all(ctx.db.read())
        .await?;
    let mut by_member: HashMap<Uuid, Vec<RoleGrant>> = HashMap::new();
    for row in grants {
        by_member.entry(row.member_id).or_default().push(RoleGrant { scope, role: *row.role });
    }
    let rows = member::Entity::find()
        .filter(member::Column::Id.is_in(by_member.keys().copied()))
        .order_by_asc(member::Column::Name)
        .order_by_asc(member::Column::Id)
        .all(ctx.db.read())
        .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let grants = by_member.remove(&row.id).unwrap_or_default();
            let is_visible = admin || row.id == actor.id().0;
            let email = if is_visible { row.email.clone() } else { String::new() };
            Member { email, ..to_member(row, grants) }
        })
        .collect())
}

/// Returns the e-mail address in the form in which it is stored and compared.
pub(super) fn normal_email(email: &str) -> String {
    email.trim().to_lowercase()
}

/// Returns the row with this e-mail address (in any case).
pub(super) async fn by_email(connection: &impl ConnectionTrait, email: &str) -> Result<Option<member::Model>, Error> {
    Ok(member::Entity::find().filter(member::Column::Email.eq(normal_email(email))).one(connection).await?)
}

/// Returns a member with all their roles.
pub(super) async fn with_grants(connection: &impl ConnectionTrait, row: member::Model) -> Result<Member, Error> {
    let grants = grants(connection, vec![row.id]).await?.remove(&row.id).unwrap_or_default();
    Ok(to_member(row, grants))
}

/// Returns members, each with all their roles.
pub(super) async fn all_with_grants(
    connection: &impl ConnectionTrait,
    rows: Vec<member::Model>,
) -> Result<Vec<Member>, Error> {
    let mut grants = grants(connection, rows.iter().map(|row| row.id).collect()).await?;
    let with = |row: member::Model| {
        let own = grants.remove(&row.id).unwrap_or_default();
        to_member(row, own)
    };
    Ok(rows.into_iter().map(with).collect())
}

async fn grants(connection: &impl ConnectionTrait, members: Vec<Uuid>) -> Result<HashMap<Uuid, Vec<RoleGrant>>, Error> {
    let rows = role::Entity::find()
        .filter(role::Column::MemberId.is_in(members))
        .order_by_asc(role::Column::ScopeId)
        .order_by_asc(role::Column::Role)
        .all(connection)
        .await?;
    let mut grants: HashMap<Uuid, Vec<RoleGrant>> = HashMap::new();
    for row in rows {
        grants.entry(row.member_id).or_default().push(RoleGrant::from(&row));
    }
    Ok(grants)
}

/// Returns the consortia of a member with these roles. An organization that is retired from a consortium gives no
/// access there.
pub(super) async fn standing_of(connection: &impl ConnectionTrait, grants: &[RoleGrant]) -> Result<Memberships, Error> {
    let mut own = Vec::new();
    let mut consortia: BTreeMap<ConsortiumId, Vec<OrganizationId>> = BTreeMap::new();
    let mut retired = BTreeSet::new();
    for grant in grants {
        match grant.scope {
            RoleScope::Organization(id) => own.push(id.0),
            RoleScope::Consortium(id) => {
                consortia.insert(id, Vec::new());
            }
        }
    }
    let joined = membership::Entity::find()
        .filter(membership::Column::OrganizationId.is_in(own))
        .filter(membership::Column::RetiredAt.is_null());
    for row in joined.all(connection).await? {
        consortia.insert(ConsortiumId(row.consortium_id), Vec::new());
    }
    let all = membership::Entity::find()
        .filter(membership::Column::ConsortiumId.is_in(consortia.keys().map(|id| id.0)))
        .order_by_asc(membership::Column::OrganizationId)
        .all(connection)
        .await?;
    for row in all {
        if row.retired_at.is_some() {
            retired.insert((row.consortium_id.into(), row.organization_id.into()));
        }
        consortia.entry(row.consortium_id.into()).or_default().push(row.organization_id.into());
    }
    Ok(Memberships { consortia, retired })
}

/// Notes that a member's e-mail address is confirmed.
pub(super) async fn mark_address_confirmed(ctx: &Ctx, tx: &Tx, id: MemberId) -> Result<(), Error> {
    let row = member::Entity::find_by_id(id.0).one(tx).await?.ok_or_else(|| Error::not_found("member"))?;
    let address_confirmed_at = row.address_confirmed_at.or_else(|| Some(ctx.now()));
    member::Model { address_confirmed_at, ..row }.into_active_model().reset_all().update(tx).await?;
    Ok(())
}

/// Grants a role, unless the member has it already.
pub(super) async fn grant(tx: &Tx, member: MemberId, scope: RoleScope, role: Role) -> Result<(), Error> {
    let (scope, scope_id) = ScopeKind::columns(scope);
    let row = role::Model { member_id: member.0, scope: scope.into(), scope_id, role: role.into() };
    let key = (row.member_id, row.scope, row.scope_id, row.role);
    if role::Entity::find_by_id(key).one(tx).await?.is_none() {
        row.into_active_model().insert(tx).await?;
    }
    Ok(())
}

fn to_member(row: member::Model, grants: Vec<RoleGrant>) -> Member {
    Member {
        id: row.id.into(),
        name: row.name,
        email: row.email,
        operator: row.operator,
        grants,
        created_at: row.created_at,
    }
}
