//! The charge of a job with a selection, against the vectors of Papernot and Steinke's formula.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use std::num::NonZeroU16;

use serde_json::Value;
use undertone_privacy::unit::{Order, RunShape, StoppingRate};
use undertone_privacy::{
    Adjacency, Delta, Event, NoiseMultiplier, OrderGrid, SamplingRate, convert, mechanism, selection,
};

use super::{SelectionCandidate, SelectionOptions};
use crate::job::dp_sgd::tests::{changed, event};
use crate::vectors;

/// Returns the cases of truncated negative binomial runs over sampled Gaussian steps, the form that jobs have.
fn cases() -> Vec<Value> {
    let mut cases = vectors::select_kind("private_selection", "tnb", &["poisson", "liu_talwar_pure"]);
    cases.retain(|case| case["base"]["type"] == "sgm");
    assert_eq!(cases.len(), 2, "cases of sampled Gaussian steps");
    cases
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn selection(shape: f64, stopping: f64, most: u16) -> SelectionOptions {
    SelectionOptions {
        shape: RunShape::new(shape).unwrap(),
        stopping: StoppingRate::new(stopping).unwrap(),
        most_runs: NonZeroU16::new(most).unwrap(),
        development: 10,
        candidates: vec![
            SelectionCandidate { learning_rate: 0.1, clip: 1.0 },
            SelectionCandidate { learning_rate: 0.3, clip: 0.5 },
        ],
    }
}

/// Returns the release of a job in a round of so many sampled steps with a selection.
fn selected_event(base: &Value, selection: SelectionOptions) -> Event {
    event(&changed(|spec| {
        spec.private.as_mut().unwrap().local_steps = number(&base["steps"]) as u32;
        spec.participants[1].sampling_rate = SamplingRate::new(number(&base["q"])).unwrap();
        spec.participants[1].noise.as_mut().unwrap().noise_multiplier =
            NoiseMultiplier::new(number(&base["sigma"])).unwrap();
        spec.selection = Some(selection);
    }))
}

#[test]
fn selection_round_costs_the_reference_values() {
    for case in cases() {
        let (eta, gamma) = (number(&case["eta"]), number(&case["gamma"]));
        let event = selected_event(&case["base"], selection(eta, gamma, 1000));
        let Event::Selected { of: run, runs } = &event else { panic!("{event:?}") };
        let numbers = |field: &str| case[field].as_array().unwrap().iter().map(number).collect::<Vec<_>>();
        let grid =
            OrderGrid::new(numbers("orders").into_iter().map(|order| Order::new(order).unwrap()).collect()).unwrap();
        // The formula on the vectors' own orders gives their figures. (The sampling rate is rounded up by less than
        // 2⁻³², and of a thousand runs all but a 10⁻⁴th are within the bound.)
        let base = mechanism::curve(run, Adjacency::ZeroOut, &grid).unwrap();
        let formula = selection::curve(&base, *runs).unwrap();
        for ((order, loss), said) in formula.losses().zip(numbers("rdp")) {
            let ratio = loss.to_f64_up() / said;
            assert!((1.0..1.0 + 2e-4).contains(&(ratio * (1.0 + 1e-9))), "{}: {ratio}", order.get());
        }
        // The charge is never more, because the free order is chosen among more orders.
        let price = mechanism::curve(&event, Adjacency::ZeroOut, &grid).unwrap();
        let epsilon = convert::epsilon(&price, Delta::new(number(&case["delta"])).unwrap()).unwrap().get();
        let ratio = epsilon / number(&case["epsilon"]);
        assert!((0.97..1.0 + 2e-4).contains(&ratio), "{ratio}");
    }
}

#[test]
fn a_bound_on_the_runs_is_paid_for() {
    let base = serde_json::json!({"steps": 20, "q": 0.05, "sigma": 2.0});
    let loss = |most| {
        let event = selected_event(&base, selection(1.0, 0.1, most));
        let curve = mechanism::curve(&event, Adjacency::ZeroOut, &OrderGrid::standard()).unwrap();
        curve.losses().last().unwrap().1.to_f64_up()
    };
    let (near, mean, far) = (loss(10), loss(30), loss(500));
    assert!(near > mean && mean > far, "{near} {mean} {far}");
    // The truncated part of E[K]: (1 + 30/10) 0.9^30.
    let tail = -(1.0 - 4.0 * 0.9_f64.powi(30)).ln();
    assert!((mean - far - tail).abs() < 0.01 * tail + 1e-3, "{} {tail}", mean - far);
}

#[test]
fn candidates_change_no_price() {
    let base = serde_json::json!({"steps": 20, "q": 0.05, "sigma": 2.0});
    let one = selection(0.0, 0.1, 20);
    let mut other = selection(0.0, 0.1, 20);
    other.candidates.push(SelectionCandidate { learning_rate: 5.0, clip: 0.01 });
    other.development = 1000;
    assert_eq!(selected_event(&base, one), selected_event(&base, other));
}
