//! Laws that hold for every event: how costs compose, and in which direction they move.

use proptest::prelude::*;

use super::{PriceError, curve};
use crate::adjacency::Adjacency;
use crate::convert;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::event::any::{delta, event, noise, quieter, rate};
use crate::unit::{Delta, Epsilon, NoiseMultiplier, Order, SamplingRate};

const ADJACENCIES: [Adjacency; 3] = [Adjacency::AddRemove, Adjacency::ZeroOut, Adjacency::ReplaceOne];

/// Integer and fractional orders, near 1 and far.
fn grid() -> OrderGrid {
    let orders = [1.000_976_562_5, 1.031_25, 1.5, 2.0, 2.25, 4.0, 5.5, 16.0, 64.0];
    OrderGrid::new(orders.into_iter().filter_map(|order| Order::new(order).ok()).collect()).expect("increasing orders")
}

/// The price, or nothing where the event has no formula.
fn price(event: &Event, adjacency: Adjacency) -> Option<Curve> {
    match curve(event, adjacency, &grid()) {
        Ok(curve) => Some(curve),
        Err(PriceError::NoFormula { .. } | PriceError::NoPrice { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn at_most(a: &Curve, b: &Curve) -> bool {
    a.side_delta() <= b.side_delta() && a.losses().zip(b.losses()).all(|((_, a), (_, b))| a <= b)
}

proptest! {
    #[test]
    fn repeated_is_composed(event in event(), count in 0u64..9) {
        let repeated = event.clone().times(count);
        let composed = Event::Composed { events: vec![event; count as usize] };
        for adjacency in ADJACENCIES {
            // Composing nothing has a price even where the part has none.
            if count > 0 || price(&repeated, adjacency).is_some() {
                prop_assert_eq!(price(&repeated, adjacency), price(&composed, adjacency));
            }
        }
    }

    #[test]
    fn the_order_of_releases_does_not_matter(mut events in prop::collection::vec(event(), 0..6), turn in 0usize..6) {
        let forward = Event::Composed { events: events.clone() };
        let middle = turn.min(events.len());
        events.rotate_left(middle);
        events.reverse();
        let backward = Event::Composed { events };
        for adjacency in ADJACENCIES {
            prop_assert_eq!(price(&forward, adjacency), price(&backward, adjacency));
        }
    }

    #[test]
    fn nesting_does_not_matter(a in event(), b in event(), c in event(), m in 0u64..50, n in 0u64..50) {
        let flat = Event::Composed { events: vec![a.clone(), b.clone(), c.clone()] };
        let nested = Event::Composed { events: vec![a.clone(), Event::Composed { events: vec![b, c] }] };
        prop_assert_eq!(price(&flat, Adjacency::AddRemove), price(&nested, Adjacency::AddRemove));
        let (twice, once) = (a.clone().times(m).times(n), a.times(m * n));
        prop_assert_eq!(price(&twice, Adjacency::AddRemove), price(&once, Adjacency::AddRemove));
    }

    #[test]
    fn more_noise_never_costs_more(event in event(), factor in 1.000_001f64..50.0) {
        if let Some(quieter) = quieter(&event, factor) {
            for adjacency in ADJACENCIES {
                if let Some((loud, quiet)) = price(&event, adjacency).zip(price(&quieter, adjacency)) {
                    prop_assert!(at_most(&quiet, &loud), "{:?} costs more than {:?}", quieter, event);
                }
            }
        }
    }

    #[test]
    fn more_steps_never_cost_less(event in event(), few in 0u64..10_000, extra in 0u64..10_000) {
        for adjacency in ADJACENCIES {
            let price = |count| price(&event.clone().times(count), adjacency);
            if let Some((less, more)) = price(few).zip(price(few + extra)) {
                prop_assert!(at_most(&less, &more));
            }
        }
    }

    #[test]
    fn sampling_more_never_costs_less(z in noise(), a in rate(), b in rate()) {
        let price = |sampling_rate| {
            let event = Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: z };
            price(&event, Adjacency::AddRemove).expect("priced")
        };
        prop_assert!(at_most(&price(a.min(b)), &price(a.max(b))));
        let whole = Event::Gaussian { noise_multiplier: z };
        prop_assert_eq!(price(SamplingRate::ONE), curve(&whole, Adjacency::AddRemove, &grid()).expect("priced"));
    }

    #[test]
    fn replacing_a_unit_never_costs_less_than_removing_it(event in event()) {
        let (remove, zero) = (price(&event, Adjacency::AddRemove), price(&event, Adjacency::ZeroOut));
        prop_assert_eq!(&remove, &zero);
        if let Some((replace, remove)) = price(&event, Adjacency::ReplaceOne).zip(remove) {
            prop_assert!(at_most(&remove, &replace));
        }
    }

    #[test]
    fn a_release_without_noise_inside_anything_costs_infinity(event in event(), count in 1u64..9) {
        let leak = Event::Composed { events: vec![event, Event::NonPrivate.times(count)] };
        if let Some(price) = price(&leak, Adjacency::AddRemove) {
            prop_assert!(price.is_infinite());
            prop_assert_eq!(convert::epsilon(&price, Delta::new(0.5).expect("below 1")), None);
        }
    }

    #[test]
    fn a_larger_delta_never_needs_a_larger_epsilon_and_a_promise_is_kept(event in event(), a in delta(), b in delta()) {
        let Some(price) = price(&event, Adjacency::AddRemove) else { return Ok(()) };
        let (small, large) = (if a < b { a } else { b }, if a < b { b } else { a });
        let at = |delta| convert::epsilon(&price, delta).map_or(f64::INFINITY, Epsilon::get);
        prop_assert!(at(large) <= at(small));
        // The ε at δ promises that δ again, up to rounding.
        if let Some(epsilon) = convert::epsilon(&price, small).filter(|epsilon| epsilon.get() > 0.0) {
            let again = convert::delta(&price, epsilon).map_or(1.0, Delta::get);
            prop_assert!(again <= small.get() * (1.0 + 1e-6) + 1e-300, "{} {}", again, small.get());
        }
    }

    #[test]
    fn a_stored_event_has_the_same_price(event in event()) {
        let text = serde_json::to_string(&event).expect("events can be written");
        let read: Event = serde_json::from_str(&text).expect("events can be read");
        prop_assert_eq!(price(&event, Adjacency::AddRemove), price(&read, Adjacency::AddRemove));
    }
}

#[test]
fn what_has_no_formula_is_an_error_and_not_free() {
    let event = Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(0.1).expect("in range"),
        noise_multiplier: NoiseMultiplier::new(1.0).expect("in range"),
    };
    let composed = Event::Composed { events: vec![event.times(0)] };
    assert!(matches!(curve(&composed, Adjacency::ReplaceOne, &grid()), Err(PriceError::NoFormula { .. })));
}

#[test]
fn no_noise_is_so_loud_and_no_sample_so_small_that_a_release_is_free() {
    let (loud, tiny) = (NoiseMultiplier::new(1e200).expect("finite"), Epsilon::new(1e-300).expect("finite"));
    let sampling_rate = SamplingRate::new(1e-12).expect("positive");
    for event in [
        Event::Gaussian { noise_multiplier: loud },
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: loud },
        Event::Laplace { epsilon: tiny },
        Event::Pure { epsilon: tiny },
        Event::Approximate { epsilon: tiny, delta: Delta::new(1e-300).expect("below 1") },
    ] {
        let cost = price(&event, Adjacency::AddRemove).expect("priced");
        assert!(cost.losses().all(|(_, loss)| loss.units() >= 1), "{event:?}");
    }
}

#[test]
fn a_side_mass_adds_up_and_is_taken_from_delta() {
    let event = Event::Approximate {
        epsilon: Epsilon::new(0.5).expect("in range"),
        delta: Delta::new(1e-7).expect("in range"),
    };
    let cost = curve(&event.times(9), Adjacency::AddRemove, &OrderGrid::reporting()).expect("priced");
    assert!((cost.side_delta().to_f64_up() - 9e-7).abs() < 1e-18);
    let at = |delta| convert::epsilon(&cost, Delta::new(delta).expect("in range"));
    assert_eq!(at(8.9e-7), None);
    assert!(at(1e-6).is_some_and(|epsilon| epsilon.get() > at(1e-5).map_or(f64::INFINITY, Epsilon::get)));
}

/// Stored accounts were charged these very units. A change here needs a new [`super::EVALUATOR_VERSION`], with the old
/// evaluator kept; a machine on which this fails must not keep a ledger.
#[test]
fn prices_are_the_same_bits_everywhere_and_under_one_version_forever() {
    let grid = OrderGrid::new([1.031_25, 1.5, 2.0, 8.0, 64.0].into_iter().filter_map(|a| Order::new(a).ok()).collect());
    let grid = grid.expect("increasing orders");
    let (z, epsilon) = (NoiseMultiplier::new(1.1).expect("in range"), Epsilon::new(0.3).expect("in range"));
    let sampling_rate = SamplingRate::new(0.01).expect("in range");
    let events = [
        Event::Gaussian { noise_multiplier: z },
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: z },
        Event::Laplace { epsilon },
        Event::Pure { epsilon },
    ];
    let units: Vec<Vec<String>> = events
        .iter()
        .map(|event| {
            let curve = curve(event, Adjacency::AddRemove, &grid).expect("priced");
            curve.losses().map(|(_, loss)| loss.to_string()).collect()
        })
        .collect();
    assert_eq!(super::EVALUATOR_VERSION, "rdp-1");
    assert_eq!(units, GOLDEN);
}

/// Units of 2⁻⁶⁴ nat, by event and order.
const GOLDEN: [[&str; 5]; 4] = [
    [
        "7860828440508377088",
        "11433932277103095808",
        "15245243036137459712",
        "60980972144549838848",
        "487847777156398710784",
    ],
    ["1202050105378630", "1762499436409242", "2370592590679440", "10774196021998386", "401548962355437174784"],
    ["776166721570299264", "1118552856631435264", "1468177599879706624", "3902974690911592960", "5333362467231137792"],
    ["849274995862581632", "1222381096744449280", "1601152118421900800", "4102272593714316288", "5371704978933153792"],
];
