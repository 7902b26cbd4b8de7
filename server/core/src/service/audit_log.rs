//! The audit log: the author, action, scope and time of each change. An operation calls `record` in the transaction of
//! its change, so that both commit or roll back together.
//!
//! Each place has a log of its own, numbered without gaps, in a chain of hashes (see `undertone_api::audit_log`). Never
//! put a secret, an e-mail address, a text of the data or a file name of a recording into `detail`. To log one more
//! action: a variant in `AuditAction`, and the call.

mod read;
mod seal;
#[cfg(test)]
mod tests;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use serde_json::{Value, json};
use time::OffsetDateTime;
use undertone_api::audit_log::{ActorKind, AuditActor, AuditEntry, AuditPlace, AuditSubject, origin};
use undertone_api::id::{ConsortiumId, MemberId, WorkerId};
use uuid::Uuid;

use crate::auth::{Actor, Place};
use crate::ctx::Ctx;
use crate::db::{Db, Tx};
use crate::error::Error;
use crate::model::column::{ColumnEnum as _, to_json};
use crate::model::{audit_log, audit_pending, job};

pub use read::{AuditLogExport, AuditLogFormat, check, export, list};
pub(crate) use read::{check_chain, content_of, harmless, list_subject};
pub use seal::AT_ONCE;
pub use seal::seal;
pub use undertone_api::audit_log::AuditAction;

/// The limit of an entry's detail in bytes of JSON; a longer detail is replaced by its length.
const LONGEST_DETAIL: usize = 8192;

/// The author of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditAuthor {
    /// A signed-in member.
    Member(MemberId),
    /// A worker.
    Worker(WorkerId),
    /// A program with the API key of this id.
    Key(Uuid),
    /// A user at the server's terminal.
    Operator,
    /// A caller without a session.
    Nobody,
    /// The server itself.
    System,
}

impl From<&Actor> for AuditAuthor {
    fn from(actor: &Actor) -> Self {
        actor.key().map_or(Self::Member(actor.id()), |key| Self::Key(key.0))
    }
}

/// An action.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAuditEntry<'a> {
    /// The author.
    pub by: AuditAuthor,
    /// The kind of action.
    pub what: AuditAction,
    /// The place whose log contains the entry.
    pub place: Place,
    /// The object: its kind, a noun, and its id.
    pub subject: Option<(&'a str, String)>,
    /// Further details: small, and never a secret or an e-mail address.
    pub detail: Value,
}

/// Writes an entry.
///
/// # Errors
/// When the database fails.
pub(crate) async fn record(ctx: &Ctx, tx: &Tx, act: NewAuditEntry<'_>) -> Result<(), Error> {
    record_at(tx, ctx.now(), act).await
}

/// Writes an entry with the time `now`: for commands, which have a database and no server.
///
/// # Errors
/// When the database fails.
pub(crate) async fn record_at(tx: &Tx, now: OffsetDateTime, act: NewAuditEntry<'_>) -> Result<(), Error> {
    let place = place_of(act.place);
    let last = last(tx, place).await?;
    let (hand, id) = match act.by {
        AuditAuthor::Member(id) => (ActorKind::Member, Some(id.0)),
        AuditAuthor::Worker(id) => (ActorKind::Worker, Some(id.0)),
        AuditAuthor::Key(id) => (ActorKind::Key, Some(id)),
        AuditAuthor::Operator => (ActorKind::Operator, None),
        AuditAuthor::Nobody => (ActorKind::Nobody, None),
        AuditAuthor::System => (ActorKind::System, None),
    };
    let mut entry = AuditEntry {
        place,
        number: last.as_ref().map_or(1, |row| row.number as u64 + 1),
        at: now,
        by: AuditActor { hand, id, name: None },
        what: act.what,
        subject: act.subject.map(|(kind, id)| AuditSubject { kind: kind.to_owned(), id }),
        detail: act.detail,
        previous: last.map_or_else(origin, |row| row.hash),
        hash: String::new(),
    };
    let length = to_json(&entry.detail)?.len();
    if length > LONGEST_DETAIL {
        entry.detail = json!({ "omitted_bytes": length });
    }
    entry.hash = entry.digest();
    let row = row(entry)?.into_active_model().insert(tx).await?;
    let pending = audit_pending::Model { place: row.place, place_id: row.place_id, number: row.number };
    audit_pending::Entity::insert(pending.into_active_model()).exec_without_returning(tx).await?;
    Ok(())
}

