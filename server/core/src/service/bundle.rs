//! The ledger in the tables, line by line: for an exported bundle, and for the examination of the database itself.
//! Reads one consistent state and writes nothing.
//!
//! `page` reads the records behind a section of the log; `unreferenced` finds rows that are not in the log. [`crate::verify`]
//! judges the content of rows; this module only checks that a row is unchanged since it was written.

mod audit;
mod page;
#[cfg(test)]
mod tests;
mod unreferenced;

use std::collections::BTreeSet;
use std::future::Future;

use ed25519_dalek::VerifyingKey;
use futures::stream::BoxStream;
use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use serde_json::json;
use time::OffsetDateTime;
use undertone_api::id::ConsortiumId;
use undertone_api::log::Frontier;
use undertone_api::log::bundle::{BundleLine, BundleScope, FORMAT, VERSION};
use undertone_api::signed::Signed;
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use uuid::Uuid;

use self::page::LeafPage;
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::{Db, Tx};
use crate::error::Error;
use crate::exchange::spool::SpoolWriter;
use crate::model::{account, job, log_head, log_leaf, membership, reservation, worker};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::site_key;
use crate::verify::file::BundleEncoder;
use crate::verify::{Examiner, Pins, Report};

/// The number of rows of a table read at once.
const PAGE: u64 = 400;

/// The destination of lines.
trait LineSink: Send {
    /// Takes the next line.
    fn line(&mut self, line: BundleLine) -> impl Future<Output = Result<(), Error>> + Send;

    /// Reports a row that differs from the one that was written.
    fn report_defect(&mut self, place: String, what: &str);
}

/// The part of the ledger that is read.
struct BundleExtent {
    scope: BundleScope,
    /// The organizations whose accounts are disclosed; absent for all.
    organizations: Option<BTreeSet<Uuid>>,
}

impl BundleExtent {
    fn discloses(&self, organization: Uuid) -> bool {
        self.organizations.as_ref().is_none_or(|all| all.contains(&organization))
    }
}

/// Examines the whole database.
///
/// # Errors
/// When the database does not answer. Defects of the ledger are in the report.
pub async fn examine(db: &Db, server_key: &VerifyingKey, pins: Pins, now: OffsetDateTime) -> Result<Report, Error> {
    let tx = db.snapshot().await?;
    let report = examine_state(&tx, server_key, pins, now).await?;
    tx.rollback().await?;
    Ok(report)
}

async fn examine_state(tx: &Tx, server_key: &VerifyingKey, pins: Pins, now: OffsetDateTime) -> Result<Report, Error> {
    struct ExaminerSink(Examiner);
    impl LineSink for ExaminerSink {
        async fn line(&mut self, line: BundleLine) -> Result<(), Error> {
            match &line {
                // The defect was reported when its row was read.
                BundleLine::Withheld { position, hash } => self.0.missing(*position, hash),
                line => self.0.line(line),
            }
            Ok(())
        }
        fn report_defect(&mut self, place: String, what: &str) {
            self.0.add_finding(place, what);
        }
    }
    let mut sink = ExaminerSink(Examiner::new(pins));
    let reach = BundleExtent { scope: BundleScope::Whole, organizations: None };
    lines(tx, server_key, &reach, now, &mut sink).await?;
    unreferenced::find(tx, &mut sink).await?;
    Ok(sink.0.finish())
}

/// Passes the bytes of a bundle of the whole ledger to `to`, piece by piece. Returns the number of changed rows: the
/// bundle contains them as withheld, so that its examination reports them.
///
/// # Errors
/// When the database does not answer, or `to` fails.
pub async fn export(
    db: &Db,
    server_key: &VerifyingKey,
    now: OffsetDateTime,
    to: impl FnMut(&[u8]) -> std::io::Result<()> + Send,
) -> Result<u64, Error> {
    struct WriterSink<W> {
        to: W,
        bytes: BundleEncoder,
        found: u64,
    }
    impl<W: FnMut(&[u8]) -> std::io::Result<()> + Send> LineSink for WriterSink<W> {
        async fn line(&mut self, line: BundleLine) -> Result<(), Error> {
            let bytes = self.bytes.encode_line(&line).map_err(|error| Error::internal("writing a bundle", error))?;
            (self.to)(&bytes).map_err(|error| Error::internal("writing a bundle", error))
        }
        fn report_defect(&mut self, _: String, _: &str) {
            self.found += 1;
        }
    }
    let tx = db.snapshot().await?;
    let mut writer = WriterSink { to, bytes: BundleEncoder::default(), found: 0 };
    let reach = BundleExtent { scope: BundleScope::Whole, organizations: None };
    lines(&tx, server_key, &reach, now, &mut writer).await?;
    tx.rollback().await?;
    let WriterSink { mut to, bytes, found } = writer;
    let end = bytes.encode_end().map_err(|error| Error::internal("writing a bundle", error))?;
    to(&end).map_err(|error| Error::internal("writing a bundle", error))?;
    Ok(found)
}

