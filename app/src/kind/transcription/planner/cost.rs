//! The charge of a plan, its expected cost, and sufficient alternatives: computed on the server, by the code that
//! decides.

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::transcription::{CostEstimate, Money, OutputVoice, Spec};
use undertone_api::job::{Charge, JobKind as _, NewJob, Spec as AnySpec};
use undertone_api::plan::{PlanOffer, PlanParameter, PricedPlan, nearest};
use undertone_api::problem::Violation;
use undertone_privacy::mechanism;

use super::super::plan::{TranscriptionPlan, lacks_words};
use super::super::promises::render_promises;
use super::{distance, variants};
use crate::component::gauge::Gauge;
use crate::standing::{NoPayment, Payment, collect_balances, find_standings, others};
use crate::words;

/// Renders the cost of the plan as HTML.
pub(in crate::kind::transcription) fn render_cost(
    plan: &TranscriptionPlan,
    datasets: &[Dataset],
    standings: &[(DatasetId, Vec<AccountStanding>)],
    consortium: ConsortiumId,
) -> String {
    let spec = match plan.spec() {
        Ok(spec) => spec,
        Err(violations) => return render_violations(&violations, false).to_html(),
    };
    let violations = spec.check(datasets);
    let balances = collect_balances(datasets, standings);
    let priced = PricedPlan::from_spec(&spec, datasets, &balances);
    let dataset = datasets.iter().find(|dataset| dataset.id == spec.participant.dataset);
    let pays = dataset.map(|dataset| {
        let standing = find_standings(standings, dataset.id);
        let charge = render_charge(&spec, dataset, standing, priced.as_ref());
        view! { <ul class="costs"><li><h3>{format!("{}, {}", dataset.name, dataset.organization_name)}</h3>{charge}</li></ul> }
    });
    let offers = if violations.is_empty() {
        let job = NewJob { title: plan.title.clone(), spec: AnySpec::Transcription(spec.clone()) };
        render_offers(nearest(&job, datasets, &balances), plan, consortium)
    } else {
        ().into_any()
    };
    let seconds = dataset.and_then(|dataset| dataset.seconds).map_or(0, |seconds| seconds.0);
    let size = plan.size(&spec);
    let is_unwritten = lacks_words(&spec);
    let expected = CostEstimate::from_word_count(&spec, size, seconds)
        .ok()
        .map(|estimate| render_estimate(&spec, (size, is_unwritten), &estimate));
    view! {
        <h2>"Projected cost"</h2>
        {is_unwritten.then(|| render_missing_words(size))}
        <p class="headline-small">{summarize_price(dataset, priced.as_ref())}</p>
        {offers}
        {pays}
        {expected}
        {spec.promises().ok().map(|promises| render_promises(&promises, spec.colluding.get()))}
        {distance::render_distance(&spec)}
        {variants::render_table(&spec, size, seconds)}
        {render_violations(&violations, is_unwritten)}
        <p class="hint">"One release is charged, once, before anything leaves. Nothing is charged before the owner has approved and both ledgers have reserved it."</p>
    }
    .to_html()
}

/// Renders the notice about a missing list, with the assumption behind the numbers until then.
fn render_missing_words(size: u32) -> AnyView {
    let assumption = format!(
        "Until then, dummies, speech and money are computed for a list of {}. The charge to the account is the same for every list.",
        words::plural(size.into(), "word")
    );
    view! {
        <div class="notice">
            <p class="notice-title">"The word list is empty"</p>
            <p>"Enter the words with counts to hide under Vocabulary. "{assumption}</p>
        </div>
    }
    .into_any()
}

fn summarize_price(dataset: Option<&Dataset>, priced: Option<&PricedPlan>) -> &'static str {
    match (dataset, priced) {
        (None, _) => "These recordings do not exist.",
        (Some(_), None) => "This plan charges no account.",
        (_, Some(priced)) if !priced.budgeted() => "The owner has not set a budget for this unit.",
        (_, Some(priced)) if priced.admitted() => "Fits the budget.",
        (_, Some(_)) => "Over the limit.",
    }
}

