//! Conversions between the wire and the messages of masked rounds ([`undertone_secure_aggregation::message`]).
//!
//! Each field of the wire has one length. Other lengths, and indices above 255, are refused here; the protocol checks the
//! rest.

use undertone_api::job::log::StepConflict;
use undertone_secure_aggregation::message::{Advertisement, Reveal, RevealedShare, SealedShares, SurvivorSignature};
use undertone_secure_aggregation::site_set::SiteIndex;

use crate::v1;

/// The bytes of the sealed shares of one site for another: two shares of 32 and a tag of 16.
pub const SEALED_BYTES: usize = 80;
/// The bytes of a signature.
const SIGNATURE_BYTES: usize = 64;

/// The reason why a message is not one of a masked round.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MaskedMessageError {
    /// A field has another length than its type.
    #[error("`{field}` has {found} bytes, not {expected}")]
    Length {
        /// The field.
        field: &'static str,
        /// The number of bytes received.
        found: usize,
        /// The number of bytes of the field.
        expected: usize,
    },
    /// A site's index is too large.
    #[error("{0} is the index of no site")]
    Index(u32),
    /// The number is that of no reason.
    #[error("{0} is no reason to refuse a step")]
    Conflict(i32),
}

fn index(site: u32) -> Result<SiteIndex, MaskedMessageError> {
    SiteIndex::try_from(site).map_err(|_| MaskedMessageError::Index(site))
}

fn array(field: &'static str, bytes: &[u8]) -> Result<[u8; 32], MaskedMessageError> {
    bytes.try_into().map_err(|_| MaskedMessageError::Length { field, found: bytes.len(), expected: 32 })
}

fn exact(field: &'static str, bytes: Vec<u8>, expected: usize) -> Result<Vec<u8>, MaskedMessageError> {
    if bytes.len() == expected {
        Ok(bytes)
    } else {
        Err(MaskedMessageError::Length { field, found: bytes.len(), expected })
    }
}

impl TryFrom<v1::MaskedAdvertisement> for Advertisement {
    type Error = MaskedMessageError;

    fn try_from(wire: v1::MaskedAdvertisement) -> Result<Self, MaskedMessageError> {
        Ok(Self {
            site: index(wire.site)?,
            mask_key: array("mask_key", &wire.mask_key)?,
            channel_key: array("channel_key", &wire.channel_key)?,
            commitment: array("commitment", &wire.commitment)?,
            signature: exact("signature", wire.signature, SIGNATURE_BYTES)?,
        })
    }
}

impl From<Advertisement> for v1::MaskedAdvertisement {
    fn from(advertisement: Advertisement) -> Self {
        let Advertisement { site, mask_key, channel_key, commitment, signature } = advertisement;
        Self {
            site: site.into(),
            mask_key: mask_key.to_vec(),
            channel_key: channel_key.to_vec(),
            commitment: commitment.to_vec(),
            signature,
        }
    }
}

impl TryFrom<v1::SealedShares> for SealedShares {
    type Error = MaskedMessageError;

    fn try_from(wire: v1::SealedShares) -> Result<Self, MaskedMessageError> {
        let (from, to) = (index(wire.from)?, index(wire.to)?);
        Ok(Self { from, to, ciphertext: exact("ciphertext", wire.ciphertext, SEALED_BYTES)? })
    }
}

impl From<SealedShares> for v1::SealedShares {
    fn from(sealed: SealedShares) -> Self {
        Self { from: sealed.from.into(), to: sealed.to.into(), ciphertext: sealed.ciphertext }
    }
}

impl TryFrom<v1::SurvivorSignature> for SurvivorSignature {
    type Error = MaskedMessageError;

    fn try_from(wire: v1::SurvivorSignature) -> Result<Self, MaskedMessageError> {
        Ok(Self { site: index(wire.site)?, signature: exact("signature", wire.signature, SIGNATURE_BYTES)? })
    }
}

impl From<SurvivorSignature> for v1::SurvivorSignature {
    fn from(signature: SurvivorSignature) -> Self {
        Self { site: signature.site.into(), signature: signature.signature }
    }
}

impl TryFrom<v1::RevealedShare> for RevealedShare {
    type Error = MaskedMessageError;

    fn try_from(wire: v1::RevealedShare) -> Result<Self, MaskedMessageError> {
        Ok(Self { of: index(wire.of)?, share: array("share", &wire.share)? })
    }
}

