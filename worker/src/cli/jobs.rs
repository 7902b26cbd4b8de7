//! `jobs`, `approve`, `refuse`: what the site's terminal says to proposed jobs. Decisions are written to the site's
//! database; the running worker signs and tells them.

use std::io::Write;

use time::OffsetDateTime;
use undertone_api::id::JobId;
use undertone_api::signed::{Decision, Manifest};

use super::Failure;
use super::table::table;
use crate::config::Config;
use crate::site::folder::Folder;
use crate::site::jobs::{self, By, Outcome, Seen};
use crate::site::store::{Store, StoreError};

pub(super) fn show(folder: &Folder, out: &mut dyn Write) -> Result<(), Failure> {
    Config::load(folder)?;
    let seen = jobs::seen(&Store::open(&folder.ledger())?)?;
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
            ended(job),
            manifest.title,
        ]);
    }
    let head = ["JOB", "SEEN", "DATASET", "KIND", "CHARGES", "DECIDED", "RUN", "TITLE"];
    write!(out, "{}", table(&head, &rows))?;
    Ok(())
}

fn manifest(job: &Seen) -> Result<Manifest, StoreError> {
    // It was verified before it was stored.
    serde_json::from_str(&job.signed.payload).map_err(|error| StoreError::Row(error.to_string()))
}

fn decided(job: &Seen) -> String {
    match &job.decided {
        None => "not yet".to_owned(),
        Some(said) if said.decision.approve => format!("approved ({})", said.by),
        Some(said) => format!("refused ({}): {}", said.by, said.decision.reason),
    }
}

fn ended(job: &Seen) -> String {
    match &job.run {
        None => "no".to_owned(),
        Some(run) => match &run.ended {
            None => "running".to_owned(),
            Some(Outcome::Done { .. }) => "done".to_owned(),
            Some(Outcome::GaveUp { reason }) => format!("gave up: {reason}"),
            Some(Outcome::Stopped { reason }) => format!("stopped: {reason}"),
        },
    }
}

/// The one job whose id begins with `text`.
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

/// Writes a decision on every dataset of this site that the job was proposed for.
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
    let seen = jobs::seen(&store)?;
    let job = find(seen.iter().map(|seen| seen.job), job)?;
    for part in seen.iter().filter(|seen| seen.job == job) {
        let decision = Decision {
            manifest: part.digest.clone(),
            job,
            dataset: part.dataset,
            approve: refusal.is_none(),
            reason: refusal.unwrap_or_default().to_owned(),
            at: now,
        };
        jobs::decide(&store, &decision, By::Terminal)?;
        let manifest = manifest(part)?;
        let dataset = manifest.participants.iter().find(|party| party.dataset == part.dataset);
        let dataset = dataset.map_or_else(String::new, |party| party.dataset_name.clone());
        let said = if refusal.is_none() { "approved" } else { "refused" };
        writeln!(out, "{said}: `{}` on dataset `{dataset}`, manifest {}", manifest.title, part.digest)?;
    }
    writeln!(out, "The running worker will tell the server.")?;
    Ok(())
}
