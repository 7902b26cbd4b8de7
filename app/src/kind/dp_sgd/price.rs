//! The cost of a plan to each party: computed here by the same code, on the same balances, as at the server and the
//! site.

use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::dp_sgd::{Arm, Spec};
use undertone_api::job::{Charge, JobKind, TermRange};
use undertone_api::plan::{
    AffordableRounds, EpsilonCurve, FittingChange, PlanParameter, PricedPlan, RoundedKind as _, epsilon_alone,
    least_noise, offers,
};
use undertone_privacy::Event;

use crate::standing::{NoPayment, Payment, collect_balances, find_standings, others};

/// The effect of a plan on one dataset.
#[derive(Debug, Clone, PartialEq)]
pub enum PartyVerdict {
    /// Public: exact gradients, no charge.
    Public,
    /// Marked open, and only the open arm runs: so many exact gradients leave, and no budget can cover them.
    Open(u64),
    /// No data of it leave in the arms that run.
    Nothing,
    /// Its owner has set no budget for this unit.
    NoBudget,
    /// It pays for the private arm.
    Pays {
        /// The charge.
        payment: Box<Payment>,
        /// The rounds that would fit into the remainder, after the releases in reserve.
        rounds_that_fit: u32,
        /// Expected passes over its data: in the requested rounds, and in the rounds that would fit.
        epochs: (f64, f64),
        /// The least noise with which the requested rounds would fit, in thousandths rounded up; `None` if no noise
        /// suffices.
        least_noise: Option<f64>,
        /// The resulting ε of its account by rounds.
        curve: EpsilonCurve,
        /// Exact gradients that also leave in the open arm: no budget covers these.
        exact: u64,
        /// The effect on the other limited accounts, in a sentence each, and whether they admit it.
        others: Vec<(String, bool)>,
        /// The effect of the terms that its owner sets; `None` if the plan leaves none to it.
        terms: Option<TermEffect>,
        /// The effect of secure aggregation; `None` without it.
        masks: Option<MaskEffect>,
    },
    /// The plan cannot be priced.
    Unpriced(String),
}

/// The effect of the terms that an owner sets, at the ends of their ranges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TermEffect {
    /// The job's ε by itself with the values that protect most, and with those that protect least.
    pub epsilon: (f64, f64),
    /// Whether each of them fits into the account.
    pub fits: (bool, bool),
}

/// The effect of secure aggregation on a member of the group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaskEffect {
    /// The job's ε by itself against the server with the other sites; infinite if it has none.
    pub insider: f64,
    /// The noise of a site alone over the noise that it adds in the group, for the same z.
    pub saving: f64,
}

/// The effect of a plan on all parties.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanPrices {
    /// The effect on every dataset in it, in the spec's order.
    pub verdicts: Vec<(DatasetId, PartyVerdict)>,
    /// The rounds that the budgets admit; `None` if no party pays.
    pub buys: Option<AffordableRounds>,
    /// The nearest plans that fit, if this one does not.
    pub offers: Vec<FittingChange>,
}

/// Prices a plan, on the balances from the time when the page was made.
pub fn price_plan(spec: &Spec, datasets: &[Dataset], standings: &[(DatasetId, Vec<AccountStanding>)]) -> PlanPrices {
    let balances = collect_balances(datasets, standings);
    // Under masks the price depends on the dimension, which a plan leaves to its datasets.
    let settled = spec.masks().is_some().then(|| spec.clone().settle(datasets));
    let spec = settled.as_ref().unwrap_or(spec);
    let priced = PricedPlan::from_spec(spec, datasets, &balances);
    let extremes =
        specs_at_ends(spec).map(|specs| specs.map(|spec| (PricedPlan::from_spec(&spec, datasets, &balances), spec)));
    let verdicts = spec
        .participants
        .iter()
        .filter_map(|party| datasets.iter().find(|dataset| dataset.id == party.dataset))
        .map(|dataset| {
            let standings = find_standings(standings, dataset.id);
            let mut verdict = price_party(spec, dataset, standings, priced.as_ref());
            if let (PartyVerdict::Pays { terms, .. }, Some(extremes)) = (&mut verdict, &extremes) {
                *terms = price_terms(spec, dataset, standings, extremes);
            }
            (dataset.id, verdict)
        })
        .collect();
    let buys = priced.as_ref().and_then(AffordableRounds::from_plan);
    PlanPrices { verdicts, buys, offers: offers(spec, datasets, &balances) }
}

/// Rounds noise up to thousandths, the precision of inputs.
pub(super) fn round_up_noise(noise: f64) -> f64 {
    (noise * 1000.0).ceil() / 1000.0
}

