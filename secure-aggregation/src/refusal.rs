//! Reasons for which a site, or an honest server, refuses a step of a round.

use crate::roster::{MOST_SITES, RosterError};
use crate::site_set::{SiteIndex, SiteSet};

/// A refused step. Except for the first reasons, each is a sign of a dishonest peer or server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The step needs an earlier one.
    #[error("the step \"{step}\" of the round needs the step \"{needs}\" first")]
    OutOfOrder {
        /// The refused step.
        step: &'static str,
        /// The missing one.
        needs: &'static str,
    },
    /// The identity key does not belong to the accepted roster.
    #[error("the identity key is not that of site {site} of the accepted roster")]
    Identity {
        /// The site that accepted the roster.
        site: SiteIndex,
    },
    /// The vector has another number of coordinates than the round.
    #[error("the vector has {found} coordinates: those of the round have {expected}")]
    Length {
        /// The number of coordinates.
        found: usize,
        /// That of the round.
        expected: usize,
    },
    /// The round has ended here, and its secrets are erased.
    #[error("the round has ended at this site: take part in a new round")]
    RoundClosed,
    /// The journal knows the round with vectors of another form, or the accepted advertisements cannot be read again.
    #[error("the round is in this site's journal with another length, modulus or group")]
    DifferentRound,
    /// The journal has a record that does not verify.
    #[error("the record of the round in this site's journal is damaged")]
    DamagedRecord,
    /// A message names a site that the roster does not have.
    #[error("site {site} is not in the roster, which has at most {MOST_SITES}")]
    UnknownSite {
        /// The index.
        site: SiteIndex,
    },
    /// Two messages are of the same site.
    #[error("site {site} appears twice")]
    SiteTwice {
        /// The site.
        site: SiteIndex,
    },
    /// The signature of an advertisement is false, or of another round.
    #[error("the advertisement of site {site} is not signed for this round by the roster's key")]
    AdvertisementSignature {
        /// The site.
        site: SiteIndex,
    },
    /// The list lacks this site's advertisement, or has another one.
    #[error("the list of advertisements has other keys than this site advertised")]
    OwnAdvertisement,
    /// A second list of advertisements in one round.
    #[error("the server shows another list of advertisements than before")]
    SecondAdvertisements,
    /// A key of small order.
    #[error("a key of site {site} has a small order: no secret can be agreed with it")]
    WeakKey {
        /// The site.
        site: SiteIndex,
    },
    /// Fewer sites than the smallest group.
    #[error("{found} sites are fewer than the smallest group of {least}")]
    GroupTooSmall {
        /// The number of sites.
        found: usize,
        /// n.
        least: u8,
    },
    /// Sealed shares for another site, or of a site that did not advertise.
    #[error("the sealed shares from site {from} to site {to} do not belong here")]
    MisdirectedShares {
        /// The stated sender.
        from: SiteIndex,
        /// The stated receiver.
        to: SiteIndex,
    },
    /// Sealed shares that do not open: they were changed, or made for another round or list of advertisements.
    #[error("the sealed shares of site {from} cannot be opened: they were changed, or made for other advertisements")]
    UnopenedShares {
        /// The sender.
        from: SiteIndex,
    },
    /// Other sealed shares than those with which the site masked its vector.
    #[error("the server shows other sealed shares than before")]
    SecondShares,
    /// Another vector in one round.
    #[error("another vector was masked in this round: a second one needs a new round")]
    SecondVector,
    /// The set of survivors has a site without masks.
    #[error("the survivors {survivors} are not among the members {members}")]
    NotMembers {
        /// The shown set.
        survivors: SiteSet,
        /// The sites with pairwise masks.
        members: SiteSet,
    },
    /// The set of survivors lacks this site, so that its vector is not in the sum.
    #[error("the survivors {survivors} lack this site: it neither signs nor reveals")]
    NotSurvivor {
        /// The shown set.
        survivors: SiteSet,
    },
    /// A second set of survivors in one round.
    #[error("this site signed the survivors {signed} and signs no other set, such as {shown}")]
    SecondSurvivors {
        /// The signed set.
        signed: SiteSet,
        /// The shown set.
        shown: SiteSet,
    },
    /// A signature of a site outside the set.
    #[error("site {site} is no survivor: its signature does not count")]
    SignerNotSurvivor {
        /// The site.
        site: SiteIndex,
    },
    /// A signature on another set, of another round, or by another key.
    #[error("the signature of site {site} is not on these survivors")]
    SurvivorSignature {
        /// The site.
        site: SiteIndex,
    },
    /// Fewer signatures than the smallest group.
    #[error("{found} signatures on the survivors are fewer than the smallest group of {least}")]
    TooFewSignatures {
        /// The number of signatures.
        found: usize,
        /// n.
        least: u8,
    },
}

/// A step that was refused, or whose record could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum SiteError<E: std::error::Error + 'static> {
    /// The site refuses the step. Nothing was stored, and nothing may be sent.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The roster is not acceptable.
    #[error(transparent)]
    Roster(#[from] RosterError),
    /// The record could not be read or stored. Nothing may be sent.
    #[error("cannot read or store the record of the round")]
    Journal(#[source] E),
}
