//! The cost of a plan to every owner, and sufficient alternatives: computed on the server, by the code that will
//! decide.

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::active_learning::{Gate, PrivateTest, PrivateTraining, Spec};
use undertone_api::job::{Charge, JobKind as _, NewJob, Spec as AnySpec};
use undertone_api::plan::{PlanOffer, PlanParameter, PricedPlan, nearest};
use undertone_privacy::kanon::{Shown, least_epsilon};
use undertone_privacy::{Event, mechanism};

use super::super::description::{describe_measured, unit_noun};
use super::super::plan::{PART_OF_DELTA, QuestionPlan};
use super::form::SHOWN;
use crate::kind::cost::{ChargeTerms, render_account, render_offers, render_violations, summarize_price};
use crate::standing::{collect_balances, find_standings};
use crate::words;

/// The greatest threshold, and the number of rate steps, in the search for sufficient ones.
const MOST_THRESHOLD: u32 = 1_000_000;
const PARTS: u32 = 200;

/// Renders the cost of the plan as HTML.
pub(in crate::kind::active_learning) fn render_cost(
    plan: &QuestionPlan,
    datasets: &[Dataset],
    standings: &[(DatasetId, Vec<AccountStanding>)],
    consortium: ConsortiumId,
) -> String {
    let spec = match plan.spec(datasets) {
        Ok(spec) => spec,
        Err(violations) => return render_violations(&violations).to_html(),
    };
    let violations = spec.check(datasets);
    let balances = collect_balances(datasets, standings);
    let priced = PricedPlan::from_spec(&spec, datasets, &balances);
    let parties = spec.participants.iter().map(|party| (party.dataset, party.gate));
    let measured = spec.private_test.iter().map(|test| (test.dataset, None));
    let parties = parties.chain(measured).filter_map(|(id, gate)| {
        let dataset = datasets.iter().find(|dataset| dataset.id == id)?;
        let standing = find_standings(standings, dataset.id);
        let charge = render_charge(&spec, dataset, gate, standing, priced.as_ref());
        Some(view! { <li><h3>{format!("{}, {}", dataset.name, dataset.organization_name)}</h3>{charge}</li> })
    });
    let parties = parties.collect_view();
    let offers = if violations.is_empty() {
        let job = NewJob { title: plan.title.clone(), spec: AnySpec::ActiveLearning(spec) };
        render_offers(link_offers(nearest(&job, datasets, &balances), plan, consortium))
    } else {
        ().into_any()
    };
    view! {
        <h2>"Projected cost"</h2>
        <p class="headline-small">{summarize_price(priced.as_ref())}</p>
        {offers}
        <ul class="costs">{parties}</ul>
        {render_violations(&violations)}
        <p class="hint">"One release of each private log is charged, once; of a private lead each training, of a measured log each measurement. Nothing is charged before every owner has approved and every ledger has reserved it."</p>
    }
    .to_html()
}

/// Renders a party's charge and its purpose.
fn render_charge(
    spec: &Spec,
    dataset: &Dataset,
    gate: Option<Gate>,
    standings: &[AccountStanding],
    priced: Option<&PricedPlan>,
) -> AnyView {
    let line = |text: String| view! { <p class="hint">{text}</p> }.into_any();
    let bad = |text: String| view! { <p class="bad-text">{text}</p> }.into_any();
    if let Some(training) = spec.private_training(dataset.id) {
        return render_training(spec, &training, dataset, standings, priced);
    }
    if let Some(test) = spec.private_test_on(dataset.id) {
        return render_measurement(spec, &test, dataset, standings, priced);
    }
    let Some(gate) = gate else { return line("Public: it is the lead, and contributes no questions.".to_owned()) };
    let Some(charge) = spec.cost(dataset) else {
        debug_assert_eq!(dataset.visibility, Visibility::Public, "only public data are not charged");
        return line("Public: its questions are shown, and nothing is charged.".to_owned());
    };
    let promise = match mechanism::guarantee(&charge.event, charge.adjacency) {
        Ok(promise) => (promise.0.get(), promise.1.get()),
        Err(error) => return bad(error.to_string()),
    };
    let standing = standings.iter().find(|standing| charge.is_on(standing.unit, standing.adjacency));
    let delta = standing.and_then(|standing| standing.balance.budget()).map(|budget| budget.delta().get());
    let terms = ChargeTerms { unit: unit_noun(spec.unit), charge: "such pool", states_own: false };
    let account = render_account(dataset, &charge, standings, priced, terms);
    let summary = format!(
        "For each {} ε {} at δ {}, once. About {} of {} are kept; a text asked {} is shown with probability about one half.",
        unit_noun(spec.unit),
        words::epsilon(promise.0),
        words::delta(promise.1),
        words::count((gate.sampling_rate.get() * dataset.records.0 as f64).round() as u64),
        words::plural(dataset.records.0, "row"),
        words::plural((f64::from(gate.threshold.get()) / gate.sampling_rate.get()).ceil() as u64, "time"),
    );
    view! { {account}{line(summary)}{render_bounds(&gate, &charge)}{delta.map(|delta| render_solutions(&gate, &charge, delta))} }
        .into_any()
}

