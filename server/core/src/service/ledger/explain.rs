//! The evidence for one row of a ledger: its price, its place in the account's chain and in the server's log, and the
//! site's signature. Everything is checked here as it can be checked elsewhere, and returned with the data that a check
//! needs.

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _};
use undertone_api::budget::EntryKind;
use undertone_api::id::AccountId;
use undertone_api::ledger::{EntryProof, InclusionProof, OrderPrice, ReceiptProof, steps};
use undertone_api::log::leaf::EntryRecord as LeafEntry;
use undertone_api::log::proof::{assemble, inclusion_path, verify_inclusion};
use undertone_api::log::view::SignedHead;
use undertone_api::log::witness::{charges, countersigned};
use undertone_api::log::{LogLeaf, from_hex, leaf_hash};
use undertone_api::signed::{LogHead, Receipt, Signed};
use undertone_privacy::ledger::{Balance, FilterKind, JobCost};
use undertone_privacy::{Adjacency, Event};

use super::chain;
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::parse_json;
use crate::model::{account, countersignature, ledger_entry, log_leaf, receipt, worker};
use crate::service::log;
use crate::service::log::leaf::of_entry;
use crate::service::site_key;

/// Returns one row of an account with its proofs.
///
/// # Errors
/// 404 when there is no such row that the caller may know, 403 when they may not read it.
pub async fn explain(ctx: &Ctx, actor: &Actor, id: AccountId, sequence: u64) -> Result<EntryProof, Error> {
    let missing = || Error::not_found("row");
    let account = account::Entity::find_by_id(id.0).one(ctx.db.read()).await?.ok_or_else(missing)?;
    policy::check(actor, Operation::ReadLedger, Place::Organization(account.organization_id.into()))
        .map_err(|error| if error.code() == undertone_api::problem::Code::NotFound { missing() } else { error })?;
    let tx = ctx.db.snapshot().await?;
    let proof = proof(ctx, &tx, &account, sequence).await?;
    tx.rollback().await?;
    proof.ok_or_else(missing)
}

async fn proof(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    account: &account::Model,
    sequence: u64,
) -> Result<Option<EntryProof>, Error> {
    let Ok(number) = i64::try_from(sequence) else { return Ok(None) };
    let row = ledger_entry::Entity::find_by_id((account.id, number)).one(connection).await?;
    let Some(row) = row else { return Ok(None) };
    let before = if number <= 1 {
        Some(chain::origin())
    } else {
        let before = ledger_entry::Entity::find_by_id((account.id, number - 1)).one(connection).await?;
        before.map(|before| before.hash)
    };
    let leaf = of_entry(&row);
    let inclusion = inclusion(ctx, connection, &leaf, &row).await?;
    let position = inclusion.as_ref().map(|inclusion| inclusion.position);
    let receipt = match &row.receipt {
        Some(digest) => receipt_of(ctx, connection, digest, &leaf, position).await?,
        None => None,
    };
    let event: Event = row.event()?;
    Ok(Some(EntryProof {
        dataset: row.dataset_id.into(),
        account: account.id.into(),
        sequence,
        kind: row.kind()?,
        job: row.job_id.into(),
        round: row.series.clone().zip(row.round).map(|(series, round)| format!("{series}/{round}")),
        price: price(account, &event, &row)?,
        certificate: row.certificate()?,
        event,
        count: row.count as u64,
        evaluator: row.evaluator.clone(),
        at: row.at,
        chained: leaf.hash() == row.hash && before.as_deref() == Some(&*row.previous),
        leaf: leaf.content(),
        previous: row.previous,
        hash: row.hash,
        inclusion,
        receipt,
    }))
}

