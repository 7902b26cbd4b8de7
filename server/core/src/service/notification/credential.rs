//! Announces changes of a member's credentials: to the member, to the admins of their organizations and, for a steward,
//! to the sites, which log them. A thief of an account cannot suppress this: the kind cannot be switched off.
//!
//! To announce another change: a variant of [`CredentialChange`] with its words, and the call in the change's
//! transaction.

use std::collections::BTreeMap;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _,
};
use time::OffsetDateTime;
use undertone_api::id::{MemberId, WorkerId};
use undertone_api::member::Role;
use undertone_api::problem::Violation;
use uuid::Uuid;

use super::{MemberNotice, tell};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::role::ScopeKind;
use crate::model::{credential_notice, member, role, worker};

/// The highest number of notices sent to a site at a time; it asks for the next ones.
pub const MOST_NOTICES: u64 = 100;

/// A change of a steward's credentials, for a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialNotice {
    /// Id; later notices have greater ones.
    pub id: Uuid,
    /// The change, a sentence.
    pub text: String,
    /// The time.
    pub at: OffsetDateTime,
}

/// A change of a member's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialChange<'a> {
    /// An operator made a link that sets a new password.
    ResetLinkMade {
        /// Whether it removes the second factor as well.
        clears_second_factor: bool,
    },
    /// The password was set by such a link.
    PasswordReset {
        /// Whether the second factor was removed.
        clears_second_factor: bool,
    },
    /// The member changed the password.
    PasswordChanged {
        /// The number of API keys that were revoked with it.
        keys_revoked: u64,
    },
    /// The member signed in, or proved their identity, with a recovery code.
    RecoveryCodeUsed,
    /// The member switched a second factor on, by an authenticator that shows codes.
    SecondFactorOn,
    /// The member switched the second factor off.
    SecondFactorOff,
    /// The member made new recovery codes.
    RecoveryCodesMade,
    /// The member linked an identity at a provider.
    ProviderLinked {
        /// The provider.
        issuer: &'a str,
    },
    /// The member unlinked an identity at a provider.
    ProviderUnlinked {
        /// The provider.
        issuer: &'a str,
    },
    /// The member registered a passkey.
    PasskeyAdded {
        /// Its name.
        label: &'a str,
    },
    /// The member removed a passkey.
    PasskeyRemoved {
        /// Its name.
        label: &'a str,
    },
    /// A passkey answered with a signature counter that had not grown.
    PasskeyCopied {
        /// Its name.
        label: &'a str,
    },
    /// The member listed an approval key.
    ApprovalKeyAdded {
        /// Its fingerprint.
        fingerprint: &'a str,
    },
    /// The member took an approval key off the list.
    ApprovalKeyRemoved {
        /// Its fingerprint.
        fingerprint: &'a str,
    },
}

impl CredentialChange<'_> {
    /// Returns the change of the account of `name`, as a sentence.
    fn words(self, name: &str) -> String {
        match self {
            Self::ResetLinkMade { clears_second_factor: false } => {
                format!("An operator of the server made a link that resets the password of {name}.")
            }
            Self::ResetLinkMade { clears_second_factor: true } => format!(
                "An operator of the server made a link that resets the password of {name} and takes the second factor away."
            ),
            Self::PasswordReset { clears_second_factor: false } => {
                format!("The password of {name} was reset by an operator's link.")
            }
            Self::PasswordReset { clears_second_factor: true } => {
                format!("The password of {name} was reset by an operator's link, and the second factor was taken away.")
            }
            Self::PasswordChanged { keys_revoked } => {
                format!("{name} changed the password; API keys revoked: {keys_revoked}.")
            }
            Self::RecoveryCodeUsed => format!("A recovery code of {name} was used in place of the second factor."),
            Self::SecondFactorOn => {
                format!("The second factor of {name} was switched on, with an authenticator that shows codes.")
            }
            Self::SecondFactorOff => format!("The second factor of {name} was switched off."),
            Self::RecoveryCodesMade => format!(
                "New recovery codes of {name} were made. Each takes the place of the second factor once; the codes before count no more."
            ),
            Self::ProviderLinked { issuer } => {
                format!("{name} linked an identity at {issuer}. It signs in to the account until {name} unlinks it.")
            }
            Self::ProviderUnlinked { issuer } => {
                format!("{name} unlinked the identity at {issuer}. It signs in to the account no more.")
            }
            Self::PasskeyAdded { label } => {
                format!("{name} registered the passkey “{label}”. It signs in to the account until {name} removes it.")
            }
            Self::PasskeyRemoved { label } => format!("{name} removed the passkey “{label}”."),
            Self::PasskeyCopied { label } => format!(
                "The passkey “{label}” of {name} was refused: its signature counter did not grow, so a copy of it may be in use. Remove it."
            ),
            Self::ApprovalKeyAdded { fingerprint } => format!(
                "{name} listed the approval key {fingerprint}. It counts at a site only once the site's operator pins it."
            ),
            Self::ApprovalKeyRemoved { fingerprint } => format!(
                "{name} took the approval key {fingerprint} off the list. Sites that pin it accept it until their operators remove it."
            ),
        }
    }
}