/// Renders the charge to the owner's account.
fn render_charge(
    spec: &Spec,
    dataset: &Dataset,
    standings: &[AccountStanding],
    priced: Option<&PricedPlan>,
) -> AnyView {
    let bad = |text: String| view! { <p class="bad-text">{text}</p> }.into_any();
    let Some(charge) = spec.cost(dataset) else {
        debug_assert_eq!(dataset.visibility, Visibility::Public, "only public data are not charged");
        return view! { <p class="hint">"Public: nothing is charged, and nothing is hidden."</p> }.into_any();
    };
    let standing = standings.iter().find(|s| charge.is_on(s.unit, s.adjacency));
    let quote = priced.and_then(|priced| priced.find_quote(dataset.id));
    match standing.zip(quote).map(|(standing, quote)| Payment::for_share(standing, quote, &charge)) {
        None | Some(Err(NoPayment::NoBudget)) => {
            bad("Its owner has not set a budget for counts of pieces by word.".to_owned())
        }
        Some(Err(NoPayment::Unpriced(why))) => bad(why),
        Some(Ok(payment)) => {
            let side_delta = standing.and_then(|standing| describe_side_delta(standing, &charge));
            let others = others(dataset, &charge, standings, None).into_iter();
            let others =
                others.map(|(said, fits)| view! { <p class="hint" class:bad-text=!fits>{said}</p> }).collect_view();
            view! { {render_payment(&payment)}{others}{side_delta.map(|side_delta| view! { <p class="hint">{side_delta}</p> })} }
                .into_any()
        }
    }
}

/// Describes the part of the account's δ for such releases, which no ε of a gauge shows.
fn describe_side_delta(standing: &AccountStanding, charge: &Charge) -> Option<String> {
    let budget = standing.balance.budget()?;
    let (_, delta) = mechanism::guarantee(&charge.event, charge.adjacency).ok()?;
    Some(format!(
        "Of its δ {} the account keeps {} for releases with their own δ, such as this one: {} of that is spent or \
         reserved, and {} is requested. The gauge shows ε; this δ can run out first.",
        words::delta(budget.delta().get()),
        words::delta(budget.side_delta().get()),
        words::delta(standing.balance.summary().side_delta),
        words::delta(delta.get()),
    ))
}

fn render_payment(payment: &Payment) -> AnyView {
    let ghost = payment.ghost;
    let capacity = match payment.further {
        (0, _) => "no other such job".to_owned(),
        (jobs, _) => words::plural(jobs, "more such job"),
    };
    let leaves = ghost
        .fits
        .then(|| format!("Leaves ε {}: room for {capacity}.", words::epsilon_left(payment.left.unwrap_or_default())));
    let refusal = (!ghost.fits).then_some("It exceeds the remaining budget.");
    view! {
        <Gauge reading=payment.reading ghost=Some(ghost)/>
        {leaves.map(|leaves| view! { <p class="hint">{leaves}</p> })}
        {refusal.map(|refusal| view! { <p class="hint bad-text">{refusal}</p> })}
    }
    .into_any()
}

