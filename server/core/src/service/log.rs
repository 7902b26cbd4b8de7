//! The server's transparency log. Every account, limit and ledger entry gets the next position in one Merkle tree, in
//! the transaction that writes it. The server signs the tree's new head before that transaction ends. So every holder
//! of a head can prove later tampering (see `undertone_api::log`).
//!
//! A leaf's row contains the roots of the complete subtrees that end with it. Appending reads only the tree's right
//! edge, and any proof needs O(log² n) of these hashes. The content of a leaf is not stored: it is computed from the
//! record's own row, so that a changed row is a changed leaf. To log one more kind of record: a [`LogLeaf`] made in
//! `leaf`.

mod adopt;
mod examine;
pub mod leaf;
mod read;
pub(crate) mod renewal;

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QueryOrder as _,
};
use time::OffsetDateTime;
use undertone_api::log::proof::{self, Subtree};
use undertone_api::log::{Frontier, LogLeaf, TreeHash, from_hex, leaf_hash};
use undertone_api::signed::{LogHead, Signed, key_id};

use crate::ctx::Ctx;
use crate::db::{Db, Tx};
use crate::error::Error;
use crate::keys::ServerSigner;
use crate::model::{log_head, log_leaf};
use uuid::Uuid;

pub(crate) use adopt::adopt;
pub use examine::{LogEnd, examine_end};
pub use read::{consistency, head, heads};

/// The number of hex digits of a hash.
const HEX: usize = 64;
/// The highest number of rows queried in one statement.
const AT_ONCE: usize = 500;

/// Appends leaves in their order and signs the new head. Returns the position of the first.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub async fn append(ctx: &Ctx, tx: &Tx, leaves: &[LogLeaf]) -> Result<u64, Error> {
    append_signed(&ctx.signer, ctx.now(), tx, leaves).await
}

/// Appends as [`append`], for commands, which have a database and no server.
pub(crate) async fn append_signed(
    signer: &ServerSigner,
    at: OffsetDateTime,
    tx: &Tx,
    leaves: &[LogLeaf],
) -> Result<u64, Error> {
    let newest = newest(tx).await?;
    let size = newest.as_ref().map_or(0, |head| head.size as u64);
    if leaves.is_empty() {
        return Ok(size);
    }
    let mut frontier = frontier(tx, size).await?;
    // A head must never cover rows that were changed behind the server's back.
    if newest.is_some_and(|head| head.root != hex::encode(frontier.root())) {
        return Err(broken("the stored hashes do not lead to the last head: run `undertone-server verify`"));
    }
    let rows = leaves.iter().map(|leaf| {
        let position = frontier.size() as i64;
        let nodes = frontier.push(leaf_hash(leaf.content().as_bytes())).concat();
        row(position, leaf, hex::encode(nodes)).into_active_model()
    });
    let rows: Vec<_> = rows.collect();
    log_leaf::Entity::insert_many(rows).exec_without_returning(tx).await?;
    let head = LogHead {
        size: frontier.size(),
        root: hex::encode(frontier.root()),
        at,
        server: key_id(&signer.verifying_key()),
    };
    let signed = signer.sign(&head).await.map_err(|error| Error::internal("signing a head", error))?;
    let LogHead { root, server, .. } = head;
    let (Signed { payload, signature }, size_now) = (signed, frontier.size() as i64);
    let row = log_head::Model { size: size_now, root, server, payload, signature, at };
    log_head::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
    Ok(size)
}

/// Returns the newest head; `None` while the log is empty.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn newest(connection: &impl ConnectionTrait) -> Result<Option<log_head::Model>, Error> {
    Ok(log_head::Entity::find().order_by_desc(log_head::Column::Size).one(connection).await?)
}

/// Returns the newest signed head of a database.
///
/// # Errors
/// When the database does not answer.
pub async fn newest_of(db: &Db) -> Result<Option<Signed>, Error> {
    Ok(newest(db.read()).await?.map(|head| Signed { payload: head.payload, signature: head.signature }))
}

/// Returns whether the log is empty or signed with this server's key.
///
/// # Errors
/// When the database does not answer.
pub async fn is_ours(ctx: &Ctx) -> Result<bool, Error> {
    let ours = key_id(&ctx.signer.verifying_key());
    Ok(newest(ctx.db.read()).await?.is_none_or(|head| head.server == ours))
}

/// Returns the hashes of subtrees, which proof paths consist of.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn hashes(
    connection: &impl ConnectionTrait,
    wanted: BTreeSet<Subtree>,
) -> Result<BTreeMap<Subtree, TreeHash>, Error> {
    let mut nodes = BTreeMap::new();
    let positions: BTreeSet<i64> = wanted.iter().map(|subtree| subtree.last() as i64).collect();
    for some in positions.into_iter().collect::<Vec<_>>().chunks(AT_ONCE) {
        let rows = log_leaf::Entity::find().filter(log_leaf::Column::Position.is_in(some.iter().copied()));
        nodes.extend(rows.all(connection).await?.into_iter().map(|row| (row.position as u64, row.nodes)));
    }
    let hash = |subtree: Subtree| {
        let from = subtree.level as usize * HEX;
        nodes.get(&subtree.last()).and_then(|text| from_hex(text.get(from..from + HEX)?))
    };
    let pairs = wanted.into_iter().map(|subtree| Some((subtree, hash(subtree)?)));
    pairs.collect::<Option<_>>().ok_or_else(|| broken("a leaf is missing: run `undertone-server verify`"))
}

/// Returns the right edge of the tree of the first `size` leaves.
async fn frontier(connection: &impl ConnectionTrait, size: u64) -> Result<Frontier, Error> {
    let edge = proof::list_frontier(size);
    let hashes = hashes(connection, edge.iter().copied().collect()).await?;
    let subtrees = edge.iter().filter_map(|subtree| hashes.get(subtree).copied()).collect();
    Frontier::from_parts(size, subtrees).ok_or_else(|| broken("a leaf is missing: run `undertone-server verify`"))
}

fn row(position: i64, leaf: &LogLeaf, nodes: String) -> log_leaf::Model {
    let (kind, sequence, budget_id) = match leaf {
        LogLeaf::Entry(entry) => ("entry", Some(entry.sequence), None),
        LogLeaf::Account(_) => ("account", None, None),
        LogLeaf::Limit(limit) => ("limit", None, Some(limit.budget)),
        // These records name their position themselves.
        LogLeaf::Restoration(_) => ("restoration", None, None),
        LogLeaf::WorkerKey(_) => ("worker_key", None, None),
        LogLeaf::Audit(_) => ("audit", None, None),
    };
    let account_id = leaf.account().unwrap_or(Uuid::nil());
    log_leaf::Model { position, kind: kind.to_owned(), account_id, sequence, budget_id, nodes }
}

fn broken(what: &'static str) -> Error {
    Error::internal("keeping the log", what)
}
