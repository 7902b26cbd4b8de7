//! A section of the log with the records behind its leaves, and the check that each record is unchanged.

use std::collections::{BTreeMap, HashMap};

use sea_orm::{ColumnTrait as _, Condition, EntityTrait as _, QueryFilter as _};
use undertone_api::log::bundle::BundleLine;
use undertone_api::log::{Frontier, LogLeaf, from_hex, leaf_hash};
use undertone_api::signed::{Countersignature, LogHead, Receipt, Signed};
use uuid::Uuid;

use super::audit::AuditPage;
use super::{BundleExtent, LineSink};
use crate::db::Tx;
use crate::error::Error;
use crate::model::{
    account, budget, countersignature, key_event, ledger_entry, log_head, log_leaf, receipt, restoration,
};
use crate::service::log::leaf;

/// The records behind some rows of the log.
pub(super) struct LeafPage {
    entries: HashMap<(Uuid, i64), ledger_entry::Model>,
    accounts: HashMap<Uuid, account::Model>,
    limits: HashMap<Uuid, budget::Model>,
    receipts: HashMap<String, receipt::Model>,
    countersignatures: HashMap<i64, countersignature::Model>,
    heads: HashMap<i64, log_head::Model>,
    restorations: HashMap<i64, restoration::Model>,
    audit: AuditPage,
    keys: HashMap<i64, key_event::Model>,
}

impl LeafPage {
    /// Reads the records behind `rows`, which are consecutive.
    pub(super) async fn read(tx: &Tx, rows: &[log_leaf::Model]) -> Result<Self, Error> {
        let (first, last) = (rows.first().map_or(0, |row| row.position), rows.last().map_or(0, |row| row.position));
        // The rows of one account in a page are consecutive too.
        let mut spans: BTreeMap<Uuid, (i64, i64)> = BTreeMap::new();
        for (id, sequence) in rows.iter().filter_map(|row| Some((row.account_id, row.sequence?))) {
            let span = spans.entry(id).or_insert((sequence, sequence));
            *span = (span.0.min(sequence), span.1.max(sequence));
        }
        let any = spans.iter().fold(Condition::any(), |any, (id, (from, to))| {
            let of = Condition::all().add(ledger_entry::Column::AccountId.eq(*id));
            any.add(of.add(ledger_entry::Column::Sequence.between(*from, *to)))
        });
        let entries =
            if spans.is_empty() { Vec::new() } else { ledger_entry::Entity::find().filter(any).all(tx).await? };
        let accounts = account::Entity::find().filter(account::Column::Id.is_in(rows.iter().map(|row| row.account_id)));
        let limits = rows.iter().filter_map(|row| row.budget_id);
        let limits = budget::Entity::find().filter(budget::Column::Id.is_in(limits));
        let receipts = entries.iter().filter_map(|row| row.receipt.clone());
        let receipts = receipt::Entity::find().filter(receipt::Column::Digest.is_in(receipts));
        let positions = countersignature::Column::Position.between(first, last);
        let countersignatures = countersignature::Entity::find().filter(positions);
        let heads = log_head::Entity::find().filter(log_head::Column::Size.between(first + 1, last + 1));
        let restorations = restoration::Column::Position.between(first, last);
        let restorations = restoration::Entity::find().filter(restorations);
        let audit = AuditPage::read(tx, first, last).await?;
        let keys = key_event::Entity::find().filter(key_event::Column::Position.between(first, last));
        Ok(Self {
            keys: keys.all(tx).await?.into_iter().map(|row| (row.position, row)).collect(),
            audit,
            accounts: accounts.all(tx).await?.into_iter().map(|row| (row.id, row)).collect(),
            limits: limits.all(tx).await?.into_iter().map(|row| (row.id, row)).collect(),
            receipts: receipts.all(tx).await?.into_iter().map(|row| (row.digest.clone(), row)).collect(),
            countersignatures: countersignatures.all(tx).await?.into_iter().map(|row| (row.position, row)).collect(),
            heads: heads.all(tx).await?.into_iter().map(|row| (row.size, row)).collect(),
            restorations: restorations.all(tx).await?.into_iter().map(|row| (row.position, row)).collect(),
            entries: entries.into_iter().map(|row| ((row.account_id, row.sequence), row)).collect(),
        })
    }

