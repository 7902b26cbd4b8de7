//! Prices of the releases that do not occur in training plans: searches, histograms, selections, noise made together.

use crate::adjacency::Adjacency;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::fixed::Fixed;
use crate::group;
use crate::histogram::{Differences, TruncatedLaplace};
use crate::kanon::{self, TextRelease};
use crate::selection::{self, Runs};
use crate::unit::{Delta, Epsilon};

use super::distributed::{self, SampledDistributed};
use super::{PriceError, approximate, changes, discrete, substituted};

/// Returns the curve of one of these events; [`super::curve`] prices all others.
pub(super) fn curve(event: &Event, adjacency: Adjacency, grid: &OrderGrid) -> Result<Curve, PriceError> {
    let unpriced = |why: &dyn std::fmt::Display| PriceError::NoPrice { event: event.name(), why: why.to_string() };
    match event {
        Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier, .. } => {
            let q = sampling_rate.get();
            let z = noise_multiplier.get();
            match adjacency {
                Adjacency::AddRemove | Adjacency::ZeroOut => {
                    Ok(Curve::evaluated(grid, |order| discrete::poisson_sampled_discrete_gaussian(q, z, order.get())))
                }
                Adjacency::ReplaceOne => Ok(Curve::evaluated(grid, |order| {
                    substituted::sampled_gaussian(q, z, order.get(), |order| {
                        discrete::poisson_sampled_discrete_gaussian(q, z, order)
                    })
                })),
            }
        }
        Event::DistributedDiscreteGaussian(noise) if distributed::has_price(noise) => {
            Ok(Curve::evaluated(grid, |order| {
                distributed::distributed_discrete_gaussian(noise, changes(adjacency), order.get())
            }))
        }
        Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise } if distributed::has_price(noise) => {
            let mut sampled = SampledDistributed::new(sampling_rate.get(), noise);
            Ok(Curve::evaluated(grid, |order| match adjacency {
                Adjacency::AddRemove | Adjacency::ZeroOut => sampled.loss(order.get()),
                Adjacency::ReplaceOne => sampled.loss_of_replacement(order.get()),
            }))
        }
        Event::DistributedDiscreteGaussian(_) | Event::PoissonSampledDistributedDiscreteGaussian { .. } => {
            Err(unpriced(&"each contributor's noise is below half a step of the grid: use a finer grid"))
        }
        Event::SampledThreshold { shown, .. } if shown.has_renyi_price() => threshold(event, adjacency, grid),
        Event::SampledThreshold { .. } | Event::TruncatedLaplace { .. } => {
            let (epsilon, delta) = guarantee(event, adjacency)?;
            Ok(approximate(epsilon.get(), delta.get(), grid))
        }
        Event::Selected { of, runs } => {
            let fine = merged(grid);
            let base = super::curve(of, adjacency, &fine)?;
            let best = selection::curve(&base, *runs).map_err(|error| unpriced(&error))?;
            let pure = pure_epsilon(of).map(|epsilon| epsilon * changes(adjacency));
            let best = restricted(&best, grid)?;
            Ok(match (pure, runs) {
                (
                    Some(epsilon),
                    Runs::TruncatedNegativeBinomial { shape, .. } | Runs::CappedNegativeBinomial { shape, .. },
                ) => {
                    let epsilon = (selection::pure(epsilon, *shape) + runs.cap()).next_up();
                    least(&best, &approximate(epsilon, 0.0, grid))?
                }
                _ => best,
            })
        }
        _ => super::curve(event, adjacency, grid),
    }
}

/// The reason for refusing a guarantee with δ at or above 1.
const VOID: &str = "its delta would reach 1, which promises nothing";

/// Returns the number of applications of a guarantee for one unit added or removed in one change.
const fn times(adjacency: Adjacency) -> u64 {
    match adjacency {
        Adjacency::AddRemove | Adjacency::ZeroOut => 1,
        Adjacency::ReplaceOne => 2,
    }
}

