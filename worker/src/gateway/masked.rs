//! The steps of a masked round, besides the submission of the masked vector.

use std::time::Duration;

use undertone_api::job::log::StepConflict;
use undertone_proto::masked::MaskedMessageError;
use undertone_proto::v1;
use undertone_proto::v1::masked_step_request::Step;
use undertone_secure_aggregation::message::{Advertisement, Reveal, SealedShares, SurvivorSignature};
use undertone_secure_aggregation::roster::MOST_SITES;
use undertone_secure_aggregation::site_set::SiteSet;

use super::{CALL, Gateway, GatewayError};

/// The message of this site in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaskedStep {
    /// This site's keys for the round.
    Advertise(Advertisement),
    /// This site's shares for each other site of the list.
    Share(Vec<SealedShares>),
    /// A question for the set of survivors; the masked vector was submitted.
    Survivors,
    /// This site's signature on the set of survivors.
    Sign(SurvivorSignature),
    /// This site's shares of each member.
    Reveal(Reveal),
    /// This site takes no further part in the round: the server shows another state of it than the site has recorded.
    Refuse(StepConflict),
}

impl MaskedStep {
    fn to_wire(&self) -> Step {
        match self.clone() {
            Self::Advertise(advertisement) => Step::Advertise(advertisement.into()),
            Self::Share(shares) => {
                Step::Share(v1::MaskedShares { shares: shares.into_iter().map(Into::into).collect() })
            }
            Self::Survivors => Step::Survivors(v1::Nothing {}),
            Self::Sign(signature) => Step::Sign(signature.into()),
            Self::Reveal(reveal) => Step::Reveal(reveal.into()),
            Self::Refuse(conflict) => Step::Refuse(v1::MaskedConflict::from(conflict).into()),
        }
    }
}

/// The server's answer to a step: the input of the next one. The caller must verify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedAnswer {
    /// After an advertisement: those of all sites of the list.
    pub advertisements: Vec<Advertisement>,
    /// After the shares: those for this site.
    pub shares: Vec<SealedShares>,
    /// After the question for it: the set of survivors.
    pub survivors: SiteSet,
    /// After a signature: those of the survivors.
    pub signatures: Vec<SurvivorSignature>,
}

fn read_all<W, T: TryFrom<W, Error = MaskedMessageError>>(list: &str, wire: Vec<W>) -> Result<Vec<T>, GatewayError> {
    if wire.len() > MOST_SITES {
        return Err(GatewayError::Protocol(format!("`{list}` has more than {MOST_SITES} entries")));
    }
    let invalid = |error: MaskedMessageError| GatewayError::Protocol(format!("`{list}`: {error}"));
    wire.into_iter().map(|one| T::try_from(one).map_err(invalid)).collect()
}

impl Gateway {
    /// Sends this site's message of one step of a masked round, and waits up to `wait` for the input of the next step.
    /// Returns `None` while other sites are missing: the caller repeats the call with the same message.
    ///
    /// # Errors
    /// [`GatewayError`] with `round_closed` when the round continues, or has ended, without this site, `not_ready` when it
    /// is not open yet or the server lacks an earlier step of this site, `conflict` when its sum can never be opened;
    /// [`GatewayError::Protocol`] when the answer has another form.
    pub async fn masked_step(
        &self,
        lease: &str,
        series: &str,
        round: u32,
        wait: Duration,
        step: &MaskedStep,
    ) -> Result<Option<MaskedAnswer>, GatewayError> {
        let make = || v1::MaskedStepRequest {
            lease: lease.to_owned(),
            series: series.to_owned(),
            round,
            wait_seconds: wait.as_secs() as u32,
            step: Some(step.to_wire()),
        };
        let reply = self
            .call(wait + CALL, make, |mut client, request| async move { client.masked_step(request).await })
            .await?;
        if !reply.ready {
            return Ok(None);
        }
        Ok(Some(MaskedAnswer {
            advertisements: read_all("advertisements", reply.advertisements)?,
            shares: read_all("shares", reply.shares)?,
            survivors: SiteSet::from_bits(reply.survivors),
            signatures: read_all("signatures", reply.signatures)?,
        }))
    }
}
