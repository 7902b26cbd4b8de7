//! `jobs`, `approve`, `refuse`, `hold`, `release`: lists jobs and takes decisions at the site's terminal. Decisions are
//! written to the site's database; the running worker obeys, signs and sends them. Signed manifests are the only
//! displayed content from the server.

mod review;
pub(super) mod whole;

use std::io::Write;

use time::OffsetDateTime;
use undertone_api::id::JobId;
use undertone_api::signed::{Manifest, SiteDecision, SiteHold};

use super::Failure;
use super::table::table;
use crate::config::Config;
use crate::site::folder::Folder;
use crate::site::holds::{self, HoldOrigin};
use crate::site::jobs::{self, DecisionOrigin, JobRecord, RunOutcome};
use crate::site::store::{Store, StoreError};

pub(super) fn show(folder: &Folder, out: &mut dyn Write) -> Result<(), Failure> {
    Config::load(folder)?;
    let store = Store::open(&folder.ledger())?;
    let seen = jobs::list_jobs(&store)?;
    if seen.is_empty() {
        writeln!(out, "No job was ever proposed to this site.")?;
        return Ok(());
    }
    let mut rows = Vec::new();
    for job in &seen {
        let manifest = manifest(job)?;
        let own = manifest.participants.iter().find(|party| party.dataset == job.dataset);
        let charge = own.and_then(|party| party.charge.as_ref());
        rows.push(vec![
            job.job.to_string(),
            job.seen_at.get(..16).unwrap_or(&job.seen_at).replace('T', " "),
            own.map_or_else(|| job.dataset.to_string(), |party| party.dataset_name.clone()),
            manifest.spec.kind().to_owned(),
            charge.map_or_else(|| "nothing".to_owned(), |charge| format!("{} releases", charge.releases)),
            decided(job),
            match holds::current_hold(&store, job.job, job.dataset)? {
                Some(held) => format!("held ({}): {}", held.by, held.word.reason),
                None => ended(job),
            },
            manifest.title,
        ]);
    }
    let head = ["JOB", "SEEN", "DATASET", "KIND", "CHARGES", "DECIDED", "RUN", "TITLE"];
    write!(out, "{}", table(&head, &rows))?;
    Ok(())
}

fn manifest(job: &JobRecord) -> Result<Manifest, StoreError> {
    // The manifest was verified before it was stored.
    serde_json::from_str(&job.signed.payload).map_err(|error| StoreError::Row(error.to_string()))
}

fn decided(job: &JobRecord) -> String {
    match &job.decision {
        None => "not yet".to_owned(),
        Some(said) if said.decision.approve => format!("approved ({})", said.by),
        Some(said) => format!("refused ({}): {}", said.by, said.decision.reason),
    }
}

fn ended(job: &JobRecord) -> String {
    match &job.run {
        None => "no".to_owned(),
        Some(run) => match &run.ended {
            None => "running".to_owned(),
            Some(RunOutcome::Done { .. }) => "done".to_owned(),
            Some(RunOutcome::GaveUp { reason }) => format!("gave up: {reason}"),
            Some(RunOutcome::Stopped { reason }) => format!("stopped: {reason}"),
        },
    }
}

/// Returns the single job whose id begins with `text`.
pub(super) fn find(known: impl Iterator<Item = JobId>, text: &str) -> Result<JobId, Failure> {
    let mut fitting: Vec<JobId> = known.filter(|job| job.to_string().starts_with(text)).collect();
    fitting.sort();
    fitting.dedup();
    match fitting[..] {
        [job] => Ok(job),
        [] => Err(format!("no job of this site begins with `{text}`: see `undertone-worker jobs`").into()),
        _ => Err(format!("{} jobs begin with `{text}`: give more of the id", fitting.len()).into()),
    }
}

