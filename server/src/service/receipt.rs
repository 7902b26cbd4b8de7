//! Receipts: what a site says it has paid. Believed only as links of one signed, unbroken chain, for a release that the
//! manifest foresees; then each is charged to the consortium's ledger, once, in the caller's transaction.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _, QueryOrder as _,
};
use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::job::{Charge, Spec};
use undertone_api::problem::Code;
use undertone_api::signed::{self, Countersignature, Receipt, Signed};

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::service::code::from_json;
use crate::service::entity::{countersignature, job, participant, receipt};
use crate::service::job::series::Planned;
use crate::service::ledger::{self, Release};
use crate::service::{question, site_key};

/// SHA-256 of nothing, hex: what the first receipt of a chain names as the one before it.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Takes a worker's receipts, oldest first; those that are known already count once. Gives a countersignature for each, in
/// the same order.
///
/// # Errors
/// `bad_signature` when a signature, the chain or the manifest does not bear a receipt out; what [`ledger::commit`] says
/// when the reservation does not hold it. Nothing of any of them is kept then.
pub(crate) async fn accept(ctx: &Ctx, tx: &Tx, worker: WorkerId, receipts: &[Signed]) -> Result<Vec<Signed>, Error> {
    let mut countersigned = Vec::new();
    if receipts.is_empty() {
        return Ok(countersigned);
    }
    let keys = site_key::of(tx, worker).await?;
    let last = receipt::Entity::find()
        .filter(receipt::Column::WorkerId.eq(worker.0))
        .order_by_desc(receipt::Column::Sequence)
        .one(tx)
        .await?;
    let (mut sequence, mut head) = last.map_or((0, NOTHING.to_owned()), |row| (row.sequence, row.digest));
    for signed in receipts {
        // Which key has to have signed it depends on its number alone.
        let claimed: Receipt = serde_json::from_str(&signed.payload).map_err(|error| bad(error.to_string()))?;
        let document: Receipt = signed.open(keys.at(claimed.sequence)).map_err(|error| bad(error.to_string()))?;
        let digest = signed.digest();
        let number = i64::try_from(document.sequence).map_err(|_| bad("a receipt's number is out of range"))?;
        if number <= sequence {
            let known = receipt::Entity::find_by_id((worker.0, number)).one(tx).await?;
            if known.is_some_and(|known| known.digest == digest) {
                countersigned.extend(countersignature_of(tx, worker, number).await?);
                continue;
            }
            return Err(bad(format!("the site has signed two receipts number {number}: its ledger has forked")));
        }
        if number != sequence + 1 || document.previous != head {
            return Err(bad(format!(
                "receipt {number} does not follow receipt {sequence}: send every receipt since, oldest first"
            )));
        }
        is_foreseen(tx, worker, &document).await?;
        let row = receipt::Model {
            worker_id: worker.0,
            sequence: number,
            digest: digest.clone(),
            payload: signed.payload.clone(),
            signature: signed.signature.clone(),
            job_id: document.job.0,
            dataset_id: document.dataset.0,
            series: document.series.clone(),
            round: document.round as i32,
            attempt: i32::try_from(document.attempt).map_err(|_| bad("a receipt's attempt is out of range"))?,
            received_at: ctx.now(),
        };
        row.into_active_model().insert(tx).await?;
        let release = Release {
            job: document.job.0,
            dataset: document.dataset.0,
            series: &document.series,
            round: document.round,
            attempt: document.attempt,
            event: &document.event,
            receipt: &digest,
        };
        let position = ledger::commit(ctx, tx, &release).await?;
        countersigned.push(countersign(ctx, tx, (worker, document.sequence), &digest, position).await?);
        count(tx, &document).await?;
        (sequence, head) = (number, digest);
    }
    Ok(countersigned)
}

/// The server's word that it has charged a receipt, and where.
pub(crate) async fn countersign(
    ctx: &Ctx,
    tx: &Tx,
    (worker, sequence): (WorkerId, u64),
    digest: &str,
    position: u64,
) -> Result<Signed, Error> {
    let document = Countersignature {
        worker,
        sequence,
        receipt: digest.to_owned(),
        position,
        at: ctx.now(),
        server: signed::key_id(&ctx.signer.verifying_key()),
    };
    let signed = Signed::new(&document, &ctx.signer).map_err(|error| Error::internal("countersigning", error))?;
    let row = countersignature::Model {
        worker_id: worker.0,
        sequence: sequence as i64,
        receipt: document.receipt,
        position: position as i64,
        payload: signed.payload.clone(),
        signature: signed.signature.clone(),
    };
    row.into_active_model().insert(tx).await?;
    Ok(signed)
}

