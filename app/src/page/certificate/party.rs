//! One dataset's part of a certificate.

use leptos::prelude::*;
use undertone_api::job::audit::Verdict;
use undertone_api::signed::AuditStatement;
use undertone_api::signed::certificate::{AuditAsked, Charged, Figure, Party, Sampling};
use undertone_privacy::{Adjacency, PrivacyUnit};

use super::super::ledger::event;
use crate::component::gauge::{Gauge, Reading};
use crate::component::said::VisibilityMark;
use crate::words;

/// A dataset's part.
pub(super) fn section(party: &Party) -> AnyView {
    let body = match &party.charged {
        Some(charged) => paid(charged),
        None => view! { <p>"Public data: exact results may leave the site, and nothing is charged."</p> }.into_any(),
    };
    view! {
        <section class="panel"><div class="panel-head"><h2>{party.dataset_name.clone()}</h2>
            <span class="party-owner">{party.organization_name.clone()}" "<VisibilityMark visibility=party.visibility/></span></div>
            {body}
        </section>
    }
    .into_any()
}

fn paid(charged: &Charged) -> AnyView {
    let releases = charged.releases;
    let counted = if releases.settled {
        format!("{} paid, of {} reserved", words::count(releases.committed), words::count(releases.reserved))
    } else {
        format!(
            "{} paid so far; the site has not closed its part, so all {} reserved are counted",
            words::count(releases.committed),
            words::count(releases.reserved)
        )
    };
    let sampling = match charged.mechanism.sampling {
        Sampling::Poisson { rate } => {
            format!("each {} by itself, in secret, with probability {}", words::unit(charged.unit), words::number(rate))
        }
        Sampling::Everything => "none that is counted".to_owned(),
    };
    let clip = charged.mechanism.clip.zip(charged.mechanism.sensitivity).map(|(clip, sensitivity)| {
        let text = format!(
            "each {}’s contribution is cut to length {}, so one change moves a sum by at most {}",
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
    let summary = charged.account.balance.summary();
    let gauge = Reading::of(&summary, charged.unit).map(|reading| view! { <Gauge reading/> });
    view! {
        <div class="figures">
            {figure("For the budget", charged.renyi, "Adds up with every other job, however it is chosen. The ledgers count by this one.")}
            {figure("Tight, for this job alone", charged.tight, "All parameters were fixed before the first release. Never add it to another job’s.")}
        </div>
        {(releases.in_the_clear > 0).then(|| view! {
            <p class="in-the-clear">{format!("{} left in the clear besides. No ε covers them.", words::plural(releases.in_the_clear, "exact release"))}</p>
        })}
        <dl class="facts">
            <div><dt>"Protected"</dt><dd>{format!("{} {}", words::unit_meaning(charged.unit), change(charged.adjacency, charged.unit))}</dd></div>
            <div><dt>"Each release"</dt><dd>{event(&charged.mechanism.event)}</dd></div>
            <div><dt>"Sampling"</dt><dd>{sampling}</dd></div>
            {clip}
            {noise}
            <div><dt>"Releases"</dt><dd>{counted}</dd></div>
            <div><dt>"Receipts of the site"</dt><dd>{chain}{charged.receipts.head.clone().map(|head| view! { <code>{head}</code> })}</dd></div>
            {charged.audit.as_ref().map(audited)}
        </dl>
        <h3>"The dataset’s budget for life, then"</h3>
        {gauge}
        <p class="hint">{format!("{} in its ledger, the last ", words::plural(charged.account.entries, "row"))}<code>{charged.account.head.clone()}</code></p>
    }
    .into_any()
}

fn figure(title: &'static str, figure: Option<Figure>, what_for: &'static str) -> AnyView {
    let number = match figure {
        Some(Figure { epsilon: Some(epsilon), delta, .. }) => {
            view! { <p class="figure-number">"ε "<strong>{words::epsilon(epsilon)}</strong>" at δ "{words::delta(delta)}</p> }.into_any()
        }
        Some(_) => view! { <p class="figure-number bad-text">"no finite ε"</p> }.into_any(),
        None => view! { <p class="figure-number">"not known"</p> }.into_any(),
    };
    view! { <div class="figure"><p class="figure-title">{title}</p>{number}<p class="hint">{what_for}</p></div> }
        .into_any()
}

/// The neighbouring relation in a sentence.
pub(in crate::page) fn change(adjacency: Adjacency, unit: PrivacyUnit) -> String {
    if unit == PrivacyUnit::Words {
        let said = "Compared are the data with and without as many words as a job states, added and removed together.";
        return said.to_owned();
    }
    let unit = words::unit(unit);
    match adjacency {
        Adjacency::AddRemove => format!("Compared are the data with and without any one {unit}: one added or removed."),
        Adjacency::ZeroOut => {
            format!(
                "Compared are the data with any one {unit}’s part and with it emptied; how many there are is public."
            )
        }
        Adjacency::ReplaceOne => format!("Compared are the data with any one {unit} and with another in its place."),
    }
}

/// What an audit measured, beside the claim.
fn audited(asked: &AuditAsked) -> AnyView {
    let statement = asked.statement.as_ref();
    let statement = statement.and_then(|signed| serde_json::from_str::<AuditStatement>(&signed.payload).ok());
    let (class, text) = match statement.map(|statement| statement.assessment) {
        None => ("in-the-clear", "was asked for; the site has handed in no statement".to_owned()),
        Some(found) => {
            let measured = format!(
                "An attack on canaries measured at least ε {}; ε {} is claimed.",
                words::epsilon_left(found.shown),
                words::epsilon(found.tight)
            );
            match found.verdict {
                Verdict::Consistent => ("", format!("{measured} It could have disproved the claim and did not.")),
                Verdict::Uninformative => ("", format!("{measured} It could not have disproved a claim so large.")),
                Verdict::Disproved => ("bad-text", format!("{measured} The claim is disproved.")),
            }
        }
    };
    view! { <div><dt>"Audit"</dt><dd class=class>{text}</dd></div> }.into_any()
}

#[cfg(test)]
mod tests {
    use undertone_privacy::{Adjacency, PrivacyUnit};

    use super::change;

    #[test]
    fn every_neighbouring_relation_is_said_differently() {
        let all = [Adjacency::AddRemove, Adjacency::ZeroOut, Adjacency::ReplaceOne];
        let said: std::collections::BTreeSet<_> = all.map(|one| change(one, PrivacyUnit::Speaker)).into();
        assert_eq!(said.len(), 3);
        assert!(said.iter().all(|sentence| sentence.contains("speaker")));
    }
}