fn price_party(
    spec: &Spec,
    dataset: &Dataset,
    standings: &[AccountStanding],
    priced: Option<&PricedPlan>,
) -> PartyVerdict {
    let Some(charge) = spec.cost(dataset) else {
        return if dataset.visibility == Visibility::Public { PartyVerdict::Public } else { PartyVerdict::Nothing };
    };
    let exact = match spec.release(dataset, Arm::Open.series()) {
        Some(Event::NonPrivate) => spec.rounds(Arm::Open).map_or(0, |rounds| u64::from(rounds.rounds)),
        _ => 0,
    };
    if charge.event == Event::NonPrivate {
        return PartyVerdict::Open(exact);
    }
    let standing = standings.iter().find(|s| charge.is_on(s.unit, s.adjacency));
    let quote = priced.and_then(|priced| Some((priced, priced.find_quote(dataset.id)?)));
    let (Some(standing), Some((priced, quote))) = (standing, quote) else { return PartyVerdict::NoBudget };
    let rounds_that_fit = priced.rounds_that_fit(quote);
    let rate = spec.value(PlanParameter::SamplingRate, dataset.id).unwrap_or_default();
    match Payment::for_share(standing, quote, &charge) {
        Ok(payment) => PartyVerdict::Pays {
            rounds_that_fit,
            epochs: (priced.epochs(priced.rounds, rate), priced.epochs(rounds_that_fit, rate)),
            least_noise: least_noise(&standing.balance, &charge).map(round_up_noise),
            payment: Box::new(payment),
            curve: priced.curve(quote),
            exact,
            others: others(dataset, &charge, standings, Some(priced.rounds)),
            terms: None,
            masks: find_mask_effect(spec, dataset, &charge, standing),
        },
        Err(NoPayment::NoBudget) => PartyVerdict::NoBudget,
        Err(NoPayment::Unpriced(why)) => PartyVerdict::Unpriced(why),
    }
}

fn find_mask_effect(spec: &Spec, dataset: &Dataset, charge: &Charge, standing: &AccountStanding) -> Option<MaskEffect> {
    let z = spec.party(dataset.id)?.noise?.noise_multiplier;
    let saving = z.get() / spec.masks()?.site_multiplier(z);
    let insider = Charge { event: charge.event.to_insider()?, ..charge.clone() };
    let delta = standing.balance.budget()?.delta();
    Some(MaskEffect { insider: epsilon_alone(&insider, delta).unwrap_or(f64::INFINITY), saving })
}

/// Returns the specs with the values of all open terms that protect most, and with those that protect least; `None` if no
/// term is open.
fn specs_at_ends(spec: &Spec) -> Option<[Spec; 2]> {
    let spec_with = |value: fn(&TermRange) -> f64| {
        let mut changed = spec.clone();
        for party in &spec.participants {
            for range in spec.open_terms(party.dataset) {
                changed.set_term(party.dataset, range.term, value(&range));
            }
        }
        changed
    };
    (!spec.open_terms.is_empty()).then(|| [spec_with(TermRange::most_private), spec_with(TermRange::least_private)])
}

