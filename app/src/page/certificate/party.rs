//! One dataset's part of a certificate.

use leptos::prelude::*;
use undertone_api::budget::PromisedLimit;
use undertone_api::job::audit::AuditVerdict;
use undertone_api::signed::AuditStatement;
use undertone_api::signed::certificate::{
    AuditAsked, CertificateParty, CertifiedFigure, ChargedBeside, ClockSummary, PartyCharges, PublicFact, UnitSampling,
    relation,
};
use undertone_privacy::{Adjacency, PrivacyUnit};

use super::super::ledger::describe_event;
use crate::component::gauge::{Gauge, GaugeReading};
use crate::component::said::VisibilityMark;
use crate::words;

/// Renders a dataset's part.
pub(super) fn render_section(party: &CertificateParty) -> AnyView {
    let body = match &party.charged {
        Some(charged) => render_charge(charged),
        None => view! { <p>"Public data: exact results may leave the site, and nothing is charged."</p> }.into_any(),
    };
    let consent = party.consent.as_ref().map(|consent| {
        view! { <p class="consent">{format!("{}.", capitalize(&consent.words()))}</p> }
    });
    view! {
        <section class="panel"><div class="panel-head"><h2>{party.dataset_name.clone()}</h2>
            <span class="party-owner">{party.organization_name.clone()}" "<VisibilityMark visibility=party.visibility/></span></div>
            {consent}
            {body}
        </section>
    }
    .into_any()
}

/// Capitalizes a sentence.
fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn render_charge(charged: &PartyCharges) -> AnyView {
    let releases = charged.releases;
    let verb = if releases.settled { "paid" } else { "charged so far" };
    let of_planned =
        format!("{} {verb}, of {} planned", words::count(releases.committed), words::count(releases.reserved));
    let count = if releases.counted < releases.reserved {
        format!("{of_planned}; the figures count charged releases, by the rules of an earlier version")
    } else {
        format!("{of_planned}; the figures count all planned releases")
    };
    let sampling = match charged.mechanism.sampling {
        UnitSampling::Poisson { rate } => {
            format!(
                "each {} independently, in secret, with probability {}",
                words::unit(charged.unit),
                words::number(rate)
            )
        }
        UnitSampling::Everything => "not counted".to_owned(),
    };
    let clip = charged.mechanism.clip.zip(charged.mechanism.sensitivity).map(|(clip, sensitivity)| {
        let text = format!(
            "each {}’s contribution is clipped to norm {}, so one change moves a sum by at most {}",
            words::unit(charged.unit),
            words::number(clip),
            words::number(sensitivity)
        );
        view! { <div><dt>"Clip"</dt><dd>{text}</dd></div> }
    });
    let noise = charged.mechanism.noise.map(|noise| {
        view! { <div><dt>"Noise"</dt><dd>{format!("standard deviation {} in every coordinate of the sum", words::number(noise))}</dd></div> }
    });
    let chain = match (charged.receipts.first, charged.receipts.last) {
        (Some(first), Some(last)) => {
            format!(
                "{}, numbers {first} to {last} of its chain, up to ",
                words::plural(charged.receipts.count, "receipt")
            )
        }
        _ => "none".to_owned(),
    };
    let clock =
        charged.clock.map(|clock| view! { <div><dt>"Release times"</dt><dd>{describe_clock(clock)}</dd></div> });
    let summary = charged.account.balance.summary();
    let gauge = GaugeReading::from_summary(&summary, charged.unit).map(|reading| view! { <Gauge reading/> });
    view! {
        <div class="figures">
            {render_figure("Rényi, for this job alone", charged.renyi, "From a Rényi curve, as the ledgers add up over jobs. The ε of several jobs do not add up.")}
            {render_figure("Tight, for this job alone", charged.tight, "Noise, sampling and the maximum number of releases were fixed in the signed manifest before the first release; a job that stopped early is priced in full. Never add it to the ε of another job.")}
            {charged.insider.map(|figure| render_figure("If the server and the other sites collude", Some(figure), "From a Rényi curve: the noise of this site is left then. The other figures assume as many honest sites as the manifest states."))}
        </div>
        {(releases.in_the_clear > 0).then(|| view! {
            <p class="in-the-clear">{format!("Also {}. No ε covers them.", words::plural(releases.in_the_clear, "exact release"))}</p>
        })}
        <dl class="facts">
            <div><dt>"Protected"</dt><dd>{format!("{} {}", words::unit_meaning(charged.unit), describe_relation(charged))}</dd></div>
            {render_public_facts(&charged.public)}
            <div><dt>"Each release"</dt><dd>{describe_event(&charged.mechanism.event)}</dd></div>
            <div><dt>"Sampling"</dt><dd>{sampling}</dd></div>
            {clip}
            {noise}
            <div><dt>"Releases"</dt><dd>{count}</dd></div>
            {clock}
            <div><dt>"Receipts of the site"</dt><dd>{chain}{charged.receipts.head.clone().map(|head| view! { <code>{head}</code> })}</dd></div>
            {charged.audit.as_ref().map(render_audit)}
            {(!charged.others.is_empty()).then(|| view! { <div><dt>"Also charged"</dt><dd><ul>{render_other_charges(charged)}</ul></dd></div> })}
        </dl>
        <h3>"Lifetime budget of the dataset at that time"</h3>
        {gauge}
        {render_promises(&charged.account.promises)}
        <p class="hint">{format!("{} in its ledger, the last ", words::plural(charged.account.entries, "row"))}<code>{charged.account.head.clone()}</code></p>
    }
    .into_any()
}

