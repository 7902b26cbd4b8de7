//! The figures: mechanism, ε of each party, ε of the consortium, positions of accounts. All are computed again.

use undertone_api::job::Charge;
use undertone_api::signed::certificate::{
    AccountPosition, Certificate, CertificateParty, CertifiedFigure, PartyCharges, PublicFact, ReleaseCounts,
    is_relation,
};
use undertone_privacy::Event;
use undertone_privacy::ledger::{JobCost, Reservation, ReservationId};
use undertone_privacy::mechanism::{self, EVALUATOR_VERSION};

use super::OpenedCertificate;
use crate::PointFinding;
use crate::price;

/// The relative tolerance between two computations of one number: finer than any displayed figure.
const SAME: f64 = 1e-9;

/// Checks that noise, sampling and clip follow from the manifest, and that the relation and the public facts follow
/// from its charges.
pub(super) fn mechanism(opened: &OpenedCertificate) -> PointFinding {
    let mut wrong = Vec::new();
    for (party, charged) in list_charges(opened) {
        let charge = Charge {
            unit: charged.unit,
            adjacency: charged.adjacency,
            event: charged.mechanism.event.clone(),
            releases: charged.releases.reserved,
        };
        let spec = &opened.manifest.spec;
        if opened.certificate.version >= Certificate::VERSION {
            if !is_relation(&charged.relation, charged.adjacency, charged.unit) {
                wrong.push(format!("{}: the relation in words is not that of its charge", party.dataset_name));
            }
            if charged.public != PublicFact::list_facts(spec, party.dataset, &charge, party.units) {
                wrong.push(format!("{}: the public facts are not those of the manifest", party.dataset_name));
            }
        }
        let planned = price::mechanism(&charge, spec.clip(party.dataset));
        if planned != charged.mechanism {
            wrong.push(format!(
                "{}: noise, sampling or clip ({:?}) is not what the manifest says ({:?})",
                party.dataset_name, charged.mechanism, planned
            ));
        }
        for other in &charged.others {
            if charge.for_unit(other.unit).ok().is_none_or(|due| due.event != other.event) {
                wrong.push(format!(
                    "{}: the account of the unit {:?} was not charged what the manifest's release costs there",
                    party.dataset_name, other.unit
                ));
            }
        }
    }
    PointFinding::from_defects(wrong, || "noise, sampling and clip are those of the manifest".to_owned())
}

/// Checks that the same formulas priced everything.
pub(super) fn accountant(opened: &OpenedCertificate) -> PointFinding {
    let mut others: Vec<&str> = opened.receipts.iter().map(|(_, _, receipt)| receipt.evaluator.as_str()).collect();
    others.push(&opened.certificate.issuer.evaluator);
    others.retain(|version| !mechanism::can_verify(version));
    others.sort_unstable();
    others.dedup();
    if others.is_empty() {
        return PointFinding::Holds(format!("formulas {EVALUATOR_VERSION}, as in this program"));
    }
    PointFinding::Unchecked(format!(
        "this program's formulas are {EVALUATOR_VERSION}, the certificate's {}: figures may differ in their last digits",
        others.join(", ")
    ))
}

/// Checks that every ε follows: the parties', and the consortium's under the rule.
pub(super) fn figures(opened: &OpenedCertificate) -> (PointFinding, PointFinding) {
    let again = match price::compute_figures(opened.certificate.clone()) {
        Ok(again) => again,
        Err(error) => {
            let wrong = vec![format!("the figures cannot be computed: {error}")];
            return (PointFinding::Fails(wrong.clone()), PointFinding::Fails(wrong));
        }
    };
    let mut wrong = Vec::new();
    let parties = again.parties.iter().filter_map(|party| party.charged.as_ref());
    let mut summaries = Vec::new();
    for ((party, says), computed) in list_charges(opened).zip(parties) {
        // Earlier versions knew no tight number of a selection.
        let tight = if says.tight.is_none() && says.mechanism.event.has_selection() { None } else { computed.tight };
        let figures = [
            ("Rényi", says.renyi, computed.renyi),
            ("tight", says.tight, tight),
            ("insider", says.insider, computed.insider),
        ];
        for (what, says, computed) in figures {
            if !same(says, computed) {
                wrong.push(format!(
                    "{}: the {what} ε is {}, not {}",
                    party.dataset_name,
                    format_figure(computed),
                    format_figure(says)
                ));
            }
        }
        for (says, computed) in says.others.iter().zip(&computed.others) {
            if !same(says.renyi, computed.renyi) {
                let (computed, says) = (format_figure(computed.renyi), format_figure(says.renyi));
                wrong.push(format!("{}: the ε of another unit is {computed}, not {says}", party.dataset_name));
            }
        }
        summaries.push(format!("{} {}", party.dataset_name, format_figure(computed.renyi)));
    }
    let epsilon = PointFinding::from_defects(wrong, || format!("recomputed: {}", summaries.join(", ")));
    let (says, computed) = (&opened.certificate.together, &again.together);
    let mut wrong = Vec::new();
    if says.len() != computed.len() {
        wrong.push("the consortium's figures are for other units than the parties were charged for".to_owned());
    }
    for (says, computed) in says.iter().zip(computed) {
        let whole = undertone_api::signed::certificate::CombinedFigure { figure: says.figure, ..computed.clone() };
        if *says != whole || !same(says.figure, computed.figure) {
            wrong.push(format!(
                "the consortium's ε under the rule is {} of {} parties, not {} of {}",
                format_figure(computed.figure),
                computed.most,
                format_figure(says.figure),
                says.most
            ));
        }
    }
    let rule = opened.certificate.overlap.attested_by.as_ref();
    let rule = rule.map_or_else(|| "people may be anywhere".to_owned(), |by| format!("the rule that {by} declared"));
    let sums: Vec<_> = computed.iter().map(|together| format_figure(together.figure)).collect();
    (epsilon, PointFinding::from_defects(wrong, || format!("{rule}: {}", sums.join(", "))))
}

