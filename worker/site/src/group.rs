//! The group of a job with secure aggregation, as this site accepts it (`privacy.md`, 14.8).
//!
//! The signed manifest names the members and their identity keys. The server has chosen these keys, so a site accepts a
//! group only if its own key is in it, if each other key is one that it trusts ([`super::peer_keys`]), and if a sum has
//! as many honest sites as its policy asks for. The policy and the trusted keys are read again for each round.

use ed25519_dalek::VerifyingKey;
use undertone_api::job::{MaskedGroup, Spec};
use undertone_api::signed::{Manifest, ManifestParticipant, key_id, public_key};
use undertone_secure_aggregation::modulus::{Modulus, ModulusError};
use undertone_secure_aggregation::roster::{AcceptedRoster, GroupTerms, Roster, RosterError};
use undertone_secure_aggregation::round::{RoundContext, RoundError};

use super::admission::ExaminedManifest;
use super::peer_keys::TrustedKeys;
use super::policy::AggregationRules;

/// Reasons why this site does not accept a group. The proposer may read every text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The policy does not allow secure aggregation.
    #[error("this site's policy does not allow secure aggregation (`jobs.secure_aggregation`)")]
    NotAllowed,
    /// A member has no key in the manifest.
    #[error("the manifest has no valid identity key of `{0}`, a member of its group: propose the job again")]
    MissingKey(String),
    /// This site's key in the manifest is another one.
    #[error("this site has another identity key than the manifest states: its key was replaced; propose the job again")]
    OwnKey,
    /// The site does not trust a member's key.
    #[error(
        "the key of `{dataset}` of {organization}, with the fingerprint {fingerprint}, is not pinned at this site: compare \
         the fingerprint with that site's operator, then run `undertone-worker peers pin {fingerprint}` here"
    )]
    UntrustedKey {
        /// The member's dataset.
        dataset: String,
        /// Its organization.
        organization: String,
        /// SHA-256 of the key, hex.
        fingerprint: String,
    },
    /// The group is not valid, or too small for the policy.
    #[error("this site does not accept the group of the job: {0}")]
    Roster(#[from] RosterError),
    /// The digest of the manifest is not a digest.
    #[error("the manifest's digest is not a SHA-256")]
    Digest,
    /// The vectors have no form.
    #[error("the group of the job has no form of vectors: {0}")]
    Round(#[from] RoundError),
    /// The modulus does not exist.
    #[error("the group of the job has no modulus: {0}")]
    Modulus(#[from] ModulusError),
}

impl GroupError {
    /// Returns whether the operator of this site can mend it, so that the job need not be refused.
    pub const fn is_missing_trust(&self) -> bool {
        matches!(self, Self::UntrustedKey { .. })
    }
}

/// The key of a member, as the manifest states it.
#[derive(Debug, Clone, Copy)]
pub struct GroupMember<'a> {
    /// The member.
    pub party: &'a ManifestParticipant,
    /// The identity key of its site.
    pub key: VerifyingKey,
}

impl GroupMember<'_> {
    /// Returns the fingerprint of the key: SHA-256, hex.
    pub fn fingerprint(&self) -> String {
        key_id(&self.key)
    }
}

/// Returns the group of a manifest's masked series, if this participant is a member of one. `inputs` is the number of
/// coefficients of its dataset.
pub fn group_of(manifest: &Manifest, own: &ManifestParticipant, inputs: u32) -> Option<MaskedGroup> {
    let Spec::DpSgd(spec) = &manifest.spec else { return None };
    let units = |id| manifest.participants.iter().find(|party| party.dataset == id).map(|party| party.units);
    spec.masked_group(inputs, units).filter(|group| group.datasets.contains(&own.dataset))
}

/// Returns the members of a group in its order, with their keys.
///
/// # Errors
/// [`GroupError::MissingKey`] when the manifest has no valid key of a member.
pub fn members<'a>(manifest: &'a Manifest, group: &MaskedGroup) -> Result<Vec<GroupMember<'a>>, GroupError> {
    let member = |id| {
        let party = manifest.participants.iter().find(|party| party.dataset == id);
        let missing = || GroupError::MissingKey(party.map_or_else(String::new, |party| party.dataset_name.clone()));
        let party = party.ok_or_else(missing)?;
        let key = party.site_key.as_deref().and_then(|key| public_key(key).ok()).ok_or_else(missing)?;
        Ok(GroupMember { party, key })
    };
    group.datasets.iter().map(|id| member(*id)).collect()
}

/// Accepts the group of a manifest with this digest (hex), by the site's own rules and its trusted keys.
///
/// # Errors
/// [`GroupError`], the first one.
pub fn accept(
    manifest: &Manifest,
    digest: &str,
    group: &MaskedGroup,
    own: (&ManifestParticipant, &VerifyingKey),
    rules: &AggregationRules,
    trusted: &TrustedKeys,
) -> Result<AcceptedRoster, GroupError> {
    if !rules.allowed {
        return Err(GroupError::NotAllowed);
    }
    let (party, key) = own;
    let members = members(manifest, group)?;
    if members.iter().find(|member| member.party.dataset == party.dataset).is_none_or(|member| member.key != *key) {
        return Err(GroupError::OwnKey);
    }
    let digest: [u8; 32] =
        hex::decode(digest).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(GroupError::Digest)?;
    let keys: Vec<[u8; 32]> = members.iter().map(|member| member.key.to_bytes()).collect();
    let terms = GroupTerms { smallest_group: group.smallest_group, colluding: group.colluding };
    let roster = Roster::new(digest, &keys, terms)?;
    let is_trusted = |key: &VerifyingKey| trusted.contains(key);
    roster.accept(key, rules.group_policy(), is_trusted).map_err(|error| match error {
        RosterError::UntrustedKey(site) => {
            members.get(usize::from(site)).map_or(GroupError::Roster(error), |member| GroupError::UntrustedKey {
                dataset: member.party.dataset_name.clone(),
                organization: member.party.organization_name.clone(),
                fingerprint: member.fingerprint(),
            })
        }
        error => error.into(),
    })
}

/// Accepts the group of an examined manifest as [`accept`] does; `None` without a group.
///
/// # Errors
/// [`GroupError`], the first one.
pub fn accept_examined(
    examined: &ExaminedManifest,
    key: &VerifyingKey,
    rules: &AggregationRules,
    trusted: &TrustedKeys,
) -> Result<Option<(MaskedGroup, AcceptedRoster)>, GroupError> {
    let Some(group) = group_of(&examined.manifest, examined.own(), examined.dataset.inputs) else { return Ok(None) };
    let own = (examined.own(), key);
    let accepted = accept(&examined.manifest, &examined.digest, &group, own, rules, trusted)?;
    Ok(Some((group, accepted)))
}

/// Returns the context of a round of a group.
///
/// # Errors
/// [`GroupError`] when the vectors have no form.
pub fn round_context(
    roster: &Roster,
    group: &MaskedGroup,
    series: &str,
    round: u32,
) -> Result<RoundContext, GroupError> {
    let modulus = Modulus::new(group.bits)?;
    Ok(RoundContext::new(roster, series, round, group.length, modulus)?)
}
