//! The evidence of a certificate: read from immutable rows, up to the end of the certificate.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use undertone_api::log::proof::{assemble, inclusion_path};
use undertone_api::log::witness::MOST_RECEIPTS;
use undertone_api::signed::certificate::{
    Certificate, CertificateEvidence, CertificateParty, LoggedReceipt, ProvenReceipt,
};
use undertone_api::signed::{LogHead, Signed};

use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{job, receipt};
use crate::service::{log, witness};

/// Returns the evidence of a certificate.
pub(super) async fn load_evidence(
    ctx: &Ctx,
    job: job::Model,
    certificate: &Certificate,
) -> Result<CertificateEvidence, Error> {
    let head: Option<LogHead> = match &certificate.head {
        Some(head) => {
            let opened = head.open(&ctx.signer.verifying_key());
            Some(opened.map_err(|error| Error::internal("opening a certificate's head", error))?)
        }
        None => None,
    };
    let mut receipts = Vec::new();
    for party in &certificate.parties {
        receipts.extend(prove_receipts(ctx, &job, party, head.as_ref()).await?);
    }
    Ok(CertificateEvidence { manifest: Signed { payload: job.manifest, signature: job.signature }, receipts })
}

/// Returns a party's receipts with their places in the log, oldest first.
async fn prove_receipts(
    ctx: &Ctx,
    job: &job::Model,
    party: &CertificateParty,
    head: Option<&LogHead>,
) -> Result<Vec<ProvenReceipt>, Error> {
    let Some(last) = party.charged.as_ref().and_then(|charged| charged.receipts.last) else { return Ok(Vec::new()) };
    let rows = receipt::Entity::find()
        .filter(receipt::Column::WorkerId.eq(party.worker.0))
        .filter(receipt::Column::JobId.eq(job.id))
        .filter(receipt::Column::DatasetId.eq(party.dataset.0))
        .filter(receipt::Column::Sequence.lte(last as i64))
        .order_by_asc(receipt::Column::Sequence)
        .all(ctx.db.read())
        .await?;
    let mut receipts = Vec::with_capacity(rows.len());
    for some in rows.chunks(MOST_RECEIPTS) {
        let numbers: Vec<u64> = some.iter().map(|row| row.sequence as u64).collect();
        let mut logged = match head {
            Some(head) => locate_receipts(ctx, party, &numbers, head.size).await?,
            None => Vec::new(),
        };
        for row in some {
            let at = logged.iter().position(|(sequence, _)| *sequence == row.sequence);
            receipts.push(ProvenReceipt {
                receipt: Signed { payload: row.payload.clone(), signature: row.signature.clone() },
                logged: at.map(|at| logged.swap_remove(at).1),
            });
        }
    }
    Ok(receipts)
}

/// Returns the log's charges of receipts, by number, with the proofs under the head of `size` leaves.
async fn locate_receipts(
    ctx: &Ctx,
    party: &CertificateParty,
    numbers: &[u64],
    size: u64,
) -> Result<Vec<(i64, LoggedReceipt)>, Error> {
    let entries = witness::find_charged(ctx, party.worker, numbers, size).await?;
    let paths: Vec<_> = entries.iter().map(|(row, _)| inclusion_path(row.position as u64, size)).collect();
    let hashes = log::hashes(ctx.db.read(), paths.iter().flatten().flatten().copied().collect()).await?;
    let place = |((row, leaf), path): (_, &Vec<_>)| {
        let row: crate::model::countersignature::Model = row;
        let inclusion = assemble(path, |subtree| hashes.get(&subtree).copied())
            .ok_or_else(|| Error::internal("proving a certificate", "a hash is missing"))?;
        let countersignature = Signed { payload: row.payload, signature: row.signature };
        Ok((
            row.sequence,
            LoggedReceipt { countersignature, leaf, inclusion: inclusion.iter().map(hex::encode).collect() },
        ))
    };
    entries.into_iter().zip(&paths).map(place).collect()
}
