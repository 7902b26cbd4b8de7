//! The group of a job with secure aggregation: the keys of its members with this site's trust in them, and the guarantee
//! that is left when all other sites collude with the server.

use std::io::Write;

use undertone_api::job::Charge;
use undertone_api::plan::epsilon_alone;
use undertone_api::signed::{Manifest, ManifestParticipant};

use super::super::CommandFailure;
use super::super::table::{format_table, round_up};
use crate::site::datasets::{dataset_lineages, scan};
use crate::site::folder::Folder;
use crate::site::group::{self, GroupError};
use crate::site::keys::SiteKey;
use crate::site::peer_keys::TrustedKeys;
use crate::site::policy::Policy;
use crate::site::store::Store;

/// Writes the group of a participant of this site, if it is a member of one. Returns the reason why this site does not
/// accept the group.
pub(super) fn write_group(
    folder: &Folder,
    store: &Store,
    manifest: &Manifest,
    digest: &str,
    party: &ManifestParticipant,
    out: &mut dyn Write,
) -> Result<Option<GroupError>, CommandFailure> {
    let policy = Policy::load(&folder.policy())?.with_lineages(&dataset_lineages(store)?);
    let (datasets, _) = scan(folder, store, &policy)?;
    let inputs = datasets.iter().find(|local| local.id == Some(party.dataset)).map_or(1, |local| local.facts.inputs);
    let Some(group) = group::group_of(manifest, party, inputs) else { return Ok(None) };
    let own = SiteKey::load(&folder.key())?.public();
    let trusted = store.read(TrustedKeys::read)?;
    writeln!(
        out,
        "\nSecure aggregation: the server learns sums of {} sites or more, of which {} may collude with it.",
        group.smallest_group, group.colluding
    )?;
    let members = match group::members(manifest, &group) {
        Ok(members) => members,
        Err(error) => return Ok(Some(error)),
    };
    let rows: Vec<Vec<String>> = members
        .iter()
        .map(|member| {
            let trust = if member.key == own {
                "this site"
            } else if trusted.contains(&member.key) {
                "trusted"
            } else {
                "NOT PINNED"
            };
            let party = member.party;
            vec![party.dataset_name.clone(), party.organization_name.clone(), trust.to_owned(), member.fingerprint()]
        })
        .collect();
    write!(out, "{}", format_table(&["DATASET", "OWNER", "KEY", "FINGERPRINT"], &rows))?;
    let rules = policy.rules(&party.dataset_name);
    let aggregation = &rules.secure_aggregation;
    if let Some(charge) = &party.charge
        && let Some(event) = aggregation.insider_event(&charge.event)
        && let Some(limit) = rules.limits.limit(charge.unit)
    {
        let insider = Charge { event, ..charge.clone() };
        let epsilon = epsilon_alone(&insider, limit.delta).map_or_else(|| "infinite".to_owned(), round_up);
        writeln!(
            out,
            "The charge is for the server with up to {} colluding sites. Against the server with all other sites, this job \
             alone: epsilon {epsilon} at delta {:e}.",
            group.colluding,
            limit.delta.get()
        )?;
    }
    Ok(group::accept(manifest, digest, &group, (party, &own), aggregation, &trusted).err())
}
