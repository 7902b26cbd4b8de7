//! The site's answers to proposed jobs. Policy and ledger decide; people decide at the terminal or, where the policy
//! allows it, in the dashboard. Every answer is on disk before it is signed and sent.

use std::borrow::Cow;
use std::sync::PoisonError;

use time::OffsetDateTime;
use tokio::runtime::{Handle, RuntimeFlavor};
use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::{MOST_REASON, PartyTerms};
use undertone_api::signed::{Manifest, Signed, SiteDecision};

use super::{Site, group};
use crate::gateway::OfferedWork;
use crate::site::admission::{ExaminedManifest, ManifestFault, examine};
use crate::site::consent::{self, StewardConsent};
use crate::site::jobs::{self, DecisionOrigin, StoredDecision};
use crate::site::ledger::LedgerError;
use crate::site::policy::{DatasetRules, RequiredApproval, is_exact, units_of};
use crate::site::standing;
use crate::site::store::StoreError;

/// The site's answer to a manifest.
#[expect(clippy::large_enum_variant, reason = "one exists for an offer, and only for a moment")]
pub enum ProposalVerdict {
    /// The site's own rules allow it.
    Allowed(Box<ExaminedManifest>, DatasetRules),
    /// They refuse it; the reason may be shown to the proposer.
    Refused(String),
}

/// Returns the job of a manifest that this site's server signed.
pub(super) fn verified_job(site: &Site, signed: &Signed) -> Option<JobId> {
    signed.open::<Manifest>(&site.identity.server_key).ok().map(|manifest| manifest.job)
}

/// Returns the job that an unverified document claims, so that the refusal can name it.
pub(super) fn claimed_job(signed: &Signed) -> Option<JobId> {
    #[derive(serde::Deserialize)]
    struct ClaimedJob {
        job: JobId,
    }
    serde_json::from_str::<ClaimedJob>(&signed.payload).ok().map(|claim| claim.job)
}

/// Returns the fault of a document that is not the manifest of its job: forged, or different from the first one under
/// its id. The reason reveals nothing else about the job.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn find_document_fault(site: &Site, signed: &Signed) -> Result<Option<String>, StoreError> {
    let manifest = match signed.open::<Manifest>(&site.identity.server_key) {
        Ok(manifest) => manifest,
        Err(error) => return Ok(Some(ManifestFault::Signature(error).to_string())),
    };
    let digest = signed.digest();
    let approved = manifest.approved_digest(&digest);
    let mut first = jobs::first_manifest(&site.store, manifest.job)?.filter(|first| *first != approved);
    if first.is_none() && manifest.proposal.is_some() {
        first = jobs::settled_manifest(&site.store, manifest.job)?.filter(|settled| *settled != digest);
    }
    Ok(first.map(|first| ManifestFault::Changed(first).to_string()))
}

