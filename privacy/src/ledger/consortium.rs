//! The loss of one person across the whole consortium: the parties' losses combined by the cross-organization rule.
//!
//! Each party's account guards that party's dataset. A person in several datasets loses the sum over them, and no
//! single account knows it. Nothing here decides admission of a party's jobs. A consortium with a limit of its own
//! keeps [`combined`] within a budget of its own, by the same filter.

use serde::{Deserialize, Serialize};

use crate::convert;
use crate::curve::{Curve, CurveError, OrderGrid};
use crate::fixed::Fixed;
use crate::unit::{Delta, Epsilon};

/// The number of parties whose datasets may contain one unit (a person, a recording). Stored, shown, and part of every
/// certificate.
///
/// As JSON: `"disjoint"`, `{"overlapping":{"at_most":2}}`, `{"overlapping":{"at_most":null}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// In one at most: declared by all the parties, and best tested by a private intersection. A unit's loss is its own
    /// party's, so the consortium's number is the greatest of them (parallel composition). This holds for adding, removing
    /// or zeroing a unit; a replace-one change must then stay within one party.
    Disjoint,
    /// In several.
    Overlapping {
        /// Largest number of parties with one unit; `None` for all of them. 0 is read as 1: every counted person is in
        /// some dataset.
        at_most: Option<u32>,
    },
}

impl Default for Overlap {
    /// Assumes the worst case: a person may be in every dataset.
    fn default() -> Self {
        Self::Overlapping { at_most: None }
    }
}

impl Overlap {
    /// Returns the largest number of parties, of `parties`, that may have one unit.
    pub fn most(self, parties: usize) -> usize {
        match self {
            Self::Disjoint => parties.min(1),
            Self::Overlapping { at_most: None } => parties,
            Self::Overlapping { at_most: Some(most) } => {
                parties.min(usize::try_from(most).unwrap_or(usize::MAX).max(1))
            }
        }
    }
}

/// Returns the ε that the consortium guarantees to every person at δ, rounded up; `None` when there is no finite one.
/// `parties` are the losses of the parties' datasets, one for each, all on one grid and all priced under the same
/// adjacency; with none, ε is 0.
///
/// It is the greatest of the parties' own ε when a unit is in at most one dataset, else ε of [`combined`]. The
/// conversion uses all of δ at every order: correct for a closed history, as on a certificate; admission splits δ
/// ([`super::Budget::shares`]).
///
/// # Errors
/// [`CurveError::GridMismatch`] when the curves are on different grids.
pub fn across(rule: Overlap, parties: &[Curve], delta: Delta) -> Result<Option<Epsilon>, CurveError> {
    let Some(first) = parties.first() else {
        return Ok(Epsilon::new(0.0).ok());
    };
    let together = combined(rule, first.grid(), parties)?;
    if rule.most(parties.len()) > 1 {
        return Ok(convert::epsilon(&together, delta));
    }
    // The greatest at every order may exceed each party's own number, because their best orders differ.
    let each: Option<Vec<Epsilon>> = parties.iter().map(|party| convert::epsilon(party, delta)).collect();
    Ok(each.and_then(|each| each.into_iter().max_by(|a, b| a.get().total_cmp(&b.get()))))
}

/// Returns W(α) = max over m of the parties of the sum of their losses at α, exactly, and likewise the side mass: at
/// least the loss of any unit that is in m of the datasets. Curves add under adaptive composition, so this is the loss
/// of the mechanism that makes all releases of those m parties; its order does not matter.
///
/// # Errors
/// [`CurveError::GridMismatch`] when a curve is on another grid.
pub fn combined(rule: Overlap, grid: &OrderGrid, parties: &[Curve]) -> Result<Curve, CurveError> {
    if parties.iter().any(|party| party.grid() != grid) {
        return Err(CurveError::GridMismatch);
    }
    let most = rule.most(parties.len());
    let columns: Vec<Vec<Fixed>> = parties.iter().map(|party| party.losses().map(|(_, loss)| loss).collect()).collect();
    let losses = (0..grid.len()).map(|order| largest(columns.iter().map(|column| column[order]), most)).collect();
    Curve::from_fixed(grid, losses, largest(parties.iter().map(Curve::side_delta), most))
}

