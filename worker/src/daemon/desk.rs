//! The site's answers to proposed jobs. Policy and ledger decide; people decide at the terminal or, where the policy
//! allows it, in the dashboard. Every answer is on disk before it is signed and sent.

use std::sync::PoisonError;

use time::OffsetDateTime;
use tokio::runtime::{Handle, RuntimeFlavor};
use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::{Manifest, Signed, SiteDecision};

use super::Site;
use crate::gateway::Work;
use crate::site::admission::{ExaminedManifest, ManifestFault, examine};
use crate::site::consent::{self, StewardConsent};
use crate::site::jobs::{self, DecisionOrigin, StoredDecision};
use crate::site::ledger::LedgerError;
use crate::site::policy::{DatasetRules, RequiredApproval, is_exact, units_of};
use crate::site::standing;
use crate::site::store::StoreError;

/// The site's answer to a manifest.
#[expect(clippy::large_enum_variant, reason = "one is made for an offer and taken apart at once")]
pub enum Verdict {
    /// The site's own rules allow it.
    Allowed(Box<ExaminedManifest>, DatasetRules),
    /// They refuse it; the reason may be shown to the proposer.
    Refused(String),
}

/// Returns the job of a manifest that this site's server signed.
pub(super) fn job_of(site: &Site, signed: &Signed) -> Option<JobId> {
    signed.open::<Manifest>(&site.identity.server_key).ok().map(|manifest| manifest.job)
}

/// Returns the job that an unverified document claims, so that the refusal can name it.
pub(super) fn claimed_job(signed: &Signed) -> Option<JobId> {
    #[derive(serde::Deserialize)]
    struct Claim {
        job: JobId,
    }
    serde_json::from_str::<Claim>(&signed.payload).ok().map(|claim| claim.job)
}

/// Returns the fault of a document that is not the manifest of its job: forged, or different from the first one under
/// its id. The reason reveals nothing else about the job.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn alien(site: &Site, signed: &Signed) -> Result<Option<String>, StoreError> {
    let manifest = match signed.open::<Manifest>(&site.identity.server_key) {
        Ok(manifest) => manifest,
        Err(error) => return Ok(Some(ManifestFault::Signature(error).to_string())),
    };
    let first = jobs::first_manifest(&site.store, manifest.job)?.filter(|first| *first != signed.digest());
    Ok(first.map(|first| ManifestFault::Changed(first).to_string()))
}

/// Judges a manifest: its contents against the site's own knowledge, then policy, then ledger. Stores it when it is
/// new.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails; that is no answer to a proposal.
pub fn judge(site: &Site, signed: &Signed, dataset: DatasetId) -> Result<Verdict, LedgerError> {
    if let Some(fault) = alien(site, signed)? {
        tracing::error!(dataset.id = %dataset, fault, "the server asked for something it may not");
        return Ok(Verdict::Refused(fault));
    }
    if let Err(alarm) = site.ledger.check_quiet() {
        return match alarm {
            LedgerError::Alarm { .. } => Ok(Verdict::Refused(
                "this site has raised an alarm about the server's log: nothing leaves it until its steward clears that"
                    .to_owned(),
            )),
            error => Err(error),
        };
    }
    let policy = match site.policy() {
        Ok(policy) => policy,
        Err(error) => {
            tracing::error!(error = %error, "the policy cannot be read: nothing may run");
            return Ok(Verdict::Refused("this site's policy cannot be read, so nothing may run here".to_owned()));
        }
    };
    let mut datasets = site.datasets();
    for local in &mut datasets {
        local.visibility = policy.rules(&local.name).visibility;
    }
    let examined = match examine(signed, dataset, &site.identity, &datasets, (site.clock)()) {
        Ok(examined) => examined,
        Err(fault) => {
            tracing::error!(dataset.id = %dataset, fault = %fault, "the server asked for something it may not");
            return Ok(Verdict::Refused(fault.to_string()));
        }
    };
    if let Some(first) = jobs::remember(&site.store, examined.manifest.job, dataset, signed, (site.clock)())? {
        let fault = ManifestFault::Changed(first);
        tracing::error!(job.id = %examined.manifest.job, fault = %fault, "the server asked for something it may not");
        return Ok(Verdict::Refused(fault.to_string()));
    }
    let units = units_of(&examined.local, &site.datasets());
    let rules = policy.rules(&examined.local.name).for_units(&units);
    let spec = &examined.manifest.spec;
    let allowed = rules.judge(spec, examined.charge.as_ref());
    let allowed = allowed.and_then(|()| rules.judge_cost(spec, &examined.dataset, &site.transcription.providers));
    if let Err(refusal) = allowed {
        return Ok(Verdict::Refused(refusal.to_string()));
    }
    if let Some(under) = examined.release_context().filter(|under| !is_exact(&under.charge.event)) {
        let limits = match rules.unit_limits(under.charge.unit) {
            Ok(limits) => limits,
            Err(refusal) => return Ok(Verdict::Refused(refusal.to_string())),
        };
        match site.ledger.check(&under, limits) {
            Ok(()) => {}
            Err(error @ (LedgerError::Store(_) | LedgerError::Books(_) | LedgerError::Signing(_))) => {
                return Err(error);
            }
            // The job ran to its end here; the end is sent again.
            Err(LedgerError::Settled) if has_ended(site, &examined)? => {}
            Err(refusal) => return Ok(Verdict::Refused(format!("this site's ledger refuses: {refusal}"))),
        }
    }
    Ok(Verdict::Allowed(Box::new(examined), rules))
}