/// Returns the bytes of a consortium's bundle: the whole tree, and the leaves of the accounts that the actor may read.
///
/// # Errors
/// 404 and 403 as usual; `rate_limited` and `unavailable` when too many exports are running.
pub async fn export_consortium(
    ctx: &Ctx,
    actor: &Actor,
    id: ConsortiumId,
) -> Result<BoxStream<'static, std::io::Result<bytes::Bytes>>, Error> {
    policy::check(actor, Operation::ExportLedger, Place::Consortium(id))?;
    let members =
        membership::Entity::find().filter(membership::Column::ConsortiumId.eq(id.0)).all(ctx.db.read()).await?;
    let readable = members.into_iter().map(|row| row.organization_id).filter(|organization| {
        policy::allows(actor, Operation::ReadLedger, Place::Organization((*organization).into()))
    });
    let reach = BundleExtent { scope: BundleScope::Consortium(id), organizations: Some(readable.collect()) };
    let act = NewAuditEntry {
        by: AuditAuthor::from(actor),
        what: AuditAction::LedgerExported,
        place: Place::Consortium(id),
        subject: None,
        detail: json!({ "organizations": reach.organizations }),
    };
    // A refused export sends no data, so it has no audit entry.
    let (writer, reader) = ctx.spools().begin(actor.into(), &ctx.config.data_dir).await?;
    audit_log::note(ctx, act).await?;
    let ctx = ctx.clone();
    tokio::spawn(async move {
        if let Err(error) = write(&ctx, &reach, writer).await {
            // `into_problem` logs it, once. A bundle without its end is invalid, so its reader notices.
            let _ = error.into_problem();
        }
    });
    Ok(reader.into_stream())
}

/// Writes a bundle from one state of the tables, at the speed of the database.
async fn write(ctx: &Ctx, reach: &BundleExtent, spool: SpoolWriter) -> Result<(), Error> {
    struct SpoolSink(SpoolWriter, BundleEncoder);
    impl LineSink for SpoolSink {
        async fn line(&mut self, line: BundleLine) -> Result<(), Error> {
            let bytes = self.1.encode_line(&line).map_err(|error| Error::internal("writing a bundle", error))?;
            self.0.write(&bytes).await
        }
        fn report_defect(&mut self, place: String, what: &str) {
            tracing::error!(ledger.place = place, ledger.finding = what, "a row is not the one that was written");
        }
    }
    let tx = ctx.db.snapshot().await?;
    let mut sink = SpoolSink(spool, BundleEncoder::default());
    lines(&tx, &ctx.signer.verifying_key(), reach, ctx.now(), &mut sink).await?;
    tx.rollback().await?;
    let SpoolSink(mut spool, bytes) = sink;
    let end = bytes.encode_end().map_err(|error| Error::internal("writing a bundle", error))?;
    spool.write(&end).await?;
    spool.finish().await
}

/// Writes all lines except the last.
async fn lines(
    tx: &Tx,
    server_key: &VerifyingKey,
    reach: &BundleExtent,
    now: OffsetDateTime,
    sink: &mut impl LineSink,
) -> Result<(), Error> {
    sink.line(BundleLine::Bundle {
        format: FORMAT.to_owned(),
        version: VERSION,
        server_key: hex::encode(server_key.as_bytes()),
        evaluator: EVALUATOR_VERSION.to_owned(),
        scope: reach.scope,
        exported_at: now,
    })
    .await?;
    for row in worker::Entity::find().order_by_asc(worker::Column::Id).all(tx).await? {
        if reach.discloses(row.organization_id) {
            let (worker, organization) = (row.id.into(), row.organization_id.into());
            let rotations = site_key::rotations(tx, row.id).await?;
            sink.line(BundleLine::Worker { worker, organization, public_key: row.public_key, rotations }).await?;
        }
    }
    manifests(tx, reach, sink).await?;
    log(tx, reach, sink).await?;
    claims(tx, reach, sink).await
}