/// Judges a manifest: its contents against the site's own knowledge, then policy, then ledger. Stores it when it is
/// new.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails; that is no answer to a proposal.
pub fn judge(site: &Site, signed: &Signed, dataset: DatasetId) -> Result<ProposalVerdict, LedgerError> {
    if let Some(fault) = find_document_fault(site, signed)? {
        tracing::error!(dataset.id = %dataset, fault, "the worker refuses a forbidden request of the server");
        return Ok(ProposalVerdict::Refused(fault));
    }
    if let Err(alarm) = site.ledger.check_quiet() {
        return match alarm {
            LedgerError::Alarm { .. } => Ok(ProposalVerdict::Refused(
                "this site has raised an alarm about the server's log: nothing leaves it until its steward clears the alarm"
                    .to_owned(),
            )),
            error => Err(error),
        };
    }
    let policy = match site.policy() {
        Ok(policy) => policy,
        Err(error) => {
            tracing::error!(error = %error, "the policy cannot be read: no job can run");
            return Ok(ProposalVerdict::Refused(
                "this site's policy cannot be read, so no job can run here".to_owned(),
            ));
        }
    };
    let mut datasets = site.datasets();
    for local in &mut datasets {
        local.visibility = policy.rules(&local.name).visibility;
    }
    let examined = match examine(signed, dataset, &site.identity, &datasets, (site.clock)()) {
        Ok(examined) => examined,
        Err(fault) => {
            tracing::error!(dataset.id = %dataset, fault = %fault, "the worker refuses a forbidden request of the server");
            return Ok(ProposalVerdict::Refused(fault.to_string()));
        }
    };
    if let Some(first) = remember(site, &examined)? {
        let fault = ManifestFault::Changed(first);
        tracing::error!(job.id = %examined.manifest.job, fault = %fault, "the worker refuses a forbidden request of the server");
        return Ok(ProposalVerdict::Refused(fault.to_string()));
    }
    let units = units_of(&examined.local, &site.datasets());
    let rules = policy.rules(&examined.local.name).for_units(&units);
    let mut verdict = ProposalVerdict::Refused(String::new());
    for terms in examined.answers() {
        verdict = judge_by_rules(site, examined.answer_with(&terms), &rules)?;
        if matches!(verdict, ProposalVerdict::Allowed(..)) {
            break;
        }
    }
    Ok(verdict)
}

/// Records the document under which a job arrived, and its proposal if it is a final manifest. Returns the digest of
/// the recorded one if it is another.
fn remember(site: &Site, examined: &ExaminedManifest) -> Result<Option<String>, StoreError> {
    let (job, dataset, now) = (examined.manifest.job, examined.dataset.id, (site.clock)());
    match examined.manifest.proposal.as_deref() {
        None => jobs::remember(&site.store, job, dataset, &examined.signed, now),
        Some(proposal) => match jobs::remember(&site.store, job, dataset, proposal, now)? {
            None => jobs::remember_settled(&site.store, job, &examined.signed, now),
            first => Ok(first),
        },
    }
}

/// Judges a manifest by the site's own rules: policy, cost, ledger.
fn judge_by_rules(
    site: &Site,
    examined: ExaminedManifest,
    rules: &DatasetRules,
) -> Result<ProposalVerdict, LedgerError> {
    let spec = &examined.manifest.spec;
    let verdict = rules.judge(spec, examined.charge.as_ref());
    let verdict = verdict.and_then(|()| rules.judge_cost(spec, &examined.dataset, &site.transcription.providers));
    if let Err(refusal) = verdict {
        return Ok(ProposalVerdict::Refused(refusal.to_string()));
    }
    if let Some(fault) = group::find_fault(site, &examined, rules)?.filter(|fault| !fault.is_missing_trust()) {
        return Ok(ProposalVerdict::Refused(fault.to_string()));
    }
    if let Some(under) = examined.release_context().filter(|under| !is_exact(&under.charge.event)) {
        let limits = match rules.unit_limits(under.charge.unit) {
            Ok(limits) => limits,
            Err(refusal) => return Ok(ProposalVerdict::Refused(refusal.to_string())),
        };
        match site.ledger.check(&under, limits) {
            Ok(()) => {}
            Err(error @ (LedgerError::Store(_) | LedgerError::Books(_) | LedgerError::Signing(_))) => {
                return Err(error);
            }
            // The job ran to its end here; the end is sent again.
            Err(LedgerError::Settled) if has_ended(site, &examined)? => {}
            Err(refusal) => return Ok(ProposalVerdict::Refused(format!("this site's ledger refuses: {refusal}"))),
        }
    }
    Ok(ProposalVerdict::Allowed(Box::new(examined), rules.clone()))
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
            tracing::error!(dataset.id = %offered, "the worker ignores a proposal without a manifest");
            return Ok(());
        };
        return answer_proposal(site, signed, job, offered, (site.clock)());
    };
    // The date of the site's answer, independent of the time that the decision takes.
    let at = (site.clock)();
    let datasets = site.datasets();
    let private = datasets.iter().filter(|local| local.visibility != Visibility::Public).filter_map(|local| local.id);
    let mut participants: Vec<_> =
        private.filter(|id| manifest.participants.iter().any(|party| party.dataset == *id)).collect();
    if !participants.contains(&offered) {
        participants.push(offered);
    }
    for dataset in participants {
        answer_proposal(site, signed, manifest.job, dataset, at)?;
    }
    Ok(())
}

