//! The audit log: who did what, where and when. An operation that changes something calls `record` in the transaction
//! that changes it, so that the entry and the change stand or fall together.
//!
//! Each place has a log of its own, numbered without gaps, in a chain of hashes (see `undertone_api::audit_log`). Never put
//! a secret, an e-mail address, a text of the data or a file name of a recording into `detail`. To log one more thing: a
//! word in `What`, and the call.

mod read;
#[cfg(test)]
mod tests;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use serde_json::{Value, json};
use undertone_api::audit_log::{AuditEntry, Author, Hand, Subject, Where, origin};
use undertone_api::id::{MemberId, WorkerId};
use uuid::Uuid;

use crate::auth::{Actor, Place};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::service::code::{to_json, word};
use crate::service::entity::audit_log;

pub(crate) use read::harmless;
pub use read::{Export, Format, check, export, list};
pub(crate) use undertone_api::audit_log::What;

/// Most bytes of JSON that an entry's detail has; of a longer one only its length is kept.
const LONGEST_DETAIL: usize = 8192;

/// Who does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A signed-in member.
    Member(MemberId),
    /// A worker.
    Worker(WorkerId),
    /// A program with the API key of this id.
    Key(Uuid),
    /// Somebody at the server's terminal.
    Operator,
    /// Somebody who has not signed in.
    Nobody,
    /// The server itself.
    System,
}

impl From<&Actor> for By {
    fn from(actor: &Actor) -> Self {
        actor.key().map_or(Self::Member(actor.id()), |key| Self::Key(key.0))
    }
}

/// Something that is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Act<'a> {
    /// By whom.
    pub(crate) by: By,
    /// What.
    pub(crate) what: What,
    /// In which place's log it stands.
    pub(crate) place: Place,
    /// To what: its kind, a noun, and its id.
    pub(crate) subject: Option<(&'a str, String)>,
    /// More of it: small, and never a secret or an e-mail address.
    pub(crate) detail: Value,
}

/// Writes an entry.
///
/// # Errors
/// When the database fails.
pub(crate) async fn record(ctx: &Ctx, tx: &Tx, act: Act<'_>) -> Result<(), Error> {
    let place = place_of(act.place);
    let last = last(tx, place).await?;
    let (hand, id) = match act.by {
        By::Member(id) => (Hand::Member, Some(id.0)),
        By::Worker(id) => (Hand::Worker, Some(id.0)),
        By::Key(id) => (Hand::Key, Some(id)),
        By::Operator => (Hand::Operator, None),
        By::Nobody => (Hand::Nobody, None),
        By::System => (Hand::System, None),
    };
    let mut entry = AuditEntry {
        place,
        number: last.as_ref().map_or(1, |row| row.number as u64 + 1),
        at: ctx.now(),
        by: Author { hand, id, name: None },
        what: act.what,
        subject: act.subject.map(|(kind, id)| Subject { kind: kind.to_owned(), id }),
        detail: act.detail,
        previous: last.map_or_else(origin, |row| row.hash),
        hash: String::new(),
    };
    let length = to_json(&entry.detail)?.len();
    if length > LONGEST_DETAIL {
        entry.detail = json!({ "omitted_bytes": length });
    }
    entry.hash = entry.digest();
    row(entry)?.into_active_model().insert(tx).await?;
    Ok(())
}

/// Writes an entry about something that leaves the server and changes nothing in it.
///
/// # Errors
/// When the database fails: then nothing should leave.
pub(crate) async fn note(ctx: &Ctx, act: Act<'_>) -> Result<(), Error> {
    ctx.db.write("note in the audit log", async |tx| record(ctx, tx, act.clone()).await).await
}

/// The place of a log.
const fn place_of(place: Place) -> Where {
    match place {
        Place::Server => Where::Server,
        Place::Consortium(id) => Where::Consortium(id),
        Place::Organization(id) => Where::Organization(id),
    }
}

async fn last(connection: &impl ConnectionTrait, place: Where) -> Result<Option<audit_log::Model>, Error> {
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
        by_hand: word(&entry.by.hand)?,
        by_id: entry.by.id,
        what: word(&entry.what)?,
        subject_kind,
        subject_id,
        detail: to_json(&entry.detail)?,
        previous: entry.previous,
        hash: entry.hash,
    })
}
