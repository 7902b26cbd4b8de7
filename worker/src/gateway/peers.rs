//! The exchange of cosigned heads with the peers, through the server.

use undertone_api::log::peers::{MOST_PEERS, MOST_ROTATIONS, PeerHead};
use undertone_api::signed::Signed;
use undertone_proto::v1;

use super::{CALL, Gateway, GatewayError};

impl Gateway {
    /// Submits this site's signed observation, the position of its ledger and its sightings of its peers, and returns the
    /// documents of the peers. The caller must verify each of them.
    ///
    /// # Errors
    /// [`GatewayError`]; [`GatewayError::Protocol`] when the answer has another form, or is too large.
    pub async fn exchange_heads(
        &self,
        observation: &Signed,
        position: &Signed,
        sightings: &[Signed],
    ) -> Result<Vec<PeerHead>, GatewayError> {
        let make = || v1::ExchangeHeadsRequest {
            observation: Some(observation.clone().into()),
            position: Some(position.clone().into()),
            sightings: sightings.iter().cloned().map(Into::into).collect(),
        };
        let reply =
            self.call(CALL, make, |mut client, request| async move { client.exchange_heads(request).await }).await?;
        if reply.peers.len() > MOST_PEERS || reply.peers.iter().any(|peer| peer.rotations.len() > MOST_ROTATIONS) {
            let detail = format!("more than {MOST_PEERS} peers, or {MOST_ROTATIONS} changes of key of one");
            return Err(GatewayError::Protocol(detail));
        }
        let peers = reply.peers.into_iter().map(PeerHead::try_from).collect::<Result<_, _>>();
        peers.map_err(|field| GatewayError::Protocol(format!("`{field}` of a peer cannot be read")))
    }
}