/// Returns (ε, δ) of a release that is priced by such a guarantee: sampling with a threshold, a truncated Laplace, an
/// event that states one, or a composition of these. Rounded up.
///
/// # Errors
/// [`PriceError::NoPrice`] when the parameters give no guarantee, or for any other event.
pub fn guarantee(event: &Event, adjacency: Adjacency) -> Result<(Epsilon, Delta), PriceError> {
    let unpriced = |why: &dyn std::fmt::Display| PriceError::NoPrice { event: event.name(), why: why.to_string() };
    let (epsilon, delta, units) = match event {
        Event::SampledThreshold { sampling_rate, threshold, epsilon, shown, rows_per_unit } => {
            let delta = kanon::delta(*shown, threshold.get().into(), sampling_rate.get(), epsilon.get());
            let delta = delta.map_err(|error| unpriced(&error))?;
            let rows = u64::from(rows_per_unit.get());
            if shown.has_renyi_price() {
                // Different texts have independent counts, so their guarantees add.
                let changed = rows * times(adjacency);
                let sums = Epsilon::new(total(epsilon.get(), changed)).ok();
                let sums = sums.zip(Delta::new(total(delta.get(), changed)).ok());
                return sums.ok_or_else(|| unpriced(&VOID));
            }
            (*epsilon, delta, rows)
        }
        Event::TruncatedLaplace { rate, shift, distance, partition } => {
            let noise = TruncatedLaplace::new(*rate, *shift).map_err(|error| unpriced(&error))?;
            let (epsilon, delta) = noise.guarantee(*distance, *partition, Differences::Mixed);
            let promise = Epsilon::new(epsilon).ok().zip(Delta::new(delta).ok());
            let (epsilon, delta) = promise.ok_or_else(|| unpriced(&VOID))?;
            (epsilon, delta, 1)
        }
        Event::Approximate { epsilon, delta } => (*epsilon, *delta, 1),
        Event::Pure { epsilon } => (*epsilon, Delta::ZERO, 1),
        // Basic composition (Dwork et al. 2006): the parts add.
        Event::Composed { events } => {
            let sum = events.iter().try_fold((0.0, 0.0), |(epsilon, delta), part| {
                let (more, side) = guarantee(part, adjacency)?;
                Ok::<_, PriceError>((add_up(epsilon, more.get()), add_up(delta, side.get())))
            })?;
            let sum = Epsilon::new(sum.0).ok().zip(Delta::new(sum.1).ok());
            return sum.ok_or_else(|| unpriced(&VOID));
        }
        _ => return Err(unpriced(&"it states no guarantee of epsilon and delta")),
    };
    group::epsilon_delta(epsilon, delta, units * times(adjacency)).ok_or_else(|| unpriced(&VOID))
}

/// Returns a sum of two numbers of at least 0, rounded up.
fn add_up(sum: f64, part: f64) -> f64 {
    if sum == 0.0 || part == 0.0 { sum + part } else { (sum + part).next_up() }
}

/// Returns a sum of equal numbers, rounded up.
fn total(each: f64, count: u64) -> f64 {
    if count < 2 { each * count as f64 } else { (each * count as f64).next_up() }
}

/// Returns the curve of sampling with a threshold by the exact loss of each text that a unit may change: the losses and the
/// side masses of independent texts add. By the same decomposition all of them together are a pure pair, whose curve bounds
/// theirs (`kanon/renyi.rs`).
fn threshold(event: &Event, adjacency: Adjacency, grid: &OrderGrid) -> Result<Curve, PriceError> {
    let unpriced = |why: &dyn std::fmt::Display| PriceError::NoPrice { event: event.name(), why: why.to_string() };
    let Event::SampledThreshold { sampling_rate, threshold, epsilon, shown, rows_per_unit } = event else {
        return Err(unpriced(&"it is no sampling with a threshold"));
    };
    // Refuses what gives no guarantee.
    guarantee(event, adjacency)?;
    let k = threshold.get();
    let side = kanon::delta(*shown, k.into(), sampling_rate.get(), epsilon.get()).map_err(|error| unpriced(&error))?;
    let text = TextRelease::new(*shown, k, sampling_rate.get(), epsilon.get(), side.get());
    let texts = u64::from(rows_per_unit.get()) * times(adjacency);
    let pure_loss = epsilon.get() + text.pure_excess();
    let each = Curve::evaluated(grid, |order| text.loss(order.get()).min(super::pure(pure_loss, order.get())));
    let whole = approximate(total(pure_loss, texts), 0.0, grid);
    let losses = each.times(texts).losses().zip(whole.losses()).map(|((_, a), (_, b))| a.min(b)).collect();
    let side = Fixed::ceil(side.get()).times(texts);
    Ok(Curve::from_fixed(grid, losses, side)?)
}