/// Renders the charges of a private lead's trainings.
fn render_training(
    spec: &Spec,
    training: &PrivateTraining,
    dataset: &Dataset,
    standings: &[AccountStanding],
    priced: Option<&PricedPlan>,
) -> AnyView {
    let line = |text: String| view! { <p class="hint">{text}</p> }.into_any();
    let Some(charge) = spec.cost(dataset) else {
        return line("Public: its training needs no noise, and nothing is charged.".to_owned());
    };
    let terms = ChargeTerms { unit: unit_noun(spec.unit), charge: "such training", states_own: false };
    let account = render_account(dataset, &charge, standings, priced, terms);
    let batch = training.sampling_rate.get() * dataset.count(spec.unit).0 as f64;
    let summary = format!(
        "Private: it leads, and contributes no questions. {} of {} each are charged; about {} of {} are in a step, with noise of {} times the clip.",
        words::plural(charge.releases, "training"),
        words::plural(training.steps.into(), "noisy step"),
        words::count(batch.round() as u64),
        words::plural(dataset.count(spec.unit).0, unit_noun(spec.unit)),
        words::number(training.noise_multiplier.get()),
    );
    view! { {account}{line(summary)} }.into_any()
}

/// Renders the charges of the measurements on a private log.
fn render_measurement(
    spec: &Spec,
    test: &PrivateTest,
    dataset: &Dataset,
    standings: &[AccountStanding],
    priced: Option<&PricedPlan>,
) -> AnyView {
    let line = |text: String| view! { <p class="hint">{text}</p> }.into_any();
    let Some(charge) = spec.cost(dataset) else {
        return line("Public: it needs no noise, and nothing is charged.".to_owned());
    };
    let terms = ChargeTerms { unit: unit_noun(spec.unit), charge: "such measurement", states_own: false };
    let account = render_account(dataset, &charge, standings, priced, terms);
    let summary = format!(
        "Private: the classifier is measured on it {}, {}. Each count of the histograms has noise of deviation {}, for about {}.",
        words::plural(charge.releases, "time"),
        describe_measured(spec, test),
        words::number(test.histograms(&spec.labels).pooled_deviation(1)),
        words::plural(spec.units(dataset), unit_noun(spec.unit)),
    );
    view! { {account}{line(summary)} }.into_any()
}