fn has_ended(site: &Site, examined: &ExaminedManifest) -> Result<bool, StoreError> {
    let run = jobs::run(&site.store, examined.manifest.job, examined.dataset.id)?;
    Ok(run.is_some_and(|run| run.ended.is_some()))
}

/// Considers a proposal, for every dataset of this site that it names.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub fn consider(site: &Site, signed: &Signed, offered: DatasetId) -> Result<(), LedgerError> {
    let Ok(manifest) = signed.open::<Manifest>(&site.identity.server_key) else {
        let Some(job) = claimed_job(signed) else {
            tracing::error!(dataset.id = %offered, "something was proposed that is no manifest; it is ignored");
            return Ok(());
        };
        return answer(site, signed, job, offered, (site.clock)());
    };
    // The date of the site's answer, independent of the time that the decision takes.
    let at = (site.clock)();
    let ours = site.datasets();
    let private = ours.iter().filter(|local| local.visibility != Visibility::Public).filter_map(|local| local.id);
    let mut named: Vec<_> =
        private.filter(|id| manifest.participants.iter().any(|party| party.dataset == *id)).collect();
    if !named.contains(&offered) {
        named.push(offered);
    }
    for dataset in named {
        answer(site, signed, manifest.job, dataset, at)?;
    }
    Ok(())
}

fn answer(site: &Site, signed: &Signed, job: JobId, dataset: DatasetId, at: OffsetDateTime) -> Result<(), LedgerError> {
    if let Some(before) = jobs::decision(&site.store, job, dataset, &signed.digest())? {
        // The server lost the answer and asks again, so the answer is sent again.
        return Ok(jobs::resend(&site.store, before.id)?);
    }
    match judge(site, signed, dataset)? {
        Verdict::Refused(reason) => {
            tracing::info!(job.id = %job, dataset.id = %dataset, reason, "proposal refused");
            refuse_at(site, signed, job, dataset, &reason, at)?;
        }
        Verdict::Allowed(examined, rules) => match rules.approval {
            RequiredApproval::Automatic => {
                let yes = SiteDecision { approve: true, ..unsaid(signed, job, dataset, at) };
                if by_itself(site, &examined, &rules, false, || jobs::approve(&site.store, &yes))? {
                    tracing::info!(job.id = %job, dataset.id = %dataset, "proposal approved by the site's policy");
                } else {
                    tracing::info!(job.id = %job, dataset.id = %dataset, "the site's policy does not approve the proposal by itself (`jobs.most_epsilon_automatic`); it is for `undertone-worker approve` at this site");
                }
            }
            RequiredApproval::Steward if consent::pinned_keys(&site.store)?.is_empty() => {
                tracing::warn!(job.id = %job, dataset.id = %dataset, reason = consent::NO_KEYS, "the proposal cannot be approved");
            }
            RequiredApproval::Steward | RequiredApproval::Server => {
                tracing::info!(job.id = %job, dataset.id = %dataset, "proposal allowed by the site's policy; it waits for a steward in the dashboard");
            }
            RequiredApproval::Manual => {
                tracing::info!(job.id = %job, dataset.id = %dataset, "proposal waits for `undertone-worker approve` at this site");
            }
        },
    }
    Ok(())
}