fn answer_proposal(
    site: &Site,
    signed: &Signed,
    job: JobId,
    dataset: DatasetId,
    at: OffsetDateTime,
) -> Result<(), LedgerError> {
    if let Some(earlier) = jobs::decision(&site.store, job, dataset, &signed.digest())? {
        // The server lost the answer and asks again, so the answer is sent again.
        return Ok(jobs::resend(&site.store, earlier.id)?);
    }
    match judge(site, signed, dataset)? {
        ProposalVerdict::Refused(reason) => {
            tracing::info!(job.id = %job, dataset.id = %dataset, reason, "the site refuses a proposal");
            refuse_at(site, signed, job, dataset, &reason, at)?;
        }
        ProposalVerdict::Allowed(examined, rules) if group::waits_for_trust(site, &examined, &rules)? => {}
        ProposalVerdict::Allowed(examined, rules) => match rules.approval {
            RequiredApproval::Automatic => {
                let terms = examined.terms.clone();
                let approval = SiteDecision { approve: true, terms, ..draft_refusal(signed, job, dataset, at) };
                if approve_automatically(site, &examined, &rules, false, || jobs::approve(&site.store, &approval))? {
                    tracing::info!(job.id = %job, dataset.id = %dataset, "the site's policy approves a proposal");
                } else {
                    tracing::info!(job.id = %job, dataset.id = %dataset, "a proposal exceeds the total of automatic approvals (`jobs.most_epsilon_automatic`); it waits for `undertone-worker approve` at this site");
                }
            }
            RequiredApproval::Steward if consent::pinned_keys(&site.store)?.is_empty() => {
                tracing::warn!(job.id = %job, dataset.id = %dataset, reason = consent::NO_KEYS, "no steward can approve a proposal");
            }
            RequiredApproval::Steward | RequiredApproval::Server => {
                tracing::info!(job.id = %job, dataset.id = %dataset, "the site's policy allows a proposal; it waits for a steward in the dashboard");
            }
            RequiredApproval::Manual => {
                tracing::info!(job.id = %job, dataset.id = %dataset, "a proposal waits for `undertone-worker approve` at this site");
            }
        },
    }
    Ok(())
}

/// Approves a job automatically, recorded by `record`, if the total of automatic approvals then stays within its limit.
/// Only a decision at the terminal can come between check and record, and then nothing is recorded. `is_recorded`: the
/// approval is recorded already, and only the check is repeated.
fn approve_automatically(
    site: &Site,
    examined: &ExaminedManifest,
    rules: &DatasetRules,
    is_recorded: bool,
    record: impl FnOnce() -> Result<bool, StoreError>,
) -> Result<bool, LedgerError> {
    run_blocking(|| {
        let _guard = site.approval_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (site.clock)();
        let is_within = standing::may_approve(&site.store, rules, examined, is_recorded, now, || site.ledger.books())?;
        Ok(is_within && (is_recorded || record()?))
    })
}

/// Runs work that grows with the site's ledger. On a multi-thread runtime it does not block other tasks of this thread.
fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Returns a refusal of a manifest, without a reason yet.
fn draft_refusal(signed: &Signed, job: JobId, dataset: DatasetId, at: OffsetDateTime) -> SiteDecision {
    SiteDecision {
        manifest: signed.digest(),
        job,
        dataset,
        approve: false,
        reason: String::new(),
        terms: PartyTerms::default(),
        at,
    }
}

/// Stores the refusal of a document; a repeated refusal for the same reason is sent again. The next [`send_decisions`]
/// sends it.
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
        Some(earlier) if !earlier.decision.approve && earlier.decision.reason == reason => {
            jobs::resend(&site.store, earlier.id)
        }
        _ => {
            let refusal = SiteDecision { reason: reason.to_owned(), ..draft_refusal(signed, job, dataset, at) };
            jobs::decide(&site.store, &refusal, DecisionOrigin::Policy)
        }
    }
}