/// Prices a party's open terms at the ends of their ranges, by the specs of [`specs_at_ends`] with their prices.
fn price_terms(
    spec: &Spec,
    dataset: &Dataset,
    standings: &[AccountStanding],
    extremes: &[(Option<PricedPlan>, Spec); 2],
) -> Option<TermEffect> {
    if spec.open_terms(dataset.id).is_empty() {
        return None;
    }
    let price = |(priced, spec): &(Option<PricedPlan>, Spec)| {
        let charge = spec.cost(dataset)?;
        let standing = standings.iter().find(|s| charge.is_on(s.unit, s.adjacency))?;
        let payment = Payment::for_share(standing, priced.as_ref()?.find_quote(dataset.id)?, &charge).ok()?;
        Some((payment.own, payment.ghost.fits))
    };
    let [most, least] = extremes.each_ref().map(price);
    let (most, least) = most.zip(least)?;
    Some(TermEffect { epsilon: (most.0, least.0), fits: (most.1, least.1) })
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use super::{PartyVerdict, price_plan};
    use crate::kind::dp_sgd::TrainingPlan;
    use crate::testing::example;

    fn verdicts(change: impl FnOnce(&mut TrainingPlan)) -> Vec<PartyVerdict> {
        let datasets = example::datasets();
        let standings = example::standings();
        let mut plan = TrainingPlan::first(&datasets, &standings).expect("there are datasets");
        change(&mut plan);
        let spec = plan.spec(&datasets).expect("the plan's numbers are in range");
        price_plan(&spec, &datasets, &standings).verdicts.into_iter().map(|(_, verdict)| verdict).collect()
    }

    fn payments(verdicts: &[PartyVerdict]) -> Vec<(&super::Payment, u32)> {
        let payment_of = |verdict| match verdict {
            &PartyVerdict::Pays { ref payment, rounds_that_fit, .. } => Some((payment.as_ref(), rounds_that_fit)),
            _ => None,
        };
        verdicts.iter().filter_map(payment_of).collect()
    }

    #[test]
    fn public_lead_pays_nothing() {
        assert_eq!(verdicts(|_| {}).first(), Some(&PartyVerdict::Public));
    }

    #[test]
    fn rounds_that_fit_are_the_most_that_fit() {
        let most = payments(&verdicts(|_| {})).iter().map(|(_, rounds)| *rounds).min().expect("somebody pays");
        let fits_all = |rounds: u32| {
            let all = verdicts(|plan| plan.rounds = rounds);
            payments(&all).iter().all(|(payment, _)| payment.ghost.fits)
        };
        assert!(fits_all(most), "{most} rounds were said to fit");
        assert!(!fits_all(most + 1), "{most} rounds were said to be all that fit");
    }

    #[test]
    fn less_noise_costs_more() {
        let own = |noise: f64| {
            let all = verdicts(|plan| plan.parts.iter_mut().for_each(|part| part.noise = noise));
            payments(&all).first().map(|(payment, _)| payment.own).expect("somebody pays")
        };
        assert!(own(1.0) > own(2.0) && own(2.0) > own(4.0));
    }

    #[test]
    fn ranges_of_open_terms_are_priced_at_their_ends() {
        let effects = |change: fn(&mut TrainingPlan)| -> Vec<super::TermEffect> {
            let effect = |verdict| match verdict {
                PartyVerdict::Pays { terms, .. } => terms,
                _ => None,
            };
            verdicts(change).into_iter().filter_map(effect).collect()
        };
        assert_eq!(effects(|_| {}), []);
        let own = |noise: f64| {
            let all = verdicts(|plan| plan.parts.iter_mut().for_each(|part| part.noise = noise));
            payments(&all).into_iter().map(|(payment, _)| payment.own).collect::<Vec<_>>()
        };
        let open = effects(|plan| {
            plan.terms.noise.open = true;
            (plan.terms.noise.min, plan.terms.noise.max) = (0.5, 8.0);
        });
        assert_eq!(open.iter().map(|effect| effect.epsilon.0).collect::<Vec<_>>(), own(8.0));
        assert_eq!(open.iter().map(|effect| effect.epsilon.1).collect::<Vec<_>>(), own(0.5));
        let fits = |noise: f64| {
            let all = verdicts(|plan| plan.parts.iter_mut().for_each(|part| part.noise = noise));
            payments(&all).into_iter().map(|(payment, _)| payment.ghost.fits).collect::<Vec<_>>()
        };
        assert_eq!(open.iter().map(|effect| effect.fits.0).collect::<Vec<_>>(), fits(8.0));
        assert_eq!(open.iter().map(|effect| effect.fits.1).collect::<Vec<_>>(), fits(0.5));
    }

    /// Three private sites of which one may collude: two are honest in each sum.
    #[test]
    fn masks_cost_about_the_same_and_state_both_guarantees() {
        let one = |plan: &mut TrainingPlan| plan.parts.iter_mut().for_each(|part| part.noise = 2.0);
        let plain = verdicts(one);
        let masked = verdicts(|plan| {
            one(plan);
            plan.group.on = true;
        });
        let effects: Vec<_> = masked
            .iter()
            .filter_map(|verdict| match verdict {
                PartyVerdict::Pays { payment, masks, .. } => Some((payment.own, (*masks)?)),
                _ => None,
            })
            .collect();
        assert_eq!(effects.len(), payments(&plain).len(), "each payer is a member");
        for ((payment, _), (own, masks)) in payments(&plain).into_iter().zip(effects) {
            assert!(own > payment.own && own < 1.2 * payment.own, "{own} {}", payment.own);
            assert!(masks.insider > 1.3 * own, "{own} {}", masks.insider);
            assert!((masks.saving - 2.0_f64.sqrt()).abs() < 1e-3, "{}", masks.saving);
        }
    }

    #[test]
    fn open_dataset_pays_and_counts_exact_gradients() {
        let exact = |all: &[PartyVerdict]| -> Vec<u64> {
            let count = |verdict: &PartyVerdict| {
                if let PartyVerdict::Pays { exact, .. } = verdict { Some(*exact) } else { None }
            };
            all.iter().filter_map(count).collect()
        };
        let without = verdicts(|_| {});
        let with = verdicts(|plan| plan.open = true);
        assert_eq!(exact(&without), [0, 0, 0]);
        assert_eq!(exact(&with), [0, 40, 0], "only ward-b is open");
        assert_eq!(payments(&with), payments(&without), "the open arm changes no ε");
        let only = verdicts(|plan| (plan.open, plan.private) = (true, false));
        assert!(only.contains(&PartyVerdict::Open(40)) && payments(&only).is_empty(), "{only:?}");
    }

    #[test]
    fn dataset_without_budget_has_the_verdict_no_budget() {
        let all = verdicts(|plan| plan.unit = undertone_privacy::PrivacyUnit::Record);
        assert!(all.contains(&PartyVerdict::NoBudget), "{all:?}");
    }
}
