//! Laws that hold for every event: composition of costs, and monotonicity in the parameters.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::{PriceError, curve, noise_curve};
use crate::adjacency::Adjacency;
use crate::convert;
use crate::curve::{Curve, OrderGrid};
use crate::event::any::{delta, event, noise, quieter, rate};
use crate::event::{DistributedNoise, Event};
use crate::histogram::Partition;
use crate::kanon::Shown;
use crate::selection::Runs;
use crate::unit::{Delta, Epsilon, GridSteps, MeanRuns, NoiseMultiplier, NoiseSteps, Order, SamplingRate};

const ADJACENCIES: [Adjacency; 3] = [Adjacency::AddRemove, Adjacency::ZeroOut, Adjacency::ReplaceOne];

/// Returns integer and fractional orders, near 1 and far.
fn grid() -> OrderGrid {
    let orders = [1.000_976_562_5, 1.031_25, 1.5, 2.0, 2.25, 4.0, 5.5, 16.0, 64.0];
    OrderGrid::new(orders.into_iter().filter_map(|order| Order::new(order).ok()).collect()).expect("increasing orders")
}

/// Returns the price; `None` where the event has no formula.
fn price(event: &Event, adjacency: Adjacency) -> Option<Curve> {
    match curve(event, adjacency, &grid()) {
        Ok(curve) => Some(curve),
        Err(PriceError::NoPrice { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn at_most(a: &Curve, b: &Curve) -> bool {
    a.side_delta() <= b.side_delta() && a.losses().zip(b.losses()).all(|((_, a), (_, b))| a <= b)
}

proptest! {
    #[test]
    fn repeated_cost_equals_composed_cost(event in event(), count in 0u64..9) {
        let repeated = event.clone().times(count);
        let composed = Event::Composed { events: vec![event; count as usize] };
        for adjacency in ADJACENCIES {
            // Composing nothing has a price even where the part has none.
            if count > 0 || price(&repeated, adjacency).is_some() {
                prop_assert_eq!(price(&repeated, adjacency), price(&composed, adjacency));
            }
        }
    }

    /// Both relations can share an account because of this law.
    #[test]
    fn zero_out_cost_equals_add_remove_cost(event in event()) {
        prop_assert!(Adjacency::AddRemove.shares_account(Adjacency::ZeroOut));
        prop_assert_eq!(curve(&event, Adjacency::ZeroOut, &grid()).ok(), curve(&event, Adjacency::AddRemove, &grid()).ok());
    }

    #[test]
    fn cost_ignores_order_of_releases(mut events in prop::collection::vec(event(), 0..6), turn in 0usize..6) {
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
    fn cost_ignores_nesting(a in event(), b in event(), c in event(), m in 0u64..50, n in 0u64..50) {
        let flat = Event::Composed { events: vec![a.clone(), b.clone(), c.clone()] };
        let nested = Event::Composed { events: vec![a.clone(), Event::Composed { events: vec![b, c] }] };
        prop_assert_eq!(price(&flat, Adjacency::AddRemove), price(&nested, Adjacency::AddRemove));
        let twice = a.clone().times(m).times(n);
        let once = a.times(m * n);
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
    fn planner_price_equals_ledger_price_or_none(event in event()) {
        for adjacency in ADJACENCIES {
            if let Ok(planned) = noise_curve(&event, adjacency, &grid()) {
                prop_assert_eq!(Ok(planned), curve(&event, adjacency, &grid()));
            }
        }
    }

    #[test]
    fn discrete_cost_bounds_continuous_and_rises_with_rate(
        z in noise(), a in rate(), b in rate()
    ) {
        let steps = NoiseSteps::new(4096.0).expect("in range");
        let price = |sampling_rate| {
            let event = Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier: z, steps };
            price(&event, Adjacency::AddRemove).expect("priced")
        };
        prop_assert!(at_most(&price(a.min(b)), &price(a.max(b))));
        prop_assert_eq!(price(SamplingRate::ONE), curve(&Event::Gaussian { noise_multiplier: z }, Adjacency::AddRemove, &grid()).expect("priced"));
        let whole = OrderGrid::standard();
        let continuous = Event::PoissonSampledGaussian { sampling_rate: a, noise_multiplier: z };
        let discrete = Event::PoissonSampledDiscreteGaussian { sampling_rate: a, noise_multiplier: z, steps };
        // On the ledger's integer orders they are one.
        prop_assert_eq!(curve(&discrete, Adjacency::AddRemove, &whole), curve(&continuous, Adjacency::AddRemove, &whole));
    }

    #[test]
    fn replacement_never_costs_less_than_removal(event in event()) {
        let remove = price(&event, Adjacency::AddRemove);
        let zero = price(&event, Adjacency::ZeroOut);
        prop_assert_eq!(&remove, &zero);
        if let Some((replace, remove)) = price(&event, Adjacency::ReplaceOne).zip(remove) {
            prop_assert!(at_most(&remove, &replace));
        }
    }

    #[test]
    fn nested_release_without_noise_costs_infinity(event in event(), count in 1u64..9) {
        let leak = Event::Composed { events: vec![event, Event::NonPrivate.times(count)] };
        if let Some(price) = price(&leak, Adjacency::AddRemove) {
            prop_assert!(price.is_infinite());
            prop_assert_eq!(convert::epsilon(&price, Delta::new(0.5).expect("below 1")), None);
        }
    }

    #[test]
    fn larger_delta_never_needs_larger_epsilon(event in event(), a in delta(), b in delta()) {
        let Some(price) = price(&event, Adjacency::AddRemove) else { return Ok(()) };
        let small = if a < b { a } else { b };
        let large = if a < b { b } else { a };
        let at = |delta| convert::epsilon(&price, delta).map_or(f64::INFINITY, Epsilon::get);
        prop_assert!(at(large) <= at(small));
        // The ε at δ guarantees that δ again, up to rounding: both are rounded up by some ulps of ε times the order.
        if let Some(epsilon) = convert::epsilon(&price, small).filter(|epsilon| epsilon.get() > 0.0) {
            let again = convert::delta(&price, epsilon).map_or(1.0, Delta::get);
            let largest = grid().orders().iter().map(|order| order.get()).fold(1.0, f64::max);
            let slack = 1e-6 + 16.0 * f64::EPSILON * largest * epsilon.get();
            prop_assert!(again <= small.get() * (1.0 + slack) + 1e-300, "{} {}", again, small.get());
        }
    }

    #[test]
    fn stored_event_has_the_same_price(event in event()) {
        let text = serde_json::to_string(&event).expect("events can be written");
        let read: Event = serde_json::from_str(&text).expect("events can be read");
        prop_assert_eq!(price(&event, Adjacency::AddRemove), price(&read, Adjacency::AddRemove));
    }
}

#[test]
fn event_without_formula_is_an_error() {
    let threshold: Event = serde_json::from_str(STORED[11]).expect("events can be read");
    let composed = Event::Composed { events: vec![threshold.times(0)] };
    let price = super::noise_curve(&composed, Adjacency::AddRemove, &grid());
    assert!(matches!(price, Err(PriceError::NoPrice { .. })), "{price:?}");
}

#[test]
fn substitution_cost_equals_replacement_cost() {
    for text in STORED.iter().filter(|text| !text.contains("non_private")) {
        let of: Event = serde_json::from_str(text).expect(text);
        let replaced = price(&of, Adjacency::ReplaceOne).expect(text);
        let substituted = Event::Substituted { of: Box::new(of) };
        for adjacency in ADJACENCIES {
            assert_eq!(price(&substituted, adjacency).as_ref(), Some(&replaced), "{text}");
        }
    }
}

#[test]
fn wrapped_void_guarantee_has_no_price() {
    let read = |text: &str| serde_json::from_str::<Event>(text).expect("events can be read");
    for (text, why) in [
        // Every row is sampled; ε is below −ln(1 − β).
        (
            r#"{"event":"sampled_threshold","sampling_rate":1.0,"threshold":20,"epsilon":1.0,"shown":"set","rows_per_unit":1}"#,
            "sampling rate",
        ),
        (
            r#"{"event":"sampled_threshold","sampling_rate":0.5,"threshold":20,"epsilon":0.5,"shown":"counts","rows_per_unit":1}"#,
            "epsilon must be at least",
        ),
        // A thousand rows for a unit: δ is beyond 1.
        (
            r#"{"event":"sampled_threshold","sampling_rate":0.1,"threshold":9,"epsilon":0.5,"shown":"counts","rows_per_unit":1000}"#,
            "delta would reach 1",
        ),
        (
            r#"{"event":"poisson_sampled_distributed_discrete_gaussian","sampling_rate":0.25,"noise":{"clip":1.0,"noise":0.4,"contributors":2,"dimension":1,"rounding_bias":0.5}}"#,
            "half a step",
        ),
        (
            r#"{"event":"truncated_laplace","rate":0.0,"shift":9,"distance":2,"partition":{"providers":1,"colluding":1}}"#,
            "loss per word",
        ),
        (
            r#"{"event":"truncated_laplace","rate":0.1,"shift":0,"distance":9,"partition":{"providers":1,"colluding":1}}"#,
            "delta would reach 1",
        ),
        (
            r#"{"event":"selected","of":{"event":"approximate","epsilon":1.0,"delta":1e-9},"runs":{"distribution":"poisson","mean":3.0}}"#,
            "delta of their own",
        ),
    ] {
        let event = read(text);
        let wrapped = Event::Composed { events: vec![event.clone().times(0), Event::NonPrivate] };
        for event in [event.clone(), event.times(3), wrapped] {
            let refused = curve(&event, Adjacency::AddRemove, &grid()).expect_err(text);
            assert!(matches!(refused, PriceError::NoPrice { .. }) && refused.to_string().contains(why), "{refused}");
        }
    }
}

#[test]
fn extreme_noise_or_sampling_is_never_free() {
    let loud = NoiseMultiplier::new(1e200).expect("finite");
    let tiny = Epsilon::new(1e-300).expect("finite");
    let sampling_rate = SamplingRate::new(1e-12).expect("positive");
    let steps = NoiseSteps::new(1e100).expect("large");
    let one = NonZeroU32::MIN;
    let many = NonZeroU32::new(100_000).expect("not 0");
    let mean = MeanRuns::new(1.0).expect("in range");
    let distributed = DistributedNoise {
        clip: GridSteps::new(1e-200).expect("positive"),
        noise: GridSteps::new(1e100).expect("finite"),
        contributors: many,
        dimension: one,
        rounding_bias: Delta::new(0.5).expect("in range"),
    };
    for event in [
        Event::Gaussian { noise_multiplier: loud },
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: loud },
        Event::Laplace { epsilon: tiny },
        Event::Pure { epsilon: tiny },
        Event::Approximate { epsilon: tiny, delta: Delta::new(1e-300).expect("below 1") },
        Event::DiscreteGaussian { noise_multiplier: loud, steps },
        Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier: loud, steps },
        Event::DistributedDiscreteGaussian(distributed),
        Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise: Box::new(distributed) },
        Event::SampledThreshold {
            sampling_rate,
            threshold: many,
            epsilon: Epsilon::new(1e-9).expect("in range"),
            shown: Shown::Set,
            rows_per_unit: one,
        },
        Event::TruncatedLaplace { rate: tiny, shift: 2, distance: one, partition: Partition::NONE },
        Event::Selected { of: Box::new(Event::Pure { epsilon: tiny }), runs: Runs::Poisson { mean } },
    ] {
        let cost = price(&event, Adjacency::AddRemove).expect("priced");
        assert!(cost.losses().all(|(_, loss)| loss.units() >= 1), "{event:?}");
        let delta = matches!(
            event,
            Event::Approximate { .. } | Event::SampledThreshold { .. } | Event::TruncatedLaplace { .. }
        );
        assert!(!delta || cost.side_delta().units() >= 1, "{event:?}");
    }
}

/// One event of each kind, in its stored form. These texts must stay readable, with this meaning, as long as ledgers
/// exist.
const STORED: [&str; 16] = [
    r#"{"event":"gaussian","noise_multiplier":1.1}"#,
    r#"{"event":"poisson_sampled_gaussian","sampling_rate":0.25,"noise_multiplier":1.1}"#,
    r#"{"event":"laplace","epsilon":0.3}"#,
    r#"{"event":"pure","epsilon":0.3}"#,
    r#"{"event":"approximate","epsilon":0.3,"delta":1e-7}"#,
    r#"{"event":"non_private"}"#,
    r#"{"event":"composed","events":[{"event":"pure","epsilon":0.3},{"event":"laplace","epsilon":0.3}]}"#,
    r#"{"event":"repeated","count":3,"of":{"event":"pure","epsilon":0.3}}"#,
    r#"{"event":"discrete_gaussian","noise_multiplier":1.1,"steps":1024.0}"#,
    r#"{"event":"poisson_sampled_discrete_gaussian","sampling_rate":0.25,"noise_multiplier":1.1,"steps":1024.0}"#,
    r#"{"event":"distributed_discrete_gaussian","clip":100.0,"noise":50.0,"contributors":3,"dimension":1000,"rounding_bias":0.5}"#,
    r#"{"event":"sampled_threshold","sampling_rate":0.25,"threshold":20,"epsilon":0.5,"shown":"counts_tight","rows_per_unit":2}"#,
    r#"{"event":"truncated_laplace","rate":0.25,"shift":60,"distance":3,"partition":{"providers":4,"colluding":2}}"#,
    r#"{"event":"selected","of":{"event":"gaussian","noise_multiplier":4.0},"runs":{"distribution":"truncated_negative_binomial","shape":1.0,"stopping":0.125}}"#,
    r#"{"event":"substituted","of":{"event":"poisson_sampled_gaussian","sampling_rate":0.25,"noise_multiplier":1.1}}"#,
    r#"{"event":"poisson_sampled_distributed_discrete_gaussian","sampling_rate":0.25,"noise":{"clip":100.0,"noise":50.0,"contributors":3,"dimension":1000,"rounding_bias":0.5}}"#,
];

#[test]
fn stored_form_of_every_event_is_stable() {
    let mut names: Vec<&str> = Vec::new();
    for text in STORED {
        let event: Event = serde_json::from_str(text).expect(text);
        assert_eq!(serde_json::to_string(&event).expect("events can be written"), text);
        names.push(event.name());
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), STORED.len());
}

#[test]
fn side_mass_adds_and_reduces_delta() {
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

/// Stored accounts were charged these exact units. A change here needs a new [`super::EVALUATOR_VERSION`], with the old
/// evaluator kept; a machine on which this test fails must not keep a ledger.
#[test]
fn prices_match_golden_bits() {
    let grid = OrderGrid::new([1.031_25, 1.5, 2.0, 8.0, 64.0].into_iter().filter_map(|a| Order::new(a).ok()).collect());
    let grid = grid.expect("increasing orders");
    let sampled = r#"{"event":"poisson_sampled_gaussian","sampling_rate":0.01,"noise_multiplier":1.1}"#;
    let texts = [STORED[0], sampled, STORED[2], STORED[3]].into_iter().chain(STORED[8..].iter().copied());
    let units: Vec<Vec<String>> = texts
        .map(|text| {
            let event: Event = serde_json::from_str(text).expect(text);
            let curve = curve(&event, Adjacency::AddRemove, &grid).expect("priced");
            let all = curve.losses().map(|(_, loss)| loss).chain([curve.side_delta()]);
            all.map(|units| units.to_string()).collect()
        })
        .collect();
    assert!(super::can_verify("rdp-1") && super::EVALUATOR_VERSION == "rdp-2");
    assert_eq!(units, GOLDEN);
}

/// Units of 2⁻⁶⁴ nat, by event and order, and of the side mass.
const GOLDEN: [[&str; 6]; 12] = [
    [
        "7860828440508377088",
        "11433932277103095808",
        "15245243036137459712",
        "60980972144549838848",
        "487847777156398710784",
        "0",
    ],
    ["1202050105378630", "1762499436409242", "2370592590679440", "10774196021998386", "401548962355437174784", "0"],
    [
        "776166721570299264",
        "1118552856631435264",
        "1468177599879706624",
        "3902974690911592960",
        "5333362467231137792",
        "0",
    ],
    [
        "849274995862581632",
        "1222381096744449280",
        "1601152118421900800",
        "4102272593714316288",
        "5371704978933153792",
        "0",
    ],
    [
        "7860828440508377088",
        "11433932277103095808",
        "15245243036137459712",
        "60980972144549838848",
        "487847777156398710784",
        "0",
    ],
    [
        "1425213175827737856",
        "1425213175827737856",
        "1425213175827737856",
        "31957458258938540032",
        "461869245305805144064",
        "0",
    ],
    [
        "13172120394363844608",
        "19159447846347407360",
        "25545930461796544512",
        "102183721847186178048",
        "817469774777489424384",
        "0",
    ],
    [
        "8749040046813873152",
        "11572244789215406080",
        "13564364335675031552",
        "17621222283033284608",
        "18355019340746137600",
        "190582598938801",
    ],
    [
        "1840711670481090560",
        "2618070431485111808",
        "3365431208174038016",
        "6882361864394386432",
        "8040116964849875968",
        "7416060258425",
    ],
    [
        "27643194528868929536",
        "27643194528868929536",
        "27643194528868929536",
        "27643194528868929536",
        "55162542003907829760",
        "0",
    ],
    [
        "2705401070433881088",
        "4916467497313265664",
        "8921743663980674048",
        "187421423123389546496",
        "1899638600293311053824",
        "0",
    ],
    [
        "1129594417803595264",
        "1931129549197232640",
        "3164462636320698880",
        "72961780280735014912",
        "791491242926899593216",
        "0",
    ],
];