/// Writes an entry about a disclosure by the server that changes no data.
///
/// # Errors
/// When the database fails: then nothing should be disclosed.
pub(crate) async fn note(ctx: &Ctx, act: NewAuditEntry<'_>) -> Result<(), Error> {
    ctx.db.write("note in the audit log", async |tx| record(ctx, tx, act.clone()).await).await
}

/// Writes that a document of a job was downloaded.
///
/// # Errors
/// When the database fails: then it should not be sent.
pub(crate) async fn note_taken(ctx: &Ctx, actor: &Actor, what: AuditAction, job: &job::Model) -> Result<(), Error> {
    let act = NewAuditEntry {
        by: AuditAuthor::from(actor),
        what,
        place: Place::Consortium(ConsortiumId(job.consortium_id)),
        subject: Some(("job", job.id.to_string())),
        detail: json!({}),
    };
    note(ctx, act).await
}

/// Writes that a command at the terminal acted on the whole server.
///
/// # Errors
/// When the database fails.
pub async fn note_command(db: &Db, now: OffsetDateTime, what: AuditAction, detail: Value) -> Result<(), Error> {
    let act = NewAuditEntry { by: AuditAuthor::Operator, what, place: Place::Server, subject: None, detail };
    db.write("note a command", async |tx| record_at(tx, now, act.clone()).await).await
}

/// Writes an entry when the server's certificate differs from that of the newest entry, or when there is no entry.
///
/// # Errors
/// When the database fails.
pub(crate) async fn note_certificate(ctx: &Ctx, fingerprint: &str) -> Result<(), Error> {
    ctx.db
        .write("note certificate", async |tx| {
            let newest = audit_log::Entity::find()
                .filter(audit_log::Column::Place.eq(AuditPlace::Server.parts().0))
                .filter(audit_log::Column::What.eq(AuditAction::CertificateRenewed.word()))
                .order_by_desc(audit_log::Column::Number)
                .one(tx)
                .await?;
            let detail = json!({ "fingerprint": fingerprint });
            if newest.is_some_and(|row| row.detail().is_ok_and(|known| known == detail)) {
                return Ok(());
            }
            let act = NewAuditEntry {
                by: AuditAuthor::System,
                what: AuditAction::CertificateRenewed,
                place: Place::Server,
                subject: None,
                detail,
            };
            record(ctx, tx, act).await
        })
        .await
}

/// Returns the number of entries of one kind.
///
/// # Panics
/// When the database fails, or a permit is missing: it is for tests.
#[cfg(any(test, feature = "testing"))]
pub async fn count(db: &Db, what: AuditAction) -> u64 {
    use sea_orm::PaginatorTrait as _;

    let entries = audit_log::Entity::find().filter(audit_log::Column::What.eq(what.word()));
    entries.count(db.read()).await.expect("the tables can be read")
}

/// Returns the place of a log.
const fn place_of(place: Place) -> AuditPlace {
    match place {
        Place::Server => AuditPlace::Server,
        Place::Consortium(id) => AuditPlace::Consortium(id),
        Place::Organization(id) => AuditPlace::Organization(id),
    }
}

async fn last(connection: &impl ConnectionTrait, place: AuditPlace) -> Result<Option<audit_log::Model>, Error> {
    let (kind, id) = place.parts();
    Ok(audit_log::Entity::find()
        .filter(audit_log::Column::Place.eq(kind))
        .filter(audit_log::Column::PlaceId.eq(id))
        .order_by_desc(audit_log::Column::Number)
        .one(connection)
        .await?)
}

fn row(entry: AuditEntry) -> Result<audit_log::Model, Error> {
    let (place, place_id) = entry.place.parts();
    let (subject_kind, subject_id) = entry.subject.map(|subject| (subject.kind, subject.id)).unzip();
    Ok(audit_log::Model {
        place: place.to_owned(),
        place_id,
        number: entry.number as i64,
        at: entry.at,
        by_hand: entry.by.hand.to_text(),
        by_id: entry.by.id,
        what: entry.what.to_text(),
        subject_kind,
        subject_id,
        detail: to_json(&entry.detail)?,
        previous: entry.previous,
        hash: entry.hash,
    })
}
