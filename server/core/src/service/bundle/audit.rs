//! The audit entries behind a section of the log.

use std::collections::{BTreeMap, HashMap};

use sea_orm::{ColumnTrait as _, Condition, EntityTrait as _, QueryFilter as _};
use undertone_api::log::LogLeaf;
use undertone_api::log::bundle::BundleLine;
use undertone_api::log::leaf::AuditRecord;
use uuid::Uuid;

use crate::db::Tx;
use crate::error::Error;
use crate::model::{audit_log, audit_seal};
use crate::service::audit_log::content_of;

/// Returns the leaf of an entry in its present form; `None` when the entry cannot be read.
fn leaf_of(seal: &audit_seal::Model, row: &audit_log::Model) -> Option<LogLeaf> {
    let salt = hex::decode(&seal.salt).ok()?;
    let digest = AuditRecord::commit(&salt, &content_of(row.clone()).ok()?);
    Some(LogLeaf::Audit(AuditRecord::new(&seal.place, seal.place_id, seal.number, &digest)))
}

/// An entry's log and its number there.
type EntryKey = (String, Uuid, i64);

/// Seals by position, with their entries.
#[derive(Default)]
pub(super) struct AuditPage {
    seals: HashMap<i64, audit_seal::Model>,
    entries: HashMap<EntryKey, audit_log::Model>,
}

impl AuditPage {
    /// Reads the seals from position `first` to `last`, with their entries.
    pub(super) async fn read(tx: &Tx, first: i64, last: i64) -> Result<Self, Error> {
        let seals =
            audit_seal::Entity::find().filter(audit_seal::Column::Position.between(first, last)).all(tx).await?;
        if seals.is_empty() {
            return Ok(Self::default());
        }
        // The entries of one log in a section have consecutive numbers.
        let mut spans: BTreeMap<(&str, Uuid), (i64, i64)> = BTreeMap::new();
        for seal in &seals {
            let span = spans.entry((&seal.place, seal.place_id)).or_insert((seal.number, seal.number));
            *span = (span.0.min(seal.number), span.1.max(seal.number));
        }
        let any = spans.into_iter().fold(Condition::any(), |any, ((place, id), (from, to))| {
            let of = Condition::all().add(audit_log::Column::Place.eq(place)).add(audit_log::Column::PlaceId.eq(id));
            any.add(of.add(audit_log::Column::Number.between(from, to)))
        });
        let entries = audit_log::Entity::find().filter(any).all(tx).await?;
        Ok(Self {
            entries: entries.into_iter().map(|row| ((row.place.clone(), row.place_id, row.number), row)).collect(),
            seals: seals.into_iter().map(|row| (row.position, row)).collect(),
        })
    }

    /// Returns the name of the entry at a position, and the leaf of its present form.
    pub(super) fn leaf(&self, position: i64) -> (String, Option<LogLeaf>) {
        let Some(seal) = self.seals.get(&position) else { return ("an audit entry".to_owned(), None) };
        let place =
            if seal.place == "server" { "the server".to_owned() } else { format!("{} {}", seal.place, seal.place_id) };
        let name = format!("entry {} of the audit log of {place}", seal.number);
        (name, self.entry(seal).and_then(|row| leaf_of(seal, row)))
    }

    /// Returns the line that follows the leaf at a position.
    pub(super) fn line(&self, position: i64) -> Option<BundleLine> {
        let seal = self.seals.get(&position)?;
        let content = content_of(self.entry(seal)?.clone()).ok()?;
        Some(BundleLine::Audit { salt: seal.salt.clone(), content })
    }

    fn entry(&self, seal: &audit_seal::Model) -> Option<&audit_log::Model> {
        self.entries.get(&(seal.place.clone(), seal.place_id, seal.number))
    }
}
