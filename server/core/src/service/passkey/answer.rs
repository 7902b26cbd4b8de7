//! Verifies passkey assertions, and accepts each once.

use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use serde_json::json;
use undertone_api::id::{MemberId, SessionId};
use undertone_api::passkey::PasskeyAssertion;
use undertone_api::problem::Code;
use undertone_api::signed::webauthn::{AssertionParts, PasskeyPublicKey, verify_assertion};
use uuid::Uuid;

use crate::auth::Place;
use crate::auth::passkey::{PasskeyPurpose, PasskeyTicket, challenge_of, user_handle};
use crate::ctx::{Ctx, fingerprint};
use crate::db::Tx;
use crate::error::Error;
use crate::model::{passkey, passkey_answer};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::credential::{self, CredentialChange};

/// An assertion with a valid signature. It proves nothing until it is [spent](Self::spend).
pub(in crate::service) struct VerifiedPasskey {
    /// The owner of the passkey.
    pub(in crate::service) member: MemberId,
    ticket: PasskeyTicket,
    passkey: Uuid,
    counter: u32,
}

/// Verifies a passkey assertion for a use, by `member` if known. Nothing is written.
///
/// # Errors
/// `wrong_passkey`; only the log names the failed check.
pub(in crate::service) async fn verify(
    ctx: &Ctx,
    purpose: PasskeyPurpose,
    member: Option<MemberId>,
    assertion: &PasskeyAssertion,
) -> Result<VerifiedPasskey, Error> {
    let place = super::place(ctx)?;
    if !assertion.is_bounded() {
        return Err(refused("the answer is too long"));
    }
    let ticket = PasskeyTicket::open(&assertion.ticket, &ctx.keys.token(), ctx.now())
        .filter(|ticket| ticket.purpose == purpose && ticket.member == member)
        .ok_or_else(|| refused("the ticket is over, or for another use"))?;
    let hash = fingerprint(&assertion.credential.to_ascii_lowercase());
    let row = passkey::Entity::find().filter(passkey::Column::CredentialHash.eq(hash)).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| refused("the credential is not registered"))?;
    let owner = MemberId(row.member_id);
    let handle = assertion.user_handle.to_ascii_lowercase();
    // For sign-in by a passkey alone, the authenticator names the member; otherwise it may omit the handle.
    let handle_fits = handle == user_handle(owner) || (handle.is_empty() && member.is_some());
    if member.is_some_and(|member| member != owner) || !handle_fits {
        return Err(refused("the passkey is of another account"));
    }
    let key = PasskeyPublicKey {
        algorithm: *row.algorithm,
        public_key: &row.public_key,
        relying_party: &place.relying_party,
        origin: &place.origin,
    };
    let parts = AssertionParts {
        client_data: &assertion.client_data,
        authenticator_data: &assertion.authenticator_data,
        signature: &assertion.signature,
    };
    let counter =
        verify_assertion(&key, &challenge_of(&assertion.ticket), parts).map_err(|error| refused(&error.to_string()))?;
    Ok(VerifiedPasskey { member: owner, ticket, passkey: row.id, counter })
}

impl VerifiedPasskey {
    /// Returns whether the caller's session requested the challenge.
    pub(in crate::service) fn is_of_session(&self, session: Option<SessionId>) -> bool {
        self.ticket.session == session
    }

    /// Uses up the answer. The inner error is a refusal, whose notes must be committed.
    ///
    /// # Errors
    /// When the database fails.
    pub(in crate::service) async fn spend(&self, ctx: &Ctx, tx: &Tx) -> Result<Result<(), Error>, Error> {
        let row = passkey::Entity::find_by_id(self.passkey).one(tx).await?;
        let Some(row) = row else { return Ok(Err(refused("the passkey was removed"))) };
        if !note_answer(ctx, tx, &self.ticket).await? {
            return Ok(Err(refused("the challenge was answered before")));
        }
        let counter = i64::from(self.counter);
        // Passkeys that are synchronized between devices leave the counter at 0.
        if counter <= row.counter && (counter, row.counter) != (0, 0) {
            note_old_counter(ctx, tx, &row).await?;
            return Ok(Err(refused("the signature counter did not grow: the passkey may have been copied")));
        }
        let row = passkey::Model { counter, last_used_at: Some(ctx.now()), ..row };
        row.into_active_model().reset_all().update(tx).await?;
        Ok(Ok(()))
    }
}

/// Notes that a challenge was answered; returns whether it is the first answer. Deletes expired challenges.
pub(super) async fn note_answer(ctx: &Ctx, tx: &Tx, ticket: &PasskeyTicket) -> Result<bool, Error> {
    passkey_answer::Entity::delete_many().filter(passkey_answer::Column::ExpiresAt.lte(ctx.now())).exec(tx).await?;
    let row = passkey_answer::Model { nonce: ticket.nonce.clone(), expires_at: ticket.expires_at() };
    let conflict = OnConflict::column(passkey_answer::Column::Nonce).do_nothing().to_owned();
    let rows = passkey_answer::Entity::insert(row.into_active_model())
        .on_conflict(conflict)
        .exec_without_returning(tx)
        .await?;
    Ok(rows > 0)
}

async fn note_old_counter(ctx: &Ctx, tx: &Tx, row: &passkey::Model) -> Result<(), Error> {
    let act = NewAuditEntry {
        by: AuditAuthor::Nobody,
        what: AuditAction::PasskeyRefused,
        place: Place::Server,
        subject: Some(("passkey", row.id.to_string())),
        detail: json!({}),
    };
    audit_log::record(ctx, tx, act).await?;
    let change = CredentialChange::PasskeyCopied { label: &row.label };
    credential::announce(ctx, tx, MemberId(row.member_id), change).await
}

fn refused(reason: &str) -> Error {
    tracing::info!(reason, "a passkey was not accepted");
    Error::problem(
        Code::WrongPasskey,
        "use a passkey that is registered for this account, within five minutes; or begin again",
    )
}
