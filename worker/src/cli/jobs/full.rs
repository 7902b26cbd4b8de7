//! `jobs JOB`: everything that a steward at the terminal needs for a decision, from the signed manifest and from this
//! site's own ledger and policy; the server's statements are not used.

use std::io::Write;

use undertone_api::id::DatasetId;
use undertone_api::job::terms::format_term;
use undertone_api::job::{PartyTerms, Spec, TermRange};
use undertone_api::signed::{Manifest, ManifestParticipant, ModelOrigin};

use super::super::CommandFailure;
use super::super::table::format_table;
use super::{describe_decision, describe_run, group, parse_manifest};
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
) -> Result<(), CommandFailure> {
    let mut is_first = true;
    for part in parts {
        let manifest = parse_manifest(part)?;
        if is_first {
            write_head(&manifest, &part.digest, out)?;
            is_first = false;
        }
        write_part(folder, store, part, &manifest, out)?;
    }
    Ok(())
}

/// Writes the parts of a job that all datasets here share.
pub(in crate::cli) fn write_head(manifest: &Manifest, digest: &str, out: &mut dyn Write) -> Result<(), CommandFailure> {
    writeln!(out, "{}, proposed by {}", manifest.title, manifest.proposed_by)?;
    writeln!(out, "Job {}, {}, manifest {digest}", manifest.job, manifest.spec.kind())?;
    if let Some(limits) = &manifest.limits {
        writeln!(
            out,
            "At most {} rounds, {} releases of each participant, {} seconds a round; the job ends by {}.",
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
    write!(out, "\nParticipants\n{}", format_table(&["DATASET", "OWNER", "PURPOSE", "UNITS", "RELEASES"], &rows))?;
    if let Some(ModelOrigin { digest, job, title, file, source }) = &manifest.initial_model {
        writeln!(out, "\nBegins with `{file}` of the job `{title}` ({job}), made from {}", source.label())?;
        writeln!(out, "SHA-256 {digest}")?;
    }
    let spec = serde_json::to_string_pretty(&manifest.spec)?;
    writeln!(out, "\nThe signed job\n{spec}")?;
    Ok(())
}

/// Writes the part of one dataset of this site.
fn write_part(
    folder: &Folder,
    store: &Store,
    part: &JobRecord,
    manifest: &Manifest,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let Some(party) = manifest.participants.iter().find(|party| party.dataset == part.dataset) else { return Ok(()) };
    writeln!(out, "\nDataset `{}` of this site", party.dataset_name)?;
    write_terms(manifest, party, out)?;
    review(folder, store, manifest, party, out)?;
    if let Some(problem) = group::write_group(folder, store, manifest, &part.digest, party, out)? {
        writeln!(out, "This site does not accept the group: {problem}")?;
    }
    let policy = Policy::load(&folder.policy())?.with_lineages(&dataset_lineages(store)?);
    let cost_refusal = write_cost(folder, store, &policy, manifest, party, out)?;
    let verdict = rules_for(folder, store, &policy, party)?.judge(&manifest.spec, party.charge.as_ref());
    match verdict.err().or(cost_refusal) {
        None => writeln!(out, "This site's policy allows the job.")?,
        Some(refusal) => writeln!(out, "This site's policy refuses the job: {refusal}")?,
    }
    writeln!(out, "Decided: {}", describe_decision(part))?;
    if let Some(key) = consent::approved_with(store, &part.digest, part.job, part.dataset)? {
        writeln!(out, "A steward signed its approval; this site verified the signature with the key {key}.")?;
    }
    match holds::current_hold(store, part.job, part.dataset)? {
        Some(hold) => writeln!(out, "Held by the {}: {}", hold.by, hold.word.reason)?,
        None => writeln!(out, "Run: {}", describe_run(part))?,
    }
    Ok(())
}

/// Writes the highest cost in money, if there is one, by this site's own prices; returns the policy's refusal of it.
fn write_cost(
    folder: &Folder,
    store: &Store,
    policy: &Policy,
    manifest: &Manifest,
    party: &ManifestParticipant,
    out: &mut dyn Write,
) -> Result<Option<PolicyRefusal>, CommandFailure> {
    let Spec::Transcription(spec) = &manifest.spec else { return Ok(None) };
    let config = Config::load(folder)?;
    let (datasets, _) = scan(folder, store, policy)?;
    let Some(local) = datasets.into_iter().find(|local| local.id == Some(party.dataset)) else { return Ok(None) };
    let dataset = local.to_dataset(party.dataset, config.organization, config.worker);
    let providers = &config.transcription.providers;
    if let Ok(most) = most_cost(spec, &dataset, providers) {
        let most: Vec<String> = most.iter().map(ToString::to_string).collect();
        writeln!(out, "By this site's own prices, external recognizers cost at most {}.", most.join(" and "))?;
    }
    Ok(policy.rules(&party.dataset_name).judge_cost(&manifest.spec, &dataset, providers).err())
}

/// Returns the rules for a participant's data, without the limits of units that the data do not distinguish.
fn rules_for(
    folder: &Folder,
    store: &Store,
    policy: &Policy,
    party: &ManifestParticipant,
) -> Result<DatasetRules, CommandFailure> {
    let (datasets, _) = scan(folder, store, policy)?;
    let rules = policy.rules(&party.dataset_name);
    let local = datasets.iter().find(|local| local.id == Some(party.dataset));
    Ok(local.map_or_else(|| rules.clone(), |local| rules.clone().for_units(&units_of(local, &datasets))))
}

/// Returns a proposal under this site's answer to its open terms, with the charge of that answer; unchanged without one.
///
/// # Errors
/// The first term outside its range, and the policy's refusal of the answer.
pub(super) fn answer_manifest(
    folder: &Folder,
    store: &Store,
    mut manifest: Manifest,
    dataset: DatasetId,
    terms: &PartyTerms,
) -> Result<Manifest, CommandFailure> {
    if terms.is_empty() {
        return Ok(manifest);
    }
    if let Some(violation) = manifest.spec.check_terms(dataset, terms).first() {
        return Err(format!("--term: {}", violation.message).into());
    }
    let config = Config::load(folder)?;
    let policy = Policy::load(&folder.policy())?.with_lineages(&dataset_lineages(store)?);
    let (datasets, _) = scan(folder, store, &policy)?;
    let local = datasets.into_iter().find(|local| local.id == Some(dataset));
    let local = local.ok_or("the job names a dataset that is not at this site")?;
    manifest.spec = manifest.spec.with_terms(dataset, terms);
    let charge = manifest.spec.cost(&local.to_dataset(dataset, config.organization, config.worker));
    for party in manifest.participants.iter_mut().filter(|party| party.dataset == dataset) {
        party.charge.clone_from(&charge);
        let rules = rules_for(folder, store, &policy, party)?;
        if let Err(refusal) = rules.judge(&manifest.spec, party.charge.as_ref()) {
            return Err(format!("this site's policy refuses these terms: {refusal}").into());
        }
    }
    Ok(manifest)
}

/// Writes the terms that a proposal leaves to a dataset's owner, with their values in `manifest`.
pub(super) fn write_terms(
    manifest: &Manifest,
    party: &ManifestParticipant,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let open = if manifest.awaits_terms() { manifest.spec.open_terms(party.dataset) } else { Vec::new() };
    for TermRange { term, min, max, value } in open {
        let [value, min, max] = [value, min, max].map(format_term);
        writeln!(
            out,
            "Open to this site: {} is {value}, from {min} to {max} (`--term {}=VALUE`).",
            term.label(),
            term.name()
        )?;
    }
    Ok(())
}

/// Writes the review for an owner: the cost and the disclosures.
pub(super) fn review(
    folder: &Folder,
    store: &Store,
    manifest: &Manifest,
    party: &ManifestParticipant,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let policy = Policy::load(&folder.policy())?.with_lineages(&dataset_lineages(store)?);
    let rules = rules_for(folder, store, &policy, party)?;
    let mut epsilon = None;
    match &party.charge {
        None => writeln!(out, "The job charges nothing: only public data leave.")?,
        Some(charge) => {
            let unit = format!("{:?}", charge.unit).to_lowercase();
            writeln!(
                out,
                "The job charges {} releases for each {unit}: {}",
                charge.releases,
                serde_json::to_string(&charge.event)?
            )?;
            match rules.unit_limits(charge.unit) {
                Ok(limits) => {
                    let books: LedgerBooks = store.read(LedgerBooks::read)?;
                    epsilon = super::review::write_cost(&books, manifest, party, charge, limits.own, out)?;
                    if !charge.is_in_the_clear() {
                        super::review::write_other_units(&books, manifest, party, charge, &limits, out)?;
                    }
                }
                Err(_) => writeln!(
                    out,
                    "This site's policy sets no limit for each {unit}, so this site will refuse the job."
                )?,
            }
        }
    }
    super::review::write_disclosures(manifest, party, rules.visibility, epsilon, out)
}
