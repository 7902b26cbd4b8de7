//! The call by which sites exchange heads of the log and positions of their ledgers.

use tonic::Status;
use undertone_api::id::WorkerId;
use undertone_proto::v1;

use super::convert::fail;
use super::documents::{parse_all_signed, parse_signed, signed};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::head_exchange::{self, HandedPositions};

/// Stores what the caller hands in, and returns what its peers have handed in.
///
/// # Errors
/// As [`head_exchange::exchange_heads`] and [`head_exchange::store_positions`].
pub(super) async fn exchange_heads(
    ctx: &Ctx,
    caller: WorkerId,
    request: v1::ExchangeHeadsRequest,
) -> Result<v1::ExchangeHeadsReply, Status> {
    let observation = signed(request.observation, "observation")?;
    let position = request.position.map(parse_signed).transpose()?;
    let positions = HandedPositions { position, sightings: parse_all_signed(request.sightings)? };
    head_exchange::store_positions(ctx, caller, &positions).await.map_err(fail)?;
    let peers = head_exchange::exchange_heads(ctx, caller, &observation).await.map_err(fail)?;
    Ok(v1::ExchangeHeadsReply { peers: peers.into_iter().map(v1::PeerHead::from).collect() })
}
