//! What the whole consortium may say of one person: the parties' losses put together by the cross-organization rule.
//!
//! Each party's account guards that party's dataset. Somebody who is in several of them loses what all of those lose
//! together, and no single account knows it. Nothing here decides admission of a party's jobs; a consortium that wants a
//! limit of its own keeps [`combined`] within a budget of its own, by the same filter.

use serde::{Deserialize, Serialize};

use crate::convert;
use crate::curve::{Curve, CurveError, OrderGrid};
use crate::fixed::Fixed;
use crate::unit::{Delta, Epsilon};

/// In how many parties' datasets one unit (a person, a recording) may be. Stored, shown, and part of every certificate.
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
        /// The most parties that may have one unit; `None` for all of them. 0 is read as 1: who is counted is somewhere.
        at_most: Option<u32>,
    },
}

impl Default for Overlap {
    /// Nothing is known: a person may be everywhere.
    fn default() -> Self {
        Self::Overlapping { at_most: None }
    }
}

impl Overlap {
    /// The most parties, of this many, that one unit may be in.
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

/// The ε that the consortium promises to everybody at δ, rounded up; `None` when there is no finite one. `parties` are the
/// losses of the parties' datasets, one for each, all on one grid and all priced under the same adjacency; with none, ε is 0.
///
/// The greatest of the parties' own ε when a unit is in one dataset at most, else ε of [`combined`]. The conversion uses all
/// of δ at every order: right for a closed history, as on a certificate; admission splits δ ([`super::Budget::shares`]).
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

/// W(α) = max over m of the parties of the sum of their losses at α, exactly, and likewise the side mass: at least what any
/// unit that is in m of the datasets has lost. Curves add under adaptive composition, so this is the loss of the mechanism
/// that releases all that those m parties released; its order does not matter.
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

/// The sum of the `most` largest.
fn largest(of: impl Iterator<Item = Fixed>, most: usize) -> Fixed {
    let mut all: Vec<Fixed> = of.collect();
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

    fn of(rule: Overlap, parties: &[Curve]) -> f64 {
        across(rule, parties, delta()).unwrap().map_or(f64::INFINITY, Epsilon::get)
    }

    fn dominates(a: &Curve, b: &Curve) -> bool {
        a.side_delta() >= b.side_delta() && a.losses().zip(b.losses()).all(|((_, a), (_, b))| a >= b)
    }

    proptest! {
        #[test]
        fn the_consortium_covers_every_set_of_parties_that_one_person_may_be_in(rule in rules(), parties in curves()) {
            let grid = OrderGrid::standard();
            let together = combined(rule, &grid, &parties).unwrap();
            let most = rule.most(parties.len());
            for chosen in 0u32..1 << parties.len() {
                if chosen.count_ones() as usize > most {
                    continue;
                }
                let chosen = parties.iter().enumerate().filter(|(index, _)| chosen >> index & 1 == 1);
                let sum = chosen.fold(Curve::zero(&grid), |sum, (_, party)| sum.add(party).unwrap());
                prop_assert!(dominates(&together, &sum));
                let alone = convert::epsilon(&sum, delta()).map_or(f64::INFINITY, Epsilon::get);
                prop_assert!(of(rule, &parties) >= alone, "{:?}", rule);
            }
        }

        #[test]
        fn who_may_be_in_more_datasets_is_never_said_to_lose_less(parties in curves(), few in 0u32..6, more in 0u32..6) {
            let at_most = |most| Overlap::Overlapping { at_most: Some(most) };
            let (few, more) = (few.min(more), few.max(more));
            prop_assert!(of(at_most(few), &parties) <= of(at_most(more), &parties));
            prop_assert!(of(Overlap::Disjoint, &parties) <= of(at_most(few), &parties));
            prop_assert!(of(at_most(more), &parties) <= of(Overlap::default(), &parties));
        }

        #[test]
        fn the_parties_have_no_order(rule in rules(), mut parties in curves(), turn in 0usize..6) {
            let before = combined(rule, &OrderGrid::standard(), &parties).unwrap();
            let (middle, of_before) = (turn.min(parties.len()), of(rule, &parties));
            parties.rotate_left(middle);
            prop_assert_eq!(combined(rule, &OrderGrid::standard(), &parties).unwrap(), before);
            prop_assert_eq!(of(rule, &parties).to_bits(), of_before.to_bits());
        }
    }

    #[test]
    fn disjoint_people_lose_what_their_own_party_loses_and_others_the_sum() {
        let parties: Vec<Curve> = [3u128, 1, 2].iter().map(|&nats| curve(&[nats << 60; 8], 0)).collect();
        let sum = |count: u128| convert::epsilon(&curve(&[count << 60; 8], 0), delta()).unwrap().get();
        let same = |a: f64, b: f64| assert_eq!(a.to_bits(), b.to_bits());
        same(of(Overlap::Disjoint, &parties), sum(3));
        same(of(Overlap::Overlapping { at_most: Some(2) }, &parties), sum(5));
        same(of(Overlap::default(), &parties), sum(6));
        same(of(Overlap::default(), &[]), 0.0);
    }

    #[test]
    fn one_party_without_a_finite_loss_leaves_the_consortium_none() {
        let parties = [curve(&[1 << 60; 8], 0), Curve::infinite(&OrderGrid::standard())];
        for rule in [Overlap::Disjoint, Overlap::default()] {
            assert_eq!(across(rule, &parties, delta()), Ok(None));
        }
    }

    #[test]
    fn curves_on_different_orders_are_not_put_together() {
        let parties = [Curve::zero(&OrderGrid::standard()), Curve::zero(&OrderGrid::research())];
        assert_eq!(across(Overlap::Disjoint, &parties, delta()), Err(CurveError::GridMismatch));
    }

    #[test]
    fn the_rule_is_stored_in_words() {
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
