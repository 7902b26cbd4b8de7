//! `jobs`, `approve`, `refuse`, `hold`, `release`, `leave`: lists jobs and takes decisions at the site's terminal. Decisions are
//! written to the site's database; the running worker obeys, signs and sends them. Signed manifests are the only
//! displayed content from the server.

pub(super) mod full;
mod group;
mod review;

use std::io::Write;

use time::OffsetDateTime;
use undertone_api::id::JobId;
use undertone_api::job::MOST_REASON;
use undertone_api::job::PartyTerms;
use undertone_api::signed::{Manifest, SiteDecision, SiteDeparture, SiteHold};

use super::CommandFailure;
use super::table::format_table;
use crate::config::Config;
use crate::site::departures;
use crate::site::folder::Folder;
use crate::site::holds::{self, HoldOrigin};
use crate::site::jobs::{self, DecisionOrigin, JobRecord, RunOutcome};
use crate::site::store::{Store, StoreError};

pub(super) fn list(folder: &Folder, out: &mut dyn Write) -> Result<(), CommandFailure> {
    Config::load(folder)?;
    let store = Store::open(&folder.ledger())?;
    let proposals = jobs::list_jobs(&store)?;
    if proposals.is_empty() {
        writeln!(out, "No job has been proposed to this site.")?;
        return Ok(());
    }
    let mut rows = Vec::new();
    for job in &proposals {
        let manifest = parse_manifest(job)?;
        let own = manifest.participants.iter().find(|party| party.dataset == job.dataset);
        let charge = own.and_then(|party| party.charge.as_ref());
        rows.push(vec![
            job.job.to_string(),
            job.seen_at.get(..16).unwrap_or(&job.seen_at).replace('T', " "),
            own.map_or_else(|| job.dataset.to_string(), |party| party.dataset_name.clone()),
            manifest.spec.kind().to_owned(),
            charge.map_or_else(|| "nothing".to_owned(), |charge| format!("{} releases", charge.releases)),
            describe_decision(job),
            match holds::current_hold(&store, job.job, job.dataset)? {
                Some(hold) => format!("held ({}): {}", hold.by, hold.word.reason),
                None => describe_run(job),
            },
            manifest.title,
        ]);
    }
    let head = ["JOB", "SEEN", "DATASET", "KIND", "CHARGES", "DECIDED", "RUN", "TITLE"];
    write!(out, "{}", format_table(&head, &rows))?;
    Ok(())
}

fn parse_manifest(job: &JobRecord) -> Result<Manifest, StoreError> {
    // The manifest was verified before it was stored.
    serde_json::from_str(&job.signed.payload).map_err(|error| StoreError::Row(error.to_string()))
}

fn describe_decision(job: &JobRecord) -> String {
    match &job.decision {
        None => "not yet".to_owned(),
        Some(answer) if answer.decision.approve && answer.decision.terms.is_empty() => {
            format!("approved ({})", answer.by)
        }
        Some(answer) if answer.decision.approve => format!("approved ({}): {}", answer.by, answer.decision.terms),
        Some(answer) => format!("refused ({}): {}", answer.by, answer.decision.reason),
    }
}