/// Returns these orders together with those of reports: the choice of λ̂ in a selection improves with the number of
/// orders.
fn merged(grid: &OrderGrid) -> OrderGrid {
    let mut orders = grid.orders().to_vec();
    orders.extend_from_slice(OrderGrid::reporting().orders());
    orders.sort_by(|a, b| a.get().total_cmp(&b.get()));
    orders.dedup();
    // Sorted and distinct, so this is a grid.
    OrderGrid::new(orders).unwrap_or_else(|_| grid.clone())
}

/// Restricts a curve to some of its orders.
fn restricted(curve: &Curve, grid: &OrderGrid) -> Result<Curve, PriceError> {
    let losses = curve.losses().filter(|(order, _)| grid.orders().contains(order)).map(|(_, loss)| loss).collect();
    Ok(Curve::from_fixed(grid, losses, curve.side_delta())?)
}

/// Returns the lower of two upper bounds, order by order.
fn least(a: &Curve, b: &Curve) -> Result<Curve, PriceError> {
    let losses = a.losses().zip(b.losses()).map(|((_, a), (_, b))| a.min(b)).collect();
    Ok(Curve::from_fixed(a.grid(), losses, a.side_delta())?)
}

/// Returns ε of a release that is purely ε-DP for one unit added or removed, rounded up; `None` for other releases.
fn pure_epsilon(event: &Event) -> Option<f64> {
    match event {
        Event::Laplace { epsilon } | Event::Pure { epsilon } => Some(epsilon.get()),
        Event::Composed { events } => {
            events.iter().try_fold(0.0, |sum: f64, part| Some((sum + pure_epsilon(part)?).next_up()))
        }
        Event::Repeated { count, of } => Some((*count as f64 * pure_epsilon(of)?).next_up().next_up()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert;
    use crate::pld::{Plan, PldError};

    fn read(text: &str) -> Event {
        serde_json::from_str(text).expect(text)
    }

    const THRESHOLD: &str = r#"{"event":"sampled_threshold","sampling_rate":0.25,"threshold":20,"epsilon":0.5,"shown":"counts","rows_per_unit":1}"#;
    const DUMMIES: &str = r#"{"event":"truncated_laplace","rate":0.25,"shift":90,"distance":3,"partition":{"providers":4,"colluding":2}}"#;
    const BEST: &str = r#"{"event":"selected","of":{"event":"laplace","epsilon":0.5},"runs":{"distribution":"truncated_negative_binomial","shape":1.0,"stopping":0.1}}"#;

    #[test]
    fn replacement_doubles_threshold_and_dummy_costs() {
        for text in [THRESHOLD, DUMMIES] {
            let event = read(text);
            let (epsilon, delta) = guarantee(&event, Adjacency::AddRemove).expect("promised");
            let stated = Event::Approximate { epsilon, delta };
            for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut, Adjacency::ReplaceOne] {
                let grid = OrderGrid::standard();
                let cost = super::super::curve(&event, adjacency, &grid);
                let of_stated = super::super::curve(&stated, adjacency, &grid);
                let cost = cost.expect("priced");
                let of_stated = of_stated.expect("priced");
                for ((_, cost), (_, stated)) in cost.losses().zip(of_stated.losses()) {
                    assert!((cost.to_f64_up() / stated.to_f64_up() - 1.0).abs() < 1e-12, "{event:?} {adjacency:?}");
                }
                let ratio = cost.side_delta().to_f64_up() / of_stated.side_delta().to_f64_up();
                assert!((ratio - 1.0).abs() < 1e-9, "{event:?} {adjacency:?}");
            }
        }
    }

    #[test]
    fn guarantees_of_a_composition_add() {
        let pure = Event::Pure { epsilon: Epsilon::new(0.5).expect("in range") };
        for adjacency in [Adjacency::ZeroOut, Adjacency::ReplaceOne] {
            let parts = [pure.clone(), read(DUMMIES)];
            let (epsilon, delta) = guarantee(&parts[1], adjacency).expect("promised");
            let (sum, mass) = guarantee(&Event::Composed { events: parts.to_vec() }, adjacency).expect("promised");
            let expected = 0.5 * times(adjacency) as f64 + epsilon.get();
            assert!(sum.get() >= expected && sum.get() < expected + 1e-12 && mass == delta, "{adjacency:?}");
        }
        let leaky = Event::Composed { events: vec![pure, Event::NonPrivate] };
        assert!(guarantee(&leaky, Adjacency::ZeroOut).is_err(), "a part without a guarantee");
    }

    #[test]
    fn many_rows_of_one_unit_cost_as_a_group() {
        let rows = |count: u32| {
            let text = THRESHOLD.replace(r#""rows_per_unit":1"#, &format!(r#""rows_per_unit":{count}"#));
            guarantee(&read(&text), Adjacency::AddRemove).expect("promised")
        };
        let one = rows(1);
        let three = rows(3);
        assert!((three.0.get() - 1.5).abs() < 1e-12);
        let sum = 1.0 + 0.5f64.exp() + 1.0f64.exp();
        assert!((three.1.get() / (one.1.get() * sum) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn cost_rises_with_colluders() {
        let colluding = |count: u32| {
            let text = DUMMIES.replace(r#""colluding":2"#, &format!(r#""colluding":{count}"#));
            guarantee(&read(&text), Adjacency::AddRemove).expect("promised").0.get()
        };
        assert!(colluding(1) < colluding(2) && colluding(2) < colluding(4));
        assert!((colluding(4) - 0.75).abs() < 1e-12);
    }

    #[test]
    fn best_of_pure_runs_costs_at_most_three_runs() {
        let cost = super::super::curve(&read(BEST), Adjacency::AddRemove, &OrderGrid::reporting()).expect("priced");
        let three = super::super::pure(1.5, 64.0) * (1.0 + 1e-9);
        let at = cost.losses().find(|(order, _)| order.get() > 63.0 && order.get() < 65.0).expect("on the grid").1;
        assert!(at.to_f64_up() <= three, "{} {three}", at.to_f64_up());
        let epsilon = convert::epsilon(&cost, Delta::new(1e-9).expect("in range")).expect("finite");
        // The conversion from the largest order adds a little.
        assert!(epsilon.get() <= 1.53, "{epsilon:?}");
    }

    #[test]
    fn finer_grid_never_raises_selection_cost() {
        let best = read(&BEST.replace("laplace\",\"epsilon\":0.5", "gaussian\",\"noise_multiplier\":3.0"));
        let Event::Selected { of, runs } = &best else { panic!("not a selection") };
        let grid = OrderGrid::standard();
        let coarse = super::super::curve(of, Adjacency::AddRemove, &grid).expect("priced");
        let coarse = selection::curve(&coarse, *runs).expect("no side mass");
        let fine = super::super::curve(&best, Adjacency::AddRemove, &grid).expect("priced");
        assert!(fine.losses().zip(coarse.losses()).all(|((_, fine), (_, coarse))| fine <= coarse));
        assert_ne!(fine, coarse, "the choice matters");
    }

    #[test]
    fn plan_with_unknown_pair_has_no_tight_number() {
        let delta = Delta::new(1e-3).expect("in range");
        for text in [THRESHOLD, DUMMIES] {
            let tight = Plan::of(&read(text).times(3), Adjacency::AddRemove).epsilon(delta);
            let cost = super::super::curve(&read(text).times(3), Adjacency::AddRemove, &OrderGrid::reporting());
            let bound = convert::epsilon(&cost.expect("priced"), delta).expect("finite");
            let tight = tight.expect("there is a pair").expect("finite");
            assert!(tight.get() > 0.0 && tight <= bound, "{tight:?} {bound:?}");
        }
        let discrete = r#"{"event":"discrete_gaussian","noise_multiplier":1.1,"steps":1024.0}"#;
        let best = BEST.replace(r#"{"event":"laplace","epsilon":0.5}"#, discrete);
        for text in [best.as_str(), discrete] {
            let plan = Plan::of(&read(text).times(2), Adjacency::AddRemove);
            assert!(matches!(plan.epsilon(delta), Err(PldError::NoPair("a discrete Gaussian"))), "{text}");
        }
        let void = read(&THRESHOLD.replace("0.25", "1.0"));
        assert!(matches!(Plan::of(&void, Adjacency::AddRemove).epsilon(delta), Err(PldError::NoPair(_))));
        // Of nothing there is nothing to know.
        let none = Plan::of(&read(BEST).times(0), Adjacency::AddRemove);
        assert!(none.epsilon(delta).is_ok());
    }
}