/// Checks that the accounts' positions follow from their own sums and cover the cost of this job.
pub(super) fn accounts(opened: &OpenedCertificate) -> PointFinding {
    let mut wrong = Vec::new();
    for (party, charged) in list_charges(opened) {
        let mut flaws = flaws(charged, &charged.mechanism.event, &charged.account);
        if charged.account.in_the_clear < charged.releases.in_the_clear {
            flaws.push("the account has fewer exact releases than this job".to_owned());
        }
        // Only the server's log can prove the sequence of promised limits; the last promise is at least the limit in
        // force.
        let positions = || charged.others.iter().map(|other| &other.account).chain([&charged.account]);
        let promised = |account: &AccountPosition| account.promises.last().map(|promise| promise.epsilon);
        let is_unpromised = |account: &AccountPosition| account.limit.is_some() && account.limit > promised(account);
        if opened.certificate.version >= Certificate::VERSION && positions().any(is_unpromised) {
            flaws.push("an account's limit is above the last that it says was promised".to_owned());
        }
        for other in &charged.others {
            flaws.extend(self::flaws(charged, &other.event, &other.account));
        }
        wrong.extend(flaws.into_iter().map(|what| format!("{}: {what}", party.dataset_name)));
    }
    PointFinding::from_defects(wrong, || "every account covers this job and is within its limit".to_owned())
}

/// Returns the defects of one account, which is charged `event` for each of a job's releases.
fn flaws(charged: &PartyCharges, event: &Event, account: &AccountPosition) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    let (releases, summary) = (charged.releases, account.balance.summary());
    let near = |a: f64, b: f64| (a - b).abs() <= SAME * a.abs().max(b.abs());
    expect(
        account.limit == summary.limit.map(f64::from) && account.delta == summary.delta.map(f64::from),
        "limit or δ of the account is not that of its balance",
    );
    expect(near(account.spent, summary.spent_epsilon), "the account's spent ε does not follow from its balance");
    expect(near(account.committed, summary.committed_epsilon), "the account's ε does not follow from its balance");
    expect(account.limit.is_none_or(|limit| account.committed <= limit), "the account is over its limit");
    if *event == Event::NonPrivate {
        return wrong;
    }
    let balance = &account.balance;
    let ReleaseCounts { reserved, committed, settled, .. } = releases;
    if let Some(Err(error)) = account.certificate.map(|stated| stated.verify(event, charged.adjacency)) {
        expect(false, &format!("the charge of the account: {error}"));
    }
    let certificate = account.certificate.as_ref();
    let cost = JobCost::from_row(event, reserved, charged.adjacency, balance.grid(), certificate);
    let part = cost.map_err(|error| format!("the charge of the account: {error}")).and_then(|cost| {
        let reserved = reserved.max(committed);
        Reservation::from_job(ReservationId(0), cost, reserved, committed, settled).map_err(|error| error.to_string())
    });
    match part {
        Ok(part) => {
            let spent = balance.spent().without(&part.spent()).is_some();
            expect(spent, "the account has spent less than this job alone did");
            let is_covered = balance.reserved().without(&part.open_cost()).is_some();
            expect(is_covered, "the account holds less in reserve than this job still does");
        }
        Err(error) => expect(false, &error),
    }
    wrong
}

fn list_charges(opened: &OpenedCertificate) -> impl Iterator<Item = (&CertificateParty, &PartyCharges)> {
    opened.certificate.parties.iter().filter_map(|party| Some((party, party.charged.as_ref()?)))
}

/// Returns whether two figures are equal except for the last digits of ε.
pub(super) fn same(a: Option<CertifiedFigure>, b: Option<CertifiedFigure>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return a == b };
    let epsilon = match (a.epsilon, b.epsilon) {
        (Some(a), Some(b)) => (a - b).abs() <= SAME * a.abs().max(b.abs()),
        (a, b) => a == b,
    };
    epsilon && CertifiedFigure { epsilon: b.epsilon, ..a } == b
}

pub(super) fn format_figure(figure: Option<CertifiedFigure>) -> String {
    match figure {
        None => "none".to_owned(),
        Some(CertifiedFigure { epsilon: None, delta, .. }) => format!("ε ∞ at δ {delta:e}"),
        Some(CertifiedFigure { epsilon: Some(epsilon), delta, .. }) => format!("ε {epsilon} at δ {delta:e}"),
    }
}