/// Announces a change of a member's credentials, in the transaction of the change.
///
/// # Errors
/// When the database fails.
pub(crate) async fn announce(ctx: &Ctx, tx: &Tx, member: MemberId, change: CredentialChange<'_>) -> Result<(), Error> {
    let Some(person) = member::Entity::find_by_id(member.0).one(tx).await? else { return Ok(()) };
    let text = change.words(&person.name);
    let grants = role::Entity::find()
        .filter(role::Column::MemberId.eq(member.0))
        .filter(role::Column::Scope.eq(ScopeKind::Organization.to_text()))
        .all(tx)
        .await?;
    let mut organizations: BTreeMap<Uuid, bool> = BTreeMap::new();
    for grant in grants {
        *organizations.entry(grant.scope_id).or_default() |= grant.role == Role::DataSteward;
    }
    let admins: Vec<Uuid> = organizations.keys().copied().collect();
    let notice =
        MemberNotice::CredentialsChanged { id: ctx.id::<Uuid>(), member: member.0, admins: &admins, text: &text };
    tell(ctx, tx, notice).await?;
    for organization in organizations.into_iter().filter(|(_, is_steward)| *is_steward).map(|(id, _)| id) {
        let row = credential_notice::Model {
            id: next_id(ctx, tx).await?,
            organization_id: organization,
            member_id: member.0,
            text: text.clone(),
            at: ctx.now(),
        };
        row.into_active_model().insert(tx).await?;
    }
    Ok(())
}

/// Returns an id that is greater than those of all notices. A site asks for the notices after its last one, and the ids
/// of one millisecond, or of servers with different clocks, are in no order by themselves. Writing transactions run one
/// at a time, so no notice with a smaller id is committed later.
async fn next_id(ctx: &Ctx, tx: &Tx) -> Result<Uuid, Error> {
    let newest = credential_notice::Entity::find().order_by_desc(credential_notice::Column::Id).one(tx).await?;
    let id = ctx.id::<Uuid>();
    Ok(newest.map_or(id, |newest| id.max(Uuid::from_u128(newest.id.as_u128().saturating_add(1)))))
}

/// Returns the notices for a worker's site after the one with the id `after`, oldest first, at most 100.
///
/// # Errors
/// 404 for an unknown worker, `validation_failed` for an `after` that is not an id.
pub async fn notices_after(ctx: &Ctx, worker: WorkerId, after: &str) -> Result<Vec<CredentialNotice>, Error> {
    let site = worker::Entity::find_by_id(worker.0).one(ctx.db.read()).await?;
    let site = site.ok_or_else(|| Error::not_found("worker"))?;
    let mut query = credential_notice::Entity::find()
        .filter(credential_notice::Column::OrganizationId.eq(site.organization_id))
        .order_by_asc(credential_notice::Column::Id)
        .limit(MOST_NOTICES);
    if !after.is_empty() {
        let wrong = |_| Error::validation(vec![Violation::new("after", "give the id of the last notice")]);
        query = query.filter(credential_notice::Column::Id.gt(Uuid::parse_str(after).map_err(wrong)?));
    }
    let rows = query.all(ctx.db.read()).await?;
    Ok(rows.into_iter().map(|row| CredentialNotice { id: row.id, text: row.text, at: row.at }).collect())
}