impl From<RevealedShare> for v1::RevealedShare {
    fn from(revealed: RevealedShare) -> Self {
        Self { of: revealed.of.into(), share: revealed.share.to_vec() }
    }
}

impl TryFrom<v1::MaskedReveal> for Reveal {
    type Error = MaskedMessageError;

    fn try_from(wire: v1::MaskedReveal) -> Result<Self, MaskedMessageError> {
        let all = |shares: Vec<v1::RevealedShare>| shares.into_iter().map(TryInto::try_into).collect::<Result<_, _>>();
        Ok(Self { site: index(wire.site)?, seeds: all(wire.seeds)?, keys: all(wire.keys)? })
    }
}

impl From<Reveal> for v1::MaskedReveal {
    fn from(reveal: Reveal) -> Self {
        let all = |shares: Vec<RevealedShare>| shares.into_iter().map(Into::into).collect();
        Self { site: reveal.site.into(), seeds: all(reveal.seeds), keys: all(reveal.keys) }
    }
}

impl From<StepConflict> for v1::MaskedConflict {
    fn from(conflict: StepConflict) -> Self {
        match conflict {
            StepConflict::Advertisements => Self::Advertisements,
            StepConflict::Shares => Self::Shares,
            StepConflict::Survivors => Self::Survivors,
            StepConflict::Vector => Self::Vector,
            StepConflict::Ended => Self::Ended,
        }
    }
}

/// Reads the reason of a refused step.
///
/// # Errors
/// [`MaskedMessageError::Conflict`] when this version does not know the number.
pub fn parse_conflict(number: i32) -> Result<StepConflict, MaskedMessageError> {
    let known = StepConflict::ALL.iter().find(|conflict| i32::from(v1::MaskedConflict::from(**conflict)) == number);
    known.copied().ok_or(MaskedMessageError::Conflict(number))
}

#[cfg(test)]
mod tests {
    use undertone_api::job::log::StepConflict;
    use undertone_secure_aggregation::message::{
        Advertisement, Reveal, RevealedShare, SealedShares, SurvivorSignature,
    };

    use super::{MaskedMessageError, parse_conflict, v1};

    fn advertisement() -> Advertisement {
        Advertisement { site: 2, mask_key: [1; 32], channel_key: [2; 32], commitment: [3; 32], signature: vec![4; 64] }
    }

    #[test]
    fn messages_survive_the_wire() {
        let own = advertisement();
        assert_eq!(v1::MaskedAdvertisement::from(own.clone()).try_into(), Ok(own));
        let sealed = SealedShares { from: 0, to: 49, ciphertext: vec![7; 80] };
        assert_eq!(v1::SealedShares::from(sealed.clone()).try_into(), Ok(sealed));
        let signature = SurvivorSignature { site: 1, signature: vec![9; 64] };
        assert_eq!(v1::SurvivorSignature::from(signature.clone()).try_into(), Ok(signature));
        let reveal = Reveal {
            site: 1,
            seeds: vec![RevealedShare { of: 0, share: [5; 32] }],
            keys: vec![RevealedShare { of: 2, share: [6; 32] }],
        };
        assert_eq!(v1::MaskedReveal::from(reveal.clone()).try_into(), Ok(reveal));
        for conflict in StepConflict::ALL {
            assert_eq!(parse_conflict(v1::MaskedConflict::from(*conflict).into()), Ok(*conflict));
        }
    }

    #[test]
    fn other_lengths_and_indices_are_refused() {
        let convert = |change: fn(&mut v1::MaskedAdvertisement)| {
            let mut wire = advertisement().into();
            change(&mut wire);
            Advertisement::try_from(wire)
        };
        let short = |field, found, expected| Err(MaskedMessageError::Length { field, found, expected });
        assert_eq!(convert(|wire| wire.site = 256), Err(MaskedMessageError::Index(256)));
        assert_eq!(convert(|wire| wire.mask_key.truncate(31)), short("mask_key", 31, 32));
        assert_eq!(convert(|wire| wire.commitment.push(0)), short("commitment", 33, 32));
        assert_eq!(convert(|wire| wire.signature.clear()), short("signature", 0, 64));
        for unknown in [0, 6, -1] {
            assert_eq!(parse_conflict(unknown), Err(MaskedMessageError::Conflict(unknown)));
        }
        let sealed = v1::SealedShares { from: 0, to: 1, ciphertext: vec![0; 81] };
        let refused = SealedShares::try_from(sealed).expect_err("too long");
        assert_eq!(refused.to_string(), "`ciphertext` has 81 bytes, not 80");
    }
}