/// Renders δ for each choice of released content, with the same β, k and ε.
fn render_bounds(gate: &Gate, charge: &Charge) -> AnyView {
    let rows = SHOWN.map(|(shown, text)| {
        let one = change_event(&charge.event, |event| event.shown = shown);
        let delta = mechanism::guarantee(&one, charge.adjacency)
            .map_or_else(|_| format!("none; needs ε {}", describe_least_epsilon(gate, shown)), |(_, delta)| words::delta(delta.get()));
        let is_current = shown == gate.shown;
        view! {
            <tr aria-current=is_current.then_some("true")>
                <th scope="row">{if is_current { view! { <strong>{text}</strong> }.into_any() } else { text.into_any() }}</th>
                <td class="number">{delta}</td>
            </tr>
        }
    });
    view! {
        <table class="dense">
            <caption>"δ at these numbers, by form of release"</caption>
            <thead><tr><th scope="col">"Form of release"</th><th scope="col" class="number">"δ"</th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

fn describe_least_epsilon(gate: &Gate, shown: Shown) -> String {
    let least = least_epsilon(shown, gate.sampling_rate.get());
    format!("{} or more", words::number((least * 1e4).ceil() / 1e4))
}

/// Renders the least threshold and the greatest rate whose δ is a tenth of the account's.
fn render_solutions(gate: &Gate, charge: &Charge, delta: f64) -> AnyView {
    let target = delta * PART_OF_DELTA;
    let keeps =
        |event: &Event| mechanism::guarantee(event, charge.adjacency).is_ok_and(|(_, delta)| delta.get() <= target);
    let threshold = find_least_threshold(&charge.event, &keeps);
    let rate = find_greatest_rate(&charge.event, &keeps);
    let k = threshold.map_or_else(
        || "no threshold reaches it at this β and ε".to_owned(),
        |k| format!("the least k at this β and ε is {}", words::count(k.into())),
    );
    let beta = rate.map_or_else(
        || format!("no β reaches it at k {}", gate.threshold),
        |rate| {
            format!("the greatest β at this k and ε is {}, in steps of {}", words::number(rate), 1.0 / f64::from(PARTS))
        },
    );
    let text = format!("For δ {}, a tenth of the account’s: {k}; {beta}.", words::delta(target));
    view! { <p class="hint">{text}</p> }.into_any()
}

/// Candidate parameters of sampling with a threshold.
struct GateCandidate {
    shown: Shown,
    rate: Option<undertone_privacy::SamplingRate>,
    threshold: Option<std::num::NonZeroU32>,
}

/// Returns the same event with some parameters changed.
fn change_event(event: &Event, change: impl FnOnce(&mut GateCandidate)) -> Event {
    let Event::SampledThreshold { sampling_rate, threshold, epsilon, shown, rows_per_unit } = event else {
        return event.clone();
    };
    let mut tried = GateCandidate { shown: *shown, rate: Some(*sampling_rate), threshold: Some(*threshold) };
    change(&mut tried);
    Event::SampledThreshold {
        sampling_rate: tried.rate.unwrap_or(*sampling_rate),
        threshold: tried.threshold.unwrap_or(*threshold),
        epsilon: *epsilon,
        shown: tried.shown,
        rows_per_unit: *rows_per_unit,
    }
}

/// Returns the least sufficient threshold: δ falls with k, so doubling and bisection find it.
fn find_least_threshold(event: &Event, keeps: &impl Fn(&Event) -> bool) -> Option<u32> {
    let is_sufficient = |k: u32| keeps(&change_event(event, |tried| tried.threshold = std::num::NonZeroU32::new(k)));
    let mut high = 1;
    while !is_sufficient(high) {
        if high >= MOST_THRESHOLD {
            return None;
        }
        high = (high * 2).min(MOST_THRESHOLD);
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        if is_sufficient(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// Returns the greatest rate that keeps the promise. The bound δ is not monotone in β, so every step is tried from the
/// top; every smaller rate then keeps the promise too.
fn find_greatest_rate(event: &Event, keeps: &impl Fn(&Event) -> bool) -> Option<f64> {
    let rates = (1..PARTS).rev().map(|part| f64::from(part) / f64::from(PARTS));
    let mut rates = rates.filter(|rate| {
        keeps(&change_event(event, |tried| tried.rate = undertone_privacy::SamplingRate::floor(*rate).ok()))
    });
    rates.next()
}

/// Returns the nearest plans that fit, with their addresses.
fn link_offers(offers: Vec<PlanOffer>, plan: &QuestionPlan, consortium: ConsortiumId) -> Vec<(String, String)> {
    let link = |offer: PlanOffer| {
        let mut turned = plan.clone();
        for change in &offer.changes {
            if offer.knob == PlanParameter::Noise {
                let is_measured = plan.measured().any(|part| Some(part.dataset) == change.dataset);
                let noise = if is_measured { &mut turned.measurement.noise } else { &mut turned.training.noise };
                *noise = change.to;
                continue;
            }
            for part in turned.parts.iter_mut().filter(|part| Some(part.dataset) == change.dataset) {
                match offer.knob {
                    PlanParameter::Threshold => part.threshold = change.to as u32,
                    PlanParameter::Epsilon => part.epsilon = change.to,
                    PlanParameter::SamplingRate
                    | PlanParameter::Rounds
                    | PlanParameter::Noise
                    | PlanParameter::Delta => part.rate = change.to,
                }
            }
        }
        (offer.sentence, turned.link(consortium))
    };
    offers.into_iter().map(link).collect()
}
