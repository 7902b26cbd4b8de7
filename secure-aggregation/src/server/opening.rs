//! The end of a round: the remaining masks are restored from the revealed shares and removed from the sum.

use super::{MaskedSum, RevealPhase, ServerError, check_group};
use crate::agreement::{commit, mask_key, public_key};
use crate::mask::{self, MaskSign};
use crate::message::RevealedShare;
use crate::refusal::Refusal;
use crate::sharing::{Secret, restore};
use crate::site_set::SiteIndex;

/// Which secret of a site the revealed shares restore.
#[derive(Clone, Copy)]
enum SecretKind {
    Seed,
    Key,
}

impl RevealPhase<'_> {
    /// Opens the sum of the survivors' vectors, with coordinates from −2^{b−1} to 2^{b−1} − 1.
    ///
    /// # Errors
    /// [`Refusal::GroupTooSmall`] when too few sites have revealed, [`ServerError::FalseShares`] when shares restore
    /// another secret than committed.
    pub fn open(mut self) -> Result<Vec<i32>, ServerError> {
        let sum = std::mem::take(&mut self.masked.sum);
        self.open_sum(sum)
    }

    /// Opens a sum of exactly the survivors' masked vectors, modulo 2³², which the caller has added.
    ///
    /// # Errors
    /// As [`RevealPhase::open`]; [`Refusal::Length`] when the sum has another length.
    pub fn open_sum(self, mut sum: Vec<u32>) -> Result<Vec<i32>, ServerError> {
        check_group(self.masked.roster, self.messages.len())?;
        if sum.len() != self.masked.context.length() {
            return Err(Refusal::Length { found: sum.len(), expected: self.masked.context.length() }.into());
        }
        let MaskedSum { context, list, members, survivors, .. } = &self.masked;
        let modulus = context.modulus();
        let advertised = |site| list.get(site).ok_or(Refusal::UnknownSite { site });
        for site in survivors.iter() {
            let seed = self.restored(site, SecretKind::Seed)?;
            if commit(context, site, &seed) != advertised(site)?.commitment {
                return Err(ServerError::FalseShares { site });
            }
            mask::apply(&seed, modulus, MaskSign::Minus, &mut sum);
        }
        for site in members.difference(*survivors).iter() {
            let secret = self.restored(site, SecretKind::Key)?;
            if public_key(&secret) != advertised(site)?.mask_key {
                return Err(ServerError::FalseShares { site });
            }
            for peer in survivors.iter() {
                let key = mask_key(context, &secret, &advertised(peer)?.mask_key, [site, peer]);
                let key = key.ok_or(Refusal::WeakKey { site: peer })?;
                // The survivor's vector has the mask with the survivor's sign.
                mask::apply(&key, modulus, MaskSign::between(peer, site).inverse(), &mut sum);
            }
        }
        Ok(sum.into_iter().map(|value| modulus.center(value)).collect())
    }

    fn restored(&self, site: SiteIndex, kind: SecretKind) -> Result<Secret, ServerError> {
        let shares = self.messages.values().filter_map(|reveal| {
            let revealed: &[RevealedShare] = match kind {
                SecretKind::Seed => &reveal.seeds,
                SecretKind::Key => &reveal.keys,
            };
            revealed.iter().find(|share| share.of == site).map(|share| (reveal.site, &share.share))
        });
        let threshold = self.masked.roster.terms().smallest_group;
        restore(threshold, shares).ok_or(ServerError::FalseShares { site })
    }
}
