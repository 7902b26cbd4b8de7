//! Secure aggregation: a server adds the integer vectors of a group of sites and learns their sum alone.
//!
//! The protocol is that of Bonawitz et al. ("Practical secure aggregation for privacy-preserving machine learning",
//! 2017) in the variant against a malicious server, with the changes listed below. The crate has neither input nor
//! output: [`site`] and [`server`] are the two sides of a round, and their caller carries the messages.
//!
//! # The steps of a round
//!
//! 1. *Advertise.* Each site draws a secret for the round. It signs a mask key, a channel key (X25519) and a
//!    commitment to the seed of its own mask with its identity key: [`message::Advertisement`].
//! 2. *Share.* Each site splits the mask key and the seed by Shamir's scheme, and seals one share of both for each other
//!    site: [`message::SealedShares`].
//! 3. *Mask.* Each site adds to its vector the mask of its seed, and for each other site a mask that both derive. The
//!    site with the lower index adds this mask and the other one subtracts it: [`message::MaskedVector`].
//! 4. *Sign.* Each site signs the set of the sites whose vectors arrived, the survivors: [`message::SurvivorSignature`].
//! 5. *Reveal.* With signatures of enough survivors on one set, a site reveals its shares of each survivor's seed, and
//!    of the mask key of each site that dropped out: [`message::Reveal`]. The server removes the remaining masks.
//!
//! # Parameters
//!
//! [`roster::Roster`] holds the signed manifest's P identity keys, the smallest group n (the threshold of each secret,
//! and the least number of survivors), and t, the number of sites that may collude with the server. 2n > P + t: the
//! honest sites reveal one share per peer, the colluding ones both, so at most P + t shares of one peer are revealed,
//! and the server never has n shares of both secrets. For the same reason it never has n signatures on each of two
//! sets. The honest survivors are n − t at least, and each adds noise of its own
//! (`undertone_privacy::calibrate::site_deviation`), so that the sum is a release with the noise of n − t sites. The
//! bits of the modulus are those of `undertone_privacy::calibrate::modulus_bits`.
//!
//! # Differences from the paper
//!
//! * Both X25519 keys are drawn anew for each round. If a site's mask key outlived a round, then the server could ask
//!   for the seed in one round and, when the site drops out later, for the key, and unmask the earlier vector.
//! * An advertisement commits to the seed, and a mask key commits to itself. The server detects shares that restore
//!   another secret.
//! * The accepted advertisements are bound to the keys of the sealed shares, and to the signatures on the survivors. A
//!   server that shows two lists of advertisements leaves sites with shares that do not open.
//!
//! # What a site stores
//!
//! Each step stores a [`journal::RoundRecord`] before its message exists for the caller. After a crash the site
//! continues from the record, and sends the same bytes again or refuses. The record must not be part of a backup: a
//! restored record may lack a set that the site has signed.
//!
//! # Limits
//!
//! * A dishonest site can spoil the sum by its own vector or by false shares. It learns no vector by that.
//! * The vectors must carry their noise when they are masked. The crate neither adds nor checks noise.
//! * The lookup tables of the `blahaj` crate's field GF(2⁸) are not accessed in constant time. An observer of a site's
//!   cache is outside the model of threats.

#![forbid(unsafe_code)]

pub mod agreement;
pub mod journal;
pub mod mask;
pub mod message;
pub mod modulus;
pub mod refusal;
pub mod roster;
pub mod round;
mod seal;
pub mod server;
pub mod sharing;
pub mod site;
pub mod site_set;

#[cfg(test)]
mod tests;