/// Returns whether this refusal was made at the terminal, and not by the policy.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub(super) fn is_terminal_refusal(
    site: &Site,
    signed: &Signed,
    job: JobId,
    dataset: DatasetId,
    reason: &str,
) -> Result<bool, StoreError> {
    let digest = signed.digest();
    let manifest = signed.open::<Manifest>(&site.identity.server_key).ok();
    let approved = manifest.map_or_else(|| digest.clone(), |manifest| manifest.approved_digest(&digest));
    let answer = jobs::terminal_decision(&site.store, job, dataset, &approved)?;
    Ok(answer.is_some_and(|answer| !answer.decision.approve && answer.decision.reason == reason))
}

/// Returns the decisions that the server has not received, oldest first, signed.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub fn pending_decisions(site: &Site) -> Result<Vec<(StoredDecision, Signed)>, LedgerError> {
    let pending = jobs::pending_decisions(&site.store)?.into_iter();
    pending
        .map(|decided| site.key.sign(&decided.decision).map(|signed| (decided, signed)).map_err(Into::into))
        .collect()
}

/// Marks a decision as received or as final without an effect at the server.
///
/// # Errors
/// [`StoreError`] when the database fails; the decision is sent again then.
pub fn acknowledge(site: &Site, decided: &StoredDecision) -> Result<(), StoreError> {
    jobs::acknowledge(&site.store, decided.id)
}

/// Sends every decision that the server has not received, oldest first. While a decision waits for its tick nothing is
/// sent: pending decisions follow with that one, or at the next call.
pub(super) async fn send_decisions(site: &Site) {
    if let Ok(_guard) = site.decision_lock.try_lock() {
        send_decisions_now(site).await;
    }
}

/// Sends every decision that the server has not received. The caller holds [`Site::decision_lock`].
pub(super) async fn send_decisions_now(site: &Site) {
    let pending = match pending_decisions(site) {
        Ok(pending) => pending,
        Err(error) => return tracing::error!(error = %error, "cannot read the pending decisions"),
    };
    for (decided, signed) in pending {
        match site.gateway.decide(&signed).await {
            Ok(()) => {
                tracing::info!(job.id = %decided.decision.job, approve = decided.decision.approve, by = decided.by, "the server has received a decision");
            }
            Err(error) if error.is_transient() => return,
            // The job is over or never existed: no party waits for the answer.
            Err(error) => {
                tracing::warn!(job.id = %decided.decision.job, error = %error, "the server rejects a decision");
            }
        }
        if let Err(error) = acknowledge(site, &decided) {
            return tracing::error!(error = %error, "cannot mark decision {} as acknowledged", decided.id);
        }
    }
}

/// The approval of a manifest at this site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApprovalVerdict {
    /// A person, or the policy alone, has approved it.
    Approved,
    /// It is refused, for this reason.
    Refused(String),
    /// The answer at the site's terminal is missing.
    Pending,
}

