//! `jobs JOB`: everything that a steward at the terminal decides by. It is read from the signed manifest and from this
//! site's own ledger and policy; the server's statements are not used.

use std::io::Write;

use undertone_api::job::Spec;
use undertone_api::signed::{Manifest, ManifestParticipant};

use super::super::Failure;
use super::super::table::table;
use super::{decided, ended, manifest};
use crate::config::Config;
use crate::site::books::LedgerBooks;
use crate::site::consent;
use crate::site::datasets::{dataset_lineages, scan};
use crate::site::folder::Folder;
use crate::site::holds;
use crate::site::jobs::JobRecord;
use crate::site::policy::{DatasetRules, Policy, PolicyRefusal, most_cost, units_of};
use crate::site::store::Store;

pub(super) fn show<'a>(
    folder: &Folder,
    store: &Store,
    parts: impl Iterator<Item = &'a JobRecord>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut first = true;
    for part in parts {
        let manifest = manifest(part)?;
        if first {
            head(&manifest, &part.digest, out)?;
            first = false;
        }
        own(folder, store, part, &manifest, out)?;
    }
    Ok(())
}

/// Writes the parts of a job that all datasets here share.
pub(in crate::cli) fn head(manifest: &Manifest, digest: &str, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{}, proposed by {}", manifest.title, manifest.proposed_by)?;
    writeln!(out, "Job {}, {}, manifest {digest}", manifest.job, manifest.spec.kind())?;
    if let Some(limits) = &manifest.limits {
        writeln!(
            out,
            "At most {} rounds, {} releases a party, {} seconds a round; nothing runs after {}.",
            limits.rounds,
            limits.releases,
            limits.round_seconds,
            limits.not_after.date()
        )?;
    }
    let rows: Vec<_> = manifest
        .participants
        .iter()
        .map(|party| {
            vec![
                party.dataset_name.clone(),
                party.organization_name.clone(),
                format!("{:?}", party.purpose).to_lowercase(),
                party.units.to_string(),
                party.charge.as_ref().map_or_else(|| "nothing".to_owned(), |charge| charge.releases.to_string()),
            ]
        })
        .collect();
    write!(out, "\nWho takes part\n{}", table(&["DATASET", "OWNER", "PURPOSE", "UNITS", "RELEASES"], &rows))?;
    let spec = serde_json::to_string_pretty(&manifest.spec)?;
    writeln!(out, "\nWhat is to be done, as it is signed\n{spec}")?;
    Ok(())
}

/// Writes the part of one dataset of this site.
fn own(
    folder: &Folder,
    store: &Store,
    part: &JobRecord,
    manifest: &Manifest,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Some(party) = manifest.participants.iter().find(|party| party.dataset == part.dataset) else { return Ok(()) };
    writeln!(out, "\nFor `{}` of this site", party.dataset_name)?;
    review(folder, store, manifest, party, out)?;
    let policy = Policy::load(&folder.policy())?.with_lineages(&dataset_lineages(store)?);
    let affordable = money(folder, store, &policy, manifest, party, out)?;
    let allowed = rules(folder, store, &policy, party)?.judge(&manifest.spec, party.charge.as_ref());
    match allowed.and(affordable) {
        Ok(()) => writeln!(out, "This site's policy allows it.")?,
        Err(refusal) => writeln!(out, "This site's policy refuses it: {refusal}")?,
    }
    writeln!(out, "Decided: {}", decided(part))?;
    if let Some(key) = consent::approved_with(store, &part.digest, part.job, part.dataset)? {
        writeln!(out, "A steward signed its approval; this site verified the signature with the key {key}.")?;
    }
    match holds::current_hold(store, part.job, part.dataset)? {
        Some(held) => writeln!(out, "Held by the {}: {}", held.by, held.word.reason)?,
        None => writeln!(out, "Run: {}", ended(part))?,
    }
    Ok(())
}

/// Writes the highest cost in money, if there is one, by this site's own prices; returns whether the policy allows it.
fn money(
    folder: &Folder,
    store: &Store,
    policy: &Policy,
    manifest: &Manifest,
    party: &ManifestParticipant,
    out: &mut dyn Write,
) -> Result<Result<(), PolicyRefusal>, Failure> {
    let Spec::Transcription(spec) = &manifest.spec else { return Ok(Ok(())) };
    let (config, (known, _)) = (Config::load(folder)?, scan(folder, store, policy)?);
    let Some(local) = known.into_iter().find(|local| local.id == Some(party.dataset)) else { return Ok(Ok(())) };
    let dataset = local.to_dataset(party.dataset, config.organization, config.worker);
    let providers = &config.transcription.providers;
    if let Ok(most) = most_cost(spec, &dataset, providers) {
        let most: Vec<String> = most.iter().map(ToString::to_string).collect();
        writeln!(out, "By this site's own prices it costs at most {} at recognizers outside.", most.join(" and "))?;
    }
    Ok(policy.rules(&party.dataset_name).judge_cost(&manifest.spec, &dataset, providers))
}

/// Returns the rules for a participant's data, without the limits of units that the data do not distinguish.
fn rules(
    folder: &Folder,
    store: &Store,
    policy: &Policy,
    party: &ManifestParticipant,
) -> Result<DatasetRules, Failure> {
    let (known, rules) = (scan(folder, store, policy)?.0, policy.rules(&party.dataset_name));
    let local = known.iter().find(|local| local.id == Some(party.dataset));
    Ok(local.map_or_else(|| rules.clone(), |local| rules.clone().for_units(&units_of(local, &known))))
}

/// Writes the review for an owner: the cost and the disclosures.
pub(super) fn review(
    folder: &Folder,
    store: &Store,
    manifest: &Manifest,
    party: &ManifestParticipant,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let policy = Policy::load(&folder.policy())?.with_lineages(&dataset_lineages(store)?);
    let rules = rules(folder, store, &policy, party)?;
    let mut epsilon = None;
    match &party.charge {
        None => writeln!(out, "It charges nothing: nothing of it that is not public leaves.")?,
        Some(charge) => {
            let unit = format!("{:?}", charge.unit).to_lowercase();
            writeln!(
                out,
                "It charges {} releases for each {unit}: {}",
                charge.releases,
                serde_json::to_string(&charge.event)?
            )?;
            match rules.unit_limits(charge.unit) {
                Ok(limits) => {
                    let books: LedgerBooks = store.read(LedgerBooks::read)?;
                    epsilon = super::review::cost(&books, manifest, party, charge, limits.own, out)?;
                    if !charge.is_in_the_clear() {
                        super::review::others(&books, manifest, party, charge, &limits, out)?;
                    }
                }
                Err(_) => writeln!(out, "This site's policy sets no limit for each {unit}: it will refuse the job.")?,
            }
        }
    }
    super::review::learned(manifest, party, rules.visibility, epsilon, out)
}