    /// Returns the lines of a row of the log, with the receipt and the head that follow it.
    pub(super) fn lines(
        &self,
        row: &log_leaf::Model,
        reach: &BundleExtent,
        frontier: &mut Frontier,
        sink: &mut impl LineSink,
    ) -> Vec<BundleLine> {
        let (name, leaf) = self.leaf(row);
        let place = format!("{name} (position {})", row.position);
        let position = row.position as u64;
        let stored = row.nodes.get(..64).and_then(from_hex);
        let Some(hash) = stored else {
            sink.report_defect(place, "its place in the log has no hash");
            return Vec::new();
        };
        if frontier.size() == position && hex::encode(frontier.push(hash).concat()) != row.nodes {
            sink.report_defect(place.clone(), "the hashes that the log keeps with it are not those of the tree");
        }
        let content = leaf.as_ref().map(LogLeaf::content);
        match &content {
            None => sink.report_defect(place.clone(), "it is missing"),
            Some(content) if leaf_hash(content.as_bytes()) != hash => {
                sink.report_defect(
                    place.clone(),
                    "it is not what was written: the row was changed, or its place in the log",
                );
            }
            Some(_) => {
                let entry_row = row.sequence.and_then(|sequence| self.entries.get(&(row.account_id, sequence)));
                if let (Some(entry_row), Some(LogLeaf::Entry(entry))) = (entry_row, &leaf)
                    && entry_row.hash != entry.hash()
                {
                    sink.report_defect(place, "the hash in its row is not that of what it says");
                }
            }
        }
        let content = content.filter(|content| leaf_hash(content.as_bytes()) == hash);
        let organization = self.accounts.get(&row.account_id).map(|account| account.organization_id);
        let organization = organization.or(self.keys.get(&row.position).map(|event| event.organization_id));
        // The statement of a restoration is disclosed to every reader.
        let disclosed = matches!(leaf, Some(LogLeaf::Restoration(_)))
            || organization.map_or(reach.organizations.is_none(), |organization| reach.discloses(organization));
        let mut lines = Vec::with_capacity(3);
        match content.filter(|_| disclosed) {
            Some(content) => {
                lines.push(BundleLine::Leaf { position, content });
                lines.extend(self.restorations.get(&row.position).map(|row| BundleLine::Restoration {
                    statement: Signed { payload: row.payload.clone(), signature: row.signature.clone() },
                }));
                lines.extend(self.audit.line(row.position));
                if let Some(LogLeaf::Entry(entry)) = &leaf {
                    lines.extend(entry.receipt.as_ref().and_then(|digest| self.receipt(row.position, digest, sink)));
                }
            }
            None => lines.push(BundleLine::Withheld { position, hash: hex::encode(hash) }),
        }
        lines.extend(self.head(row.position + 1, sink));
        lines
    }

    /// Returns the name of the record, and the leaf of its present form.
    fn leaf(&self, row: &log_leaf::Model) -> (String, Option<LogLeaf>) {
        let account = row.account_id;
        match (&*row.kind, row.sequence, row.budget_id) {
            ("entry", Some(sequence), _) => {
                let leaf = self.entries.get(&(account, sequence)).map(leaf::of_entry);
                (format!("row {sequence} of account {account}"), leaf.map(LogLeaf::Entry))
            }
            ("limit", _, Some(budget)) => {
                let name = format!("limit {budget} of account {account}");
                (name, self.limits.get(&budget).map(leaf::of_limit))
            }
            ("account", ..) => (format!("account {account}"), self.accounts.get(&account).map(leaf::of_account)),
            ("restoration", ..) => {
                let statement = self.restorations.get(&row.position).map(leaf::of_restoration);
                ("the statement of a restoration".to_owned(), statement)
            }
            ("worker_key", ..) => {
                let event = self.keys.get(&row.position).and_then(leaf::of_key_event);
                ("an event of a worker's key".to_owned(), event)
            }
            ("audit", ..) => self.audit.leaf(row.position),
            _ => (format!("a record of kind `{}`", row.kind), None),
        }
    }

    fn receipt(&self, position: i64, digest: &str, sink: &mut impl LineSink) -> Option<BundleLine> {
        let receipt = self.receipts.get(digest)?;
        let countersignature = self.countersignatures.get(&position)?;
        let signed = Signed { payload: receipt.payload.clone(), signature: receipt.signature.clone() };
        let place = || format!("receipt {} of worker {}", receipt.sequence, receipt.worker_id);
        let document: Option<Receipt> = serde_json::from_str(&signed.payload).ok();
        let columns = document.is_some_and(|document| {
            (document.worker.0, document.sequence as i64, document.job.0, document.dataset.0)
                == (receipt.worker_id, receipt.sequence, receipt.job_id, receipt.dataset_id)
                && (&*document.series, document.round as i32, document.attempt as i32)
                    == (&*receipt.series, receipt.round, receipt.attempt)
        });
        if !columns || signed.digest() != receipt.digest {
            sink.report_defect(place(), "its columns are not what it says");
        }
        let word = Signed { payload: countersignature.payload.clone(), signature: countersignature.signature.clone() };
        let document: Option<Countersignature> = serde_json::from_str(&word.payload).ok();
        let columns = document.is_some_and(|document| {
            (document.worker.0, document.sequence as i64) == (countersignature.worker_id, countersignature.sequence)
                && (document.receipt, document.position as i64) == (countersignature.receipt.clone(), position)
        });
        if !columns {
            sink.report_defect(place(), "its countersignature is not the one that its row says");
        }
        Some(BundleLine::Receipt { receipt: signed, countersignature: word })
    }

    fn head(&self, size: i64, sink: &mut impl LineSink) -> Option<BundleLine> {
        let row = self.heads.get(&size)?;
        let head = Signed { payload: row.payload.clone(), signature: row.signature.clone() };
        let document: Option<LogHead> = serde_json::from_str(&head.payload).ok();
        let columns = document.is_some_and(|document| {
            (document.size as i64, document.root, document.server) == (row.size, row.root.clone(), row.server.clone())
        });
        if !columns {
            sink.report_defect(format!("the head of {size} leaves"), "its columns are not what it says");
        }
        Some(BundleLine::Head { head })
    }
}