/// Judges whether a person, or the policy alone, has approved exactly this manifest. The steward's name in `work` comes
/// from the server, and counts only under a policy that trusts it. Otherwise a steward's signature with a key that this
/// site pins is required. An automatic approval is stored.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub(super) fn judge_approval(
    site: &Site,
    examined: &ExaminedManifest,
    rules: &DatasetRules,
    work: &OfferedWork,
) -> Result<ApprovalVerdict, LedgerError> {
    let job = examined.manifest.job;
    let dataset = examined.dataset.id;
    // The last decision at the terminal precedes everything else, even a later decision of the policy.
    let terminal = jobs::terminal_decision(&site.store, job, dataset, &examined.approved)?.map(|row| row.decision);
    match terminal {
        Some(decision) if !decision.approve => return Ok(ApprovalVerdict::Refused(decision.reason)),
        _ if group::missing_trust(site, examined, rules)?.is_some() => return Ok(ApprovalVerdict::Pending),
        Some(decision) => return Ok(approve_terms(examined, &decision.terms)),
        None => {}
    }
    // Public data need no approval.
    let is_public = rules.visibility == Visibility::Public;
    let without_steward = || ApprovalVerdict::Refused("no steward approved this manifest".to_owned());
    Ok(match rules.approval {
        _ if is_public => ApprovalVerdict::Approved,
        RequiredApproval::Automatic => {
            let earlier = jobs::decision(&site.store, job, dataset, &examined.approved)?;
            let earlier = earlier.filter(|earlier| earlier.decision.approve);
            if let Some(earlier) = &earlier
                && let ApprovalVerdict::Refused(reason) = approve_terms(examined, &earlier.decision.terms)
            {
                return Ok(ApprovalVerdict::Refused(reason));
            }
            let is_recorded = earlier.is_some();
            // The server offers it already: it was approved before, was never proposed, or is allowed by now.
            let draft = draft_refusal(&examined.signed, job, dataset, (site.clock)());
            let (manifest, terms) = (examined.approved.clone(), examined.manifest.spec.terms(dataset));
            let approval = SiteDecision { approve: true, manifest, terms, ..draft };
            let record = || jobs::note(&site.store, &approval);
            if approve_automatically(site, examined, rules, is_recorded, record)? {
                ApprovalVerdict::Approved
            } else {
                ApprovalVerdict::Pending
            }
        }
        RequiredApproval::Server if work.steward.is_some() => ApprovalVerdict::Approved,
        RequiredApproval::Steward => match judge_steward_consent(site, examined, work)? {
            StewardConsent::Given(_, terms) => approve_terms(examined, &terms),
            StewardConsent::Invalid(reason) => ApprovalVerdict::Refused(reason),
            StewardConsent::Missing(_) if work.steward.is_some() => ApprovalVerdict::Pending,
            StewardConsent::Missing(_) => without_steward(),
        },
        RequiredApproval::Server => without_steward(),
        RequiredApproval::Manual => ApprovalVerdict::Pending,
    })
}

/// Approves a manifest if it holds the answer that this site gave to the terms of its proposal.
fn approve_terms(examined: &ExaminedManifest, answer: &PartyTerms) -> ApprovalVerdict {
    let dataset = examined.dataset.id;
    if examined.manifest.has_answer(dataset, answer) {
        return ApprovalVerdict::Approved;
    }
    ApprovalVerdict::Refused(format!(
        "the final manifest has other terms for `{}` ({}) than its owner answered ({answer}, and the proposal's values \
         for the rest): propose the job again",
        examined.local.name,
        examined.manifest.spec.terms(dataset)
    ))
}

/// Returns the reason why a part waits for the site's terminal, for the log and for the other participants.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub(super) fn waiting_reason(
    site: &Site,
    examined: &ExaminedManifest,
    work: &OfferedWork,
) -> Result<Cow<'static, str>, LedgerError> {
    let rules = site.policy().ok().map(|policy| policy.rules(&examined.local.name));
    if let Some(rules) = &rules
        && let Some(reason) = group::missing_trust(site, examined, rules)?
    {
        return Ok(reason.chars().take(MOST_REASON).collect::<String>().into());
    }
    if rules.is_some_and(|rules| rules.approval == RequiredApproval::Steward)
        && let StewardConsent::Missing(reason) = judge_steward_consent(site, examined, work)?
    {
        return Ok(reason.into());
    }
    Ok(super::hold::WAITS.into())
}

fn judge_steward_consent(
    site: &Site,
    examined: &ExaminedManifest,
    work: &OfferedWork,
) -> Result<StewardConsent, StoreError> {
    let job = examined.manifest.job;
    let dataset = examined.dataset.id;
    consent::judge(&site.store, &examined.approved, job, dataset, work.approval.as_ref(), (site.clock)())
}