/// Renders the cost of the releases to every other limited unit: each limit bounds all jobs.
fn render_other_charges(charged: &PartyCharges) -> AnyView {
    let line = |other: &ChargedBeside| {
        let each = words::each(other.unit);
        let own = match other.renyi.and_then(|figure| Some((figure.epsilon?, figure.delta))) {
            Some((epsilon, delta)) => format!("ε {} at δ {}", words::epsilon(epsilon), words::delta(delta)),
            None => "no finite ε".to_owned(),
        };
        let limit = other.account.limit.map_or_else(|| "no limit".to_owned(), words::limit);
        let spent = words::epsilon(other.account.committed);
        view! { <li>{format!("For {each}: {own} by this job; its account stood at ε {spent} of {limit}.")}</li> }
    };
    charged.others.iter().map(line).collect_view().into_any()
}

/// Describes the times of releases and the information that they may contain.
fn describe_clock(clock: ClockSummary) -> String {
    let releases =
        if clock.releases == 1 { "1 release".to_owned() } else { words::count(clock.releases) + " releases" };
    let clocked = format!(
        "{releases} on a clock of {} s that does not depend on the data. It hides the duration of computations, but \
         not the load of the machine.",
        words::number(clock.period_millis as f64 / 1_000.0)
    );
    match clock.late {
        0 => clocked,
        late => format!("{clocked} {} missed the first tick, which can reveal the sampled units.", words::count(late)),
    }
}

fn render_figure(title: &'static str, figure: Option<CertifiedFigure>, what_for: &'static str) -> AnyView {
    let number = match figure {
        Some(CertifiedFigure { epsilon: Some(epsilon), delta, .. }) => {
            view! { <p class="figure-number">"ε "<strong>{words::epsilon(epsilon)}</strong>" at δ "{words::delta(delta)}</p> }.into_any()
        }
        Some(_) => view! { <p class="figure-number bad-text">"no finite ε"</p> }.into_any(),
        None => view! { <p class="figure-number">"unknown"</p> }.into_any(),
    };
    view! { <div class="figure"><p class="figure-title">{title}</p>{number}<p class="hint">{what_for}</p></div> }
        .into_any()
}

