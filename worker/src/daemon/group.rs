//! The site's judgement of the group of a job with secure aggregation: by its policy, its own key and the keys that it
//! has pinned.

use super::Site;
use crate::site::admission::ExaminedManifest;
use crate::site::group::{self, GroupError};
use crate::site::peer_keys::TrustedKeys;
use crate::site::policy::DatasetRules;
use crate::site::store::StoreError;

/// Returns the reason why this site does not accept the group of a manifest; `None` when it accepts the group, or there
/// is none.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn find_fault(
    site: &Site,
    examined: &ExaminedManifest,
    rules: &DatasetRules,
) -> Result<Option<GroupError>, StoreError> {
    let trusted = site.store.read(TrustedKeys::read)?;
    Ok(group::accept_examined(examined, &site.key.public(), &rules.secure_aggregation, &trusted).err())
}

/// Returns whether a proposal waits because a key of its group is not pinned, and logs the reason.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn waits_for_trust(
    site: &Site,
    examined: &ExaminedManifest,
    rules: &DatasetRules,
) -> Result<bool, StoreError> {
    let reason = missing_trust(site, examined, rules)?;
    if let Some(reason) = &reason {
        tracing::warn!(job.id = %examined.manifest.job, dataset.id = %examined.dataset.id, reason, "a proposal waits for the keys of its group, then for `undertone-worker approve` at this site");
    }
    Ok(reason.is_some())
}

/// Returns the reason why the job cannot be approved yet: a key of the group is not pinned.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn missing_trust(
    site: &Site,
    examined: &ExaminedManifest,
    rules: &DatasetRules,
) -> Result<Option<String>, StoreError> {
    let fault = find_fault(site, examined, rules)?;
    Ok(fault.filter(GroupError::is_missing_trust).map(|fault| fault.to_string()))
}