/// Approves a job automatically, recorded by `note`, if the total of automatic approvals then stays within its limit.
/// Only a decision at the terminal can come between check and record, and then nothing is recorded. `before`: the
/// approval is recorded already, and only the check is repeated.
fn by_itself(
    site: &Site,
    examined: &ExaminedManifest,
    rules: &DatasetRules,
    before: bool,
    note: impl FnOnce() -> Result<bool, StoreError>,
) -> Result<bool, LedgerError> {
    apart(|| {
        let _one = site.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (site.clock)();
        let within = standing::may_approve(&site.store, rules, examined, before, now, || site.ledger.books())?;
        Ok(within && (before || note()?))
    })
}

/// Runs work that grows with the site's ledger. On a multi-thread runtime it does not block other tasks of this thread.
fn apart<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Returns a negative decision about a manifest, without a reason yet.
fn unsaid(signed: &Signed, job: JobId, dataset: DatasetId, at: OffsetDateTime) -> SiteDecision {
    SiteDecision { manifest: signed.digest(), job, dataset, approve: false, reason: String::new(), at }
}

/// Stores the refusal of a document; a repeated refusal for the same reason is sent again. The next [`tell`] sends it.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn refuse(
    site: &Site,
    signed: &Signed,
    job: JobId,
    dataset: DatasetId,
    reason: &str,
) -> Result<(), StoreError> {
    refuse_at(site, signed, job, dataset, reason, (site.clock)())
}

/// Stores a refusal like [`refuse`], with a date.
fn refuse_at(
    site: &Site,
    signed: &Signed,
    job: JobId,
    dataset: DatasetId,
    reason: &str,
    at: OffsetDateTime,
) -> Result<(), StoreError> {
    match jobs::decision(&site.store, job, dataset, &signed.digest())? {
        Some(said) if !said.decision.approve && said.decision.reason == reason => jobs::resend(&site.store, said.id),
        _ => {
            let no = SiteDecision { reason: reason.to_owned(), ..unsaid(signed, job, dataset, at) };
            jobs::decide(&site.store, &no, DecisionOrigin::Policy)
        }
    }
}

/// Returns whether this refusal was made at the terminal, and not by the policy.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn refused_at_terminal(
    site: &Site,
    signed: &Signed,
    job: JobId,
    dataset: DatasetId,
    reason: &str,
) -> Result<bool, StoreError> {
    let said = jobs::terminal_decision(&site.store, job, dataset, &signed.digest())?;
    Ok(said.is_some_and(|said| !said.decision.approve && said.decision.reason == reason))
}

/// Returns the decisions that the server has not received, oldest first, signed.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub fn untold(site: &Site) -> Result<Vec<(StoredDecision, Signed)>, LedgerError> {
    let waiting = jobs::pending_decisions(&site.store)?.into_iter();
    waiting
        .map(|decided| site.key.sign(&decided.decision).map(|signed| (decided, signed)).map_err(Into::into))
        .collect()
}

/// Marks a decision as received or as final without an effect at the server.
///
/// # Errors
/// [`StoreError`] when the database fails; the decision is sent again then.
pub fn told(site: &Site, decided: &StoredDecision) -> Result<(), StoreError> {
    jobs::acknowledge(&site.store, decided.id)
}