/// Holds a job for every dataset of this site that it names, or releases it when there is no reason.
pub(super) fn hold(
    folder: &Folder,
    job: &str,
    reason: Option<&str>,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    Config::load(folder)?;
    if reason.is_some_and(|reason| !(1..=500).contains(&reason.trim().chars().count())) {
        return Err("--reason: 1 to 500 characters, for the others to read".into());
    }
    let store = Store::open(&folder.ledger())?;
    let seen = jobs::list_jobs(&store)?;
    let job = find(seen.iter().map(|seen| seen.job), job)?;
    let mut changed = 0;
    for part in seen.iter().filter(|seen| seen.job == job) {
        let ended = part.run.as_ref().is_some_and(|run| run.ended.is_some());
        let held = holds::current_hold(&store, job, part.dataset)?;
        if held.is_some() != reason.is_some() && !(ended && reason.is_some()) {
            let (hold, reason) = (reason.is_some(), reason.unwrap_or_default().trim().to_owned());
            let manifest = part.digest.clone();
            let word = SiteHold { manifest, job, dataset: part.dataset, hold, reason, at: now };
            holds::record(&store, &word, HoldOrigin::Terminal)?;
            changed += 1;
        }
    }
    match (changed, reason) {
        (0, Some(_)) => return Err("nothing to hold: this site holds the job already, or its part has ended".into()),
        (0, None) => return Err("this site does not hold the job: `undertone-worker jobs` shows what it holds".into()),
        (_, Some(_)) => writeln!(out, "Held: nothing of the job goes on here until `undertone-worker release {job}`.")?,
        (_, None) => writeln!(out, "Released: the job goes on here when the server offers it again.")?,
    }
    writeln!(out, "The running worker will tell the server.")?;
    Ok(())
}

/// Shows one job in full.
pub(super) fn whole(folder: &Folder, job: &str, out: &mut dyn Write) -> Result<(), Failure> {
    Config::load(folder)?;
    let store = Store::open(&folder.ledger())?;
    let seen = jobs::list_jobs(&store)?;
    let job = find(seen.iter().map(|seen| seen.job), job)?;
    whole::show(folder, &store, seen.iter().filter(|seen| seen.job == job), out)
}

/// Writes a decision for every dataset of this site that the job was proposed for.
pub(super) fn decide(
    folder: &Folder,
    job: &str,
    refusal: Option<&str>,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    Config::load(folder)?;
    if refusal.is_some_and(|reason| !(1..=1000).contains(&reason.trim().chars().count())) {
        return Err("--reason: 1 to 1,000 characters, for the proposer to read".into());
    }
    let store = Store::open(&folder.ledger())?;
    let seen = jobs::list_jobs(&store)?;
    let job = find(seen.iter().map(|seen| seen.job), job)?;
    for part in seen.iter().filter(|seen| seen.job == job) {
        let manifest = manifest(part)?;
        let party = manifest.participants.iter().find(|party| party.dataset == part.dataset);
        if let (Some(party), None) = (party, refusal) {
            // The steward sees the content of the agreement.
            whole::review(folder, &store, &manifest, party, out)?;
        }
        let decision = SiteDecision {
            manifest: part.digest.clone(),
            job,
            dataset: part.dataset,
            approve: refusal.is_none(),
            reason: refusal.unwrap_or_default().to_owned(),
            at: now,
        };
        jobs::decide(&store, &decision, DecisionOrigin::Terminal)?;
        // An answer ends a hold that waited for this answer alone.
        if let Some(held) =
            holds::current_hold(&store, job, part.dataset)?.filter(|held| held.by == HoldOrigin::Worker.word())
        {
            let word = SiteHold { hold: false, reason: String::new(), at: now, ..held.word };
            holds::record(&store, &word, HoldOrigin::Worker)?;
        }
        let dataset = party.map_or_else(String::new, |party| party.dataset_name.clone());
        let said = if refusal.is_none() { "approved" } else { "refused" };
        writeln!(out, "{said}: `{}` on dataset `{dataset}`, manifest {}", manifest.title, part.digest)?;
    }
    writeln!(out, "The running worker will tell the server.")?;
    Ok(())
}