/// Renders the assumed public facts, outside every ε.
fn render_public_facts(facts: &[PublicFact]) -> Option<AnyView> {
    let sentence = |fact: &PublicFact| match fact {
        PublicFact::Units { count } => format!("the number of units ({} as a size class)", words::count(*count)),
        PublicFact::Sizes => "the sizes at registration".to_owned(),
        PublicFact::Classes { count } => format!("the {} declared", words::plural(*count, "class")),
        PublicFact::ExpectedBatch { units } => format!("the expected batch of {} units", words::number(*units)),
        PublicFact::PlannedReleases { count } => format!("the {} planned", words::plural(*count, "release")),
        PublicFact::Participation => {
            "the participation of the dataset, the rounds in which its releases arrived, and a failure of its part"
                .to_owned()
        }
    };
    let all: Vec<String> = facts.iter().map(sentence).collect();
    (!all.is_empty()).then(|| {
        let text = format!("Treated as public, not covered by any ε: {}.", all.join("; "));
        view! { <div><dt>"Public"</dt><dd>{text}</dd></div> }.into_any()
    })
}

/// Renders the guarantee of an account with a limit that was raised after releases: the sum of its promises. `None` for
/// one promise.
pub(in crate::page) fn render_promises(promises: &[PromisedLimit]) -> Option<AnyView> {
    (promises.len() > 1).then(|| {
        let each: Vec<String> = promises.iter().map(|promise| format!("ε {}", words::limit(promise.epsilon))).collect();
        let (epsilon, delta) = PromisedLimit::combine(promises);
        let text = format!(
            "The limit was raised after releases; each limit is a separate guarantee. The total guarantee is {} = ε \
             {} at δ {}.",
            each.join(" + "),
            words::epsilon(epsilon),
            words::delta(delta)
        );
        view! { <p class="promises">{text}</p> }.into_any()
    })
}

/// Returns the compared data as the certificate states them; certificates of the first version do not.
fn describe_relation(charged: &PartyCharges) -> String {
    if charged.relation.is_empty() { relation(charged.adjacency, charged.unit) } else { charged.relation.clone() }
}

/// Describes the data that an account compares, in a sentence: all charges whose relation it counts.
pub(in crate::page) fn describe_adjacency(adjacency: Adjacency, unit: PrivacyUnit) -> String {
    match (adjacency.account(), unit) {
        (Adjacency::AddRemove | Adjacency::ZeroOut, PrivacyUnit::Words) => relation(Adjacency::ZeroOut, unit),
        (Adjacency::AddRemove | Adjacency::ZeroOut, _) => {
            let unit = words::unit(unit);
            format!(
                "The guarantee compares the data with any one {unit}’s part and with that part emptied or removed; \
                 both cost the same and share this budget. The number of {unit}s is public."
            )
        }
        (Adjacency::ReplaceOne, _) => relation(adjacency, unit),
    }
}

/// Renders an audit's measurement beside the claim.
fn render_audit(asked: &AuditAsked) -> AnyView {
    let statement = asked.statement.as_ref();
    let statement = statement.and_then(|signed| serde_json::from_str::<AuditStatement>(&signed.payload).ok());
    let (class, text) = match statement.map(|statement| statement.assessment) {
        None => ("in-the-clear", "requested; the site has not submitted a statement".to_owned()),
        Some(found) => {
            let measured = format!(
                "An attack on canaries measured at least ε {}; the claim is ε {}.",
                words::epsilon_left(found.shown),
                words::epsilon(found.tight)
            );
            match found.verdict {
                AuditVerdict::Consistent => ("", format!("{measured} It could have disproved the claim and did not.")),
                AuditVerdict::Uninformative => {
                    ("", format!("{measured} It could not have disproved so large a claim."))
                }
                AuditVerdict::Disproved => ("bad-text", format!("{measured} It disproves the claim.")),
            }
        }
    };
    view! { <div><dt>"Audit"</dt><dd class=class>{text}</dd></div> }.into_any()
}

#[cfg(test)]
mod tests {
    use undertone_privacy::{Adjacency, PrivacyUnit};

    use super::describe_adjacency;

    #[test]
    fn both_adjacencies_describe_the_same_account() {
        let both = [Adjacency::AddRemove, Adjacency::ZeroOut].map(|one| describe_adjacency(one, PrivacyUnit::Speaker));
        assert_eq!(both[0], both[1]);
        assert!(both[0].contains("emptied or removed"), "{}", both[0]);
    }
}
