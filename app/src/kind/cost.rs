//! The parts that the cost panels of several kinds' planners share.

use leptos::prelude::*;
#[cfg(feature = "ssr")]
use undertone_api::budget::AccountStanding;
#[cfg(feature = "ssr")]
use undertone_api::dataset::Dataset;
#[cfg(feature = "ssr")]
use undertone_api::id::DatasetId;
#[cfg(feature = "ssr")]
use undertone_api::job::{Charge, NewJob};
#[cfg(feature = "ssr")]
use undertone_api::plan::{AccountBalances, PlanOffer, PricedPlan, RoundedKind, nearest};
use undertone_api::problem::Violation;

#[cfg(feature = "ssr")]
use crate::component::gauge::Gauge;
#[cfg(feature = "ssr")]
use crate::standing::{NoPayment, Payment, collect_balances, find_standings, others};
#[cfg(feature = "ssr")]
use crate::words;

/// The words with which a panel describes a charge to an account.
#[cfg(feature = "ssr")]
#[derive(Debug, Clone, Copy)]
pub(super) struct ChargeTerms<'a> {
    /// The protected unit, singular.
    pub(super) unit: &'a str,
    /// A further charge of this size, singular: `such training`.
    pub(super) charge: &'a str,
    /// Whether ε of the charge by itself is stated.
    pub(super) states_own: bool,
}

/// A plan in which each participant is charged alike, with the facts that decide about it.
#[cfg(feature = "ssr")]
pub(super) struct CostPanel<'a, K> {
    spec: &'a K,
    datasets: &'a [Dataset],
    standings: &'a [(DatasetId, Vec<AccountStanding>)],
    balances: AccountBalances,
    priced: Option<PricedPlan>,
    violations: Vec<Violation>,
}

/// The words of a kind in its panel.
#[cfg(feature = "ssr")]
#[derive(Debug, Clone, Copy)]
pub(super) struct PanelTerms {
    /// The charge to an account.
    pub(super) charge: ChargeTerms<'static>,
    /// The sentence about a participant that is not charged.
    pub(super) uncharged: &'static str,
    /// The last sentences: the number of releases, and the moment of the charge.
    pub(super) closing: &'static str,
}

#[cfg(feature = "ssr")]
impl<'a, K: RoundedKind> CostPanel<'a, K> {
    /// Checks and prices a plan.
    pub(super) fn new(
        spec: &'a K,
        datasets: &'a [Dataset],
        standings: &'a [(DatasetId, Vec<AccountStanding>)],
    ) -> Self {
        let balances = collect_balances(datasets, standings);
        let priced = PricedPlan::from_spec(spec, datasets, &balances);
        Self { spec, datasets, standings, priced, balances, violations: spec.check(datasets) }
    }

    /// Returns whether the plan can be proposed.
    pub(super) const fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }

    /// Returns the nearest plans that fit; none for a plan that is not valid.
    pub(super) fn find_offers(&self, job: &NewJob) -> Vec<PlanOffer> {
        if self.is_valid() { nearest(job, self.datasets, &self.balances) } else { Vec::new() }
    }

    /// Renders the panel for these participants as HTML. `offers` are sentences with addresses of plans; `remarks` stand
    /// before the last sentences.
    pub(super) fn render(
        &self,
        participants: impl Iterator<Item = DatasetId>,
        terms: PanelTerms,
        offers: Vec<(String, String)>,
        remarks: AnyView,
    ) -> String {
        let sites = participants.filter_map(|id| {
            let dataset = self.datasets.iter().find(|dataset| dataset.id == id)?;
            let charge = self.render_charge(dataset, terms);
            Some(view! { <li><h3>{format!("{}, {}", dataset.name, dataset.organization_name)}</h3>{charge}</li> })
        });
        view! {
            <h2>"Projected cost"</h2>
            <p class="headline-small">{summarize_price(self.priced.as_ref())}</p>
            {render_offers(offers)}
            <ul class="costs">{sites.collect_view()}</ul>
            {render_violations(&self.violations)}
            {remarks}
            <p class="hint">{terms.closing}</p>
        }
        .to_html()
    }

    fn render_charge(&self, dataset: &Dataset, terms: PanelTerms) -> AnyView {
        let Some(charge) = self.spec.cost(dataset) else {
            return view! { <p class="hint">{terms.uncharged}</p> }.into_any();
        };
        let standings = find_standings(self.standings, dataset.id);
        render_account(dataset, &charge, standings, self.priced.as_ref(), terms.charge)
    }
}

