//! Further proofs: the receipts' places in the server's log, and the audits' measurements against the claims.

use std::collections::BTreeMap;

use undertone_api::job::audit::{Assessment, AuditVerdict as Audited};
use undertone_api::log::from_hex;
use undertone_api::log::witness::{ChargeProof, WitnessAnswer};
use undertone_api::signed::certificate::{CertificateParty, PartyCharges, ProvenReceipt};
use undertone_api::signed::{self, AuditStatement, Countersignature, Receipt, Signed};

use super::OpenedCertificate;
use crate::PointFinding;
use crate::price;

/// Checks that the server's log charges every receipt, under the head in the certificate.
pub(super) fn log(opened: &OpenedCertificate, proven: &[ProvenReceipt]) -> PointFinding {
    let Some(head) = &opened.certificate.head else {
        return PointFinding::Unchecked("the certificate carries no head of the server's log".to_owned());
    };
    let places: BTreeMap<String, &ProvenReceipt> = proven.iter().map(|one| (one.receipt.digest(), one)).collect();
    let (mut wrong, mut size) = (Vec::new(), 0);
    for (party, receipts) in opened.parts() {
        let mut own: BTreeMap<u64, (String, Receipt)> = BTreeMap::new();
        let mut proofs = Vec::new();
        for (digest, receipt) in receipts {
            own.insert(receipt.sequence, (digest.to_owned(), receipt.clone()));
            match places.get(digest).map(|proven| proof(proven, receipt.sequence)) {
                Some(Ok(proof)) => proofs.push(proof),
                Some(Err(why)) => wrong.push(format!("{}: {why}", party.dataset_name)),
                None => {}
            }
        }
        let mut accounts = proofs.iter().filter_map(|proof| undertone_api::log::LogLeaf::parse(&proof.leaf).ok());
        let charged_account = party.charged.as_ref().map(|charges| charges.account.account.0);
        if accounts.any(|leaf| leaf.account() != charged_account) {
            wrong.push(format!("{}: the log charges another account", party.dataset_name));
        }
        match (WitnessAnswer { head: Some(head.clone()), receipts: proofs, ..WitnessAnswer::default() }).check(
            &opened.key,
            None,
            &own,
        ) {
            Ok(witnessed) => size = witnessed.head.map_or(size, |head| head.size),
            Err(error) => wrong.push(format!("{}: {error}", party.dataset_name)),
        }
    }
    PointFinding::from_defects(wrong, || format!("every receipt is charged in the server's log of {size} entries"))
}

fn proof(proven: &ProvenReceipt, sequence: u64) -> Result<ChargeProof, String> {
    let missing = || format!("receipt {sequence} comes without its place in the log");
    let logged = proven.logged.as_ref().ok_or_else(missing)?;
    // Only its position is read here; `check` verifies it.
    let claimed: Countersignature =
        serde_json::from_str(&logged.countersignature.payload).map_err(|error| error.to_string())?;
    let inclusion: Option<Vec<_>> = logged.inclusion.iter().map(|hash| from_hex(hash)).collect();
    Ok(ChargeProof {
        sequence,
        countersignature: logged.countersignature.clone(),
        position: claimed.position,
        leaf: logged.leaf.clone(),
        inclusion: inclusion.ok_or_else(|| format!("the proof of receipt {sequence} is not of hashes"))?,
    })
}

/// Checks that the promised audits were made, and none measured more than its claim.
pub(super) fn audit(opened: &OpenedCertificate) -> PointFinding {
    let (mut wrong, mut open, mut summaries) = (Vec::new(), Vec::new(), Vec::new());
    for party in &opened.certificate.parties {
        let Some(charged) = &party.charged else { continue };
        let plan = opened.manifest.spec.audit_plan(&price::to_dataset(party));
        match (&plan, &charged.audit) {
            (None, None) => {}
            (Some(_), None) => wrong.push(format!("{}: the manifest asks for an audit", party.dataset_name)),
            (None, Some(_)) => wrong.push(format!("{}: the manifest asks for no audit", party.dataset_name)),
            (Some(plan), Some(audit)) => match &audit.statement {
                None => open.push(format!("{} has handed in no statement", party.dataset_name)),
                Some(statement) => match check_statement(opened, party, charged, statement) {
                    Ok((statement, _)) if !statement.finding.answers(plan) => {
                        wrong.push(format!("{}: the statement is of another audit", party.dataset_name));
                    }
                    Ok((_, summary)) => summaries.push(summary),
                    Err(why) => wrong.push(format!("{}: {why}", party.dataset_name)),
                },
            },
        }
    }
    if wrong.is_empty() && !open.is_empty() {
        return PointFinding::Unchecked(open.join(", "));
    }
    PointFinding::from_defects(wrong, || {
        if summaries.is_empty() { "none was asked for".to_owned() } else { summaries.join(", ") }
    })
}

/// Returns a site's statement, if the site signed it, it is about this job, and its bound does not exceed the claim.
fn check_statement(
    opened: &OpenedCertificate,
    party: &CertificateParty,
    charged: &PartyCharges,
    statement: &Signed,
) -> Result<(AuditStatement, String), String> {
    let key = signed::public_key(&party.site_key).map_err(|error| error.to_string())?;
    let statement: AuditStatement = statement.open(&key).map_err(|error| format!("the statement: {error}"))?;
    let job = &opened.certificate.job;
    let about = (statement.worker, statement.job, statement.dataset, statement.lineage, &statement.manifest)
        == (party.worker, job.id, party.dataset, party.lineage, &job.manifest)
        && (statement.unit, statement.adjacency, &statement.event)
            == (charged.unit, charged.adjacency, &charged.mechanism.event);
    if !about {
        return Err("the statement is about another job, site or release".to_owned());
    }
    if statement.releases != charged.releases.committed {
        return Err(format!(
            "the statement is about {} releases, {} were paid",
            statement.releases, charged.releases.committed
        ));
    }
    let says = statement.assessment;
    let again = Assessment::assess(
        &statement.finding.trials,
        &statement.event,
        statement.adjacency,
        statement.releases,
        says.delta,
    )
    .map_err(|error| error.to_string())?;
    if !again.agrees(&says) {
        return Err("the measured bound does not follow from what was guessed".to_owned());
    }
    // At the δ of the site's own account, which may differ from the server's.
    if again.verdict == Audited::Disproved {
        return Err(format!("an audit measured ε of at least {}, above the claim of {}", again.blocking, again.tight));
    }
    let summary = format!("{} at least ε {:.4} of {:.4} claimed", party.dataset_name, again.shown, again.claim);
    Ok((statement, summary))
}