fn describe_run(job: &JobRecord) -> String {
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
pub(super) fn find_job(jobs: impl Iterator<Item = JobId>, text: &str) -> Result<JobId, CommandFailure> {
    let mut matches: Vec<JobId> = jobs.filter(|job| job.to_string().starts_with(text)).collect();
    matches.sort();
    matches.dedup();
    match matches[..] {
        [job] => Ok(job),
        [] => Err(format!("no job of this site begins with `{text}`: see `undertone-worker jobs`").into()),
        _ => Err(format!("{} jobs begin with `{text}`: give a longer prefix of the id", matches.len()).into()),
    }
}

/// Holds a job for every dataset of this site that it names, or releases it when there is no reason.
pub(super) fn hold(
    folder: &Folder,
    job: &str,
    reason: Option<&str>,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    Config::load(folder)?;
    if let Some(reason) = reason {
        check_reason(reason)?;
    }
    let store = Store::open(&folder.ledger())?;
    let proposals = jobs::list_jobs(&store)?;
    let job = find_job(proposals.iter().map(|proposal| proposal.job), job)?;
    let mut changed = 0;
    for part in proposals.iter().filter(|proposal| proposal.job == job) {
        let has_ended = part.run.as_ref().is_some_and(|run| run.ended.is_some());
        let current = holds::current_hold(&store, job, part.dataset)?;
        if current.is_some() != reason.is_some() && !(has_ended && reason.is_some()) {
            let statement = SiteHold {
                manifest: part.digest.clone(),
                job,
                dataset: part.dataset,
                hold: reason.is_some(),
                reason: reason.unwrap_or_default().trim().to_owned(),
                at: now,
            };
            holds::record(&store, &statement, HoldOrigin::Terminal)?;
            changed += 1;
        }
    }
    match (changed, reason) {
        (0, Some(_)) => return Err("nothing changed: this site holds the job already, or its part has ended".into()),
        (0, None) => return Err("this site does not hold the job: `undertone-worker jobs` lists the held jobs".into()),
        (_, Some(_)) => {
            writeln!(out, "Held: this site stops its part of the job until `undertone-worker release {job}`.")?;
        }
        (_, None) => writeln!(out, "Released: the job continues here when the server offers it again.")?,
    }
    writeln!(out, "The running worker will notify the server.")?;
    Ok(())
}

fn check_reason(reason: &str) -> Result<(), CommandFailure> {
    if (1..=MOST_REASON).contains(&reason.trim().chars().count()) {
        return Ok(());
    }
    Err(format!("--reason: 1 to {MOST_REASON} characters, which the other participants can read").into())
}

/// Leaves a job for every dataset of this site that it names and whose part has not ended.
pub(super) fn leave(
    folder: &Folder,
    job: &str,
    reason: &str,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    Config::load(folder)?;
    let reason = reason.trim();
    check_reason(reason)?;
    let store = Store::open(&folder.ledger())?;
    let proposals = jobs::list_jobs(&store)?;
    let job = find_job(proposals.iter().map(|proposal| proposal.job), job)?;
    let mut datasets = Vec::new();
    for part in proposals.iter().filter(|proposal| proposal.job == job) {
        if part.run.as_ref().is_some_and(|run| run.ended.is_some()) {
            continue;
        }
        let statement = SiteDeparture {
            manifest: part.digest.clone(),
            job,
            dataset: part.dataset,
            reason: reason.to_owned(),
            at: now,
        };
        if departures::record(&store, &statement)? {
            datasets.push(part);
        }
    }
    if datasets.is_empty() {
        return Err("nothing changed: this site has left the job already, or its part has ended".into());
    }
    for part in datasets {
        let manifest = parse_manifest(part)?;
        let party = manifest.participants.iter().find(|party| party.dataset == part.dataset);
        let name = party.map_or_else(|| part.dataset.to_string(), |party| party.dataset_name.clone());
        writeln!(out, "Left: dataset `{name}` takes no further part in `{}`.", manifest.title)?;
    }
    writeln!(out, "The running worker stops its part, returns the unpaid reservation to the account of this site")?;
    writeln!(out, "(`undertone-worker ledger show`), and notifies the server. Paid releases stay spent.")?;
    Ok(())
}

/// Shows one job in full.
pub(super) fn show_job(folder: &Folder, job: &str, out: &mut dyn Write) -> Result<(), CommandFailure> {
    Config::load(folder)?;
    let store = Store::open(&folder.ledger())?;
    let proposals = jobs::list_jobs(&store)?;
    let job = find_job(proposals.iter().map(|proposal| proposal.job), job)?;
    full::show(folder, &store, proposals.iter().filter(|proposal| proposal.job == job), out)
}

/// A decision at the terminal.
pub(super) enum TerminalAnswer<'a> {
    /// The job may run, with these values of open terms, as `name=value`.
    Approve {
        /// The values.
        terms: &'a [String],
    },
    /// The job may not run, for this reason.
    Refuse {
        /// The reason.
        reason: &'a str,
    },
}

/// Writes a decision for every dataset of this site that the job was proposed for.
pub(super) fn decide(
    folder: &Folder,
    job: &str,
    answer: &TerminalAnswer<'_>,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    Config::load(folder)?;
    let (refusal, pairs) = match *answer {
        TerminalAnswer::Approve { terms } => (None, terms),
        TerminalAnswer::Refuse { reason } => (Some(reason), [].as_slice()),
    };
    let mut terms = PartyTerms::default();
    for pair in pairs {
        terms.add_pair(pair).map_err(|error| format!("--term: {error}"))?;
    }
    if refusal.is_some_and(|reason| !(1..=1000).contains(&reason.trim().chars().count())) {
        return Err("--reason: 1 to 1,000 characters, which the proposer can read".into());
    }
    let store = Store::open(&folder.ledger())?;
    let proposals = jobs::list_jobs(&store)?;
    let job = find_job(proposals.iter().map(|proposal| proposal.job), job)?;
    for part in proposals.iter().filter(|proposal| proposal.job == job) {
        let manifest = full::answer_manifest(folder, &store, parse_manifest(part)?, part.dataset, &terms)?;
        let party = manifest.participants.iter().find(|party| party.dataset == part.dataset);
        if let (Some(party), None) = (party, refusal) {
            // The steward sees the content of the agreement.
            full::write_terms(&manifest, party, out)?;
            full::review(folder, &store, &manifest, party, out)?;
            if let Some(problem) = group::write_group(folder, &store, &manifest, &part.digest, party, out)? {
                return Err(format!("the job is not approved: {problem}").into());
            }
        }
        let decision = SiteDecision {
            manifest: part.digest.clone(),
            job,
            dataset: part.dataset,
            approve: refusal.is_none(),
            reason: refusal.unwrap_or_default().to_owned(),
            terms: terms.clone(),
            at: now,
        };
        jobs::decide(&store, &decision, DecisionOrigin::Terminal)?;
        // An answer ends a hold that waited for this answer alone.
        if let Some(hold) =
            holds::current_hold(&store, job, part.dataset)?.filter(|hold| hold.by == HoldOrigin::Worker.word())
        {
            let statement = SiteHold { hold: false, reason: String::new(), at: now, ..hold.word };
            holds::record(&store, &statement, HoldOrigin::Worker)?;
        }
        let dataset = party.map_or_else(String::new, |party| party.dataset_name.clone());
        let decision = if refusal.is_none() { "approved" } else { "refused" };
        writeln!(out, "{decision}: `{}` on dataset `{dataset}`, manifest {}", manifest.title, part.digest)?;
    }
    writeln!(out, "The running worker will notify the server.")?;
    Ok(())
}
