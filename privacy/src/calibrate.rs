//! The least noise within a guarantee or within the headroom of an account.
//!
//! The planner calls this in the browser on every move of a slider, so an answer takes about a millisecond or less. It
//! applies the same rule as the ledger: an account admits the answer for its own headroom.

mod masked_sum;
mod search;

use crate::adjacency::Adjacency;
use crate::curve::OrderGrid;
use crate::event::Event;
use crate::fixed::Fixed;
use crate::ledger::Headroom;
use crate::mechanism::{self, PriceError};
use crate::unit::{NoiseMultiplier, Order, SamplingRate};
use search::OrderLimit;

pub use masked_sum::{MaskedSum, WRAP_BITS, modulus_bits, site_deviation};

/// Why no noise exists.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrateError {
    /// Nothing remains of the budget, or too little for any noise.
    #[error("no noise is enough: nothing is left of the budget at any order")]
    NothingLeft,
    /// The event cannot be priced.
    #[error(transparent)]
    Price(#[from] PriceError),
}

/// Returns the least noise multiplier z with which `steps` releases of Poisson(q) samples fit into the headroom;
/// rounded up, and at most a billionth above the least. `steps` = 0 means one.
///
/// # Errors
/// [`CalibrateError::NothingLeft`] when no noise is enough, [`CalibrateError::Price`] when such releases have no price
/// under this adjacency.
pub fn noise_for(
    headroom: &Headroom,
    sampling_rate: SamplingRate,
    steps: u64,
    adjacency: Adjacency,
) -> Result<NoiseMultiplier, CalibrateError> {
    let steps = steps.max(1);
    let event = |z: NoiseMultiplier| Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: z };
    let single = |order: Order| OrderGrid::new(vec![order]).map_err(PriceError::from);
    // A single order suffices to check, before the search, that such releases have a price under this adjacency.
    let one = NoiseMultiplier::new(1.0).map_err(|_| CalibrateError::NothingLeft)?;
    mechanism::noise_curve(&event(one), adjacency, &single(headroom.grid().orders()[0])?)?;
    let changes = if adjacency == Adjacency::ReplaceOne { 2.0 } else { 1.0 };
    let q = sampling_rate.get();

    let (orders, left): (Vec<Order>, Vec<Fixed>) = headroom
        .remaining()
        .filter_map(|(order, left)| Some((order, left.filter(|left| *left > Fixed::ZERO)?)))
        .unzip();
    let limits: Vec<OrderLimit> = orders
        .iter()
        .zip(&left)
        .map(|(order, left)| OrderLimit { order: order.get(), loss: left.to_f64_down() / steps as f64 })
        .collect();
    let solution = search::least_noise(&limits, |z, order| mechanism::poisson_sampled_gaussian(q, z / changes, order));
    let (z, index) = solution.ok_or(CalibrateError::NothingLeft)?;
    // The search works in f64, the ledger in fixed point: widen the answer until the ledger admits it.
    let mut widening = search::TOLERANCE;
    loop {
        let z = NoiseMultiplier::new(z * (1.0 + widening)).map_err(|_| CalibrateError::NothingLeft)?;
        let cost = mechanism::noise_curve(&event(z), adjacency, &single(orders[index])?)?.times(steps);
        if cost.losses().all(|(_, loss)| loss <= left[index]) {
            return Ok(z);
        }
        widening *= 4.0;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]
    use super::*;
    use crate::ledger::{Account, Budget, GridKind, ReservationId};
    use crate::unit::{Delta, Epsilon};
    use crate::{convert, ledger};
    use proptest::prelude::*;

    fn sampled(q: f64, z: f64) -> Event {
        let sampling_rate = SamplingRate::new(q).unwrap();
        let noise_multiplier = NoiseMultiplier::new(z).unwrap();
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn least_noise_is_admitted_and_less_is_refused(
            ln_epsilon in -0.5f64..6.5, ln_q in -9.0f64..0.0, steps in 1u64..100_000
        ) {
            let epsilon = Epsilon::new(libm::exp(ln_epsilon)).unwrap();
            let budget = Budget::new(epsilon, Delta::new(1e-6).unwrap(), GridKind::for_epsilon(epsilon)).unwrap();
            let mut account = Account::new(Some(budget));
            let q = libm::exp(ln_q);
            let z = noise_for(&account.headroom(), SamplingRate::new(q).unwrap(), steps, Adjacency::AddRemove).unwrap();
            let less = account.price(&sampled(q, z.get() * (1.0 - 1e-8)), Adjacency::AddRemove).unwrap();
            prop_assert!(account.reserve(ReservationId(1), &less, steps).is_err());
            let cost = account.price(&sampled(q, z.get()), Adjacency::AddRemove).unwrap();
            account.reserve(ReservationId(1), &cost, steps).unwrap();
        }

        #[test]
        fn noise_for_guarantee_is_least_on_reporting_grid(
            ln_epsilon in -1.0f64..5.0, ln_q in -7.0f64..0.0, steps in 1u64..20_000
        ) {
            let epsilon = Epsilon::new(libm::exp(ln_epsilon)).unwrap();
            let delta = Delta::new(1e-5).unwrap();
            let q = libm::exp(ln_q);
            let grid = OrderGrid::reporting();
            let room = Headroom::of_guarantee(epsilon, delta, &grid);
            let z = noise_for(&room, SamplingRate::new(q).unwrap(), steps, Adjacency::AddRemove).unwrap();
            let at = |z: f64| {
                let plan = sampled(q, z).times(steps);
                convert::epsilon(&mechanism::curve(&plan, Adjacency::AddRemove, &grid).unwrap(), delta).unwrap()
            };
            prop_assert!(at(z.get()).get() <= epsilon.get() * (1.0 + 1e-12) && at(z.get() * (1.0 - 1e-7)) > epsilon);
        }

        #[test]
        fn most_steps_are_admitted_and_one_more_is_refused(ln_epsilon in -0.5f64..6.5, ln_q in -6.0f64..0.0, z in 0.3f64..20.0) {
            let epsilon = Epsilon::new(libm::exp(ln_epsilon)).unwrap();
            let budget = Budget::new(epsilon, Delta::new(1e-6).unwrap(), GridKind::for_epsilon(epsilon)).unwrap();
            let mut account = Account::new(Some(budget));
            let event = sampled(libm::exp(ln_q), z);
            let cost: ledger::Cost = account.price(&event, Adjacency::AddRemove).unwrap();
            let most = account.headroom().releases(&cost);
            prop_assert!(account.reserve(ReservationId(1), &cost, most + 1).is_err());
            account.reserve(ReservationId(1), &cost, most).unwrap();
        }
    }

    #[test]
    fn replacement_needs_twice_the_noise() {
        let room =
            Headroom::of_guarantee(Epsilon::new(2.0).unwrap(), Delta::new(1e-5).unwrap(), &OrderGrid::reporting());
        let z = |adjacency| noise_for(&room, SamplingRate::ONE, 3, adjacency).unwrap().get();
        assert!((z(Adjacency::ReplaceOne) / z(Adjacency::AddRemove) - 2.0).abs() < 1e-8);
    }

    #[test]
    fn spent_account_has_no_sufficient_noise() {
        let room = Account::new(None).headroom();
        let answer = noise_for(&room, SamplingRate::ONE, 1, Adjacency::AddRemove);
        assert_eq!(answer, Err(CalibrateError::NothingLeft));
        let cost = mechanism::curve(&sampled(0.1, 1.0), Adjacency::AddRemove, room.grid()).unwrap();
        assert_eq!(room.releases(&cost), 0);
    }
}
