//! The privacy loss: of the job, of the jobs of its initial model, and of the releases without noise.

use undertone_api::dataset::Visibility;
use undertone_api::signed::certificate::{
    CertificateParty, CertifiedFigure, CombinedFigure, LineageSum, ModelLineage, PartyCharges,
};
use undertone_certificate::VerificationPoint as Point;
use undertone_privacy::PrivacyUnit;

use super::{DossierFacts, DossierItem, FiveSafes, OutputSubject, ProofSource, fill_empty, list_charged, to_strings};

/// Formats ε, rounded up in its last digit.
pub(super) fn format_epsilon(value: f64) -> String {
    if value.is_finite() { format!("{:.4}", (value * 1e4).ceil() / 1e4) } else { "infinite".to_owned() }
}

pub(super) fn state_epsilon(facts: &DossierFacts) -> DossierItem {
    let certificate = &facts.certificate;
    let charged = list_charged(facts).map(|(party, charged)| describe_charge(party, charged));
    let is_uncharged = |party: &&CertificateParty| party.charged.is_none() && party.visibility != Visibility::Public;
    let uncharged =
        certificate.parties.iter().filter(is_uncharged).map(|party| {
            format!("{}: the data are not public, and the certificate states no charge.", party.dataset_name)
        });
    let together = certificate.together.iter().filter_map(describe_combined);
    let lineage = certificate.initial_model.iter().flat_map(describe_lineage);
    DossierItem {
        id: "statistical-basis",
        safe: FiveSafes::Outputs,
        subject: Some(OutputSubject::StatisticalBasis),
        question: "How much can the result reveal about one protected unit?",
        answer: fill_empty(
            charged.chain(uncharged).chain(together).chain(lineage).collect(),
            "Nothing beyond public data: the datasets are public, and the job began with no earlier model.",
        ),
        proofs: vec![
            facts.prove(ProofSource::Certificate, Point::Accountant),
            facts.prove(ProofSource::Certificate, Point::Epsilon),
            facts.prove(ProofSource::Certificate, Point::Rule),
            facts.prove(ProofSource::Certificate, Point::Lineage),
        ],
        not_covered: to_strings(&[
            "Which ε is acceptable: people decide it. With ε = 1, an observer's odds about one unit change by a factor of at most 2.72, except with probability about δ.",
            "The declaration about people in several organizations, which is an admin's statement.",
            "Exact releases: no ε bounds what they reveal.",
        ]),
    }
}

fn describe_charge(party: &CertificateParty, charged: &PartyCharges) -> String {
    let figure = format_optional(charged.renyi.as_ref());
    let first = format!("{}, unit {}: {figure}.", party.dataset_name, format_unit(charged.unit));
    let tight = charged.tight.as_ref();
    let tight = tight.map(|tight| format!("Its tight value, for this job alone: {}.", format_figure(tight)));
    let insider = charged.insider.as_ref();
    let insider =
        insider.map(|insider| format!("If the server and the other sites collude: {}.", format_figure(insider)));
    let exact = charged.releases.in_the_clear;
    let exact = (exact > 0).then(|| format!("In addition, {exact} releases were exact; no ε covers them."));
    let sentences: Vec<String> = std::iter::once(first).chain(tight).chain(insider).chain(exact).collect();
    sentences.join(" ")
}

fn describe_combined(combined: &CombinedFigure) -> Option<String> {
    let figure = combined.figure.as_ref()?;
    Some(format!("For a person in the data of up to {} organizations: {}.", combined.most, format_figure(figure)))
}

/// Describes the jobs of the initial model, and the cost of these jobs and this one to each account.
fn describe_lineage(model: &ModelLineage) -> Vec<String> {
    let origin = model.jobs.first().map(|job| {
        format!(
            "The job began with {} of the job \"{}\" ({}), so its models also follow from the data of {} earlier jobs.",
            job.file,
            job.title,
            job.source.label(),
            model.jobs.len()
        )
    });
    let sum = |sum: &LineageSum| {
        format!(
            "{} of {}, unit {}, with the jobs of the initial model: {}, summed over {} jobs.",
            sum.dataset_names.join(", "),
            sum.organization_name,
            format_unit(sum.unit),
            format_optional(sum.figure.as_ref()),
            sum.jobs
        )
    };
    let is_free = model.sums.is_empty();
    let free = is_free.then(|| "This job and the jobs of its initial model charged no account.".to_owned());
    origin.into_iter().chain(model.sums.iter().map(sum)).chain(free).collect()
}

fn format_unit(unit: PrivacyUnit) -> String {
    format!("{unit:?}").to_lowercase()
}

fn format_optional(figure: Option<&CertifiedFigure>) -> String {
    figure.map_or("no figure, because the account has no budget".to_owned(), format_figure)
}

fn format_figure(figure: &CertifiedFigure) -> String {
    let epsilon = figure.epsilon.map_or("infinite".to_owned(), format_epsilon);
    format!("ε = {epsilon} at δ = {}", figure.delta)
}