/// Renders dummies, seconds and money.
fn render_estimate(spec: &Spec, (size, is_unwritten): (u32, bool), estimate: &CostEstimate) -> AnyView {
    let vocabulary = words::plural(size.into(), "word");
    let vocabulary = if is_unwritten {
        format!("{vocabulary} as planned; the list is empty")
    } else if spec.vocabulary.depends_on_data() {
        format!("at most {vocabulary}")
    } else {
        vocabulary
    };
    let each = format!("{:.1} ± {:.1}", estimate.each, estimate.deviation);
    let facts = [
        ("Vocabulary", vocabulary),
        ("Dummies of a word at one recognizer", each),
        ("Dummies of a word at all of them", format!("{:.1}", estimate.per_word)),
        ("Dummies in all", words::count(estimate.dummies.round() as u64)),
        ("Recordings", format!("about {}", words::duration(estimate.recorded))),
        (
            "Extra audio: generated, converted and sent",
            format!("{} s, {}", words::count(estimate.extra.ceil() as u64), words::duration(estimate.extra)),
        ),
        ("Voice conversion", describe_conversion(spec, estimate)),
        ("Money, all recognizers", format_sums(&estimate.cost())),
        ("Money without protection, cheapest recognizer alone", format_sums(&estimate.bare())),
    ];
    let rows = estimate.providers.iter().map(|provider| {
        view! {
            <tr>
                <th scope="row">{provider.provider.clone()}</th>
                <td class="number">{words::count(provider.pieces.round() as u64)}</td>
                <td class="number">{words::count(provider.dummies.round() as u64)}</td>
                <td class="number">{words::duration(provider.seconds)}</td>
                <td class="number">{provider.cost.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string)}</td>
            </tr>
        }
    });
    view! {
        <h3>"Estimates"</h3>
        <dl class="facts">
            {facts.into_iter().map(|(term, description)| view! { <div><dt>{term}</dt><dd>{description}</dd></div> }).collect_view()}
        </dl>
        <div class="scroll" tabindex="0" role="group" aria-label="By recognizer"><table class="dense">
            <caption>"By recognizer, upper bounds: as if every piece were sent"</caption>
            <thead>
                <tr>
                    <th scope="col">"Recognizer"</th>
                    <th scope="col" class="number">"pieces"</th>
                    <th scope="col" class="number">"dummies"</th>
                    <th scope="col" class="number">"speech"</th>
                    <th scope="col" class="number">"money"</th>
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table></div>
    }
    .into_any()
}

/// Describes the seconds of speech for the one voice, and the converter.
fn describe_conversion(spec: &Spec, estimate: &CostEstimate) -> String {
    let seconds = words::duration(estimate.recorded + estimate.extra);
    let converter = match spec.voice {
        OutputVoice::Mcadams { .. } | OutputVoice::Vocoder { .. } => "on the worker’s own processor",
        OutputVoice::Command => "at the speed of the site’s program",
        OutputVoice::Url => "at the speed of the site’s server",
        OutputVoice::Cloned => return "none: voices leave unchanged, and the site’s program imitates them".to_owned(),
    };
    format!("{seconds} of speech, {converter}")
}

/// Formats sums of money, one for each currency.
pub(super) fn format_sums(all: &[Money]) -> String {
    if all.is_empty() {
        return "no price given".to_owned();
    }
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// Renders the nearest plans that fit, each as a link to the planner if its address is short enough.
fn render_offers(offers: Vec<PlanOffer>, plan: &TranscriptionPlan, consortium: ConsortiumId) -> AnyView {
    if offers.is_empty() {
        return ().into_any();
    }
    let row = |offer: PlanOffer| {
        let mut turned = plan.clone();
        for change in &offer.changes {
            *(if offer.knob == PlanParameter::Delta { &mut turned.delta } else { &mut turned.epsilon }) = change.to;
        }
        let label = format!("Use this: {}", offer.sentence);
        let link = turned.link(consortium);
        view! {
            <li><p>{offer.sentence}</p>{link.map(|link| view! { <a class="button" href=link aria-label=label>"Use this"</a> })}</li>
        }
    };
    view! {
        <section class="offers">
            <h3>"Nearest plans within the budget"</h3>
            <ul>{offers.into_iter().map(row).collect_view()}</ul>
        </section>
    }
    .into_any()
}

/// Renders the violations of the plan; not as an error if only the list is missing.
fn render_violations(violations: &[Violation], is_unwritten: bool) -> AnyView {
    if violations.is_empty() {
        return ().into_any();
    }
    let is_incomplete = is_unwritten && violations.iter().all(|violation| violation.field == "spec.vocabulary.words");
    view! {
        <div class="notice" class:bad=!is_incomplete>
            <p class="notice-title">"To fix before proposing"</p>
            <ul>{violations.iter().map(|v| view! { <li><code>{v.field.trim_start_matches("spec.").to_owned()}</code>": "{v.message.clone()}</li> }).collect_view()}</ul>
        </div>
    }
    .into_any()
}