async fn manifests(tx: &Tx, reach: &BundleExtent, sink: &mut impl LineSink) -> Result<(), Error> {
    let mut after = Uuid::nil();
    loop {
        let mut rows = job::Entity::find().filter(job::Column::Id.gt(after));
        if let BundleScope::Consortium(id) = reach.scope {
            rows = rows.filter(job::Column::ConsortiumId.eq(id.0));
        }
        let rows = rows.order_by_asc(job::Column::Id).limit(PAGE).all(tx).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.id;
        for row in rows {
            let manifest = Signed { payload: row.manifest, signature: row.signature };
            if manifest.digest() != row.digest {
                sink.report_defect(format!("job {}", row.id), "its manifest is not the one that its digest names");
            }
            sink.line(BundleLine::Manifest { manifest }).await?;
        }
    }
}

async fn log(tx: &Tx, reach: &BundleExtent, sink: &mut impl LineSink) -> Result<(), Error> {
    let (mut next, mut frontier) = (0, Frontier::default());
    loop {
        let rows = log_leaf::Entity::find()
            .filter(log_leaf::Column::Position.gte(next))
            .order_by_asc(log_leaf::Column::Position)
            .limit(PAGE)
            .all(tx)
            .await?;
        let Some(last) = rows.last() else { break };
        next = last.position + 1;
        let page = LeafPage::read(tx, &rows).await?;
        for row in &rows {
            for line in page.lines(row, reach, &mut frontier, sink) {
                sink.line(line).await?;
            }
        }
    }
    let beyond = log_head::Entity::find().filter(log_head::Column::Size.gt(next)).order_by_asc(log_head::Column::Size);
    if let Some(head) = beyond.one(tx).await? {
        let place = format!("position {next}");
        sink.report_defect(
            place,
            &format!("a signed head covers {} leaves, but the log ends here: its end is missing", head.size),
        );
    }
    Ok(())
}

async fn claims(tx: &Tx, reach: &BundleExtent, sink: &mut impl LineSink) -> Result<(), Error> {
    let mut disclosed = BTreeSet::new();
    let mut after = Uuid::nil();
    loop {
        let rows = account::Entity::find().filter(account::Column::Id.gt(after)).order_by_asc(account::Column::Id);
        let rows = rows.limit(PAGE).all(tx).await?;
        let Some(last) = rows.last() else { break };
        after = last.id;
        for row in rows.into_iter().filter(|row| reach.discloses(row.organization_id)) {
            disclosed.insert(row.id);
            let Ok(balance) = row.balance() else {
                sink.report_defect(format!("account {}", row.id), "its balance cannot be read");
                continue;
            };
            sink.line(BundleLine::Account {
                account: row.id,
                balance: Box::new(balance),
                in_the_clear: row.in_the_clear as u64,
                entries: row.entries as u64,
                head: row.head,
            })
            .await?;
        }
    }
    let mut after = Uuid::nil();
    loop {
        let rows = reservation::Entity::find().filter(reservation::Column::Id.gt(after));
        let rows = rows.order_by_asc(reservation::Column::Id).limit(PAGE).all(tx).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.id;
        for row in rows.into_iter().filter(|row| disclosed.contains(&row.account_id)) {
            let Ok(per_release) = row.per_release() else {
                sink.report_defect(format!("reservation {}", row.id), "its price cannot be read");
                continue;
            };
            sink.line(BundleLine::Reservation {
                account: row.account_id,
                job: row.job_id,
                dataset: row.dataset_id,
                event: row.event,
                per_release: Box::new(per_release),
                releases: row.releases as u64,
                committed: row.committed as u64,
                settled: row.settled,
            })
            .await?;
        }
    }
}