/// Returns the cost of the releases at each order, with the account's limit there. Under the Gaussian filter, and
/// of a mechanism that is charged as a whole, only the reservation of a job has a cost.
fn price(account: &account::Model, event: &Event, row: &ledger_entry::Model) -> Result<Vec<OrderPrice>, Error> {
    if *event == Event::NonPrivate {
        return Ok(Vec::new());
    }
    let (balance, adjacency): (Balance, Adjacency) = (account.balance()?, account.adjacency()?);
    let certificate = row.certificate()?;
    let is_charged_whole = event.whole_releases().is_some() && row.kind()? != EntryKind::Reserve;
    if is_charged_whole || (balance.filter() == FilterKind::Gaussian && certificate.is_none()) {
        return Ok(Vec::new());
    }
    let count = row.count as u64;
    let cost = JobCost::from_row(event, count, adjacency, balance.grid(), certificate.as_ref())
        .map_err(|error| Error::internal("pricing a row of the ledger", error.to_string()))?;
    let shares = balance.budget().map(undertone_privacy::ledger::Budget::shares).unwrap_or_default();
    let shares = shares.into_iter().map(Some).chain(std::iter::repeat(None));
    let cost = cost.total(count);
    Ok(cost
        .losses()
        .zip(shares)
        .map(|((order, loss), share)| OrderPrice {
            order: order.get(),
            loss: loss.to_f64_up(),
            share: share.flatten().map(undertone_privacy::fixed::Fixed::to_f64_down),
        })
        .collect())
}

async fn inclusion(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    leaf: &LeafEntry,
    row: &ledger_entry::Model,
) -> Result<Option<InclusionProof>, Error> {
    let place = log_leaf::Entity::find()
        .filter(log_leaf::Column::AccountId.eq(row.account_id))
        .filter(log_leaf::Column::Sequence.eq(row.sequence))
        .one(connection)
        .await?;
    let (Some(place), Some(newest)) = (place, log::newest(connection).await?) else { return Ok(None) };
    let (position, size) = (place.position as u64, newest.size as u64);
    let path = inclusion_path(position, size);
    let hashes = log::hashes(connection, path.iter().flatten().copied().collect()).await?;
    let siblings = assemble(&path, |subtree| hashes.get(&subtree).copied())
        .ok_or_else(|| Error::internal("proving a row", "a hash of the log is missing"))?;
    let content = leaf.content();
    let key = ctx.signer.verifying_key();
    let signed = Signed { payload: newest.payload, signature: newest.signature };
    let head: LogHead = parse_json("reading the column log_head.payload", &signed.payload)?;
    let root = from_hex(&head.root);
    let proved = root.is_some_and(|root| {
        verify_inclusion(content.as_bytes(), position, head.size, &root, &siblings).is_ok() && head.size == size
    });
    let hash = leaf_hash(content.as_bytes());
    Ok(Some(InclusionProof {
        position,
        holds: proved && signed.open::<LogHead>(&key).is_ok(),
        head: SignedHead { head, signed, server_key: hex::encode(key.as_bytes()) },
        leaf_hash: hex::encode(hash),
        steps: steps(&hash, position, size, &siblings),
    }))
}

async fn receipt_of(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    digest: &str,
    leaf: &LeafEntry,
    position: Option<u64>,
) -> Result<Option<ReceiptProof>, Error> {
    let row = receipt::Entity::find().filter(receipt::Column::Digest.eq(digest)).one(connection).await?;
    let Some(row) = row else { return Ok(None) };
    let name = worker::Entity::find_by_id(row.worker_id).one(connection).await?.map(|worker| worker.name);
    let keys = site_key::load_keys(connection, row.worker_id.into()).await?;
    let signed = Signed { payload: row.payload, signature: row.signature };
    let opened = signed.open::<Receipt>(keys.key_of_receipt(row.sequence as u64));
    let word = countersignature::Entity::find_by_id((row.worker_id, row.sequence)).one(connection).await?;
    let word = word.map(|word| Signed { payload: word.payload, signature: word.signature });
    let server = ctx.signer.verifying_key();
    let countersignature_holds = match (&word, &opened) {
        (Some(word), Ok(receipt)) => {
            countersigned(word, &server, &signed.digest(), receipt).is_ok_and(|word| Some(word.position) == position)
        }
        _ => false,
    };
    let charged_as_signed =
        opened.as_ref().is_ok_and(|receipt| charges(&LogLeaf::Entry(leaf.clone()), &signed.digest(), receipt));
    Ok(Some(ReceiptProof {
        worker: row.worker_id.into(),
        worker_name: name.unwrap_or_default(),
        sequence: row.sequence as u64,
        digest: signed.digest(),
        signature_holds: opened.is_ok(),
        signed,
        countersignature: word,
        charged_as_signed,
        countersignature_holds,
    }))
}