/// Sends every decision that the server has not received, oldest first. While a decision waits for its tick nothing is
/// sent: pending decisions follow with that one, or at the next call.
pub(super) async fn tell(site: &Site) {
    if let Ok(_deciding) = site.deciding.try_lock() {
        tell_now(site).await;
    }
}

/// Sends every decision that the server has not received. The caller holds [`Site::deciding`].
pub(super) async fn tell_now(site: &Site) {
    let waiting = match untold(site) {
        Ok(waiting) => waiting,
        Err(error) => return tracing::error!(error = %error, "decisions could not be read"),
    };
    for (decided, signed) in waiting {
        match site.gateway.decide(&signed).await {
            Ok(()) => {
                tracing::info!(job.id = %decided.decision.job, approve = decided.decision.approve, by = decided.by, "decision told");
            }
            Err(error) if error.is_transient() => return,
            // The job is over or never existed: no party waits for the answer.
            Err(error) => tracing::warn!(job.id = %decided.decision.job, error = %error, "a decision came to nothing"),
        }
        if let Err(error) = told(site, &decided) {
            return tracing::error!(error = %error, "a decision could not be noted as told");
        }
    }
}

/// Judges whether a person, or the policy alone, has approved exactly this manifest; `None` while the answer at the
/// site's terminal is missing. The steward's name in `work` comes from the server, and counts only under a policy that
/// trusts it. Otherwise a steward's signature with a key that this site pins is required. An automatic approval is
/// stored.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub(super) fn approval(
    site: &Site,
    examined: &ExaminedManifest,
    rules: &DatasetRules,
    work: &Work,
) -> Result<Option<Result<(), String>>, LedgerError> {
    let (job, dataset) = (examined.manifest.job, examined.dataset.id);
    // The last decision at the terminal precedes everything else, even a later decision of the policy.
    if let Some(StoredDecision { decision, .. }) = jobs::terminal_decision(&site.store, job, dataset, &examined.digest)?
    {
        return Ok(Some(if decision.approve { Ok(()) } else { Err(decision.reason) }));
    }
    // Public data need no approval.
    let public = rules.visibility == Visibility::Public;
    Ok(match rules.approval {
        _ if public => Some(Ok(())),
        RequiredApproval::Automatic => {
            let said = jobs::decision(&site.store, job, dataset, &examined.digest)?;
            let before = said.is_some_and(|said| said.decision.approve);
            // The server offers it already: it was approved before, was never proposed, or is allowed by now.
            let yes = SiteDecision { approve: true, ..unsaid(&examined.signed, job, dataset, (site.clock)()) };
            by_itself(site, examined, rules, before, || jobs::note(&site.store, &yes))?.then_some(Ok(()))
        }
        RequiredApproval::Server if work.steward.is_some() => Some(Ok(())),
        RequiredApproval::Steward => match steward_consent(site, examined, work)? {
            StewardConsent::Given(_) => Some(Ok(())),
            StewardConsent::Invalid(reason) => Some(Err(reason)),
            StewardConsent::Missing(_) if work.steward.is_some() => None,
            StewardConsent::Missing(_) => Some(Err("no steward approved this manifest".to_owned())),
        },
        RequiredApproval::Server => Some(Err("no steward approved this manifest".to_owned())),
        RequiredApproval::Manual => None,
    })
}

/// Returns the reason why a part waits for the site's terminal, for the log and for the other participants.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub(super) fn why_it_waits(site: &Site, examined: &ExaminedManifest, work: &Work) -> Result<&'static str, LedgerError> {
    let rules = site.policy().ok().map(|policy| policy.rules(&examined.local.name));
    if rules.is_some_and(|rules| rules.approval == RequiredApproval::Steward)
        && let StewardConsent::Missing(reason) = steward_consent(site, examined, work)?
    {
        return Ok(reason);
    }
    Ok(super::hold::WAITS)
}

fn steward_consent(site: &Site, examined: &ExaminedManifest, work: &Work) -> Result<StewardConsent, StoreError> {
    let (job, dataset) = (examined.manifest.job, examined.dataset.id);
    consent::judge(&site.store, &examined.digest, job, dataset, work.approval.as_ref(), (site.clock)())
}