/// Describes the decision of the budgets on a plan with several parties.
#[cfg(feature = "ssr")]
pub(super) fn summarize_price(priced: Option<&PricedPlan>) -> &'static str {
    match priced {
        None => "This plan charges no account.",
        Some(priced) if !priced.budgeted() => "An owner has not set a budget for this unit.",
        Some(priced) if priced.admitted() => "Fits every budget.",
        Some(_) => "Over the limit.",
    }
}

/// Renders the account that a charge goes to, and the effect of the charge on the accounts of other units.
#[cfg(feature = "ssr")]
pub(super) fn render_account(
    dataset: &Dataset,
    charge: &Charge,
    standings: &[AccountStanding],
    priced: Option<&PricedPlan>,
    terms: ChargeTerms<'_>,
) -> AnyView {
    let standing = standings.iter().find(|standing| charge.is_on(standing.unit, standing.adjacency));
    let quote = priced.and_then(|priced| priced.find_quote(dataset.id));
    let gauge = match standing.zip(quote).map(|(standing, quote)| Payment::for_share(standing, quote, charge)) {
        None | Some(Err(NoPayment::NoBudget)) => {
            render_line(format!("Its owner has not set a budget for each {}.", terms.unit), false)
        }
        Some(Err(NoPayment::Unpriced(why))) => render_line(why, false),
        Some(Ok(payment)) => render_payment(&payment, terms),
    };
    let others = others(dataset, charge, standings, None).into_iter();
    view! { {gauge}{others.map(|(text, fits)| render_line(text, fits)).collect_view()} }.into_any()
}

#[cfg(feature = "ssr")]
fn render_line(text: String, fits: bool) -> AnyView {
    view! { <p class=if fits { "hint" } else { "bad-text" }>{text}</p> }.into_any()
}

#[cfg(feature = "ssr")]
fn render_payment(payment: &Payment, terms: ChargeTerms<'_>) -> AnyView {
    let ghost = payment.ghost;
    let own = terms.states_own.then(|| format!("ε {} for this job by itself.", words::epsilon(payment.own)));
    let capacity = match payment.further {
        (0, _) => format!("no other {}", terms.charge),
        (count, _) => words::plural(count, &format!("more {}", terms.charge)),
    };
    let leaves = ghost
        .fits
        .then(|| format!("Leaves ε {}: room for {capacity}.", words::epsilon_left(payment.left.unwrap_or_default())));
    let refusal = (!ghost.fits).then_some("It exceeds the remaining budget.");
    view! {
        <Gauge reading=payment.reading ghost=Some(ghost)/>
        {own.map(|own| view! { <p class="hint">{own}</p> })}
        {leaves.map(|leaves| view! { <p class="hint">{leaves}</p> })}
        {refusal.map(|refusal| view! { <p class="hint bad-text">{refusal}</p> })}
    }
    .into_any()
}

/// Renders the nearest plans that fit, each a sentence and the address of the planner with that plan.
#[cfg(feature = "ssr")]
pub(super) fn render_offers(offers: Vec<(String, String)>) -> AnyView {
    if offers.is_empty() {
        return ().into_any();
    }
    let row = |(sentence, link): (String, String)| {
        let label = format!("Use this: {sentence}");
        view! { <li><p>{sentence}</p><a class="button" href=link aria-label=label>"Use this"</a></li> }
    };
    view! {
        <section class="offers">
            <h3>"Nearest plans within the budgets"</h3>
            <ul>{offers.into_iter().map(row).collect_view()}</ul>
        </section>
    }
    .into_any()
}

/// Renders the violations of a plan, each with its field.
pub(super) fn render_violations(violations: &[Violation]) -> AnyView {
    if violations.is_empty() {
        return ().into_any();
    }
    let row = |violation: &Violation| {
        let field = violation.field.trim_start_matches("spec.").to_owned();
        view! { <li><code>{field}</code>": "{violation.message.clone()}</li> }
    };
    view! {
        <div class="notice bad">
            <p class="notice-title">"To fix before proposing"</p>
            <ul>{violations.iter().map(row).collect_view()}</ul>
        </div>
    }
    .into_any()
}