async fn countersignature_of(
    connection: &impl ConnectionTrait,
    worker: WorkerId,
    sequence: i64,
) -> Result<Option<Signed>, Error> {
    let row = countersignature::Entity::find_by_id((worker.0, sequence)).one(connection).await?;
    Ok(row.map(|row| Signed { payload: row.payload, signature: row.signature }))
}

/// Whether some receipt pays for a dataset's vector in a round.
pub(crate) async fn pays_for(
    connection: &impl ConnectionTrait,
    job: JobId,
    dataset: DatasetId,
    series: &str,
    round: u32,
) -> Result<bool, Error> {
    let receipts = receipt::Entity::find()
        .filter(receipt::Column::JobId.eq(job.0))
        .filter(receipt::Column::DatasetId.eq(dataset.0))
        .filter(receipt::Column::Series.eq(series))
        .filter(receipt::Column::Round.eq(round as i32));
    Ok(receipts.count(connection).await? > 0)
}

/// Compares a receipt with the manifest it claims to act under.
async fn is_foreseen(tx: &Tx, worker: WorkerId, receipt: &Receipt) -> Result<(), Error> {
    if receipt.worker != worker {
        return Err(bad("the receipt is another worker's"));
    }
    let job = job::Entity::find_by_id(receipt.job.0).one(tx).await?;
    let part = participant::Entity::find_by_id((receipt.job.0, receipt.dataset.0)).one(tx).await?;
    let (Some(job), Some(part)) = (job, part) else {
        return Err(bad("the receipt names a job and a dataset that do not belong together"));
    };
    if job.digest != receipt.manifest {
        return Err(bad("the receipt was made under another manifest"));
    }
    if part.worker_id != worker.0 || part.lineage_id != receipt.lineage.0 {
        return Err(bad("the receipt names a dataset that the manifest gives to another worker or lineage"));
    }
    let Some(charge) = part.charge.as_deref().map(from_json::<Charge>).transpose()? else {
        return Err(bad("the manifest charges nothing for this dataset"));
    };
    if (charge.unit, charge.adjacency) != (receipt.unit, receipt.adjacency) {
        return Err(bad("the receipt is for another privacy unit than the manifest"));
    }
    let planned: Vec<Planned> = from_json(&job.series)?;
    let foreseen = planned.iter().find(|planned| planned.series.name == receipt.series).is_some_and(|planned| {
        planned.release_of(receipt.dataset) == Some(&receipt.event)
            && (1..=planned.series.rounds).contains(&receipt.round)
            && receipt.attempt >= 1
    });
    // A pool of questions is all that the participant's charge is for, once.
    let foreseen = foreseen
        || question::of(&job)?.is_some_and(|questions| {
            questions.series == receipt.series
                && questions.asking.contains(&receipt.dataset)
                && charge.event == receipt.event
                && receipt.round == 1
                && receipt.attempt >= 1
        });
    // So is what leaves for somebody outside the consortium, which never comes here.
    let foreseen = foreseen
        || from_json::<Spec>(&job.spec)?.outside().is_some_and(|outside| {
            outside.series == receipt.series
                && outside.sending.contains(&receipt.dataset)
                && charge.event == receipt.event
                && receipt.round == 1
                && receipt.attempt >= 1
        });
    if foreseen { Ok(()) } else { Err(bad("the receipt's release is not the one that the manifest foresees")) }
}

/// Counts the releases that the participant's charge is made of; exact ones beside them have the ledger's own count.
async fn count(tx: &Tx, receipt: &Receipt) -> Result<(), Error> {
    let Some(part) = participant::Entity::find_by_id((receipt.job.0, receipt.dataset.0)).one(tx).await? else {
        return Ok(());
    };
    let charge: Option<Charge> = part.charge.as_deref().map(from_json).transpose()?;
    if charge.is_some_and(|charge| charge.event == receipt.event) {
        let releases = part.releases + 1;
        participant::Model { releases, ..part }.into_active_model().reset_all().update(tx).await?;
    }
    Ok(())
}

fn bad(detail: impl Into<String>) -> Error {
    Error::problem(Code::BadSignature, detail)
}