/// Returns the sum of the `most` largest.
fn largest(values: impl Iterator<Item = Fixed>, most: usize) -> Fixed {
    let mut all: Vec<Fixed> = values.collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.into_iter().take(most).fold(Fixed::ZERO, Fixed::plus)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]
    use super::*;
    use proptest::prelude::*;

    fn curve(units: &[u128], side: u128) -> Curve {
        let losses = units.iter().map(|&units| Fixed::from_units(units)).collect();
        Curve::from_fixed(&OrderGrid::standard(), losses, Fixed::from_units(side)).unwrap()
    }

    fn curves() -> impl Strategy<Value = Vec<Curve>> {
        let one =
            (prop::collection::vec(0u128..1 << 66, 8), 0u128..1 << 40).prop_map(|(units, side)| curve(&units, side));
        prop::collection::vec(one, 0..6)
    }

    fn rules() -> impl Strategy<Value = Overlap> {
        prop_oneof![
            Just(Overlap::Disjoint),
            prop::option::of(0u32..7).prop_map(|at_most| Overlap::Overlapping { at_most })
        ]
    }

    fn delta() -> Delta {
        Delta::new(1e-6).unwrap()
    }

    fn epsilon_across(rule: Overlap, parties: &[Curve]) -> f64 {
        across(rule, parties, delta()).unwrap().map_or(f64::INFINITY, Epsilon::get)
    }

    fn dominates(a: &Curve, b: &Curve) -> bool {
        a.side_delta() >= b.side_delta() && a.losses().zip(b.losses()).all(|((_, a), (_, b))| a >= b)
    }

    proptest! {
        #[test]
        fn consortium_loss_covers_every_allowed_subset(rule in rules(), parties in curves()) {
            let grid = OrderGrid::standard();
            let together = combined(rule, &grid, &parties).unwrap();
            let most = rule.most(parties.len());
            for subset in 0u32..1 << parties.len() {
                if subset.count_ones() as usize > most {
                    continue;
                }
                let members = parties.iter().enumerate().filter(|(index, _)| subset >> index & 1 == 1);
                let sum = members.fold(Curve::zero(&grid), |sum, (_, party)| sum.add(party).unwrap());
                prop_assert!(dominates(&together, &sum));
                let alone = convert::epsilon(&sum, delta()).map_or(f64::INFINITY, Epsilon::get);
                prop_assert!(epsilon_across(rule, &parties) >= alone, "{:?}", rule);
            }
        }

        #[test]
        fn loss_rises_with_allowed_overlap(parties in curves(), few in 0u32..6, more in 0u32..6) {
            let at_most = |most| Overlap::Overlapping { at_most: Some(most) };
            let least = few.min(more);
            let most = few.max(more);
            prop_assert!(epsilon_across(at_most(least), &parties) <= epsilon_across(at_most(most), &parties));
            prop_assert!(epsilon_across(Overlap::Disjoint, &parties) <= epsilon_across(at_most(least), &parties));
            prop_assert!(epsilon_across(at_most(most), &parties) <= epsilon_across(Overlap::default(), &parties));
        }

        #[test]
        fn consortium_loss_ignores_order_of_parties(rule in rules(), mut parties in curves(), turn in 0usize..6) {
            let before = combined(rule, &OrderGrid::standard(), &parties).unwrap();
            let middle = turn.min(parties.len());
            let epsilon_before = epsilon_across(rule, &parties);
            parties.rotate_left(middle);
            prop_assert_eq!(combined(rule, &OrderGrid::standard(), &parties).unwrap(), before);
            prop_assert_eq!(epsilon_across(rule, &parties).to_bits(), epsilon_before.to_bits());
        }
    }

    #[test]
    fn disjoint_loss_is_maximum_and_overlapping_is_sum() {
        let parties: Vec<Curve> = [3u128, 1, 2].iter().map(|&nats| curve(&[nats << 60; 8], 0)).collect();
        let sum = |count: u128| convert::epsilon(&curve(&[count << 60; 8], 0), delta()).unwrap().get();
        let same = |a: f64, b: f64| assert_eq!(a.to_bits(), b.to_bits());
        same(epsilon_across(Overlap::Disjoint, &parties), sum(3));
        same(epsilon_across(Overlap::Overlapping { at_most: Some(2) }, &parties), sum(5));
        same(epsilon_across(Overlap::default(), &parties), sum(6));
        same(epsilon_across(Overlap::default(), &[]), 0.0);
    }

    #[test]
    fn infinite_party_loss_leaves_no_consortium_epsilon() {
        let parties = [curve(&[1 << 60; 8], 0), Curve::infinite(&OrderGrid::standard())];
        for rule in [Overlap::Disjoint, Overlap::default()] {
            assert_eq!(across(rule, &parties, delta()), Ok(None));
        }
    }

    #[test]
    fn curves_on_different_orders_are_not_combined() {
        let parties = [Curve::zero(&OrderGrid::standard()), Curve::zero(&OrderGrid::research())];
        assert_eq!(across(Overlap::Disjoint, &parties, delta()), Err(CurveError::GridMismatch));
    }

    #[test]
    fn overlap_rule_has_stable_json() {
        for (rule, text) in [
            (Overlap::Disjoint, r#""disjoint""#),
            (Overlap::default(), r#"{"overlapping":{"at_most":null}}"#),
            (Overlap::Overlapping { at_most: Some(2) }, r#"{"overlapping":{"at_most":2}}"#),
        ] {
            assert_eq!(serde_json::to_string(&rule).unwrap(), text);
            assert_eq!(serde_json::from_str::<Overlap>(text).unwrap(), rule);
        }
    }
}
